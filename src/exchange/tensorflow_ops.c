/* The table of operators that TensorFlow has, by one name or by several. */
#include "base/mem.h"
#include "exchange/tensorflow.h"
#include "shoal/graph.h"

#include <math.h>
#include <string.h>

#define IN(i) writer_of(w, n->in[i])
#define TYPE T_T("T", n->in[0]->dtype)

static shoal_dtype type_of(const node *n) { return n->in[0]->dtype; }
static void give(graph_writer *w, const node *n, const char *name) { writer_bind(w, &n->out[0], name); }
static const char *number(graph_writer *w, const node *n, double value) { return writer_scalar(w, type_of(n), value); }
/* Of one operand and of two of the node's type. */
static const char *one(graph_writer *w, const node *n, const char *op, const char *x) {
  return tf_1(w, op, x, TF_ATTRS(TYPE));
}
static const char *two(graph_writer *w, const node *n, const char *op, const char *a, const char *b) {
  return tf_2(w, op, a, b, TF_ATTRS(TYPE));
}
static const char *cast(graph_writer *w, const char *x, shoal_dtype from, shoal_dtype to) {
  return from == to ? x : tf_1(w, "Cast", x, TF_ATTRS(T_T("SrcT", from), T_T("DstT", to)));
}

/* ---- element by element */

static void op_scale(graph_writer *w, const node *n) {
  give(w, n, two(w, n, "Mul", IN(0), number(w, n, n->attr[0].f)));
}
static const char *clip(graph_writer *w, const node *n, const char *x, double low, double high) {
  return two(w, n, "Minimum", two(w, n, "Maximum", x, number(w, n, low)), number(w, n, high));
}
static void op_clip(graph_writer *w, const node *n) { give(w, n, clip(w, n, IN(0), n->attr[0].f, n->attr[1].f)); }
static void op_hard_tanh(graph_writer *w, const node *n) { give(w, n, clip(w, n, IN(0), -1, 1)); }
static void op_leaky_relu(graph_writer *w, const node *n) {
  give(w, n, tf_1(w, "LeakyRelu", IN(0), TF_ATTRS(TYPE, T_F("alpha", n->attr[0].f))));
}
static void op_elu(graph_writer *w, const node *n) {
  if (n->attr[0].f == 1) {
    give(w, n, one(w, n, "Elu", IN(0)));
    return;
  }
  const char *below = one(w, n, "Expm1", two(w, n, "Minimum", IN(0), number(w, n, 0)));
  give(w, n, two(w, n, "AddV2", one(w, n, "Relu", IN(0)), two(w, n, "Mul", below, number(w, n, n->attr[0].f))));
}
static const char *hard_sigmoid(graph_writer *w, const node *n) {
  const char *line = two(w, n, "AddV2", two(w, n, "Mul", IN(0), number(w, n, 1.0 / 6)), number(w, n, 0.5));
  return clip(w, n, line, 0, 1);
}
static void op_hard_sigmoid(graph_writer *w, const node *n) { give(w, n, hard_sigmoid(w, n)); }
static void op_hard_swish(graph_writer *w, const node *n) { give(w, n, two(w, n, "Mul", IN(0), hard_sigmoid(w, n))); }
static void op_silu(graph_writer *w, const node *n) {
  give(w, n, two(w, n, "Mul", IN(0), one(w, n, "Sigmoid", IN(0))));
}
static void op_mish(graph_writer *w, const node *n) {
  give(w, n, two(w, n, "Mul", IN(0), one(w, n, "Tanh", one(w, n, "Softplus", IN(0)))));
}
static void op_log_sigmoid(graph_writer *w, const node *n) {
  give(w, n, one(w, n, "Neg", one(w, n, "Softplus", one(w, n, "Neg", IN(0)))));
}
/* x/2 (1 + y) */
static void half_gate(graph_writer *w, const node *n, const char *y) {
  const char *gate = two(w, n, "AddV2", y, number(w, n, 1));
  give(w, n, two(w, n, "Mul", two(w, n, "Mul", IN(0), number(w, n, 0.5)), gate));
}
static void op_gelu(graph_writer *w, const node *n) {
  half_gate(w, n, one(w, n, "Erf", two(w, n, "Mul", IN(0), number(w, n, M_SQRT1_2))));
}
static void op_gelu_tanh(graph_writer *w, const node *n) {
  const char *cube = two(w, n, "Mul", IN(0), one(w, n, "Square", IN(0)));
  const char *sum = two(w, n, "AddV2", IN(0), two(w, n, "Mul", cube, number(w, n, 0.044715)));
  half_gate(w, n, one(w, n, "Tanh", two(w, n, "Mul", sum, number(w, n, sqrt(2 / M_PI)))));
}
static void op_prelu(graph_writer *w, const node *n) {
  const char *below = two(w, n, "Mul", IN(1), two(w, n, "Minimum", IN(0), number(w, n, 0)));
  give(w, n, two(w, n, "AddV2", one(w, n, "Relu", IN(0)), below));
}
/* 1 or 0 in the type of the operands. */
static void op_at_least(graph_writer *w, const node *n) {
  give(w, n, cast(w, two(w, n, "GreaterEqual", IN(0), IN(1)), SHOAL_BOOL, n->out[0].dtype));
}
static void op_below(graph_writer *w, const node *n) {
  give(w, n, cast(w, two(w, n, "Less", IN(0), IN(1)), SHOAL_BOOL, n->out[0].dtype));
}
static void op_cast(graph_writer *w, const node *n) { give(w, n, cast(w, IN(0), type_of(n), n->out[0].dtype)); }
static void op_where(graph_writer *w, const node *n) {
  give(w, n, tf_3(w, "SelectV2", IN(0), IN(1), IN(2), TF_ATTRS(T_T("T", n->in[1]->dtype))));
}
/* Of truth values there are no types to be named. */
static void op_logical_and(graph_writer *w, const node *n) { give(w, n, tf_2(w, "LogicalAnd", IN(0), IN(1), NULL, 0)); }
static void op_logical_or(graph_writer *w, const node *n) { give(w, n, tf_2(w, "LogicalOr", IN(0), IN(1), NULL, 0)); }
static void op_logical_not(graph_writer *w, const node *n) { give(w, n, tf_1(w, "LogicalNot", IN(0), NULL, 0)); }

