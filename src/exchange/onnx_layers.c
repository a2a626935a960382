#include "exchange/onnx_layers.h"

#include "base/mem.h"
#include "exchange/recurrent_steps.h"

#include <string.h>

#define IN(i) writer_of(w, n->in[i])

static void give(graph_writer *w, const node *n, const char *name) { writer_bind(w, &n->out[0], name); }

/* ---- images: [batch, height, width, channels] here, [batch, channels, height, width] there */

static const char *channels_first(graph_writer *w, const char *x) {
  return onnx_transpose(w, x, SHOAL_SHAPE(0, 3, 1, 2));
}
static const char *channels_last(graph_writer *w, const char *x) {
  return onnx_transpose(w, x, SHOAL_SHAPE(0, 2, 3, 1));
}

/* Attributes from `first` on are top, left, bottom, right. */
static onnx_attr pads(const node *n, int first) {
  return A_L("pads", SHOAL_SHAPE(n->attr[first].i, n->attr[first + 1].i, n->attr[first + 2].i, n->attr[first + 3].i));
}
static onnx_attr pair(const char *name, const node *n, int first) {
  return A_L(name, SHOAL_SHAPE(n->attr[first].i, n->attr[first + 1].i));
}

enum { CONV_STRIDE = 0, CONV_PADS = 2, CONV_DILATION = 6, CONV_GROUPS = 8 };

void onnx_conv2d(graph_writer *w, const node *n) {
  const char *filter = onnx_transposed(w, n->in[1], SHOAL_SHAPE(3, 2, 0, 1));
  const char *y = onnx_2(w, "Conv", channels_first(w, IN(0)), filter,
                         ONNX_ATTRS(pair("strides", n, CONV_STRIDE), pads(n, CONV_PADS),
                                    pair("dilations", n, CONV_DILATION), A_I("group", n->attr[CONV_GROUPS].i)));
  give(w, n, channels_last(w, y));
}

/* What is missing to the size of the result is put at its end. */
void onnx_conv2d_transpose(graph_writer *w, const node *n) {
  shoal_shape more = {.rank = 2};
  for (int a = 0; a < 2; a++) {
    const int64_t in = n->in[0]->shape.dim[1 + a], out = n->out[0].shape.dim[1 + a], taps = n->in[1]->shape.dim[a];
    if (in < 0 || out < 0) {
      writer_fail(w, status_make(SHOAL_ERR_ARGUMENT, "'%s': the size of the images must be known", n->name));
      return;
    }
    more.dim[a] = out - (n->attr[CONV_STRIDE + a].i * (in - 1) + (taps - 1) * n->attr[CONV_DILATION + a].i + 1 -
                         n->attr[CONV_PADS + a].i - n->attr[CONV_PADS + 2 + a].i);
  }
  const char *filter = onnx_transposed(w, n->in[1], SHOAL_SHAPE(3, 2, 0, 1));
  const char *y =
      onnx_2(w, "ConvTranspose", channels_first(w, IN(0)), filter,
             ONNX_ATTRS(pair("strides", n, CONV_STRIDE), pads(n, CONV_PADS), pair("dilations", n, CONV_DILATION),
                        A_I("group", n->attr[CONV_GROUPS].i), A_L("output_padding", more)));
  give(w, n, channels_last(w, y));
}

static void write_pool(graph_writer *w, const node *n, const char *op, onnx_attr more) {
  const char *y = onnx_1(w, op, channels_first(w, IN(0)),
                         ONNX_ATTRS(pair("kernel_shape", n, 0), pair("strides", n, 2), pads(n, 4), more));
  give(w, n, channels_last(w, y));
}
void onnx_max_pool(graph_writer *w, const node *n) { write_pool(w, n, "MaxPool", (onnx_attr){0}); }
void onnx_avg_pool(graph_writer *w, const node *n) { write_pool(w, n, "AveragePool", A_I("count_include_pad", 0)); }

void onnx_local_response_norm(graph_writer *w, const node *n) {
  const int64_t size = 2 * n->attr[0].i + 1;
  const char *y = onnx_1(w, "LRN", channels_first(w, IN(0)),
                         ONNX_ATTRS(A_I("size", size), A_F("bias", n->attr[1].f),
                                    A_F("alpha", n->attr[2].f * (double)size), A_F("beta", n->attr[3].f)));
  give(w, n, channels_last(w, y));
}

