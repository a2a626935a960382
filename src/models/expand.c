#include "models/expand.h"

#include "base/mem.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

#define LAYERS_MAX 20000
#define DEPTH_MAX 16 /* of blocks in blocks */

/* ---- parameters */

static shoal_status unknown_parameter(const char *name, const json_t *values) {
  const char *names[64], *key;
  size_t n = 0;
  json_t *value;
  json_object_foreach ((json_t *)values, key, value)
    if (n < COUNT_OF(names)) names[n++] = key;
  return status_unknown("parameter", name, names, n);
}

static shoal_status substitute(json_t *value, const json_t *values, json_t **out);

static shoal_status substitute_inside(json_t *value, const json_t *values) {
  const char *key;
  size_t i;
  json_t *item, *to;
  void *next;
  if (json_is_array(value)) {
    json_array_foreach (value, i, item) {
      TRY(substitute(item, values, &to));
      if (json_array_set_new(value, i, to)) return status_no_memory();
    }
  } else if (json_is_object(value)) {
    json_object_foreach_safe(value, next, key, item) {
      TRY(substitute(item, values, &to));
      if (json_object_set_new(value, key, to)) return status_no_memory();
    }
  }
  return NULL;
}

/* *out: a reference of the caller's. */
static shoal_status substitute(json_t *value, const json_t *values, json_t **out) {
  const char *word = json_string_value(value);
  if (word && word[0] == '$') {
    json_t *to = json_object_get(values, word + 1);
    if (!to) return unknown_parameter(word + 1, values);
    *out = json_deep_copy(to);
    return *out ? NULL : status_no_memory();
  }
  TRY(substitute_inside(value, values));
  *out = json_incref(value);
  return NULL;
}

shoal_status expand_parameters(const json_t *value, const json_t *values, json_t **out) {
  json_t *copy = json_deep_copy(value);
  if (!copy) return status_no_memory();
  shoal_status status = substitute(copy, values, out);
  json_decref(copy);
  return status;
}

shoal_status expand_check_keys(const json_t *object, const char *const *keys, const char *what) {
  const char *key;
  json_t *value;
  size_t n = 0;
  while (keys[n]) n++;
  json_object_foreach ((json_t *)object, key, value) {
    size_t i = 0;
    while (i < n && strcmp(keys[i], key)) i++;
    if (i == n && strcmp(key, "comment")) return status_wrap(status_unknown("key", key, keys, n), "%s", what);
  }
  return NULL;
}

/* ---- writing out */

typedef struct {
  const json_t *file;
  json_t *layers;  /* array, as in expand.h */
  json_t *calls;   /* array; inputs are names as written, with the scope before them */
  json_t *results; /* object: name -> the result it stands for */
} expansion;

/* A list of layers inside a scope. */
typedef struct {
  const char *prefix; /* "" or "block/" */
  const json_t *values;
  const char *const *inputs; /* results that the scope is given */
  int n_inputs;
  json_t *taken; /* object: names in this scope */
  int depth;
} scope;

static shoal_status set_result(expansion *e, const char *name, const char *result) {
  return json_object_set_new(e->results, name, json_string(result)) ? status_no_memory() : NULL;
}

/* "input", "input_1" ... of a block are what it is applied to. */
static const char *block_input(const scope *s, const char *name) {
  int64_t i = 0;
  if (!s->depth || strncmp(name, "input", 5)) return NULL;
  if (name[5] && (name[5] != '_' || !shoal_parse_int(name + 6, &i))) return NULL;
  return i >= 0 && i < s->n_inputs ? s->inputs[i] : NULL;
}

