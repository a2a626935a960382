/* A config of Keras as a model description: models inside models are taken apart, and their layers are called
 * MODEL/LAYER. */
#include "base/mem.h"
#include "exchange/keras.h"

#include <stdio.h>
#include <string.h>

enum { DEPTH_MAX = 16 /* models inside models */ };

typedef struct {
  const hdf5_file *file; /* NULL: no numbers */
  text *notes;
  json_t *inputs, *layers; /* of the description, growing */
  json_t *by_name;         /* name -> its object in `layers`, borrowed */
  keras_weights *weights;
  const json_t *assets; /* path of a layer -> lines of its vocabulary */
} conversion;

/* A model under way: what its layers' results are called in the description. */
typedef struct {
  const char *prefix; /* "" or "tower/" */
  const char *path;   /* "" or "layers/functional/" */
  json_t *results;    /* "LAYER CALL" -> name, or list of names */
  int depth;
} model_scope;

static shoal_status malformed(const char *what) {
  return status_make(SHOAL_ERR_INPUT,
                     "%s: the config is not one that Keras 3 has written; save the model again with it", what);
}

static const char *text_at(const json_t *o, const char *key) { return json_string_value(json_object_get(o, key)); }

static bool is_model(const char *class) {
  return !strcmp(class, "Functional") || !strcmp(class, "Sequential") || !strcmp(class, "Model");
}

/* ---- results of layers */

static shoal_status set_result(model_scope *s, const char *layer, size_t call, json_t *names) {
  char *key = NULL;
  if (asprintf(&key, "%s %zu", layer, call) < 0) key = NULL;
  const bool kept = key && !json_object_set_new(s->results, key, names);
  free(key);
  return kept ? NULL : status_no_memory();
}

/* What the description calls [layer, call, output]. */
static shoal_status find_result(const model_scope *s, const json_t *history, const char **out) {
  const char *layer = json_string_value(json_array_get(history, 0));
  const json_int_t call = json_integer_value(json_array_get(history, 1)),
                   output = json_integer_value(json_array_get(history, 2));
  char *key = NULL;
  if (!layer) return malformed("a tensor without a layer");
  if (asprintf(&key, "%s %lld", layer, (long long)call) < 0) return status_no_memory();
  const json_t *names = json_object_get(s->results, key);
  free(key);
  if (json_is_array(names))
    *out = json_string_value(json_array_get(names, (size_t)output));
  else
    *out = output == 0 ? json_string_value(names) : NULL;
  if (!names) return status_make(SHOAL_ERR_INPUT, "layer '%s' is used before it is defined, or does not exist", layer);
  if (json_is_null(names))
    return status_make(SHOAL_ERR_INPUT, "layer '%s': the result of the operation is used other than as a mask", layer);
  if (!*out)
    return status_make(SHOAL_ERR_INPUT, "layer '%s': its result number %lld is used; only the first one is supported",
                       layer, (long long)output);
  return NULL;
}

/* Does the tensor come from one of the operations that masks are made with? */
static bool is_mask(const model_scope *s, const json_t *value) {
  const json_t *history = json_object_get(json_object_get(value, "config"), "keras_history");
  const char *layer = json_string_value(json_array_get(history, 0));
  char *key = NULL;
  if (!layer || asprintf(&key, "%s 0", layer) < 0) return false;
  const bool mask = json_is_null(json_object_get(s->results, key));
  free(key);
  return mask;
}

/* All tensors in what a layer was called with, in their order, as names. Masks go from layer to layer by themselves. */
static shoal_status collect(const model_scope *s, const json_t *value, json_t *names) {
  size_t i;
  json_t *one;
  const char *key, *name = NULL;
  if (keras_tensor(value)) {
    TRY(find_result(s, json_object_get(json_object_get(value, "config"), "keras_history"), &name));
    return json_array_append_new(names, json_string(name)) ? status_no_memory() : NULL;
  }
  if (json_is_array(value))
    json_array_foreach ((json_t *)value, i, one) TRY(collect(s, one, names));
  else if (json_is_object(value) && !json_object_get(value, "class_name"))
    json_object_foreach ((json_t *)value, key, one)
      if (strcmp(key, "mask") || !is_mask(s, one)) TRY(collect(s, one, names));
  return NULL;
}

