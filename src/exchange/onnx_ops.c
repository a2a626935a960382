/* The table of operators that ONNX has, by one name or by several. */
#include "base/mem.h"
#include "exchange/onnx_layers.h"
#include "exchange/onnx_writer.h"
#include "shoal/graph.h"

#include <math.h>
#include <string.h>

#define IN(i) writer_of(w, n->in[i])

static shoal_dtype type_of(const node *n) { return n->in[0]->dtype; }
static void give(graph_writer *w, const node *n, const char *name) { writer_bind(w, &n->out[0], name); }
static const char *number(graph_writer *w, const node *n, double value) { return writer_scalar(w, type_of(n), value); }

/* ---- element by element */

static void op_square(graph_writer *w, const node *n) { give(w, n, onnx_2(w, "Mul", IN(0), IN(0), ONNX_NONE)); }
static void op_expm1(graph_writer *w, const node *n) {
  give(w, n, onnx_2(w, "Sub", onnx_1(w, "Exp", IN(0), ONNX_NONE), number(w, n, 1), ONNX_NONE));
}
static void op_log1p(graph_writer *w, const node *n) {
  give(w, n, onnx_1(w, "Log", onnx_2(w, "Add", IN(0), number(w, n, 1), ONNX_NONE), ONNX_NONE));
}
static void op_rsqrt(graph_writer *w, const node *n) {
  give(w, n, onnx_1(w, "Reciprocal", onnx_1(w, "Sqrt", IN(0), ONNX_NONE), ONNX_NONE));
}
static void op_scale(graph_writer *w, const node *n) {
  give(w, n, onnx_2(w, "Mul", IN(0), number(w, n, n->attr[0].f), ONNX_NONE));
}
static void clip(graph_writer *w, const node *n, double low, double high) {
  give(w, n, onnx_3(w, "Clip", IN(0), number(w, n, low), number(w, n, high), ONNX_NONE));
}
static void op_clip(graph_writer *w, const node *n) { clip(w, n, n->attr[0].f, n->attr[1].f); }
static void op_relu6(graph_writer *w, const node *n) { clip(w, n, 0, 6); }
static void op_hard_tanh(graph_writer *w, const node *n) { clip(w, n, -1, 1); }
static void op_leaky_relu(graph_writer *w, const node *n) {
  give(w, n, onnx_1(w, "LeakyRelu", IN(0), ONNX_ATTRS(A_F("alpha", n->attr[0].f))));
}
static void op_elu(graph_writer *w, const node *n) {
  give(w, n, onnx_1(w, "Elu", IN(0), ONNX_ATTRS(A_F("alpha", n->attr[0].f))));
}
static void op_hard_sigmoid(graph_writer *w, const node *n) {
  give(w, n, onnx_1(w, "HardSigmoid", IN(0), ONNX_ATTRS(A_F("alpha", 1.0 / 6), A_F("beta", 0.5))));
}
static void op_silu(graph_writer *w, const node *n) {
  give(w, n, onnx_2(w, "Mul", IN(0), onnx_1(w, "Sigmoid", IN(0), ONNX_NONE), ONNX_NONE));
}
static void op_log_sigmoid(graph_writer *w, const node *n) {
  const char *negative = onnx_1(w, "Neg", IN(0), ONNX_NONE);
  give(w, n, onnx_1(w, "Neg", onnx_1(w, "Softplus", negative, ONNX_NONE), ONNX_NONE));
}

