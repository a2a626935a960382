/* Layers that normalise: over the batch, with moving averages for afterwards, or each example by itself. */
#include "base/mem.h"
#include "train/layer.h"

static shoal_shape channels_of(const shoal_value *x) { return SHOAL_SHAPE(x->shape.dim[x->shape.rank - 1]); }

static shoal_value *scale_of(branch *b, layer *l, shoal_shape shape) {
  return layer_flag(l, "scale") ? layer_filled(b, l, "gamma", shape, 1) : NULL;
}

static shoal_value *offset_of(branch *b, layer *l, shoal_shape shape) {
  return layer_flag(l, "center") ? layer_filled(b, l, "beta", shape, 0) : NULL;
}

/* A training step moves `average` a little towards `now`. */
static void follow(branch *b, layer *l, shoal_value *average, shoal_value *now) {
  shoal_graph *g = b->model->graph;
  layer_change(b, average, shoal_scale(g, shoal_sub(g, now, average), 1 - layer_number(l, "momentum")));
}

static shoal_value *batch_norm_apply(branch *b, layer *l, layer_io *io) {
  shoal_graph *g = b->model->graph;
  shoal_value *x = io->x[0];
  const double epsilon = layer_number(l, "epsilon");
  shoal_shape channels = channels_of(x);
  shoal_value *gamma = scale_of(b, l, channels), *beta = offset_of(b, l, channels);
  shoal_value *mean = layer_state(b, l, "moving_mean", channels, 0);
  shoal_value *variance = layer_state(b, l, "moving_variance", channels, 1);
  if (!gamma) gamma = shoal_fill(g, SHOAL_F32, channels, 1);
  if (!beta) beta = shoal_fill(g, SHOAL_F32, channels, 0);
  if (b->training && !l->frozen) {
    shoal_value *y = shoal_batch_norm(g, x, gamma, beta, epsilon);
    if (!y) return NULL;
    follow(b, l, mean, shoal_value_output(y, 1));
    follow(b, l, variance, shoal_value_output(y, 2));
    return y;
  }
  /* gamma (x - mean) / sqrt(variance + epsilon) + beta, as one product and one sum for each element */
  shoal_value *deviation = shoal_sqrt(g, shoal_add(g, variance, shoal_scalar(g, SHOAL_F32, epsilon)));
  shoal_value *factor = shoal_div(g, gamma, deviation);
  shoal_value *shift = shoal_sub(g, beta, shoal_mul(g, mean, factor));
  return shoal_add(g, shoal_mul(g, x, factor), shift);
}

/* Over the last axes: axis is the first of them, or all of them. */
static shoal_value *layer_norm_apply(branch *b, layer *l, layer_io *io) {
  shoal_value *x = io->x[0];
  shoal_shape axes = layer_shape(l, "axis");
  int n = axes.rank, rank = x->shape.rank;
  for (int i = 0; i < n; i++) {
    const int64_t axis = axes.dim[i] < 0 ? axes.dim[i] + rank : axes.dim[i];
    if (axis != rank - n + i) return layer_refuse(b, l, "axis: only the last axes can be normalised, in their order");
  }
  if (n >= rank) return layer_refuse(b, l, "axis: the batch cannot be normalised");
  shoal_shape over = shoal_shape_make(n, x->shape.dim + rank - n);
  shoal_value *gamma = scale_of(b, l, over), *beta = offset_of(b, l, over);
  return shoal_layer_norm(b->model->graph, x, n, gamma, beta, layer_number(l, "epsilon"));
}

static shoal_value *rms_norm_apply(branch *b, layer *l, layer_io *io) {
  shoal_value *gamma = layer_filled(b, l, "gamma", channels_of(io->x[0]), 1);
  return shoal_rms_norm(b->model->graph, io->x[0], gamma, layer_number(l, "epsilon"));
}

static shoal_value *group_norm_apply(branch *b, layer *l, layer_io *io) {
  shoal_value *x = io->x[0];
  shoal_shape channels = channels_of(x);
  int64_t groups = layer_int(l, "groups");
  if (groups == -1) groups = channels.dim[0]; /* instance norm */
  if (groups < 1 || channels.dim[0] % groups)
    return layer_refuse(b, l, "%lld channels cannot be cut into %lld groups", (long long)channels.dim[0],
                        (long long)groups);
  shoal_value *gamma = scale_of(b, l, channels), *beta = offset_of(b, l, channels);
  return shoal_group_norm(b->model->graph, x, groups, gamma, beta, layer_number(l, "epsilon"));
}

/* To the length 1 along the axes. */
static shoal_value *unit_norm_apply(branch *b, layer *l, layer_io *io) {
  shoal_graph *g = b->model->graph;
  shoal_value *x = io->x[0];
  shoal_shape axes = layer_shape(l, "axis");
  for (int i = 0; i < axes.rank; i++) axes.dim[i] += axes.dim[i] < 0 ? x->shape.rank : 0;
  shoal_value *square = shoal_reduce_sum(g, shoal_square(g, x), axes, true);
  return shoal_mul(g, x, shoal_rsqrt(g, shoal_maximum(g, square, shoal_scalar(g, SHOAL_F32, 1e-12))));
}

