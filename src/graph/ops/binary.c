/* Operators on pairs of elements; the operands broadcast. */
#include "graph/ops/ops.h"
#include "graph/ops/tuned.h"
#include "graph/ops/util.h"
#include "graph/ops/walk.h"

#include <tgmath.h>

static void pair_walk(const kernel_call *call, walk *w) {
  const shoal_shape *to = &call->out[0].shape;
  int64_t a[SHOAL_MAX_RANK], b[SHOAL_MAX_RANK];
  walk_broadcast(&call->in[0].shape, to, a);
  walk_broadcast(&call->in[1].shape, to, b);
  walk_init(w, to, a, b);
}

#define PAIR_INNER(type, element_a, element_b, expression) \
  _Pragma("GCC ivdep") for (int64_t i = 0; i < w.n; i++) { \
    type x = element_a, y = element_b;                     \
    out[i] = (expression);                                 \
  }

/* `expression` in x and y. The inner loop has a form for each pattern that the compiler can vectorise. ivdep: the
 * output may be the memory of an operand of the same shape. */
#define PAIR_LOOP(type, out_type, expression)                                                          \
  {                                                                                                    \
    walk w;                                                                                            \
    pair_walk(call, &w);                                                                               \
    out_type *out = call->out[0].data;                                                                 \
    for (; w.left > 0; walk_next(&w), out += w.n) {                                                    \
      const type *a = (const type *)call->in[0].data + w.a, *b = (const type *)call->in[1].data + w.b; \
      if (w.step_a == 1 && w.step_b == 1)                                                              \
        PAIR_INNER(type, a[i], b[i], expression)                                                       \
      else if (w.step_a == 1 && w.step_b == 0)                                                         \
        PAIR_INNER(type, a[i], *b, expression)                                                         \
      else if (w.step_a == 0 && w.step_b == 1)                                                         \
        PAIR_INNER(type, *a, b[i], expression)                                                         \
      else                                                                                             \
        PAIR_INNER(type, a[i * w.step_a], b[i * w.step_b], expression)                                 \
    }                                                                                                  \
    return NULL;                                                                                       \
  }

NUMBER_KERNEL(add_kernel, PAIR_LOOP(number, number, (number)((wide)x + (wide)y)))
NUMBER_KERNEL(sub_kernel, PAIR_LOOP(number, number, (number)((wide)x - (wide)y)))
NUMBER_KERNEL(mul_kernel, PAIR_LOOP(number, number, (number)((wide)x *(wide)y)))
REAL_KERNEL(div_kernel, PAIR_LOOP(real, real, x / y))
REAL_KERNEL(pow_kernel, PAIR_LOOP(real, real, pow(x, y)))
/* A NaN on either side comes through. */
NUMBER_KERNEL(maximum_kernel, PAIR_LOOP(number, number, x > y || x != x ? x : y))
NUMBER_KERNEL(minimum_kernel, PAIR_LOOP(number, number, x < y || x != x ? x : y))
REAL_KERNEL(at_least_kernel, PAIR_LOOP(real, real, x >= y ? 1 : 0))
REAL_KERNEL(below_kernel, PAIR_LOOP(real, real, x < y ? 1 : 0))

/* name_kernel: bools, for operands of every type. */
#define COMPARE(name, expression)                                                                                     \
  static shoal_status name##_f32(const kernel_call *call)                                                             \
      PAIR_LOOP(float, bool, expression) static shoal_status name##_f64(const kernel_call *call)                      \
          PAIR_LOOP(double, bool, expression) static shoal_status name##_i32(const kernel_call *call)                 \
              PAIR_LOOP(int32_t, bool, expression) static shoal_status name##_i64(const kernel_call *call) PAIR_LOOP( \
                  int64_t, bool, expression) static shoal_status name##_u8(const kernel_call *call)                   \
                  PAIR_LOOP(uint8_t, bool, expression) static shoal_status name##_kernel(const kernel_call *call) {   \
    switch (call->in[0].dtype) {                                                                                      \
      case SHOAL_F32: return name##_f32(call);                                                                        \
      case SHOAL_F64: return name##_f64(call);                                                                        \
      case SHOAL_I32: return name##_i32(call);                                                                        \
      case SHOAL_I64: return name##_i64(call);                                                                        \
      case SHOAL_U8:                                                                                                  \
      case SHOAL_BOOL: return name##_u8(call);                                                                        \
      default: return kernel_wrong_dtype(call);                                                                       \
    }                                                                                                                 \
  }
COMPARE(equal, x == y)
COMPARE(not_equal, x != y)
COMPARE(less, x < y)
COMPARE(less_equal, x <= y)