/* x/2 (1 + y) */
static void half_gate(graph_writer *w, const node *n, const char *y) {
  const char *gate = onnx_2(w, "Add", y, number(w, n, 1), ONNX_NONE);
  const char *half = onnx_2(w, "Mul", IN(0), number(w, n, 0.5), ONNX_NONE);
  give(w, n, onnx_2(w, "Mul", half, gate, ONNX_NONE));
}
static void op_gelu(graph_writer *w, const node *n) {
  half_gate(w, n, onnx_1(w, "Erf", onnx_2(w, "Mul", IN(0), number(w, n, M_SQRT1_2), ONNX_NONE), ONNX_NONE));
}
static void op_gelu_tanh(graph_writer *w, const node *n) {
  const char *cube = onnx_2(w, "Mul", IN(0), onnx_2(w, "Mul", IN(0), IN(0), ONNX_NONE), ONNX_NONE);
  const char *sum = onnx_2(w, "Add", IN(0), onnx_2(w, "Mul", cube, number(w, n, 0.044715), ONNX_NONE), ONNX_NONE);
  half_gate(w, n, onnx_1(w, "Tanh", onnx_2(w, "Mul", sum, number(w, n, sqrt(2 / M_PI)), ONNX_NONE), ONNX_NONE));
}
static void op_prelu(graph_writer *w, const node *n) {
  const char *zero = number(w, n, 0);
  const char *below = onnx_2(w, "Mul", IN(1), onnx_2(w, "Min", IN(0), zero, ONNX_NONE), ONNX_NONE);
  give(w, n, onnx_2(w, "Add", onnx_2(w, "Max", IN(0), zero, ONNX_NONE), below, ONNX_NONE));
}
static void op_not_equal(graph_writer *w, const node *n) {
  give(w, n, onnx_1(w, "Not", onnx_2(w, "Equal", IN(0), IN(1), ONNX_NONE), ONNX_NONE));
}
/* 1 or 0 in the type of the operands. */
static void compared(graph_writer *w, const node *n, const char *op) {
  const char *truth = onnx_2(w, op, IN(0), IN(1), ONNX_NONE);
  give(w, n, onnx_1(w, "Cast", truth, ONNX_ATTRS(A_I("to", onnx_types[n->out[0].dtype]))));
}
static void op_at_least(graph_writer *w, const node *n) { compared(w, n, "GreaterOrEqual"); }
static void op_below(graph_writer *w, const node *n) { compared(w, n, "Less"); }
static void op_cast(graph_writer *w, const node *n) {
  give(w, n, onnx_1(w, "Cast", IN(0), ONNX_ATTRS(A_I("to", onnx_types[n->out[0].dtype]))));
}

/* ---- products */

/* The input with its last two axes exchanged. */
static const char *last_two_exchanged(graph_writer *w, const shoal_value *v) {
  shoal_shape order = {.rank = v->shape.rank};
  for (int i = 0; i < order.rank; i++) order.dim[i] = i;
  order.dim[order.rank - 2] = order.rank - 1;
  order.dim[order.rank - 1] = order.rank - 2;
  return onnx_transposed(w, v, order);
}
static void op_matmul(graph_writer *w, const node *n) {
  const char *a = n->attr[0].i ? last_two_exchanged(w, n->in[0]) : IN(0);
  const char *b = n->attr[1].i ? last_two_exchanged(w, n->in[1]) : IN(1);
  give(w, n, onnx_2(w, "MatMul", a, b, ONNX_NONE));
}

/* ---- rows by index */

static void op_gather(graph_writer *w, const node *n) {
  give(w, n, onnx_2(w, "Gather", IN(0), IN(1), ONNX_ATTRS(A_I("axis", 0))));
}
static void op_take(graph_writer *w, const node *n) {
  give(w, n, onnx_2(w, "Gather", IN(0), IN(1), ONNX_ATTRS(A_I("axis", n->attr[0].i))));
}
static void op_take_along(graph_writer *w, const node *n) {
  give(w, n, onnx_2(w, "GatherElements", IN(0), IN(1), ONNX_ATTRS(A_I("axis", n->attr[0].i))));
}
static void op_one_hot(graph_writer *w, const node *n) {
  float both[2] = {(float)n->attr[2].f, (float)n->attr[1].f};
  shoal_tensor values = shoal_tensor_view(SHOAL_F32, SHOAL_SHAPE(2), both);
  const char *index = onnx_1(w, "Cast", IN(0), ONNX_ATTRS(A_I("to", onnx_types[SHOAL_I64])));
  const char *made =
      onnx_3(w, "OneHot", index, writer_int(w, n->attr[0].i), writer_tensor(w, &values), ONNX_ATTRS(A_I("axis", -1)));
  give(w, n, onnx_1(w, "Cast", made, ONNX_ATTRS(A_I("to", onnx_types[n->out[0].dtype]))));
}

/* ---- shapes */

static shoal_shape every_axis(int rank) {
  shoal_shape axes = {.rank = rank};
  for (int i = 0; i < rank; i++) axes.dim[i] = i;
  return axes;
}
static const char *shape_of(graph_writer *w, const shoal_value *v) {
  return onnx_1(w, "Shape", writer_of(w, v), ONNX_NONE);
}

