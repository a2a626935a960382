/* Operators on each element of one tensor, and the helpers of their gradients. */
#include "graph/ops/ops.h"
#include "graph/ops/tuned.h"
#include "graph/ops/util.h"

#include <tgmath.h>

/* `expression` in v, the element. ivdep: output and input may be the same memory, element by element. */
#define MAP_LOOP(type, expression)                         \
  {                                                        \
    int64_t n = shoal_tensor_count(&call->out[0]);         \
    const type *x = call->in[0].data;                      \
    type *y = call->out[0].data;                           \
    _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++) { \
      type v = x[i];                                       \
      y[i] = (expression);                                 \
    }                                                      \
    return NULL;                                           \
  }

/* As above in dv, the gradient, and v, the element of input 1. */
#define GRAD_LOOP(expression)                              \
  {                                                        \
    int64_t n = shoal_tensor_count(&call->out[0]);         \
    const real *dy = call->in[0].data;                     \
    const real *y = call->in[1].data;                      \
    real *dx = call->out[0].data;                          \
    _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++) { \
      real v = y[i], dv = dy[i];                           \
      dx[i] = (expression);                                \
    }                                                      \
    return NULL;                                           \
  }

NUMBER_KERNEL(neg_kernel, MAP_LOOP(number, (number)(-(wide)v)))
NUMBER_KERNEL(square_kernel, MAP_LOOP(number, (number)((wide)v *(wide)v)))
/* + 0 turns the float -0 into 0. */
NUMBER_KERNEL(abs_kernel, MAP_LOOP(number, (number)((v < 0 ? (number)(-(wide)v) : v) + 0)))
/* A NaN stays one. */
NUMBER_KERNEL(sign_kernel, MAP_LOOP(number, v > 0 ? 1 : v < 0 ? -1 : v))
REAL_KERNEL(exp_kernel, MAP_LOOP(real, exp(v)))
REAL_KERNEL(log_kernel, MAP_LOOP(real, log(v)))
REAL_KERNEL(safe_log_kernel, MAP_LOOP(real, v > 0 ? log(v) : 0))
REAL_KERNEL(sqrt_kernel, MAP_LOOP(real, sqrt(v)))
REAL_KERNEL(tanh_kernel, MAP_LOOP(real, tanh(v)))
REAL_KERNEL(sigmoid_kernel, MAP_LOOP(real, 1 / (1 + exp(-v))))
REAL_KERNEL(floor_kernel, MAP_LOOP(real, floor(v)))
REAL_KERNEL(ceil_kernel, MAP_LOOP(real, ceil(v)))
/* Halves to even numbers. */
REAL_KERNEL(round_kernel, MAP_LOOP(real, rint(v)))
static shoal_status logical_not_kernel(const kernel_call *call) MAP_LOOP(uint8_t, !v)
    /* A NaN passes, so that check_numerics finds it. */
    REAL_KERNEL(relu_kernel, MAP_LOOP(real, v < 0 ? 0 : v))
        REAL_KERNEL(scale_kernel, real factor = (real)call->attr[0].f; MAP_LOOP(real, v *factor))
            REAL_KERNEL(clip_kernel, real low = (real)call->attr[0].f; real high = (real)call->attr[1].f;
                        MAP_LOOP(real, v<low ? low : v> high ? high : v))

                REAL_KERNEL(relu_grad_kernel, GRAD_LOOP(v > 0 ? dv : 0))
                    REAL_KERNEL(tanh_grad_kernel, GRAD_LOOP(dv *(1 - v * v)))
                        REAL_KERNEL(sigmoid_grad_kernel, GRAD_LOOP(dv *v *(1 - v)))
                            REAL_KERNEL(clip_grad_kernel, real low = (real)call->attr[0].f;
                                        real high = (real)call->attr[1].f; GRAD_LOOP(v < low || v > high ? 0 : dv))

    /* ---- gradients */

    static void neg_gradient(op_grad_call *c) {
  c->dx[0].value = shoal_neg(c->graph, c->dy[0]);
}

static void scale_gradient(op_grad_call *c) { c->dx[0].value = shoal_scale(c->graph, c->dy[0], c->attr[0].f); }

static void exp_gradient(op_grad_call *c) { c->dx[0].value = shoal_mul(c->graph, c->dy[0], c->out[0]); }
static void log_gradient(op_grad_call *c) { c->dx[0].value = shoal_div(c->graph, c->dy[0], c->in[0]); }

static void sqrt_gradient(op_grad_call *c) {
  c->dx[0].value = shoal_scale(c->graph, shoal_div(c->graph, c->dy[0], c->out[0]), 0.5);
}

