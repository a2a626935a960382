/* The table of ONNX's operators, by what does the same here. */
#include "base/mem.h"
#include "exchange/graph_reader.h"
#include "exchange/onnx.h"

#include <math.h>
#include <string.h>

static shoal_status one(graph_reader *r, const reader_node *n, shoal_value **x) { return reader_input(r, n, 0, x); }
static shoal_status give(graph_reader *r, const reader_node *n, shoal_value *value) {
  return reader_give(r, n, 0, value);
}

static int64_t positive_axis(int64_t axis, int rank) { return axis < 0 ? axis + rank : axis; }
static shoal_status check_axis(int64_t axis, int rank, int *out) {
  axis = positive_axis(axis, rank);
  if (axis < 0 || axis >= rank) return reader_wrong("axis %lld of %d axes", (long long)axis, rank);
  *out = (int)axis;
  return NULL;
}

/* ---- images: [batch, channels, ...] there, [batch, ..., channels] here */

static shoal_shape first_to_last(int rank) {
  shoal_shape order = {.rank = rank};
  for (int i = 1; i < rank; i++) order.dim[i] = i == rank - 1 ? 1 : i + 1;
  return order;
}
static shoal_shape last_to_first(int rank) {
  shoal_shape order = {.rank = rank};
  for (int i = 1; i < rank; i++) order.dim[i] = i == 1 ? rank - 1 : i - 1;
  return order;
}
/* Two transposes that undo each other are none. */
static shoal_value *channels_last(graph_reader *r, shoal_value *x) {
  const shoal_shape back = last_to_first(x->shape.rank);
  if (!strcmp(x->maker->op->name, "transpose") && shoal_shape_equal(&x->maker->attr[0].list, &back))
    return x->maker->in[0];
  return shoal_transpose(r->graph, x, first_to_last(x->shape.rank));
}
static shoal_value *channels_first(graph_reader *r, shoal_value *x) {
  return x ? shoal_transpose(r->graph, x, last_to_first(x->shape.rank)) : NULL;
}

/* Strides, dilations and paddings of a node over images or sequences. */
static shoal_status read_window(const reader_node *n, const shoal_value *x, shoal_window *out) {
  const int axes = x->shape.rank - 2;
  shoal_shape list;
  shoal_window o = {.groups = reader_int_of(n, "group", 1), .padding = SHOAL_VALID};
  if (axes < 1 || axes > 2) return reader_wrong("only images and sequences are supported, not %d axes", axes);
  const char *automatic = reader_text_of(n, "auto_pad");
  if (automatic && !strcmp(automatic, "SAME_UPPER"))
    o.padding = SHOAL_SAME;
  else if (automatic && strcmp(automatic, "NOTSET") && strcmp(automatic, "VALID"))
    return reader_wrong("auto_pad %s is not supported", automatic);
  for (int a = 0; a < 2; a++) o.stride[a] = o.dilation[a] = 1;
  const struct {
    const char *name;
    int64_t *to;
  } lists[] = {{"kernel_shape", o.size}, {"strides", o.stride}, {"dilations", o.dilation}};
  for (size_t i = 0; i < COUNT_OF(lists); i++)
    if (reader_list_of(n, lists[i].name, &list)) {
      if (list.rank != axes) return reader_wrong("%s needs %d numbers", lists[i].name, axes);
      for (int a = 0; a < axes; a++) lists[i].to[a] = list.dim[a];
    }
  if (reader_list_of(n, "pads", &list) && o.padding != SHOAL_SAME) {
    if (list.rank != 2 * axes) return reader_wrong("pads needs %d numbers", 2 * axes);
    for (int a = 0; a < axes; a++) {
      o.before[a] = list.dim[a];
      o.after[a] = list.dim[axes + a];
    }
  }
  *out = o;
  return NULL;
}

/* [out, in, ...] as [..., in, out], and so for transposed ones. */
static shoal_value *filter_here(graph_reader *r, shoal_value *f) {
  shoal_shape order = {.rank = f->shape.rank};
  for (int i = 0; i < order.rank - 2; i++) order.dim[i] = i + 2;
  order.dim[order.rank - 2] = 1;
  order.dim[order.rank - 1] = 0;
  return shoal_transpose(r->graph, f, order);
}

static shoal_status convolution(graph_reader *r, const reader_node *n, bool transposed) {
  shoal_value *x, *f, *bias = NULL, *y;
  shoal_window o;
  shoal_shape list;
  TRY(one(r, n, &x));
  TRY(reader_input(r, n, 1, &f));
  if (f->shape.rank != x->shape.rank)
    return reader_wrong("the filter has %d axes, x has %d", f->shape.rank, x->shape.rank);
  TRY(read_window(n, x, &o));
  if (reader_has(n, 2)) TRY(reader_input(r, n, 2, &bias));
  if (transposed) {
    shoal_shape more = {0};
    reader_list_of(n, "output_padding", &more);
    for (int a = 0; a < x->shape.rank - 2; a++)
      o.output[a] = o.stride[a] * (x->shape.dim[2 + a] - 1) + (f->shape.dim[2 + a] - 1) * o.dilation[a] + 1 -
                    o.before[a] - o.after[a] + (a < more.rank ? more.dim[a] : 0);
    if (reader_list_of(n, "output_shape", &list)) return reader_wrong("output_shape is not supported: use pads");
    y = shoal_transposed_convolution(r->graph, channels_last(r, x), filter_here(r, f), &o);
  } else {
    y = shoal_convolution(r->graph, channels_last(r, x), filter_here(r, f), &o);
  }
  if (bias) y = shoal_bias_add(r->graph, y, bias);
  return give(r, n, channels_first(r, y));
}
static shoal_status conv(graph_reader *r, const reader_node *n) { return convolution(r, n, false); }
static shoal_status conv_transpose(graph_reader *r, const reader_node *n) { return convolution(r, n, true); }