static void op_reshape(graph_writer *w, const node *n) {
  give(w, n, onnx_2(w, "Reshape", IN(0), writer_ints(w, &n->out[0].shape), ONNX_ATTRS(A_I("allowzero", 0))));
}
static void op_reshape_like(graph_writer *w, const node *n) {
  give(w, n, onnx_2(w, "Reshape", IN(0), shape_of(w, n->in[1]), ONNX_NONE));
}
static void op_expand_dims(graph_writer *w, const node *n) {
  shoal_shape axis = SHOAL_SHAPE(n->attr[0].i);
  give(w, n, onnx_2(w, "Unsqueeze", IN(0), writer_ints(w, &axis), ONNX_NONE));
}
static void op_squeeze(graph_writer *w, const node *n) {
  give(w, n, onnx_2(w, "Squeeze", IN(0), writer_ints(w, &n->attr[0].list), ONNX_NONE));
}
static void op_transpose(graph_writer *w, const node *n) { give(w, n, onnx_transposed(w, n->in[0], n->attr[0].list)); }
static void op_broadcast_to(graph_writer *w, const node *n) {
  shoal_shape shape = n->out[0].shape;
  for (int i = 0; i < shape.rank; i++)
    if (shape.dim[i] == SHOAL_UNKNOWN) shape.dim[i] = 1; /* as the input has it */
  give(w, n, onnx_2(w, "Expand", IN(0), writer_ints(w, &shape), ONNX_NONE));
}
static void op_fill_like(graph_writer *w, const node *n) {
  give(w, n, onnx_2(w, "Expand", number(w, n, n->attr[0].f), shape_of(w, n->in[0]), ONNX_NONE));
}
static void op_fill(graph_writer *w, const node *n) {
  const char *value = writer_scalar(w, n->out[0].dtype, n->attr[2].f);
  give(w, n, onnx_2(w, "Expand", value, writer_ints(w, &n->out[0].shape), ONNX_NONE));
}

