/* Softmax, and the losses made of it. All subtract the row's maximum before they exponentiate. */
#include "graph/ops/ops.h"
#include "graph/ops/tuned.h"
#include "graph/ops/util.h"

#include <tgmath.h>

/* ---- softmax, log_softmax */

static shoal_status axis_shape(op_shapes *s) {
  int axis;
  TRY(rule_axis(s->attr[0].i, s->in[0].rank, &axis));
  return shape_all_alike_float(s);
}

/* Rows that are summed over cannot be cut. */
static op_batch axis_batch(const op_shapes *s) {
  return s->attr[0].i == 0 || s->attr[0].i == -s->in[0].rank ? BATCH_WHOLE : batch_map(s);
}

/* Row by row over the last axis: `classes` and `rows` of input 0. */
#define ROWS_OF_INPUT                            \
  const shoal_shape *shape = &call->in[0].shape; \
  int64_t classes = shape->dim[shape->rank - 1]; \
  int64_t rows = classes ? shoal_tensor_count(&call->in[0]) / classes : 0;

/* Declares top, the maximum of x[0..classes), and sum, that of exp(x - top). */
#define TOP_AND_SUM(x)                                                     \
  real top = (x)[0];                                                       \
  for (int64_t j = 1; j < classes; j++) top = (x)[j] > top ? (x)[j] : top; \
  real sum = 0;                                                            \
  for (int64_t j = 0; j < classes; j++) sum += exp((x)[j] - top);

/* Runs the statement for each line along the axis: its elements are at first + j * step, j < classes. */
#define FOR_LINES(statement)                                                                 \
  {                                                                                          \
    const shoal_shape *shape = &call->out[0].shape;                                          \
    int axis = (int)(call->attr[0].i < 0 ? call->attr[0].i + shape->rank : call->attr[0].i); \
    int64_t classes = shape->dim[axis], before = shape_span(shape, 0, axis);                 \
    int64_t step = shape_span(shape, axis + 1, shape->rank);                                 \
    for (int64_t b = 0; classes && b < before; b++)                                          \
      for (int64_t a = 0; a < step; a++) {                                                   \
        int64_t first = b * classes * step + a;                                              \
        statement                                                                            \
      }                                                                                      \
    return NULL;                                                                             \
  }

/* As TOP_AND_SUM of a line of x. */
#define TOP_AND_SUM_OF_LINE(x)                                                                           \
  real top = (x)[first];                                                                                 \
  for (int64_t j = 1; j < classes; j++) top = (x)[first + j * step] > top ? (x)[first + j * step] : top; \
  real sum = 0;                                                                                          \
  for (int64_t j = 0; j < classes; j++) sum += exp((x)[first + j * step] - top);

REAL_KERNEL(softmax_kernel, {
  const real *x = call->in[0].data;
  real *y = call->out[0].data; /* as x */
  FOR_LINES({
    real top = x[first];
    for (int64_t j = 1; j < classes; j++) top = x[first + j * step] > top ? x[first + j * step] : top;
    real sum = 0;
    for (int64_t j = 0; j < classes; j++) sum += y[first + j * step] = exp(x[first + j * step] - top);
    for (int64_t j = 0; j < classes; j++) y[first + j * step] /= sum;
  })
})

REAL_KERNEL(softmax_grad_kernel, {
  const real *dy = call->in[0].data; /* as y */
  const real *y = call->in[1].data;
  real *dx = call->out[0].data; /* as y */
  FOR_LINES({
    real sum = 0;
    for (int64_t j = 0; j < classes; j++) sum += dy[first + j * step] * y[first + j * step];
    for (int64_t j = 0; j < classes; j++) dx[first + j * step] = y[first + j * step] * (dy[first + j * step] - sum);
  })
})

static void softmax_gradient(op_grad_call *c) {
  c->dx[0].value = GRAPH_BINARY(c->graph, "softmax_grad", c->dy[0], c->out[0], c->attr[0]);
}