/* Are all tensors that a value holds there? */
static bool is_ready(const model_scope *s, const json_t *value) {
  json_t *names = json_array();
  shoal_status status = collect(s, value, names);
  const bool ready = !status;
  shoal_status_free(status);
  json_decref(names);
  return ready;
}

/* ---- layers */

static shoal_status add_layer(conversion *c, const char *name, json_t *description) {
  if (json_object_get(c->by_name, name)) {
    json_decref(description);
    return status_make(SHOAL_ERR_INPUT, "two layers are called '%s'", name);
  }
  if (json_object_set_new(description, "name", json_string(name)) ||
      json_object_set_new(description, "inputs", json_array()) || json_array_append_new(c->layers, description) ||
      json_object_set(c->by_name, name, description))
    return status_no_memory();
  return NULL;
}

/* One more call of a layer: *result is its name. Calls are a list of lists; one alone is that list. */
static shoal_status add_call(conversion *c, const char *name, json_t *inputs, json_t **result) {
  json_t *layer = json_object_get(c->by_name, name), *calls = json_object_get(layer, "inputs");
  const size_t number = json_array_size(calls);
  if (json_array_append_new(calls, inputs)) return status_no_memory();
  *result = number ? json_sprintf("%s:%zu", name, number) : json_string(name);
  return *result ? NULL : status_no_memory();
}

/* Means and variances that were learned from data are attributes. */
static shoal_status take_statistics(const conversion *c, const char *path, json_t *attributes) {
  static const char *const names[] = {"mean", "variance"};
  for (size_t i = 0; c->file && i < COUNT_OF(names); i++) {
    char *place = NULL;
    if (json_is_number(json_object_get(attributes, names[i])) || json_is_array(json_object_get(attributes, names[i])))
      continue;
    if (asprintf(&place, "%s/vars/%zu", path, i) < 0) return status_no_memory();
    const hdf5_dataset *d = hdf5_find(c->file, place);
    free(place);
    shoal_tensor t;
    if (!d) continue;
    TRY(hdf5_read(c->file, d, &t));
    json_t *list = json_array();
    for (int64_t k = 0; k < shoal_tensor_count(&t); k++)
      json_array_append_new(list, json_real(shoal_tensor_get(&t, k)));
    shoal_tensor_fini(&t);
    if (json_object_set_new(attributes, names[i], list)) return status_no_memory();
  }
  return NULL;
}

static shoal_status unknown_class(const char *layer, const char *class) {
  if (!strcmp(class, "Lambda"))
    return status_make(
        SHOAL_ERR_INPUT,
        "layer '%s' is a Lambda: its code is not run. Write it with layers or keras.ops, and save the model "
        "again",
        layer);
  return status_make(SHOAL_ERR_INPUT,
                     "layer '%s': the class %s is not supported. Replace it by layers that are (docs/exchange.md lists "
                     "them), and save the model again",
                     layer, class);
}

/* A layer with weights or without, the first time it is met. */
static shoal_status make_layer(conversion *c, const json_t *config, const char *class, const char *name,
                               const char *path) {
  const keras_class *k = keras_class_of(class);
  json_t *attributes;
  if (!k) return unknown_class(name, class);
  TRY(keras_attributes(k, name, json_object_get(config, "config"), c->notes, &attributes));
  shoal_status status = !strcmp(k->type, "normalization") ? take_statistics(c, path, attributes) : NULL;
  if (!status) status = keras_layer_weights(k, attributes, name, path, c->weights);
  if (!status && json_is_false(json_object_get(json_object_get(config, "config"), "trainable")) &&
      json_object_set_new(attributes, "trainable", json_false()))
    status = status_no_memory();
  if (!status && json_object_set_new(attributes, "type", json_string(k->type))) status = status_no_memory();
  if (status) {
    json_decref(attributes);
    return status;
  }
  return add_layer(c, name, attributes);
}

static shoal_status add_model(conversion *c, const json_t *model, const char *prefix, const char *path, int depth,
                              json_t *given, json_t **results);

/* What attention was told when it was called. */
static void take_call_options(const conversion *c, const char *name, const json_t *kwargs) {
  if (json_is_true(json_object_get(kwargs, "use_causal_mask")))
    json_object_set_new(json_object_get(c->by_name, name), "use_causal_mask", json_true());
}