static shoal_status pooling(graph_reader *r, const reader_node *n, shoal_pooling kind) {
  shoal_value *x;
  shoal_window o;
  TRY(one(r, n, &x));
  TRY(read_window(n, x, &o));
  const bool padded = o.before[0] || o.before[1] || o.after[0] || o.after[1];
  if (reader_int_of(n, "ceil_mode", 0) || o.dilation[0] != 1 || o.dilation[1] != 1 ||
      (kind == SHOAL_POOL_AVG && padded && reader_int_of(n, "count_include_pad", 0)))
    return reader_wrong("ceil_mode, dilations and count_include_pad are not supported");
  return give(r, n, channels_first(r, shoal_pool(r->graph, channels_last(r, x), kind, &o)));
}
static shoal_status max_pool(graph_reader *r, const reader_node *n) { return pooling(r, n, SHOAL_POOL_MAX); }
static shoal_status average_pool(graph_reader *r, const reader_node *n) { return pooling(r, n, SHOAL_POOL_AVG); }

static shoal_status global_pool(graph_reader *r, const reader_node *n) {
  shoal_value *x;
  TRY(one(r, n, &x));
  shoal_shape axes = {.rank = x->shape.rank - 2};
  for (int i = 0; i < axes.rank; i++) axes.dim[i] = i + 2;
  return give(r, n,
              !strcmp(n->op, "GlobalMaxPool") ? shoal_reduce_max(r->graph, x, axes, true)
                                              : shoal_reduce_mean(r->graph, x, axes, true));
}

/* Bilinear, by constant sizes or scales. */
static shoal_status resize(graph_reader *r, const reader_node *n) {
  shoal_value *x;
  const shoal_tensor *t;
  const char *mode = reader_text_of(n, "mode"), *places = reader_text_of(n, "coordinate_transformation_mode");
  const bool corners = places && !strcmp(places, "align_corners"), sizes = reader_has(n, 3);
  TRY(one(r, n, &x));
  TRY(reader_numbers(r, n, sizes ? 3 : 2, &t));
  if (!mode || strcmp(mode, "linear") || x->shape.rank != 4 || shoal_tensor_count(t) != 4 ||
      (places && !corners && strcmp(places, "half_pixel")))
    return reader_wrong("images in mode linear, by half_pixel or align_corners, are expected");
  int64_t to[2];
  for (int a = 0; a < 2; a++) {
    const double number = shoal_tensor_get(t, 2 + a) * (sizes ? 1 : (double)x->shape.dim[2 + a]);
    if (!(number >= 1 && number < 1e6)) return reader_wrong("a size of %g", number);
    to[a] = (int64_t)(number + 1e-3);
  }
  return give(r, n, channels_first(r, shoal_resize_bilinear(r->graph, channels_last(r, x), to[0], to[1], corners)));
}

/* A weight of one number a channel, for x [batch, channels, ...]. */
static shoal_status by_channel(graph_reader *r, const reader_node *n, size_t i, const shoal_value *x,
                               shoal_value **out) {
  shoal_value *w;
  TRY(i < 3 ? reader_input(r, n, i, &w) : reader_fixed_input(r, n, i, &w)); /* mean and variance stay as they are */
  shoal_shape shape = {.rank = x->shape.rank - 1};
  for (int k = 0; k < shape.rank; k++) shape.dim[k] = k ? 1 : shoal_shape_count(&w->shape);
  *out = shoal_reshape(r->graph, w, shape);
  return NULL;
}

static shoal_status batch_normalization(graph_reader *r, const reader_node *n) {
  shoal_graph *g = r->graph;
  shoal_value *x, *scale, *offset, *mean, *variance;
  TRY(one(r, n, &x));
  TRY(by_channel(r, n, 1, x, &scale));
  TRY(by_channel(r, n, 2, x, &offset));
  TRY(by_channel(r, n, 3, x, &mean));
  TRY(by_channel(r, n, 4, x, &variance));
  shoal_value *spread =
      shoal_rsqrt(g, shoal_add(g, variance, shoal_scalar(g, SHOAL_F32, reader_float_of(n, "epsilon", 1e-5))));
  shoal_value *y = shoal_mul(g, shoal_sub(g, x, mean), shoal_mul(g, scale, spread));
  return give(r, n, shoal_add(g, y, offset));
}