/* ---- products */

static void op_matmul(graph_writer *w, const node *n) {
  give(w, n,
       tf_2(w, "MatMul", IN(0), IN(1),
            TF_ATTRS(TYPE, T_B("transpose_a", n->attr[0].i), T_B("transpose_b", n->attr[1].i))));
}
static void op_batch_matmul(graph_writer *w, const node *n) {
  give(w, n,
       tf_2(w, "BatchMatMulV2", IN(0), IN(1), TF_ATTRS(TYPE, T_B("adj_x", n->attr[0].i), T_B("adj_y", n->attr[1].i))));
}

/* ---- rows by index */

static const char *index_of(graph_writer *w, const shoal_value *v) {
  const char *x = writer_of(w, v);
  return v->dtype == SHOAL_I32 || v->dtype == SHOAL_I64 ? x : cast(w, x, v->dtype, SHOAL_I64);
}
static shoal_dtype index_type(const shoal_value *v) { return v->dtype == SHOAL_I32 ? SHOAL_I32 : SHOAL_I64; }
static void gather(graph_writer *w, const node *n, int64_t axis) {
  give(w, n,
       tf_3(w, "GatherV2", IN(0), index_of(w, n->in[1]), writer_scalar(w, SHOAL_I32, (double)axis),
            TF_ATTRS(T_T("Tparams", type_of(n)), T_T("Tindices", index_type(n->in[1])), T_T("Taxis", SHOAL_I32))));
}
static void op_gather(graph_writer *w, const node *n) { gather(w, n, 0); }
static void op_take(graph_writer *w, const node *n) { gather(w, n, n->attr[0].i); }
static void op_one_hot(graph_writer *w, const node *n) {
  const shoal_dtype to = n->out[0].dtype;
  const char *in[] = {index_of(w, n->in[0]), writer_scalar(w, SHOAL_I32, (double)n->attr[0].i),
                      writer_scalar(w, to, n->attr[1].f), writer_scalar(w, to, n->attr[2].f)};
  give(w, n, tf_emit(w, "OneHot", in, 4, TF_ATTRS(T_T("T", to), T_T("TI", index_type(n->in[0])), T_I("axis", -1))));
}

/* ---- shapes */

