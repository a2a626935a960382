/* Layers of images [batch, height, width, channels] and sequences [batch, steps, channels] that are described by a
 * shoal_window. */
#include "train/layer.h"

static bool takes_places(branch *b, const layer *l, const shoal_value *x) {
  return layer_takes(b, l, x, 3, 4, "[batch, height, width, channels] or [batch, steps, channels]");
}

/* [size..., in, out] for x's places. */
static shoal_shape filter_shape(const layer *l, const shoal_value *x, int64_t in, int64_t out) {
  const int64_t *size = l->window.size;
  return x->shape.rank == 3 ? SHOAL_SHAPE(size[0], in, out) : SHOAL_SHAPE(size[0], size[1], in, out);
}

static double area_of(const layer *l, const shoal_value *x) {
  return (double)l->window.size[0] * (x->shape.rank == 3 ? 1 : (double)l->window.size[1]);
}

static int64_t channels_of(const shoal_value *x) { return x->shape.dim[x->shape.rank - 1]; }

static shoal_value *conv_apply(branch *b, layer *l, shoal_value *x) {
  if (!takes_places(b, l, x)) return NULL;
  shoal_graph *g = b->model->graph;
  int64_t groups = l->window.groups ? l->window.groups : 1, in = channels_of(x) / groups;
  double area = area_of(l, x);
  shoal_value *kernel = layer_kernel(b, l, 0, "kernel", filter_shape(l, x, in, l->units), area * (double)in,
                                     area * l->units / (double)groups);
  return shoal_bias_add(g, shoal_convolution(g, x, kernel, &l->window), layer_bias(b, l, 1, l->units));
}

static shoal_value *depthwise_conv_apply(branch *b, layer *l, shoal_value *x) {
  if (!takes_places(b, l, x)) return NULL;
  shoal_graph *g = b->model->graph;
  int64_t in = channels_of(x);
  double area = area_of(l, x);
  shoal_value *kernel = layer_kernel(b, l, 0, "kernel", filter_shape(l, x, in, l->units), area, area * l->units);
  shoal_value *y = shoal_depthwise_convolution(g, x, kernel, &l->window);
  return shoal_bias_add(g, y, layer_bias(b, l, 1, in * l->units));
}

static shoal_value *separable_conv_apply(branch *b, layer *l, shoal_value *x) {
  if (!takes_places(b, l, x)) return NULL;
  shoal_graph *g = b->model->graph;
  int64_t in = channels_of(x);
  double area = area_of(l, x);
  shoal_shape point = x->shape.rank == 3 ? SHOAL_SHAPE(1, in, l->units) : SHOAL_SHAPE(1, 1, in, l->units);
  shoal_value *depthwise = layer_kernel(b, l, 0, "depthwise", filter_shape(l, x, in, 1), area, area);
  shoal_value *pointwise = layer_kernel(b, l, 1, "pointwise", point, (double)in, l->units);
  return shoal_bias_add(g, shoal_separable_convolution(g, x, depthwise, pointwise, &l->window),
                        layer_bias(b, l, 2, l->units));
}

static shoal_value *transposed_conv_apply(branch *b, layer *l, shoal_value *x) {
  if (!takes_places(b, l, x)) return NULL;
  shoal_graph *g = b->model->graph;
  int64_t groups = l->window.groups ? l->window.groups : 1, in = channels_of(x);
  double area = area_of(l, x);
  shoal_value *kernel = layer_kernel(b, l, 0, "kernel", filter_shape(l, x, l->units / groups, in),
                                     area * (double)in / (double)groups, area * l->units / (double)groups);
  return shoal_bias_add(g, shoal_transposed_convolution(g, x, kernel, &l->window), layer_bias(b, l, 1, l->units));
}

static shoal_value *pool_apply(branch *b, layer *l, shoal_value *x) {
  return takes_places(b, l, x) ? shoal_pool(b->model->graph, x, l->pooling, &l->window) : NULL;
}

static shoal_value *global_pool_apply(branch *b, layer *l, shoal_value *x) {
  return takes_places(b, l, x) ? shoal_global_pool(b->model->graph, x, l->pooling, false) : NULL;
}