static shoal_status layer_normalization(graph_reader *r, const reader_node *n) {
  shoal_value *x, *scale, *offset = NULL;
  int axis;
  TRY(one(r, n, &x));
  TRY(reader_input(r, n, 1, &scale));
  if (reader_has(n, 2)) TRY(reader_input(r, n, 2, &offset));
  TRY(check_axis(reader_int_of(n, "axis", -1), x->shape.rank, &axis));
  return give(r, n,
              shoal_layer_norm(r->graph, x, x->shape.rank - axis, scale, offset, reader_float_of(n, "epsilon", 1e-5)));
}

static shoal_status lrn(graph_reader *r, const reader_node *n) {
  shoal_value *x;
  const int64_t size = reader_int_of(n, "size", 1);
  TRY(one(r, n, &x));
  if (x->shape.rank != 4 || size % 2 != 1 || size < 1 || size > 1 << 20)
    return reader_wrong("size must be odd, x an image");
  shoal_value *y =
      shoal_local_response_norm(r->graph, channels_last(r, x), (int)(size / 2), reader_float_of(n, "bias", 1),
                                reader_float_of(n, "alpha", 1e-4) / (double)size, reader_float_of(n, "beta", 0.75));
  return give(r, n, channels_first(r, y));
}

/* ---- element by element */

static shoal_status chained(graph_reader *r, const reader_node *n,
                            shoal_value *(*two)(shoal_graph *, shoal_value *, shoal_value *)) {
  shoal_value *y, *next;
  TRY(one(r, n, &y));
  for (size_t i = 1; i < n->n_inputs; i++) {
    TRY(reader_input(r, n, i, &next));
    y = two(r->graph, y, next);
  }
  return give(r, n, y);
}

static shoal_status clip(graph_reader *r, const reader_node *n) {
  shoal_value *x;
  const shoal_tensor *limit;
  double limits[2] = {reader_float_of(n, "min", -INFINITY), reader_float_of(n, "max", INFINITY)};
  TRY(one(r, n, &x));
  for (size_t i = 0; i < 2; i++)
    if (reader_has(n, i + 1)) {
      TRY(reader_numbers(r, n, i + 1, &limit));
      if (shoal_tensor_count(limit) < 1) return reader_wrong("a limit without a number");
      limits[i] = shoal_tensor_get(limit, 0);
    }
  for (int i = 0; i < 2; i++)
    if (!isfinite(limits[i])) limits[i] = i ? 3.4e38 : -3.4e38;
  return give(r, n, shoal_clip(r->graph, x, limits[0], limits[1]));
}

static shoal_status leaky_relu(graph_reader *r, const reader_node *n) {
  shoal_value *x;
  TRY(one(r, n, &x));
  return give(r, n, shoal_leaky_relu(r->graph, x, reader_float_of(n, "alpha", 0.01)));
}
static shoal_status elu(graph_reader *r, const reader_node *n) {
  shoal_value *x;
  TRY(one(r, n, &x));
  return give(r, n, shoal_elu(r->graph, x, reader_float_of(n, "alpha", 1)));
}
static shoal_status hard_sigmoid(graph_reader *r, const reader_node *n) {
  shoal_graph *g = r->graph;
  shoal_value *x;
  TRY(one(r, n, &x));
  shoal_value *y = shoal_add(g, shoal_scale(g, x, reader_float_of(n, "alpha", 0.2)),
                             shoal_scalar(g, SHOAL_F32, reader_float_of(n, "beta", 0.5)));
  return give(r, n, shoal_clip(g, y, 0, 1));
}
static shoal_status gelu(graph_reader *r, const reader_node *n) {
  shoal_value *x;
  const char *how = reader_text_of(n, "approximate");
  TRY(one(r, n, &x));
  return give(r, n, how && !strcmp(how, "tanh") ? shoal_gelu_tanh(r->graph, x) : shoal_gelu(r->graph, x));
}
static shoal_status cast(graph_reader *r, const reader_node *n) {
  shoal_value *x;
  TRY(one(r, n, &x));
  for (int t = 0; t < SHOAL_DTYPE_COUNT; t++)
    if (onnx_types[t] == reader_int_of(n, "to", 0)) return give(r, n, shoal_cast(r->graph, x, (shoal_dtype)t));
  return reader_wrong("the type %lld is not supported", (long long)reader_int_of(n, "to", 0));
}
static shoal_status where(graph_reader *r, const reader_node *n) {
  shoal_value *c, *a, *b;
  TRY(one(r, n, &c));
  TRY(reader_input(r, n, 1, &a));
  TRY(reader_input(r, n, 2, &b));
  return give(r, n, shoal_where(r->graph, c, a, b));
}

/* ---- products */

static shoal_status matmul(graph_reader *r, const reader_node *n) {
  shoal_value *a, *b;
  TRY(one(r, n, &a));
  TRY(reader_input(r, n, 1, &b));
  return give(r, n, shoal_matmul(r->graph, a, b, false, false));
}
static shoal_status gemm(graph_reader *r, const reader_node *n) {
  shoal_graph *g = r->graph;
  shoal_value *a, *b, *c;
  const double alpha = reader_float_of(n, "alpha", 1), beta = reader_float_of(n, "beta", 1);
  TRY(one(r, n, &a));
  TRY(reader_input(r, n, 1, &b));
  shoal_value *y = shoal_matmul(g, a, b, reader_int_of(n, "transA", 0) != 0, reader_int_of(n, "transB", 0) != 0);
  if (alpha != 1) y = shoal_scale(g, y, alpha);
  if (reader_has(n, 2)) {
    TRY(reader_input(r, n, 2, &c));
    y = shoal_add(g, y, beta != 1 ? shoal_scale(g, c, beta) : c);
  }
  return give(r, n, y);
}

