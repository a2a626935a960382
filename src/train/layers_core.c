/* Dense layers, activations as layers of their own, embeddings. */
#include "train/layer.h"

static shoal_value *dense_apply(branch *b, layer *l, layer_io *io) {
  shoal_value *x = io->x[0];
  shoal_shape s = x->shape;
  int64_t units = layer_int(l, "units"), in = s.dim[s.rank - 1];
  if (!layer_takes(b, l, x, 2, SHOAL_MAX_RANK, "[batch, features]")) return NULL;
  if (in < 1) return layer_refuse(b, l, "the number of features of its input is not known");
  shoal_value *kernel =
      layer_kernel(b, l, "kernel", "kernel_initializer", SHOAL_SHAPE(in, units), (double)in, (double)units);
  return layer_add_bias(b, l, shoal_matmul(b->model->graph, x, kernel, false, false), units);
}

static shoal_value *identity_apply(branch *b, layer *l, layer_io *io) { return io->x[0]; }

/* ---- activations with numbers of their own */

static shoal_value *relu_apply(branch *b, layer *l, layer_io *io) {
  shoal_graph *g = b->model->graph;
  shoal_value *x = io->x[0];
  const double slope = layer_number(l, "negative_slope"), threshold = layer_number(l, "threshold");
  const double most = layer_has(l, "max_value") ? layer_number(l, "max_value") : 3e38;
  if (threshold == 0 && slope == 0) return layer_has(l, "max_value") ? shoal_clip(g, x, 0, most) : shoal_relu(g, x);
  /* from the threshold on x, up to `most`; below it slope (x - threshold) */
  shoal_value *limit = shoal_scalar(g, SHOAL_F32, threshold);
  shoal_value *above = layer_has(l, "max_value") ? shoal_clip(g, x, -3e38, most) : x;
  shoal_value *below = shoal_scale(g, shoal_sub(g, x, limit), slope);
  return shoal_where(g, shoal_greater_equal(g, x, limit), above, below);
}

static shoal_value *leaky_relu_apply(branch *b, layer *l, layer_io *io) {
  return shoal_leaky_relu(b->model->graph, io->x[0], layer_number(l, "negative_slope"));
}

static shoal_value *elu_apply(branch *b, layer *l, layer_io *io) {
  return shoal_elu(b->model->graph, io->x[0], layer_number(l, "alpha"));
}

/* What is not above the threshold is the value. */
static shoal_value *threshold_apply(branch *b, layer *l, layer_io *io) {
  shoal_graph *g = b->model->graph;
  shoal_value *above = shoal_greater(g, io->x[0], shoal_scalar(g, SHOAL_F32, layer_number(l, "threshold")));
  return shoal_where(g, above, io->x[0], shoal_scalar(g, SHOAL_F32, layer_number(l, "default_value")));
}

/* A slope for each element of an example, or, along shared axes (the first of an example is 1), for all of them. */
static shoal_value *prelu_apply(branch *b, layer *l, layer_io *io) {
  shoal_shape s = io->x[0]->shape, shared = layer_shape(l, "shared_axes");
  shoal_shape alpha = shoal_shape_make(s.rank - 1, s.dim + 1);
  for (int i = 0; i < shared.rank; i++) {
    int64_t axis = shared.dim[i];
    if (axis < 1 || axis >= s.rank) return layer_refuse(b, l, "shared_axes are from 1 to %d", s.rank - 1);
    alpha.dim[axis - 1] = 1;
  }
  shoal_value *slope = layer_kernel(b, l, "alpha", "alpha_initializer", alpha, 0, 0);
  return shoal_prelu(b->model->graph, io->x[0], slope);
}

static shoal_value *softmax_apply(branch *b, layer *l, layer_io *io) {
  return shoal_softmax_along(b->model->graph, io->x[0], (int)layer_int(l, "axis"));
}

/* ---- numbers of words */

