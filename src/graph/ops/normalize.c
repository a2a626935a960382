/* Normalisation of groups of elements, each by its own mean and deviation: layer, group, instance and RMS norm. */
#include "graph/ops/ops.h"
#include "graph/ops/tuned.h"
#include "graph/ops/util.h"
#include "graph/ops/walk.h"

#include <math.h>

/* ---- normalize(x; axes, epsilon, center): (x - mean) / sqrt(variance + epsilon) over the axes; without `center` the
 * mean counts as 0 */

enum { AXES, EPSILON, CENTER };

static shoal_status normalize_shape(op_shapes *s) {
  uint32_t axes;
  TRY(rule_axes(&s->attr[AXES].list, s->in[0].rank, &axes));
  return shape_all_alike_float(s);
}

static op_batch normalize_batch(const op_shapes *s) {
  return axes_bits(&s->attr[AXES].list, s->in[0].rank) & 1 ? BATCH_WHOLE : batch_map(s);
}

enum { PARTS = 8 }; /* sums side by side, so that they fit a vector */

/* The sum over a group, in double, of an expression in `o`, the element's offset. */
#define GROUP_SUM(expression)                                 \
  ({                                                          \
    double part_[PARTS] = {0};                                \
    for (walk w = g.inside; w.left > 0; walk_next(&w)) {      \
      int64_t i_ = 0;                                         \
      for (; w.step_a == 1 && i_ + PARTS <= w.n; i_ += PARTS) \
        for (int64_t k_ = 0; k_ < PARTS; k_++) {              \
          int64_t o = g.first + w.a + i_ + k_;                \
          part_[k_] += (expression);                          \
        }                                                     \
      for (; i_ < w.n; i_++) {                                \
        int64_t o = g.first + w.a + i_ * w.step_a;            \
        part_[0] += (expression);                             \
      }                                                       \
    }                                                         \
    double sum_ = 0;                                          \
    for (int k_ = 0; k_ < PARTS; k_++) sum_ += part_[k_];     \
    sum_;                                                     \
  })

#define FOR_GROUP(statement)                         \
  for (walk w = g.inside; w.left > 0; walk_next(&w)) \
    for (int64_t i_ = 0; i_ < w.n; i_++) {           \
      int64_t o = g.first + w.a + i_ * w.step_a;     \
      statement                                      \
    }

/* Declares mean and inverse, 1 / sqrt(variance + epsilon), of the group under way. */
#define MEAN_AND_INVERSE                                                                        \
  double mean = call->attr[CENTER].i ? GROUP_SUM((double)x[o]) / (double)g.count : 0;           \
  double variance = GROUP_SUM(((double)x[o] - mean) * ((double)x[o] - mean)) / (double)g.count; \
  double inverse = 1 / sqrt(variance + call->attr[EPSILON].f);

REAL_KERNEL(normalize_kernel, {
  const real *x = call->in[0].data;
  real *y = call->out[0].data; /* as x */
  walk_groups g;
  walk_groups_init(&g, &call->in[0].shape, axes_bits(&call->attr[AXES].list, call->in[0].shape.rank));
  for (; g.left > 0; walk_groups_next(&g)) {
    MEAN_AND_INVERSE
    FOR_GROUP({ y[o] = (real)(((double)x[o] - mean) * inverse); })
  }
  return NULL;
})

/* dx = inverse (dy - mean(dy) - (x - mean) mean(dy (x - mean)) inverse^2) */
REAL_KERNEL(normalize_grad_kernel, {
  const real *dy = call->in[0].data; /* as x */
  const real *x = call->in[1].data;
  real *dx = call->out[0].data; /* as x */
  walk_groups g;
  walk_groups_init(&g, &call->in[1].shape, axes_bits(&call->attr[AXES].list, call->in[1].shape.rank));
  for (; g.left > 0; walk_groups_next(&g)) {
    MEAN_AND_INVERSE
    double shift = call->attr[CENTER].i ? GROUP_SUM((double)dy[o]) / (double)g.count : 0;
    double slope = GROUP_SUM((double)dy[o] * ((double)x[o] - mean)) / (double)g.count * inverse * inverse;
    FOR_GROUP({ dx[o] = (real)(inverse * ((double)dy[o] - shift - ((double)x[o] - mean) * slope)); })
  }
  return NULL;
})

static void normalize_gradient(op_grad_call *c) {
  c->dx[0].value = graph_op(c->graph, "normalize_grad", (shoal_value *[]){c->dy[0], c->in[0]}, 2, c->attr);
}

