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

/* Whether the operation is along the last axis, as it is by default. */
static bool along_last(const operation *o, size_t place) {
  const json_t *axis = argument(o, place, "axis"), *shape = keras_tensor(json_array_get(o->args, 0));
  const json_int_t number = json_integer_value(axis);
  return !axis ||
         (json_is_integer(axis) && (number == -1 || (shape && number + 1 == (json_int_t)json_array_size(shape))));
}

static shoal_status one_hot(const operation *o, json_t **out) {
  const json_t *classes = argument(o, 1, "num_classes"), *axis = json_object_get(o->config, "axis");
  if (!json_is_integer(classes) || (axis && json_integer_value(axis) != -1)) return no_layer(o);
  return made(json_pack("{s:s, s:I}", "type", "one_hot", "num_classes", json_integer_value(classes)), out);
}

/* ---- products */

static shoal_status einsum(const operation *o, json_t **out) {
  const char *equation = json_string_value(json_object_get(o->config, "subscripts"));
  if (!equation) return no_layer(o);
  return made(json_pack("{s:s, s:s}", "type", "einsum", "equation", equation), out);
}

/* Stacks of matrices with the batch as their first axis. */
static shoal_status matmul(const operation *o, json_t **out) {
  static const char *const equations[] = {[3] = "bij,bjk->bik", [4] = "bcij,bcjk->bcik", [5] = "bcdij,bcdjk->bcdik"};
  const json_t *a = keras_tensor(json_array_get(o->args, 0)), *b = keras_tensor(json_array_get(o->args, 1));
  const size_t rank = json_array_size(a);
  if (rank < 3 || rank >= COUNT_OF(equations) || json_array_size(b) != rank) return no_layer(o);
  for (size_t i = 1; i + 2 < rank; i++)
    if (!json_equal(json_array_get(a, i), json_array_get(b, i))) return no_layer(o); /* one of them is repeated */
  return made(json_pack("{s:s, s:s}", "type", "einsum", "equation", equations[rank]), out);
}

/* ---- conditions */

static shoal_status compare(const operation *o, json_t **out) {
  char name[KERAS_NAME];
  const json_t *x = json_array_get(o->args, 0), *with = json_array_get(o->args, 1);
  if (!keras_tensor(x) || !(keras_tensor(with) || json_is_number(with))) return no_layer(o);
  json_t *layer = json_pack("{s:s, s:s}", "type", "compare", "relation", keras_snake_case(o->name, name));
  if (json_is_number(with)) json_object_set(layer, "value", (json_t *)with);
  return made(layer, out);
}

