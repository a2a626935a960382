/* One number from a whole tensor: l2_loss, trace. */
#include "graph/ops/ops.h"
#include "graph/ops/util.h"

#include <string.h>

static shoal_status scalar_shape(op_shapes *s) {
  TRY(rule_float(s, 0, "the input"));
  s->out[0] = SHOAL_SCALAR;
  s->out_dtype[0] = s->in_dtype[0];
  return NULL;
}

/* ---- l2_loss(x): sum of squares / 2 */

REAL_KERNEL(l2_loss_kernel, {
  enum { PARTS = 16 }; /* partial sums side by side, so that they fit a vector */
  const real *x = call->in[0].data;
  real *y = call->out[0].data;
  int64_t n = shoal_tensor_count(&call->in[0]), i = 0;
  real part[PARTS] = {0}, sum = 0;
  for (; i + PARTS <= n; i += PARTS)
    for (int k = 0; k < PARTS; k++) part[k] += x[i + k] * x[i + k];
  for (; i < n; i++) sum += x[i] * x[i];
  for (int k = 0; k < PARTS; k++) sum += part[k];
  *y = (call->accumulate ? *y : 0) + sum / 2;
  return NULL;
})

static void l2_loss_gradient(op_grad_call *c) { c->dx[0].value = shoal_mul(c->graph, c->in[0], c->dy[0]); }

static void l2_loss_cost(const op_shapes *s, double *flops) { *flops = 2 * (double)shoal_shape_count(&s->in[0]); }

/* ---- trace(x [n, n]), trace_grad(dy, like [n, n]): dy on the diagonal */

static shoal_status square_matrix(const op_shapes *s, int i) {
  char buffer[SHOAL_SHAPE_TEXT];
  TRY(rule_rank(s, i, 2, "the matrix"));
  if (dims_fit(s->in[i].dim[0], s->in[i].dim[1])) return NULL;
  return status_make(SHOAL_ERR_ARGUMENT, "the matrix must be square, not %s", shoal_shape_text(&s->in[i], buffer));
}

static shoal_status trace_shape(op_shapes *s) {
  TRY(square_matrix(s, 0));
  return scalar_shape(s);
}

REAL_KERNEL(trace_kernel, {
  const real *x = call->in[0].data;
  int64_t n = call->in[0].shape.dim[0];
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += (double)x[i * n + i];
  *(real *)call->out[0].data = (real)sum;
  return NULL;
})

static void trace_gradient(op_grad_call *c) {
  c->dx[0].value = GRAPH_BINARY(c->graph, "trace_grad", c->dy[0], c->in[0]);
}

static void trace_cost(const op_shapes *s, double *flops) { *flops = (double)s->in[0].dim[0]; }

static shoal_status trace_grad_shape(op_shapes *s) {
  TRY(rule_same_dtype(s));
  TRY(rule_float(s, 0, "the input"));
  TRY(rule_rank(s, 0, 0, "the gradient"));
  TRY(square_matrix(s, 1));
  s->out[0] = s->in[1];
  s->out_dtype[0] = s->in_dtype[0];
  return NULL;
}

REAL_KERNEL(trace_grad_kernel, {
  real *dx = call->out[0].data;
  int64_t n = call->out[0].shape.dim[0];
  memset(dx, 0, shoal_tensor_bytes(&call->out[0]));
  for (int64_t i = 0; i < n; i++) dx[i * n + i] = *(const real *)call->in[0].data;
  return NULL;
})

const op_row ops_scalars[] = {{.name = "l2_loss",
                               .ins_min = 1,
                               .ins_max = 1,
                               .outs = 1,
                               .shape = scalar_shape,
                               .batch = batch_sum,
                               .gradient = l2_loss_gradient,
                               .kernel = l2_loss_kernel,
                               .cost = l2_loss_cost,
                               .cases = (const char *const[]){"[3,4]", "[?5,2]", "[1]", "[]", "[37]", NULL}},
                              {.name = "trace",
                               .ins_min = 1,
                               .ins_max = 1,
                               .outs = 1,
                               .shape = trace_shape,
                               .gradient = trace_gradient,
                               .kernel = trace_kernel,
                               .cost = trace_cost,
                               .cases = (const char *const[]){"[3,3]", "[1,1]", NULL}},
                              {.name = "trace_grad",
                               .ins_min = 2,
                               .ins_max = 2,
                               .outs = 1,
                               .flags = OP_GRADIENT_ONLY,
                               .shape_only = 2,
                               .shape = trace_grad_shape,
                               .kernel = trace_grad_kernel,
                               .cost = cost_zero,
                               .cases = (const char *const[]){"[] [3,3]", "[] [1,1]", NULL}},
                              {0}};

shoal_value *shoal_l2_loss(shoal_graph *g, shoal_value *x) { return GRAPH_UNARY(g, "l2_loss", x); }
shoal_value *shoal_trace(shoal_graph *g, shoal_value *x) { return GRAPH_UNARY(g, "trace", x); }