static shoal_status logical_and_kernel(const kernel_call *call) PAIR_LOOP(uint8_t, bool, x &&y) static shoal_status
    logical_or_kernel(const kernel_call *call) PAIR_LOOP(uint8_t, bool, x || y)

    /* ---- shapes */

    static shoal_status pair_shape(op_shapes *s) {
  TRY(rule_same_dtype(s));
  TRY(rule_broadcast(&s->in[0], &s->in[1], &s->out[0]));
  s->out_dtype[0] = s->in_dtype[0];
  return NULL;
}

static shoal_status pair_shape_number(op_shapes *s) {
  TRY(rule_number(s, 0, "the operands"));
  return pair_shape(s);
}

static shoal_status pair_shape_float(op_shapes *s) {
  TRY(rule_float(s, 0, "the operands"));
  return pair_shape(s);
}

static shoal_status compare_shape(op_shapes *s) {
  TRY(pair_shape(s));
  s->out_dtype[0] = SHOAL_BOOL;
  return NULL;
}

static shoal_status logical_shape(op_shapes *s) {
  if (s->in_dtype[0] != SHOAL_BOOL)
    return status_make(SHOAL_ERR_ARGUMENT, "the operands must be bool, not %s; compare them with something",
                       shoal_dtype_name(s->in_dtype[0]));
  return pair_shape(s);
}

/* ---- gradients */

/* da and db have the output's shape; what was broadcast is summed. */
static void set_pair(op_grad_call *c, shoal_value *da, shoal_value *db) {
  c->dx[0].value = grad_sum_to(c->graph, da, c->in[0]);
  c->dx[1].value = grad_sum_to(c->graph, db, c->in[1]);
}

static void add_gradient(op_grad_call *c) { set_pair(c, c->dy[0], c->dy[0]); }
static void sub_gradient(op_grad_call *c) { set_pair(c, c->dy[0], shoal_neg(c->graph, c->dy[0])); }

static void mul_gradient(op_grad_call *c) {
  set_pair(c, shoal_mul(c->graph, c->dy[0], c->in[1]), shoal_mul(c->graph, c->dy[0], c->in[0]));
}

/* d(a/b)/db = -(a/b)/b */
static void div_gradient(op_grad_call *c) {
  shoal_graph *g = c->graph;
  shoal_value *da = shoal_div(g, c->dy[0], c->in[1]);
  set_pair(c, da, shoal_neg(g, shoal_mul(g, da, c->out[0])));
}

/* Where both are equal the gradient goes to the first. */
static void maximum_gradient(op_grad_call *c) {
  shoal_graph *g = c->graph;
  shoal_value *a = c->in[0], *b = c->in[1], *dy = c->dy[0];
  set_pair(c, shoal_mul(g, dy, GRAPH_BINARY(g, "at_least", a, b)), shoal_mul(g, dy, GRAPH_BINARY(g, "below", a, b)));
}

static void minimum_gradient(op_grad_call *c) {
  shoal_graph *g = c->graph;
  shoal_value *a = c->in[0], *b = c->in[1], *dy = c->dy[0];
  set_pair(c, shoal_mul(g, dy, GRAPH_BINARY(g, "at_least", b, a)), shoal_mul(g, dy, GRAPH_BINARY(g, "below", b, a)));
}

/* da = dy b a^(b-1), db = dy a^b log a, taken as 0 where a has no logarithm. */
static void pow_gradient(op_grad_call *c) {
  shoal_graph *g = c->graph;
  shoal_value *a = c->in[0], *b = c->in[1], *dy = c->dy[0];
  shoal_value *less = shoal_sub(g, b, grad_scalar(g, b, 1));
  shoal_value *da = shoal_mul(g, dy, shoal_mul(g, b, shoal_pow(g, a, less)));
  shoal_value *db = shoal_mul(g, dy, shoal_mul(g, c->out[0], GRAPH_UNARY(g, "safe_log", a)));
  set_pair(c, da, db);
}

/* ---- rows */

#define PAIR(op, rule, cases_)                                                                       \
  {                                                                                                  \
    .name = #op, .ins_min = 2, .ins_max = 2, .outs = 1, .shape = rule, .batch = batch_map_broadcast, \
    .kernel = op##_kernel, .gradient = op##_gradient, .cases = cases_                                \
  }
#define PAIR_TUNED(op, rule, cases_)                                                                 \
  {                                                                                                  \
    .name = #op, .ins_min = 2, .ins_max = 2, .outs = 1, .shape = rule, .batch = batch_map_broadcast, \
    .kernel = op##_kernel, .variants = tuned_##op, .gradient = op##_gradient, .cases = cases_        \
  }
#define PAIR_PLAIN(op, rule, cases_)                                                            \
  {                                                                                             \
    .name = #op, .ins_min = 2, .ins_max = 2, .outs = 1, .flags = OP_NO_GRADIENT, .shape = rule, \
    .batch = batch_map_broadcast, .kernel = op##_kernel, .cases = cases_                        \
  }

