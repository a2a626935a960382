/* Layers that normalise each example by itself: no running means, the same in training and afterwards. */
#include "train/layer.h"

static shoal_shape channels_of(const shoal_value *x) { return SHOAL_SHAPE(x->shape.dim[x->shape.rank - 1]); }

static shoal_value *layer_norm_apply(branch *b, layer *l, shoal_value *x) {
  shoal_value *gamma = layer_filled(b, l, 0, "gamma", channels_of(x), 1);
  shoal_value *beta = layer_filled(b, l, 1, "beta", channels_of(x), 0);
  return shoal_layer_norm(b->model->graph, x, 1, gamma, beta, l->rate);
}

static shoal_value *rms_norm_apply(branch *b, layer *l, shoal_value *x) {
  return shoal_rms_norm(b->model->graph, x, layer_filled(b, l, 0, "gamma", channels_of(x), 1), l->rate);
}

static shoal_value *group_norm_apply(branch *b, layer *l, shoal_value *x) {
  shoal_value *gamma = layer_filled(b, l, 0, "gamma", channels_of(x), 1);
  shoal_value *beta = layer_filled(b, l, 1, "beta", channels_of(x), 0);
  return shoal_group_norm(b->model->graph, x, l->units, gamma, beta, l->rate);
}

static const layer_kind layer_norm_kind = {"layer_norm", layer_norm_apply};
static const layer_kind rms_norm_kind = {"rms_norm", rms_norm_apply};
static const layer_kind group_norm_kind = {"group_norm", group_norm_apply};

static void add_norm(shoal_model *m, const layer_kind *kind, int groups, double epsilon) {
  if (epsilon >= 0)
    layer_add(m, (layer){.kind = kind, .units = groups, .rate = epsilon > 0 ? epsilon : 1e-3}, NULL);
  else
    model_fail(m, status_make(SHOAL_ERR_ARGUMENT, "layer %s: epsilon is %g; above 0 is expected", kind->name, epsilon));
}

void shoal_model_layer_norm(shoal_model *m, double epsilon) { add_norm(m, &layer_norm_kind, 1, epsilon); }
void shoal_model_rms_norm(shoal_model *m, double epsilon) { add_norm(m, &rms_norm_kind, 1, epsilon); }

void shoal_model_group_norm(shoal_model *m, int groups, double epsilon) {
  if (layer_positive(m, "group_norm", "groups", groups)) add_norm(m, &group_norm_kind, groups, epsilon);
}