void onnx_resize_bilinear(graph_writer *w, const node *n) {
  const shoal_shape from = n->in[0]->shape;
  if (from.dim[1] < 1 || from.dim[2] < 1) {
    writer_fail(w, status_make(SHOAL_ERR_ARGUMENT, "'%s': the size of the images must be known", n->name));
    return;
  }
  float times[4] = {1, 1, (float)n->attr[0].i / (float)from.dim[1], (float)n->attr[1].i / (float)from.dim[2]};
  shoal_tensor scales = shoal_tensor_view(SHOAL_F32, SHOAL_SHAPE(4), times);
  const char *in[] = {channels_first(w, IN(0)), "", writer_tensor(w, &scales)};
  const char *y = onnx_emit(w, "Resize", in, 3,
                            ONNX_ATTRS(A_S("mode", "linear"), A_S("coordinate_transformation_mode",
                                                                  n->attr[2].i ? "align_corners" : "half_pixel")));
  give(w, n, channels_last(w, y));
}

/* ---- normalisation */

void onnx_normalize(graph_writer *w, const node *n) {
  shoal_shape axes = n->attr[0].list;
  if (!axes.rank) {
    axes.rank = n->in[0]->shape.rank;
    for (int i = 0; i < axes.rank; i++) axes.dim[i] = i;
  }
  const char *along = writer_ints(w, &axes), *x = IN(0);
  const onnx_attr keep = A_I("keepdims", 1);
  if (n->attr[2].i) x = onnx_2(w, "Sub", x, onnx_2(w, "ReduceMean", x, along, ONNX_ATTRS(keep)), ONNX_NONE);
  const char *variance = onnx_2(w, "ReduceMean", onnx_2(w, "Mul", x, x, ONNX_NONE), along, ONNX_ATTRS(keep));
  variance = onnx_2(w, "Add", variance, writer_scalar(w, n->in[0]->dtype, n->attr[1].f), ONNX_NONE);
  give(w, n, onnx_2(w, "Div", x, onnx_1(w, "Sqrt", variance, ONNX_NONE), ONNX_NONE));
}

/* ---- sparse rows: sums of a row's entries as differences of a running sum, in f64 */

void onnx_sparse_matmul(graph_writer *w, const node *n) {
  const shoal_dtype dtype = n->out[0].dtype;
  const shoal_shape zero = SHOAL_SHAPE(0), one = SHOAL_SHAPE(1), minus_one = SHOAL_SHAPE(-1),
                    end = SHOAL_SHAPE(SHOAL_END);
  const onnx_attr rows = A_I("axis", 0), wide = A_I("to", onnx_types[SHOAL_F64]);
  const char *first = onnx_2(w, "Gather", IN(0), writer_ints(w, &zero), ONNX_ATTRS(rows));
  const char *offsets = onnx_2(w, "Sub", IN(0), first, ONNX_NONE);
  const char *each = onnx_2(w, "Mul", onnx_2(w, "Gather", IN(3), IN(1), ONNX_ATTRS(rows)),
                            onnx_2(w, "Unsqueeze", IN(2), writer_ints(w, &one), ONNX_NONE), ONNX_NONE);
  const char *running = onnx_2(w, "CumSum", onnx_1(w, "Cast", each, ONNX_ATTRS(wide)), writer_int(w, 0), ONNX_NONE);
  int64_t none[2 * 2] = {1, 0, 0, 0};
  shoal_tensor ahead = shoal_tensor_view(SHOAL_I64, SHOAL_SHAPE(4), none);
  running = onnx_2(w, "Pad", running, writer_tensor(w, &ahead), ONNX_NONE);
  const char *from = onnx_3(w, "Slice", offsets, writer_ints(w, &zero), writer_ints(w, &minus_one), ONNX_NONE);
  const char *to = onnx_3(w, "Slice", offsets, writer_ints(w, &one), writer_ints(w, &end), ONNX_NONE);
  const char *sums = onnx_2(w, "Sub", onnx_2(w, "Gather", running, to, ONNX_ATTRS(rows)),
                            onnx_2(w, "Gather", running, from, ONNX_ATTRS(rows)), ONNX_NONE);
  give(w, n, onnx_1(w, "Cast", sums, ONNX_ATTRS(A_I("to", onnx_types[dtype]))));
}

