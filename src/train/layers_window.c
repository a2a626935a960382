/* Convolutions and pools of images [batch, height, width, channels] and sequences [batch, steps, channels]. Types that end
 * in 1d take sequences, those in 2d images, all others both. */
#include "train/layer.h"

#include <string.h>

#define PLACES "[batch, height, width, channels] or [batch, steps, channels]"

/* Whether the input has as many axes as the type's name says. */
static bool takes_places(branch *b, const layer *l, const shoal_value *x) {
  const char *d = strstr(l->kind->name, "1d"), *dd = strstr(l->kind->name, "2d");
  if (d) return layer_takes(b, l, x, 3, 3, "[batch, steps, channels]");
  if (dd) return layer_takes(b, l, x, 4, 4, "[batch, height, width, channels]");
  return layer_takes(b, l, x, 3, 4, PLACES);
}

static int64_t channels_of(const shoal_value *x) { return x->shape.dim[x->shape.rank - 1]; }

/* size: the attribute with the window's. */
static shoal_window window_of(const layer *l, const char *size) {
  shoal_window w = {0};
  layer_sizes(l, size, 1, w.size);
  layer_sizes(l, "strides", 0, w.stride);
  layer_sizes(l, "dilation_rate", 1, w.dilation);
  w.groups = layer_has(l, "groups") ? layer_int(l, "groups") : 1;
  if (layer_is(l, "padding", "same"))
    w.padding = SHOAL_SAME;
  else if (layer_is(l, "padding", "causal")) /* no step sees a later one */
    w.before[0] = (w.size[0] - 1) * w.dilation[0];
  else if (!layer_text(l, "padding"))
    layer_margins(json_object_get(l->config, "padding"), w.before, w.after);
  return w;
}

/* [size..., in, out] for x's places. */
static shoal_shape filter_shape(const shoal_window *w, const shoal_value *x, int64_t in, int64_t out) {
  return x->shape.rank == 3 ? SHOAL_SHAPE(w->size[0], in, out) : SHOAL_SHAPE(w->size[0], w->size[1], in, out);
}

static double area_of(const shoal_window *w, const shoal_value *x) {
  return (double)w->size[0] * (x->shape.rank == 3 ? 1 : (double)w->size[1]);
}

static shoal_value *conv_apply(branch *b, layer *l, layer_io *io) {
  shoal_value *x = io->x[0];
  if (!takes_places(b, l, x)) return NULL;
  const shoal_window w = window_of(l, "kernel_size");
  int64_t filters = layer_int(l, "filters"), channels = channels_of(x), in = channels / w.groups;
  if (channels % w.groups || filters % w.groups)
    return layer_refuse(b, l, "%lld channels and %lld filters cannot be cut into %lld groups", (long long)channels,
                        (long long)filters, (long long)w.groups);
  double area = area_of(&w, x);
  shoal_value *kernel = layer_kernel(b, l, "kernel", "kernel_initializer", filter_shape(&w, x, in, filters),
                                     area * (double)in, area * (double)filters / (double)w.groups);
  return layer_add_bias(b, l, shoal_convolution(b->model->graph, x, kernel, &w), filters);
}

static shoal_value *depthwise_conv_apply(branch *b, layer *l, layer_io *io) {
  shoal_value *x = io->x[0];
  if (!takes_places(b, l, x)) return NULL;
  const shoal_window w = window_of(l, "kernel_size");
  int64_t in = channels_of(x), times = layer_int(l, "depth_multiplier");
  double area = area_of(&w, x);
  shoal_value *kernel =
      layer_kernel(b, l, "kernel", "depthwise_initializer", filter_shape(&w, x, in, times), area, area * (double)times);
  return layer_add_bias(b, l, shoal_depthwise_convolution(b->model->graph, x, kernel, &w), in * times);
}

static shoal_value *separable_conv_apply(branch *b, layer *l, layer_io *io) {
  shoal_value *x = io->x[0];
  if (!takes_places(b, l, x)) return NULL;
  const shoal_window w = window_of(l, "kernel_size");
  int64_t in = channels_of(x), filters = layer_int(l, "filters"), times = layer_int(l, "depth_multiplier");
  double area = area_of(&w, x);
  int64_t between = in * times;
  shoal_shape point = x->shape.rank == 3 ? SHOAL_SHAPE(1, between, filters) : SHOAL_SHAPE(1, 1, between, filters);
  shoal_value *depthwise = layer_kernel(b, l, "depthwise", "depthwise_initializer", filter_shape(&w, x, in, times),
                                        area, area * (double)times);
  shoal_value *pointwise =
      layer_kernel(b, l, "pointwise", "pointwise_initializer", point, (double)between, (double)filters);
  return layer_add_bias(b, l, shoal_separable_convolution(b->model->graph, x, depthwise, pointwise, &w), filters);
}