static void slice(graph_writer *w, const node *n, shoal_shape start, shoal_shape stop, shoal_shape step) {
  shoal_shape axes = every_axis(start.rank);
  const char *in[] = {IN(0), writer_ints(w, &start), writer_ints(w, &stop), writer_ints(w, &axes),
                      writer_ints(w, &step)};
  give(w, n, onnx_emit(w, "Slice", in, 5, ONNX_NONE));
}
static void op_slice(graph_writer *w, const node *n) {
  shoal_shape start = n->attr[0].list, stop = start, step = start;
  for (int i = 0; i < start.rank; i++) {
    int64_t size = n->attr[1].list.dim[i];
    stop.dim[i] = size < 0 ? INT64_MAX : start.dim[i] + size;
    step.dim[i] = 1;
  }
  slice(w, n, start, stop, step);
}
static void op_strided_slice(graph_writer *w, const node *n) {
  slice(w, n, n->attr[0].list, n->attr[1].list, n->attr[2].list); /* what is behind an end is the end there, too */
}
static void op_pad(graph_writer *w, const node *n) {
  static const char *const modes[] = {
      [SHOAL_PAD_CONSTANT] = "constant", [SHOAL_PAD_REFLECT] = "reflect", [SHOAL_PAD_EDGE] = "edge"};
  const shoal_shape before = n->attr[0].list, after = n->attr[1].list;
  int64_t both[2 * SHOAL_MAX_RANK];
  if (n->attr[2].i == SHOAL_PAD_SYMMETRIC) {
    writer_fail(w, status_make(SHOAL_ERR_ARGUMENT, "'%s': ONNX has no symmetric padding", n->name));
    return;
  }
  memcpy(both, before.dim, sizeof(int64_t) * (size_t)before.rank);
  memcpy(both + before.rank, after.dim, sizeof(int64_t) * (size_t)before.rank);
  shoal_tensor pads = shoal_tensor_view(SHOAL_I64, SHOAL_SHAPE(2 * before.rank), both);
  give(w, n,
       onnx_3(w, "Pad", IN(0), writer_tensor(w, &pads), number(w, n, n->attr[3].f),
              ONNX_ATTRS(A_S("mode", modes[n->attr[2].i]))));
}
static void op_tile(graph_writer *w, const node *n) {
  give(w, n, onnx_2(w, "Tile", IN(0), writer_ints(w, &n->attr[0].list), ONNX_NONE));
}
/* Axis by axis: a new one behind it, that many long, and both become one. */
static void op_repeat(graph_writer *w, const node *n) {
  const shoal_shape shape = n->in[0]->shape;
  const char *x = IN(0);
  for (int i = 0; i < shape.rank; i++) {
    const int64_t times = n->attr[0].list.dim[i];
    if (times == 1) continue;
    shoal_shape ones = {.rank = shape.rank + 1}, flat = n->out[0].shape, axis = SHOAL_SHAPE(i + 1);
    if (shape.rank == SHOAL_MAX_RANK) {
      writer_fail(w, status_make(SHOAL_ERR_ARGUMENT, "'%s': too many dimensions to be repeated", n->name));
      return;
    }
    for (int k = 0; k < ones.rank; k++) ones.dim[k] = k == i + 1 ? times : 1;
    for (int k = i + 1; k < shape.rank; k++) flat.dim[k] = shape.dim[k]; /* those to come */
    x = onnx_2(w, "Unsqueeze", x, writer_ints(w, &axis), ONNX_NONE);
    x = onnx_2(w, "Tile", x, writer_ints(w, &ones), ONNX_NONE);
    x = onnx_2(w, "Reshape", x, writer_ints(w, &flat), ONNX_NONE);
  }
  give(w, n, x);
}
static void op_concat(graph_writer *w, const node *n) {
  const char **in = calloc((size_t)n->ins, sizeof *in);
  if (!in) {
    writer_fail(w, status_no_memory());
    return;
  }
  for (int i = 0; i < n->ins; i++) in[i] = IN(i);
  give(w, n, onnx_emit(w, "Concat", in, n->ins, ONNX_ATTRS(A_I("axis", n->attr[0].i))));
  free(in);
}
static void op_split(graph_writer *w, const node *n) {
  const char *in[] = {IN(0)}, *out[OP_MAX_OUTPUTS];
  for (int i = 0; i < n->outs; i++) writer_bind(w, &n->out[i], out[i] = writer_name(w));
  onnx_emit_several(w, "Split", in, 1, out, n->outs,
                    ONNX_ATTRS(A_I("axis", n->attr[1].i), A_I("num_outputs", n->outs)));
}

/* ---- along axes */