static void square_gradient(op_grad_call *c) {
  c->dx[0].value = shoal_scale(c->graph, shoal_mul(c->graph, c->dy[0], c->in[0]), 2);
}

static void abs_gradient(op_grad_call *c) {
  c->dx[0].value = shoal_mul(c->graph, c->dy[0], shoal_sign(c->graph, c->in[0]));
}

static void relu_gradient(op_grad_call *c) {
  c->dx[0].value = GRAPH_BINARY(c->graph, "relu_grad", c->dy[0], c->out[0]);
}

static void tanh_gradient(op_grad_call *c) {
  c->dx[0].value = GRAPH_BINARY(c->graph, "tanh_grad", c->dy[0], c->out[0]);
}

static void sigmoid_gradient(op_grad_call *c) {
  c->dx[0].value = GRAPH_BINARY(c->graph, "sigmoid_grad", c->dy[0], c->out[0]);
}

static void clip_gradient(op_grad_call *c) {
  c->dx[0].value = GRAPH_BINARY(c->graph, "clip_grad", c->dy[0], c->in[0], c->attr[0], c->attr[1]);
}

/* ---- rows */

static shoal_status clip_shape(op_shapes *s) {
  if (!(s->attr[0].f <= s->attr[1].f))
    return status_make(SHOAL_ERR_ARGUMENT, "low must not be above high: %g and %g", s->attr[0].f, s->attr[1].f);
  return shape_all_alike_float(s);
}

static shoal_status logical_not_shape(op_shapes *s) {
  if (s->in_dtype[0] == SHOAL_BOOL) return shape_as_input(s);
  return status_make(SHOAL_ERR_ARGUMENT, "the input must be bool, not %s", shoal_dtype_name(s->in_dtype[0]));
}

#define UNARY_PLAIN(op, rule, cases_)                                                                               \
  {                                                                                                                 \
    .name = #op, .ins_min = 1, .ins_max = 1, .outs = 1, .flags = OP_NO_GRADIENT, .shape = rule, .batch = batch_map, \
    .kernel = op##_kernel, .cases = cases_                                                                          \
  }
#define UNARY(op, rule, cases_)                                                                                   \
  {                                                                                                               \
    .name = #op, .ins_min = 1, .ins_max = 1, .outs = 1, .shape = rule, .batch = batch_map, .kernel = op##_kernel, \
    .gradient = op##_gradient, .cases = cases_                                                                    \
  }
#define UNARY_GRAD(op)                                                                                             \
  {                                                                                                                \
    .name = #op "_grad", .ins_min = 2, .ins_max = 2, .outs = 1, .flags = OP_GRADIENT_ONLY,                         \
    .shape = shape_all_alike_float, .batch = batch_map, .kernel = op##_grad_kernel, .variants = tuned_##op##_grad, \
    .cases = pairs                                                                                                 \
  }

static const char *const any[] = {"[3,4]", "[?5,2,3]", "[?33,7]", "[1]", "[]", NULL};
static const char *const positive[] = {"[3,4]>0", "[?5,2,3]>0", "[1]>0", NULL};
static const char *const numbers[] = {"[3,4]", "[?5,2,3]", "i32[7]<5", "i64[2,2]<9", NULL};
static const char *const pairs[] = {"[3,4] [3,4]", "[?5,2] [?5,2]", "[?33,7] [?33,7]", "[1] [1]", NULL};

/* The same with tuned kernels. */
#define UNARY_TUNED(op, rule, cases_)                                                                             \
  {                                                                                                               \
    .name = #op, .ins_min = 1, .ins_max = 1, .outs = 1, .shape = rule, .batch = batch_map, .kernel = op##_kernel, \
    .variants = tuned_##op, .gradient = op##_gradient, .cases = cases_                                            \
  }

static const char *const wide[] = {"[3,4]~9", "[?5,2,3]~3", "[]", NULL};
static const char *const bools[] = {"bool[7]", "bool[?5,2]", NULL};

