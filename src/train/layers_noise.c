/* Layers that drop elements or add noise while training, and do nothing afterwards. */
#include "train/layer.h"

#include <math.h>

static shoal_value *dropout_apply(branch *b, layer *l, layer_io *io) {
  const double rate = layer_number(l, "rate");
  return b->training && rate > 0 ? shoal_dropout(b->model->graph, io->x[0], 1 - rate) : io->x[0];
}

/* Whole channels: one number for all places of a channel. */
static shoal_value *spatial_dropout_apply(branch *b, layer *l, layer_io *io) {
  shoal_graph *g = b->model->graph;
  const double rate = layer_number(l, "rate");
  shoal_value *x = io->x[0];
  if (!b->training || rate == 0) return x;
  if (!layer_takes(b, l, x, 3, 4, "[batch, height, width, channels] or [batch, steps, channels]")) return NULL;
  shoal_shape places = x->shape.rank == 3 ? SHOAL_SHAPE(1) : SHOAL_SHAPE(1, 2);
  shoal_value *one = shoal_fill_like(g, shoal_reduce_max(g, x, places, true), 1);
  return shoal_mul(g, x, shoal_dropout(g, one, 1 - rate));
}

static shoal_value *gaussian_noise_apply(branch *b, layer *l, layer_io *io) {
  shoal_graph *g = b->model->graph;
  const double stddev = layer_number(l, "stddev");
  return b->training && stddev > 0 ? shoal_add(g, io->x[0], shoal_normal_like(g, io->x[0], 0, stddev)) : io->x[0];
}

/* Times numbers around 1, spread as those of a dropout would be. */
static shoal_value *gaussian_dropout_apply(branch *b, layer *l, layer_io *io) {
  shoal_graph *g = b->model->graph;
  const double rate = layer_number(l, "rate");
  if (!b->training || rate == 0) return io->x[0];
  return shoal_mul(g, io->x[0], shoal_normal_like(g, io->x[0], 1, sqrt(rate / (1 - rate))));
}

/* Dropped elements become what selu tends to far below 0; mean and spread stay as they were. */
static shoal_value *alpha_dropout_apply(branch *b, layer *l, layer_io *io) {
  static const double lowest = -1.7580993408473766; /* of selu */
  shoal_graph *g = b->model->graph;
  const double rate = layer_number(l, "rate");
  if (!b->training || rate == 0) return io->x[0];
  const double factor = 1 / sqrt((1 - rate) * (1 + rate * lowest * lowest)), offset = -factor * lowest * rate;
  shoal_value *kept = shoal_scale(g, shoal_dropout(g, shoal_fill_like(g, io->x[0], 1), 1 - rate), 1 - rate);
  /* factor (x kept + lowest (1 - kept)) + offset */
  shoal_value *sum = shoal_add(g, shoal_mul(g, io->x[0], kept), shoal_scale(g, kept, -lowest));
  return shoal_add(g, shoal_scale(g, sum, factor), shoal_scalar(g, SHOAL_F32, offset + factor * lowest));
}

static const layer_attr noise_attrs[] = {ATTR("stddev", NUMBER, NULL, 0, 1e30), {0}};
static const layer_attr rate_attrs[] = {ATTR("rate", NUMBER, NULL, 0, 0.999999), {0}};

const layer_kind layers_noise[] = {
    {"dropout", "drops elements while training", rate_attrs, 1, 1, dropout_apply},
    {"spatial_dropout1d", "drops whole channels while training", rate_attrs, 1, 1, spatial_dropout_apply},
    {"gaussian_noise", "adds normally distributed numbers while training", noise_attrs, 1, 1, gaussian_noise_apply},
    {"gaussian_dropout", "multiplies by such numbers around 1 while training", rate_attrs, 1, 1,
     gaussian_dropout_apply},
    {"alpha_dropout", "dropout that keeps mean and spread, after selu", rate_attrs, 1, 1, alpha_dropout_apply},
    {"spatial_dropout2d", "drops whole channels while training", rate_attrs, 1, 1, spatial_dropout_apply},
    {0},
};
