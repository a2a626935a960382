/* What a kernel is given and what it promises.
 *
 * A kernel computes one operator for one part of the work: the whole of it, or, in a phase that is split over the
 * batch, the rows [first_row, first_row + rows) of it; then every batched tensor it sees is a view of just those rows.
 *
 * Two layouts. ROWS is row-major. LANES holds a batched tensor [n, f...] as [ceil(n/16)][f...][16]: sixteen images
 * side by side in each vector, so that small channel counts still fill it. Rows that only pad the last block hold
 * finite values of no meaning; kernels that sum over the batch rely on the loss's gradient being zero there.
 *
 * Kernels allocate nothing, keep no state and never print. */
#ifndef SHOAL_KERNEL_KERNEL_H
#define SHOAL_KERNEL_KERNEL_H

#include "base/pool.h"
#include "base/status.h"
#include "kernel/cpu.h"
#include "shoal/tensor.h"

#define LANES 16

typedef enum { LAYOUT_ROWS, LAYOUT_LANES } layout;

/* An attribute of an operator; which field counts is declared in the operator's row. */
typedef struct {
  int64_t i;                 /* integers, flags, types */
  double f;                  /* numbers */
  shoal_shape list;          /* lists of integers: axes, shapes, starts */
  const char *s;             /* text; owned by the graph */
  shoal_tensor data;         /* a constant's value; owned by the graph */
  struct shoal_graph *graph; /* a sub-graph; shared */
} attr_value;

typedef struct kernel_call {
  const shoal_tensor *in;
  shoal_tensor *out;
  int ins, outs;
  const attr_value *attr;
  void *scratch;               /* as many bytes as the variant asked for, this thread's own, MEM_ALIGN-aligned */
  pool *threads;               /* to split the work; NULL: the caller is one of several threads already */
  int64_t first_row, all_rows; /* where this part stands in the batch; both 0 when the work is not split: the
                                * tensors then say themselves how many rows there are */
  int64_t step_rows;           /* operators with OP_STEPS: rows of one update, made one after the other; 0: all rows */
  bool racing;                 /* ... and may be made by several threads at once, without locks */
  bool among_threads;          /* the tensors are this thread's part of what several threads work on at once */
  bool accumulate;             /* a sum over the batch: add to the output instead of setting it */
  float *packed;               /* op_variant.packs: the rows of a table, each followed by those of its slots, that */
  int64_t packed_row;          /* many numbers apart; NULL: table and slots are where the inputs say */
  uint64_t seed, step;         /* for random operators: together with the node's own stream they name the numbers */
  uint64_t stream;
  void (*print)(void *sink, const char *line); /* where the print operator's lines go; NULL: nowhere */
  void *print_sink;
  struct control *nested; /* operators that run sub-graphs: the executor's plans for them */
} kernel_call;

typedef shoal_status (*kernel_fn)(const kernel_call *call);

/* Blocks of 16 images and floats in a LANES tensor of this (part's) shape. */
static inline int64_t lanes_blocks(const shoal_tensor *t) { return (t->shape.dim[0] + LANES - 1) / LANES; }
static inline int64_t lanes_features(const shoal_tensor *t) {
  int64_t f = 1;
  for (int i = 1; i < t->shape.rank; i++) f *= t->shape.dim[i];
  return f;
}

/* Row i of a ROWS tensor, through its row index if it has one; `row_bytes` apart. */
static inline const void *tensor_row(const shoal_tensor *t, int64_t i, size_t row_bytes) {
  return (const char *)t->data + (t->rows ? (size_t)t->rows[i] : (size_t)i) * row_bytes;
}

#endif
