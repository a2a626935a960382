/* Matrix product and the bias added to rows. */
#include "graph/ops/dot.h"
#include "graph/ops/matmul.h"
#include "graph/ops/ops.h"
#include "graph/ops/tuned.h"
#include "graph/ops/util.h"

/* ---- matmul: op(a) [rows, inner] x op(b) [inner, cols] */

enum { TRANSPOSE_A, TRANSPOSE_B };

static shoal_status matmul_shape(op_shapes *s) {
  TRY(rule_float(s, 0, "a"));
  TRY(rule_same_dtype(s));
  TRY(rule_rank(s, 0, 2, "a"));
  TRY(rule_rank(s, 1, 2, "b"));
  bool ta = s->attr[TRANSPOSE_A].i, tb = s->attr[TRANSPOSE_B].i;
  int64_t inner_a = s->in[0].dim[ta ? 0 : 1], inner_b = s->in[1].dim[tb ? 1 : 0];
  if (!dims_fit(inner_a, inner_b)) {
    char a[SHOAL_SHAPE_TEXT], b[SHOAL_SHAPE_TEXT];
    return status_make(SHOAL_ERR_ARGUMENT,
                       "inner dimensions differ: a %s%s has %lld columns, b %s%s has %lld rows; they must be equal",
                       shoal_shape_text(&s->in[0], a), ta ? " transposed" : "", (long long)inner_a,
                       shoal_shape_text(&s->in[1], b), tb ? " transposed" : "", (long long)inner_b);
  }
  s->out[0] = SHOAL_SHAPE(s->in[0].dim[ta ? 1 : 0], s->in[1].dim[tb ? 0 : 1]);
  s->out_dtype[0] = s->in_dtype[0];
  return NULL;
}

static op_batch matmul_batch(const op_shapes *s) {
  bool ta = s->attr[TRANSPOSE_A].i, tb = s->attr[TRANSPOSE_B].i;
  bool a = shape_is_batched(&s->in[0]), b = shape_is_batched(&s->in[1]);
  if (a && !ta && !b) return BATCH_MAP;
  if (a && ta && b && !tb && !shape_is_batched(&s->out[0])) return BATCH_SUM;
  return BATCH_WHOLE;
}

REAL_KERNEL(matmul_kernel, {
  const real *a = call->in[0].data; /* [rows, inner] or, transposed, [inner, rows] */
  const real *b = call->in[1].data; /* [inner, cols] or, transposed, [cols, inner] */
  real *y = call->out[0].data;      /* [rows, cols] */
  bool ta = call->attr[TRANSPOSE_A].i;
  bool tb = call->attr[TRANSPOSE_B].i;
  int64_t rows = call->out[0].shape.dim[0];
  int64_t cols = call->out[0].shape.dim[1];
  int64_t inner = call->in[0].shape.dim[ta ? 0 : 1];
  int64_t step_i = ta ? 1 : inner; /* a(i, k) is a[i * step_i + k * step_k] */
  int64_t step_k = ta ? rows : 1;
  for (int64_t i = 0; i < rows; i++) {
    const real *ai = a + i * step_i;
    real *restrict yi = y + i * cols;
    if (!call->accumulate)
      for (int64_t j = 0; j < cols; j++) yi[j] = 0;
    if (!tb) {
      int64_t k = 0;
      for (; k + 4 <= inner; k += 4) { /* four rows of b a pass: y is read and written a quarter as often */
        real a0 = ai[k * step_k], a1 = ai[(k + 1) * step_k], a2 = ai[(k + 2) * step_k], a3 = ai[(k + 3) * step_k];
        const real *bk = b + k * cols;
        for (int64_t j = 0; j < cols; j++)
          yi[j] += a0 * bk[j] + a1 * bk[cols + j] + a2 * bk[2 * cols + j] + a3 * bk[3 * cols + j];
      }
      for (; k < inner; k++) {
        real ak = ai[k * step_k];
        for (int64_t j = 0; j < cols; j++) yi[j] += ak * b[k * cols + j];
      }
    } else if (!ta) {
      for (int64_t j = 0; j < cols; j++) yi[j] += DOT(ai, b + j * inner, inner);
    } else {
      for (int64_t j = 0; j < cols; j++) {
        real sum = 0;
        for (int64_t k = 0; k < inner; k++) sum += ai[k * step_k] * b[j * inner + k];
        yi[j] += sum;
      }
    }
  }
  return NULL;
})

shoal_status matmul_reference(const kernel_call *call) { return matmul_kernel(call); }

static shoal_value *product(shoal_graph *g, shoal_value *a, shoal_value *b, bool ta, bool tb) {
  return GRAPH_BINARY(g, "matmul", a, b, ATTR_I(ta), ATTR_I(tb));
}

static void matmul_gradient(op_grad_call *c) {
  shoal_graph *g = c->graph;
  shoal_value *a = c->in[0], *b = c->in[1], *dy = c->dy[0];
  bool ta = c->attr[TRANSPOSE_A].i, tb = c->attr[TRANSPOSE_B].i;
  /* d op(a) = dy op(b)^T and d op(b) = op(a)^T dy, themselves transposed where a or b was. */
  c->dx[0].value = ta ? product(g, b, dy, tb, true) : product(g, dy, b, false, !tb);
  c->dx[1].value = tb ? product(g, dy, a, true, ta) : product(g, a, dy, !ta, false);
}

static void matmul_cost(const op_shapes *s, double *flops) {
  int64_t inner = s->in[0].dim[s->attr[TRANSPOSE_A].i ? 0 : 1];
  *flops = 2.0 * (double)inner * (double)shoal_shape_count(&s->out[0]);
}

