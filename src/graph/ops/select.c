/* Choosing between two values element by element, and rows that have a one where an index says so. */
#include "graph/ops/ops.h"
#include "graph/ops/util.h"
#include "graph/ops/walk.h"

/* ---- where(condition, a, b): a where the condition holds, b elsewhere; all three broadcast */

static shoal_status where_shape(op_shapes *s) {
  if (s->in_dtype[0] != SHOAL_BOOL)
    return status_make(SHOAL_ERR_ARGUMENT, "the condition must be bool, not %s", shoal_dtype_name(s->in_dtype[0]));
  if (s->in_dtype[1] != s->in_dtype[2])
    return status_make(SHOAL_ERR_ARGUMENT, "types differ: %s and %s; add a cast", shoal_dtype_name(s->in_dtype[1]),
                       shoal_dtype_name(s->in_dtype[2]));
  shoal_shape both;
  TRY(rule_broadcast(&s->in[1], &s->in[2], &both));
  TRY(rule_broadcast(&s->in[0], &both, &s->out[0]));
  s->out_dtype[0] = s->in_dtype[1];
  return NULL;
}

#define WHERE_KERNEL(name, cell)                                                                        \
  static void name(const kernel_call *call) {                                                           \
    const shoal_shape *to = &call->out[0].shape;                                                        \
    int64_t strides[3][SHOAL_MAX_RANK];                                                                 \
    for (int i = 0; i < 3; i++) walk_broadcast(&call->in[i].shape, to, strides[i]);                     \
    cell *y = call->out[0].data;                                                                        \
    walk w;                                                                                             \
    walk_init_three(&w, to, strides[1], strides[2], strides[0]);                                        \
    for (; w.left > 0; walk_next(&w), y += w.n) {                                                       \
      const uint8_t *which = (const uint8_t *)call->in[0].data + w.c;                                   \
      const cell *a = (const cell *)call->in[1].data + w.a, *b = (const cell *)call->in[2].data + w.b;  \
      for (int64_t i = 0; i < w.n; i++) y[i] = which[i * w.step_c] ? a[i * w.step_a] : b[i * w.step_b]; \
    }                                                                                                   \
  }
WHERE_KERNEL(where_1, uint8_t)
WHERE_KERNEL(where_4, uint32_t)
WHERE_KERNEL(where_8, uint64_t)

static shoal_status where_kernel(const kernel_call *call) {
  switch (shoal_dtype_size(call->in[1].dtype)) {
    case 1: where_1(call); return NULL;
    case 4: where_4(call); return NULL;
    case 8: where_8(call); return NULL;
    default: return kernel_wrong_dtype(call);
  }
}

static void where_gradient(op_grad_call *c) {
  shoal_graph *g = c->graph;
  shoal_value *zero = grad_scalar(g, c->dy[0], 0), *which = c->in[0];
  c->dx[1].value = grad_sum_to(g, shoal_where(g, which, c->dy[0], zero), c->in[1]);
  c->dx[2].value = grad_sum_to(g, shoal_where(g, which, zero, c->dy[0]), c->in[2]);
}

/* ---- one_hot(indices; depth, on, off, dtype): a new last axis; an index outside of it has no `on` */

enum { DEPTH, ON, OFF, DTYPE };

static shoal_status one_hot_shape(op_shapes *s) {
  shoal_dtype dtype = (shoal_dtype)s->attr[DTYPE].i;
  if (!dtype_is_index(s->in_dtype[0]) && s->in_dtype[0] != SHOAL_U8)
    return status_make(SHOAL_ERR_ARGUMENT, "indices must be i32, i64 or u8, not %s", shoal_dtype_name(s->in_dtype[0]));
  if (s->attr[DEPTH].i < 0) return status_make(SHOAL_ERR_ARGUMENT, "depth is %lld", (long long)s->attr[DEPTH].i);
  if (s->in[0].rank == SHOAL_MAX_RANK)
    return status_make(SHOAL_ERR_ARGUMENT, "there cannot be more than %d dimensions", SHOAL_MAX_RANK);
  if (s->attr[DTYPE].i < 0 || dtype >= SHOAL_DTYPE_COUNT)
    return status_make(SHOAL_ERR_ARGUMENT, "unknown dtype %lld", (long long)s->attr[DTYPE].i);
  s->out[0] = s->in[0];
  s->out[0].dim[s->out[0].rank++] = s->attr[DEPTH].i;
  s->out_dtype[0] = dtype;
  return NULL;
}

static shoal_status one_hot_kernel(const kernel_call *call) {
  int64_t depth = call->attr[DEPTH].i, n = shoal_tensor_count(&call->in[0]);
  for (int64_t i = 0; i < n; i++) {
    int64_t index = call->in[0].dtype == SHOAL_U8 ? ((const uint8_t *)call->in[0].data)[i] : index_get(&call->in[0], i);
    for (int64_t k = 0; k < depth; k++)
      shoal_tensor_set(&call->out[0], i * depth + k, call->attr[k == index ? ON : OFF].f);
  }
  return NULL;
}

const op_row ops_select[] = {
    {.name = "where",
     .ins_min = 3,
     .ins_max = 3,
     .outs = 1,
     .shape = where_shape,
     .batch = batch_map_broadcast,
     .gradient = where_gradient,
     .kernel = where_kernel,
     .cases = (const char *const[]){"bool[3,4] [3,4] [3,4]", "bool[?5,4] [?5,4] []", "bool[?5,1] [4] [?5,4]",
                                    "bool[3] [2,1] [1]", "bool[?5] [?5] [?5]", "bool[2,3] i64[3]<9 i64[2,1]<9", NULL}},
    {.name = "one_hot",
     .attrs = {{"depth", ATTR_INT, 2}, {"on", ATTR_FLOAT, 1}, {"off", ATTR_FLOAT, 0}, {"dtype", ATTR_DTYPE, SHOAL_F32}},
     .ins_min = 1,
     .ins_max = 1,
     .outs = 1,
     .flags = OP_NO_GRADIENT,
     .shape = one_hot_shape,
     .batch = batch_map,
     .kernel = one_hot_kernel,
     .cases = (const char *const[]){"i32[?5]<4 depth=4", "i64[2,3]<9 depth=5 on=0.5 off=-1 dtype=f64",
                                    "u8[?3]<3 depth=3 dtype=i32", "i32[]<2", NULL}},
    {0}};

shoal_value *shoal_where(shoal_graph *g, shoal_value *condition, shoal_value *a, shoal_value *b) {
  return graph_op(g, "where", (shoal_value *[]){condition, a, b}, 3, NULL);
}

shoal_value *shoal_one_hot(shoal_graph *g, shoal_value *indices, int64_t depth, double on, double off,
                           shoal_dtype dtype) {
  return GRAPH_UNARY(g, "one_hot", indices, ATTR_I(depth), ATTR_F(on), ATTR_F(off), ATTR_I(dtype));
}
