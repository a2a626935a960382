/* Operations of keras.ops in functional models, as layers. */
#include "base/mem.h"
#include "exchange/keras.h"

#include <string.h>

typedef struct {
  const char *name, *layer; /* the operation; what the model calls it */
  const json_t *config, *args, *kwargs;
} operation;

const json_t *keras_tensor(const json_t *value) {
  const char *class = json_string_value(json_object_get(value, "class_name"));
  return class && !strcmp(class, "__keras_tensor__") ? json_object_get(json_object_get(value, "config"), "shape")
                                                     : NULL;
}

/* A value the operation was called with: by its place, by name, or of its own. NULL: none. */
static const json_t *argument(const operation *o, size_t place, const char *name) {
  const json_t *v = json_array_get(o->args, place);
  if (!v) v = json_object_get(o->kwargs, name);
  return v ? v : json_object_get(o->config, name);
}

static shoal_status no_layer(const operation *o) {
  return status_make(
      SHOAL_ERR_INPUT,
      "layer '%s': the operation %s of keras.ops is not supported as it is used here: write it with layers "
      "(docs/exchange.md lists the operations that are)",
      o->layer, o->name);
}

static shoal_status made(json_t *description, json_t **out) {
  if (!description) return status_no_memory();
  *out = description;
  return NULL;
}

/* x op number, or number op x, as scale x + offset. */
static shoal_status with_number(const operation *o, json_t **out) {
  const bool first = json_is_number(json_array_get(o->args, 0));
  const double number = json_number_value(json_array_get(o->args, first ? 0 : 1));
  double scale = 1, offset = 0;
  if (!strcmp(o->name, "Add"))
    offset = number;
  else if (!strcmp(o->name, "Multiply"))
    scale = number;
  else if (!strcmp(o->name, "Subtract"))
    scale = first ? -1 : 1, offset = first ? number : -number;
  else if (!first && number != 0)
    scale = 1 / number;
  else
    return no_layer(o);
  return made(json_pack("{s:s, s:f, s:f}", "type", "rescaling", "scale", scale, "offset", offset), out);
}

static shoal_status arithmetic(const operation *o, json_t **out) {
  static const char *const types[][2] = {{"Add", "add"},
                                         {"Subtract", "subtract"},
                                         {"Multiply", "multiply"},
                                         {"Maximum", "maximum"},
                                         {"Minimum", "minimum"}};
  const json_t *a = json_array_get(o->args, 0), *b = json_array_get(o->args, 1);
  if (json_is_number(a) || json_is_number(b)) return with_number(o, out);
  for (size_t i = 0; i < COUNT_OF(types); i++)
    if (!strcmp(types[i][0], o->name) && keras_tensor(a) && keras_tensor(b))
      return made(json_pack("{s:s}", "type", types[i][1]), out);
  return no_layer(o);
}

static shoal_status along(const operation *o, const char *type, size_t place, json_t **out) {
  const json_t *axis = argument(o, place, "axis");
  if (!json_is_integer(axis) && axis) return no_layer(o);
  const json_int_t number = axis ? json_integer_value(axis) : !strcmp(type, "sort") ? -1 : 0;
  return made(json_pack("{s:s, s:I}", "type", type, "axis", number), out);
}

static shoal_status join(const operation *o, json_t **out) {
  return along(o, !strcmp(o->name, "Stack") ? "stack" : "concatenate", 1, out);
}
static shoal_status running_sum(const operation *o, json_t **out) { return along(o, "cumulative_sum", 1, out); }
static shoal_status sorted(const operation *o, json_t **out) { return along(o, "sort", 1, out); }

static shoal_status top_k(const operation *o, json_t **out) {
  const json_t *k = argument(o, 1, "k");
  return json_is_integer(k) ? made(json_pack("{s:s, s:I}", "type", "top_k", "k", json_integer_value(k)), out)
                            : no_layer(o);
}

/* The batch comes first, and stays there. */
static json_t *without_batch(const json_t *list, json_int_t less) {
  json_t *rest = json_array();
  for (size_t i = 1; i < json_array_size(list); i++) {
    const json_t *one = json_array_get(list, i);
    json_array_append_new(rest, json_is_integer(one) ? json_integer(json_integer_value(one) - less) : json_integer(-1));
  }
  return rest;
}

static shoal_status reshape(const operation *o, json_t **out) {
  const json_t *shape = argument(o, 1, "newshape");
  const json_t *first = json_array_get(shape, 0);
  if (!json_is_array(shape) || !(json_is_null(first) || json_integer_value(first) == -1)) return no_layer(o);
  return made(json_pack("{s:s, s:o}", "type", "reshape", "target_shape", without_batch(shape, 0)), out);
}