REAL_KERNEL(log_softmax_kernel, {
  const real *x = call->in[0].data;
  real *y = call->out[0].data; /* as x */
  FOR_LINES({
    TOP_AND_SUM_OF_LINE(x)
    real shift = top + log(sum);
    for (int64_t j = 0; j < classes; j++) y[first + j * step] = x[first + j * step] - shift;
  })
})

REAL_KERNEL(log_softmax_grad_kernel, {
  const real *dy = call->in[0].data; /* as y */
  const real *y = call->in[1].data;
  real *dx = call->out[0].data; /* as y */
  FOR_LINES({
    real sum = 0;
    for (int64_t j = 0; j < classes; j++) sum += dy[first + j * step];
    for (int64_t j = 0; j < classes; j++) dx[first + j * step] = dy[first + j * step] - exp(y[first + j * step]) * sum;
  })
})

static void log_softmax_gradient(op_grad_call *c) {
  c->dx[0].value = GRAPH_BINARY(c->graph, "log_softmax_grad", c->dy[0], c->out[0], c->attr[0]);
}

shoal_value *shoal_softmax(shoal_graph *g, shoal_value *x) { return shoal_softmax_along(g, x, -1); }
shoal_value *shoal_log_softmax(shoal_graph *g, shoal_value *x) { return shoal_log_softmax_along(g, x, -1); }

shoal_value *shoal_softmax_along(shoal_graph *g, shoal_value *x, int axis) {
  return GRAPH_UNARY(g, "softmax", x, ATTR_I(axis));
}

shoal_value *shoal_log_softmax_along(shoal_graph *g, shoal_value *x, int axis) {
  return GRAPH_UNARY(g, "log_softmax", x, ATTR_I(axis));
}

/* ---- cross-entropy with dense labels: loss[i] = sum_j labels[i,j] (log sum exp logits[i] - logits[i,j]) */

/* (logits [n, classes], labels [n, classes]), and for the gradient dloss [n]. */
static shoal_status cross_entropy_inputs(const op_shapes *s) {
  TRY(rule_float(s, 0, "logits"));
  TRY(rule_same_dtype(s));
  TRY(rule_rank(s, 0, 2, "logits"));
  return rule_same_shape(s, 0, 1);
}

static shoal_status check_dloss(const op_shapes *s) {
  if (s->in_dtype[2] != s->in_dtype[0])
    return status_make(SHOAL_ERR_ARGUMENT, "dloss is %s, logits are %s; they must be the same",
                       shoal_dtype_name(s->in_dtype[2]), shoal_dtype_name(s->in_dtype[0]));
  TRY(rule_rank(s, 2, 1, "dloss"));
  if (dims_fit(s->in[2].dim[0], s->in[0].dim[0])) return NULL;
  return status_make(SHOAL_ERR_ARGUMENT, "there are %lld logits rows but %lld of dloss", (long long)s->in[0].dim[0],
                     (long long)s->in[2].dim[0]);
}

static shoal_status loss_shape(op_shapes *s) {
  s->out[0] = SHOAL_SHAPE(dims_known(s->in[0].dim[0], s->in[1].dim[0]));
  s->out_dtype[0] = s->in_dtype[0];
  return NULL;
}

static shoal_status dlogits_shape(op_shapes *s) {
  TRY(check_dloss(s));
  s->out[0] = s->in[0];
  s->out[0].dim[0] = dims_known(s->in[0].dim[0], dims_known(s->in[1].dim[0], s->in[2].dim[0]));
  s->out_dtype[0] = s->in_dtype[0];
  return NULL;
}

static shoal_status softmax_cross_entropy_shape(op_shapes *s) {
  TRY(cross_entropy_inputs(s));
  return loss_shape(s);
}

static shoal_status softmax_cross_entropy_grad_shape(op_shapes *s) {
  TRY(cross_entropy_inputs(s));
  return dlogits_shape(s);
}

