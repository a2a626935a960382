/* Networks as .keras archives: a functional model of Keras' own layers.
 *
 * Weights are found by the place of their layer among those of its class, in the order that Keras gives the layers of a
 * model: those farthest from the outputs first, and of equally far ones as a search from the outputs meets them. */
#include "base/json_text.h"
#include "base/mem.h"
#include "data/zip.h"
#include "exchange/formats.h"
#include "exchange/keras.h"
#include "exchange/keras_optimizer.h"
#include "exchange/network.h"
#include "shoal/version.h"
#include "train/layer.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

typedef struct {
  const layer *layer; /* NULL: an input */
  int input;          /* which */
  int depth, index;   /* distance from the outputs; when the search met it */
  char *name;         /* in Keras */
} operation;

typedef struct {
  shoal_network *network;
  operation *ops; /* inputs, and layers that the outputs need; in Keras' order in the end */
  size_t n_ops;
  const shoal_output **order; /* calls, each behind what it needs */
  size_t n_order;
  json_t *numbers; /* class in snake case -> how many there are */
  hdf5_item *items;
  size_t n_items, cap_items;
  shoal_tensor *owned; /* tensors made for the file */
  size_t n_owned, cap_owned;
  keras_state state; /* of the optimizer: the trained weights so far */
} keras_writer;

static operation *operation_of(keras_writer *w, const shoal_output *c) {
  for (size_t i = 0; i < w->n_ops; i++)
    if (w->ops[i].layer == c->layer && (c->layer || w->ops[i].input == c->number)) return &w->ops[i];
  operation *o = &w->ops[w->n_ops];
  *o = (operation){.layer = c->layer, .input = c->layer ? 0 : c->number, .index = (int)w->n_ops};
  w->n_ops++;
  return o;
}

static void visit(keras_writer *w, const shoal_output *c) {
  for (size_t i = 0; i < w->n_order; i++)
    if (w->order[i] == c) return;
  operation_of(w, c);
  for (int i = 0; i < c->n_inputs; i++) visit(w, c->inputs[i]);
  w->order[w->n_order++] = c;
}

static int by_depth(const void *a, const void *b) {
  const operation *x = a, *y = b;
  return x->depth != y->depth ? y->depth - x->depth : x->index - y->index;
}

/* The call that makes a value of the network. */
static const shoal_output *call_of(const shoal_network *n, const shoal_value *v) {
  for (size_t i = n->model->n_calls; i-- > 0;)
    if (n->model->calls[i]->value == v) return n->model->calls[i];
  return NULL;
}

static shoal_status find_order(keras_writer *w) {
  const shoal_network *n = w->network;
  const size_t calls = n->model->n_calls;
  int *depths = calloc(calls + 1, sizeof *depths);
  w->ops = calloc(calls + 1, sizeof *w->ops);
  w->order = calloc(calls + 1, sizeof *w->order);
  if (!w->ops || !w->order || !depths) {
    free(depths);
    return status_no_memory();
  }
  for (int i = 0; i < n->outputs.n; i++) {
    const shoal_output *c = call_of(n, n->outputs.list[i].value);
    if (c) visit(w, c);
  }
  for (size_t i = w->n_order; i-- > 0;) { /* depths[i]: of order[i] */
    operation *o = operation_of(w, w->order[i]);
    const int depth = MAX_OF(depths[i], o->depth);
    o->depth = depths[i] = depth;
    for (int k = 0; k < w->order[i]->n_inputs; k++)
      for (size_t j = 0; j < i; j++)
        if (w->order[j] == w->order[i]->inputs[k]) depths[j] = MAX_OF(depths[j], depth + 1);
  }
  free(depths);
  qsort(w->ops, w->n_ops, sizeof *w->ops, by_depth);
  return NULL;
}

/* ---- names: as here, but Keras has no '/' in them */

static shoal_status name_operations(keras_writer *w) {
  for (size_t i = 0; i < w->n_ops; i++) {
    operation *o = &w->ops[i];
    const char *name = o->layer ? o->layer->name : w->network->inputs.list[o->input].name;
    char *made = strdup(name);
    for (char *c = made; c && *c; c++)
      if (*c == '/') *c = '_';
    for (size_t k = 0; made && k < i; k++) {
      if (strcmp(w->ops[k].name, made)) continue;
      char *longer = NULL;
      if (asprintf(&longer, "%s_%zu", made, i) < 0) longer = NULL;
      free(made);
      made = longer;
      k = (size_t)-1;
    }
    if (!made) return status_no_memory();
    o->name = made;
  }
  return NULL;
}

