/* The files of operators: each exports an array of rows, ops_NAME, that ends with a row without a name. */
#ifndef SHOAL_GRAPH_OPS_OPS_H
#define SHOAL_GRAPH_OPS_OPS_H

#include "graph/op.h"

/* A new file of operators is one line here (and one in ../meson.build). */
#define OPS_FILES(FILE) \
  FILE(source)          \
  FILE(unary)           \
  FILE(activations)     \
  FILE(binary)          \
  FILE(cast)            \
  FILE(shapes)          \
  FILE(views)           \
  FILE(remap)           \
  FILE(along)           \
  FILE(select)          \
  FILE(join)            \
  FILE(reduce)          \
  FILE(scalars)         \
  FILE(matmul)          \
  FILE(batch_matmul)    \
  FILE(normalize)       \
  FILE(recurrent)       \
  FILE(resize)          \
  FILE(conv)            \
  FILE(pool)            \
  FILE(softmax)         \
  FILE(norm)            \
  FILE(dropout)         \
  FILE(gather)          \
  FILE(embedding)       \
  FILE(field_pairs)     \
  FILE(state)           \
  FILE(random)          \
  FILE(update)          \
  FILE(accumulator)     \
  FILE(queue)           \
  FILE(blocks)          \
  FILE(control)         \
  FILE(fused)           \
  FILE(sparse_fused)

#define DECLARE_ROWS(name) extern const op_row ops_##name[];
OPS_FILES(DECLARE_ROWS)
#undef DECLARE_ROWS

#endif