static shoal_status where(const operation *o, json_t **out) {
  static const char *const names[] = {NULL, "then", "else"};
  json_t *layer = json_pack("{s:s}", "type", "where");
  bool fits = keras_tensor(json_array_get(o->args, 0)) != NULL;
  for (size_t i = 1; i < 3; i++) {
    const json_t *one = argument(o, i, i == 1 ? "x1" : "x2");
    if (json_is_number(one)) json_object_set(layer, names[i], (json_t *)one);
    fits = fits && (json_is_number(one) || keras_tensor(one));
  }
  if (fits) return made(layer, out);
  json_decref(layer);
  return no_layer(o);
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

/* ---- functions of each element */

static shoal_status activation(const char *name, json_t **out) {
  return made(json_pack("{s:s, s:s}", "type", "activation", "activation", name), out);
}

static shoal_status function(const operation *o, json_t **out) {
  static const char *const others[][2] = {{"exp", "exponential"}, {"hard_silu", "hard_swish"}};
  char name[KERAS_NAME];
  keras_snake_case(o->name, name);
  for (size_t i = 0; i < COUNT_OF(others); i++)
    if (!strcmp(others[i][0], name)) return activation(others[i][1], out);
  return activation(name, out);
}

/* Keras' operation takes the approximation by tanh unless told otherwise, its activation does not. */
static shoal_status gelu(const operation *o, json_t **out) {
  return activation(json_is_false(argument(o, 1, "approximate")) ? "gelu" : "gelu_tanh", out);
}

static shoal_status normalized(const operation *o, json_t **out) {
  char name[KERAS_NAME];
  const json_t *axis = argument(o, 1, "axis");
  if (along_last(o, 1)) return activation(keras_snake_case(o->name, name), out);
  if (strcmp(o->name, "Softmax") || !json_is_integer(axis)) return no_layer(o);
  return made(json_pack("{s:s, s:O}", "type", "softmax", "axis", axis), out);
}

/* Those with a number: a layer that has it, or none (then the activation has a fixed one). */
static const struct {
  const char *name, *argument, *layer;
  double usual;
} with_parameter[] = {{"LeakyRelu", "negative_slope", "leaky_relu", 0.2},
                      {"Elu", "alpha", "elu", 1},
                      {"Celu", "alpha", NULL, 1},
                      {"HardShrink", "threshold", NULL, 0.5},
                      {"SoftShrink", "threshold", NULL, 0.5},
                      {"Squareplus", "b", NULL, 4}};

static shoal_status parametric(const operation *o, json_t **out) {
  for (size_t i = 0; i < COUNT_OF(with_parameter); i++) {
    if (strcmp(with_parameter[i].name, o->name)) continue;
    const json_t *given = argument(o, 1, with_parameter[i].argument);
    const double number = json_is_number(given) ? json_number_value(given) : with_parameter[i].usual;
    if (with_parameter[i].layer)
      return made(json_pack("{s:s, s:f}", "type", with_parameter[i].layer, with_parameter[i].argument, number), out);
    if (number == with_parameter[i].usual) return function(o, out);
  }
  return no_layer(o);
}

static shoal_status threshold(const operation *o, json_t **out) {
  const json_t *at = argument(o, 1, "threshold"), *value = argument(o, 2, "default_value");
  if (!json_is_number(at) || !json_is_number(value)) return no_layer(o);
  return made(json_pack("{s:s, s:O, s:O}", "type", "threshold", "threshold", at, "default_value", value), out);
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
    {"Add", arithmetic},
    {"Subtract", arithmetic},
    {"Multiply", arithmetic},
    {"Divide", arithmetic},
    {"TrueDivide", arithmetic},
    {"Maximum", arithmetic},
    {"Minimum", arithmetic},
    {"Stack", join},
    {"Concatenate", join},
    {"Cumsum", running_sum},
    {"Sort", sorted},
    {"TopK", top_k},
    {"Reshape", reshape},
    {"Transpose", transpose},
    {"GetItem", get_item},
    {"OneHot", one_hot},
    {"Cast", nothing},
    {"Identity", nothing},
    {"Relu", function},
    {"Relu6", function},
    {"Sigmoid", function},
    {"Tanh", function},
    {"Softmax", normalized},
    {"LogSoftmax", normalized},
    {"Softplus", function},
    {"Softsign", function},
    {"Silu", function},
    {"Gelu", gelu},
    {"Elu", parametric},
    {"Selu", function},
    {"LeakyRelu", parametric},
    {"HardSigmoid", function},
    {"HardTanh", function},
    {"Exp", function},
    {"HardSilu", function},
    {"LogSigmoid", function},
    {"TanhShrink", function},
    {"SparsePlus", function},
    {"SparseSigmoid", function},
    {"Glu", normalized},

    {"Celu", parametric},
    {"HardShrink", parametric},
    {"SoftShrink", parametric},
    {"Squareplus", parametric},
    {"Threshold", threshold},
    {"Einsum", einsum},
    {"Matmul", matmul},
    {"Where", where},
    {"Greater", compare},
    {"GreaterEqual", compare},
    {"Less", compare},
    {"LessEqual", compare},
    {"Equal", compare},
    {"NotEqual", compare},

};

shoal_status keras_operation(const char *name, const char *layer, const json_t *config, const json_t *args,
                             const json_t *kwargs, json_t **description) {
  const operation o = {name, layer, config, args, kwargs};
  for (size_t i = 0; i < COUNT_OF(operations); i++)
    if (!strcmp(operations[i].name, name)) return operations[i].describe(&o, description);
  return no_layer(&o);
}
