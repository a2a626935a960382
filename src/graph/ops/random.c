/* Tensors of random numbers: new ones each step, the same ones for the same seed, node name and step. */
#include "base/random.h"
#include "graph/ops/ops.h"
#include "graph/ops/util.h"

enum { SHAPE, FIRST, SECOND, DTYPE };

static shoal_status random_shape(op_shapes *s) {
  char buffer[SHOAL_SHAPE_TEXT];
  const shoal_shape *shape = &s->attr[SHAPE].list;
  for (int i = 0; i < shape->rank; i++)
    if (shape->dim[i] < 0)
      return status_make(SHOAL_ERR_ARGUMENT, "all dimensions of %s must be known", shoal_shape_text(shape, buffer));
  if (s->attr[DTYPE].i != SHOAL_F32 && s->attr[DTYPE].i != SHOAL_F64)
    return status_make(SHOAL_ERR_ARGUMENT, "the type must be f32 or f64");
  s->out[0] = *shape;
  s->out_dtype[0] = (shoal_dtype)s->attr[DTYPE].i;
  return NULL;
}

/* offset + factor * draw */
#define DRAW(draw, offset, factor)                                                                 \
  {                                                                                                \
    random_stream stream = random_stream_make(call->seed, random_mix(call->stream, call->step));   \
    double a = call->attr[FIRST].f, b = call->attr[SECOND].f;                                      \
    int64_t n = shoal_tensor_count(&call->out[0]);                                                 \
    real *y = call->out[0].data;                                                                   \
    for (int64_t i = 0; i < n; i++) y[i] = (real)((offset) + (factor)*draw(&stream, (uint64_t)i)); \
    return NULL;                                                                                   \
  }

REAL_KERNEL(random_uniform_kernel, DRAW(random_uniform_at, a, b - a))
REAL_KERNEL(random_normal_kernel, DRAW(random_normal_at, a, b))
REAL_KERNEL(random_truncated_kernel, DRAW(random_truncated_at, a, b))

#define RANDOM(op, first, second)                                                                                  \
  {                                                                                                                \
    .name = #op,                                                                                                   \
    .attrs = {{"shape", ATTR_LIST, 0}, {first, ATTR_FLOAT, 0}, {second, ATTR_FLOAT, 1}, {"dtype", ATTR_DTYPE, 0}}, \
    .outs = 1, .flags = OP_RANDOM | OP_NO_GRADIENT, .shape = random_shape, .kernel = op##_kernel, .cases = cases   \
  }

static const char *const cases[] = {"shape=3,4", "shape=7 dtype=f64", "shape=1", "shape=0,3", "", NULL};

const op_row ops_random[] = {RANDOM(random_uniform, "low", "high"),
                             RANDOM(random_normal, "mean", "stddev"),
                             RANDOM(random_truncated, "mean", "stddev"),
                             {0}};

static shoal_value *draw(shoal_graph *g, const char *op, shoal_shape shape, double first, double second) {
  return graph_op(g, op, NULL, 0, (attr_value[OP_MAX_ATTRS]){ATTR_L(shape), ATTR_F(first), ATTR_F(second)});
}

shoal_value *shoal_random_uniform(shoal_graph *g, shoal_shape shape, double low, double high) {
  return draw(g, "random_uniform", shape, low, high);
}

shoal_value *shoal_random_normal(shoal_graph *g, shoal_shape shape, double mean, double stddev) {
  return draw(g, "random_normal", shape, mean, stddev);
}

shoal_value *shoal_random_truncated(shoal_graph *g, shoal_shape shape, double mean, double stddev) {
  return draw(g, "random_truncated", shape, mean, stddev);
}