/* ---- rows by index, shapes */

static shoal_status gather(graph_reader *r, const reader_node *n) {
  shoal_value *x, *at;
  int axis;
  TRY(one(r, n, &x));
  TRY(reader_input(r, n, 1, &at));
  TRY(check_axis(reader_int_of(n, "axis", 0), x->shape.rank, &axis));
  if (at->dtype != SHOAL_I32 && at->dtype != SHOAL_I64) at = shoal_cast(r->graph, at, SHOAL_I64);
  const reader_value *known = reader_find(r, n->inputs[1]);
  if (known->known.data && known->known.shape.rank == 0)
    return give(r, n, shoal_index(r->graph, x, axis, (int64_t)shoal_tensor_get(&known->known, 0)));
  return give(r, n, axis ? shoal_take(r->graph, x, at, axis) : shoal_gather(r->graph, x, at));
}
static shoal_status reshape(graph_reader *r, const reader_node *n) {
  shoal_value *x;
  shoal_shape shape;
  TRY(one(r, n, &x));
  TRY(reader_list(r, n, 1, &shape));
  bool open = false;
  for (int i = 0; i < shape.rank; i++) {
    if (shape.dim[i] == 0 && i < x->shape.rank) shape.dim[i] = x->shape.dim[i];
    open = open || shape.dim[i] == -1;
  }
  /* A batch of one that was written down is a batch of any size. */
  if (!open && shape.rank && x->shape.rank && x->shape.dim[0] == SHOAL_UNKNOWN) shape.dim[0] = SHOAL_UNKNOWN;
  return give(r, n, shoal_reshape(r->graph, x, shape));
}
static shoal_status flatten(graph_reader *r, const reader_node *n) {
  shoal_value *x;
  TRY(one(r, n, &x));
  if (reader_int_of(n, "axis", 1) != 1) return reader_wrong("axis must be 1");
  return give(r, n, shoal_flatten(r->graph, x));
}
/* Axes as an attribute, in older versions, or as an input. */
static shoal_status axes_of(graph_reader *r, const reader_node *n, int rank, shoal_shape *out) {
  *out = SHOAL_SCALAR;
  if (!reader_list_of(n, "axes", out) && reader_has(n, 1)) TRY(reader_list(r, n, 1, out));
  for (int i = 0; i < out->rank; i++) {
    out->dim[i] = positive_axis(out->dim[i], rank);
    if (out->dim[i] < 0 || out->dim[i] >= rank) return reader_wrong("an axis beyond the %d there are", rank);
  }
  return NULL;
}
static shoal_status unsqueeze(graph_reader *r, const reader_node *n) {
  shoal_value *x;
  shoal_shape axes;
  TRY(one(r, n, &x));
  if (!reader_list_of(n, "axes", &axes)) TRY(reader_list(r, n, 1, &axes));
  const int rank = x->shape.rank + axes.rank;
  for (int i = 0; i < axes.rank; i++) {
    int axis;
    TRY(check_axis(axes.dim[i], rank, &axis));
    x = shoal_expand_dims(r->graph, x, axis);
    TRY(shoal_graph_status(r->graph));
  }
  return give(r, n, x);
}
static shoal_status squeeze(graph_reader *r, const reader_node *n) {
  shoal_value *x;
  shoal_shape axes;
  TRY(one(r, n, &x));
  TRY(axes_of(r, n, x->shape.rank, &axes));
  return give(r, n, shoal_squeeze(r->graph, x, axes));
}
static shoal_status transpose(graph_reader *r, const reader_node *n) {
  shoal_value *x;
  shoal_shape order;
  TRY(one(r, n, &x));
  if (!reader_list_of(n, "perm", &order)) {
    order.rank = x->shape.rank;
    for (int i = 0; i < order.rank; i++) order.dim[i] = order.rank - 1 - i;
  }
  return give(r, n, shoal_transpose(r->graph, x, order));
}
static shoal_status concat(graph_reader *r, const reader_node *n) {
  shoal_value **all = calloc(n->n_inputs + 1, sizeof *all);
  shoal_status status = all && n->n_inputs ? NULL : reader_wrong("it has no inputs");
  for (size_t i = 0; i < n->n_inputs && !status; i++) status = reader_input(r, n, i, &all[i]);
  int axis;
  if (!status) status = check_axis(reader_int_of(n, "axis", 0), all[0]->shape.rank, &axis);
  if (!status) status = give(r, n, shoal_concat(r->graph, all, (int)n->n_inputs, axis));
  free(all);
  return status;
}
static shoal_status split(graph_reader *r, const reader_node *n) {
  shoal_value *x;
  int axis;
  shoal_shape sizes;
  TRY(one(r, n, &x));
  TRY(check_axis(reader_int_of(n, "axis", 0), x->shape.rank, &axis));
  if (n->n_outputs > OP_MAX_OUTPUTS) return reader_wrong("more than %d parts", OP_MAX_OUTPUTS);
  shoal_value *out[OP_MAX_OUTPUTS];
  if (reader_list_of(n, "split", &sizes) || reader_has(n, 1)) {
    if (reader_has(n, 1)) TRY(reader_list(r, n, 1, &sizes));
    if ((size_t)sizes.rank != n->n_outputs) return reader_wrong("as many sizes as outputs are expected");
    shoal_split_sizes(r->graph, x, sizes.dim, sizes.rank, axis, out);
  } else {
    shoal_value *first = shoal_split(r->graph, x, (int)n->n_outputs, axis);
    for (size_t i = 0; i < n->n_outputs; i++) out[i] = first ? shoal_value_output(first, (int)i) : NULL;
  }
  TRY(shoal_graph_status(r->graph));
  for (size_t i = 0; i < n->n_outputs; i++) TRY(reader_give(r, n, i, out[i]));
  return NULL;
}
static int64_t limited(int64_t at) { return at > SHOAL_END ? SHOAL_END : at < -SHOAL_END ? -SHOAL_END : at; }
static shoal_status slice(graph_reader *r, const reader_node *n) {
  shoal_value *x;
  shoal_shape start, stop, axes, steps = {0};
  TRY(one(r, n, &x));
  TRY(reader_list(r, n, 1, &start));
  TRY(reader_list(r, n, 2, &stop));
  if (reader_has(n, 3)) {
    TRY(reader_list(r, n, 3, &axes));
  } else {
    axes.rank = start.rank;
    for (int i = 0; i < axes.rank; i++) axes.dim[i] = i;
  }
  if (reader_has(n, 4)) TRY(reader_list(r, n, 4, &steps));
  if (start.rank != stop.rank || axes.rank != start.rank || (steps.rank && steps.rank != start.rank))
    return reader_wrong("starts, ends, axes and steps of different lengths");
  shoal_shape a = {.rank = x->shape.rank}, b = a, s = a;
  for (int i = 0; i < a.rank; i++) {
    b.dim[i] = SHOAL_END;
    s.dim[i] = 1;
  }
  for (int i = 0; i < axes.rank; i++) {
    int axis;
    TRY(check_axis(axes.dim[i], a.rank, &axis));
    a.dim[axis] = limited(start.dim[i]);
    b.dim[axis] = limited(stop.dim[i]);
    s.dim[axis] = steps.rank ? steps.dim[i] : 1;
  }
  return give(r, n, shoal_strided_slice(r->graph, x, a, b, s));
}
static shoal_status pad(graph_reader *r, const reader_node *n) {
  shoal_value *x;
  const shoal_tensor *t = NULL;
  const char *mode = reader_text_of(n, "mode");
  double value = 0;
  TRY(one(r, n, &x));
  TRY(reader_numbers(r, n, 1, &t));
  shoal_shape before = {.rank = x->shape.rank}, after = before;
  if (shoal_tensor_count(t) != 2 * before.rank || reader_has(n, 3))
    return reader_wrong("pads for each axis are expected");
  for (int i = 0; i < before.rank; i++) {
    before.dim[i] = (int64_t)shoal_tensor_get(t, i);
    after.dim[i] = (int64_t)shoal_tensor_get(t, before.rank + i);
  }
  if (reader_has(n, 2)) {
    TRY(reader_numbers(r, n, 2, &t));
    value = shoal_tensor_count(t) ? shoal_tensor_get(t, 0) : 0;
  }
  if (mode && strcmp(mode, "constant") && strcmp(mode, "reflect") && strcmp(mode, "edge"))
    return reader_wrong("the mode %s is not supported", mode);
  const shoal_pad_mode how = !mode || !strcmp(mode, "constant") ? SHOAL_PAD_CONSTANT
                             : !strcmp(mode, "reflect")         ? SHOAL_PAD_REFLECT
                                                                : SHOAL_PAD_EDGE;
  return give(r, n, shoal_pad(r->graph, x, before, after, how, value));
}
static shoal_status tile(graph_reader *r, const reader_node *n) {
  shoal_value *x;
  shoal_shape times;
  TRY(one(r, n, &x));
  TRY(reader_list(r, n, 1, &times));
  return give(r, n, shoal_tile(r->graph, x, times));
}