/* One call's inputs as names: with the scope before them. */
static shoal_status read_inputs(const scope *s, const json_t *given, const char *layer, json_t **out) {
  json_t *list = json_array();
  if (!list) return status_no_memory();
  const size_t n = json_is_array(given) ? json_array_size(given) : 1;
  for (size_t i = 0; i < n; i++) {
    const char *name = json_string_value(json_is_array(given) ? json_array_get(given, i) : given);
    if (!name) {
      json_decref(list);
      return status_make(SHOAL_ERR_ARGUMENT, "layer %s: inputs must be names of layers or inputs", layer);
    }
    const char *outer = block_input(s, name);
    json_t *full = outer ? json_string(outer) : json_sprintf("%s%s", s->prefix, name);
    if (json_array_append_new(list, full)) {
      json_decref(list);
      return status_no_memory();
    }
  }
  *out = list;
  return NULL;
}

/* The calls that a layer's "inputs" describe: a list of lists has several. */
static shoal_status read_calls(const scope *s, const json_t *given, const char *layer, const char *before,
                               json_t **out) {
  json_t *calls = json_array(), *one = NULL;
  shoal_status status = calls ? NULL : status_no_memory();
  if (!status && !given) {
    one = before ? json_pack("[s]", before) : NULL;
    status = one ? NULL
                 : status_make(SHOAL_ERR_ARGUMENT, "layer %s: it is the first one, and the model has no input", layer);
    if (!status && json_array_append_new(calls, one)) status = status_no_memory();
  } else if (!status) {
    const bool several = json_is_array(json_array_get(given, 0));
    for (size_t i = 0; !status && i < (several ? json_array_size(given) : 1); i++) {
      status = read_inputs(s, several ? json_array_get(given, i) : given, layer, &one);
      if (!status && json_array_append_new(calls, one)) status = status_no_memory();
    }
  }
  if (status)
    json_decref(calls);
  else
    *out = calls;
  return status;
}

/* The layer's own name, or a new one after its type. Takes `said`'s place in the scope's names. */
static shoal_status choose_name(const scope *s, const char *said, const char *type, int repetition, char **out) {
  char *name = NULL;
  const char *stem = said ? said : type;
  int n = said && repetition ? asprintf(&name, "%s_%d", stem, repetition) : asprintf(&name, "%s", stem);
  for (int i = 1; n >= 0 && !said && json_object_get(s->taken, name); i++) {
    free(name);
    n = asprintf(&name, "%s_%d", stem, i);
  }
  if (n < 0) return status_no_memory();
  if (repetition && said && json_object_get(s->taken, name)) {
    shoal_status status = status_make(SHOAL_ERR_ARGUMENT, "two layers are called %s%s", s->prefix, name);
    free(name);
    return status;
  }
  if (json_object_set_new(s->taken, name, json_true())) {
    free(name);
    return status_no_memory();
  }
  *out = name;
  return NULL;
}

static shoal_status expand_scope(expansion *e, const scope *s, const json_t *list, char **last);

/* A block's parameters with the values that a layer gives them. */
static shoal_status block_values(const json_t *block, const json_t *layer, const scope *s, const char *name,
                                 json_t **out) {
  const json_t *declared = json_object_get(block, "parameters");
  const char *key;
  json_t *value, *values = json_deep_copy(s->values);
  static const char *const own[] = {"type", "name", "inputs", "repeat", "comment"};
  shoal_status status = values ? NULL : status_no_memory();
  if (!status && declared && json_object_update(values, (json_t *)declared)) status = status_no_memory();
  if (!status)
    json_object_foreach ((json_t *)layer, key, value) {
      size_t i = 0;
      while (i < COUNT_OF(own) && strcmp(own[i], key)) i++;
      if (i < COUNT_OF(own)) continue;
      if (!json_object_get(declared, key)) {
        status = status_wrap(unknown_parameter(key, declared), "layer %s", name);
        break;
      }
      if (json_object_set(values, key, value)) status = status_no_memory();
    }
  if (status)
    json_decref(values);
  else
    *out = values;
  return status;
}