/* ---- recurrent layers
 *
 * ONNX's layers take the inputs themselves; Shoal's operators what a product has made of them. Where that product and
 * its weights are there, they go into the layer. A mask, and weights that are computed, are written step by step. */

typedef struct {
  const char *op;
  int gates;
  const int *order; /* of our gates, as ONNX has them */
  int state;        /* number of the input that is the state */
} recurrent_kind;

typedef struct {
  const char *x;                  /* [batch, steps, features] */
  shoal_tensor w, bias, u, inner; /* data NULL: none */
} recurrent_parts;

static bool made_by(const shoal_value *v, const char *op) { return !strcmp(v->maker->op->name, op); }

/* The inputs and weights behind x w + bias; false: they are not to be had. */
static bool find_parts(graph_writer *w, const node *n, bool has_inner, recurrent_parts *out) {
  recurrent_parts p = {0};
  const shoal_value *xw = n->in[0];
  if (!writer_known(w, n->in[1], &p.u) ||
      (has_inner && !made_by(n->in[2], "fill") && !writer_known(w, n->in[2], &p.inner)))
    return false;
  if (has_inner && made_by(n->in[2], "fill") && n->in[2]->maker->attr[2].f != 0) return false;
  if (made_by(xw, "bias_add")) {
    if (!writer_known(w, xw->maker->in[1], &p.bias)) return false;
    xw = xw->maker->in[0];
  }
  const bool product = made_by(xw, "matmul") || made_by(xw, "batch_matmul");
  if (!product || xw->maker->attr[0].i || xw->maker->attr[1].i || !writer_known(w, xw->maker->in[1], &p.w) ||
      p.w.shape.rank != 2)
    return false;
  p.x = writer_of(w, xw->maker->in[0]);
  *out = p;
  return true;
}

/* [rows, gates x units] as [1, gates x units, rows], gates in ONNX's order. */
static const char *gate_matrix(graph_writer *w, const shoal_tensor *m, const recurrent_kind *k) {
  const int64_t rows = m->shape.dim[0], columns = m->shape.dim[1], units = columns / k->gates;
  shoal_tensor turned;
  shoal_status status = shoal_tensor_create(m->dtype, SHOAL_SHAPE(1, columns, rows), &turned);
  if (status) {
    writer_fail(w, status);
    return "";
  }
  for (int64_t c = 0; c < columns; c++)
    for (int64_t r = 0; r < rows; r++)
      shoal_tensor_set(&turned, c * rows + r,
                       shoal_tensor_get(m, r * columns + k->order[c / units] * units + c % units));
  const char *name = writer_tensor(w, &turned);
  shoal_tensor_fini(&turned);
  return name;
}

static const char *gate_biases(graph_writer *w, const recurrent_parts *p, const recurrent_kind *k) {
  const int64_t columns = p->u.shape.dim[1], units = columns / k->gates;
  const shoal_tensor *const both[2] = {&p->bias, &p->inner};
  shoal_tensor b;
  if (!p->bias.data && !p->inner.data) return "";
  shoal_status status = shoal_tensor_create(p->u.dtype, SHOAL_SHAPE(1, 2 * columns), &b);
  if (status) {
    writer_fail(w, status);
    return "";
  }
  for (int i = 0; i < 2; i++)
    for (int64_t c = 0; both[i]->data && c < columns; c++)
      shoal_tensor_set(&b, i * columns + c, shoal_tensor_get(both[i], k->order[c / units] * units + c % units));
  const char *name = writer_tensor(w, &b);
  shoal_tensor_fini(&b);
  return name;
}

/* [batch, units] as [1, batch, units]; "": zeros. */
static const char *first_state(graph_writer *w, const shoal_value *state) {
  const shoal_shape front = SHOAL_SHAPE(0);
  if (made_by(state, "fill_like") && state->maker->attr[0].f == 0) return "";
  return onnx_2(w, "Unsqueeze", writer_of(w, state), writer_ints(w, &front), ONNX_NONE);
}