const op_row ops_unary[] = {
    UNARY(neg, shape_as_input_number, numbers),
    UNARY(abs, shape_as_input_number, numbers),
    UNARY(square, shape_as_input_number, numbers),
    UNARY_PLAIN(sign, shape_as_input_number, numbers),
    UNARY_PLAIN(floor, shape_as_input_float, wide),
    UNARY_PLAIN(ceil, shape_as_input_float, wide),
    UNARY_PLAIN(round, shape_as_input_float, wide),
    UNARY_PLAIN(logical_not, logical_not_shape, bools),
    UNARY(exp, shape_as_input_float, any),
    UNARY(log, shape_as_input_float, positive),
    UNARY(sqrt, shape_as_input_float, positive),
    UNARY_TUNED(relu, shape_as_input_float, any),
    UNARY_TUNED(tanh, shape_as_input_float, any),
    UNARY_TUNED(sigmoid, shape_as_input_float, any),
    {.name = "scale",
     .attrs = {{"factor", ATTR_FLOAT, 1}},
     .ins_min = 1,
     .ins_max = 1,
     .outs = 1,
     .shape = shape_as_input_float,
     .batch = batch_map,
     .gradient = scale_gradient,
     .kernel = scale_kernel,
     .variants = tuned_scale,
     .cases = (const char *const[]){"[3,4] factor=0.5", "[?5,2,3] factor=-2", "[1]", NULL}},
    {.name = "clip",
     .attrs = {{"low", ATTR_FLOAT, 0}, {"high", ATTR_FLOAT, 1}},
     .ins_min = 1,
     .ins_max = 1,
     .outs = 1,
     .shape = clip_shape,
     .batch = batch_map,
     .gradient = clip_gradient,
     .kernel = clip_kernel,
     .cases = (const char *const[]){"[3,4] low=-0.5 high=0.5", "[?5,2,3] low=-0.1 high=0.3", "[8]", NULL}},
    {.name = "clip_grad",
     .attrs = {{"low", ATTR_FLOAT, 0}, {"high", ATTR_FLOAT, 1}},
     .ins_min = 2,
     .ins_max = 2,
     .outs = 1,
     .flags = OP_GRADIENT_ONLY,
     .shape = clip_shape,
     .batch = batch_map,
     .kernel = clip_grad_kernel,
     .cases = (const char *const[]){"[3,4] [3,4] low=-0.5 high=0.5", "[?5,2] [?5,2]", NULL}},
    UNARY_GRAD(relu),
    UNARY_GRAD(tanh),
    UNARY_GRAD(sigmoid),
    /* log x where x > 0, else 0: the gradient of pow with respect to its exponent. */
    {.name = "safe_log",
     .ins_min = 1,
     .ins_max = 1,
     .outs = 1,
     .flags = OP_GRADIENT_ONLY,
     .shape = shape_as_input_float,
     .batch = batch_map,
     .kernel = safe_log_kernel,
     .cases = any},
    {0}};

shoal_value *shoal_scale(shoal_graph *g, shoal_value *x, double factor) {
  return GRAPH_UNARY(g, "scale", x, ATTR_F(factor));
}

shoal_value *shoal_clip(shoal_graph *g, shoal_value *x, double low, double high) {
  return GRAPH_UNARY(g, "clip", x, ATTR_F(low), ATTR_F(high));
}

shoal_value *shoal_neg(shoal_graph *g, shoal_value *x) { return GRAPH_UNARY(g, "neg", x); }
shoal_value *shoal_exp(shoal_graph *g, shoal_value *x) { return GRAPH_UNARY(g, "exp", x); }
shoal_value *shoal_log(shoal_graph *g, shoal_value *x) { return GRAPH_UNARY(g, "log", x); }
shoal_value *shoal_sqrt(shoal_graph *g, shoal_value *x) { return GRAPH_UNARY(g, "sqrt", x); }
shoal_value *shoal_square(shoal_graph *g, shoal_value *x) { return GRAPH_UNARY(g, "square", x); }
shoal_value *shoal_abs(shoal_graph *g, shoal_value *x) { return GRAPH_UNARY(g, "abs", x); }
shoal_value *shoal_sign(shoal_graph *g, shoal_value *x) { return GRAPH_UNARY(g, "sign", x); }
shoal_value *shoal_relu(shoal_graph *g, shoal_value *x) { return GRAPH_UNARY(g, "relu", x); }
shoal_value *shoal_tanh(shoal_graph *g, shoal_value *x) { return GRAPH_UNARY(g, "tanh", x); }
shoal_value *shoal_sigmoid(shoal_graph *g, shoal_value *x) { return GRAPH_UNARY(g, "sigmoid", x); }
shoal_value *shoal_floor(shoal_graph *g, shoal_value *x) { return GRAPH_UNARY(g, "floor", x); }
shoal_value *shoal_ceil(shoal_graph *g, shoal_value *x) { return GRAPH_UNARY(g, "ceil", x); }
shoal_value *shoal_round(shoal_graph *g, shoal_value *x) { return GRAPH_UNARY(g, "round", x); }
shoal_value *shoal_logical_not(shoal_graph *g, shoal_value *x) { return GRAPH_UNARY(g, "logical_not", x); }