static void normalize_cost(const op_shapes *s, double *flops) { *flops = 7.0 * (double)shoal_shape_count(&s->in[0]); }

#define NORMALIZE_ATTRS                                                               \
  {                                                                                   \
    {"axes", ATTR_LIST, 0}, {"epsilon", ATTR_FLOAT, 1e-3}, { "center", ATTR_BOOL, 1 } \
  }

const op_row ops_normalize[] = {
    {.name = "normalize",
     .attrs = NORMALIZE_ATTRS,
     .ins_min = 1,
     .ins_max = 1,
     .outs = 1,
     .shape = normalize_shape,
     .batch = normalize_batch,
     .gradient = normalize_gradient,
     .kernel = normalize_kernel,
     .variants = tuned_normalize,
     .cost = normalize_cost,
     .cases = (const char *const[]){"[?5,17] axes=1", "[?5,3,2,4] axes=1,3", "[4,6] axes=0 epsilon=0.1",
                                    "[?5,9] axes=-1 center=0", "[?3,4,37] axes=2", "[3,4]", "[?5,0] axes=1", NULL}},
    {.name = "normalize_grad",
     .attrs = NORMALIZE_ATTRS,
     .ins_min = 2,
     .ins_max = 2,
     .outs = 1,
     .flags = OP_GRADIENT_ONLY,
     .shape = normalize_shape,
     .batch = normalize_batch,
     .kernel = normalize_grad_kernel,
     .variants = tuned_normalize_grad,
     .cost = normalize_cost,
     .cases = (const char *const[]){"[?5,17] [?5,17] axes=1", "[?3,37] [?3,37] axes=-1 center=0",
                                    "[?5,3,2,4] [?5,3,2,4] axes=1,3", "[4,6] [4,6] axes=0 center=0", NULL}},
    {0}};

/* ---- layers */

static shoal_value *scaled(shoal_graph *g, shoal_value *y, shoal_value *scale, shoal_value *offset) {
  if (scale) y = shoal_mul(g, y, scale);
  return offset ? shoal_add(g, y, offset) : y;
}

shoal_value *shoal_normalize(shoal_graph *g, shoal_value *x, shoal_shape axes, double epsilon, bool center) {
  return GRAPH_UNARY(g, "normalize", x, ATTR_L(axes), ATTR_F(epsilon), ATTR_I(center));
}

shoal_value *shoal_layer_norm(shoal_graph *g, shoal_value *x, int axes, shoal_value *scale, shoal_value *offset,
                              double epsilon) {
  shoal_shape last = {0};
  for (int i = 0; i < axes && i < SHOAL_MAX_RANK; i++) last.dim[last.rank++] = -1 - i;
  if (axes < 1) graph_fail(g, status_make(SHOAL_ERR_ARGUMENT, "layer_norm: %d axes; expected at least 1", axes));
  return scaled(g, shoal_normalize(g, x, last, epsilon, true), scale, offset);
}

shoal_value *shoal_rms_norm(shoal_graph *g, shoal_value *x, shoal_value *scale, double epsilon) {
  return scaled(g, shoal_normalize(g, x, SHOAL_SHAPE(-1), epsilon, false), scale, NULL);
}

/* [n, ..., c] is seen as [n, places, groups, c / groups]. */
shoal_value *shoal_group_norm(shoal_graph *g, shoal_value *x, int64_t groups, shoal_value *scale, shoal_value *offset,
                              double epsilon) {
  if (!x) return NULL;
  int rank = x->shape.rank;
  int64_t places = rank >= 2 ? shape_span(&x->shape, 1, rank - 1) : SHOAL_UNKNOWN;
  int64_t channels = rank >= 2 ? x->shape.dim[rank - 1] : SHOAL_UNKNOWN;
  if (places == SHOAL_UNKNOWN || channels == SHOAL_UNKNOWN || groups < 1 || channels % groups) {
    char buffer[VALUE_TEXT];
    graph_fail(g, status_make(SHOAL_ERR_ARGUMENT,
                              "group_norm of %s in %lld groups: [batch, ..., channels] with known "
                              "dimensions is expected, and channels that make equal groups",
                              value_text(x, buffer), (long long)groups));
    return NULL;
  }
  shoal_value *y = shoal_reshape(g, x, SHOAL_SHAPE(x->shape.dim[0], places, groups, channels / groups));
  y = shoal_reshape(g, shoal_normalize(g, y, SHOAL_SHAPE(1, 3), epsilon, true), x->shape);
  return scaled(g, y, scale, offset);
}