static shoal_status expand_block(expansion *e, const scope *s, const json_t *block, const json_t *layer,
                                 const char *full, json_t *calls, char **result) {
  if (s->depth >= DEPTH_MAX)
    return status_make(SHOAL_ERR_ARGUMENT, "layer %s: blocks contain each other without end", full);
  if (json_array_size(calls) != 1)
    return status_make(SHOAL_ERR_ARGUMENT, "layer %s: a block is applied once; name a layer of it twice instead", full);
  json_t *one = json_array_get(calls, 0), *values = NULL, *taken = json_object();
  const size_t n = json_array_size(one);
  const char **inputs = calloc(n + 1, sizeof *inputs);
  char *prefix = NULL;
  shoal_status status = inputs && taken ? NULL : status_no_memory();
  for (size_t i = 0; inputs && i < n; i++) inputs[i] = json_string_value(json_array_get(one, i));
  if (!status) status = block_values(block, layer, s, full, &values);
  if (!status && asprintf(&prefix, "%s/", full) < 0) status = status_no_memory();
  if (!status) {
    scope inner = {prefix, values, inputs, (int)n, taken, s->depth + 1};
    status = expand_scope(e, &inner, json_object_get(block, "layers"), result);
  }
  free(prefix);
  free(inputs);
  json_decref(values);
  json_decref(taken);
  return status;
}

static shoal_status add_layer(expansion *e, const json_t *layer, const char *full, const char *type, json_t *calls,
                              char **result) {
  static const char *const own[] = {"type", "name", "inputs", "repeat", "comment", "trainable"};
  json_t *attributes = json_deep_copy(layer);
  const json_t *trainable = json_object_get(layer, "trainable");
  for (size_t i = 0; i < COUNT_OF(own); i++) json_object_del(attributes, own[i]);
  if (trainable && !json_is_boolean(trainable)) {
    json_decref(attributes);
    return status_make(SHOAL_ERR_ARGUMENT, "layer %s: trainable must be true or false", full);
  }
  if (json_array_size(e->layers) >= LAYERS_MAX) {
    json_decref(attributes);
    return status_make(SHOAL_ERR_ARGUMENT, "the model has more than %d layers", LAYERS_MAX);
  }
  json_t *row = json_pack("{s:s, s:s, s:b, s:o}", "name", full, "type", type, "trainable",
                          !trainable || json_is_true(trainable), "attributes", attributes);
  if (json_array_append_new(e->layers, row)) return status_no_memory();
  for (size_t i = 0; i < json_array_size(calls); i++) {
    json_t *name = i ? json_sprintf("%s:%zu", full, i) : json_string(full);
    json_t *call = json_pack("{s:s, s:o, s:O}", "layer", full, "result", name, "inputs", json_array_get(calls, i));
    if (json_array_append_new(e->calls, call)) return status_no_memory();
    TRY(set_result(e, json_string_value(name), json_string_value(name)));
  }
  *result = strdup(full);
  return *result ? NULL : status_no_memory();
}

/* One entry of a list, once. before: the result that it is applied to unless it says. */
static shoal_status expand_one(expansion *e, const scope *s, const json_t *layer, int repetition, const char *before,
                               char **result) {
  const char *type = json_string_value(json_object_get(layer, "type"));
  const char *said = json_string_value(json_object_get(layer, "name"));
  const json_t *block = json_object_get(json_object_get(e->file, "blocks"), type);
  char *name = NULL, *full = NULL;
  json_t *calls = NULL;
  TRY(choose_name(s, said, type, repetition, &name));
  shoal_status status = asprintf(&full, "%s%s", s->prefix, name) < 0 ? status_no_memory() : NULL;
  free(name);
  if (status) return status;
  status = read_calls(s, repetition ? NULL : json_object_get(layer, "inputs"), full, before, &calls);
  if (!status && block)
    status = expand_block(e, s, block, layer, full, calls, result);
  else if (!status)
    status = add_layer(e, layer, full, type, calls, result);
  if (!status && block) status = set_result(e, full, *result);
  json_decref(calls);
  free(full);
  return status;
}

