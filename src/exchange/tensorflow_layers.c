/* Convolutions, pools and recurrent layers as TensorFlow's operators. Images are [batch, height, width, channels] in both. */
#include "base/mem.h"
#include "exchange/recurrent_steps.h"
#include "exchange/tensorflow.h"

#define IN(i) writer_of(w, n->in[i])
#define TYPE T_T("T", n->in[0]->dtype)

static void give(graph_writer *w, const node *n, const char *name) { writer_bind(w, &n->out[0], name); }

/* How much is put around images: by name where TensorFlow would put as much. */
typedef struct {
  const char *name;
  int64_t explicit[8]; /* before and after each of the four axes */
} padding;

/* pads: top, left, bottom, right; taps: how far a window reaches. */
static padding padding_of(const shoal_shape *in, const attr_value *pads, const int64_t taps[2],
                          const int64_t stride[2]) {
  padding p = {.name = "EXPLICIT"};
  bool none = true, same = true;
  for (int a = 0; a < 2; a++) {
    const int64_t before = pads[a].i, after = pads[2 + a].i, size = in->dim[1 + a];
    p.explicit[2 + 2 * a] = before;
    p.explicit[3 + 2 * a] = after;
    none = none && !before && !after;
    if (size < 1) {
      same = false;
      continue;
    }
    const int64_t out = (size + stride[a] - 1) / stride[a];
    const int64_t all = MAX_OF((out - 1) * stride[a] + taps[a] - size, 0);
    same = same && before == all / 2 && after == all - all / 2;
  }
  if (none)
    p.name = "VALID";
  else if (same)
    p.name = "SAME";
  return p;
}
static tf_attr explicit_of(const padding *p) {
  return *p->name == 'E' ? T_L("explicit_paddings", 8, p->explicit) : (tf_attr){0};
}

enum { CONV_STRIDE = 0, CONV_PADS = 2, CONV_DILATION = 6, CONV_GROUPS = 8 };

typedef struct {
  int64_t strides[4], dilations[4];
  padding padding;
} window;

/* images: whose sizes the padding is of. */
static window window_of(const node *n, const shoal_shape *images) {
  window o = {.strides = {1, n->attr[CONV_STRIDE].i, n->attr[CONV_STRIDE + 1].i, 1},
              .dilations = {1, n->attr[CONV_DILATION].i, n->attr[CONV_DILATION + 1].i, 1}};
  int64_t taps[2];
  for (int a = 0; a < 2; a++) taps[a] = (n->in[1]->shape.dim[a] - 1) * o.dilations[1 + a] + 1;
  o.padding = padding_of(images, n->attr + CONV_PADS, taps, o.strides + 1);
  return o;
}

static const char *convolve(graph_writer *w, const node *n, const char *op, const char *x, const char *filter,
                            const window *o) {
  return tf_2(w, op, x, filter,
              TF_ATTRS(TYPE, T_L("strides", 4, o->strides), T_L("dilations", 4, o->dilations),
                       T_S("padding", o->padding.name), explicit_of(&o->padding), T_S("data_format", "NHWC")));
}

/* Groups one by one: TensorFlow has none on processors. */
static void grouped(graph_writer *w, const node *n, const window *o, int64_t groups) {
  const char **parts = calloc((size_t)groups + 1, sizeof *parts);
  if (!parts) {
    writer_fail(w, status_no_memory());
    return;
  }
  const char *axis = writer_scalar(w, SHOAL_I32, 3);
  const char *x = tf_2(w, "Split", axis, IN(0), TF_ATTRS(TYPE, T_I("num_split", groups)));
  const char *f = tf_2(w, "Split", axis, IN(1), TF_ATTRS(TYPE, T_I("num_split", groups)));
  for (int i = 0; i < groups; i++) parts[i] = convolve(w, n, "Conv2D", tf_output(w, x, i), tf_output(w, f, i), o);
  parts[groups] = axis;
  give(w, n, tf_emit(w, "ConcatV2", parts, (int)groups + 1, TF_ATTRS(TYPE, T_I("N", groups), T_T("Tidx", SHOAL_I32))));
  free(parts);
}

void tf_conv2d(graph_writer *w, const node *n) {
  const shoal_shape *x = &n->in[0]->shape, *f = &n->in[1]->shape;
  const int64_t groups = n->attr[CONV_GROUPS].i;
  const window o = window_of(n, x);
  /* The filters of each channel by itself: [high, wide, 1, channels x times] is [high, wide, channels, times]. */
  if (groups > 1 && groups == x->dim[3] && o.strides[1] == o.strides[2]) {
    const shoal_shape by_channel = SHOAL_SHAPE(f->dim[0], f->dim[1], groups, f->dim[3] / groups);
    const char *filter =
        tf_2(w, "Reshape", IN(1), writer_ints(w, &by_channel), TF_ATTRS(TYPE, T_T("Tshape", SHOAL_I64)));
    give(w, n, convolve(w, n, "DepthwiseConv2dNative", IN(0), filter, &o));
  } else if (groups > 1) {
    grouped(w, n, &o, groups);
  } else {
    give(w, n, convolve(w, n, "Conv2D", IN(0), IN(1), &o));
  }
}

