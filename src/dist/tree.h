/* Sums in a fixed order, whoever adds up which part of them.
 *
 * The numbers to be added are the leaves 0, 1, ... of a binary tree. Node (start, level) stands for the leaves
 * [start, start + 2^level); start is a multiple of 2^level. It is the sum of its two halves. Whoever holds neighbouring
 * leaves adds up those nodes that lie wholly among them and hands the nodes on; whoever gets all of them adds up the
 * rest. What remains when the leaves are no power of two is added from the right. So each sum of f32 has the same bits,
 * on however many workers the leaves were computed. */
#ifndef SHOAL_DIST_TREE_H
#define SHOAL_DIST_TREE_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define TREE_NODES_MAX 64 /* that remain of any run of neighbouring leaves */
#define TREE_LEAF_ROWS 16 /* where the rows of a step are the leaves: a block of the kernels' LANES layout */

typedef struct {
  int64_t start;
  int level;
} tree_node;

/* What is added: a node and its numbers. One of the two pointers is set. */
typedef struct {
  tree_node node;
  const float *data;      /* [count], times `scale` */
  const uint16_t *halves; /* [count] bf16, as they are */
  float scale;
} tree_source;

/* The leaves that are a worker's: even shares, in order. */
static inline void tree_share(int64_t leaves, int worker, int workers, int64_t *first, int64_t *last) {
  *first = leaves * worker / workers;
  *last = leaves * (worker + 1) / workers;
}
/* Leaves of a step of so many rows; the last may have fewer than the others. */
static inline int64_t tree_leaves(int64_t rows) { return (rows + TREE_LEAF_ROWS - 1) / TREE_LEAF_ROWS; }
/* The nodes that remain of leaves [first, last); returns how many. */
int tree_nodes(int64_t first, int64_t last, tree_node out[TREE_NODES_MAX]);
/* No more remain of `count` neighbouring leaves or fewer, wherever they lie. */
int tree_nodes_max(int64_t count);
/* Puts a node after those on the stack (of *depth nodes), and adds up what can be. */
void tree_push(tree_node *stack, int *depth, tree_node node);
/* Adds up sources[0 .. n), which stand in the order of their leaves. What remains goes to into[0], into[1], ..., as
 * many as tree_push leaves on the stack; with `whole` all is added up, into into[0]. `into` may be the sources' memory:
 * each number is read before any that comes from it is written. */
void tree_sum(const tree_source *sources, int n, bool whole, float *const *into, int64_t count);
/* The same of elements [first, last) alone. */
void tree_sum_part(const tree_source *sources, int n, bool whole, float *const *into, int64_t first, int64_t last);

/* bf16 is the upper half of an f32; rounded to nearest, ties to even. */
void tree_to_bf16(const float *from, uint16_t *to, int64_t count);
void tree_from_bf16(const uint16_t *from, float *to, int64_t count);

#endif
