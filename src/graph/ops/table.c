/* The operator table: the rows of all files. A new file of operators is one line here and one in ops.h. */
#include "base/mem.h"
#include "base/text.h"
#include "graph/ops/ops.h"

#include <string.h>

static const op_row *const files[] = {
    ops_source,
    ops_unary,
    ops_activations,
    ops_binary,
    ops_cast,
    ops_shapes,
    ops_views,
    ops_remap,
    ops_along,
    ops_select,
    ops_join,
    ops_reduce,
    ops_scalars,
    ops_matmul,
    ops_batch_matmul,
    ops_normalize,
    ops_recurrent,
    ops_resize,
    ops_conv,
    ops_pool,
    ops_softmax,
    ops_norm,
    ops_dropout,
    ops_gather,
    ops_state,
    ops_random,
    ops_update,
    ops_accumulator,
    ops_queue,
    ops_blocks,
    ops_control,
    ops_fused,
    ops_sparse_fused,
};

const op_row *op_at(size_t i) {
  for (size_t f = 0; f < COUNT_OF(files); f++)
    for (const op_row *row = files[f]; row->name; row++)
      if (i-- == 0) return row;
  return NULL;
}

const op_row *op_find(const char *name) {
  for (size_t f = 0; f < COUNT_OF(files); f++)
    for (const op_row *row = files[f]; row->name; row++)
      if (!strcmp(row->name, name)) return row;
  return NULL;
}

const char *op_nearest(const char *name) {
  const char *names[256];
  size_t n = 0;
  for (size_t f = 0; f < COUNT_OF(files); f++)
    for (const op_row *row = files[f]; row->name && n < COUNT_OF(names); row++)
      if (!(row->flags & (OP_INTERNAL | OP_GRADIENT_ONLY))) names[n++] = row->name;
  return text_nearest(name, names, n);
}
