/* Reductions over axes: sum, mean, max, min, prod, any, all, argmax; and what their gradients and those of broadcasting
 * need. */
#include "graph/ops/ops.h"
#include "graph/ops/util.h"
#include "graph/ops/walk.h"

#include <math.h>
#include <string.h>

enum { AXES, KEEP, MEAN };

/* ---- shapes */

static shoal_status reduce_shape(op_shapes *s) {
  uint32_t gone = 0;
  shoal_shape to = {0};
  TRY(rule_axes(&s->attr[AXES].list, s->in[0].rank, &gone));
  for (int i = 0; i < s->in[0].rank; i++)
    if (!(gone >> i & 1))
      to.dim[to.rank++] = s->in[0].dim[i];
    else if (s->attr[KEEP].i)
      to.dim[to.rank++] = 1;
  s->out[0] = to;
  s->out_dtype[0] = s->in_dtype[0];
  return NULL;
}

static shoal_status sum_shape(op_shapes *s) {
  TRY(rule_number(s, 0, "the input"));
  return reduce_shape(s);
}

static shoal_status mean_shape(op_shapes *s) {
  TRY(rule_float(s, 0, "the input"));
  return reduce_shape(s);
}

static shoal_status max_shape(op_shapes *s) {
  char buffer[SHOAL_SHAPE_TEXT];
  TRY(sum_shape(s));
  uint32_t gone = axes_bits(&s->attr[AXES].list, s->in[0].rank);
  for (int i = 0; i < s->in[0].rank; i++)
    if ((gone >> i & 1) && s->in[0].dim[i] == 0)
      return status_make(SHOAL_ERR_ARGUMENT, "%s has no elements along axis %d", shoal_shape_text(&s->in[0], buffer),
                         i);
  return NULL;
}

static bool drops_batch(const op_shapes *s) { return axes_bits(&s->attr[AXES].list, s->in[0].rank) & 1; }
static op_batch sum_batch(const op_shapes *s) { return drops_batch(s) ? batch_sum(s) : batch_map(s); }
static op_batch max_batch(const op_shapes *s) { return drops_batch(s) ? BATCH_WHOLE : batch_map(s); }

/* ---- sums */

enum { PARTS = 16 }; /* partial sums side by side, so that they fit a vector */

/* Adds scale * x to the output, seen through `strides`: 0 along the axes that go, dense along the others. */
#define SUM_LOOP(strides, scale)                                                                \
  {                                                                                             \
    const number *x = call->in[0].data;                                                         \
    if (!call->accumulate) memset(call->out[0].data, 0, shoal_tensor_bytes(&call->out[0]));     \
    walk w;                                                                                     \
    walk_init(&w, &call->in[0].shape, strides, NULL);                                           \
    for (; w.left > 0; walk_next(&w), x += w.n) {                                               \
      number *to = (number *)call->out[0].data + w.a;                                           \
      if (w.step_a == 1) {                                                                      \
        for (int64_t i = 0; i < w.n; i++) to[i] = (number)((wide)to[i] + (wide)x[i] * (scale)); \
        continue;                                                                               \
      }                                                                                         \
      wide part[PARTS] = {0}, sum = 0;                                                          \
      int64_t i = 0;                                                                            \
      for (; i + PARTS <= w.n; i += PARTS)                                                      \
        for (int k = 0; k < PARTS; k++) part[k] += (wide)x[i + k];                              \
      for (; i < w.n; i++) sum += (wide)x[i];                                                   \
      for (int k = 0; k < PARTS; k++) sum += part[k];                                           \
      *to = (number)((wide)*to + sum * (scale));                                                \
    }                                                                                           \
    return NULL;                                                                                \
  }

NUMBER_KERNEL(sum_kernel, int64_t strides[SHOAL_MAX_RANK] = {0};
              walk_reduced(&call->in[0].shape, axes_bits(&call->attr[AXES].list, call->in[0].shape.rank), strides);
              SUM_LOOP(strides, (wide)1))

/* How many elements of `shape` go into one result; the whole batch counts, of which this may be a part. */
static double reduced_count(const kernel_call *call, const shoal_shape *shape, uint32_t gone) {
  double n = 1;
  for (int i = 0; i < shape->rank; i++)
    if (gone >> i & 1) n *= (double)(i ? shape->dim[i] : kernel_all_rows(call, shape));
  return n;
}

