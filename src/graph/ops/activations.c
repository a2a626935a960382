/* Activations and other functions of one number: a table of f and its derivative, each by the element of x. */
#include "graph/ops/ops.h"
#include "graph/ops/tuned.h"
#include "graph/ops/util.h"

#include <tgmath.h>

/* ---- pieces of the formulas; without loss of digits or overflow for any v */
#define NUMBER(x) ((real)(x))
#define LOGISTIC(v) (1 / (1 + exp(-(v))))
#define SOFTPLUS(v) (((v) > 0 ? (v) : 0) + log1p(exp(-fabs(v))))
#define SELU_SCALE 1.0507009873554804934
#define SELU_ALPHA 1.6732632423543772848
#define SQRT_HALF NUMBER(0.70710678118654752440)
#define NORMAL_DENSITY(v) (NUMBER(0.39894228040143267794) * exp(-(v) * (v) / 2)) /* of the standard normal */
#define NORMAL_CDF(v) (NUMBER(0.5) * erfc(-(v)*SQRT_HALF))
/* tanh of what the approximate GELU applies it to, and the derivative of that. */
#define GELU_INNER(v) (NUMBER(0.79788456080286535588) * ((v) + NUMBER(0.044715) * (v) * (v) * (v)))
#define GELU_SLOPE(v) (NUMBER(0.79788456080286535588) * (1 + NUMBER(0.134145) * (v) * (v)))
#define BOUNDED(v, low, high) ((v) < (low) ? (low) : (v) > (high) ? (high) : (v)) /* a NaN passes */
#define HARD_SIGMOID(v) BOUNDED((v) / 6 + NUMBER(0.5), 0, 1)

/* name, f(v), f'(v), test cases. `a` is the attribute alpha, where there is one. */
#define FUNCTIONS(X)                                                                      \
  X(relu6, BOUNDED(v, 0, 6), v > 0 && v < 6 ? 1 : 0, wide)                                \
  X(selu, NUMBER(SELU_SCALE) * (v > 0 ? v : NUMBER(SELU_ALPHA) * expm1(v)),               \
    NUMBER(SELU_SCALE) * (v > 0 ? 1 : NUMBER(SELU_ALPHA) * exp(v)), wide)                 \
  X(gelu_tanh, v *LOGISTIC(2 * GELU_INNER(v)), ({                                         \
      real s = LOGISTIC(2 * GELU_INNER(v));                                               \
      s + 2 * v *s *(1 - s) * GELU_SLOPE(v);                                              \
    }),                                                                                   \
    wide)                                                                                 \
  X(silu, v *LOGISTIC(v), ({                                                              \
      real s = LOGISTIC(v);                                                               \
      s *(1 + v * (1 - s));                                                               \
    }),                                                                                   \
    wide)                                                                                 \
  X(softplus, SOFTPLUS(v), LOGISTIC(v), wide)                                             \
  X(softsign, v / (1 + fabs(v)), 1 / ((1 + fabs(v)) * (1 + fabs(v))), wide)               \
  X(hard_sigmoid, HARD_SIGMOID(v), v > -3 && v < 3 ? 1 / NUMBER(6) : 0, wide)             \
  X(hard_swish, v *HARD_SIGMOID(v), v <= -3 ? 0 : v >= 3 ? 1 : v / 3 + NUMBER(0.5), wide) \
  X(hard_tanh, BOUNDED(v, -1, 1), v > -1 && v < 1 ? 1 : 0, wide)                          \
  X(mish, v *tanh(SOFTPLUS(v)), ({                                                        \
      real t = tanh(SOFTPLUS(v));                                                         \
      t + v *LOGISTIC(v) * (1 - t * t);                                                   \
    }),                                                                                   \
    wide)                                                                                 \
  X(erf, erf(v), 2 * NUMBER(0.56418958354775628695) * exp(-v * v), any)                   \
  X(sin, sin(v), cos(v), wide)                                                            \
  X(cos, cos(v), -sin(v), wide)                                                           \
  X(tan, tan(v), 1 / (cos(v) * cos(v)), any)                                              \
  X(atan, atan(v), 1 / (1 + v * v), wide)                                                 \
  X(expm1, expm1(v), exp(v), any)                                                         \
  X(log1p, log1p(v), 1 / (1 + v), positive)                                               \
  X(reciprocal, 1 / v, -1 / (v * v), positive)                                            \
  X(rsqrt, 1 / sqrt(v), NUMBER(-0.5) / (v * sqrt(v)), positive)

/* The same where there are tuned kernels. */
#define FUNCTIONS_TUNED(X) X(gelu, v *NORMAL_CDF(v), NORMAL_CDF(v) + v * NORMAL_DENSITY(v), wide)

/* The same with alpha, and the value of alpha where none is given. */
#define FUNCTIONS_OF_ALPHA(X)                                   \
  X(leaky_relu, v<0 ? a * v : v, v> 0 ? 1 : a, wide_alpha, 0.2) \
  X(elu, v > 0 ? v : a * expm1(v), v > 0 ? 1 : a * exp(v), wide_alpha, 1)

