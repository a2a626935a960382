/* The sum over a round's tree (dist/tree.h) of gradients that are about different rows of a table.
 *
 * A node has a number for each row that its worker asked for, 0 where none of its leaves touches the row. A row that a
 * worker did not ask for adds nothing. So a row's sum is the same whoever computed which leaves, but for the sign of a
 * zero: what comes out has none that is negative. */
#ifndef SHOAL_DIST_SPARSE_TREE_H
#define SHOAL_DIST_SPARSE_TREE_H

#include "dist/ps_vectors.h"
#include "dist/tree.h"

/* What a worker has sent: `gradient->values` are [nodes of its leaves][n, width]. */
typedef struct {
  const int32_t *keys; /* [n] ascending */
  int64_t n;
  const ps_gradient *gradient;
  /* of the sum under way */
  int64_t at; /* keys before it are done */
  tree_node nodes[TREE_NODES_MAX];
  int n_nodes;
  float scale;
} sparse_part;

/* Parts stand in the order of their leaves. Fills keys and sums [rows, width] with each row once, ascending; returns how
 * many. *uneven: as in ps_vectors_apply. */
int64_t sparse_tree_sum(sparse_part *parts, int n, int64_t width, int32_t *keys, float *sums, bool *uneven);

#endif