/* The shape of a value stands for the value itself, for those that make something as large. */
static shoal_status shape(graph_reader *r, const reader_node *n) {
  shoal_value *x;
  TRY(one(r, n, &x));
  TRY(give(r, n, shoal_identity(r->graph, x)));
  reader_find(r, n->outputs[0])->is_shape = true;
  return NULL;
}
static shoal_status expand(graph_reader *r, const reader_node *n) {
  shoal_value *x, *like;
  shoal_shape to;
  TRY(one(r, n, &x));
  const reader_value *v = reader_has(n, 1) ? reader_find(r, n->inputs[1]) : NULL;
  if (v && v->is_shape) {
    TRY(reader_input(r, n, 1, &like));
    return give(r, n, shoal_add(r->graph, shoal_fill_like(r->graph, shoal_cast(r->graph, like, x->dtype), 0), x));
  }
  TRY(reader_list(r, n, 1, &to));
  for (int i = 0; i < to.rank; i++)
    if (to.dim[i] == 1) to.dim[i] = to.rank == x->shape.rank ? -1 : 1;
  return give(r, n, shoal_broadcast_to(r->graph, x, to));
}
static shoal_status constant(graph_reader *r, const reader_node *n) {
  const shoal_tensor *t = reader_tensor_of(n, "value");
  shoal_tensor own, *into = &own;
  if (t) {
    TRY(shoal_tensor_create(t->dtype, t->shape, into));
    memcpy(own.data, t->data, shoal_tensor_bytes(t));
  } else {
    shoal_shape list;
    if (!reader_list_of(n, "value_ints", &list)) list = SHOAL_SHAPE(reader_int_of(n, "value_int", 0));
    TRY(shoal_tensor_create(SHOAL_I64, SHOAL_SHAPE(list.rank), into));
    for (int i = 0; i < list.rank; i++) shoal_tensor_set(into, i, (double)list.dim[i]);
  }
  return reader_give_constant(r, n, into);
}

