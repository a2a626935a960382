/* What a model's training asks of parameter servers. */
#ifndef SHOAL_TRAIN_PS_MODEL_H
#define SHOAL_TRAIN_PS_MODEL_H

#include "dist/placement.h"
#include "dist/ps_terms.h"
#include "train/model.h"

/* Which server holds which slices of what is exchanged (model_exchanged). table: they are one (ps_table.h). */
SHOAL_CHECKED shoal_status ps_model_place(const shoal_model *m, int servers, bool table, placement *out);
/* Fills in what hangs on the model; names and lists are its own. */
SHOAL_CHECKED shoal_status ps_model_terms(const shoal_model *m, bool table, ps_terms *terms);

#endif