static void reduce(graph_writer *w, const node *n, const char *op) {
  const shoal_shape axes = n->attr[0].list.rank ? n->attr[0].list : every_axis(n->in[0]->shape.rank);
  give(w, n, onnx_2(w, op, IN(0), writer_ints(w, &axes), ONNX_ATTRS(A_I("keepdims", n->attr[1].i != 0))));
}
static void op_reduce_sum(graph_writer *w, const node *n) { reduce(w, n, "ReduceSum"); }
static void op_reduce_mean(graph_writer *w, const node *n) { reduce(w, n, "ReduceMean"); }
static void op_reduce_max(graph_writer *w, const node *n) { reduce(w, n, "ReduceMax"); }
static void op_reduce_min(graph_writer *w, const node *n) { reduce(w, n, "ReduceMin"); }
static void op_reduce_prod(graph_writer *w, const node *n) { reduce(w, n, "ReduceProd"); }
/* Of truth values: as 0 and 1. */
static void reduce_truth(graph_writer *w, const node *n, const char *op) {
  const shoal_shape axes = n->attr[0].list.rank ? n->attr[0].list : every_axis(n->in[0]->shape.rank);
  const char *x = onnx_1(w, "Cast", IN(0), ONNX_ATTRS(A_I("to", onnx_types[SHOAL_I32])));
  x = onnx_2(w, op, x, writer_ints(w, &axes), ONNX_ATTRS(A_I("keepdims", n->attr[1].i != 0)));
  give(w, n, onnx_1(w, "Cast", x, ONNX_ATTRS(A_I("to", onnx_types[SHOAL_BOOL]))));
}
static void op_reduce_any(graph_writer *w, const node *n) { reduce_truth(w, n, "ReduceMax"); }
static void op_reduce_all(graph_writer *w, const node *n) { reduce_truth(w, n, "ReduceMin"); }
static void op_argmax(graph_writer *w, const node *n) {
  const char *best = onnx_1(w, "ArgMax", IN(0), ONNX_ATTRS(A_I("axis", n->attr[0].i), A_I("keepdims", 0)));
  give(w, n, onnx_1(w, "Cast", best, ONNX_ATTRS(A_I("to", onnx_types[n->out[0].dtype]))));
}
static void op_softmax(graph_writer *w, const node *n) {
  give(w, n, onnx_1(w, "Softmax", IN(0), ONNX_ATTRS(A_I("axis", n->attr[0].i))));
}
static void op_log_softmax(graph_writer *w, const node *n) {
  give(w, n, onnx_1(w, "LogSoftmax", IN(0), ONNX_ATTRS(A_I("axis", n->attr[0].i))));
}
static void op_cumsum(graph_writer *w, const node *n) {
  give(w, n,
       onnx_2(w, "CumSum", IN(0), writer_int(w, n->attr[0].i),
              ONNX_ATTRS(A_I("exclusive", n->attr[1].i), A_I("reverse", n->attr[2].i))));
}
static void largest(graph_writer *w, const node *n, const char *k, int64_t axis, bool descending) {
  const char *in[] = {IN(0), k}, *out[] = {writer_name(w), writer_name(w)};
  onnx_emit_several(w, "TopK", in, 2, out, 2,
                    ONNX_ATTRS(A_I("axis", axis), A_I("largest", descending), A_I("sorted", 1)));
  writer_bind(w, &n->out[0], out[0]);
  if (n->outs > 1)
    writer_bind(w, &n->out[1], onnx_1(w, "Cast", out[1], ONNX_ATTRS(A_I("to", onnx_types[n->out[1].dtype]))));
}
static void op_top_k(graph_writer *w, const node *n) {
  shoal_shape k = SHOAL_SHAPE(n->attr[0].i);
  largest(w, n, writer_ints(w, &k), n->attr[1].i, !n->attr[2].i);
}
/* All of them are the largest k. */
static void op_sort(graph_writer *w, const node *n) {
  const int64_t axis = n->attr[0].i < 0 ? n->attr[0].i + n->in[0]->shape.rank : n->attr[0].i;
  const shoal_shape place = SHOAL_SHAPE(axis), count = SHOAL_SHAPE(n->in[0]->shape.dim[axis]);
  const char *k = count.dim[0] != SHOAL_UNKNOWN
                      ? writer_ints(w, &count)
                      : onnx_2(w, "Gather", shape_of(w, n->in[0]), writer_ints(w, &place), ONNX_ATTRS(A_I("axis", 0)));
  largest(w, n, k, n->attr[0].i, n->attr[1].i);
}

/* ---- the table */

typedef struct {
  const char *op;
  const char *onnx; /* the operator of the same meaning, without attributes; NULL: `emit` says it */
  void (*emit)(graph_writer *w, const node *n);
} onnx_row;