REAL_KERNEL(softmax_cross_entropy_kernel, {
  const real *x = call->in[0].data;      /* [rows, classes] */
  const real *labels = call->in[1].data; /* [rows, classes] */
  real *loss = call->out[0].data;        /* [rows] */
  ROWS_OF_INPUT
  for (int64_t i = 0; i < rows; i++, x += classes, labels += classes) {
    TOP_AND_SUM(x)
    real shift = top + log(sum);
    real total = 0;
    for (int64_t j = 0; j < classes; j++) total += labels[j] * (shift - x[j]);
    loss[i] = total;
  }
  return NULL;
})

REAL_KERNEL(softmax_cross_entropy_grad_kernel, {
  const real *x = call->in[0].data;      /* [rows, classes] */
  const real *labels = call->in[1].data; /* [rows, classes] */
  const real *dloss = call->in[2].data;  /* [rows] */
  real *dx = call->out[0].data;          /* [rows, classes] */
  ROWS_OF_INPUT
  for (int64_t i = 0; i < rows; i++, x += classes, labels += classes, dx += classes) {
    TOP_AND_SUM(x)
    real mass = 0; /* of the labels: 1 for a distribution */
    for (int64_t j = 0; j < classes; j++) mass += labels[j];
    for (int64_t j = 0; j < classes; j++) dx[j] = (exp(x[j] - top) / sum * mass - labels[j]) * dloss[i];
  }
  return NULL;
})

static void softmax_cross_entropy_gradient(op_grad_call *c) {
  shoal_graph *g = c->graph;
  shoal_value *in[] = {c->in[0], c->in[1], c->dy[0]};
  c->dx[0].value = graph_op(g, "softmax_cross_entropy_grad", in, 3, NULL);
  shoal_value *column = shoal_reshape(g, c->dy[0], SHOAL_SHAPE(SHOAL_UNKNOWN, 1));
  c->dx[1].value = shoal_mul(g, shoal_neg(g, shoal_log_softmax(g, c->in[0])), column);
}

shoal_value *shoal_softmax_cross_entropy(shoal_graph *g, shoal_value *logits, shoal_value *labels) {
  if (labels && !dtype_is_float(labels->dtype)) return shoal_sparse_softmax_cross_entropy(g, logits, labels);
  return GRAPH_BINARY(g, "softmax_cross_entropy", logits, labels, {0});
}

/* ---- cross-entropy with integer labels */

static shoal_status integer_label_inputs(const op_shapes *s) {
  TRY(rule_float(s, 0, "logits"));
  TRY(rule_rank(s, 0, 2, "logits"));
  TRY(rule_rank(s, 1, 1, "labels"));
  if (!dtype_is_index(s->in_dtype[1]) && s->in_dtype[1] != SHOAL_U8)
    return status_make(SHOAL_ERR_ARGUMENT, "labels must be i32, i64 or u8, not %s", shoal_dtype_name(s->in_dtype[1]));
  if (dims_fit(s->in[0].dim[0], s->in[1].dim[0])) return NULL;
  char a[SHOAL_SHAPE_TEXT], b[SHOAL_SHAPE_TEXT];
  return status_make(SHOAL_ERR_ARGUMENT, "logits %s have %lld rows, labels %s have %lld; they must be equal",
                     shoal_shape_text(&s->in[0], a), (long long)s->in[0].dim[0], shoal_shape_text(&s->in[1], b),
                     (long long)s->in[1].dim[0]);
}

/* Label of row i of this part, in [0, classes). */
static shoal_status label_at(const kernel_call *call, int64_t i, int64_t classes, int64_t *out) {
  const shoal_tensor *labels = &call->in[1];
  int64_t label = labels->dtype == SHOAL_U8    ? ((const uint8_t *)labels->data)[i]
                  : labels->dtype == SHOAL_I32 ? ((const int32_t *)labels->data)[i]
                                               : ((const int64_t *)labels->data)[i];
  if (label < 0 || label >= classes)
    return status_make(SHOAL_ERR_INPUT, "label %lld in row %lld is out of range: there are %lld classes",
                       (long long)label, (long long)(call->first_row + i), (long long)classes);
  *out = label;
  return NULL;
}