static shoal_status check_entry(const scope *s, const json_t *layer, size_t at) {
  if (!json_is_object(layer) || !json_is_string(json_object_get(layer, "type")))
    return status_make(SHOAL_ERR_ARGUMENT, "layer %zu of %s: expected an object with a \"type\"", at + 1,
                       *s->prefix ? s->prefix : "the list");
  const json_t *name = json_object_get(layer, "name"), *repeat = json_object_get(layer, "repeat");
  const char *word = json_string_value(name);
  if (name && (!word || !*word || strpbrk(word, ":$") || word[0] == '/' || word[strlen(word) - 1] == '/'))
    return status_make(SHOAL_ERR_ARGUMENT, "layer %zu: a name is a text without : $, and / only inside", at + 1);
  if (repeat && (!json_is_integer(repeat) || json_integer_value(repeat) < 1 || json_integer_value(repeat) > 1000))
    return status_make(SHOAL_ERR_ARGUMENT, "layer %zu: repeat is a number from 1 to 1000", at + 1);
  return NULL;
}

/* So that layers without a name are not called as one with it. */
static shoal_status take_names(const scope *s, const json_t *list) {
  for (size_t i = 0; i < json_array_size(list); i++) {
    const char *name = json_string_value(json_object_get(json_array_get(list, i), "name"));
    if (!name) continue;
    if (json_object_get(s->taken, name))
      return status_make(SHOAL_ERR_ARGUMENT, "two layers are called %s%s; give one of them another name", s->prefix,
                         name);
    if (json_object_set_new(s->taken, name, json_true())) return status_no_memory();
  }
  return NULL;
}

static shoal_status expand_scope(expansion *e, const scope *s, const json_t *list, char **last) {
  char *before = s->n_inputs ? strdup(s->inputs[0]) : NULL;
  shoal_status status = take_names(s, list);
  for (size_t i = 0; !status && i < json_array_size(list); i++) {
    json_t *layer = NULL;
    status = expand_parameters(json_array_get(list, i), s->values, &layer);
    if (!status) status = check_entry(s, layer, i);
    const json_t *repeat = json_object_get(layer, "repeat");
    const int times = repeat ? (int)json_integer_value(repeat) : 1;
    for (int k = 0; !status && k < times; k++) {
      char *result = NULL;
      status = expand_one(e, s, layer, k, before, &result);
      if (status) break;
      free(before);
      before = result;
    }
    json_decref(layer);
  }
  if (status || !before || !json_array_size(list)) {
    free(before);
    return status ? status : status_make(SHOAL_ERR_ARGUMENT, "%s has no layers", *s->prefix ? s->prefix : "the model");
  }
  *last = before;
  return NULL;
}

/* ---- the order of calls */