/* ---- along axes */

static shoal_status reduce(graph_reader *r, const reader_node *n) {
  static const struct {
    const char *op;
    shoal_value *(*make)(shoal_graph *, shoal_value *, shoal_shape, bool);
  } kinds[] = {{"ReduceSum", shoal_reduce_sum},   {"ReduceMean", shoal_reduce_mean},
               {"ReduceMax", shoal_reduce_max},   {"ReduceMin", shoal_reduce_min},
               {"ReduceProd", shoal_reduce_prod}, {"ReduceLogSumExp", shoal_reduce_log_sum_exp}};
  shoal_value *x;
  shoal_shape axes;
  TRY(one(r, n, &x));
  TRY(axes_of(r, n, x->shape.rank, &axes));
  for (size_t i = 0; i < COUNT_OF(kinds); i++)
    if (!strcmp(kinds[i].op, n->op))
      return give(r, n, kinds[i].make(r->graph, x, axes, reader_int_of(n, "keepdims", 1) != 0));
  return reader_wrong("it is not supported");
}
static shoal_status softmax(graph_reader *r, const reader_node *n) {
  shoal_value *x;
  int axis;
  TRY(one(r, n, &x));
  TRY(check_axis(reader_int_of(n, "axis", r->opset < 13 ? 1 : -1), x->shape.rank, &axis));
  if (r->opset < 13 && axis != x->shape.rank - 1)
    return reader_wrong("before opset 13 only the last axis is supported");
  return give(
      r, n,
      !strcmp(n->op, "Softmax") ? shoal_softmax_along(r->graph, x, axis) : shoal_log_softmax_along(r->graph, x, axis));
}
static shoal_status arg_max(graph_reader *r, const reader_node *n) {
  shoal_value *x;
  int axis;
  TRY(one(r, n, &x));
  TRY(check_axis(reader_int_of(n, "axis", 0), x->shape.rank, &axis));
  shoal_value *y = shoal_argmax(r->graph, x, axis);
  return give(r, n, reader_int_of(n, "keepdims", 1) ? shoal_expand_dims(r->graph, y, axis) : y);
}
static shoal_status cumsum(graph_reader *r, const reader_node *n) {
  shoal_value *x;
  shoal_shape at;
  int axis;
  TRY(one(r, n, &x));
  TRY(reader_list(r, n, 1, &at));
  TRY(check_axis(at.rank ? at.dim[0] : 0, x->shape.rank, &axis));
  return give(
      r, n,
      shoal_cumsum(r->graph, x, axis, reader_int_of(n, "exclusive", 0) != 0, reader_int_of(n, "reverse", 0) != 0));
}
static shoal_status top_k(graph_reader *r, const reader_node *n) {
  shoal_value *x;
  shoal_shape k;
  int axis;
  TRY(one(r, n, &x));
  TRY(reader_list(r, n, 1, &k));
  TRY(check_axis(reader_int_of(n, "axis", -1), x->shape.rank, &axis));
  const bool largest = reader_int_of(n, "largest", 1) != 0;
  if (k.rank != 1 || (!largest && k.dim[0] != x->shape.dim[axis]))
    return reader_wrong("the smallest are supported as a sort of all alone");
  shoal_value *y = largest ? shoal_top_k(r->graph, x, k.dim[0], axis) : shoal_sort(r->graph, x, axis, false);
  TRY(give(r, n, y));
  return reader_give(r, n, 1, y ? shoal_value_output(y, 1) : NULL);
}
static shoal_status one_hot(graph_reader *r, const reader_node *n) {
  shoal_value *x;
  shoal_shape depth;
  const shoal_tensor *values;
  TRY(one(r, n, &x));
  TRY(reader_list(r, n, 1, &depth));
  TRY(reader_numbers(r, n, 2, &values));
  if (reader_int_of(n, "axis", -1) != -1 || depth.rank > 1 || shoal_tensor_count(values) != 2 || !depth.dim[0])
    return reader_wrong("only the last axis is supported");
  return give(r, n,
              shoal_one_hot(r->graph, x, depth.dim[0], shoal_tensor_get(values, 1), shoal_tensor_get(values, 0),
                            values->dtype));
}

/* ---- recurrent layers: [steps, batch, features] there */