typedef struct {
  const json_t *config; /* {"class_name", "config", ...} */
  const char *class, *name;
  char *full, *path; /* with the models around it; in the file of weights */
} met_layer;

/* A layer that makes numbers of words belongs to the input that it is applied to: rows are read so. Takes lookup. */
static shoal_status keep_lookup(conversion *c, const met_layer *l, json_t *lookup, const json_t *inputs) {
  const char *name = json_string_value(json_array_get(inputs, 0));
  size_t i;
  json_t *in, *to = NULL;
  json_array_foreach (c->inputs, i, in)
    if (name && !strcmp(text_at(in, "name"), name)) to = in;
  const json_t *have = json_object_get(to, "lookup");
  const bool other = have && !json_equal(have, lookup);
  const bool failed =
      !to || json_object_set(to, "lookup", lookup) || json_object_set_new(to, "dtype", json_string("int"));
  json_decref(lookup);
  if (!to)
    return status_make(
        SHOAL_ERR_INPUT,
        "layer '%s' (%s): words are made numbers where rows are read, so it has to be applied to an input of the "
        "model",
        l->name, l->class);
  if (other)
    return status_make(
        SHOAL_ERR_INPUT,
        "layer '%s' (%s): the input '%s' goes to another layer that makes other numbers of its words: use two inputs",
        l->name, l->class, name);
  return failed ? status_no_memory() : NULL;
}

static shoal_status make_any(conversion *c, const met_layer *l, const json_t *args, const json_t *kwargs,
                             const json_t *inputs) {
  const char *module = text_at(l->config, "module");
  const json_t *config = json_object_get(l->config, "config");
  json_t *description, *lookup;
  if (module && strstr(module, "ops.")) {
    TRY(keras_operation(l->class, l->full, config, args, kwargs, &description));
    return add_layer(c, l->full, description);
  }
  TRY(keras_lookup(l->class, l->name, config, json_object_get(c->assets, l->path), &description, &lookup));
  if (!description) return make_layer(c, l->config, l->class, l->full, l->path);
  shoal_status status = lookup ? keep_lookup(c, l, lookup, inputs) : NULL;
  if (!status) return add_layer(c, l->full, description);
  json_decref(description);
  return status;
}

/* Applies a layer to tensors; takes inputs. *result: a name, or a list of them. */
static shoal_status apply_layer(conversion *c, const met_layer *l, const json_t *args, const json_t *kwargs, int depth,
                                json_t *inputs, json_t **result) {
  shoal_status status = NULL;
  if (is_model(l->class)) return add_model(c, l->config, l->full, l->path, depth + 1, inputs, result);
  if (!json_object_get(c->by_name, l->full)) status = make_any(c, l, args, kwargs, inputs);
  if (status) {
    json_decref(inputs);
    return status;
  }
  take_call_options(c, l->full, kwargs);
  return add_call(c, l->full, inputs, result);
}

/* ---- models */

static shoal_status add_input(conversion *c, const char *name, const json_t *config) {
  const json_t *shape = json_object_get(config, "batch_shape");
  const char *dtype = text_at(config, "dtype");
  if (!shape) shape = json_object_get(config, "batch_input_shape");
  if (!json_is_array(shape) || !json_array_size(shape))
    return status_make(SHOAL_ERR_INPUT, "input '%s' has no shape: save a model that was built", name);
  json_t *rest = json_array();
  for (size_t i = 1; i < json_array_size(shape); i++) {
    if (!json_is_integer(json_array_get(shape, i))) {
      json_decref(rest);
      return status_make(SHOAL_ERR_INPUT,
                         "input '%s': axis %zu has no fixed size; give Input a shape in which all sizes are numbers",
                         name, i);
    }
    json_array_append(rest, json_array_get(shape, i));
  }
  json_t *input = json_pack("{s:s, s:o}", "name", name, "shape", rest);
  if (dtype && !strcmp(dtype, "string"))
    json_object_set_new(input, "dtype", json_string("string")); /* until a lookup */
  if (dtype && (!strncmp(dtype, "int", 3) || !strncmp(dtype, "uint", 4)))
    json_object_set_new(input, "dtype", json_string("int"));
  return json_array_append_new(c->inputs, input) ? status_no_memory() : NULL;
}