static shoal_status sparse_shape(op_shapes *s) {
  TRY(integer_label_inputs(s));
  return loss_shape(s);
}

static shoal_status sparse_grad_shape(op_shapes *s) {
  TRY(integer_label_inputs(s));
  return dlogits_shape(s);
}

REAL_KERNEL(sparse_kernel, {
  const real *x = call->in[0].data; /* [rows, classes] */
  real *loss = call->out[0].data;   /* [rows] */
  ROWS_OF_INPUT
  for (int64_t i = 0; i < rows; i++, x += classes) {
    int64_t label = 0;
    TRY(label_at(call, i, classes, &label));
    TOP_AND_SUM(x)
    loss[i] = top + log(sum) - x[label];
  }
  return NULL;
})

REAL_KERNEL(sparse_grad_kernel, {
  const real *x = call->in[0].data;     /* [rows, classes] */
  const real *dloss = call->in[2].data; /* [rows] */
  real *dx = call->out[0].data;         /* [rows, classes] */
  ROWS_OF_INPUT
  for (int64_t i = 0; i < rows; i++, x += classes, dx += classes) {
    int64_t label = 0;
    TRY(label_at(call, i, classes, &label));
    TOP_AND_SUM(x)
    for (int64_t j = 0; j < classes; j++) dx[j] = exp(x[j] - top) / sum * dloss[i];
    dx[label] -= dloss[i];
  }
  return NULL;
})

static void sparse_gradient(op_grad_call *c) {
  shoal_value *in[] = {c->in[0], c->in[1], c->dy[0]};
  c->dx[0].value = graph_op(c->graph, "sparse_softmax_cross_entropy_grad", in, 3, NULL);
}

shoal_value *shoal_sparse_softmax_cross_entropy(shoal_graph *g, shoal_value *logits, shoal_value *labels) {
  return GRAPH_BINARY(g, "sparse_softmax_cross_entropy", logits, labels, {0});
}

/* ---- in_top_k: fewer than k logits of the row come before the label's. The larger comes first, of equal ones the one
 * of the lower class, as in NumPy's argmax. A row with a NaN is never a hit. */

static shoal_status in_top_k_shape(op_shapes *s) {
  TRY(integer_label_inputs(s));
  if (s->attr[0].i < 1)
    return status_make(SHOAL_ERR_ARGUMENT, "k must be at least 1, not %lld", (long long)s->attr[0].i);
  TRY(loss_shape(s));
  s->out_dtype[0] = SHOAL_F32;
  return NULL;
}

#define IN_TOP_K_BODY(real)                                         \
  const real *x = call->in[0].data;                                 \
  float *y = call->out[0].data;                                     \
  ROWS_OF_INPUT                                                     \
  for (int64_t i = 0; i < rows; i++, x += classes) {                \
    int64_t label = 0, before = 0;                                  \
    bool numbers = true;                                            \
    TRY(label_at(call, i, classes, &label));                        \
    for (int64_t j = 0; j < classes; j++) {                         \
      before += x[j] > x[label] || (x[j] == x[label] && j < label); \
      numbers &= x[j] == x[j];                                      \
    }                                                               \
    y[i] = numbers && before < call->attr[0].i;                     \
  }                                                                 \
  return NULL;
/* Logits [rows, classes], hit or miss [rows]. The output is f32 whatever the logits are. */
static shoal_status in_top_k_f32(const kernel_call *call) { IN_TOP_K_BODY(float) }
static shoal_status in_top_k_f64(const kernel_call *call) { IN_TOP_K_BODY(double) }
static shoal_status in_top_k_kernel(const kernel_call *call) {
  return call->in[0].dtype == SHOAL_F64 ? in_top_k_f64(call) : in_top_k_f32(call);
}

