/* Products of many matrices: a [..., m, k] times b [..., k, n], all axes but the last two broadcast. One product after
 * the other by the kernels of matmul, or a single one where the matrices lie below each other. */
#include "graph/ops/matmul.h"
#include "graph/ops/ops.h"
#include "graph/ops/util.h"
#include "graph/ops/walk.h"
#include "kernel/gemm.h"
#include "kernel/lanes.h"
#include "tensor/limits.h"

#include <string.h>

enum { TRANSPOSE_A, TRANSPOSE_B };

/* ---- shapes */

/* The axes before the matrix. */
static shoal_shape stack_of(const shoal_shape *s) {
  shoal_shape stack = *s;
  stack.rank -= 2;
  return stack;
}

static int64_t rows_of(const shoal_shape *s, bool transposed) { return s->dim[s->rank - (transposed ? 1 : 2)]; }
static int64_t columns_of(const shoal_shape *s, bool transposed) { return s->dim[s->rank - (transposed ? 2 : 1)]; }

/* The product of inputs 0 and 1, not summed over anything. */
static shoal_status product_shape(const op_shapes *s, shoal_shape *out) {
  TRY(rule_float(s, 0, "a"));
  TRY(rule_same_dtype(s));
  TRY(rule_rank_min(s, 0, 2, "a"));
  TRY(rule_rank_min(s, 1, 2, "b"));
  bool ta = s->attr[TRANSPOSE_A].i, tb = s->attr[TRANSPOSE_B].i;
  if (!dims_fit(columns_of(&s->in[0], ta), rows_of(&s->in[1], tb))) {
    char a[SHOAL_SHAPE_TEXT], b[SHOAL_SHAPE_TEXT];
    return status_make(SHOAL_ERR_ARGUMENT, "inner dimensions differ: a %s%s has %lld columns, b %s%s has %lld rows",
                       shoal_shape_text(&s->in[0], a), ta ? " transposed" : "", (long long)columns_of(&s->in[0], ta),
                       shoal_shape_text(&s->in[1], b), tb ? " transposed" : "", (long long)rows_of(&s->in[1], tb));
  }
  shoal_shape a = stack_of(&s->in[0]), b = stack_of(&s->in[1]);
  TRY(rule_broadcast(&a, &b, out));
  out->dim[out->rank++] = rows_of(&s->in[0], ta);
  out->dim[out->rank++] = columns_of(&s->in[1], tb);
  return NULL;
}

static shoal_status batch_matmul_shape(op_shapes *s) {
  TRY(product_shape(s, &s->out[0]));
  s->out_dtype[0] = s->in_dtype[0];
  return NULL;
}

/* (a, b, like): `like` would broadcast to the product. */
static shoal_status batch_matmul_sum_shape(op_shapes *s) {
  shoal_shape product, both;
  TRY(product_shape(s, &product));
  TRY(rule_rank_min(s, 2, 2, "what is summed to"));
  TRY(rule_broadcast(&product, &s->in[2], &both));
  if (!shapes_fit(&both, &product) || !dims_fit(rows_of(&product, false), rows_of(&s->in[2], false)) ||
      !dims_fit(columns_of(&product, false), columns_of(&s->in[2], false))) {
    char a[SHOAL_SHAPE_TEXT], b[SHOAL_SHAPE_TEXT];
    return status_make(SHOAL_ERR_ARGUMENT, "products %s cannot be summed to %s", shoal_shape_text(&product, a),
                       shoal_shape_text(&s->in[2], b));
  }
  s->out[0] = s->in[2];
  s->out_dtype[0] = s->in_dtype[0];
  return NULL;
}

/* Axis 0 of all of them is one of the axes before the matrix, so that it can be cut. */
static bool rows_apart(const op_shapes *s, int rank) {
  if (rank < 3) return false;
  for (int i = 0; i < 2; i++) {
    bool full = s->in[i].rank == rank;
    if (shape_is_batched(&s->in[i]) ? !full : full && s->in[i].dim[0] != 1) return false;
  }
  return true;
}

static op_batch batch_matmul_batch(const op_shapes *s) {
  return rows_apart(s, s->out[0].rank) ? batch_map(s) : BATCH_WHOLE;
}

static op_batch batch_matmul_sum_batch(const op_shapes *s) {
  int rank = s->in[0].rank > s->in[1].rank ? s->in[0].rank : s->in[1].rank;
  bool full = s->in[2].rank == rank;
  if (!rows_apart(s, rank)) return BATCH_WHOLE;
  if (shape_is_batched(&s->in[2])) return full ? batch_map(s) : BATCH_WHOLE;
  return !full || s->in[2].dim[0] == 1 ? batch_sum(s) : BATCH_WHOLE;
}

/* ---- kernels */