/* ---- layers */

static json_t *shape_json(const shoal_shape *s) {
  json_t *list = json_array();
  for (int i = 0; i < s->rank; i++)
    json_array_append_new(list, s->dim[i] == SHOAL_UNKNOWN ? json_null() : json_integer(s->dim[i]));
  return list;
}

static json_t *tensor_json(keras_writer *w, const shoal_output *c) {
  const operation *o = operation_of(w, c);
  const bool integers = !c->layer && w->network->model->inputs[c->number].integers;
  return json_pack("{s:s, s:{s:o, s:s, s:[s, i, i]}}", "class_name", "__keras_tensor__", "config", "shape",
                   shape_json(&c->value->shape), "dtype", integers ? "int32" : "float32", "keras_history", o->name,
                   c->layer ? c->number : 0, 0);
}

/* Types for images and sequences alike, by how many axes their input has. */
static const char *type_by_rank(const char *type, int rank, char out[KERAS_NAME]) {
  static const char *const stems[][2] = {{"conv", "conv%dd"},
                                         {"depthwise_conv", "depthwise_conv%dd"},
                                         {"separable_conv", "separable_conv%dd"},
                                         {"transposed_conv", "conv%dd_transpose"},
                                         {"max_pool", "max_pooling%dd"},
                                         {"avg_pool", "average_pooling%dd"},
                                         {"global_max_pool", "global_max_pooling%dd"},
                                         {"global_avg_pool", "global_average_pooling%dd"},
                                         {"zero_padding", "zero_padding%dd"},
                                         {"cropping", "cropping%dd"}};
  for (size_t i = 0; i < COUNT_OF(stems); i++) {
    const char *d = strchr(stems[i][1], '%');
    if (strcmp(stems[i][0], type)) continue;
    snprintf(out, KERAS_NAME, "%.*s%d%s", (int)(d - stems[i][1]), stems[i][1], rank - 2, d + 2);
    return out;
  }
  return type;
}

static bool is_one_dimensional(const char *type) { return strstr(type, "1d") != NULL; }

static json_t *class_json(const keras_class *c, const char *name, const json_t *attributes, bool trained);

/* An attribute as Keras takes it; NULL: it is left out. */
static json_t *attribute_json(const keras_class *c, const layer_attr *a, const char *owner, const json_t *v) {
  char what[16];
  snprintf(what, sizeof what, " %.12s", a->name);
  if (a->kind == LAYER_INITIALIZER || json_is_null(v)) return NULL;
  if (c->drop && strstr(c->drop, a->name)) return NULL;
  if (a->kind == LAYER_LAYER) {
    const char *type = json_string_value(json_object_get(v, "type"));
    const keras_class *inner = type ? keras_class_of_type(type) : NULL;
    return inner ? class_json(inner, owner, v, true) : NULL;
  }
  if (a->kind == LAYER_AXES && json_is_array(v) && !json_array_size(v)) return NULL;
  if (is_one_dimensional(c->type) && a->kind == LAYER_SIZES && json_is_array(v))
    return json_incref(json_array_get(v, 0));
  if (is_one_dimensional(c->type) && a->kind == LAYER_MARGINS && json_is_array(json_array_get(v, 0)))
    return json_incref(json_array_get(v, 0));
  if (a->kind == LAYER_PADDING && json_is_array(v)) return json_string("valid"); /* checked: there are none */
  return json_incref((json_t *)v);
}

/* {"class_name", "config", ...} without wiring. */
static json_t *class_json(const keras_class *c, const char *name, const json_t *attributes, bool trained) {
  const layer_kind *kind = layer_kind_find(c->type);
  json_t *config = json_pack("{s:s, s:b, s:s}", "name", name, "trainable", trained, "dtype", "float32");
  if (!strncmp(c->name, "SpatialDropout", 14)) json_object_del(config, "trainable"); /* theirs do not take it */
  for (const layer_attr *a = kind->attrs; a && a->name; a++) {
    const json_t *v = json_object_get(attributes, a->name);
    json_t *taken = v ? attribute_json(c, a, name, v) : NULL;
    if (taken) json_object_set_new(config, a->name, taken);
  }
  return json_pack("{s:s, s:s, s:o, s:n}", "module", "keras.layers", "class_name", c->name, "config", config,
                   "registered_name");
}