REAL_KERNEL(mean_kernel, typedef real number; typedef real wide; int64_t strides[SHOAL_MAX_RANK] = {0};
            uint32_t gone = axes_bits(&call->attr[AXES].list, call->in[0].shape.rank);
            real scale = (real)(1 / reduced_count(call, &call->in[0].shape, gone));
            walk_reduced(&call->in[0].shape, gone, strides); SUM_LOOP(strides, scale))

static void mean_gradient(op_grad_call *c) {
  c->dx[0].value =
      GRAPH_BINARY(c->graph, "broadcast_like", c->dy[0], c->in[0], c->attr[AXES], c->attr[KEEP], ATTR_I(true));
}

static void sum_gradient(op_grad_call *c) {
  c->dx[0].value = GRAPH_BINARY(c->graph, "broadcast_like", c->dy[0], c->in[0], c->attr[AXES], c->attr[KEEP]);
}

/* ---- sum_to_like(x, like): x summed along the axes along which `like` would be broadcast to it */

static shoal_status sum_to_like_shape(op_shapes *s) {
  shoal_shape both;
  TRY(rule_same_dtype(s));
  TRY(rule_number(s, 0, "the input"));
  TRY(rule_broadcast(&s->in[0], &s->in[1], &both));
  if (!shapes_fit(&both, &s->in[0])) {
    char a[SHOAL_SHAPE_TEXT], b[SHOAL_SHAPE_TEXT];
    return status_make(SHOAL_ERR_ARGUMENT, "%s does not broadcast to %s", shoal_shape_text(&s->in[1], a),
                       shoal_shape_text(&s->in[0], b));
  }
  s->out[0] = s->in[1];
  s->out_dtype[0] = s->in_dtype[0];
  return NULL;
}

static op_batch sum_to_like_batch(const op_shapes *s) {
  const shoal_shape *x = &s->in[0], *like = &s->in[1];
  if (shape_is_batched(like)) return x->rank == like->rank ? batch_map(s) : BATCH_WHOLE;
  return like->rank < x->rank || like->rank == 0 || like->dim[0] == 1 ? batch_sum(s) : BATCH_WHOLE;
}

NUMBER_KERNEL(sum_to_like_kernel, int64_t strides[SHOAL_MAX_RANK] = {0};
              walk_broadcast(&call->out[0].shape, &call->in[0].shape, strides); SUM_LOOP(strides, (wide)1))

/* ---- broadcast_like(dy, like; axes, keep, mean): dy repeated along the axes over which `like` was reduced */

static shoal_status broadcast_like_shape(op_shapes *s) {
  uint32_t gone = 0;
  TRY(rule_same_dtype(s));
  TRY(rule_float(s, 0, "the input"));
  TRY(rule_axes(&s->attr[AXES].list, s->in[1].rank, &gone));
  op_shapes reduced = *s;
  shoal_shape expected;
  reduced.in = &s->in[1];
  reduced.out = &expected;
  reduced.out_dtype = &(shoal_dtype){0};
  TRY(reduce_shape(&reduced));
  if (!shapes_fit(&expected, &s->in[0])) {
    char a[SHOAL_SHAPE_TEXT], b[SHOAL_SHAPE_TEXT];
    return status_make(SHOAL_ERR_ARGUMENT, "expected %s, not %s", shoal_shape_text(&expected, a),
                       shoal_shape_text(&s->in[0], b));
  }
  s->out[0] = s->in[1];
  s->out_dtype[0] = s->in_dtype[0];
  return NULL;
}

static op_batch broadcast_like_batch(const op_shapes *s) {
  bool repeats = axes_bits(&s->attr[AXES].list, s->in[1].rank) & 1;
  return shape_is_batched(&s->in[0]) == repeats ? BATCH_WHOLE : batch_map(s);
}

REAL_KERNEL(broadcast_like_kernel, {
  const shoal_shape *to = &call->out[0].shape;
  uint32_t gone = axes_bits(&call->attr[AXES].list, to->rank);
  real scale = call->attr[MEAN].i ? (real)(1 / reduced_count(call, to, gone)) : 1;
  int64_t strides[SHOAL_MAX_RANK] = {0};
  walk_reduced(to, gone, strides);
  walk w;
  walk_init(&w, to, strides, NULL);
  real *y = call->out[0].data;
  for (; w.left > 0; walk_next(&w), y += w.n) {
    const real *x = (const real *)call->in[0].data + w.a;
    if (w.step_a == 1) {
      for (int64_t i = 0; i < w.n; i++) y[i] = x[i] * scale;
    } else {
      real v = *x * scale;
      for (int64_t i = 0; i < w.n; i++) y[i] = v;
    }
  }
  return NULL;
})