static shoal_value *embedding_apply(branch *b, layer *l, layer_io *io) {
  shoal_graph *g = b->model->graph;
  shoal_value *x = io->x[0];
  int64_t words = layer_int(l, "input_dim"), width = layer_int(l, "output_dim");
  shoal_value *table = layer_kernel(b, l, "embeddings", "embeddings_initializer", SHOAL_SHAPE(words, width),
                                    (double)words, (double)width);
  if (layer_flag(l, "mask_zero")) io->mask = shoal_not_equal(g, x, shoal_scalar(g, x->dtype, 0));
  return shoal_take(g, table, shoal_cast(g, x, SHOAL_I32), 0);
}

/* A vector for each place of a sequence, added to it. */
static shoal_value *position_embedding_apply(branch *b, layer *l, layer_io *io) {
  shoal_value *x = io->x[0];
  if (!layer_takes(b, l, x, 3, 3, "[batch, steps, features]")) return NULL;
  int64_t steps = x->shape.dim[1], width = x->shape.dim[2];
  shoal_value *table = layer_kernel(b, l, "embeddings", "embeddings_initializer", SHOAL_SHAPE(steps, width),
                                    (double)steps, (double)width);
  return shoal_add(b->model->graph, x, table);
}

/* [batch, ...] whole numbers below num_tokens as ones among zeros: each alone (one_hot), or of all of an example
 * together whether it is there (multi_hot) or how often (count). */
static shoal_value *category_encoding_apply(branch *b, layer *l, layer_io *io) {
  shoal_graph *g = b->model->graph;
  shoal_value *x = shoal_cast(g, io->x[0], SHOAL_I32);
  const int64_t depth = layer_int(l, "num_tokens");
  io->mask = NULL;
  if (!x) return NULL;
  const int rank = x->shape.rank;
  shoal_value *each = shoal_one_hot(g, x, depth, 1, 0, SHOAL_F32);
  if (layer_is(l, "output_mode", "one_hot"))
    return x->shape.dim[rank - 1] == 1 ? shoal_squeeze(g, each, SHOAL_SHAPE(rank - 1)) : each;
  shoal_value *sum = shoal_reduce_sum(g, each, SHOAL_SHAPE(rank - 1), false);
  return layer_is(l, "output_mode", "count") ? sum : shoal_clip(g, sum, 0, 1);
}

/* ... as one hot vector each. */
static shoal_value *one_hot_apply(branch *b, layer *l, layer_io *io) {
  shoal_graph *g = b->model->graph;
  io->mask = NULL;
  return shoal_one_hot(g, shoal_cast(g, io->x[0], SHOAL_I32), layer_int(l, "num_classes"), 1, 0, SHOAL_F32);
}

/* Whole numbers as their places in a list, counted from 1; 0 for those that are not in it. */
static shoal_value *integer_lookup_apply(branch *b, layer *l, layer_io *io) {
  shoal_graph *g = b->model->graph;
  const json_t *list = json_object_get(l->config, "vocabulary");
  const size_t n = layer_numbers(list, NULL, 0);
  const int64_t first = layer_int(l, "num_oov_indices");
  shoal_value *x = io->x[0];
  io->mask = NULL;
  if (!n) return layer_refuse(b, l, "vocabulary: a list of numbers is expected");
  shoal_tensor words, places;
  shoal_status status = shoal_tensor_create(SHOAL_F32, SHOAL_SHAPE((int64_t)n), &words);
  if (!status) status = shoal_tensor_create(SHOAL_F32, SHOAL_SHAPE((int64_t)n), &places);
  if (status) {
    graph_fail(g, status);
    return NULL;
  }
  layer_numbers(list, words.data, n);
  for (size_t i = 0; i < n; i++) ((float *)places.data)[i] = (float)((int64_t)i + first);
  shoal_value *same = shoal_equal(g, shoal_expand_dims(g, x, x->shape.rank), shoal_constant(g, &words));
  shoal_value *found = shoal_mul(g, shoal_cast(g, same, SHOAL_F32), shoal_constant(g, &places));
  shoal_tensor_fini(&words);
  shoal_tensor_fini(&places);
  return shoal_reduce_sum(g, found, SHOAL_SHAPE(x->shape.rank), false);
}