/* gates side by side in our order: [1, gates x units, n] as [n, gates x units]; of biases [1, 2 x gates x units] the part
 * `part` as [gates x units]. */
static shoal_value *gates_here(graph_reader *r, shoal_value *w, int gates, const int *order, int part) {
  shoal_graph *g = r->graph;
  shoal_value *pieces[4];
  shoal_value *flat = shoal_squeeze(g, w, SHOAL_SHAPE(0));
  if (!flat) return NULL;
  const int64_t units = flat->shape.dim[0] / gates / (flat->shape.rank == 1 ? 2 : 1);
  for (int i = 0; i < gates; i++) {
    const int64_t from = ((int64_t)part * gates + order[i]) * units;
    pieces[i] = flat->shape.rank == 1 ? shoal_slice(g, flat, SHOAL_SHAPE(from), SHOAL_SHAPE(units))
                                      : shoal_slice(g, flat, SHOAL_SHAPE(from, 0), SHOAL_SHAPE(units, -1));
  }
  shoal_value *all = gates > 1 ? shoal_concat(g, pieces, gates, 0) : pieces[0];
  return flat->shape.rank == 1 ? all : shoal_transpose(g, all, SHOAL_SHAPE(1, 0));
}

static shoal_status recurrent(graph_reader *r, const reader_node *n) {
  static const int lstm[] = {0, 2, 3, 1}, gru[] = {0, 1, 2}, rnn[] = {0}; /* where ONNX has each of our gates */
  const bool is_lstm = !strcmp(n->op, "LSTM"), is_gru = !strcmp(n->op, "GRU");
  const int gates = is_lstm ? 4 : is_gru ? 3 : 1, *order = is_lstm ? lstm : is_gru ? gru : rnn;
  const char *direction = reader_text_of(n, "direction"), *activation = reader_text_of(n, "activations");
  shoal_graph *g = r->graph;
  shoal_value *x, *w, *u, *bias, *state;
  TRY(one(r, n, &x));
  TRY(reader_input(r, n, 1, &w));
  TRY(reader_input(r, n, 2, &u));
  if (w->shape.rank != 3 || u->shape.rank != 3 || w->shape.dim[0] != 1 || reader_int_of(n, "layout", 0) ||
      reader_has(n, 4) || reader_has(n, 7) || (direction && !strcmp(direction, "bidirectional")))
    return reader_wrong("one direction, no sequence_lens, no peepholes and layout 0 are expected");
  if (is_gru && !reader_int_of(n, "linear_before_reset", 0)) return reader_wrong("linear_before_reset must be 1");
  if (activation && !(gates == 1 && (!strcmp(activation, "Tanh") || !strcmp(activation, "Relu"))))
    return reader_wrong("other activations are not supported");
  shoal_recurrent o = {.w = gates_here(r, w, gates, order, 0), .u = gates_here(r, u, gates, order, 0)};
  o.reverse = direction && !strcmp(direction, "reverse");
  o.relu = activation && !strcmp(activation, "Relu");
  if (reader_has(n, 3)) {
    TRY(reader_input(r, n, 3, &bias));
    shoal_value *input = gates_here(r, bias, gates, order, 0), *inner = gates_here(r, bias, gates, order, 1);
    o.bias = is_gru ? input : shoal_add(g, input, inner);
    if (is_gru) o.inner_bias = inner;
  }
  for (size_t i = 5; i < 7; i++)
    if (reader_has(n, i)) {
      TRY(reader_input(r, n, i, &state));
      *(i == 5 ? &o.state : &o.cell) = shoal_squeeze(g, state, SHOAL_SHAPE(0));
    }
  shoal_value *rows = shoal_transpose(g, x, SHOAL_SHAPE(1, 0, 2));
  shoal_value *y = is_lstm ? shoal_lstm(g, rows, &o) : is_gru ? shoal_gru(g, rows, &o) : shoal_rnn(g, rows, &o);
  TRY(shoal_graph_status(g));
  TRY(reader_give(r, n, 0, shoal_expand_dims(g, shoal_transpose(g, y, SHOAL_SHAPE(1, 0, 2)), 1)));
  const int64_t last = o.reverse ? 0 : -1;
  TRY(reader_give(r, n, 1, shoal_expand_dims(g, shoal_index(g, y, 1, last), 0)));
  return is_lstm ? reader_give(r, n, 2, shoal_expand_dims(g, shoal_index(g, shoal_value_output(y, 1), 1, last), 0))
                 : NULL;
}

/* ---- the table */

