/* Layers that move elements, or show them in another shape. */
#include "train/layer.h"

#include <string.h>

static shoal_value *flatten_apply(branch *b, layer *l, layer_io *io) {
  return shoal_flatten(b->model->graph, io->x[0]);
}

static shoal_value *reshape_apply(branch *b, layer *l, layer_io *io) {
  shoal_shape s = layer_shape(l, "target_shape"), to = {.rank = s.rank + 1, .dim = {io->x[0]->shape.dim[0]}};
  for (int i = 0; i < s.rank; i++) to.dim[i + 1] = s.dim[i] < 0 ? SHOAL_UNKNOWN : s.dim[i];
  if (to.dim[0] != SHOAL_UNKNOWN) return shoal_reshape(b->model->graph, io->x[0], to);
  /* Two unknown sizes: the one that is asked for follows from the others of an example. */
  shoal_shape one = shoal_shape_make(io->x[0]->shape.rank - 1, io->x[0]->shape.dim + 1);
  int64_t have = shoal_shape_count(&one), known = 1, unknown = 0;
  for (int i = 1; i < to.rank; i++) {
    if (to.dim[i] == SHOAL_UNKNOWN)
      unknown++;
    else
      known *= to.dim[i] > 0 ? to.dim[i] : 1;
  }
  char from[SHOAL_SHAPE_TEXT], want[SHOAL_SHAPE_TEXT];
  if (unknown > 1 || (unknown ? have % known != 0 : have != known))
    return layer_refuse(b, l, "an example of %s cannot become one of %s", shoal_shape_text(&one, from),
                        shoal_shape_text(&s, want));
  for (int i = 1; i < to.rank; i++)
    if (to.dim[i] == SHOAL_UNKNOWN) to.dim[i] = have / known;
  return shoal_reshape(b->model->graph, io->x[0], to);
}

/* dims: axis i of the result's examples is axis dims[i] of the input's, counted from 1. */
static shoal_value *permute_apply(branch *b, layer *l, layer_io *io) {
  shoal_shape dims = layer_shape(l, "dims"), order = {.rank = dims.rank + 1};
  int rank = io->x[0]->shape.rank, seen = 1;
  for (int i = 0; i < dims.rank; i++) {
    order.dim[i + 1] = dims.dim[i];
    if (dims.dim[i] >= 1 && dims.dim[i] < rank) seen |= 1 << dims.dim[i];
  }
  if (order.rank != rank || seen != (1 << rank) - 1)
    return layer_refuse(b, l, "dims must name each of the axes 1 to %d of its input once", rank - 1);
  io->mask = NULL;
  return shoal_transpose(b->model->graph, io->x[0], order);
}

static shoal_value *repeat_vector_apply(branch *b, layer *l, layer_io *io) {
  if (!layer_takes(b, l, io->x[0], 2, 2, "[batch, features]")) return NULL;
  shoal_graph *g = b->model->graph;
  return shoal_tile(g, shoal_expand_dims(g, io->x[0], 1), SHOAL_SHAPE(1, layer_int(l, "n"), 1));
}

/* ---- edges */

static bool takes_places(branch *b, const layer *l, const shoal_value *x) {
  if (strstr(l->kind->name, "1d")) return layer_takes(b, l, x, 3, 3, "[batch, steps, channels]");
  if (strstr(l->kind->name, "2d")) return layer_takes(b, l, x, 4, 4, "[batch, height, width, channels]");
  return layer_takes(b, l, x, 3, 4, "[batch, height, width, channels] or [batch, steps, channels]");
}

/* Of sequences [1, 2] are the two edges of the one axis. */
static shoal_window margins_of(const layer *l, const char *name) {
  const json_t *v = json_object_get(l->config, name);
  shoal_window w = {0};
  layer_margins(v, w.before, w.after);
  const bool edges = strstr(l->kind->name, "1d") && json_array_size(v) == 2 && json_is_integer(json_array_get(v, 0));
  if (edges) w.after[0] = json_integer_value(json_array_get(v, 1));
  return w;
}

static shoal_value *zero_padding_apply(branch *b, layer *l, layer_io *io) {
  shoal_value *x = io->x[0];
  if (!takes_places(b, l, x)) return NULL;
  const shoal_window w = margins_of(l, "padding");
  shoal_shape before = {.rank = x->shape.rank}, after = before;
  for (int i = 1; i < x->shape.rank - 1; i++) {
    before.dim[i] = w.before[i - 1];
    after.dim[i] = w.after[i - 1];
  }
  return shoal_pad(b->model->graph, x, before, after, SHOAL_PAD_CONSTANT, 0);
}

static shoal_value *cropping_apply(branch *b, layer *l, layer_io *io) {
  const shoal_window w = margins_of(l, "cropping");
  return takes_places(b, l, io->x[0]) ? shoal_crop(b->model->graph, io->x[0], &w) : NULL;
}

static shoal_value *up_sampling1d_apply(branch *b, layer *l, layer_io *io) {
  if (!takes_places(b, l, io->x[0])) return NULL;
  return shoal_repeat(b->model->graph, io->x[0], SHOAL_SHAPE(1, layer_int(l, "size"), 1));
}

static shoal_value *up_sampling2d_apply(branch *b, layer *l, layer_io *io) {
  int64_t times[2];
  if (!layer_takes(b, l, io->x[0], 4, 4, "[batch, height, width, channels]")) return NULL;
  layer_sizes(l, "size", 2, times);
  return shoal_upsample(b->model->graph, io->x[0], times[0], times[1], layer_is(l, "interpolation", "bilinear"));
}