/* ivdep: output and input may be the same memory, element by element. */
#define MAP_KERNELS(op, formula, slope, ...)                                              \
  REAL_KERNEL(op##_kernel, {                                                              \
    real a __attribute__((unused)) = (real)call->attr[0].f;                               \
    int64_t n = shoal_tensor_count(&call->out[0]);                                        \
    const real *x = call->in[0].data; /* [n] */                                           \
    real *y = call->out[0].data;      /* [n] */                                           \
    _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++) {                                \
      real v = x[i];                                                                      \
      y[i] = (formula);                                                                   \
    }                                                                                     \
    return NULL;                                                                          \
  })                                                                                      \
  REAL_KERNEL(op##_grad_kernel, {                                                         \
    real a __attribute__((unused)) = (real)call->attr[0].f;                               \
    int64_t n = shoal_tensor_count(&call->out[0]);                                        \
    const real *dy = call->in[0].data; /* [n] */                                          \
    const real *x = call->in[1].data;  /* [n] */                                          \
    real *dx = call->out[0].data;      /* [n] */                                          \
    _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++) {                                \
      real v = x[i];                                                                      \
      dx[i] = dy[i] * (slope);                                                            \
    }                                                                                     \
    return NULL;                                                                          \
  })                                                                                      \
  static void op##_gradient(op_grad_call *c) {                                            \
    c->dx[0].value = GRAPH_BINARY(c->graph, #op "_grad", c->dy[0], c->in[0], c->attr[0]); \
  }
FUNCTIONS(MAP_KERNELS)
FUNCTIONS_TUNED(MAP_KERNELS)
FUNCTIONS_OF_ALPHA(MAP_KERNELS)

/* Exponentials and the like are counted as ten. */
static void function_cost(const op_shapes *s, double *flops) { *flops = 10.0 * (double)shoal_shape_count(&s->in[0]); }

static const char *const any[] = {"[3,4]", "[?5,2,3]", "[]", "[0,3]", NULL};
static const char *const any_grad[] = {"[3,4] [3,4]", "[?5,2] [?5,2]", NULL};
static const char *const wide[] = {"[3,4]", "[?5,2,3]~8", "[40]~8", NULL};
static const char *const wide_grad[] = {"[3,4] [3,4]", "[?5,2] [?5,2]~8", "[40] [40]~8", NULL};
static const char *const positive[] = {"[3,4]>0", "[?5,2,3]>0", "[]>0", NULL};
static const char *const positive_grad[] = {"[3,4] [3,4]>0", "[?5,2] [?5,2]>0", NULL};
static const char *const wide_alpha[] = {"[3,4]", "[?5,2,3]~8 alpha=0.5", "[40]~8", NULL};
static const char *const wide_alpha_grad[] = {"[3,4] [3,4]", "[?5,2] [?5,2]~8 alpha=0.5", "[40] [40]~8", NULL};

#define ROW(op, ...)                                                                                     \
  .name = #op, .ins_min = 1, .ins_max = 1, .outs = 1, .shape = shape_as_input_float, .batch = batch_map, \
  .gradient = op##_gradient, .kernel = op##_kernel, .cost = function_cost
#define GRAD_ROW(op, ...)                                                                \
  .name = #op "_grad", .ins_min = 2, .ins_max = 2, .outs = 1, .flags = OP_GRADIENT_ONLY, \
  .shape = shape_all_alike_float, .batch = batch_map, .kernel = op##_grad_kernel, .cost = function_cost
#define ROWS(op, formula, slope, cases_) {ROW(op), .cases = cases_}, {GRAD_ROW(op), .cases = cases_##_grad},
#define ROWS_TUNED(op, formula, slope, cases_)        \
  {ROW(op), .variants = tuned_##op, .cases = cases_}, \
      {GRAD_ROW(op), .variants = tuned_##op##_grad, .cases = cases_##_grad},
#define ROWS_OF_ALPHA(op, formula, slope, cases_, standard_alpha)               \
  {ROW(op), .attrs = {{"alpha", ATTR_FLOAT, standard_alpha}}, .cases = cases_}, \
      {GRAD_ROW(op), .attrs = {{"alpha", ATTR_FLOAT, standard_alpha}}, .cases = cases_##_grad},

const op_row ops_activations[] = {FUNCTIONS(ROWS) FUNCTIONS_TUNED(ROWS_TUNED) FUNCTIONS_OF_ALPHA(ROWS_OF_ALPHA){0}};

#define BUILDER(op, ...) \
  shoal_value *shoal_##op(shoal_graph *g, shoal_value *x) { return GRAPH_UNARY(g, #op, x, {0}); }
FUNCTIONS(BUILDER)
FUNCTIONS_TUNED(BUILDER)

#define BUILDER_OF_ALPHA(op, ...)                                         \
  shoal_value *shoal_##op(shoal_graph *g, shoal_value *x, double alpha) { \
    return GRAPH_UNARY(g, #op, x, ATTR_F(alpha));                         \
  }
FUNCTIONS_OF_ALPHA(BUILDER_OF_ALPHA)

shoal_value *shoal_log_sigmoid(shoal_graph *g, shoal_value *x) {
  return shoal_neg(g, shoal_softplus(g, shoal_neg(g, x)));
}

/* max(x, 0) + alpha min(x, 0) */
shoal_value *shoal_prelu(shoal_graph *g, shoal_value *x, shoal_value *alpha) {
  return shoal_sub(g, shoal_relu(g, x), shoal_mul(g, alpha, shoal_relu(g, shoal_neg(g, x))));
}