static const onnx_row rows[] = {
    {"add", "Add", NULL},
    {"sub", "Sub", NULL},
    {"mul", "Mul", NULL},
    {"div", "Div", NULL},
    {"maximum", "Max", NULL},
    {"minimum", "Min", NULL},
    {"pow", "Pow", NULL},
    {"bias_add", "Add", NULL},
    {"neg", "Neg", NULL},
    {"exp", "Exp", NULL},
    {"log", "Log", NULL},
    {"sqrt", "Sqrt", NULL},
    {"abs", "Abs", NULL},
    {"sign", "Sign", NULL},
    {"relu", "Relu", NULL},
    {"tanh", "Tanh", NULL},
    {"sigmoid", "Sigmoid", NULL},
    {"erf", "Erf", NULL},
    {"sin", "Sin", NULL},
    {"cos", "Cos", NULL},
    {"tan", "Tan", NULL},
    {"atan", "Atan", NULL},
    {"reciprocal", "Reciprocal", NULL},
    {"floor", "Floor", NULL},
    {"ceil", "Ceil", NULL},
    {"round", "Round", NULL},
    {"selu", "Selu", NULL},
    {"softplus", "Softplus", NULL},
    {"softsign", "Softsign", NULL},
    {"hard_swish", "HardSwish", NULL},
    {"mish", "Mish", NULL},
    {"equal", "Equal", NULL},
    {"less", "Less", NULL},
    {"less_equal", "LessOrEqual", NULL},
    {"logical_and", "And", NULL},
    {"logical_or", "Or", NULL},
    {"logical_not", "Not", NULL},
    {"where", "Where", NULL},
    {"identity", "Identity", NULL},
    {"stop_gradient", "Identity", NULL},
    {"check_numerics", "Identity", NULL},
    {"square", NULL, op_square},
    {"expm1", NULL, op_expm1},
    {"log1p", NULL, op_log1p},
    {"rsqrt", NULL, op_rsqrt},
    {"scale", NULL, op_scale},
    {"clip", NULL, op_clip},
    {"relu6", NULL, op_relu6},
    {"hard_tanh", NULL, op_hard_tanh},
    {"leaky_relu", NULL, op_leaky_relu},
    {"elu", NULL, op_elu},
    {"hard_sigmoid", NULL, op_hard_sigmoid},
    {"silu", NULL, op_silu},
    {"log_sigmoid", NULL, op_log_sigmoid},
    {"gelu", NULL, op_gelu},
    {"gelu_tanh", NULL, op_gelu_tanh},
    {"prelu", NULL, op_prelu},
    {"not_equal", NULL, op_not_equal},
    {"at_least", NULL, op_at_least},
    {"below", NULL, op_below},
    {"cast", NULL, op_cast},
    {"matmul", NULL, op_matmul},
    {"batch_matmul", NULL, op_matmul},
    {"sparse_matmul", NULL, onnx_sparse_matmul},
    {"gather", NULL, op_gather},
    {"take", NULL, op_take},
    {"take_along", NULL, op_take_along},
    {"one_hot", NULL, op_one_hot},
    {"reshape", NULL, op_reshape},
    {"reshape_like", NULL, op_reshape_like},
    {"expand_dims", NULL, op_expand_dims},
    {"squeeze", NULL, op_squeeze},
    {"transpose", NULL, op_transpose},
    {"broadcast_to", NULL, op_broadcast_to},
    {"fill", NULL, op_fill},
    {"fill_like", NULL, op_fill_like},
    {"slice", NULL, op_slice},
    {"strided_slice", NULL, op_strided_slice},
    {"pad", NULL, op_pad},
    {"tile", NULL, op_tile},
    {"repeat", NULL, op_repeat},
    {"concat", NULL, op_concat},
    {"split", NULL, op_split},
    {"reduce_sum", NULL, op_reduce_sum},
    {"reduce_mean", NULL, op_reduce_mean},
    {"reduce_max", NULL, op_reduce_max},
    {"reduce_min", NULL, op_reduce_min},
    {"reduce_prod", NULL, op_reduce_prod},
    {"reduce_any", NULL, op_reduce_any},
    {"reduce_all", NULL, op_reduce_all},
    {"argmax", NULL, op_argmax},
    {"softmax", NULL, op_softmax},
    {"log_softmax", NULL, op_log_softmax},
    {"cumsum", NULL, op_cumsum},
    {"top_k", NULL, op_top_k},
    {"sort", NULL, op_sort},
    {"conv2d", NULL, onnx_conv2d},
    {"conv2d_transpose", NULL, onnx_conv2d_transpose},
    {"max_pool", NULL, onnx_max_pool},
    {"avg_pool", NULL, onnx_avg_pool},
    {"local_response_norm", NULL, onnx_local_response_norm},
    {"normalize", NULL, onnx_normalize},
    {"resize_bilinear", NULL, onnx_resize_bilinear},
    {"rnn", NULL, onnx_rnn},
    {"lstm", NULL, onnx_lstm},
    {"gru", NULL, onnx_gru},
};

bool onnx_write_node(graph_writer *w, const node *n) {
  for (size_t i = 0; i < COUNT_OF(rows); i++) {
    if (strcmp(rows[i].op, n->op->name)) continue;
    if (rows[i].onnx) {
      const char *in[3];
      for (int k = 0; k < n->ins && k < 3; k++) in[k] = IN(k);
      give(w, n, onnx_emit(w, rows[i].onnx, in, MIN_OF(n->ins, 3), ONNX_NONE));
      return true;
    }
    rows[i].emit(w, n);
    return true;
  }
  return false;
}