/* The gradient of a convolution whose result has x's size. */
void tf_conv2d_transpose(graph_writer *w, const node *n) {
  const window o = window_of(n, &n->out[0].shape);
  if (n->attr[CONV_GROUPS].i != 1) {
    writer_fail(w,
                status_make(SHOAL_ERR_ARGUMENT, "'%s': TensorFlow has no transposed convolution with groups", n->name));
    return;
  }
  give(w, n,
       tf_3(w, "Conv2DBackpropInput", tf_shape(w, &n->out[0].shape, n->in[0]), IN(1), IN(0),
            TF_ATTRS(TYPE, T_L("strides", 4, o.strides), T_L("dilations", 4, o.dilations),
                     T_S("padding", o.padding.name), explicit_of(&o.padding), T_S("data_format", "NHWC"))));
}

static void write_pool(graph_writer *w, const node *n, const char *op) {
  const int64_t size[4] = {1, n->attr[0].i, n->attr[1].i, 1}, strides[4] = {1, n->attr[2].i, n->attr[3].i, 1};
  const padding p = padding_of(&n->in[0]->shape, n->attr + 4, size + 1, strides + 1);
  if (*p.name == 'E' && *op == 'A') {
    writer_fail(w, status_make(SHOAL_ERR_ARGUMENT, "'%s': TensorFlow's AvgPool has the paddings valid and same alone",
                               n->name));
    return;
  }
  give(w, n,
       tf_1(w, op, IN(0),
            TF_ATTRS(TYPE, T_L("ksize", 4, size), T_L("strides", 4, strides), T_S("padding", p.name), explicit_of(&p),
                     T_S("data_format", "NHWC"))));
}
void tf_max_pool(graph_writer *w, const node *n) { write_pool(w, n, "MaxPool"); }
void tf_avg_pool(graph_writer *w, const node *n) { write_pool(w, n, "AvgPool"); }

/* ---- recurrent layers */

static const char *step_one(graph_writer *w, const char *op, const char *x) {
  return tf_1(w, op, x, TF_ATTRS(T_T("T", SHOAL_F32)));
}
static const char *step_two(graph_writer *w, const char *op, const char *a, const char *b) {
  return tf_2(w, op, a, b, TF_ATTRS(T_T("T", SHOAL_F32)));
}
static const char *step_at(graph_writer *w, const char *x, shoal_dtype dtype, int64_t t) {
  return tf_3(w, "GatherV2", x, writer_scalar(w, SHOAL_I32, (double)t), writer_scalar(w, SHOAL_I32, 1),
              TF_ATTRS(T_T("Tparams", dtype), T_T("Tindices", SHOAL_I32), T_T("Taxis", SHOAL_I32)));
}
static void step_split(graph_writer *w, const char *x, int parts, const char **out) {
  const char *all =
      tf_2(w, "Split", writer_scalar(w, SHOAL_I32, 1), x, TF_ATTRS(T_T("T", SHOAL_F32), T_I("num_split", parts)));
  for (int i = 0; i < parts; i++) out[i] = tf_output(w, all, i);
}
static const char *step_expand(graph_writer *w, const char *x, shoal_dtype dtype) {
  return tf_2(w, "ExpandDims", x, writer_scalar(w, SHOAL_I32, 1), TF_ATTRS(T_T("T", dtype), T_T("Tdim", SHOAL_I32)));
}
static const char *step_where(graph_writer *w, const char *c, const char *a, const char *b) {
  return tf_3(w, "SelectV2", c, a, b, TF_ATTRS(T_T("T", SHOAL_F32)));
}
static const char *step_concat(graph_writer *w, const char **all, int n) {
  const char **in = calloc((size_t)n + 1, sizeof *in);
  if (!in) {
    writer_fail(w, status_no_memory());
    return "";
  }
  for (int i = 0; i < n; i++) in[i] = all[i];
  in[n] = writer_scalar(w, SHOAL_I32, 1);
  const char *y = tf_emit(w, "ConcatV2", in, n + 1, TF_ATTRS(T_T("T", SHOAL_F32), T_I("N", n), T_T("Tidx", SHOAL_I32)));
  free(in);
  return y;
}
static const step_format in_steps = {step_one, step_two, step_at, step_split, step_expand, step_where, step_concat};

void tf_rnn(graph_writer *w, const node *n) { steps_rnn(w, n, &in_steps); }
void tf_lstm(graph_writer *w, const node *n) { steps_lstm(w, n, &in_steps); }
void tf_gru(graph_writer *w, const node *n) { steps_gru(w, n, &in_steps); }