static const char *shape_of(graph_writer *w, const shoal_value *v) {
  return tf_1(w, "Shape", writer_of(w, v), TF_ATTRS(T_T("T", v->dtype), T_T("out_type", SHOAL_I32)));
}
static const char *reshape(graph_writer *w, const node *n, const char *x, const shoal_shape *to) {
  return tf_2(w, "Reshape", x, writer_ints(w, to), TF_ATTRS(TYPE, T_T("Tshape", SHOAL_I64)));
}
/* What is unknown is -1 there, too. */
static void op_reshape(graph_writer *w, const node *n) { give(w, n, reshape(w, n, IN(0), &n->out[0].shape)); }
static void op_reshape_like(graph_writer *w, const node *n) {
  give(w, n, tf_2(w, "Reshape", IN(0), shape_of(w, n->in[1]), TF_ATTRS(TYPE, T_T("Tshape", SHOAL_I32))));
}
static void op_expand_dims(graph_writer *w, const node *n) {
  give(w, n,
       tf_2(w, "ExpandDims", IN(0), writer_scalar(w, SHOAL_I32, (double)n->attr[0].i),
            TF_ATTRS(TYPE, T_T("Tdim", SHOAL_I32))));
}
static void op_squeeze(graph_writer *w, const node *n) {
  const shoal_shape *axes = &n->attr[0].list;
  give(w, n, tf_1(w, "Squeeze", IN(0), TF_ATTRS(TYPE, T_L("squeeze_dims", axes->rank, axes->dim))));
}
static const char *transpose(graph_writer *w, const node *n, const char *x, const shoal_shape *order) {
  return tf_2(w, "Transpose", x, writer_ints(w, order), TF_ATTRS(TYPE, T_T("Tperm", SHOAL_I64)));
}
static void op_transpose(graph_writer *w, const node *n) {
  const char *known = writer_transposed(w, n->in[0], n->attr[0].list);
  give(w, n, known ? known : transpose(w, n, IN(0), &n->attr[0].list));
}
static void op_broadcast_to(graph_writer *w, const node *n) {
  give(w, n,
       tf_2(w, "BroadcastTo", IN(0), tf_shape(w, &n->out[0].shape, n->in[0]), TF_ATTRS(TYPE, T_T("Tidx", SHOAL_I32))));
}
static void op_fill_like(graph_writer *w, const node *n) {
  give(
      w, n,
      tf_2(w, "Fill", shape_of(w, n->in[0]), number(w, n, n->attr[0].f), TF_ATTRS(TYPE, T_T("index_type", SHOAL_I32))));
}
static void op_fill(graph_writer *w, const node *n) {
  const shoal_shape *shape = &n->out[0].shape;
  const shoal_dtype to = n->out[0].dtype;
  give(w, n,
       tf_2(w, "Fill", tf_i32s(w, shape->dim, shape->rank), writer_scalar(w, to, n->attr[2].f),
            TF_ATTRS(T_T("T", to), T_T("index_type", SHOAL_I32))));
}
static void op_slice(graph_writer *w, const node *n) {
  const char *from = writer_ints(w, &n->attr[0].list), *size = writer_ints(w, &n->attr[1].list);
  give(w, n, tf_3(w, "Slice", IN(0), from, size, TF_ATTRS(TYPE, T_T("Index", SHOAL_I64))));
}
static void op_strided_slice(graph_writer *w, const node *n) {
  const char *in[4] = {IN(0)};
  for (int i = 0; i < 3; i++) in[1 + i] = writer_ints(w, &n->attr[i].list);
  give(w, n, tf_emit(w, "StridedSlice", in, 4, TF_ATTRS(TYPE, T_T("Index", SHOAL_I64))));
}
static void op_pad(graph_writer *w, const node *n) {
  const shoal_shape *before = &n->attr[0].list, *after = &n->attr[1].list;
  int64_t both[2 * SHOAL_MAX_RANK];
  for (int i = 0; i < before->rank; i++) {
    both[2 * i] = before->dim[i];
    both[2 * i + 1] = after->dim[i];
  }
  shoal_tensor pads = shoal_tensor_view(SHOAL_I64, SHOAL_SHAPE(before->rank, 2), both);
  const char *at = writer_tensor(w, &pads);
  const tf_attr index = T_T("Tpaddings", SHOAL_I64);
  if (n->attr[2].i == SHOAL_PAD_CONSTANT)
    give(w, n, tf_3(w, "PadV2", IN(0), at, number(w, n, n->attr[3].f), TF_ATTRS(TYPE, index)));
  else if (n->attr[2].i == SHOAL_PAD_EDGE)
    writer_fail(w, status_make(SHOAL_ERR_ARGUMENT, "'%s': TensorFlow has no padding that repeats the edge", n->name));
  else
    give(w, n,
         tf_2(w, "MirrorPad", IN(0), at,
              TF_ATTRS(TYPE, index, T_S("mode", n->attr[2].i == SHOAL_PAD_REFLECT ? "REFLECT" : "SYMMETRIC"))));
}
static const char *tile(graph_writer *w, const node *n, const char *x, const shoal_shape *times) {
  return tf_2(w, "Tile", x, writer_ints(w, times), TF_ATTRS(TYPE, T_T("Tmultiples", SHOAL_I64)));
}
static void op_tile(graph_writer *w, const node *n) { give(w, n, tile(w, n, IN(0), &n->attr[0].list)); }
/* Axis by axis: a new one behind it, that many long, and both become one. */
static void op_repeat(graph_writer *w, const node *n) {
  const shoal_shape shape = n->in[0]->shape;
  const char *x = IN(0);
  for (int i = 0; i < shape.rank; i++) {
    const int64_t times = n->attr[0].list.dim[i];
    if (times == 1) continue;
    shoal_shape ones = {.rank = shape.rank + 1}, flat = n->out[0].shape;
    if (shape.rank == SHOAL_MAX_RANK) {
      writer_fail(w, status_make(SHOAL_ERR_ARGUMENT, "'%s': too many dimensions to be repeated", n->name));
      return;
    }
    for (int k = 0; k < ones.rank; k++) ones.dim[k] = k == i + 1 ? times : 1;
    for (int k = i + 1; k < shape.rank; k++) flat.dim[k] = shape.dim[k]; /* those to come */
    x = tf_2(w, "ExpandDims", x, writer_scalar(w, SHOAL_I32, i + 1), TF_ATTRS(TYPE, T_T("Tdim", SHOAL_I32)));
    x = reshape(w, n, tile(w, n, x, &ones), &flat);
  }
  give(w, n, x);
}
static void op_concat(graph_writer *w, const node *n) {
  const char **in = calloc((size_t)n->ins + 1, sizeof *in);
  if (!in) {
    writer_fail(w, status_no_memory());
    return;
  }
  for (int i = 0; i < n->ins; i++) in[i] = IN(i);
  in[n->ins] = writer_scalar(w, SHOAL_I32, (double)n->attr[0].i);
  give(w, n, tf_emit(w, "ConcatV2", in, n->ins + 1, TF_ATTRS(TYPE, T_I("N", n->ins), T_T("Tidx", SHOAL_I32))));
  free(in);
}
static void op_split(graph_writer *w, const node *n) {
  const char *parts = tf_2(w, "Split", writer_scalar(w, SHOAL_I32, (double)n->attr[1].i), IN(0),
                           TF_ATTRS(TYPE, T_I("num_split", n->outs)));
  for (int i = 0; i < n->outs; i++) writer_bind(w, &n->out[i], tf_output(w, parts, i));
}