static shoal_value *upsample_apply(branch *b, layer *l, shoal_value *x) {
  if (!layer_takes(b, l, x, 4, 4, "[batch, height, width, channels]")) return NULL;
  return shoal_upsample(b->model->graph, x, l->window.size[0], l->window.size[1], l->bilinear);
}

/* Zeros around, as l->window says. */
static shoal_value *pad_apply(branch *b, layer *l, shoal_value *x) {
  if (!takes_places(b, l, x)) return NULL;
  shoal_shape before = {.rank = x->shape.rank}, after = before;
  for (int i = 1; i < x->shape.rank - 1; i++) {
    before.dim[i] = l->window.before[i - 1];
    after.dim[i] = l->window.after[i - 1];
  }
  return shoal_pad(b->model->graph, x, before, after, SHOAL_PAD_CONSTANT, 0);
}

static shoal_value *crop_apply(branch *b, layer *l, shoal_value *x) {
  return takes_places(b, l, x) ? shoal_crop(b->model->graph, x, &l->window) : NULL;
}

static const layer_kind conv_kind = {"conv", conv_apply};
static const layer_kind depthwise_conv_kind = {"depthwise_conv", depthwise_conv_apply};
static const layer_kind separable_conv_kind = {"separable_conv", separable_conv_apply};
static const layer_kind transposed_conv_kind = {"transposed_conv", transposed_conv_apply};
static const layer_kind pool_kind = {"pool", pool_apply};
static const layer_kind global_pool_kind = {"global_pool", global_pool_apply};
static const layer_kind upsample_kind = {"upsample", upsample_apply};
static const layer_kind pad_kind = {"pad", pad_apply};
static const layer_kind crop_kind = {"crop", crop_apply};

/* ---- adding layers */

static void add_filters(shoal_model *m, const layer_kind *kind, int units, const shoal_window *o, const char *act) {
  if (layer_positive(m, kind->name, "the number of filters", units) &&
      layer_positive(m, kind->name, "size", o->size[0]))
    layer_add(m, (layer){.kind = kind, .units = units, .window = *o}, act);
}

void shoal_model_conv(shoal_model *m, int filters, const shoal_window *o, const char *act) {
  add_filters(m, &conv_kind, filters, o, act);
}

void shoal_model_depthwise_conv(shoal_model *m, int times, const shoal_window *o, const char *act) {
  add_filters(m, &depthwise_conv_kind, times, o, act);
}

void shoal_model_separable_conv(shoal_model *m, int filters, const shoal_window *o, const char *act) {
  add_filters(m, &separable_conv_kind, filters, o, act);
}

void shoal_model_transposed_conv(shoal_model *m, int filters, const shoal_window *o, const char *act) {
  add_filters(m, &transposed_conv_kind, filters, o, act);
}

void shoal_model_pool(shoal_model *m, shoal_pooling kind, const shoal_window *o) {
  if (layer_positive(m, "pool", "size", o->size[0]))
    layer_add(m, (layer){.kind = &pool_kind, .pooling = kind, .window = *o}, NULL);
}

void shoal_model_global_pool(shoal_model *m, shoal_pooling kind) {
  layer_add(m, (layer){.kind = &global_pool_kind, .pooling = kind}, NULL);
}

void shoal_model_upsample(shoal_model *m, int times_high, int times_wide, bool bilinear) {
  if (layer_positive(m, "upsample", "a factor", times_high) && layer_positive(m, "upsample", "a factor", times_wide))
    layer_add(m, (layer){.kind = &upsample_kind, .window = {.size = {times_high, times_wide}}, .bilinear = bilinear},
              NULL);
}

void shoal_model_pad(shoal_model *m, const shoal_window *o) {
  layer_add(m, (layer){.kind = &pad_kind, .window = *o}, NULL);
}

void shoal_model_crop(shoal_model *m, const shoal_window *o) {
  layer_add(m, (layer){.kind = &crop_kind, .window = *o}, NULL);
}