static shoal_status met_init(const json_t *layer, const char *prefix, const char *path, json_t *counts,
                             met_layer *out) {
  const char *class = text_at(layer, "class_name"), *name = text_at(layer, "name");
  const json_t *config = json_object_get(layer, "config");
  char snake[KERAS_NAME];
  if (!name) name = text_at(config, "name");
  if (!class || !name || !json_is_object(config)) return malformed("a layer without class, name or config");
  if (strlen(class) > KERAS_NAME / 2) return malformed("the name of a class");
  met_layer l = {.config = layer, .class = class, .name = name};
  const char *module = text_at(layer, "module");
  keras_snake_case(class, snake);
  json_int_t number = -1;
  if (!module || !strstr(module, "ops.")) { /* operations have no place among layers */
    number = json_integer_value(json_object_get(counts, snake));
    json_object_set_new(counts, snake, json_integer(number + 1));
  }
  if (asprintf(&l.full, "%s%s", prefix, name) < 0) l.full = NULL;
  int n = number > 0 ? asprintf(&l.path, "%slayers/%s_%lld", path, snake, (long long)number)
                     : asprintf(&l.path, "%slayers/%s", path, snake);
  if (!l.full || n < 0) return status_no_memory();
  *out = l;
  return NULL;
}

static void met_fini(met_layer *l) {
  free(l->full);
  free(l->path);
}

static shoal_status add_sequential(conversion *c, const json_t *config, const char *prefix, const char *path, int depth,
                                   json_t *given, json_t **result) {
  json_t *counts = json_object(), *layer;
  json_t *x = json_incref(json_array_get(given, 0));
  size_t i;
  shoal_status status = NULL;
  json_array_foreach (json_object_get(config, "layers"), i, layer) {
    met_layer l = {0};
    status = met_init(layer, prefix, path, counts, &l);
    if (!status && strcmp(l.class, "InputLayer")) {
      json_t *next = NULL, *args = json_pack("[O]", x);
      status =
          x ? apply_layer(c, &l, args, NULL, depth, json_pack("[O]", x), &next) : malformed("a model without input");
      json_decref(args);
      json_decref(x);
      x = next;
    }
    met_fini(&l);
    if (status) break;
  }
  json_decref(counts);
  if (status)
    json_decref(x);
  else
    *result = x;
  return status;
}

/* What Keras computes masks with, as it writes them down. */
static bool makes_mask(const met_layer *l) { return !strcmp(l->class, "NotEqual") || !strcmp(l->class, "Any"); }

/* All calls of a layer. */
static shoal_status call_functional(conversion *c, model_scope *s, const met_layer *l) {
  const json_t *nodes = json_object_get(l->config, "inbound_nodes");
  for (size_t k = 0; k < json_array_size(nodes); k++) {
    const json_t *call = json_array_get(nodes, k), *args = json_object_get(call, "args"),
                 *kwargs = json_object_get(call, "kwargs");
    json_t *inputs = json_array(), *result = NULL;
    if (makes_mask(l)) {
      json_decref(inputs);
      TRY(set_result(s, l->name, k, json_null()));
      continue;
    }
    if (!json_is_array(args)) {
      json_decref(inputs);
      return malformed("the call of a layer");
    }
    shoal_status status = collect(s, args, inputs);
    if (!status) status = collect(s, kwargs, inputs);
    if (status) {
      json_decref(inputs);
      return status_wrap(status, "layer '%s'", l->full);
    }
    TRY(apply_layer(c, l, args, kwargs, s->depth, inputs, &result));
    TRY(set_result(s, l->name, k, result));
  }
  return NULL;
}

/* Either one [layer, call, output], or a list or object of them. */
static shoal_status ports(const json_t *list, json_t *out) {
  size_t i;
  json_t *one;
  const char *key;
  if (json_is_string(json_array_get(list, 0)))
    return json_array_append(out, (json_t *)list) ? status_no_memory() : NULL;
  if (json_is_object(list))
    json_object_foreach ((json_t *)list, key, one) TRY(ports(one, out));
  else
    json_array_foreach ((json_t *)list, i, one) TRY(ports(one, out));
  return NULL;
}

