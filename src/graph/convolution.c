/* Convolutions and pools as programs ask for them: paddings worked out, sequences taken for images of width 1. */
#include "graph/graph.h"
#include "graph/ops/util.h"
#include "graph/ops/window.h"

/* Attributes of the operators, in the order of their rows (ops/conv.c, ops/pool.c). */
enum { CONV_STRIDE, CONV_PAD_BEFORE = 2, CONV_PAD_AFTER = 4, CONV_DILATION = 6, CONV_GROUPS = 8, CONV_OUTPUT = 9 };
enum { POOL_SIZE, POOL_STRIDE = 2, POOL_PAD_BEFORE = 4, POOL_PAD_AFTER = 6 };

static void *refuse(shoal_graph *g, shoal_status status, const char *what) {
  graph_fail(g, status_wrap(status, "%s", what));
  return NULL;
}

static int64_t or_one(int64_t number) { return number ? number : 1; }

/* How far the window reaches along spatial axis a, and its padding, into pad[0] and pad[2]. */
static shoal_status choose_padding(const shoal_window *o, int a, int64_t extent, int64_t size, int64_t stride,
                                   int64_t dilation, attr_value *pad) {
  static const char *const names[] = {"height", "width"};
  pad[0].i = o->before[a];
  pad[2].i = o->after[a];
  if (o->padding != SHOAL_SAME) return NULL;
  int64_t reach = 0;
  TRY(window_reach(size, dilation, names[a], &reach));
  return window_same(extent, reach, stride, &pad[0].i, &pad[2].i);
}

/* ---- sequences [n, length, channels] as images [n, length, 1, channels] */

static bool is_sequence(const shoal_value *x) { return x && x->shape.rank == 3; }

/* Only the first of each pair counts. */
static shoal_window along_length(const shoal_window *o) {
  shoal_window one = *o;
  one.size[1] = one.stride[1] = one.dilation[1] = one.output[1] = 1;
  one.before[1] = one.after[1] = 0;
  return one;
}

static shoal_value *widen(shoal_graph *g, shoal_value *x, int axis) { return x ? shoal_expand_dims(g, x, axis) : NULL; }
static shoal_value *narrow(shoal_graph *g, shoal_value *x) { return x ? shoal_squeeze(g, x, SHOAL_SHAPE(2)) : NULL; }

/* ---- convolutions */

static shoal_status conv_attrs(const shoal_window *o, const shoal_value *x, const shoal_value *filter,
                               attr_value *attr) {
  attr[CONV_GROUPS] = ATTR_I(or_one(o->groups));
  for (int a = 0; a < 2; a++) {
    int64_t stride = or_one(o->stride[a]), dilation = or_one(o->dilation[a]);
    attr[CONV_STRIDE + a] = ATTR_I(stride);
    attr[CONV_DILATION + a] = ATTR_I(dilation);
    if (x && filter && x->shape.rank == 4 && filter->shape.rank == 4)
      TRY(choose_padding(o, a, x->shape.dim[1 + a], filter->shape.dim[a], stride, dilation,
                         &attr[CONV_PAD_BEFORE + a]));
  }
  return NULL;
}

shoal_value *shoal_convolution(shoal_graph *g, shoal_value *x, shoal_value *filter, const shoal_window *o) {
  if (is_sequence(x)) {
    shoal_window one = along_length(o);
    return narrow(g, shoal_convolution(g, widen(g, x, 2), widen(g, filter, 1), &one));
  }
  attr_value attr[OP_MAX_ATTRS] = {{0}};
  shoal_status status = conv_attrs(o, x, filter, attr);
  if (status) return refuse(g, status, "conv2d");
  return graph_op(g, "conv2d", (shoal_value *[]){x, filter}, 2, attr);
}