/* ---- reduce_max, reduce_min; of truth values reduce_any, reduce_all */

/* A NaN wins, so that it is seen. */
#define LARGER(v, m) ((v) > (m) || (v) != (v) ? (v) : (m))
#define SMALLER(v, m) ((v) < (m) || (v) != (v) ? (v) : (m))

/* The best of each group by BETTER, which `worst` is no better than. */
#define EXTREME(name, type, BETTER, worst)                                                                \
  static shoal_status name(const kernel_call *call) {                                                     \
    int64_t strides[SHOAL_MAX_RANK] = {0};                                                                \
    walk_reduced(&call->in[0].shape, axes_bits(&call->attr[AXES].list, call->in[0].shape.rank), strides); \
    int64_t n = shoal_tensor_count(&call->out[0]);                                                        \
    type *y = call->out[0].data;                                                                          \
    const type *x = call->in[0].data;                                                                     \
    for (int64_t i = 0; i < n; i++) y[i] = (type)(worst);                                                 \
    walk w;                                                                                               \
    walk_init(&w, &call->in[0].shape, strides, NULL);                                                     \
    for (; w.left > 0; walk_next(&w), x += w.n) {                                                         \
      type *to = y + w.a;                                                                                 \
      if (w.step_a == 1) {                                                                                \
        for (int64_t i = 0; i < w.n; i++) to[i] = BETTER(x[i], to[i]);                                    \
      } else {                                                                                            \
        type best = *to;                                                                                  \
        for (int64_t i = 0; i < w.n; i++) best = BETTER(x[i], best);                                      \
        *to = best;                                                                                       \
      }                                                                                                   \
    }                                                                                                     \
    return NULL;                                                                                          \
  }