static shoal_status name_outputs(const model_scope *s, const json_t *config, json_t **result) {
  json_t *outputs = json_array(), *names = json_array();
  shoal_status status = ports(json_object_get(config, "output_layers"), outputs);
  for (size_t i = 0; i < json_array_size(outputs) && !status; i++) {
    const char *name;
    status = find_result(s, json_array_get(outputs, i), &name);
    if (!status) json_array_append_new(names, json_string(name));
  }
  json_decref(outputs);
  if (!status && !json_array_size(names)) status = malformed("a model without outputs");
  if (status)
    json_decref(names);
  else
    *result = names;
  return status;
}

static shoal_status bind_inputs(model_scope *s, const json_t *config, const json_t *given) {
  json_t *inputs = json_array();
  shoal_status status = ports(json_object_get(config, "input_layers"), inputs);
  if (!status && json_array_size(inputs) != json_array_size(given)) status = malformed("the inputs of a model");
  for (size_t i = 0; i < json_array_size(inputs) && !status; i++) {
    const char *layer = json_string_value(json_array_get(json_array_get(inputs, i), 0));
    status = layer ? set_result(s, layer, 0, json_incref(json_array_get(given, i))) : malformed("an input");
  }
  json_decref(inputs);
  return status;
}

static bool calls_ready(const model_scope *s, const json_t *layer) {
  const json_t *nodes = json_object_get(layer, "inbound_nodes");
  const char *class = text_at(layer, "class_name");
  if (class && makes_mask(&(met_layer){.class = class})) return true;
  for (size_t k = 0; k < json_array_size(nodes); k++)
    if (!is_ready(s, json_object_get(json_array_get(nodes, k), "args")) ||
        !is_ready(s, json_object_get(json_array_get(nodes, k), "kwargs")))
      return false;
  return true;
}

static shoal_status add_functional(conversion *c, const json_t *config, const char *prefix, const char *path, int depth,
                                   json_t *given, json_t **result) {
  model_scope s = {prefix, path, json_object(), depth};
  json_t *counts = json_object(), *layer;
  size_t i;
  shoal_status status = bind_inputs(&s, config, given);
  const json_t *layers = json_object_get(config, "layers");
  met_layer *met = calloc(json_array_size(layers) + 1, sizeof *met);
  bool *done = calloc(json_array_size(layers) + 1, sizeof *done), progress = true;
  if (!status && (!met || !done)) status = status_no_memory();
  json_array_foreach ((json_t *)layers, i, layer)
    if (!status) status = met_init(layer, prefix, path, counts, &met[i]);
  /* Those first whose inputs are there: a layer that is called several times may stand before some of its inputs. */
  for (bool last = false; !status && (progress || !last); last = !progress) {
    const bool force = !progress; /* nothing is ready: the next one says what it lacks */
    progress = false;
    json_array_foreach ((json_t *)layers, i, layer) {
      if (status || done[i] || (!force && !calls_ready(&s, layer))) continue;
      done[i] = progress = true;
      if (strcmp(met[i].class, "InputLayer")) status = call_functional(c, &s, &met[i]);
    }
  }
  for (i = 0; met && i < json_array_size(layers); i++) met_fini(&met[i]);
  free(met);
  free(done);
  if (!status) status = name_outputs(&s, config, result);
  json_decref(counts);
  json_decref(s.results);
  return status;
}

/* A model applied to tensors; takes given. name: "" of the outermost. */
static shoal_status add_model(conversion *c, const json_t *model, const char *name, const char *path, int depth,
                              json_t *given, json_t **result) {
  const char *class = text_at(model, "class_name");
  const json_t *config = json_object_get(model, "config");
  char *prefix = NULL, *folder = NULL;
  shoal_status status = depth > DEPTH_MAX ? malformed("models inside models are nested too deeply") : NULL;
  if (!status &&
      (asprintf(&prefix, "%s%s", name, *name ? "/" : "") < 0 || asprintf(&folder, "%s%s", path, *path ? "/" : "") < 0))
    status = status_no_memory();
  if (!status && class && !strcmp(class, "Sequential"))
    status = add_sequential(c, config, prefix, folder, depth, given, result);
  else if (!status)
    status = add_functional(c, config, prefix, folder, depth, given, result);
  free(prefix);
  free(folder);
  json_decref(given);
  return status;
}