typedef struct {
  const kernel_call *call;
  kernel_fn run; /* a kernel of matmul */
  bool ta, tb;
} products;

static shoal_tensor matrix(const shoal_tensor *t, int64_t offset, int64_t rows, int64_t columns) {
  return shoal_tensor_view(t->dtype, SHOAL_SHAPE(rows, columns),
                           (char *)t->data + (size_t)offset * shoal_dtype_size(t->dtype));
}

/* One product; the operands are as they lie in memory: rows x columns. */
static shoal_status one_product(const products *p, shoal_tensor a, shoal_tensor b, shoal_tensor y, bool add) {
  kernel_call one = *p->call;
  one.in = (shoal_tensor[]){a, b};
  one.out = &y;
  one.ins = 2;
  one.outs = 1;
  one.accumulate = add;
  return p->run(&one);
}

/* Matrices of t, its stack broadcast to `stack`: elements from one to the next. */
static void matrix_strides(const shoal_tensor *t, const shoal_shape *stack, int64_t strides[SHOAL_MAX_RANK]) {
  shoal_shape own = stack_of(&t->shape);
  walk_broadcast(&own, stack, strides);
  int64_t size = rows_of(&t->shape, false) * columns_of(&t->shape, false);
  for (int i = 0; i < stack->rank; i++) strides[i] *= size;
}

static bool has_stack(const shoal_tensor *t, const shoal_shape *stack) {
  shoal_shape own = stack_of(&t->shape);
  return shoal_shape_count(&own) == shoal_shape_count(stack);
}

/* Every matrix of a times the one matrix of b: all rows at once. */
static bool all_below(const products *p, const shoal_shape *stack) {
  const kernel_call *c = p->call;
  return !p->ta && has_stack(&c->in[0], stack) && has_stack(&c->out[0], stack) && shoal_shape_count(stack) > 1 &&
         shoal_tensor_count(&c->in[1]) == rows_of(&c->in[1].shape, false) * columns_of(&c->in[1].shape, false);
}

/* The sum of all products: one product with a longer inner dimension. */
static bool all_summed(const products *p, const shoal_shape *stack) {
  const kernel_call *c = p->call;
  return p->ta && !p->tb && has_stack(&c->in[0], stack) && has_stack(&c->in[1], stack) &&
         shoal_tensor_count(&c->out[0]) == rows_of(&c->out[0].shape, false) * columns_of(&c->out[0].shape, false);
}

static shoal_status run_products(const kernel_call *call, kernel_fn run) {
  products p = {call, run, call->attr[TRANSPOSE_A].i, call->attr[TRANSPOSE_B].i};
  const shoal_tensor *a = &call->in[0], *b = &call->in[1], *y = &call->out[0];
  shoal_shape of_a = stack_of(&a->shape), of_b = stack_of(&b->shape), stack;
  TRY(rule_broadcast(&of_a, &of_b, &stack));
  int64_t n = shoal_shape_count(&stack);
  int64_t ra = rows_of(&a->shape, false), ca = columns_of(&a->shape, false), rb = rows_of(&b->shape, false),
          cb = columns_of(&b->shape, false), ry = rows_of(&y->shape, false), cy = columns_of(&y->shape, false);
  if (n && all_summed(&p, &stack))
    return one_product(&p, matrix(a, 0, n * ra, ca), matrix(b, 0, n * rb, cb), matrix(y, 0, ry, cy), call->accumulate);
  if (n && all_below(&p, &stack))
    return one_product(&p, matrix(a, 0, n * ra, ca), matrix(b, 0, rb, cb), matrix(y, 0, n * ry, cy), call->accumulate);
  bool add = call->accumulate || !has_stack(y, &stack);
  if (add && !call->accumulate) memset(y->data, 0, shoal_tensor_bytes(y));
  int64_t strides[3][SHOAL_MAX_RANK];
  matrix_strides(a, &stack, strides[0]);
  matrix_strides(b, &stack, strides[1]);
  matrix_strides(y, &stack, strides[2]);
  walk w;
  walk_init_three(&w, &stack, strides[0], strides[1], strides[2]);
  for (; w.left > 0; walk_next(&w))
    for (int64_t i = 0; i < w.n; i++)
      TRY(one_product(&p, matrix(a, w.a + i * w.step_a, ra, ca), matrix(b, w.b + i * w.step_b, rb, cb),
                      matrix(y, w.c + i * w.step_c, ry, cy), add));
  return NULL;
}

static shoal_status products_kernel(const kernel_call *call) { return run_products(call, matmul_reference); }
#define PRODUCTS(isa) \
  static shoal_status products_##isa(const kernel_call *call) { return run_products(call, rows_matmul_##isa); }
EACH_ISA(PRODUCTS)

