/* From any type to any other. */
#include "graph/ops/ops.h"
#include "graph/ops/util.h"
#include "tensor/convert.h"

#include <string.h>

/* Integers wrap, as C has it. */
#define INTEGER_TO(type, v) ((type)(v))

#define LOOP(from_type, to_type, expression) \
  {                                          \
    const from_type *x = call->in[0].data;   \
    to_type *y = call->out[0].data;          \
    for (int64_t i = 0; i < n; i++) {        \
      from_type v = x[i];                    \
      y[i] = (expression);                   \
    }                                        \
    return NULL;                             \
  }

#define CAST_FROM(name, type, to_integer)                         \
  static shoal_status name(const kernel_call *call) {             \
    int64_t n = shoal_tensor_count(&call->out[0]);                \
    switch (call->out[0].dtype) {                                 \
      case SHOAL_F32: LOOP(type, float, (float)v)                 \
      case SHOAL_F64: LOOP(type, double, (double)v)               \
      case SHOAL_I32: LOOP(type, int32_t, to_integer(int32_t, v)) \
      case SHOAL_I64: LOOP(type, int64_t, to_integer(int64_t, v)) \
      case SHOAL_U8: LOOP(type, uint8_t, to_integer(uint8_t, v))  \
      case SHOAL_BOOL: LOOP(type, bool, v != 0)                   \
      default: return kernel_wrong_dtype(call);                   \
    }                                                             \
  }
#define FLOAT_TO_INTEGER(type, v) float_to_##type((double)(v))
CAST_FROM(cast_f32, float, FLOAT_TO_INTEGER)
CAST_FROM(cast_f64, double, FLOAT_TO_INTEGER)
CAST_FROM(cast_i32, int32_t, INTEGER_TO)
CAST_FROM(cast_i64, int64_t, INTEGER_TO)
CAST_FROM(cast_u8, uint8_t, INTEGER_TO)

static shoal_status cast_kernel(const kernel_call *call) {
  const shoal_tensor *x = &call->in[0];
  if (x->dtype == call->out[0].dtype) {
    memmove(call->out[0].data, x->data, shoal_tensor_bytes(x));
    return NULL;
  }
  switch (x->dtype) {
    case SHOAL_F32: return cast_f32(call);
    case SHOAL_F64: return cast_f64(call);
    case SHOAL_I32: return cast_i32(call);
    case SHOAL_I64: return cast_i64(call);
    case SHOAL_U8:
    case SHOAL_BOOL: return cast_u8(call);
    default: return kernel_wrong_dtype(call);
  }
}

static shoal_status cast_shape(op_shapes *s) {
  if (s->attr[0].i < 0 || s->attr[0].i >= SHOAL_DTYPE_COUNT)
    return status_make(SHOAL_ERR_ARGUMENT, "unknown dtype %lld", (long long)s->attr[0].i);
  s->out[0] = s->in[0];
  s->out_dtype[0] = (shoal_dtype)s->attr[0].i;
  return NULL;
}

static void cast_gradient(op_grad_call *c) {
  if (dtype_is_float(c->in[0]->dtype)) c->dx[0].value = shoal_cast(c->graph, c->dy[0], c->in[0]->dtype);
}

const op_row ops_cast[] = {
    {.name = "cast",
     .attrs = {{"dtype", ATTR_DTYPE, SHOAL_F32}},
     .ins_min = 1,
     .ins_max = 1,
     .outs = 1,
     .shape = cast_shape,
     .batch = batch_map,
     .gradient = cast_gradient,
     .kernel = cast_kernel,
     .cases =
         (const char *const[]){"[3,4] dtype=f64", "f64[3,4] dtype=f32", "u8[?5,3]<255 dtype=f32", "i64[4]<9 dtype=i32",
                               "[?5] dtype=i64", "bool[6] dtype=f32", "[3] dtype=bool", "i32[2,2]<300 dtype=u8", NULL}},
    {0}};

shoal_value *shoal_cast(shoal_graph *g, shoal_value *x, shoal_dtype dtype) {
  if (x && x->dtype == dtype && !g->next_name) return x;
  return GRAPH_UNARY(g, "cast", x, ATTR_I(dtype));
}