static const char *const reals[] = {"[3,4] [3,4]", "[?5,4] [4]", "[?5,2,3] [?5,1,3]", "[3,1] [1,4]",  "[] [3]",
                                    "[?5,4] []",   "[1] [1]",    "[2,3,4] [3,1]",     "[?5,2] [1,2]", NULL};
static const char *const numbers[] = {"[3,4] [3,4]",      "[?5,4] [4]", "[?5,2,3] [?5,1,3]", "[3,1] [1,4]",
                                      "[] [3]",           "[?5,4] []",  "[2,3,4] [3,1]",     "i32[3,2]<9 i32[2]<9",
                                      "i64[4]<9 i64[]<9", NULL};
static const char *const divisors[] = {"[3,4] [3,4]>0", "[?5,4] [4]>0", "[] [3]>0", "[?5,1] [?5,3]>0", NULL};
static const char *const powers[] = {"[3,4]>0 [3,4]", "[?5,4]>0 []", "[]>0 [3]", "[4,1]>0 [3]", NULL};
static const char *const all[] = {"[3,4] [3,4]",
                                  "i32[?5]<3 i32[?5]<3",
                                  "i64[6]<2 i64[6]<2",
                                  "u8[3,2]<2 u8[2]<2",
                                  "bool[5] bool[5]",
                                  "[?5,2,1] [?5,1,3]",
                                  NULL};
static const char *const bools[] = {"bool[3,4] bool[3,4]", "bool[?5,4] bool[4]", "bool[] bool[7]", NULL};

const op_row ops_binary[] = {PAIR_TUNED(add, pair_shape_number, numbers),
                             PAIR(sub, pair_shape_number, numbers),
                             PAIR_TUNED(mul, pair_shape_number, numbers),
                             PAIR(div, pair_shape_float, divisors),
                             PAIR(maximum, pair_shape_number, numbers),
                             PAIR(minimum, pair_shape_number, numbers),
                             PAIR(pow, pair_shape_float, powers),
                             /* 1 or 0, of the operands' type: x >= y, x < y. */
                             PAIR_PLAIN(at_least, pair_shape_float, reals),
                             PAIR_PLAIN(below, pair_shape_float, reals),
                             PAIR_PLAIN(equal, compare_shape, all),
                             PAIR_PLAIN(not_equal, compare_shape, all),
                             PAIR_PLAIN(less, compare_shape, all),
                             PAIR_PLAIN(less_equal, compare_shape, all),
                             PAIR_PLAIN(logical_and, logical_shape, bools),
                             PAIR_PLAIN(logical_or, logical_shape, bools),
                             {0}};

shoal_value *shoal_add(shoal_graph *g, shoal_value *a, shoal_value *b) { return GRAPH_BINARY(g, "add", a, b); }
shoal_value *shoal_sub(shoal_graph *g, shoal_value *a, shoal_value *b) { return GRAPH_BINARY(g, "sub", a, b); }
shoal_value *shoal_mul(shoal_graph *g, shoal_value *a, shoal_value *b) { return GRAPH_BINARY(g, "mul", a, b); }
shoal_value *shoal_div(shoal_graph *g, shoal_value *a, shoal_value *b) { return GRAPH_BINARY(g, "div", a, b); }
shoal_value *shoal_pow(shoal_graph *g, shoal_value *a, shoal_value *b) { return GRAPH_BINARY(g, "pow", a, b); }
shoal_value *shoal_maximum(shoal_graph *g, shoal_value *a, shoal_value *b) { return GRAPH_BINARY(g, "maximum", a, b); }
shoal_value *shoal_minimum(shoal_graph *g, shoal_value *a, shoal_value *b) { return GRAPH_BINARY(g, "minimum", a, b); }
shoal_value *shoal_less(shoal_graph *g, shoal_value *a, shoal_value *b) { return GRAPH_BINARY(g, "less", a, b); }
shoal_value *shoal_equal(shoal_graph *g, shoal_value *a, shoal_value *b) { return GRAPH_BINARY(g, "equal", a, b); }
shoal_value *shoal_greater(shoal_graph *g, shoal_value *a, shoal_value *b) { return shoal_less(g, b, a); }
shoal_value *shoal_greater_equal(shoal_graph *g, shoal_value *a, shoal_value *b) { return shoal_less_equal(g, b, a); }

shoal_value *shoal_not_equal(shoal_graph *g, shoal_value *a, shoal_value *b) {
  return GRAPH_BINARY(g, "not_equal", a, b);
}

shoal_value *shoal_less_equal(shoal_graph *g, shoal_value *a, shoal_value *b) {
  return GRAPH_BINARY(g, "less_equal", a, b);
}

shoal_value *shoal_logical_and(shoal_graph *g, shoal_value *a, shoal_value *b) {
  return GRAPH_BINARY(g, "logical_and", a, b);
}

shoal_value *shoal_logical_or(shoal_graph *g, shoal_value *a, shoal_value *b) {
  return GRAPH_BINARY(g, "logical_or", a, b);
}