shoal_value *shoal_conv2d(shoal_graph *g, shoal_value *x, shoal_value *filter, int stride, shoal_padding padding) {
  if (stride < 1) return refuse(g, status_make(SHOAL_ERR_ARGUMENT, "the stride is %d", stride), "conv2d");
  attr_value attr[OP_MAX_ATTRS] = {{0}};
  shoal_status status = conv_attrs(&(shoal_window){.stride = {stride, stride}, .padding = padding}, x, filter, attr);
  if (status) return refuse(g, status, "conv2d");
  return graph_op(g, "conv2d", (shoal_value *[]){x, filter}, 2, attr);
}

/* A group for each channel: filter [.., in, times] is one of [.., 1, in * times]. */
shoal_value *shoal_depthwise_convolution(shoal_graph *g, shoal_value *x, shoal_value *filter, const shoal_window *o) {
  if (!x || !filter) return NULL;
  int rank = filter->shape.rank;
  shoal_window each = *o;
  shoal_shape shape = filter->shape;
  char a[VALUE_TEXT], b[VALUE_TEXT];
  if (rank < 3 || rank != x->shape.rank || !dims_fit(x->shape.dim[rank - 1], shape.dim[rank - 2]) ||
      shoal_shape_count(&shape) == SHOAL_UNKNOWN)
    return refuse(g,
                  status_make(SHOAL_ERR_ARGUMENT, "filter %s must have as many channels as x %s", value_text(filter, a),
                              value_text(x, b)),
                  "depthwise convolution");
  each.groups = shape.dim[rank - 2];
  shape.dim[rank - 1] *= shape.dim[rank - 2];
  shape.dim[rank - 2] = 1;
  return shoal_convolution(g, x, shoal_reshape(g, filter, shape), &each);
}

shoal_value *shoal_separable_convolution(shoal_graph *g, shoal_value *x, shoal_value *depthwise, shoal_value *pointwise,
                                         const shoal_window *o) {
  return shoal_convolution(g, shoal_depthwise_convolution(g, x, depthwise, o), pointwise, &(shoal_window){0});
}

/* With SHOAL_SAME the result is the input's size times the stride, unless another is asked for. */
shoal_value *shoal_transposed_convolution(shoal_graph *g, shoal_value *x, shoal_value *filter, const shoal_window *o) {
  if (is_sequence(x)) {
    shoal_window one = along_length(o);
    one.output[1] = o->output[0] ? 1 : 0;
    return narrow(g, shoal_transposed_convolution(g, widen(g, x, 2), widen(g, filter, 1), &one));
  }
  attr_value attr[OP_MAX_ATTRS] = {[CONV_GROUPS] = ATTR_I(or_one(o->groups))};
  shoal_shape output = SHOAL_SHAPE(o->output[0], o->output[1]);
  bool images = x && filter && x->shape.rank == 4 && filter->shape.rank == 4;
  for (int a = 0; a < 2; a++) {
    int64_t stride = or_one(o->stride[a]), dilation = or_one(o->dilation[a]);
    int64_t extent = images ? x->shape.dim[1 + a] : SHOAL_UNKNOWN;
    if (o->padding == SHOAL_SAME && !output.dim[a] && extent > 0) output.dim[a] = count_times(extent, stride);
    attr[CONV_STRIDE + a] = ATTR_I(stride);
    attr[CONV_DILATION + a] = ATTR_I(dilation);
    shoal_status status =
        images ? choose_padding(o, a, output.dim[a], filter->shape.dim[a], stride, dilation, &attr[CONV_PAD_BEFORE + a])
               : NULL;
    if (status) return refuse(g, status, "conv2d_transpose");
  }
  if (output.dim[0] || output.dim[1]) attr[CONV_OUTPUT] = ATTR_L(output);
  return graph_op(g, "conv2d_transpose", (shoal_value *[]){x, filter}, 2, attr);
}

/* ---- pools */