static const struct {
  const char *op;
  shoal_value *(*unary)(shoal_graph *, shoal_value *);
  shoal_value *(*binary)(shoal_graph *, shoal_value *, shoal_value *);
  shoal_status (*read)(graph_reader *r, const reader_node *n);
} rows[] = {
    {"Add", NULL, shoal_add, NULL},
    {"Sub", NULL, shoal_sub, NULL},
    {"Mul", NULL, shoal_mul, NULL},
    {"Div", NULL, shoal_div, NULL},
    {"Pow", NULL, shoal_pow, NULL},
    {"Max", NULL, shoal_maximum, NULL},
    {"Min", NULL, shoal_minimum, NULL},
    {"Sum", NULL, shoal_add, NULL},
    {"Equal", NULL, shoal_equal, NULL},
    {"Less", NULL, shoal_less, NULL},
    {"LessOrEqual", NULL, shoal_less_equal, NULL},
    {"Greater", NULL, shoal_greater, NULL},
    {"GreaterOrEqual", NULL, shoal_greater_equal, NULL},
    {"And", NULL, shoal_logical_and, NULL},
    {"Or", NULL, shoal_logical_or, NULL},
    {"PRelu", NULL, shoal_prelu, NULL},
    {"Not", shoal_logical_not, NULL, NULL},
    {"Neg", shoal_neg, NULL, NULL},
    {"Exp", shoal_exp, NULL, NULL},
    {"Log", shoal_log, NULL, NULL},
    {"Sqrt", shoal_sqrt, NULL, NULL},
    {"Abs", shoal_abs, NULL, NULL},
    {"Sign", shoal_sign, NULL, NULL},
    {"Relu", shoal_relu, NULL, NULL},
    {"Tanh", shoal_tanh, NULL, NULL},
    {"Sigmoid", shoal_sigmoid, NULL, NULL},
    {"Erf", shoal_erf, NULL, NULL},
    {"Sin", shoal_sin, NULL, NULL},
    {"Cos", shoal_cos, NULL, NULL},
    {"Tan", shoal_tan, NULL, NULL},
    {"Atan", shoal_atan, NULL, NULL},
    {"Reciprocal", shoal_reciprocal, NULL, NULL},
    {"Floor", shoal_floor, NULL, NULL},
    {"Ceil", shoal_ceil, NULL, NULL},
    {"Round", shoal_round, NULL, NULL},
    {"Selu", shoal_selu, NULL, NULL},
    {"Softplus", shoal_softplus, NULL, NULL},
    {"Softsign", shoal_softsign, NULL, NULL},
    {"HardSwish", shoal_hard_swish, NULL, NULL},
    {"Mish", shoal_mish, NULL, NULL},
    {"Identity", shoal_identity, NULL, NULL},
    {"Dropout", shoal_identity, NULL, NULL},
    {"Clip", NULL, NULL, clip},
    {"LeakyRelu", NULL, NULL, leaky_relu},
    {"Elu", NULL, NULL, elu},
    {"HardSigmoid", NULL, NULL, hard_sigmoid},
    {"Gelu", NULL, NULL, gelu},
    {"Cast", NULL, NULL, cast},
    {"Where", NULL, NULL, where},
    {"MatMul", NULL, NULL, matmul},
    {"Gemm", NULL, NULL, gemm},
    {"Gather", NULL, NULL, gather},
    {"Reshape", NULL, NULL, reshape},
    {"Flatten", NULL, NULL, flatten},
    {"Unsqueeze", NULL, NULL, unsqueeze},
    {"Squeeze", NULL, NULL, squeeze},
    {"Transpose", NULL, NULL, transpose},
    {"Concat", NULL, NULL, concat},
    {"Split", NULL, NULL, split},
    {"Slice", NULL, NULL, slice},
    {"Pad", NULL, NULL, pad},
    {"Tile", NULL, NULL, tile},
    {"Shape", NULL, NULL, shape},
    {"Expand", NULL, NULL, expand},
    {"Constant", NULL, NULL, constant},
    {"ReduceSum", NULL, NULL, reduce},
    {"ReduceMean", NULL, NULL, reduce},
    {"ReduceMax", NULL, NULL, reduce},
    {"ReduceMin", NULL, NULL, reduce},
    {"ReduceProd", NULL, NULL, reduce},
    {"ReduceLogSumExp", NULL, NULL, reduce},
    {"Softmax", NULL, NULL, softmax},
    {"LogSoftmax", NULL, NULL, softmax},
    {"ArgMax", NULL, NULL, arg_max},
    {"CumSum", NULL, NULL, cumsum},
    {"TopK", NULL, NULL, top_k},
    {"OneHot", NULL, NULL, one_hot},
    {"Conv", NULL, NULL, conv},
    {"ConvTranspose", NULL, NULL, conv_transpose},
    {"MaxPool", NULL, NULL, max_pool},
    {"AveragePool", NULL, NULL, average_pool},
    {"GlobalAveragePool", NULL, NULL, global_pool},
    {"GlobalMaxPool", NULL, NULL, global_pool},
    {"BatchNormalization", NULL, NULL, batch_normalization},
    {"LayerNormalization", NULL, NULL, layer_normalization},
    {"LRN", NULL, NULL, lrn},
    {"Resize", NULL, NULL, resize},
    {"LSTM", NULL, NULL, recurrent},
    {"GRU", NULL, NULL, recurrent},
    {"RNN", NULL, NULL, recurrent},
};

shoal_status onnx_read_node(graph_reader *r, const reader_node *n) {
  for (size_t i = 0; i < COUNT_OF(rows); i++) {
    if (strcmp(rows[i].op, n->op)) continue;
    if (rows[i].binary) return chained(r, n, rows[i].binary);
    if (rows[i].read) return rows[i].read(r, n);
    shoal_value *x;
    TRY(one(r, n, &x));
    return give(r, n, rows[i].unary(r->graph, x));
  }
  return reader_wrong("the operator is not supported; docs/exchange.md lists those that are");
}