/* ---- along axes */

static const char *axes_of(graph_writer *w, const node *n) {
  shoal_shape axes = n->attr[0].list;
  if (!axes.rank) {
    axes.rank = n->in[0]->shape.rank;
    for (int i = 0; i < axes.rank; i++) axes.dim[i] = i;
  }
  return writer_ints(w, &axes);
}
static void reduce(graph_writer *w, const node *n, const char *op) {
  const tf_attr type = type_of(n) == SHOAL_BOOL ? (tf_attr){0} : TYPE;
  give(w, n, tf_2(w, op, IN(0), axes_of(w, n), TF_ATTRS(type, T_T("Tidx", SHOAL_I64), T_B("keep_dims", n->attr[1].i))));
}
static void op_reduce_sum(graph_writer *w, const node *n) { reduce(w, n, "Sum"); }
static void op_reduce_mean(graph_writer *w, const node *n) { reduce(w, n, "Mean"); }
static void op_reduce_max(graph_writer *w, const node *n) { reduce(w, n, "Max"); }
static void op_reduce_min(graph_writer *w, const node *n) { reduce(w, n, "Min"); }
static void op_reduce_prod(graph_writer *w, const node *n) { reduce(w, n, "Prod"); }
static void op_reduce_any(graph_writer *w, const node *n) { reduce(w, n, "Any"); }
static void op_reduce_all(graph_writer *w, const node *n) { reduce(w, n, "All"); }
static void op_argmax(graph_writer *w, const node *n) {
  const shoal_dtype to = n->out[0].dtype == SHOAL_I32 ? SHOAL_I32 : SHOAL_I64;
  give(w, n,
       tf_2(w, "ArgMax", IN(0), writer_scalar(w, SHOAL_I32, (double)n->attr[0].i),
            TF_ATTRS(TYPE, T_T("Tidx", SHOAL_I32), T_T("output_type", to))));
}
/* TensorFlow's go along the last axis. */
static void along_last(graph_writer *w, const node *n, const char *op) {
  const int rank = n->in[0]->shape.rank;
  const int64_t axis = n->attr[0].i < 0 ? n->attr[0].i + rank : n->attr[0].i;
  shoal_shape order = {.rank = rank};
  for (int i = 0; i < rank; i++) order.dim[i] = i;
  order.dim[axis] = rank - 1;
  order.dim[rank - 1] = axis;
  const bool last = axis == rank - 1;
  const char *y = one(w, n, op, last ? IN(0) : transpose(w, n, IN(0), &order));
  give(w, n, last ? y : transpose(w, n, y, &order));
}
static void op_softmax(graph_writer *w, const node *n) { along_last(w, n, "Softmax"); }
static void op_log_softmax(graph_writer *w, const node *n) { along_last(w, n, "LogSoftmax"); }
static void op_cumsum(graph_writer *w, const node *n) {
  give(w, n,
       tf_2(w, "Cumsum", IN(0), writer_scalar(w, SHOAL_I32, (double)n->attr[0].i),
            TF_ATTRS(TYPE, T_T("Tidx", SHOAL_I32), T_B("exclusive", n->attr[1].i), T_B("reverse", n->attr[2].i))));
}
static void top_k(graph_writer *w, const node *n, int64_t axis, int64_t k, bool smallest) {
  if ((axis != -1 && axis != n->in[0]->shape.rank - 1) || k < 0) {
    writer_fail(w, status_make(SHOAL_ERR_ARGUMENT, "'%s': TensorFlow sorts along the last axis, of a known size, alone",
                               n->name));
    return;
  }
  const char *x = smallest ? one(w, n, "Neg", IN(0)) : IN(0);
  const char *best = tf_2(w, "TopKV2", x, writer_scalar(w, SHOAL_I32, (double)k), TF_ATTRS(TYPE, T_B("sorted", true)));
  give(w, n, smallest ? one(w, n, "Neg", best) : best);
  if (n->outs > 1) writer_bind(w, &n->out[1], cast(w, tf_output(w, best, 1), SHOAL_I32, n->out[1].dtype));
}
static void op_top_k(graph_writer *w, const node *n) { top_k(w, n, n->attr[1].i, n->attr[0].i, n->attr[2].i); }
static void op_sort(graph_writer *w, const node *n) {
  top_k(w, n, n->attr[0].i, n->in[0]->shape.dim[n->in[0]->shape.rank - 1], !n->attr[1].i);
}