shoal_value *shoal_matmul(shoal_graph *g, shoal_value *a, shoal_value *b, bool transpose_a, bool transpose_b) {
  bool many = a && b && (a->shape.rank > 2 || b->shape.rank > 2);
  return GRAPH_BINARY(g, many ? "batch_matmul" : "matmul", a, b, ATTR_I(transpose_a), ATTR_I(transpose_b));
}

/* ---- bias_add: x [..., c] + b [c] */

static shoal_status bias_add_shape(op_shapes *s) {
  TRY(rule_float(s, 0, "x"));
  TRY(rule_same_dtype(s));
  TRY(rule_rank_min(s, 0, 1, "x"));
  TRY(rule_rank(s, 1, 1, "bias"));
  int last = s->in[0].rank - 1;
  if (!dims_fit(s->in[0].dim[last], s->in[1].dim[0])) {
    char x[SHOAL_SHAPE_TEXT], b[SHOAL_SHAPE_TEXT];
    return status_make(SHOAL_ERR_ARGUMENT, "x %s has %lld channels, bias %s has %lld; they must be equal",
                       shoal_shape_text(&s->in[0], x), (long long)s->in[0].dim[last], shoal_shape_text(&s->in[1], b),
                       (long long)s->in[1].dim[0]);
  }
  s->out[0] = s->in[0];
  s->out[0].dim[last] = dims_known(s->in[0].dim[last], s->in[1].dim[0]);
  s->out_dtype[0] = s->in_dtype[0];
  return NULL;
}

static op_batch bias_add_batch(const op_shapes *s) {
  return s->in[0].rank < 2 || shape_is_batched(&s->in[1]) ? BATCH_WHOLE : batch_map(s);
}

REAL_KERNEL(bias_add_kernel, {
  const real *x = call->in[0].data;    /* [rows, channels] */
  const real *bias = call->in[1].data; /* [channels] */
  real *y = call->out[0].data;         /* [rows, channels] */
  int64_t channels = call->in[1].shape.dim[0];
  int64_t rows = channels ? shoal_tensor_count(&call->in[0]) / channels : 0;
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < channels; j++) y[i * channels + j] = x[i * channels + j] + bias[j];
  return NULL;
})

static void bias_add_gradient(op_grad_call *c) {
  c->dx[0].value = c->dy[0];
  c->dx[1].value = GRAPH_UNARY(c->graph, "bias_add_grad", c->dy[0], {0});
}

shoal_value *shoal_bias_add(shoal_graph *g, shoal_value *x, shoal_value *bias) {
  return GRAPH_BINARY(g, "bias_add", x, bias, {0});
}

static shoal_status bias_add_grad_shape(op_shapes *s) {
  TRY(rule_float(s, 0, "dy"));
  TRY(rule_rank_min(s, 0, 1, "dy"));
  s->out[0] = SHOAL_SHAPE(s->in[0].dim[s->in[0].rank - 1]);
  s->out_dtype[0] = s->in_dtype[0];
  return NULL;
}

REAL_KERNEL(bias_add_grad_kernel, {
  const real *dy = call->in[0].data; /* [rows, channels] */
  real *db = call->out[0].data;      /* [channels] */
  int64_t channels = call->out[0].shape.dim[0];
  int64_t rows = channels ? shoal_tensor_count(&call->in[0]) / channels : 0;
  if (!call->accumulate)
    for (int64_t j = 0; j < channels; j++) db[j] = 0;
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < channels; j++) db[j] += dy[i * channels + j];
  return NULL;
})

static const char *const matmul_cases[] = {"[?5,7] [7,9]",
                                           "[?20,33] [33,10]",
                                           "[5,7] [9,7] transpose_b=1",
                                           "[?5,17] [9,17] transpose_b=1",
                                           "[?7,5] [?7,9] transpose_a=1",
                                           "[?37,30] [?37,11] transpose_a=1",
                                           "[7,5] [9,7] transpose_a=1 transpose_b=1",
                                           "[?1,1] [1,1]",
                                           "[3,0] [0,2]",
                                           "[13,150] [150,70]",
                                           "[?66,530] [500,530] transpose_b=1",
                                           "[?18,500] [?18,530] transpose_a=1",
                                           "[150,13] [70,150] transpose_a=1 transpose_b=1",
                                           NULL};
static const char *const bias_add_cases[] = {"[?5,7] [7]", "[?3,4,5,6] [6]", "[4] [4]", "[?17,10] [10]", NULL};
static const char *const bias_add_grad_cases[] = {"[?5,7]", "[?3,4,5,6]", "[4]", "[?17,10]", NULL};

const op_row ops_matmul[] = {
    {.name = "matmul",
     .attrs = {{"transpose_a", ATTR_BOOL, 0}, {"transpose_b", ATTR_BOOL, 0}},
     .ins_min = 2,
     .ins_max = 2,
     .outs = 1,
     .shape = matmul_shape,
     .batch = matmul_batch,
     .gradient = matmul_gradient,
     .kernel = matmul_kernel,
     .variants = tuned_matmul,
     .cost = matmul_cost,
     .cases = matmul_cases},
    {.name = "bias_add",
     .ins_min = 2,
     .ins_max = 2,
     .outs = 1,
     .shape = bias_add_shape,
     .batch = bias_add_batch,
     .gradient = bias_add_gradient,
     .kernel = bias_add_kernel,
     .variants = tuned_bias_add,
     .cases = bias_add_cases},
    {.name = "bias_add_grad",
     .ins_min = 1,
     .ins_max = 1,
     .outs = 1,
     .flags = OP_GRADIENT_ONLY,
     .shape = bias_add_grad_shape,
     .batch = batch_sum,
     .kernel = bias_add_grad_kernel,
     .variants = tuned_bias_add_grad,
     .cost = cost_input,
     .cases = bias_add_grad_cases},
    {0},
};
