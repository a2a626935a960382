/* Pairs of vectors that were looked up, field by field: what a factorization machine makes of them. */
#include "graph/ops/ops.h"
#include "graph/ops/tuned.h"
#include "graph/ops/util.h"

/* ---- field_pairs: x [n, fields, width] -> [n, 1] and, for the gradient, [n, width]: of the vectors
 * of an example's fields, the first `linear` columns are weights, added up; of the others all pairs of vectors are multiplied. */

static shoal_status field_pairs_shape(op_shapes *s) {
  const int64_t linear = s->attr[0].i;
  TRY(rule_float(s, 0, "x"));
  TRY(rule_rank(s, 0, 3, "x"));
  if (linear < 0 || linear > s->in[0].dim[2])
    return status_make(SHOAL_ERR_ARGUMENT, "linear: %lld of %lld columns are expected", (long long)linear,
                       (long long)s->in[0].dim[2]);
  s->out[0] = SHOAL_SHAPE(s->in[0].dim[0], 1);
  s->out[1] = SHOAL_SHAPE(s->in[0].dim[0], s->in[0].dim[2]);
  s->out_dtype[0] = s->out_dtype[1] = s->in_dtype[0];
  return NULL;
}

REAL_KERNEL(field_pairs_kernel, {
  const real *x = call->in[0].data; /* [n, fields, width] */
  real *y = call->out[0].data;      /* [n, 1] */
  real *sums = call->out[1].data;   /* [n, width] */
  const int64_t fields = call->in[0].shape.dim[1];
  const int64_t width = call->in[0].shape.dim[2];
  for (int64_t i = 0; i < call->in[0].shape.dim[0]; i++) {
    real linear = 0;
    real pairs = 0;
    for (int64_t j = 0; j < width; j++) {
      real sum = 0;
      real squares = 0;
      for (int64_t f = 0; f < fields; f++) {
        const real v = x[(i * fields + f) * width + j];
        sum += v;
        squares += v * v;
      }
      sums[i * width + j] = sum;
      if (j < call->attr[0].i)
        linear += sum;
      else
        pairs += sum * sum - squares;
    }
    y[i] = linear + pairs / 2;
  }
  return NULL;
})

static void field_pairs_gradient(op_grad_call *c) {
  c->dx[0].value = graph_op(c->graph, "field_pairs_grad", (shoal_value *[]){c->in[0], c->out[1], c->dy[0]}, 3, c->attr);
}

static void field_pairs_cost(const op_shapes *s, double *flops) { *flops = 3.0 * (double)shoal_shape_count(&s->in[0]); }

shoal_value *field_pairs(shoal_graph *g, shoal_value *x, int64_t linear) {
  return graph_op(g, "field_pairs", &x, 1, (attr_value[OP_MAX_ATTRS]){ATTR_I(linear)});
}

/* (x, sums [n, width], dy [n, 1]) -> like x */
static shoal_status field_pairs_grad_shape(op_shapes *s) {
  op_shapes forward = *s;
  shoal_shape out[2];
  shoal_dtype dtypes[2];
  forward.out = out;
  forward.out_dtype = dtypes;
  TRY(field_pairs_shape(&forward));
  TRY(rule_same_dtype(s));
  if (!shapes_fit(&s->in[1], &out[1]) || !shapes_fit(&s->in[2], &out[0]))
    return status_make(SHOAL_ERR_ARGUMENT, "sums [n, width] and dy [n, 1] are expected");
  s->out[0] = s->in[0];
  s->out_dtype[0] = s->in_dtype[0];
  return NULL;
}

REAL_KERNEL(field_pairs_grad_kernel, {
  const real *x = call->in[0].data;    /* [n, fields, width] */
  const real *sums = call->in[1].data; /* [n, width] */
  const real *dy = call->in[2].data;   /* [n] */
  real *dx = call->out[0].data;
  const int64_t fields = call->in[0].shape.dim[1];
  const int64_t width = call->in[0].shape.dim[2];
  for (int64_t i = 0; i < call->in[0].shape.dim[0]; i++)
    for (int64_t k = 0; k < fields * width; k++) {
      const int64_t j = k % width;
      const real others = j < call->attr[0].i ? 1 : sums[i * width + j] - x[i * fields * width + k];
      dx[i * fields * width + k] = dy[i] * others;
    }
  return NULL;
})

static const char *const pairs_cases[] = {"[3,4,5] linear=1", "[?5,3,17] linear=1", "[2,3,40]", "[2,2,3] linear=3",
                                          NULL};
static const char *const pairs_grad_cases[] = {"[3,4,5] [3,5] [3,1] linear=1", "[?5,3,17] [?5,17] [?5,1] linear=1",
                                               "[2,3,40] [2,40] [2,1]", NULL};

const op_row ops_field_pairs[] = {
    {.name = "field_pairs",
     .attrs = {{"linear", ATTR_INT, 0}},
     .ins_min = 1,
     .ins_max = 1,
     .outs = 2,
     .saved = 1u << 1,
     .shape = field_pairs_shape,
     .batch = batch_map,
     .gradient = field_pairs_gradient,
     .kernel = field_pairs_kernel,
     .variants = tuned_field_pairs,
     .cost = field_pairs_cost,
     .cases = pairs_cases},
    {.name = "field_pairs_grad",
     .attrs = {{"linear", ATTR_INT, 0}},
     .ins_min = 3,
     .ins_max = 3,
     .outs = 1,
     .flags = OP_GRADIENT_ONLY,
     .shape = field_pairs_grad_shape,
     .batch = batch_map,
     .kernel = field_pairs_grad_kernel,
     .variants = tuned_field_pairs_grad,
     .cost = field_pairs_cost,
     .cases = pairs_grad_cases},
    {0},
};
