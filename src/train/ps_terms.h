/* What parameter servers and workers must agree on; shared by ps.c, the worker's side, and ps_serve.c, the server's. */
#ifndef SHOAL_TRAIN_PS_TERMS_H
#define SHOAL_TRAIN_PS_TERMS_H

#include "base/mem.h"
#include "base/text.h"
#include "train/ps.h"

/* Gradients of a worker that may be without answer. */
int ps_flight(const ps_options *o);
/* Whether large gradients go out while backward still runs. */
bool ps_sends_pieces(const ps_options *o);
/* Which server holds which slices of the trained weights. */
SHOAL_CHECKED shoal_status ps_place_weights(const shoal_model *m, const ps_options *o, placement *out);
/* Compared word for word. */
SHOAL_CHECKED shoal_status ps_write_settings(const ps_options *o, const shoal_model *m, const placement *p, text *out);

#endif