shoal_value *shoal_in_top_k(shoal_graph *g, shoal_value *logits, shoal_value *labels, int k) {
  return GRAPH_BINARY(g, "in_top_k", logits, labels, ATTR_I(k));
}

/* ---- sigmoid cross-entropy, elementwise */

REAL_KERNEL(sigmoid_cross_entropy_kernel, {
  const real *x = call->in[0].data;
  const real *labels = call->in[1].data;
  real *loss = call->out[0].data;
  int64_t n = shoal_tensor_count(&call->in[0]);
  /* -(z log p + (1 - z) log(1 - p)), rearranged so that no exponential overflows */
  for (int64_t i = 0; i < n; i++) loss[i] = (x[i] > 0 ? x[i] : 0) - x[i] * labels[i] + log1p(exp(-fabs(x[i])));
  return NULL;
})

REAL_KERNEL(sigmoid_cross_entropy_grad_kernel, {
  const real *x = call->in[0].data;
  const real *labels = call->in[1].data;
  const real *dloss = call->in[2].data;
  real *dx = call->out[0].data;
  int64_t n = shoal_tensor_count(&call->in[0]);
  for (int64_t i = 0; i < n; i++) {
    real e = exp(-fabs(x[i]));
    real p = (x[i] >= 0 ? 1 : e) / (1 + e);
    dx[i] = (p - labels[i]) * dloss[i];
  }
  return NULL;
})

static void sigmoid_cross_entropy_gradient(op_grad_call *c) {
  shoal_graph *g = c->graph;
  shoal_value *in[] = {c->in[0], c->in[1], c->dy[0]};
  c->dx[0].value = graph_op(g, "sigmoid_cross_entropy_grad", in, 3, NULL);
  c->dx[1].value = shoal_neg(g, shoal_mul(g, c->in[0], c->dy[0]));
}

shoal_value *shoal_sigmoid_cross_entropy(shoal_graph *g, shoal_value *logits, shoal_value *labels) {
  return GRAPH_BINARY(g, "sigmoid_cross_entropy", logits, labels, {0});
}

/* ---- the rows */

/* Exponentials are counted as ten. */
static void exp_cost(const op_shapes *s, double *flops) { *flops = 14.0 * (double)shoal_shape_count(&s->in[0]); }

static const char *const softmax_cases[] = {"[?5,7]", "[?17,10]",        "[3,2,4]",      "[6]",
                                            "[?2,1]", "[?5,4,3] axis=1", "[4,3] axis=0", NULL};
static const char *const softmax_grad_cases[] = {"[?5,7] [?5,7]", "[?17,10] [?17,10]", "[6] [6]",
                                                 "[?5,4,3] [?5,4,3] axis=1", NULL};
static const char *const dense_cases[] = {"[?5,7] [?5,7]>0", "[?17,10] [?17,10]>0", "[3,4] [3,4]", NULL};
static const char *const dense_grad_cases[] = {"[?5,7] [?5,7]>0 [?5]", "[?17,10] [?17,10]>0 [?17]", NULL};
static const char *const sparse_cases[] = {"[?5,7] i32[?5]<7", "[?17,10] u8[?17]<10", "[3,4] i64[3]<4", NULL};
static const char *const sparse_grad_cases[] = {"[?5,7] i32[?5]<7 [?5]", "[?17,10] u8[?17]<10 [?17]",
                                                "[3,4] i64[3]<4 [3]", NULL};
static const char *const in_top_k_cases[] = {"[?5,7] i32[?5]<7", "[?17,10] u8[?17]<10 k=3", "[3,4] i64[3]<4 k=4", NULL};
static const char *const sigmoid_cases[] = {"[?5,7] [?5,7]>0", "[?20] [?20]>0", "[] []", NULL};
static const char *const sigmoid_grad_cases[] = {"[?5,7] [?5,7]>0 [?5,7]", "[?20] [?20]>0 [?20]", NULL};

