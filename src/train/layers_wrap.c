/* Layers around another one, whose description is their attribute `layer`. */
#include "train/layer.h"

#include <string.h>

static const json_t *described(const layer *l, const char *name) { return json_object_get(l->config, name); }

/* Forwards and backwards; results side by side, or put together as merge_mode says. */
static shoal_value *bidirectional_apply(branch *b, layer *l, layer_io *io) {
  shoal_graph *g = b->model->graph;
  json_t *back = json_copy((json_t *)described(l, "layer"));
  if (!back || json_object_set_new(back, "go_backwards", json_true()) ||
      json_object_set_new(back, "reverse_output", json_false())) {
    json_decref(back);
    graph_fail(g, status_no_memory());
    return NULL;
  }
  layer *forward = layer_inner(b, l, 0, "forward", described(l, "layer"));
  layer *backward =
      layer_inner(b, l, 1, "backward", layer_has(l, "backward_layer") ? described(l, "backward_layer") : back);
  json_decref(back);
  if (!forward || !backward) return NULL;
  if (!json_object_get(forward->config, "return_sequences"))
    return layer_refuse(b, l, "it goes around a recurrent layer, not %s", forward->kind->name);
  layer_io other = *io;
  shoal_value *y = layer_apply_inner(b, forward, io), *z = layer_apply_inner(b, backward, &other);
  const char *mode = layer_text(l, "merge_mode");
  if (!y || !z) return NULL;
  if (!strcmp(mode, "sum")) return shoal_add(g, y, z);
  if (!strcmp(mode, "mul")) return shoal_mul(g, y, z);
  if (!strcmp(mode, "ave")) return shoal_scale(g, shoal_add(g, y, z), 0.5);
  return shoal_concat(g, (shoal_value *[]){y, z}, 2, y->shape.rank - 1);
}

/* Each step by itself: steps are taken for rows of the batch. */
static shoal_value *time_distributed_apply(branch *b, layer *l, layer_io *io) {
  shoal_graph *g = b->model->graph;
  shoal_value *x = io->x[0];
  layer *inner = layer_inner(b, l, 0, "layer", described(l, "layer"));
  if (!inner || !layer_takes(b, l, x, 3, SHOAL_MAX_RANK, "[batch, steps, ...]")) return NULL;
  const int64_t steps = x->shape.dim[1];
  shoal_shape flat = shoal_shape_make(x->shape.rank - 1, x->shape.dim + 1);
  flat.dim[0] = SHOAL_UNKNOWN;
  shoal_value *rows = shoal_reshape(g, x, flat), *none = NULL;
  layer_io one = {.x = &rows, .masks = &none, .n = 1};
  shoal_value *y = rows ? layer_apply_inner(b, inner, &one) : NULL;
  if (!y) return NULL;
  shoal_shape back = {.rank = y->shape.rank + 1, .dim = {SHOAL_UNKNOWN, steps}};
  memcpy(back.dim + 2, y->shape.dim + 1, (size_t)(y->shape.rank - 1) * sizeof *back.dim);
  return shoal_reshape(g, y, back);
}

static const char *const merges[] = {"concat", "sum", "mul", "ave", NULL};
static const layer_attr bidirectional_attrs[] = {ATTR("layer", LAYER, NULL),
                                                 ATTR("backward_layer", LAYER, "null"),
                                                 ATTR("merge_mode", CHOICE, "\"concat\"", .choices = merges),
                                                 {0}};
static const layer_attr distributed_attrs[] = {ATTR("layer", LAYER, NULL), {0}};

const layer_kind layers_wrap[] = {
    {"bidirectional", "a recurrent layer forwards, another backwards", bidirectional_attrs, 1, 1, bidirectional_apply},
    {"time_distributed", "a layer applied to each step of a sequence", distributed_attrs, 1, 1, time_distributed_apply},
    {0},
};
