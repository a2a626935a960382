/* All that a parameter server knows but for its vectors, as bytes: what a new backup begins with. Gradients that wait for
 * a step are not in it either (ps_replica.c sends them one by one). Both ends are the same program: numbers are as in
 * memory. */
#ifndef SHOAL_DIST_PS_STATE_H
#define SHOAL_DIST_PS_STATE_H

#include "dist/ps_server_internal.h"

/* Adds to `out`; the server has agreed on terms. */
SHOAL_CHECKED shoal_status ps_state_save(const server *s, text *out);
/* `s` holds nothing. SHOAL_ERR_PEER: they are no such bytes; it then has to be reset. */
SHOAL_CHECKED shoal_status ps_state_load(server *s, const uint8_t *bytes, size_t n);

#endif