#define TAKES(n) .ins_min = (n), .ins_max = (n), .outs = 1

const op_row ops_softmax[] = {
    {.name = "softmax",
     .attrs = {{"axis", ATTR_INT, -1}},
     TAKES(1),
     .shape = axis_shape,
     .batch = axis_batch,
     .gradient = softmax_gradient,
     .kernel = softmax_kernel,
     .variants = tuned_softmax,
     .cost = exp_cost,
     .cases = softmax_cases},
    {.name = "softmax_grad",
     .attrs = {{"axis", ATTR_INT, -1}},
     TAKES(2),
     .flags = OP_GRADIENT_ONLY,
     .shape = axis_shape,
     .batch = axis_batch,
     .kernel = softmax_grad_kernel,
     .variants = tuned_softmax_grad,
     .cases = softmax_grad_cases},
    {.name = "log_softmax",
     .attrs = {{"axis", ATTR_INT, -1}},
     TAKES(1),
     .shape = axis_shape,
     .batch = axis_batch,
     .gradient = log_softmax_gradient,
     .kernel = log_softmax_kernel,
     .cost = exp_cost,
     .cases = softmax_cases},
    {.name = "log_softmax_grad",
     .attrs = {{"axis", ATTR_INT, -1}},
     TAKES(2),
     .flags = OP_GRADIENT_ONLY,
     .shape = axis_shape,
     .batch = axis_batch,
     .kernel = log_softmax_grad_kernel,
     .cost = exp_cost,
     .cases = softmax_grad_cases},
    {.name = "softmax_cross_entropy",
     TAKES(2),
     .shape = softmax_cross_entropy_shape,
     .batch = batch_map,
     .gradient = softmax_cross_entropy_gradient,
     .kernel = softmax_cross_entropy_kernel,
     .cost = exp_cost,
     .cases = dense_cases},
    {.name = "softmax_cross_entropy_grad",
     TAKES(3),
     .flags = OP_GRADIENT_ONLY,
     .shape = softmax_cross_entropy_grad_shape,
     .batch = batch_map,
     .kernel = softmax_cross_entropy_grad_kernel,
     .cost = exp_cost,
     .cases = dense_grad_cases},
    {.name = "sparse_softmax_cross_entropy",
     TAKES(2),
     .shape = sparse_shape,
     .batch = batch_map,
     .gradient = sparse_gradient,
     .kernel = sparse_kernel,
     .cost = exp_cost,
     .cases = sparse_cases},
    {.name = "sparse_softmax_cross_entropy_grad",
     TAKES(3),
     .flags = OP_GRADIENT_ONLY,
     .shape = sparse_grad_shape,
     .batch = batch_map,
     .kernel = sparse_grad_kernel,
     .cost = exp_cost,
     .cases = sparse_grad_cases},
    {.name = "sigmoid_cross_entropy",
     TAKES(2),
     .shape = shape_all_alike_float,
     .batch = batch_map,
     .gradient = sigmoid_cross_entropy_gradient,
     .kernel = sigmoid_cross_entropy_kernel,
     .cost = exp_cost,
     .cases = sigmoid_cases},
    {.name = "sigmoid_cross_entropy_grad",
     TAKES(3),
     .flags = OP_GRADIENT_ONLY,
     .shape = shape_all_alike_float,
     .batch = batch_map,
     .kernel = sigmoid_cross_entropy_grad_kernel,
     .cost = exp_cost,
     .cases = sigmoid_grad_cases},
    {.name = "in_top_k",
     .attrs = {{"k", ATTR_INT, 1}},
     TAKES(2),
     .flags = OP_NO_GRADIENT,
     .shape = in_top_k_shape,
     .batch = batch_map,
     .kernel = in_top_k_kernel,
     .variants = tuned_in_top_k,
     .cost = cost_input,
     .cases = in_top_k_cases},
    {0},
};