/* ---- the rows */

static const layer_attr dense_attrs[] = {
    ATTR("units", INT, NULL, 1, 1e8), ATTR("activation", ACTIVATION, "null"), LAYER_KERNEL_ATTRS, {0}};
static const layer_attr activation_attrs[] = {ATTR("activation", ACTIVATION, NULL), {0}};
static const layer_attr relu_attrs[] = {
    ATTR("max_value", NUMBER, "null"), ATTR("negative_slope", NUMBER, "0"), ATTR("threshold", NUMBER, "0"), {0}};
static const layer_attr leaky_relu_attrs[] = {ATTR("negative_slope", NUMBER, "0.3"), {0}};
static const layer_attr threshold_attrs[] = {ATTR("threshold", NUMBER, NULL), ATTR("default_value", NUMBER, NULL), {0}};
static const layer_attr elu_attrs[] = {ATTR("alpha", NUMBER, "1"), {0}};
static const layer_attr prelu_attrs[] = {
    ATTR("shared_axes", AXES, "[]"), ATTR("alpha_initializer", INITIALIZER, "0"), {0}};
static const layer_attr softmax_attrs[] = {ATTR("axis", INT, "-1", -8, 8), {0}};
static const layer_attr embedding_attrs[] = {ATTR("input_dim", INT, NULL, 1, 2e9),
                                             ATTR("output_dim", INT, NULL, 1, 1e6),
                                             ATTR("mask_zero", BOOL, "false"),
                                             ATTR("embeddings_initializer", INITIALIZER, "\"uniform\""),
                                             {0}};
static const layer_attr position_attrs[] = {ATTR("embeddings_initializer", INITIALIZER, "\"glorot_uniform\""), {0}};
static const char *const encodings[] = {"multi_hot", "one_hot", "count", NULL};
static const layer_attr encoding_attrs[] = {
    ATTR("num_tokens", INT, NULL, 1, 1e8), ATTR("output_mode", CHOICE, "\"multi_hot\"", .choices = encodings), {0}};

static const layer_attr one_hot_attrs[] = {ATTR("num_classes", INT, NULL, 1, 1e8), {0}};
static const layer_attr lookup_attrs[] = {
    ATTR("vocabulary", NUMBERS, NULL), ATTR("num_oov_indices", INT, "1", 0, 1), {0}};

const layer_kind layers_core[] = {
    {"dense", "each output a weighted sum of all features", dense_attrs, 1, 1, dense_apply},
    {"activation", "a function of each element, by its name", activation_attrs, 1, 1, identity_apply},
    {"identity", "its input", NULL, 1, 1, identity_apply},
    {"relu", "max(x, 0), with a slope below and a limit above", relu_attrs, 1, 1, relu_apply},
    {"leaky_relu", "x, or a share of it below 0", leaky_relu_attrs, 1, 1, leaky_relu_apply},
    {"elu", "x, or alpha (e^x - 1) below 0", elu_attrs, 1, 1, elu_apply},
    {"threshold", "x, or another number where x is not above a threshold", threshold_attrs, 1, 1, threshold_apply},
    {"prelu", "leaky_relu whose slopes are learned", prelu_attrs, 1, 1, prelu_apply},
    {"softmax", "positive, with the sum 1 along an axis", softmax_attrs, 1, 1, softmax_apply},
    {"embedding", "a learned vector for each number of a word", embedding_attrs, 1, 1, embedding_apply},
    {"position_embedding", "a learned vector for each place of a sequence, added to it", position_attrs, 1, 1,
     position_embedding_apply},
    {"category_encoding", "whole numbers as ones among zeros", encoding_attrs, 1, 1, category_encoding_apply},
    {"one_hot", "each whole number as ones among zeros along a new axis", one_hot_attrs, 1, 1, one_hot_apply},
    {"integer_lookup", "whole numbers as their places in a vocabulary, 0 for others", lookup_attrs, 1, 1,
     integer_lookup_apply},
    {0},
};