static bool has_margins(const json_t *padding) {
  int64_t before[2], after[2];
  if (!json_is_array(padding) && !json_is_integer(padding)) return false;
  layer_margins(padding, before, after);
  return before[0] || before[1] || after[0] || after[1];
}

/* One of keras.ops; takes config. */
static json_t *plain_operation(const char *module, const char *class, const char *name, json_t *config) {
  json_object_set_new(config, "name", json_string(name));
  return json_pack("{s:o, s:s, s:o, s:s}", "module", json_sprintf("keras.src.ops.%s", module), "class_name", class,
                   "config", config, "registered_name", class);
}

static json_t *relation_json(const layer *l, const char *name) {
  static const char *const classes[][2] = {{"greater", "Greater"}, {"greater_equal", "GreaterEqual"},
                                           {"less", "Less"},       {"less_equal", "LessEqual"},
                                           {"equal", "Equal"},     {"not_equal", "NotEqual"}};
  for (size_t i = 0; i < COUNT_OF(classes); i++)
    if (layer_is(l, "relation", classes[i][0])) return plain_operation("numpy", classes[i][1], name, json_object());
  return NULL;
}

/* Layers that in Keras are operations. */
static json_t *operation_json(const layer *l, const char *name) {
  const bool plain = !layer_flag(l, "exclusive") && !layer_flag(l, "reverse") && !layer_flag(l, "descending");
  const char *const types[][2] = {{"stack", "Stack"}, {"cumulative_sum", "Cumsum"}, {"sort", "Sort"}};
  for (size_t i = 0; plain && i < COUNT_OF(types); i++)
    if (!strcmp(types[i][0], l->kind->name))
      return json_pack("{s:s, s:s, s:{s:s, s:I}, s:s}", "module", "keras.src.ops.numpy", "class_name", types[i][1],
                       "config", "name", name, "axis", (json_int_t)layer_int(l, "axis"), "registered_name",
                       types[i][1]);
  if (!strcmp(l->kind->name, "top_k"))
    return json_pack("{s:s, s:s, s:{s:s, s:I, s:b}, s:s}", "module", "keras.src.ops.math", "class_name", "TopK",
                     "config", "name", name, "k", (json_int_t)layer_int(l, "k"), "sorted", 1, "registered_name",
                     "TopK");
  if (!strcmp(l->kind->name, "slice")) return plain_operation("numpy", "GetItem", name, json_object());
  if (!strcmp(l->kind->name, "where")) return plain_operation("numpy", "Where", name, json_object());
  if (!strcmp(l->kind->name, "compare")) return relation_json(l, name);
  if (!strcmp(l->kind->name, "einsum"))
    return plain_operation("numpy", "Einsum", name, json_pack("{s:s}", "subscripts", layer_text(l, "equation")));
  if (!strcmp(l->kind->name, "one_hot"))
    return plain_operation("nn", "OneHot", name,
                           json_pack("{s:I}", "num_classes", (json_int_t)layer_int(l, "num_classes")));
  if (!strcmp(l->kind->name, "threshold"))
    return plain_operation("nn", "Threshold", name,
                           json_pack("{s:f, s:f}", "threshold", layer_number(l, "threshold"), "default_value",
                                     layer_number(l, "default_value")));
  if (!strcmp(l->kind->name, "activation") && layer_is(l, "activation", "glu"))
    return plain_operation("nn", "Glu", name, json_object());
  if (!strcmp(l->kind->name, "activation") && layer_is(l, "activation", "gelu_tanh"))
    return plain_operation("nn", "Gelu", name, json_pack("{s:b}", "approximate", 1));
  return NULL;
}

/* x[:, a:b, ...] */
static json_t *slices_json(const layer *l) {
  const shoal_shape start = layer_shape(l, "start"), size = layer_shape(l, "size");
  json_t *list = json_pack("[{s:s, s:{s:n, s:n, s:n}}]", "class_name", "__slice__", "config", "start", "stop", "step");
  for (int i = 0; i < start.rank; i++) {
    json_t *stop = size.dim[i] < 0 ? json_null() : json_integer(start.dim[i] + size.dim[i]);
    json_array_append_new(list, json_pack("{s:s, s:{s:I, s:o, s:n}}", "class_name", "__slice__", "config", "start",
                                          (json_int_t)start.dim[i], "stop", stop, "step"));
  }
  return list;
}