/* Enough for one product, be it of all rows. */
static size_t products_scratch(const op_shapes *s) {
  int64_t a = shoal_shape_count(&s->in[0]), b = shoal_shape_count(&s->in[1]), y = shoal_shape_count(&s->out[0]);
  int64_t n = columns_of(&s->in[1], s->attr[TRANSPOSE_B].i), columns = n ? n : 1;
  return gemm_scratch(y / columns + a, columns, MAX_OF(a, b));
}

static const op_variant tuned_products[] = {VARIANTS("rows", products, .scratch = products_scratch), {.name = NULL}};

/* ---- gradients */

/* The product with the shape of `like`, which was broadcast. */
static shoal_value *product_like(shoal_graph *g, shoal_value *a, shoal_value *b, bool ta, bool tb, shoal_value *like) {
  attr_value attr[OP_MAX_ATTRS] = {ATTR_I(ta), ATTR_I(tb)};
  if (!a || !b) return NULL;
  shoal_shape of_a = stack_of(&a->shape), of_b = stack_of(&b->shape), of_like = stack_of(&like->shape), stack;
  shoal_status status = rule_broadcast(&of_a, &of_b, &stack);
  if (status) {
    graph_fail(g, status);
    return NULL;
  }
  if (shoal_shape_equal(&stack, &of_like)) return graph_op(g, "batch_matmul", (shoal_value *[]){a, b}, 2, attr);
  return graph_op(g, "batch_matmul_sum", (shoal_value *[]){a, b, like}, 3, attr);
}

/* As that of matmul. */
static void batch_matmul_gradient(op_grad_call *c) {
  shoal_graph *g = c->graph;
  shoal_value *a = c->in[0], *b = c->in[1], *dy = c->dy[0];
  bool ta = c->attr[TRANSPOSE_A].i, tb = c->attr[TRANSPOSE_B].i;
  c->dx[0].value = ta ? product_like(g, b, dy, tb, true, a) : product_like(g, dy, b, false, !tb, a);
  c->dx[1].value = tb ? product_like(g, dy, a, true, ta, b) : product_like(g, a, dy, !ta, false, b);
}

static void products_cost(const op_shapes *s, double *flops) {
  shoal_shape product = {0};
  shoal_status_free(product_shape(s, &product));
  *flops = 2.0 * (double)shoal_shape_count(&product) * (double)columns_of(&s->in[0], s->attr[TRANSPOSE_A].i);
}

static const char *const product_cases[] = {"[?5,3,4] [?5,4,2]",
                                            "[?5,3,4] [4,7]",
                                            "[?5,2,3,4] [?5,2,5,4] transpose_b=1",
                                            "[2,1,4,3] [3,4,2] transpose_a=1",
                                            "[?5,4,3] [?5,2,4] transpose_a=1 transpose_b=1",
                                            "[3,4] [?5,4,2]",
                                            "[3,4] [4,2]",
                                            "[?5,3,4] [1,4,2]",
                                            "[2,0,4] [2,4,3]",
                                            "[?20,9,33] [33,17]",
                                            "[0,2,3] [3,2]",
                                            NULL};
static const char *const sum_cases[] = {"[?5,4,3] [?5,4,2] [3,2] transpose_a=1",
                                        "[?5,3,4] [?5,4,2] [1,3,2]",
                                        "[?5,2,3,4] [?5,2,4,2] [?5,1,3,2]",
                                        "[2,3,4] [4,2] [3,2]",
                                        "[?20,9,33] [?20,9,17] [33,17] transpose_a=1",
                                        "[0,4,3] [0,4,2] [3,2] transpose_a=1",
                                        NULL};

#define PRODUCT_ATTRS \
  {"transpose_a", ATTR_BOOL, 0}, { "transpose_b", ATTR_BOOL, 0 }

const op_row ops_batch_matmul[] = {{.name = "batch_matmul",
                                    .attrs = {PRODUCT_ATTRS},
                                    .ins_min = 2,
                                    .ins_max = 2,
                                    .outs = 1,
                                    .shape = batch_matmul_shape,
                                    .batch = batch_matmul_batch,
                                    .gradient = batch_matmul_gradient,
                                    .kernel = products_kernel,
                                    .variants = tuned_products,
                                    .cost = products_cost,
                                    .cases = product_cases},
                                   {.name = "batch_matmul_sum",
                                    .attrs = {PRODUCT_ATTRS},
                                    .ins_min = 3,
                                    .ins_max = 3,
                                    .outs = 1,
                                    .flags = OP_GRADIENT_ONLY,
                                    .shape_only = 4,
                                    .shape = batch_matmul_sum_shape,
                                    .batch = batch_matmul_sum_batch,
                                    .kernel = products_kernel,
                                    .variants = tuned_products,
                                    .cost = products_cost,
                                    .cases = sum_cases},
                                   {0}};