shoal_value *shoal_pool(shoal_graph *g, shoal_value *x, shoal_pooling kind, const shoal_window *o) {
  const char *op = kind == SHOAL_POOL_MAX ? "max_pool" : "avg_pool";
  if (is_sequence(x)) {
    shoal_window one = along_length(o);
    return narrow(g, shoal_pool(g, widen(g, x, 2), kind, &one));
  }
  attr_value attr[OP_MAX_ATTRS] = {{0}};
  for (int a = 0; a < 2; a++) {
    int64_t size = o->size[a], stride = o->stride[a] ? o->stride[a] : size;
    attr[POOL_SIZE + a] = ATTR_I(size);
    attr[POOL_STRIDE + a] = ATTR_I(stride);
    shoal_status status = NULL;
    if (x && x->shape.rank == 4)
      status = choose_padding(o, a, x->shape.dim[1 + a], size, stride, 1, &attr[POOL_PAD_BEFORE + a]);
    if (status) return refuse(g, status, op);
  }
  return graph_op(g, op, &x, 1, attr);
}

static shoal_value *square_pool(shoal_graph *g, shoal_value *x, shoal_pooling kind, int size, int stride,
                                shoal_padding padding) {
  if (stride < 1) return refuse(g, status_make(SHOAL_ERR_ARGUMENT, "the stride is %d", stride), "pool");
  return shoal_pool(g, x, kind, &(shoal_window){.size = {size, size}, .stride = {stride, stride}, .padding = padding});
}

shoal_value *shoal_max_pool(shoal_graph *g, shoal_value *x, int size, int stride, shoal_padding padding) {
  return square_pool(g, x, SHOAL_POOL_MAX, size, stride, padding);
}

shoal_value *shoal_avg_pool(shoal_graph *g, shoal_value *x, int size, int stride, shoal_padding padding) {
  return square_pool(g, x, SHOAL_POOL_AVG, size, stride, padding);
}

shoal_value *shoal_global_pool(shoal_graph *g, shoal_value *x, shoal_pooling kind, bool keep) {
  if (!x) return NULL;
  shoal_shape axes = {0};
  for (int i = 1; i < x->shape.rank - 1; i++) axes.dim[axes.rank++] = i;
  if (!axes.rank)
    return refuse(g, status_make(SHOAL_ERR_ARGUMENT, "[batch, ..., channels] with places in between is expected"),
                  "global pool");
  return kind == SHOAL_POOL_MAX ? shoal_reduce_max(g, x, axes, keep) : shoal_reduce_mean(g, x, axes, keep);
}

/* ---- sizes of images */

shoal_value *shoal_upsample(shoal_graph *g, shoal_value *x, int64_t times_high, int64_t times_wide, bool bilinear) {
  if (!x) return NULL;
  if (!bilinear || x->shape.rank != 4) return shoal_repeat(g, x, SHOAL_SHAPE(1, times_high, times_wide, 1));
  int64_t height = x->shape.dim[1], width = x->shape.dim[2];
  if (height == SHOAL_UNKNOWN || width == SHOAL_UNKNOWN || times_high < 1 || times_wide < 1)
    return refuse(g, status_make(SHOAL_ERR_ARGUMENT, "images of known size, and factors of at least 1, are expected"),
                  "upsample");
  return shoal_resize_bilinear(g, x, count_times(height, times_high), count_times(width, times_wide), false);
}

shoal_value *shoal_crop(shoal_graph *g, shoal_value *x, const shoal_window *o) {
  if (!x) return NULL;
  int rank = x->shape.rank;
  if (rank < 3 || rank > 4)
    return refuse(g, status_make(SHOAL_ERR_ARGUMENT, "images or sequences are expected"), "crop");
  shoal_shape start = {.rank = rank}, stop = {.rank = rank}, step = {.rank = rank};
  for (int i = 0; i < rank; i++) {
    bool spatial = i >= 1 && i < rank - 1;
    start.dim[i] = spatial ? o->before[i - 1] : 0;
    stop.dim[i] = spatial && o->after[i - 1] ? -o->after[i - 1] : SHOAL_END;
    step.dim[i] = 1;
  }
  return shoal_strided_slice(g, x, start, stop, step);
}
