/* Layers that drop elements or add noise while training, and do nothing afterwards. */
#include "train/layer.h"

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

static const layer_attr rate_attrs[] = {ATTR("rate", NUMBER, NULL, 0, 0.999999), {0}};

const layer_kind layers_noise[] = {
    {"dropout", "drops elements while training", rate_attrs, 1, 1, dropout_apply},
    {"spatial_dropout1d", "drops whole channels while training", rate_attrs, 1, 1, spatial_dropout_apply},
    {"spatial_dropout2d", "drops whole channels while training", rate_attrs, 1, 1, spatial_dropout_apply},
    {0},
};
