/* The trace of A A for a random matrix A that fits on no machine, as a placed graph.
 *
 * A [n, n], uniform in [0, 1), is cut into d x d blocks. tr(A A) is the sum over i, j of tr(A_ij A_ji), and
 * tr(A_ij A_ji) = tr(A_ji A_ij), so each pair of blocks i < j counts twice and is met once. Both blocks of a pair are
 * made where they are used, out of the seed and their place in A, and are gone when the next pair is made. Each worker
 * adds up its own traces; one number of each travels. */
#ifndef SHOAL_MODELS_MATMUL_H
#define SHOAL_MODELS_MATMUL_H

#include "shoal/graph.h"

typedef struct {
  int64_t n, blocks;  /* blocks: d */
  int workers;
  bool full_product;  /* multiply the blocks and take the trace of the product, instead of its diagonal alone */
} matmul_options;

typedef struct {
  int64_t pairs;
  double worker_bytes; /* a worker needs at most */
  double flops;        /* in all */
  double made_bytes;   /* of blocks, in all */
} matmul_cost;

/* Workers are /job:worker/task:0 ... *trace: f64 scalar on the first. */
SHOAL_CHECKED shoal_status matmul_build(shoal_graph *g, const matmul_options *options, shoal_value **trace);
matmul_cost matmul_predict(const matmul_options *options);

#endif
