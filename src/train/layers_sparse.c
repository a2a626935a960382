/* Layers on sparse rows, each with a table of which a step touches the rows of its batch's features; and what models of
 * click logs make of them: interactions of embeddings. */
#include "base/mem.h"
#include "graph/ops/util.h"
#include "train/layer.h"

/* Refuses anything but the model's sparse rows, with a field for each entry if need be. */
static bool takes_sparse(branch *b, layer *l, const shoal_value *x) {
  const tower *t = b->tower;
  if (x == t->x && t->indices) return true;
  layer_refuse(b, l,
               "it takes sparse rows, so its input must be that of a model made by shoal_model_create_sparse, or of a "
               "file whose input is sparse");
  return false;
}

/* An entry's value x as the layer takes it. By log: sign(x) log2(1 + |x|), which leaves the 1 of a word as it is and brings
 * counts together. */
static shoal_value *values_of(branch *b, const layer *l) {
  shoal_graph *g = b->model->graph;
  shoal_value *x = b->tower->values;
  if (!layer_flag(l, "log_values")) return x;
  shoal_value *size = shoal_log(g, shoal_add(g, shoal_abs(g, x), shoal_scalar(g, SHOAL_F32, 1)));
  return shoal_scale(g, shoal_mul(g, shoal_sign(g, x), size), 1.4426950408889634); /* 1 / ln 2 */
}

/* A table of as many rows as there are features. One that a strategy fills for each batch begins with zeros. */
static shoal_value *table_of(branch *b, layer *l, int64_t width) {
  const shoal_shape shape = SHOAL_SHAPE(b->model->input.dim[0], width);
  return layer_table(b, l, "embeddings", "embeddings_initializer", shape);
}

/* The rows of the kernel that an example's indices name, times its values. Only those have a gradient. */
static shoal_value *sparse_dense_apply(branch *b, layer *l, layer_io *io) {
  const tower *t = b->tower;
  int64_t features = b->model->input.dim[0], units = layer_int(l, "units");
  if (!takes_sparse(b, l, io->x[0])) return NULL;
  shoal_value *kernel = layer_table(b, l, "kernel", "kernel_initializer", SHOAL_SHAPE(features, units));
  return layer_add_bias(b, l, shoal_sparse_matmul(b->model->graph, t->x, t->indices, t->values, kernel), units);
}

static shoal_value *embedding_bag_apply(branch *b, layer *l, layer_io *io) {
  const tower *t = b->tower;
  if (!takes_sparse(b, l, io->x[0])) return NULL;
  const int64_t fields = layer_int(l, "fields");
  const bool mean = layer_is(l, "mode", "mean");
  shoal_graph *g = b->model->graph;
  shoal_value *table = table_of(b, l, layer_int(l, "units")), *values = values_of(b, l);
  if (!fields) return shoal_embedding_bag(g, t->x, t->indices, values, table, mean);
  return shoal_embedding_bag_fields(g, t->x, t->indices, values, table, t->fields, fields, layer_int(l, "first_field"),
                                    mean);
}

static shoal_value *field_values_apply(branch *b, layer *l, layer_io *io) {
  const tower *t = b->tower;
  if (!takes_sparse(b, l, io->x[0])) return NULL;
  return shoal_field_values(b->model->graph, t->x, values_of(b, l), t->fields, layer_int(l, "fields"));
}

static shoal_value *factorization_machine_apply(branch *b, layer *l, layer_io *io) {
  const tower *t = b->tower;
  if (!takes_sparse(b, l, io->x[0])) return NULL;
  shoal_value *table = table_of(b, l, 1 + layer_int(l, "factors"));
  return layer_add_bias(b, l, shoal_factorization_machine(b->model->graph, t->x, t->indices, values_of(b, l), table),
                        1);
}

/* ---- interactions */

/* Refuses weights that leave no vectors of x [batch, fields, width]. */
static bool leaves_columns(branch *b, layer *l, const shoal_value *x) {
  const int64_t linear = layer_int(l, "linear"), width = x->shape.dim[2];
  if (linear < width) return true;
  layer_refuse(b, l, "linear: %lld of %lld columns leave none to multiply", (long long)linear, (long long)width);
  return false;
}

/* What is multiplied of x [batch, fields, width]: all columns but the first ones, if told so. NULL: refused. */
static shoal_value *vectors_of(branch *b, layer *l, shoal_value *x) {
  if (!layer_takes(b, l, x, 3, 3, "[batch, fields, width]") || !leaves_columns(b, l, x)) return NULL;
  const int64_t linear = layer_int(l, "linear"), fields = x->shape.dim[1];
  return linear ? shoal_slice(b->model->graph, x, SHOAL_SHAPE(0, 0, linear), SHOAL_SHAPE(-1, fields, -1)) : x;
}