static void whole_layer(graph_writer *w, const node *n, const recurrent_kind *k, const recurrent_parts *p,
                        const onnx_attr more) {
  const shoal_shape swap = SHOAL_SHAPE(1, 0, 2), direction = SHOAL_SHAPE(1);
  const char *in[7] = {onnx_transpose(w, p->x, swap),
                       gate_matrix(w, &p->w, k),
                       gate_matrix(w, &p->u, k),
                       gate_biases(w, p, k),
                       "",
                       first_state(w, n->in[k->state]),
                       ""};
  int ins = 6;
  if (!strcmp(k->op, "LSTM")) in[6] = first_state(w, n->in[k->state + 1]), ins = 7;
  while (!*in[ins - 1]) ins--;
  const char *y = onnx_emit(
      w, k->op, in, ins,
      ONNX_ATTRS(A_I("hidden_size", p->u.shape.dim[0]), A_S("direction", n->attr[0].i ? "reverse" : "forward"), more));
  give(w, n, onnx_transpose(w, onnx_2(w, "Squeeze", y, writer_ints(w, &direction), ONNX_NONE), swap));
}

/* ---- step by step */

static const char *step_one(graph_writer *w, const char *op, const char *x) { return onnx_1(w, op, x, ONNX_NONE); }
static const char *step_two(graph_writer *w, const char *op, const char *a, const char *b) {
  return onnx_2(w, op, a, b, ONNX_NONE);
}
static const char *step_at(graph_writer *w, const char *x, shoal_dtype dtype, int64_t t) {
  return onnx_2(w, "Gather", x, writer_int(w, t), ONNX_ATTRS(A_I("axis", 1)));
}
static void step_split(graph_writer *w, const char *x, int parts, const char **out) {
  for (int i = 0; i < parts; i++) out[i] = writer_name(w);
  onnx_emit_several(w, "Split", &x, 1, out, parts, ONNX_ATTRS(A_I("axis", 1), A_I("num_outputs", parts)));
}
static const char *step_expand(graph_writer *w, const char *x, shoal_dtype dtype) {
  const shoal_shape axis = SHOAL_SHAPE(1);
  return onnx_2(w, "Unsqueeze", x, writer_ints(w, &axis), ONNX_NONE);
}
static const char *step_where(graph_writer *w, const char *c, const char *a, const char *b) {
  return onnx_3(w, "Where", c, a, b, ONNX_NONE);
}
static const char *step_concat(graph_writer *w, const char **all, int n) {
  return onnx_emit(w, "Concat", all, n, ONNX_ATTRS(A_I("axis", 1)));
}
static const step_format in_steps = {step_one, step_two, step_at, step_split, step_expand, step_where, step_concat};

void onnx_rnn(graph_writer *w, const node *n) {
  static const int order[] = {0};
  const recurrent_kind kind = {"RNN", 1, order, 2};
  recurrent_parts parts;
  const onnx_attr tanh_or_relu = {.name = "activations", .kind = ONNX_TEXTS, .s = n->attr[1].i ? "Relu" : "Tanh"};
  if (n->ins == 3 && find_parts(w, n, false, &parts))
    whole_layer(w, n, &kind, &parts, tanh_or_relu);
  else
    steps_rnn(w, n, &in_steps);
}

void onnx_lstm(graph_writer *w, const node *n) {
  static const int order[] = {0, 3, 1, 2}; /* input, output, forget, candidate */
  const recurrent_kind kind = {"LSTM", 4, order, 2};
  recurrent_parts parts;
  if (n->ins == 4 && !writer_uses(w, &n->out[1]) && find_parts(w, n, false, &parts))
    whole_layer(w, n, &kind, &parts, (onnx_attr){0});
  else
    steps_lstm(w, n, &in_steps);
}

void onnx_gru(graph_writer *w, const node *n) {
  static const int order[] = {0, 1, 2};
  const recurrent_kind kind = {"GRU", 3, order, 3};
  recurrent_parts parts;
  if (n->ins == 4 && find_parts(w, n, true, &parts))
    whole_layer(w, n, &kind, &parts, A_I("linear_before_reset", 1));
  else
    steps_gru(w, n, &in_steps);
}