/* As large as a convolution's input would be that gives x's size; without padding, where the window is smaller than the
 * stride, x's size times the stride. */
static shoal_value *transposed_conv_apply(branch *b, layer *l, layer_io *io) {
  shoal_value *x = io->x[0];
  if (!takes_places(b, l, x)) return NULL;
  shoal_window w = window_of(l, "kernel_size");
  layer_sizes(l, "output_size", 0, w.output);
  for (int a = 0; a < x->shape.rank - 2; a++) {
    int64_t stride = w.stride[a] ? w.stride[a] : 1, reach = (w.size[a] - 1) * w.dilation[a] + 1;
    if (layer_is(l, "padding", "valid") && !w.output[a] && reach < stride && x->shape.dim[1 + a] > 0)
      w.output[a] = x->shape.dim[1 + a] * stride;
  }
  int64_t filters = layer_int(l, "filters"), in = channels_of(x);
  double area = area_of(&w, x);
  shoal_value *kernel = layer_kernel(b, l, "kernel", "kernel_initializer", filter_shape(&w, x, filters / w.groups, in),
                                     area * (double)in / (double)w.groups, area * (double)filters / (double)w.groups);
  return layer_add_bias(b, l, shoal_transposed_convolution(b->model->graph, x, kernel, &w), filters);
}

/* ---- pools */

/* A type that says which by its attribute. */
static bool is_max(const layer *l) { return layer_is(l, "mode", "max"); }

static shoal_value *pooled(branch *b, layer *l, layer_io *io, shoal_pooling kind) {
  if (!takes_places(b, l, io->x[0])) return NULL;
  const shoal_window w = window_of(l, "pool_size");
  return shoal_pool(b->model->graph, io->x[0], kind, &w);
}

static shoal_value *max_pool_apply(branch *b, layer *l, layer_io *io) { return pooled(b, l, io, SHOAL_POOL_MAX); }
static shoal_value *avg_pool_apply(branch *b, layer *l, layer_io *io) { return pooled(b, l, io, SHOAL_POOL_AVG); }

static shoal_value *pool_apply(branch *b, layer *l, layer_io *io) {
  return pooled(b, l, io, is_max(l) ? SHOAL_POOL_MAX : SHOAL_POOL_AVG);
}

static shoal_value *global_max_pool_apply(branch *b, layer *l, layer_io *io) {
  if (!takes_places(b, l, io->x[0])) return NULL;
  return shoal_global_pool(b->model->graph, io->x[0], SHOAL_POOL_MAX, layer_flag(l, "keepdims"));
}

/* Of a masked sequence: over the steps that are there. */
static shoal_value *masked_mean(shoal_graph *g, shoal_value *x, shoal_value *mask, bool keep) {
  shoal_value *there = shoal_expand_dims(g, shoal_cast(g, mask, x->dtype), 2);
  shoal_value *sum = shoal_reduce_sum(g, shoal_mul(g, x, there), SHOAL_SHAPE(1), keep);
  return shoal_div(g, sum, shoal_reduce_sum(g, there, SHOAL_SHAPE(1), keep));
}

static shoal_value *global_avg_pool_apply(branch *b, layer *l, layer_io *io) {
  const bool keep = layer_flag(l, "keepdims");
  if (!takes_places(b, l, io->x[0])) return NULL;
  if (io->masks[0] && io->x[0]->shape.rank == 3) return masked_mean(b->model->graph, io->x[0], io->masks[0], keep);
  return shoal_global_pool(b->model->graph, io->x[0], SHOAL_POOL_AVG, keep);
}

static shoal_value *global_pool_apply(branch *b, layer *l, layer_io *io) {
  return is_max(l) ? global_max_pool_apply(b, l, io) : global_avg_pool_apply(b, l, io);
}

/* ---- the rows */

#define WINDOW_ATTRS                                                                                    \
  ATTR("kernel_size", SIZES, NULL), ATTR("strides", SIZES, "1"), ATTR("padding", PADDING, "\"valid\""), \
      ATTR("dilation_rate", SIZES, "1")

static const layer_attr conv_attrs[] = {
    ATTR("filters", INT, NULL, 1, 1e7),     WINDOW_ATTRS,       ATTR("groups", INT, "1", 1, 1e7),
    ATTR("activation", ACTIVATION, "null"), LAYER_KERNEL_ATTRS, {0}};
static const layer_attr depthwise_attrs[] = {WINDOW_ATTRS,
                                             ATTR("depth_multiplier", INT, "1", 1, 1e6),
                                             ATTR("activation", ACTIVATION, "null"),
                                             ATTR("use_bias", BOOL, "true"),
                                             ATTR("depthwise_initializer", INITIALIZER, "null"),
                                             ATTR("bias_initializer", INITIALIZER, "0"),
                                             {0}};