/* ---- normalisation, images */

static void op_normalize(graph_writer *w, const node *n) {
  const char *along = axes_of(w, n), *x = IN(0);
  const tf_attr index = T_T("Tidx", SHOAL_I64), keep = T_B("keep_dims", true);
  if (n->attr[2].i) x = two(w, n, "Sub", x, tf_2(w, "Mean", x, along, TF_ATTRS(TYPE, index, keep)));
  const char *variance = tf_2(w, "Mean", one(w, n, "Square", x), along, TF_ATTRS(TYPE, index, keep));
  give(w, n, two(w, n, "Mul", x, one(w, n, "Rsqrt", two(w, n, "AddV2", variance, number(w, n, n->attr[1].f)))));
}
static void op_local_response_norm(graph_writer *w, const node *n) {
  give(w, n,
       tf_1(w, "LRN", IN(0),
            TF_ATTRS(TYPE, T_I("depth_radius", n->attr[0].i), T_F("bias", n->attr[1].f), T_F("alpha", n->attr[2].f),
                     T_F("beta", n->attr[3].f))));
}
static void op_resize_bilinear(graph_writer *w, const node *n) {
  const int64_t size[2] = {n->attr[0].i, n->attr[1].i};
  give(w, n,
       tf_2(w, "ResizeBilinear", IN(0), tf_i32s(w, size, 2),
            TF_ATTRS(TYPE, T_B("align_corners", n->attr[2].i), T_B("half_pixel_centers", !n->attr[2].i))));
}