static json_t *call_json(keras_writer *w, const shoal_output *c) {
  const layer *l = c->layer;
  const char *type = l->kind->name;
  json_t *args = json_array(), *kwargs = json_object();
  const bool operands = !strcmp(type, "einsum") || !strcmp(type, "where") || !strcmp(type, "compare");
  const bool apart = operands || !strcmp(type, "multi_head_attention") || l->kind->inputs_max == 1;
  for (int i = 0; i < c->n_inputs; i++) json_array_append_new(args, tensor_json(w, c->inputs[i]));
  if (!strcmp(type, "multi_head_attention") && c->n_inputs == 1)
    json_array_append_new(args, tensor_json(w, c->inputs[0]));
  if (!apart) args = json_pack("[o]", args);
  if (!strcmp(type, "slice")) json_array_append_new(args, slices_json(l));
  if (layer_has(l, "then")) json_array_insert(args, 1, json_object_get(l->config, "then"));
  if (layer_has(l, "else")) json_array_append(args, json_object_get(l->config, "else"));
  if (!strcmp(type, "compare") && layer_has(l, "value")) json_array_append(args, json_object_get(l->config, "value"));
  if (layer_flag(l, "use_causal_mask")) json_object_set_new(kwargs, "use_causal_mask", json_true());
  return json_pack("{s:o, s:o}", "args", args, "kwargs", kwargs);
}

static json_t *input_json(const keras_writer *w, const operation *o) {
  const network_port *in = &w->network->inputs.list[o->input];
  const bool integers = w->network->model->inputs[o->input].integers;
  return json_pack("{s:s, s:s, s:{s:o, s:s, s:b, s:b, s:s}, s:n, s:s, s:[]}", "module", "keras.layers", "class_name",
                   "InputLayer", "config", "batch_shape", shape_json(&in->value->shape), "dtype",
                   integers ? "int32" : "float32", "sparse", 0, "ragged", 0, "name", o->name, "registered_name", "name",
                   o->name, "inbound_nodes");
}

/* ---- weights */

static shoal_status own_tensor(keras_writer *w, shoal_dtype dtype, shoal_shape shape, shoal_tensor *out) {
  TRY(mem_grow((void **)&w->owned, &w->cap_owned, w->n_owned + 1, sizeof *w->owned));
  TRY(shoal_tensor_create(dtype, shape, out));
  w->owned[w->n_owned++] = *out;
  return NULL;
}

/* The shape that Keras has it in: heads are an axis of their own, a scale has none. */
static shoal_shape keras_shape(const layer *l, const char *name, const shoal_shape *s) {
  const char *last = strrchr(name, '/');
  const int64_t heads = json_integer_value(json_object_get(l->config, "num_heads"));
  last = last ? last + 1 : name;
  if (!strcmp(l->kind->name, "attention")) return SHOAL_SCALAR;
  if (heads < 1 || !strcmp(last, "output_bias")) return *s;
  if (!strcmp(last, "output")) return SHOAL_SHAPE(heads, s->dim[0] / heads, s->dim[1]);
  if (s->rank == 1) return SHOAL_SHAPE(heads, s->dim[0] / heads);
  return SHOAL_SHAPE(s->dim[0], heads, s->dim[1] / heads);
}

/* For the optimizer's state, if the weight is trained. */
static shoal_status note_trained(keras_writer *w, const shoal_value *variable, int row, const shoal_shape *shape) {
  const shoal_model *m = w->network->model;
  keras_state *s = &w->state;
  bool trained = false;
  for (size_t i = 0; i < m->n_weights && !trained; i++)
    trained = m->weights[i].variable == variable && m->weights[i].role == WEIGHT_TRAINED;
  if (!trained) return NULL;
  if (row == 1) {
    s->list[s->n - 1].names[1] = shoal_value_name(variable);
    return NULL;
  }
  TRY(mem_grow((void **)&s->list, &s->cap, s->n + 1, sizeof *s->list));
  s->list[s->n++] = (keras_variable){.names = {shoal_value_name(variable)},
                                     .shape = row ? *shape : SHOAL_SHAPE(2, shoal_shape_count(shape))};
  return NULL;
}