static const layer_attr separable_attrs[] = {ATTR("filters", INT, NULL, 1, 1e7),
                                             WINDOW_ATTRS,
                                             ATTR("depth_multiplier", INT, "1", 1, 1e6),
                                             ATTR("activation", ACTIVATION, "null"),
                                             ATTR("use_bias", BOOL, "true"),
                                             ATTR("depthwise_initializer", INITIALIZER, "null"),
                                             ATTR("pointwise_initializer", INITIALIZER, "null"),
                                             ATTR("bias_initializer", INITIALIZER, "0"),
                                             {0}};
static const layer_attr transposed_attrs[] = {ATTR("filters", INT, NULL, 1, 1e7),
                                              WINDOW_ATTRS,
                                              ATTR("groups", INT, "1", 1, 1e7),
                                              ATTR("output_size", SIZES, "null"),
                                              ATTR("activation", ACTIVATION, "null"),
                                              LAYER_KERNEL_ATTRS,
                                              {0}};
static const layer_attr pool_attrs[] = {
    ATTR("pool_size", SIZES, "2"), ATTR("strides", SIZES, "null"), ATTR("padding", PADDING, "\"valid\""), {0}};
static const char *const modes[] = {"max", "avg", NULL};
static const layer_attr mode_attrs[] = {ATTR("mode", CHOICE, NULL, .choices = modes),
                                        ATTR("pool_size", SIZES, "2"),
                                        ATTR("strides", SIZES, "null"),
                                        ATTR("padding", PADDING, "\"valid\""),
                                        {0}};
static const layer_attr global_mode_attrs[] = {
    ATTR("mode", CHOICE, NULL, .choices = modes), ATTR("keepdims", BOOL, "false"), {0}};
static const layer_attr global_attrs[] = {ATTR("keepdims", BOOL, "false"), {0}};

#define CONV_SUMMARY "filters over neighbouring places"
#define DEPTHWISE_SUMMARY "filters over each channel by itself"
#define SEPARABLE_SUMMARY "filters over each channel, then over all channels of a place"
#define TRANSPOSED_SUMMARY "the transpose of a convolution, which makes images larger"
#define MAX_SUMMARY "the largest of each window"
#define AVG_SUMMARY "the mean of each window"

const layer_kind layers_window[] = {
    {"conv1d", CONV_SUMMARY, conv_attrs, 1, 1, conv_apply},
    {"conv2d", CONV_SUMMARY, conv_attrs, 1, 1, conv_apply},
    {"conv", CONV_SUMMARY, conv_attrs, 1, 1, conv_apply},
    {"depthwise_conv1d", DEPTHWISE_SUMMARY, depthwise_attrs, 1, 1, depthwise_conv_apply},
    {"depthwise_conv2d", DEPTHWISE_SUMMARY, depthwise_attrs, 1, 1, depthwise_conv_apply},
    {"depthwise_conv", DEPTHWISE_SUMMARY, depthwise_attrs, 1, 1, depthwise_conv_apply},
    {"separable_conv1d", SEPARABLE_SUMMARY, separable_attrs, 1, 1, separable_conv_apply},
    {"separable_conv2d", SEPARABLE_SUMMARY, separable_attrs, 1, 1, separable_conv_apply},
    {"separable_conv", SEPARABLE_SUMMARY, separable_attrs, 1, 1, separable_conv_apply},
    {"conv1d_transpose", TRANSPOSED_SUMMARY, transposed_attrs, 1, 1, transposed_conv_apply},
    {"conv2d_transpose", TRANSPOSED_SUMMARY, transposed_attrs, 1, 1, transposed_conv_apply},
    {"transposed_conv", TRANSPOSED_SUMMARY, transposed_attrs, 1, 1, transposed_conv_apply},
    {"max_pooling1d", MAX_SUMMARY, pool_attrs, 1, 1, max_pool_apply},
    {"max_pooling2d", MAX_SUMMARY, pool_attrs, 1, 1, max_pool_apply},
    {"average_pooling1d", AVG_SUMMARY, pool_attrs, 1, 1, avg_pool_apply},
    {"average_pooling2d", AVG_SUMMARY, pool_attrs, 1, 1, avg_pool_apply},
    {"pool", "the largest or the mean of each window", mode_attrs, 1, 1, pool_apply},
    {"global_max_pooling1d", "the largest over all places", global_attrs, 1, 1, global_max_pool_apply},
    {"global_max_pooling2d", "the largest over all places", global_attrs, 1, 1, global_max_pool_apply},
    {"global_average_pooling1d", "the mean over all places", global_attrs, 1, 1, global_avg_pool_apply},
    {"global_average_pooling2d", "the mean over all places", global_attrs, 1, 1, global_avg_pool_apply},
    {"global_pool", "the largest or the mean over all places", global_mode_attrs, 1, 1, global_pool_apply},
    {0},
};
