/* Computes the gradients of a step's rows in pieces, several at a time, and adds them up in a fixed order.
 *
 * The rows of all workers are cut into *leaves* of a tree (dist/tree.h). Each leaf is computed by one thread, in a
 * session of its own over the model's variables, so its gradient depends on its rows alone. Deterministic: leaves of
 * TREE_LEAF_ROWS rows, whatever the number of workers and threads. Otherwise: one leaf a part. */
#ifndef SHOAL_TRAIN_SHARDS_H
#define SHOAL_TRAIN_SHARDS_H

#include "dist/tree.h"
#include "train/strategy.h"

/* How `rows` rows are cut. */
typedef struct {
  int64_t leaves, size; /* rows of a leaf; the last may have fewer */
} shard_cut;
static inline shard_cut shard_cut_rows(int64_t rows, int parts, bool deterministic) {
  int64_t size = deterministic ? TREE_LEAF_ROWS : (rows + parts - 1) / parts;
  return (shard_cut){(rows + size - 1) / size, size};
}

typedef struct shards shards;

/* Of worker `worker` of `workers`; below 0: of any of them, see shards_take. parts: leaves of a step unless
 * deterministic. Makes all plans. */
SHOAL_CHECKED shoal_status shards_create(const strategy_setup *setup, int worker, int workers, int parts,
                                         bool deterministic, shards **out);
void shards_destroy(shards *s);
/* The leaves are that worker's from now on. */
void shards_take(shards *s, int worker);

/* What the worker's leaves have come to. */
typedef struct {
  int64_t examples;
  double loss, hits; /* sums over them */
} shards_sum;

/* Vectors that shards_run needs at most: gradients of the model's weights one after the other. */
int shards_vectors(const shards *s);
/* step: the rows of all workers. vectors: [shards_vectors][elements]. The nodes that remain of the worker's leaves (tree_nodes) stand in the first
 * ones then, times their share of the rows; with `whole` their sum in the first. SHOAL_ERR_NUMERIC: a loss is no
 * number. */
SHOAL_CHECKED shoal_status shards_run(shards *s, const train_batch *step, bool whole, float *const *vectors,
                                      shards_sum *out);

#endif