static shoal_status add_item(keras_writer *w, const layer *l, keras_weight *k) {
  const shoal_value *variable = shoal_graph_find(w->network->graph, k->name);
  shoal_tensor t, both;
  if (!variable) return status_make(SHOAL_ERR_INTERNAL, "the model has no weight '%s'", k->name);
  TRY(shoal_session_variable(w->network->session, variable, &t));
  t.shape = keras_shape(l, k->name, &t.shape);
  TRY(note_trained(w, variable, k->row, &t.shape));
  if (k->row == 1) { /* the second row of the one before */
    hdf5_item *first = &w->items[w->n_items - 1];
    memcpy((char *)first->tensor.data + shoal_tensor_bytes(&t), t.data, shoal_tensor_bytes(&t));
    return NULL;
  }
  if (k->row == 0) {
    TRY(own_tensor(w, t.dtype, SHOAL_SHAPE(2, shoal_tensor_count(&t)), &both));
    memcpy(both.data, t.data, shoal_tensor_bytes(&t));
    t = both;
  }
  TRY(mem_grow((void **)&w->items, &w->cap_items, w->n_items + 1, sizeof *w->items));
  w->items[w->n_items++] = (hdf5_item){k->path, t};
  k->path = NULL; /* the item's now */
  return NULL;
}

static shoal_status add_weights(keras_writer *w, const layer *l, const keras_class *c) {
  char snake[KERAS_NAME], path[2 * KERAS_NAME];
  keras_snake_case(c->name, snake);
  const json_int_t number = json_integer_value(json_object_get(w->numbers, snake));
  json_object_set_new(w->numbers, snake, json_integer(number + 1));
  if (number)
    snprintf(path, sizeof path, "layers/%s_%lld", snake, (long long)number);
  else
    snprintf(path, sizeof path, "layers/%s", snake);
  keras_weights list = {0};
  shoal_status status = keras_layer_weights(c, l->config, l->name, path, &list);
  for (size_t i = 0; i < list.n && !status; i++) status = add_item(w, l, &list.list[i]);
  keras_weights_fini(&list);
  return status;
}

/* ---- the model */

static shoal_status layer_json(keras_writer *w, const operation *o, json_t **out) {
  const layer *l = o->layer;
  char type[KERAS_NAME];
  const shoal_output *first = NULL;
  for (size_t i = 0; i < w->n_order && !first; i++)
    if (w->order[i]->layer == l) first = w->order[i];
  const int rank = first->n_inputs ? first->inputs[0]->value->shape.rank : 0;
  const char *own = strcmp(l->kind->name, "pool") ? l->kind->name
                    : layer_is(l, "mode", "max")  ? "max_pool"
                                                  : "avg_pool";
  const keras_class *c = keras_class_of_type(type_by_rank(own, rank, type));
  json_t *made = operation_json(l, o->name);
  if (!made && !c)
    return status_make(SHOAL_ERR_ARGUMENT, "layer '%s': Keras has no layer like %s: export as .onnx", l->name,
                       l->kind->name);
  if (!made) {
    const json_t *padding = json_object_get(l->config, "padding");
    if (strcmp(c->type, "zero_padding1d") && strcmp(c->type, "zero_padding2d") && has_margins(padding))
      return status_make(SHOAL_ERR_ARGUMENT,
                         "layer '%s': Keras supports only the paddings \"same\" and \"valid\": use zero_padding2d",
                         l->name);
    const char *activation = layer_activation(l);
    if (!strcmp(activation, "gelu_tanh") || !strcmp(activation, "glu") || !strcmp(activation, "sparsemax"))
      return status_make(SHOAL_ERR_ARGUMENT,
                         "layer '%s': Keras has no activation %s by name, or one that does otherwise", l->name,
                         activation);
    made = class_json(c, o->name, l->config, !l->frozen);
    shoal_status status = made ? add_weights(w, l, c) : status_no_memory();
    if (status) {
      json_decref(made);
      return status;
    }
  }
  json_t *nodes = json_array();
  for (size_t i = 0; i < w->network->model->n_calls; i++) {
    const shoal_output *call = w->network->model->calls[i];
    if (call->layer == l) json_array_append_new(nodes, call_json(w, call));
  }
  json_object_set_new(made, "name", json_string(o->name));
  if (json_object_set_new(made, "inbound_nodes", nodes)) {
    json_decref(made);
    return status_no_memory();
  }
  *out = made;
  return NULL;
}