/* ---- parts of examples */

static shoal_value *slice_apply(branch *b, layer *l, layer_io *io) {
  shoal_value *x = io->x[0];
  shoal_shape from = layer_shape(l, "start"), count = layer_shape(l, "size"), start = {.rank = x->shape.rank}, size;
  if (from.rank != x->shape.rank - 1 || count.rank != from.rank)
    return layer_refuse(b, l, "start and size need %d numbers, one for each axis of an example", x->shape.rank - 1);
  size = start;
  size.dim[0] = -1;
  for (int i = 0; i < from.rank; i++) {
    start.dim[i + 1] = from.dim[i];
    size.dim[i + 1] = count.dim[i];
  }
  return shoal_slice(b->model->graph, x, start, size);
}

/* Axes of examples as Keras counts them: the batch is 0. */
static bool axis_of(branch *b, layer *l, int rank, int *out) {
  int64_t axis = layer_int(l, "axis");
  if (axis < 0) axis += rank;
  *out = (int)axis;
  if (axis > 0 && axis < rank) return true;
  layer_refuse(b, l, "axis is %lld; expected 1 to %d, or -1 for the last", (long long)layer_int(l, "axis"), rank - 1);
  return false;
}

static shoal_value *cumulative_sum_apply(branch *b, layer *l, layer_io *io) {
  int axis;
  if (!axis_of(b, l, io->x[0]->shape.rank, &axis)) return NULL;
  return shoal_cumsum(b->model->graph, io->x[0], axis, layer_flag(l, "exclusive"), layer_flag(l, "reverse"));
}

static shoal_value *sort_apply(branch *b, layer *l, layer_io *io) {
  int axis;
  if (!axis_of(b, l, io->x[0]->shape.rank, &axis)) return NULL;
  return shoal_sort(b->model->graph, io->x[0], axis, layer_flag(l, "descending"));
}

static shoal_value *top_k_apply(branch *b, layer *l, layer_io *io) {
  return shoal_top_k(b->model->graph, io->x[0], layer_int(l, "k"), io->x[0]->shape.rank - 1);
}

/* ---- the rows */

static const layer_attr reshape_attrs[] = {ATTR("target_shape", SHAPE, NULL), {0}};
static const layer_attr permute_attrs[] = {ATTR("dims", SHAPE, NULL), {0}};
static const layer_attr repeat_attrs[] = {ATTR("n", INT, NULL, 1, 1e7), {0}};
static const layer_attr padding_attrs[] = {ATTR("padding", MARGINS, "1"), {0}};
static const layer_attr cropping_attrs[] = {ATTR("cropping", MARGINS, "1"), {0}};
static const layer_attr up1_attrs[] = {ATTR("size", INT, "2", 1, 1e6), {0}};
static const char *const interpolations[] = {"nearest", "bilinear", NULL};
static const layer_attr up2_attrs[] = {
    ATTR("size", SIZES, "2"), ATTR("interpolation", CHOICE, "\"nearest\"", .choices = interpolations), {0}};
static const layer_attr slice_attrs[] = {ATTR("start", SHAPE, NULL), ATTR("size", SHAPE, NULL), {0}};
static const layer_attr sum_attrs[] = {
    ATTR("axis", INT, "-1", -8, 8), ATTR("exclusive", BOOL, "false"), ATTR("reverse", BOOL, "false"), {0}};
static const layer_attr sort_attrs[] = {ATTR("axis", INT, "-1", -8, 8), ATTR("descending", BOOL, "false"), {0}};
static const layer_attr top_attrs[] = {ATTR("k", INT, NULL, 1, 1e7), {0}};

const layer_kind layers_shape[] = {
    {"flatten", "each example as one row", NULL, 1, 1, flatten_apply},
    {"reshape", "each example in another shape", reshape_attrs, 1, 1, reshape_apply},
    {"permute", "axes in another order", permute_attrs, 1, 1, permute_apply},
    {"repeat_vector", "features repeated as the steps of a sequence", repeat_attrs, 1, 1, repeat_vector_apply},
    {"zero_padding1d", "zeros around", padding_attrs, 1, 1, zero_padding_apply},
    {"zero_padding2d", "zeros around", padding_attrs, 1, 1, zero_padding_apply},
    {"zero_padding", "zeros around", padding_attrs, 1, 1, zero_padding_apply},
    {"cropping1d", "without its edges", cropping_attrs, 1, 1, cropping_apply},
    {"cropping2d", "without its edges", cropping_attrs, 1, 1, cropping_apply},
    {"cropping", "without its edges", cropping_attrs, 1, 1, cropping_apply},
    {"up_sampling1d", "each step repeated", up1_attrs, 1, 1, up_sampling1d_apply},
    {"up_sampling2d", "images several times as large", up2_attrs, 1, 1, up_sampling2d_apply},
    {"slice", "a part of each example; size -1: to the end", slice_attrs, 1, 1, slice_apply},
    {"cumulative_sum", "sums along an axis up to each element", sum_attrs, 1, 1, cumulative_sum_apply},
    {"sort", "sorted along an axis", sort_attrs, 1, 1, sort_apply},
    {"top_k", "the largest along the last axis, largest first", top_attrs, 1, 1, top_k_apply},
    {0},
};