/* ---- the table */

typedef struct {
  const char *op;
  const char *tensorflow; /* of the same meaning, with the type T alone; NULL: `emit` says it */
  void (*emit)(graph_writer *w, const node *n);
} tf_row;

static const tf_row rows[] = {
    {"add", "AddV2", NULL},
    {"sub", "Sub", NULL},
    {"mul", "Mul", NULL},
    {"div", "RealDiv", NULL},
    {"maximum", "Maximum", NULL},
    {"minimum", "Minimum", NULL},
    {"pow", "Pow", NULL},
    {"bias_add", "BiasAdd", NULL},
    {"neg", "Neg", NULL},
    {"exp", "Exp", NULL},
    {"log", "Log", NULL},
    {"sqrt", "Sqrt", NULL},
    {"rsqrt", "Rsqrt", NULL},
    {"square", "Square", NULL},
    {"expm1", "Expm1", NULL},
    {"log1p", "Log1p", NULL},
    {"abs", "Abs", NULL},
    {"sign", "Sign", NULL},
    {"relu", "Relu", NULL},
    {"relu6", "Relu6", NULL},
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
    {"equal", "Equal", NULL},
    {"not_equal", "NotEqual", NULL},
    {"less", "Less", NULL},
    {"less_equal", "LessEqual", NULL},
    {"identity", "Identity", NULL},
    {"stop_gradient", "StopGradient", NULL},
    {"check_numerics", "Identity", NULL},
    {"logical_and", NULL, op_logical_and},
    {"logical_or", NULL, op_logical_or},
    {"logical_not", NULL, op_logical_not},
    {"where", NULL, op_where},
    {"scale", NULL, op_scale},
    {"clip", NULL, op_clip},
    {"hard_tanh", NULL, op_hard_tanh},
    {"leaky_relu", NULL, op_leaky_relu},
    {"elu", NULL, op_elu},
    {"hard_sigmoid", NULL, op_hard_sigmoid},
    {"hard_swish", NULL, op_hard_swish},
    {"silu", NULL, op_silu},
    {"mish", NULL, op_mish},
    {"log_sigmoid", NULL, op_log_sigmoid},
    {"gelu", NULL, op_gelu},
    {"gelu_tanh", NULL, op_gelu_tanh},
    {"prelu", NULL, op_prelu},
    {"at_least", NULL, op_at_least},
    {"below", NULL, op_below},
    {"cast", NULL, op_cast},
    {"matmul", NULL, op_matmul},
    {"batch_matmul", NULL, op_batch_matmul},
    {"gather", NULL, op_gather},
    {"take", NULL, op_take},
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
    {"normalize", NULL, op_normalize},
    {"local_response_norm", NULL, op_local_response_norm},
    {"resize_bilinear", NULL, op_resize_bilinear},
    {"conv2d", NULL, tf_conv2d},
    {"conv2d_transpose", NULL, tf_conv2d_transpose},
    {"max_pool", NULL, tf_max_pool},
    {"avg_pool", NULL, tf_avg_pool},
    {"rnn", NULL, tf_rnn},
    {"lstm", NULL, tf_lstm},
    {"gru", NULL, tf_gru},
};

bool tf_write_node(graph_writer *w, const node *n) {
  for (size_t i = 0; i < COUNT_OF(rows); i++) {
    if (strcmp(rows[i].op, n->op->name)) continue;
    if (!rows[i].tensorflow) {
      rows[i].emit(w, n);
      return true;
    }
    const char *in[2];
    for (int k = 0; k < n->ins && k < 2; k++) in[k] = IN(k);
    give(w, n, tf_emit(w, rows[i].tensorflow, in, MIN_OF(n->ins, 2), TF_ATTRS(TYPE)));
    return true;
  }
  return false;
}