/* The other columns of x are weights, added up to y [batch, 1]. */
static shoal_value *add_weights(branch *b, const layer *l, shoal_value *x, shoal_value *y) {
  shoal_graph *g = b->model->graph;
  const int64_t linear = layer_int(l, "linear"), fields = x->shape.dim[1];
  if (!linear) return y;
  shoal_value *weights = shoal_slice(g, x, SHOAL_SHAPE(0, 0, 0), SHOAL_SHAPE(-1, fields, linear));
  shoal_value *flat = shoal_reshape(g, weights, SHOAL_SHAPE(SHOAL_UNKNOWN, fields * linear));
  return shoal_add(g, y, shoal_reduce_sum(g, flat, SHOAL_SHAPE(1), true));
}

/* [batch, fields, width] -> [batch, 1]: weights added up, all pairs of vectors multiplied. */
static shoal_value *fm_interaction_apply(branch *b, layer *l, layer_io *io) {
  if (!layer_takes(b, l, io->x[0], 3, 3, "[batch, fields, width]") || !leaves_columns(b, l, io->x[0])) return NULL;
  return field_pairs(b->model->graph, io->x[0], layer_int(l, "linear"));
}

/* [batch, fields, fields x factors] -> [batch, 1]: a feature has a vector for each field (Juan et al. 2016). Field i's for
 * field j times field j's for field i, over all pairs of different fields. */
static shoal_value *ffm_interaction_apply(branch *b, layer *l, layer_io *io) {
  shoal_graph *g = b->model->graph;
  shoal_value *x = vectors_of(b, l, io->x[0]);
  if (!x) return NULL;
  const int64_t fields = x->shape.dim[1], width = x->shape.dim[2], factors = width / fields;
  if (width % fields)
    return layer_refuse(b, l, "%lld columns are no whole vector for each of %lld fields; use a width of %lld",
                        (long long)width, (long long)fields,
                        (long long)(layer_int(l, "linear") + MAX_OF(factors, 1) * fields));
  shoal_value *there = shoal_reshape(g, x, SHOAL_SHAPE(SHOAL_UNKNOWN, fields, fields, factors));
  shoal_value *back = shoal_transpose(g, there, SHOAL_SHAPE(0, 2, 1, 3));
  shoal_value *products = shoal_reduce_sum(g, shoal_mul(g, there, back), SHOAL_SHAPE(3), false);
  shoal_tensor once; /* half of each pair, which stands there twice; nothing of a field with itself */
  shoal_status status = shoal_tensor_create(SHOAL_F32, SHOAL_SHAPE(fields, fields), &once);
  if (status) {
    graph_fail(g, status);
    return NULL;
  }
  for (int64_t i = 0; i < fields * fields; i++) ((float *)once.data)[i] = i % (fields + 1) ? 0.5f : 0;
  shoal_value *pairs = shoal_mul(g, products, shoal_constant(g, &once));
  shoal_tensor_fini(&once);
  shoal_value *flat = shoal_reshape(g, pairs, SHOAL_SHAPE(SHOAL_UNKNOWN, fields * fields));
  return add_weights(b, l, io->x[0], shoal_reduce_sum(g, flat, SHOAL_SHAPE(1), true));
}

/* Vectors [batch, n, width], or [batch, width] for one, of all inputs -> [batch, n (n - 1) / 2]: the product of each two. */
static shoal_value *dot_interaction_apply(branch *b, layer *l, layer_io *io) {
  shoal_graph *g = b->model->graph;
  shoal_value *parts[LAYER_INPUTS_MAX];
  for (int i = 0; i < io->n; i++) {
    if (!layer_takes(b, l, io->x[i], 2, 3, "[batch, vectors, width] or [batch, width]")) return NULL;
    parts[i] = io->x[i]->shape.rank == 2 ? shoal_expand_dims(g, io->x[i], 1) : io->x[i];
  }
  shoal_value *x = io->n > 1 ? shoal_concat(g, parts, io->n, 1) : parts[0];
  if (!x) return NULL;
  const int64_t n = x->shape.dim[1];
  enum { VECTORS_MAX = 4096 };
  if (n < 2 || n > VECTORS_MAX)
    return layer_refuse(b, l, "%lld vectors: 2 to %d are expected", (long long)n, VECTORS_MAX);
  shoal_value *all = shoal_reshape(g, shoal_matmul(g, x, x, false, true), SHOAL_SHAPE(SHOAL_UNKNOWN, n * n));
  shoal_tensor pairs;
  shoal_status status = shoal_tensor_create(SHOAL_I32, SHOAL_SHAPE(n * (n - 1) / 2), &pairs);
  if (status) {
    graph_fail(g, status);
    return NULL;
  }
  int32_t *at = pairs.data;
  for (int64_t i = 1; i < n; i++)
    for (int64_t j = 0; j < i; j++) *at++ = (int32_t)(i * n + j);
  shoal_value *y = shoal_take(g, all, shoal_constant(g, &pairs), 1);
  shoal_tensor_fini(&pairs);
  return y;
}