/* The inputs of the outermost model. */
static shoal_status model_inputs(conversion *c, const json_t *model, json_t *given) {
  const json_t *config = json_object_get(model, "config"), *layers = json_object_get(config, "layers");
  json_t *wanted = json_array(), *layer;
  size_t i, k;
  shoal_status status = ports(json_object_get(config, "input_layers"), wanted);
  for (k = 0; !status && (k < json_array_size(wanted) || (!json_array_size(wanted) && k == 0)); k++) {
    const char *name = json_string_value(json_array_get(json_array_get(wanted, k), 0));
    const json_t *found = NULL;
    json_array_foreach ((json_t *)layers, i, layer) {
      const char *class = text_at(layer, "class_name"), *is = text_at(json_object_get(layer, "config"), "name");
      if (class && !strcmp(class, "InputLayer") && !found && (!name || (is && !strcmp(is, name)))) found = layer;
    }
    const json_t *its = json_object_get(found, "config");
    json_t *made = NULL;
    if (!found && !name) { /* Sequential without Input: the shape it was built with */
      its = made = json_pack("{s:s, s:O?}", "name", "input", "batch_shape",
                             json_object_get(json_object_get(model, "build_config"), "input_shape"));
    }
    const char *called = text_at(its, "name");
    status = called ? add_input(c, called, its) : malformed("a model without inputs");
    if (!status) json_array_append_new(given, json_string(called));
    json_decref(made);
  }
  json_decref(wanted);
  return status;
}

/* A layer that is called once has the list of its inputs alone. */
static void shorten_calls(json_t *layers) {
  size_t i;
  json_t *layer;
  json_array_foreach (layers, i, layer) {
    json_t *calls = json_object_get(layer, "inputs");
    if (json_array_size(calls) == 1) json_object_set(layer, "inputs", json_array_get(calls, 0));
  }
}

static shoal_status check_strings(const json_t *inputs) {
  size_t i;
  json_t *in;
  json_array_foreach ((json_t *)inputs, i, in) {
    const char *dtype = text_at(in, "dtype");
    if (dtype && !strcmp(dtype, "string"))
      return status_make(SHOAL_ERR_INPUT,
                         "input '%s' takes strings: apply StringLookup or Hashing to it, or make numbers of them first",
                         text_at(in, "name"));
  }
  return NULL;
}

shoal_status keras_describe(const json_t *config, const hdf5_file *file, text *notes, json_t **description,
                            keras_weights *weights) {
  const char *class = text_at(config, "class_name"), *name = text_at(json_object_get(config, "config"), "name");
  if (!class || !json_is_array(json_object_get(json_object_get(config, "config"), "layers")))
    return malformed("no layers are found in it");
  if (!is_model(class))
    return status_make(
        SHOAL_ERR_INPUT,
        "the model is of the class %s, a custom class: only Sequential and functional models can be imported", class);
  conversion c = {
      file, notes, json_array(), json_array(), json_object(), weights, json_object_get(config, KERAS_ASSETS)};
  json_t *given = json_array(), *results = NULL;
  shoal_status status = model_inputs(&c, config, given);
  if (!status) status = add_model(&c, config, "", "", 0, json_incref(given), &results);
  if (!status) status = check_strings(c.inputs);
  if (!status) {
    shorten_calls(c.layers);
    json_t *outputs = json_array(), *one;
    size_t i;
    if (json_is_string(results)) json_array_append_new(outputs, json_pack("{s:O}", "layer", results));
    json_array_foreach (results, i, one) json_array_append_new(outputs, json_pack("{s:O}", "layer", one));
    *description = json_pack("{s:i, s:s, s:O, s:O, s:o}", "shoal_model", 1, "name", name ? name : "model", "inputs",
                             c.inputs, "layers", c.layers, "outputs", outputs);
    if (!*description) status = status_no_memory();
  }
  json_decref(results);
  json_decref(given);
  json_decref(c.inputs);
  json_decref(c.layers);
  json_decref(c.by_name);
  return status;
}