static shoal_status model_json(keras_writer *w, const char *name, json_t **out) {
  const shoal_network *n = w->network;
  json_t *layers = json_array(), *inputs = json_array(), *outputs = json_array();
  shoal_status status = NULL;
  for (size_t i = 0; i < w->n_ops && !status; i++) {
    json_t *one = NULL;
    if (w->ops[i].layer)
      status = layer_json(w, &w->ops[i], &one);
    else
      one = input_json(w, &w->ops[i]);
    if (one) json_array_append_new(layers, one);
  }
  for (int i = 0; i < n->inputs.n; i++)
    json_array_append_new(inputs, json_pack("[s, i, i]", n->inputs.list[i].name, 0, 0));
  for (int i = 0; i < n->outputs.n && !status; i++) {
    const shoal_output *c = call_of(n, n->outputs.list[i].value);
    json_array_append_new(outputs, json_pack("[s, i, i]", operation_of(w, c)->name, c->layer ? c->number : 0, 0));
  }
  if (status) {
    json_decref(layers);
    json_decref(inputs);
    json_decref(outputs);
    return status;
  }
  *out = json_pack("{s:s, s:s, s:{s:s, s:b, s:o, s:o, s:o}, s:s}", "module", "keras.src.models.functional",
                   "class_name", "Functional", "config", "name", name, "trainable", 1, "layers", layers, "input_layers",
                   inputs, "output_layers", outputs, "registered_name", "Functional");
  return *out ? NULL : status_no_memory();
}

static shoal_status write_archive(const char *path, const json_t *config, const keras_writer *w) {
  char *words = json_words(config, JSON_COMPACT);
  static const char metadata[] = "{\"keras_version\": \"3.0.0\", \"date_saved\": \"2026-01-01@00:00:00\"}";
  uint8_t *weights = NULL;
  size_t n = 0;
  shoal_status status = words ? hdf5_write(w->items, w->n_items, &weights, &n) : status_no_memory();
  const zip_item items[] = {{"metadata.json", metadata, sizeof metadata - 1},
                            {"config.json", words, words ? strlen(words) : 0},
                            {"model.weights.h5", weights, n}};
  if (!status) status = zip_write(path, items, COUNT_OF(items));
  free(words);
  free(weights);
  return status;
}

/* Takes both. */
static shoal_status add_state(void *context, char *path, shoal_tensor t) {
  keras_writer *w = context;
  shoal_status status = mem_grow((void **)&w->owned, &w->cap_owned, w->n_owned + 1, sizeof *w->owned);
  if (!status) status = mem_grow((void **)&w->items, &w->cap_items, w->n_items + 1, sizeof *w->items);
  if (status) {
    free(path);
    shoal_tensor_fini(&t);
    return status;
  }
  w->owned[w->n_owned++] = t;
  w->items[w->n_items++] = (hdf5_item){path, t};
  return NULL;
}

static shoal_status save_state(keras_writer *w, const shoal_export_options *o) {
  w->state.graph = w->network->graph;
  w->state.session = w->network->session;
  w->state.context = w;
  w->state.add = add_state;
  return keras_save_state(&w->state, o->compile, o->checkpoint);
}

shoal_status keras_export(shoal_network *n, const char *path, const shoal_export_options *options) {
  if (!n->model)
    return status_make(SHOAL_ERR_ARGUMENT, "the model is a graph of operators, not of layers: export it as .onnx");
  keras_writer w = {.network = n, .numbers = json_object()};
  json_t *config = NULL;
  shoal_status status = find_order(&w);
  if (!status) status = name_operations(&w);
  if (!status) status = model_json(&w, options->name ? options->name : "shoal", &config);
  json_t *compile = !status && options->compile ? keras_compile_json(n->model, options->compile) : NULL;
  const bool compiled = compile != NULL;
  if (compile && json_object_set_new(config, "compile_config", compile)) status = status_no_memory();
  if (!status && compiled) status = save_state(&w, options);
  if (!status) status = write_archive(path, config, &w);
  json_decref(config);
  json_decref(w.numbers);
  for (size_t i = 0; i < w.n_ops; i++) free(w.ops[i].name);
  for (size_t i = 0; i < w.n_items; i++) free((char *)w.items[i].path);
  for (size_t i = 0; i < w.n_owned; i++) shoal_tensor_fini(&w.owned[i]);
  free(w.state.list);
  free(w.ops);
  free(w.order);
  free(w.items);
  free(w.owned);
  return status;
}