static shoal_value *sum_apply(branch *b, layer *l, layer_io *io) {
  shoal_graph *g = b->model->graph;
  shoal_value *x = io->x[0];
  if (!layer_takes(b, l, x, 2, SHOAL_MAX_RANK, "[batch, ...]")) return NULL;
  int64_t n = 1;
  for (int i = 1; i < x->shape.rank; i++) n *= x->shape.dim[i];
  return shoal_reduce_sum(g, shoal_reshape(g, x, SHOAL_SHAPE(SHOAL_UNKNOWN, n)), SHOAL_SHAPE(1), true);
}

/* Inputs x0 and x: x0 * (x w + b) + x, element by element (Wang et al. 2021). One input is both. */
static shoal_value *cross_apply(branch *b, layer *l, layer_io *io) {
  shoal_graph *g = b->model->graph;
  shoal_value *first = io->x[0], *x = io->n > 1 ? io->x[1] : first;
  if (!layer_takes(b, l, first, 2, 2, "[batch, features]") || !layer_takes(b, l, x, 2, 2, "[batch, features]"))
    return NULL;
  const int64_t n = x->shape.dim[1], rank = layer_has(l, "projection_dim") ? layer_int(l, "projection_dim") : 0;
  if (first->shape.dim[1] != n)
    return layer_refuse(b, l, "its inputs have %lld and %lld features; as many are expected",
                        (long long)first->shape.dim[1], (long long)n);
  if (rank)
    x = shoal_matmul(
        g, x, layer_kernel(b, l, "projection", "kernel_initializer", SHOAL_SHAPE(n, rank), (double)n, (double)rank),
        false, false);
  const int64_t in = rank ? rank : n;
  shoal_value *kernel = layer_kernel(b, l, "kernel", "kernel_initializer", SHOAL_SHAPE(in, n), (double)in, (double)n);
  shoal_value *y = layer_add_bias(b, l, shoal_matmul(g, x, kernel, false, false), n);
  return shoal_add(g, shoal_mul(g, first, y), io->n > 1 ? io->x[1] : first);
}

/* ---- the rows */

#define TABLE_ATTRS                                                                      \
  ATTR("embeddings_initializer", INITIALIZER, "{\"type\": \"table\", \"limit\": 0.01}"), \
      ATTR("log_values", BOOL, "false")
static const layer_attr sparse_dense_attrs[] = {ATTR("units", INT, NULL, 1, 1e8),
                                                ATTR("activation", ACTIVATION, "null"),
                                                ATTR("use_bias", BOOL, "true"),
                                                ATTR("kernel_initializer", INITIALIZER, "0"),
                                                ATTR("bias_initializer", INITIALIZER, "0"),
                                                {0}};
static const char *const modes[] = {"sum", "mean", NULL};
static const layer_attr bag_attrs[] = {ATTR("units", INT, NULL, 1, 512),
                                       ATTR("fields", INT, "0", 0, 1e5),
                                       ATTR("first_field", INT, "0", 0, 1e5),
                                       ATTR("mode", CHOICE, "\"sum\"", .choices = modes),
                                       TABLE_ATTRS,
                                       {0}};
static const layer_attr field_values_attrs[] = {
    ATTR("fields", INT, NULL, 1, 1e5), ATTR("log_values", BOOL, "false"), {0}};
static const layer_attr machine_attrs[] = {
    ATTR("factors", INT, NULL, 0, 511),
    ATTR("activation", ACTIVATION, "null"),
    ATTR("use_bias", BOOL, "true"),
    ATTR("bias_initializer", INITIALIZER, "0"),
    ATTR("embeddings_initializer", INITIALIZER, "{\"type\": \"table\", \"limit\": 0.01, \"zeros\": 1}"),
    ATTR("log_values", BOOL, "false"),
    {0}};
static const layer_attr fm_attrs[] = {ATTR("linear", INT, "0", 0, 511), {0}};
static const layer_attr cross_attrs[] = {ATTR("projection_dim", INT, "null", 1, 1e6), LAYER_KERNEL_ATTRS, {0}};

const layer_kind layers_sparse[] = {
    {"sparse_dense", "dense on sparse rows", sparse_dense_attrs, 1, 1, sparse_dense_apply},
    {"embedding_bag", "a learned vector for each feature of a sparse row, summed up by example or by field", bag_attrs,
     1, 1, embedding_bag_apply},
    {"field_values", "the values of the first fields of a sparse row as features", field_values_attrs, 1, 1,
     field_values_apply},
    {"factorization_machine", "weights of features and of all their pairs, on sparse rows", machine_attrs, 1, 1,
     factorization_machine_apply},
    {"fm_interaction", "the sum over all pairs of vectors of their products", fm_attrs, 1, 1, fm_interaction_apply},
    {"ffm_interaction", "the same of vectors that a feature has for each field", fm_attrs, 1, 1, ffm_interaction_apply},
    {"dot_interaction", "the product of each two vectors", NULL, 1, LAYER_INPUTS_MAX, dot_interaction_apply},
    {"sum", "the sum over all numbers of an example", NULL, 1, 1, sum_apply},
    {"cross", "x0 (x w + b) + x, element by element", cross_attrs, 1, 2, cross_apply},
    {0},
};