static shoal_status unknown_input(const expansion *e, const char *layer, const char *name) {
  const char *key, *names[256];
  json_t *value;
  size_t n = 0;
  json_object_foreach (e->results, key, value)
    if (n < COUNT_OF(names)) names[n++] = key;
  const char *near = text_nearest(name, names, n);
  return status_make(SHOAL_ERR_ARGUMENT, "layer %s: unknown layer or input '%s'%s%s%s", layer, name,
                     near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

/* Names become results. */
static shoal_status resolve(expansion *e) {
  for (size_t i = 0; i < json_array_size(e->calls); i++) {
    const json_t *call = json_array_get(e->calls, i);
    json_t *inputs = json_object_get(call, "inputs");
    for (size_t k = 0; k < json_array_size(inputs); k++) {
      const char *name = json_string_value(json_array_get(inputs, k));
      json_t *result = json_object_get(e->results, name);
      if (!result) return unknown_input(e, json_string_value(json_object_get(call, "layer")), name);
      if (json_array_set(inputs, k, result)) return status_no_memory();
    }
  }
  return NULL;
}

static const json_t *find_call(const expansion *e, const char *result) {
  for (size_t i = 0; i < json_array_size(e->calls); i++) {
    const json_t *call = json_array_get(e->calls, i);
    if (!strcmp(json_string_value(json_object_get(call, "result")), result)) return call;
  }
  return NULL;
}

/* The input of a call that is not there yet; NULL: all are. */
static const char *missing_input(const json_t *call, const json_t *made) {
  const json_t *inputs = json_object_get(call, "inputs");
  for (size_t k = 0; k < json_array_size(inputs); k++) {
    const char *name = json_string_value(json_array_get(inputs, k));
    if (!json_object_get(made, name)) return name;
  }
  return NULL;
}

/* From a call that waits along what it waits for, until one comes again. */
static shoal_status describe_cycle(const expansion *e, const json_t *made, const json_t *call) {
  json_t *seen = json_object();
  text path = {0};
  const char *at = json_string_value(json_object_get(call, "result"));
  while (seen && at && !json_object_get(seen, at)) {
    json_object_set_new(seen, at, json_true());
    at = missing_input(find_call(e, at), made);
  }
  const char *first = at;
  do {
    text_add(&path, "%s -> ", at);
    at = at ? missing_input(find_call(e, at), made) : NULL;
  } while (at && strcmp(at, first));
  text_add(&path, "%s", first);
  shoal_status status =
      status_make(SHOAL_ERR_ARGUMENT, "layers form a cycle: %s (each uses the next one)", path.data ? path.data : "?");
  text_fini(&path);
  json_decref(seen);
  return status;
}

static shoal_status sort_calls(expansion *e, const char *const *inputs, int n_inputs) {
  json_t *made = json_object(), *sorted = json_array();
  shoal_status status = made && sorted ? NULL : status_no_memory();
  for (int i = 0; !status && i < n_inputs; i++) json_object_set_new(made, inputs[i], json_true());
  const size_t n = json_array_size(e->calls);
  bool *done = calloc(n + 1, sizeof *done), moved = true;
  if (!done) status = status_no_memory();
  /* In the order of the file as far as it goes; each round takes what has become possible. */
  for (size_t left = n; !status && left && moved;) {
    moved = false;
    for (size_t i = 0; i < n; i++) {
      json_t *call = json_array_get(e->calls, i);
      if (done[i] || missing_input(call, made)) continue;
      json_object_set_new(made, json_string_value(json_object_get(call, "result")), json_true());
      json_array_append(sorted, call);
      done[i] = moved = true;
      left--;
    }
  }
  for (size_t i = 0; !status && i < n; i++)
    if (!done[i]) status = describe_cycle(e, made, json_array_get(e->calls, i));
  if (!status) {
    json_decref(e->calls);
    e->calls = json_incref(sorted);
  }
  free(done);
  json_decref(made);
  json_decref(sorted);
  return status;
}

shoal_status expand_layers(const json_t *file, const json_t *values, const char *const *inputs, int n_inputs,
                           json_t **out) {
  expansion e = {file, json_array(), json_array(), json_object()};
  json_t *taken = json_object();
  char *last = NULL;
  shoal_status status = e.layers && e.calls && e.results && taken ? NULL : status_no_memory();
  for (int i = 0; !status && i < n_inputs; i++) {
    status = set_result(&e, inputs[i], inputs[i]);
    if (!status && json_object_set_new(taken, inputs[i], json_true())) status = status_no_memory();
  }
  scope top = {"", values, inputs, n_inputs, taken, 0};
  if (!status) status = expand_scope(&e, &top, json_object_get(file, "layers"), &last);
  if (!status) status = resolve(&e);
  if (!status) status = sort_calls(&e, inputs, n_inputs);
  if (!status)
    *out = json_pack("{s:O, s:O, s:O, s:s}", "layers", e.layers, "calls", e.calls, "results", e.results, "last", last);
  if (!status && !*out) status = status_no_memory();
  free(last);
  json_decref(taken);
  json_decref(e.layers);
  json_decref(e.calls);
  json_decref(e.results);
  return status;
}
