/* What a parameter server holds: a vector of parameters and the optimizer's slots, and the small graph that updates
 * them. Large vectors are updated in blocks, so that the mean of several gradients needs room for one block only. */
#ifndef SHOAL_DIST_PS_VECTORS_H
#define SHOAL_DIST_PS_VECTORS_H

#include "base/pool.h"
#include "dist/ps_server.h"

enum { PS_PARAMETERS = 0 }; /* the vector's number; slot k has k + 1 */

typedef struct {
  const float *values; /* [elements], or of the rows the worker asked for; borrowed */
  int64_t examples;    /* it is the mean over */
  int worker;
  /* Of a round (ps_protocol.h, 14): its leaves, and `values` is [nodes of them][elements]; round_rows 0: of none. */
  int64_t first_leaf, last_leaf, round_rows;
} ps_gradient;

/* Whether they are all parts of one round, in its order. */
bool ps_gradients_make_round(const ps_gradient *gradients, int n);

typedef struct ps_vectors ps_vectors;

/* Borrows both. */
SHOAL_CHECKED shoal_status ps_vectors_create(const ps_server_options *options, const ps_terms *terms, ps_vectors **out);
void ps_vectors_destroy(ps_vectors *v);
int ps_vectors_count(const ps_vectors *v);
/* How many parts a vector has, and the parts themselves: the vector's own memory. */
int ps_vectors_n_parts(const ps_vectors *v);
void ps_vectors_parts(const ps_vectors *v, int which, net_part *out);
/* Elements [first, first + count) become from [count]. */
void ps_vectors_set(ps_vectors *v, int which, int64_t first, int64_t count, const float *from);
/* Elements from `first` on; *count: how many follow each other there. */
const float *ps_vectors_run(const ps_vectors *v, int which, int64_t first, int64_t *count);
/* The threads that sum and update. */
pool *ps_vectors_pool(const ps_vectors *v);
/* The optimizer's own count of updates; NULL: it has none. */
int64_t *ps_vectors_counter(ps_vectors *v);
/* The memory of a vector that is a table's: it has one part. */
float *ps_vectors_table(const ps_vectors *v, int which);
/* Of a table: one update of the rows keys [n], ascending, by gradients [n, width]. */
SHOAL_CHECKED shoal_status ps_vectors_apply_rows(ps_vectors *v, const int32_t *keys, const float *gradients, int64_t n,
                                                 double rate);
/* One update by the mean over the n gradients, weighted by their examples, in their order. Of a round: by the sum over
 * its tree; *uneven: they were not all parts of one round, so they were added one after the other. */
SHOAL_CHECKED shoal_status ps_vectors_apply(ps_vectors *v, const ps_gradient *gradients, int n, double rate,
                                            bool *uneven);

#endif