static shoal_status transpose(const operation *o, json_t **out) {
  const json_t *axes = argument(o, 1, "axes");
  if (!json_is_array(axes) || json_integer_value(json_array_get(axes, 0)) != 0) return no_layer(o);
  return made(json_pack("{s:s, s:o}", "type", "permute", "dims", without_batch(axes, 0)), out);
}

static shoal_status one_hot(const operation *o, json_t **out) {
  const json_t *classes = argument(o, 1, "num_classes");
  if (!json_is_integer(classes)) return no_layer(o);
  return made(json_pack("{s:s, s:I, s:s}", "type", "category_encoding", "num_tokens", json_integer_value(classes),
                        "output_mode", "one_hot"),
              out);
}

/* x[:, a:b, ...]: slices of step 1 that leave the batch alone. */
static shoal_status get_item(const operation *o, json_t **out) {
  const json_t *x = json_array_get(o->args, 0), *shape = keras_tensor(x), *key = argument(o, 1, "key");
  json_t *start = json_array(), *size = json_array();
  bool fits = shape && json_is_array(key) && json_array_size(key) <= json_array_size(shape);
  for (size_t i = 0; fits && i < json_array_size(shape); i++) {
    const json_t *one = json_object_get(json_array_get(key, i), "config");
    const json_t *from = json_object_get(one, "start"), *to = json_object_get(one, "stop"),
                 *step = json_object_get(one, "step"), *dim = json_array_get(shape, i);
    if (i < json_array_size(key) && !one) fits = false;
    if (json_is_integer(step) && json_integer_value(step) != 1) fits = false;
    if (i == 0) {
      if (json_is_integer(from) || json_is_integer(to)) fits = false;
      continue;
    }
    const json_int_t n = json_is_integer(dim) ? json_integer_value(dim) : -1;
    json_int_t a = json_is_integer(from) ? json_integer_value(from) : 0,
               b = json_is_integer(to) ? json_integer_value(to) : n;
    if (a < 0) a += n;
    if (b < 0) b += n;
    if (n < 0 ? json_is_integer(from) || json_is_integer(to) : a < 0 || a > n || b < a) fits = false;
    if (b > n) b = n;
    json_array_append_new(start, json_integer(a));
    json_array_append_new(size, json_integer(n < 0 ? -1 : b - a));
  }
  if (fits) return made(json_pack("{s:s, s:o, s:o}", "type", "slice", "start", start, "size", size), out);
  json_decref(start);
  json_decref(size);
  return no_layer(o);
}

static shoal_status function(const operation *o, json_t **out) {
  char name[KERAS_NAME];
  keras_snake_case(o->name, name);
  return made(json_pack("{s:s, s:s}", "type", "activation", "activation", !strcmp(name, "exp") ? "exponential" : name),
              out);
}

static shoal_status nothing(const operation *o, json_t **out) {
  const char *dtype = json_string_value(argument(o, 1, "dtype"));
  if (dtype && strcmp(dtype, "float32")) return no_layer(o);
  return made(json_pack("{s:s}", "type", "identity"), out);
}

static const struct {
  const char *name;
  shoal_status (*describe)(const operation *o, json_t **out);
} operations[] = {
    {"Add", arithmetic},        {"Subtract", arithmetic}, {"Multiply", arithmetic}, {"Divide", arithmetic},
    {"TrueDivide", arithmetic}, {"Maximum", arithmetic},  {"Minimum", arithmetic},  {"Stack", join},
    {"Concatenate", join},      {"Cumsum", running_sum},  {"Sort", sorted},         {"TopK", top_k},
    {"Reshape", reshape},       {"Transpose", transpose}, {"GetItem", get_item},    {"OneHot", one_hot},
    {"Cast", nothing},          {"Identity", nothing},    {"Relu", function},       {"Relu6", function},
    {"Sigmoid", function},      {"Tanh", function},       {"Softmax", function},    {"LogSoftmax", function},
    {"Softplus", function},     {"Softsign", function},   {"Silu", function},       {"Gelu", function},
    {"Elu", function},          {"Selu", function},       {"LeakyRelu", function},  {"HardSigmoid", function},
    {"HardTanh", function},     {"Exp", function},
};

shoal_status keras_operation(const char *name, const char *layer, const json_t *config, const json_t *args,
                             const json_t *kwargs, json_t **description) {
  const operation o = {name, layer, config, args, kwargs};
  for (size_t i = 0; i < COUNT_OF(operations); i++)
    if (!strcmp(operations[i].name, name)) return operations[i].describe(&o, description);
  return no_layer(&o);
}