/* ---- numbers known beforehand */

static shoal_value *rescaling_apply(branch *b, layer *l, layer_io *io) {
  shoal_graph *g = b->model->graph;
  shoal_value *y = shoal_scale(g, io->x[0], layer_number(l, "scale"));
  const double offset = layer_number(l, "offset");
  return offset == 0 ? y : shoal_add(g, y, shoal_scalar(g, SHOAL_F32, offset));
}

/* Numbers of an attribute as a constant: one, or one for each channel. */
static shoal_value *constant_of(branch *b, layer *l, const char *name, double standard, int64_t channels) {
  shoal_graph *g = b->model->graph;
  if (!layer_has(l, name)) return shoal_scalar(g, SHOAL_F32, standard);
  const json_t *list = json_object_get(l->config, name);
  const size_t n = layer_numbers(list, NULL, 0);
  if (n == 1) {
    float one;
    layer_numbers(list, &one, 1);
    return shoal_scalar(g, SHOAL_F32, (double)one);
  }
  if ((int64_t)n != channels)
    return layer_refuse(b, l, "%s has %zu numbers, its input %lld channels", name, n, (long long)channels);
  shoal_tensor t;
  shoal_status status = shoal_tensor_create(SHOAL_F32, SHOAL_SHAPE(channels), &t);
  if (status) {
    graph_fail(g, status);
    return NULL;
  }
  layer_numbers(list, t.data, n);
  shoal_value *v = shoal_constant(g, &t);
  shoal_tensor_fini(&t);
  return v;
}

/* (x - mean) / sqrt(variance), with statistics of the training rows. */
static shoal_value *normalization_apply(branch *b, layer *l, layer_io *io) {
  shoal_graph *g = b->model->graph;
  shoal_value *x = io->x[0];
  const int64_t channels = x->shape.dim[x->shape.rank - 1];
  if (!layer_has(l, "mean") && !layer_has(l, "variance"))
    return layer_refuse(b, l,
                        "it has neither mean nor variance: give them, or leave it out and train with --transform "
                        "standardise, which learns both from the training rows");
  shoal_value *mean = constant_of(b, l, "mean", 0, channels), *variance = constant_of(b, l, "variance", 1, channels);
  shoal_value *deviation = shoal_maximum(g, shoal_sqrt(g, variance), shoal_scalar(g, SHOAL_F32, 1e-7));
  if (layer_flag(l, "invert")) return shoal_add(g, shoal_mul(g, x, deviation), mean);
  return shoal_div(g, shoal_sub(g, x, mean), deviation);
}

/* ---- the rows */

static const layer_attr batch_attrs[] = {ATTR("momentum", NUMBER, "0.99", 0, 1),
                                         ATTR("epsilon", NUMBER, "0.001", 1e-12, 1e6),
                                         ATTR("center", BOOL, "true"),
                                         ATTR("scale", BOOL, "true"),
                                         {0}};
static const layer_attr layer_attrs[] = {ATTR("axis", AXES, "-1"),
                                         ATTR("epsilon", NUMBER, "0.001", 1e-12, 1e6),
                                         ATTR("center", BOOL, "true"),
                                         ATTR("scale", BOOL, "true"),
                                         {0}};
static const layer_attr rms_attrs[] = {ATTR("epsilon", NUMBER, "1e-6", 1e-12, 1e6), {0}};
static const layer_attr group_attrs[] = {ATTR("groups", INT, "32", -1, 1e7),
                                         ATTR("epsilon", NUMBER, "0.001", 1e-12, 1e6),
                                         ATTR("center", BOOL, "true"),
                                         ATTR("scale", BOOL, "true"),
                                         {0}};
static const layer_attr unit_attrs[] = {ATTR("axis", AXES, "-1"), {0}};
static const layer_attr rescaling_attrs[] = {ATTR("scale", NUMBER, NULL), ATTR("offset", NUMBER, "0"), {0}};
static const layer_attr normalization_attrs[] = {
    ATTR("mean", NUMBERS, "null"), ATTR("variance", NUMBERS, "null"), ATTR("invert", BOOL, "false"), {0}};

const layer_kind layers_norm[] = {
    {"batch_normalization", "over the batch; by moving averages afterwards", batch_attrs, 1, 1, batch_norm_apply},
    {"layer_normalization", "each place over its channels", layer_attrs, 1, 1, layer_norm_apply},
    {"rms_normalization", "by the root of the mean square of the channels", rms_attrs, 1, 1, rms_norm_apply},
    {"group_normalization", "each example over groups of channels; groups -1: instance norm", group_attrs, 1, 1,
     group_norm_apply},
    {"unit_normalization", "to the length 1", unit_attrs, 1, 1, unit_norm_apply},
    {"rescaling", "times a number, plus another", rescaling_attrs, 1, 1, rescaling_apply},
    {"normalization", "by given means and variances", normalization_attrs, 1, 1, normalization_apply},
    {0},
};
