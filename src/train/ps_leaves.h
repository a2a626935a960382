/* A worker's gradients of a table on parameter servers (ps_table.h): of a whole batch, or of its part of a round, leaf by
 * leaf, added up in the order of a tree (dist/tree.h).
 *
 * A leaf has TREE_LEAF_ROWS rows. Each is computed by one thread, in a session of its own over the model's variables, so
 * its gradient depends on its rows alone; sums go along the tree. So the step that the servers make of all parts has the
 * same bits, on however many workers and threads they were computed. */
#ifndef SHOAL_TRAIN_PS_LEAVES_H
#define SHOAL_TRAIN_PS_LEAVES_H

#include "train/ps_table.h"
#include "train/strategy.h"

typedef struct ps_leaves ps_leaves;

/* Borrows both. round: rows of a step of all workers; 0: of whole batches. */
SHOAL_CHECKED shoal_status ps_leaves_create(const strategy_setup *setup, const ps_table *table, int64_t round,
                                            int workers, ps_leaves **out);
void ps_leaves_destroy(ps_leaves *l);

/* Of the batch fetched last, whose places are `indices`; head: loss, hits and examples. SHOAL_ERR_NUMERIC: a loss is no
 * number. */
SHOAL_CHECKED shoal_status ps_leaves_run(ps_leaves *l, const train_batch *b, const shoal_tensor *indices,
                                         ps_head *head);
/* What it has come to: a vector, or one for each node of the part's leaves. Valid until the next run. */
const float *const *ps_leaves_vectors(const ps_leaves *l);

#endif