#define EXTREMES(name, BETTER, sign, int_worst)                \
  EXTREME(name##_f32, float, BETTER, sign INFINITY)            \
  EXTREME(name##_f64, double, BETTER, sign INFINITY)           \
  EXTREME(name##_i32, int32_t, BETTER, INT32_##int_worst)      \
  EXTREME(name##_i64, int64_t, BETTER, INT64_##int_worst)      \
  static shoal_status name##_kernel(const kernel_call *call) { \
    switch (call->in[0].dtype) {                               \
      case SHOAL_F32: return name##_f32(call);                 \
      case SHOAL_F64: return name##_f64(call);                 \
      case SHOAL_I32: return name##_i32(call);                 \
      case SHOAL_I64: return name##_i64(call);                 \
      default: return kernel_wrong_dtype(call);                \
    }                                                          \
  }
EXTREMES(max, LARGER, -, MIN)
EXTREMES(min, SMALLER, +, MAX)
#define EITHER(v, m) ((v) || (m))
#define BOTH(v, m) ((v) && (m))
EXTREME(any_kernel, uint8_t, EITHER, 0)
EXTREME(all_kernel, uint8_t, BOTH, 1)

static shoal_status any_shape(op_shapes *s) {
  if (s->in_dtype[0] != SHOAL_BOOL)
    return status_make(SHOAL_ERR_ARGUMENT, "the input must be bool, not %s", shoal_dtype_name(s->in_dtype[0]));
  return reduce_shape(s);
}

/* Equal shares to all elements that are the largest, or smallest. */
static void max_gradient(op_grad_call *c) {
  shoal_graph *g = c->graph;
  shoal_value *x = c->in[0];
  shoal_value *largest = GRAPH_BINARY(g, "broadcast_like", c->out[0], x, c->attr[AXES], c->attr[KEEP]);
  shoal_value *mask = shoal_cast(g, shoal_equal(g, x, largest), x->dtype);
  shoal_value *count = shoal_reduce_sum(g, mask, c->attr[AXES].list, c->attr[KEEP].i);
  shoal_value *share = shoal_div(g, c->dy[0], count);
  c->dx[0].value = shoal_mul(g, mask, GRAPH_BINARY(g, "broadcast_like", share, x, c->attr[AXES], c->attr[KEEP]));
}

/* ---- reduce_prod */

static shoal_status prod_shape(op_shapes *s) { return sum_shape(s); }

NUMBER_KERNEL(prod_kernel, {
  const number *x = call->in[0].data;
  number *y = call->out[0].data;
  walk_groups g;
  walk_groups_init(&g, &call->in[0].shape, axes_bits(&call->attr[AXES].list, call->in[0].shape.rank));
  for (; g.left > 0; walk_groups_next(&g)) {
    wide product = 1;
    for (walk w = g.inside; w.left > 0; walk_next(&w))
      for (int64_t i = 0; i < w.n; i++) product *= (wide)x[g.first + w.a + i * w.step_a];
    *y++ = (number)product;
  }
  return NULL;
})

/* reduce_prod_grad(dy, x; axes, keep): dy times the product of the group's other elements, zeros among them or not */

static shoal_status prod_grad_shape(op_shapes *s) {
  shoal_shape expected;
  op_shapes forward = {1, 1, &s->in[1], &s->in_dtype[1], s->attr, &expected, &(shoal_dtype){0}};
  TRY(rule_same_dtype(s));
  TRY(mean_shape(&forward));
  if (!shapes_fit(&expected, &s->in[0])) {
    char a[SHOAL_SHAPE_TEXT], b[SHOAL_SHAPE_TEXT];
    return status_make(SHOAL_ERR_ARGUMENT, "expected %s, not %s", shoal_shape_text(&expected, a),
                       shoal_shape_text(&s->in[0], b));
  }
  s->out[0] = s->in[1];
  s->out_dtype[0] = s->in_dtype[0];
  return NULL;
}

static op_batch prod_grad_batch(const op_shapes *s) {
  bool all = shape_is_batched(&s->in[0]) && shape_is_batched(&s->in[1]);
  return all && !(axes_bits(&s->attr[AXES].list, s->in[1].rank) & 1) ? batch_map(s) : BATCH_WHOLE;
}

REAL_KERNEL(prod_grad_kernel, {
  const real *dy = call->in[0].data;
  const real *x = call->in[1].data;
  real *dx = call->out[0].data; /* as x */
  walk_groups g;
  walk_groups_init(&g, &call->in[1].shape, axes_bits(&call->attr[AXES].list, call->in[1].shape.rank));
  for (; g.left > 0; walk_groups_next(&g), dy++) {
    real product = 1; /* of all elements but zeros */
    int64_t zeros = 0;
    for (walk w = g.inside; w.left > 0; walk_next(&w))
      for (int64_t i = 0; i < w.n; i++) {
        real v = x[g.first + w.a + i * w.step_a];
        zeros += v == 0;
        product *= v == 0 ? 1 : v;
      }
    for (walk w = g.inside; w.left > 0; walk_next(&w))
      for (int64_t i = 0; i < w.n; i++) {
        int64_t at = g.first + w.a + i * w.step_a;
        bool others = zeros > (x[at] == 0); /* one of the others is zero */
        dx[at] = others ? 0 : *dy * (x[at] == 0 ? product : product / x[at]);
      }
  }
  return NULL;
})

static void prod_gradient(op_grad_call *c) {
  c->dx[0].value = GRAPH_BINARY(c->graph, "reduce_prod_grad", c->dy[0], c->in[0], c->attr[AXES], c->attr[KEEP]);
}

/* ---- argmax */

static shoal_status argmax_shape(op_shapes *s) {
  int axis = 0;
  TRY(rule_number(s, 0, "the input"));
  TRY(rule_axis(s->attr[0].i, s->in[0].rank, &axis));
  if (s->in[0].dim[axis] == 0) return status_make(SHOAL_ERR_ARGUMENT, "axis %d is empty", axis);
  shoal_shape to = {0};
  for (int i = 0; i < s->in[0].rank; i++)
    if (i != axis) to.dim[to.rank++] = s->in[0].dim[i];
  s->out[0] = to;
  s->out_dtype[0] = SHOAL_I64;
  return NULL;
}

static int argmax_axis(const attr_value *attr, int rank) { return (int)(attr->i < 0 ? attr->i + rank : attr->i); }

static op_batch argmax_batch(const op_shapes *s) {
  return argmax_axis(&s->attr[0], s->in[0].rank) == 0 ? BATCH_WHOLE : batch_map(s);
}

/* The first of several. */
NUMBER_KERNEL(argmax_kernel, {
  const shoal_shape *shape = &call->in[0].shape;
  int axis = argmax_axis(&call->attr[0], shape->rank);
  int64_t before = shape_span(shape, 0, axis), n = shape->dim[axis], after = shape_span(shape, axis + 1, shape->rank);
  int64_t *y = call->out[0].data;
  for (int64_t b = 0; b < before; b++)
    for (int64_t a = 0; a < after; a++) {
      const number *x = (const number *)call->in[0].data + b * n * after + a;
      int64_t best = 0;
      for (int64_t i = 1; i < n; i++)
        if (x[i * after] > x[best * after]) best = i;
      *y++ = best;
    }
  return NULL;
})

/* ---- rows */

#define REDUCE_ATTRS \
  {"axes", ATTR_LIST, 0}, { "keep", ATTR_BOOL, 0 }
#define REDUCE(op, cases_)                                                                                      \
  {                                                                                                             \
    .name = "reduce_" #op, .attrs = {REDUCE_ATTRS}, .ins_min = 1, .ins_max = 1, .outs = 1, .shape = op##_shape, \
    .batch = op##_batch, .gradient = op##_gradient, .kernel = op##_kernel, .cost = cost_input, .cases = cases_  \
  }
#define REDUCE_PLAIN(op, rule, cases_)                                                                              \
  {                                                                                                                 \
    .name = "reduce_" #op, .attrs = {REDUCE_ATTRS}, .ins_min = 1, .ins_max = 1, .outs = 1, .flags = OP_NO_GRADIENT, \
    .shape = rule, .batch = max_batch, .kernel = op##_kernel, .cost = cost_input, .cases = cases_                   \
  }
#define mean_batch sum_batch
#define min_shape max_shape
#define min_batch max_batch
#define min_gradient max_gradient
#define prod_batch max_batch

static const char *const reals[] = {"[3,4]",
                                    "[3,4] axes=1",
                                    "[?5,2,3] axes=0",
                                    "[?5,2,3] axes=-1",
                                    "[?5,4] axes=0,1",
                                    "[?5,4] axes=1 keep=1",
                                    "[?5,2] keep=1",
                                    "[2,3,4] axes=0,2",
                                    "[1]",
                                    "[]",
                                    "[40,33] axes=1",
                                    "[?5]",
                                    NULL};
static const char *const sums[] = {"[3,4]",
                                   "[3,4] axes=1",
                                   "[?5,2,3] axes=0",
                                   "[?5,2,3] axes=-1",
                                   "[?5,4] axes=0,1",
                                   "[?5,4] axes=1 keep=1",
                                   "[2,3,4] axes=0,2",
                                   "i32[3,4]<9 axes=0",
                                   "i64[7]<9",
                                   "[]",
                                   "[40,33] axes=1",
                                   "[0,3] axes=0",
                                   NULL};

static const char *const extremes[] = {"[3,4]",
                                       "[3,4] axes=1",
                                       "[?5,2,3] axes=0",
                                       "[?5,2,3] axes=-1",
                                       "[?5,4] axes=1 keep=1",
                                       "[2,3,4] axes=0,2",
                                       "[]",
                                       "[40,33] axes=1",
                                       "i32[3,4]<99 axes=0",
                                       "i64[7]<99",
                                       NULL};
static const char *const products[] = {"[3,4]",
                                       "[3,4] axes=1",
                                       "[?5,2,3] axes=-1",
                                       "[?5,4] axes=0 keep=1",
                                       "[2,3,4] axes=0,2",
                                       "[]",
                                       "i32[3,2]<4 axes=1",
                                       "[2,0] axes=1",
                                       NULL};
static const char *const bools[] = {"bool[3,4]", "bool[?5,4] axes=1", "bool[2,3,2] axes=0,2 keep=1", "bool[0]", NULL};

const op_row ops_reduce[] = {
    REDUCE(sum, sums),
    REDUCE(mean, reals),
    REDUCE(max, extremes),
    REDUCE(min, extremes),
    REDUCE(prod, products),
    {.name = "reduce_prod_grad",
     .attrs = {REDUCE_ATTRS},
     .ins_min = 2,
     .ins_max = 2,
     .outs = 1,
     .flags = OP_GRADIENT_ONLY,
     .shape = prod_grad_shape,
     .batch = prod_grad_batch,
     .kernel = prod_grad_kernel,
     .cases = (const char *const[]){"[3] [3,4] axes=1", "[?5,1] [?5,4] axes=1 keep=1", "[] [2,2]", NULL}},
    REDUCE_PLAIN(any, any_shape, bools),
    REDUCE_PLAIN(all, any_shape, bools),
    {.name = "sum_to_like",
     .ins_min = 2,
     .ins_max = 2,
     .outs = 1,
     .flags = OP_GRADIENT_ONLY,
     .shape_only = 2,
     .shape = sum_to_like_shape,
     .batch = sum_to_like_batch,
     .kernel = sum_to_like_kernel,
     .cost = cost_input,
     .cases = (const char *const[]){"[3,4] [4]", "[?5,4] [4]", "[?5,4] [?5,1]", "[?5,4] []", "[2,3,4] [3,1]",
                                    "[?5,2] [1,2]", NULL}},
    {.name = "broadcast_like",
     .attrs = {REDUCE_ATTRS, {"mean", ATTR_BOOL, 0}},
     .ins_min = 2,
     .ins_max = 2,
     .outs = 1,
     .flags = OP_GRADIENT_ONLY,
     .shape_only = 2,
     .shape = broadcast_like_shape,
     .batch = broadcast_like_batch,
     .kernel = broadcast_like_kernel,
     .cases = (const char *const[]){"[] [3,4]", "[3] [3,4] axes=1", "[] [?5,4] mean=1", "[?5,1] [?5,4] axes=1 keep=1",
                                    "[4] [?5,4] axes=0 mean=1", "[3] [2,3,4] axes=0,2", NULL}},
    {.name = "argmax",
     .attrs = {{"axis", ATTR_INT, 0}},
     .ins_min = 1,
     .ins_max = 1,
     .outs = 1,
     .flags = OP_NO_GRADIENT,
     .shape = argmax_shape,
     .batch = argmax_batch,
     .kernel = argmax_kernel,
     .cost = cost_input,
     .cases =
         (const char *const[]){"[3,4] axis=1", "[?5,4] axis=-1", "[?5,4]", "[2,3,4] axis=1", "i32[6]<9", "[1]", NULL}},
    {0}};

static shoal_value *reduce(shoal_graph *g, const char *op, shoal_value *x, shoal_shape axes, bool keep) {
  return GRAPH_UNARY(g, op, x, ATTR_L(axes), ATTR_I(keep));
}

shoal_value *shoal_reduce_sum(shoal_graph *g, shoal_value *x, shoal_shape axes, bool keep) {
  return reduce(g, "reduce_sum", x, axes, keep);
}

shoal_value *shoal_reduce_mean(shoal_graph *g, shoal_value *x, shoal_shape axes, bool keep) {
  return reduce(g, "reduce_mean", x, axes, keep);
}

shoal_value *shoal_reduce_max(shoal_graph *g, shoal_value *x, shoal_shape axes, bool keep) {
  return reduce(g, "reduce_max", x, axes, keep);
}

shoal_value *shoal_reduce_min(shoal_graph *g, shoal_value *x, shoal_shape axes, bool keep) {
  return reduce(g, "reduce_min", x, axes, keep);
}

shoal_value *shoal_reduce_prod(shoal_graph *g, shoal_value *x, shoal_shape axes, bool keep) {
  return reduce(g, "reduce_prod", x, axes, keep);
}

shoal_value *shoal_reduce_any(shoal_graph *g, shoal_value *x, shoal_shape axes, bool keep) {
  return reduce(g, "reduce_any", x, axes, keep);
}

shoal_value *shoal_reduce_all(shoal_graph *g, shoal_value *x, shoal_shape axes, bool keep) {
  return reduce(g, "reduce_all", x, axes, keep);
}

/* log(sum(exp(x - m))) + m, m the maximum: nothing overflows, and the gradient does not depend on m. */
shoal_value *shoal_reduce_log_sum_exp(shoal_graph *g, shoal_value *x, shoal_shape axes, bool keep) {
  shoal_value *top = shoal_stop_gradient(g, shoal_reduce_max(g, x, axes, true));
  shoal_value *sum = shoal_reduce_sum(g, shoal_exp(g, shoal_sub(g, x, top)), axes, true);
  shoal_value *y = shoal_add(g, shoal_log(g, sum), top);
  return keep ? y : shoal_reduce_sum(g, y, axes, false); /* of one element each */
}

shoal_value *shoal_argmin(shoal_graph *g, shoal_value *x, int axis) { return shoal_argmax(g, shoal_neg(g, x), axis); }

shoal_value *shoal_argmax(shoal_graph *g, shoal_value *x, int axis) {
  return GRAPH_UNARY(g, "argmax", x, ATTR_I(axis));
}
