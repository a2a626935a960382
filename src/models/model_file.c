#include "models/model_file.h"

#include "base/json_read.h"
#include "base/json_text.h"
#include "base/mem.h"
#include "base/options.h"
#include "base/text.h"
#include "data/text_ids.h"
#include "models/expand.h"
#include "train/layer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define VERSION 1
#define BYTES_MAX (64 << 20) /* of a file */
#define CLASSES_USUAL 10
#define INPUTS_MAX 64

static const char *const top_keys[] = {"shoal_model", "name",    "summary", "parameters", "inputs",   "blocks",
                                       "layers",      "outputs", "loss",    "metrics",    "training", NULL};

/* ---- what is in the file, beside layers */

/* Not called: model_file_build has the context that it would need. */
static void file_build(shoal_model *m, const shoal_model_options *options) {
  model_fail(m, status_make(SHOAL_ERR_ARGUMENT, "a model from a file is built by shoal_model_kind_build"));
}

const model_file *model_file_of(const shoal_model_kind *kind) {
  return kind && kind->build == file_build ? (const model_file *)kind : NULL;
}

typedef enum { COUNT, REAL, WORD } setting_kind;
typedef struct {
  const char *name;
  setting_kind kind;
  size_t offset;
  double least, most;
} training_key;

#define AT(field) offsetof(shoal_model_kind, field)
static const training_key training_keys[] = {
    {"data", WORD, AT(data), 0, 0},
    {"epochs", COUNT, AT(epochs), 1, 1e9},
    {"batch_size", COUNT, AT(batch_size), 1, 1e7},
    {"lr", REAL, AT(rate), 1e-30, 1e30},
    {"optimizer", WORD, AT(optimizer), 0, 0},
    {"schedule", WORD, AT(schedule), 0, 0},
    {"final_share", REAL, AT(final_share), 0, 1},
    {"decay_factor", REAL, AT(decay_factor), 0, 1e3},
    {"l2", REAL, AT(l2), 0, 1e6},
    {"bias_rate", REAL, AT(bias_rate), 0, 1e6},
    {"top_k", COUNT, AT(top_k), 0, 1e6},
    {"transform", WORD, AT(transform), 0, 0},
};

/* Other settings of a job, which it takes from the file as they are; those of the optimizer first. */
static const char *const job_keys[] = {
    "momentum",        "nesterov",     "beta1",           "beta2",      "epsilon",   "rho",
    "accumulator",     "weight_decay", "average_weights", "clip_value", "clip_norm", "clip_global_norm",
    "label_smoothing", "decay_every",  "warmup",          "accumulate", "columns"};
#define UPDATE_KEYS 8

bool model_file_job_key(const char *key, bool *update) {
  for (size_t i = 0; i < COUNT_OF(job_keys); i++)
    if (!strcmp(job_keys[i], key)) {
      *update = i < UPDATE_KEYS;
      return true;
    }
  return false;
}

static bool is_one_of(const char *const *names, const char *word) {
  for (size_t i = 0; names[i]; i++)
    if (!strcmp(names[i], word)) return true;
  return false;
}

/* The table's own text, which stays when the file is gone. NULL stays NULL. */
static shoal_status keep_name(const char *what, const char *const *names, const char **word) {
  size_t n = 0;
  while (names[n] && *word && strcmp(names[n], *word)) n++;
  if (*word && names[n]) {
    *word = names[n];
    return NULL;
  }
  while (names[n]) n++;
  return *word ? status_unknown(what, *word, names, n) : NULL;
}

static shoal_status read_setting(const training_key *k, const json_t *v, shoal_model_kind *kind) {
  void *field = (char *)kind + k->offset;
  if (k->kind == WORD) {
    if (!json_is_string(v)) return status_make(SHOAL_ERR_ARGUMENT, "training: %s: expected a string", k->name);
    *(const char **)field = json_string_value(v);
    return NULL;
  }
  const double number = json_number_value(v);
  if (!json_is_number(v) || !(number >= k->least && number <= k->most) || (k->kind == COUNT && !json_is_integer(v)))
    return status_make(SHOAL_ERR_ARGUMENT, "training: %s: expected a%s number from %g to %g", k->name,
                       k->kind == COUNT ? " whole" : "", k->least, k->most);
  if (k->kind == REAL)
    *(double *)field = number;
  else if (k->offset == AT(top_k))
    *(int *)field = (int)number;
  else
    *(int64_t *)field = json_integer_value(v);
  return NULL;
}

static shoal_status read_training(const json_t *training, shoal_model_kind *kind) {
  const char *names[COUNT_OF(training_keys) + COUNT_OF(job_keys) + 1] = {0};
  for (size_t i = 0; i < COUNT_OF(training_keys); i++) names[i] = training_keys[i].name;
  memcpy(names + COUNT_OF(training_keys), job_keys, sizeof job_keys);
  kind->epochs = 10;
  kind->batch_size = 32;
  if (training && !json_is_object(training))
    return status_make(SHOAL_ERR_ARGUMENT, "training: expected an object with settings");
  TRY(expand_check_keys(training, names, "training"));
  for (size_t i = 0; i < COUNT_OF(training_keys); i++) {
    const json_t *v = json_object_get(training, training_keys[i].name);
    if (v) TRY(read_setting(&training_keys[i], v, kind));
  }
  for (size_t i = 0; i < COUNT_OF(job_keys); i++) {
    const json_t *v = json_object_get(training, job_keys[i]);
    if (v && !strcmp(job_keys[i], "columns")) {
      if (!json_is_string(v)) return status_make(SHOAL_ERR_ARGUMENT, "training: columns: expected a string");
      continue;
    }
    if (v && !json_is_number(v) && !json_is_boolean(v))
      return status_make(SHOAL_ERR_ARGUMENT, "training: %s: expected a number, or true or false", job_keys[i]);
  }
  TRY(status_wrap(keep_name("optimizer", shoal_optimizer_names(), &kind->optimizer), "training"));
  TRY(status_wrap(keep_name("schedule", shoal_schedule_names(), &kind->schedule), "training"));
  if (!kind->optimizer && kind->rate == 0) kind->optimizer = "adam";
  if (kind->rate == 0) kind->rate = shoal_optimizer_rate(kind->optimizer);
  return NULL;
}

/* ---- inputs */

typedef struct {
  const char *name;
  shoal_shape shape; /* rank 0: as the data has it */
  bool integers;
} file_input;

static shoal_status read_shape(const json_t *v, const char *name, shoal_shape *out) {
  shoal_shape s = {.rank = json_is_integer(v) ? 1 : (int)json_array_size(v)};
  double count = 1;
  bool good = (json_is_integer(v) || json_is_array(v)) && s.rank >= 1 && s.rank < SHOAL_MAX_RANK;
  for (int i = 0; good && i < s.rank; i++) {
    const json_t *one = json_is_integer(v) ? v : json_array_get(v, (size_t)i);
    s.dim[i] = json_integer_value(one);
    good = json_is_integer(one) && s.dim[i] > 0 && s.dim[i] <= INT32_MAX && (count *= (double)s.dim[i]) <= INT32_MAX;
  }
  if (!good)
    return status_make(SHOAL_ERR_ARGUMENT, "input %s: shape: expected sizes above 0 of one example, like [28, 28, 1]",
                       name);
  *out = s;
  return NULL;
}

/* An input whose words are made numbers where the rows are read. */
static shoal_status check_lookup(const json_t *v, const file_input *in, const char *what) {
  static const char *const keys[] = {"vocabulary", "num_oov_indices", "mask_token", "num_bins",
                                     "salt",       "mask_value",      NULL};
  text_ids ids;
  if (shoal_shape_count(&in->shape) != 1 || in->shape.rank != 1)
    return status_make(SHOAL_ERR_ARGUMENT, "%s: lookup: the shape of an input of words is [1]", what);
  if (!json_is_object(v) || (!json_object_get(v, "vocabulary") && !json_object_get(v, "num_bins")))
    return status_make(SHOAL_ERR_ARGUMENT, "%s: lookup: expected an object with a vocabulary, or with num_bins", what);
  TRY(status_wrap(expand_check_keys(v, keys, "lookup"), "%s", what));
  shoal_status status = text_ids_from_json(v, &ids);
  if (!status) {
    text_ids_fini(&ids);
    return NULL;
  }
  shoal_status argument = status_make(SHOAL_ERR_ARGUMENT, "%s: lookup: %s", what, shoal_status_message(status));
  shoal_status_free(status);
  return argument;
}

static shoal_status read_input(const json_t *v, bool several, shoal_model_kind *kind, file_input *out) {
  static const char *const keys[] = {"name", "shape", "accepts", "min_side", "sparse", "dtype", "lookup", NULL};
  static const char *const rules[] = {"fixed", "images", "any", NULL}, *const types[] = {"float", "int", NULL};
  if (!json_is_object(v)) return status_make(SHOAL_ERR_ARGUMENT, "inputs: expected a list of objects");
  file_input in = {.name = json_string_value(json_object_get(v, "name"))};
  const json_t *name = json_object_get(v, "name"), *shape = json_object_get(v, "shape"),
               *rule = json_object_get(v, "accepts"), *side = json_object_get(v, "min_side"),
               *dtype = json_object_get(v, "dtype"), *sparse = json_object_get(v, "sparse"),
               *lookup = json_object_get(v, "lookup");
  if ((name && (!in.name || !*in.name || strpbrk(in.name, "/:$"))) || (several && !name))
    return status_make(SHOAL_ERR_ARGUMENT, "inputs: each of several needs a name, without / : $");
  if (!in.name) in.name = "input";
  char what[128];
  snprintf(what, sizeof what, "input %.100s", in.name);
  TRY(expand_check_keys(v, keys, what));
  if (shape) TRY(read_shape(shape, in.name, &in.shape));
  if (several && !shape)
    return status_make(SHOAL_ERR_ARGUMENT, "input %s: of several inputs each needs a shape", in.name);
  const char *word = rule ? json_string_value(rule) : shape ? "fixed" : "any";
  if (!word || !is_one_of(rules, word))
    return status_wrap(status_unknown("way to accept rows", word ? word : "?", rules, 3), "%s: accepts", what);
  kind->input_rule = !strcmp(word, "any")      ? SHOAL_INPUT_ANY
                     : !strcmp(word, "images") ? SHOAL_INPUT_IMAGE
                                               : SHOAL_INPUT_FIXED;
  if (side && (!json_is_integer(side) || json_integer_value(side) < 1))
    return status_make(SHOAL_ERR_ARGUMENT, "%s: min_side: expected a number of pixels", what);
  kind->input_min = json_integer_value(side);
  word = dtype ? json_string_value(dtype) : "float";
  if (!word || !is_one_of(types, word))
    return status_wrap(status_unknown("type", word ? word : "?", types, 2), "%s: dtype", what);
  in.integers = !strcmp(word, "int") || lookup;
  if (lookup) TRY(check_lookup(lookup, &in, what));
  if (sparse && !json_is_boolean(sparse))
    return status_make(SHOAL_ERR_ARGUMENT, "%s: sparse: expected true or false", what);
  kind->sparse = json_is_true(sparse);
  if (kind->sparse && (several || in.shape.rank != 1))
    return status_make(SHOAL_ERR_ARGUMENT, "%s: sparse rows are the only input, whose shape is the number of features",
                       what);
  *out = in;
  return NULL;
}

/* *out [INPUTS_MAX]. Sets what the kind says of them. */
static shoal_status read_inputs(const json_t *file, shoal_model_kind *kind, file_input *out, int *n) {
  const json_t *list = json_object_get(file, "inputs");
  if (!list) {
    out[0] = (file_input){.name = "input"};
    *n = 1;
    kind->input = SHOAL_SHAPE(1);
    kind->input_rule = SHOAL_INPUT_ANY;
    return NULL;
  }
  if (!json_is_array(list) || json_array_size(list) < 1 || json_array_size(list) > INPUTS_MAX)
    return status_make(SHOAL_ERR_ARGUMENT, "inputs: expected a list of 1 to %d inputs", INPUTS_MAX);
  *n = (int)json_array_size(list);
  int64_t all = 0;
  for (int i = 0; i < *n; i++) {
    TRY(read_input(json_array_get(list, (size_t)i), *n > 1, kind, &out[i]));
    for (int k = 0; k < i; k++)
      if (!strcmp(out[k].name, out[i].name))
        return status_make(SHOAL_ERR_ARGUMENT, "two inputs are called %s", out[i].name);
    all += shoal_shape_count(&out[i].shape);
  }
  kind->input = *n > 1 ? SHOAL_SHAPE(all) : out[0].shape.rank ? out[0].shape : SHOAL_SHAPE(1);
  if (*n > 1) kind->input_rule = SHOAL_INPUT_FIXED;
  return NULL;
}

/* ---- parameters */

static shoal_status read_value(const char *word, const json_t *usual, json_t **out) {
  json_t *v = json_is_string(usual) ? NULL : json_read_words(word, JSON_DECODE_ANY, NULL);
  *out = v ? v : json_string(word);
  return *out ? NULL : status_no_memory();
}

static shoal_status set_value(json_t *values, const json_t *declared, const char *name, const char *word) {
  json_t *usual = json_object_get(declared, name), *value;
  const char *key, *names[64];
  size_t n = 0;
  if (!usual) {
    json_object_foreach ((json_t *)declared, key, value)
      if (n < COUNT_OF(names)) names[n++] = key;
    if (!n) return status_make(SHOAL_ERR_ARGUMENT, "`set` %s: the model has no parameters", name);
    return status_wrap(status_unknown("parameter", name, names, n), "`set`");
  }
  TRY(read_value(word, usual, &value));
  const bool alike = json_typeof(value) == json_typeof(usual) || (json_is_number(value) && json_is_number(usual)) ||
                     (json_is_boolean(value) && json_is_boolean(usual));
  if (!alike) {
    char *have = json_words(usual, JSON_ENCODE_ANY);
    shoal_status status = status_make(SHOAL_ERR_ARGUMENT, "`set` %s=%s: expected a value like %s", name, word,
                                      have ? have : "the usual one");
    free(have);
    json_decref(value);
    return status;
  }
  return json_object_set_new(values, name, value) ? status_no_memory() : NULL;
}

/* "hidden=128,activation=tanh" */
static shoal_status set_values(json_t *values, const json_t *declared, const char *words) {
  char *copy = strdup(words), *rest = copy, *item;
  shoal_status status = copy ? NULL : status_no_memory();
  while (!status && (item = strsep(&rest, ","))) {
    char *equals = strchr(item, '=');
    if (!equals || equals == item) {
      status = status_make(SHOAL_ERR_ARGUMENT, "`set`: NAME=VALUE is expected, not '%s'", item);
      break;
    }
    *equals = 0;
    status = set_value(values, declared, item, equals + 1);
  }
  free(copy);
  return status;
}

/* A setting of its own for a parameter. */
static shoal_status set_named(json_t *values, const json_t *declared, const char *name, const char *word) {
  if (!word) return NULL;
  if (!json_object_get(declared, name))
    return status_make(SHOAL_ERR_ARGUMENT, "`%s` does not apply to this model, which has no such parameter", name);
  return set_value(values, declared, name, word);
}

/* The parameters' values: usual ones, then what the options say. */
static shoal_status parameter_values(const json_t *file, const shoal_model_options *o, json_t **out) {
  const json_t *declared = json_object_get(file, "parameters");
  json_t *values = declared ? json_deep_copy(declared) : json_object();
  shoal_status status = values ? NULL : status_no_memory();
  if (!status) status = set_named(values, declared, "activation", o->activation);
  if (!status) status = set_named(values, declared, "pool", o->pool);
  if (!status) status = set_named(values, declared, "bias", o->bias ? "true" : NULL);
  if (!status && o->set) status = set_values(values, declared, o->set);
  if (status)
    json_decref(values);
  else
    *out = values;
  return status;
}

/* With those that are always there. */
static shoal_status all_values(const json_t *file, const shoal_model_options *o, int64_t inputs, json_t **out) {
  json_t *values;
  TRY(parameter_values(file, o, &values));
  const json_int_t usual = json_integer_value(json_object_get(values, "classes"));
  const json_int_t classes = o->classes ? o->classes : usual > 0 ? usual : CLASSES_USUAL;
  bool failed = json_object_set_new(values, "classes", json_integer(classes)) ||
                json_object_set_new(values, "inputs", json_integer(inputs)) ||
                (!json_object_get(values, "targets") && json_object_set_new(values, "targets", json_integer(1)));
  if (failed) {
    json_decref(values);
    return status_no_memory();
  }
  *out = values;
  return NULL;
}

/* ---- layers */

static shoal_status check_blocks(const json_t *blocks) {
  static const char *const keys[] = {"parameters", "layers", NULL};
  const char *name;
  json_t *block;
  if (blocks && !json_is_object(blocks)) return status_make(SHOAL_ERR_ARGUMENT, "blocks: expected an object");
  json_object_foreach ((json_t *)blocks, name, block) {
    char what[128];
    snprintf(what, sizeof what, "block %.100s", name);
    if (layer_kind_find(name)) return status_make(SHOAL_ERR_ARGUMENT, "%s: this is the name of a layer type", what);
    if (!json_is_object(block) || !json_is_array(json_object_get(block, "layers")))
      return status_make(SHOAL_ERR_ARGUMENT, "%s: expected an object with \"layers\"", what);
    TRY(expand_check_keys(block, keys, what));
    const json_t *parameters = json_object_get(block, "parameters");
    if (parameters && !json_is_object(parameters))
      return status_make(SHOAL_ERR_ARGUMENT, "%s: parameters: expected an object", what);
  }
  return NULL;
}

static void names_of(const file_input *inputs, int n, const char **names) {
  for (int i = 0; i < n; i++) names[i] = inputs[i].name;
}

/* Types and attributes of all layers, with the usual values. */
static shoal_status check_layers(const json_t *file, const file_input *inputs, int n, int64_t numbers) {
  const char *names[INPUTS_MAX];
  json_t *values, *flat = NULL;
  names_of(inputs, n, names);
  TRY(all_values(file, &(shoal_model_options){0}, numbers, &values));
  shoal_status status = expand_layers(file, values, names, n, &flat);
  const json_t *layers = json_object_get(flat, "layers");
  for (size_t i = 0; !status && i < json_array_size(layers); i++) {
    const json_t *l = json_array_get(layers, i);
    const layer_kind *kind;
    json_t *config = NULL;
    status = layer_kind_lookup(json_string_value(json_object_get(l, "type")), &kind);
    if (!status) status = layer_config_check(kind, json_object_get(l, "attributes"), &config);
    if (status) status = status_wrap(status, "layer %s", json_string_value(json_object_get(l, "name")));
    json_decref(config);
  }
  json_decref(flat);
  json_decref(values);
  return status;
}

/* ---- outputs */

static shoal_status check_loss(const json_t *v, const char *where, const char **out) {
  if (!v || json_is_null(v)) return NULL;
  if (!json_is_string(v)) return status_make(SHOAL_ERR_ARGUMENT, "%s: expected the name of a loss", where);
  *out = json_string_value(v);
  return status_wrap(keep_name("loss", shoal_loss_names(), out), "%s", where);
}

static shoal_status read_outputs(const json_t *file, shoal_model_kind *kind) {
  static const char *const keys[] = {"layer", "name", "loss", "weight", "metrics", NULL};
  const json_t *list = json_object_get(file, "outputs");
  TRY(check_loss(json_object_get(file, "loss"), "loss", &kind->loss));
  if (!list) return NULL;
  if (json_is_string(list)) return NULL;
  kind->outputs = (int)json_array_size(list);
  if (kind->outputs > 1 && kind->loss)
    return status_make(SHOAL_ERR_ARGUMENT, "loss: the model has %d outputs: each has its own, beside its \"layer\"",
                       kind->outputs);
  if (!json_is_array(list) || !json_array_size(list))
    return status_make(SHOAL_ERR_ARGUMENT, "outputs: expected a list of outputs");
  for (size_t i = 0; i < json_array_size(list); i++) {
    const json_t *one = json_array_get(list, i);
    if (json_is_string(one)) continue;
    if (!json_is_object(one) || !json_is_string(json_object_get(one, "layer")))
      return status_make(SHOAL_ERR_ARGUMENT, "outputs: expected {\"layer\": NAME, ...}");
    TRY(expand_check_keys(one, keys, "outputs"));
    const char *loss = NULL;
    TRY(check_loss(json_object_get(one, "loss"), "outputs: loss", &loss));
    if (json_array_size(list) == 1 && loss) kind->loss = loss;
    const json_t *share = json_object_get(one, "weight");
    if (share && !(json_is_number(share) && json_number_value(share) >= 0))
      return status_make(SHOAL_ERR_ARGUMENT, "outputs: weight: expected a number of at least 0");
  }
  return NULL;
}

/* ---- reading */

static shoal_status check_file(model_file *f) {
  const json_t *file = f->file, *version = json_object_get(file, "shoal_model");
  if (!json_is_object(file) || !version)
    return status_make(SHOAL_ERR_ARGUMENT, "not a model file: expected an object with \"shoal_model\": %d", VERSION);
  if (!json_is_integer(version) || json_integer_value(version) != VERSION) {
    char *have = json_words(version, JSON_ENCODE_ANY);
    shoal_status status = status_make(SHOAL_ERR_ARGUMENT, "shoal_model is %s: this version of Shoal reads %d",
                                      have ? have : "?", VERSION);
    free(have);
    return status;
  }
  TRY(expand_check_keys(file, top_keys, "model file"));
  static const char *const texts[] = {"name", "summary"};
  for (size_t i = 0; i < COUNT_OF(texts); i++)
    if (json_object_get(file, texts[i]) && !json_is_string(json_object_get(file, texts[i])))
      return status_make(SHOAL_ERR_ARGUMENT, "%s: expected a string", texts[i]);
  const json_t *parameters = json_object_get(file, "parameters");
  if (parameters && !json_is_object(parameters))
    return status_make(SHOAL_ERR_ARGUMENT, "parameters: expected an object of names and values");
  if (!json_is_array(json_object_get(file, "layers")))
    return status_make(SHOAL_ERR_ARGUMENT, "layers: expected a list of layers");
  return check_blocks(json_object_get(file, "blocks"));
}

static shoal_status read_all(model_file *f, const char *name) {
  TRY(check_file(f));
  shoal_model_kind *kind = &f->kind;
  const char *said = json_string_value(json_object_get(f->file, "name")),
             *summary = json_string_value(json_object_get(f->file, "summary"));
  f->name = strdup(said ? said : name);
  if (!f->name) return status_no_memory();
  for (char *c = f->name; *c; c++)
    if (*c == '/' || (unsigned char)*c < ' ') *c = '-'; /* it becomes part of a folder's name */
  if (!*f->name || f->name[0] == '-' || f->name[0] == '.')
    return status_make(SHOAL_ERR_ARGUMENT, "name: expected a word that begins with a letter");
  kind->name = f->name;
  kind->summary = summary ? summary : "";
  kind->build = file_build;
  file_input inputs[INPUTS_MAX];
  int n;
  TRY(read_training(json_object_get(f->file, "training"), kind));
  TRY(read_inputs(f->file, kind, inputs, &n));
  TRY(read_outputs(f->file, kind));
  const json_int_t classes = json_integer_value(json_object_get(json_object_get(f->file, "parameters"), "classes"));
  kind->classes = kind->outputs > 1 || loss_takes_targets(kind->loss) ? 0
                  : classes > 0 && classes < 1000000                  ? (int)classes
                                                                      : CLASSES_USUAL;
  return check_layers(f->file, inputs, n, shoal_shape_count(&kind->input));
}

shoal_status model_file_from_json(json_t *file, const char *where, const char *name, model_file **out) {
  model_file *f = calloc(1, sizeof *f);
  if (!f) return status_no_memory();
  f->file = json_incref(file);
  shoal_status status = status_wrap(read_all(f, name), "%s", where);
  if (status)
    model_file_destroy(f);
  else
    *out = f;
  return status;
}

shoal_status model_file_parse(const char *words, size_t length, const char *where, const char *name, model_file **out) {
  json_error_t error;
  json_t *file = json_read(words, length, JSON_REJECT_DUPLICATES, &error);
  if (!file) return status_make(SHOAL_ERR_ARGUMENT, "%s: line %d: %s", where, error.line, error.text);
  shoal_status status = model_file_from_json(file, where, name, out);
  json_decref(file);
  return status;
}

bool model_file_is_path(const char *word) {
  const size_t n = strlen(word);
  return n > 5 && !strcmp(word + n - 5, ".json");
}

/* "models/my.json" is called my. */
static char *name_of_path(const char *path) {
  const char *slash = strrchr(path, '/');
  char *name = strdup(slash ? slash + 1 : path);
  if (name && model_file_is_path(name)) name[strlen(name) - 5] = 0;
  return name;
}

static shoal_status read_text(const char *path, text *out) {
  FILE *f = fopen(path, "re");
  char part[4096];
  size_t n;
  if (!f) return status_errno(errno, "%s", path);
  while ((n = fread(part, 1, sizeof part, f)) > 0 && out->length <= BYTES_MAX) text_add_bytes(out, part, n);
  const bool bad = ferror(f);
  const int error = errno;
  fclose(f);
  if (bad) return status_errno(error, "%s", path);
  if (out->length > BYTES_MAX)
    return status_make(SHOAL_ERR_ARGUMENT, "%s: a model file has at most %d MB", path, BYTES_MAX >> 20);
  return out->failed ? status_no_memory() : NULL;
}

shoal_status model_file_load(const char *path, model_file **out) {
  text words = {0};
  char *name = name_of_path(path);
  shoal_status status = name ? read_text(path, &words) : status_no_memory();
  if (!status) status = model_file_parse(words.data ? words.data : "", words.length, path, name, out);
  text_fini(&words);
  free(name);
  return status;
}

void model_file_destroy(model_file *f) {
  if (!f) return;
  json_decref(f->file);
  free(f->name);
  free(f);
}

/* ---- making models */

shoal_status model_file_check(const model_file *f, const shoal_model_options *options) {
  json_t *values;
  TRY(parameter_values(f->file, options, &values));
  json_decref(values);
  return NULL;
}

shoal_status model_file_resolve(const model_file *f, const shoal_model_options *options, json_t **out) {
  shoal_model_options o;
  json_t *values, *file;
  TRY(OPTIONS_TAKE(&o, options));
  TRY(parameter_values(f->file, &o, &values));
  bool failed = o.classes && json_object_set_new(values, "classes", json_integer(o.classes));
  file = json_copy(f->file);
  failed = failed || !file || json_object_set_new(file, "name", json_string(f->name)) ||
           (json_object_size(values) && json_object_set(file, "parameters", values));
  json_decref(values);
  if (failed) {
    json_decref(file);
    return status_no_memory();
  }
  *out = file;
  return NULL;
}

static shoal_output *find_result(const json_t *flat, shoal_output *const *made, const shoal_model *m,
                                 const char *name) {
  for (size_t i = 0; i < m->n_inputs; i++)
    if (!strcmp(m->inputs[i].name, name)) return m->calls[i];
  const json_t *calls = json_object_get(flat, "calls");
  for (size_t i = 0; i < json_array_size(calls); i++)
    if (!strcmp(json_string_value(json_object_get(json_array_get(calls, i), "result")), name)) return made[i];
  return NULL;
}

static layer *find_layer(const shoal_model *m, const char *name) {
  for (size_t i = 0; i < m->n_layers; i++)
    if (!strcmp(m->layers[i]->name, name)) return m->layers[i];
  return NULL;
}

static shoal_status add_layers(shoal_model *m, const json_t *flat) {
  const json_t *layers = json_object_get(flat, "layers");
  for (size_t i = 0; i < json_array_size(layers); i++) {
    const json_t *l = json_array_get(layers, i);
    layer *made;
    TRY(model_add_layer(m, json_string_value(json_object_get(l, "type")), json_string_value(json_object_get(l, "name")),
                        "", json_object_get(l, "attributes"), &made));
    made->frozen = !json_is_true(json_object_get(l, "trainable"));
  }
  return NULL;
}

static shoal_status add_calls(shoal_model *m, const json_t *flat, shoal_output **made) {
  const json_t *calls = json_object_get(flat, "calls");
  for (size_t i = 0; i < json_array_size(calls); i++) {
    const json_t *call = json_array_get(calls, i), *names = json_object_get(call, "inputs");
    const char *name = json_string_value(json_object_get(call, "layer"));
    shoal_output *inputs[LAYER_INPUTS_MAX];
    const size_t n = json_array_size(names);
    if (n > LAYER_INPUTS_MAX)
      return status_make(SHOAL_ERR_ARGUMENT, "layer %s: at most %d inputs are possible", name, LAYER_INPUTS_MAX);
    for (size_t k = 0; k < n; k++) inputs[k] = find_result(flat, made, m, json_string_value(json_array_get(names, k)));
    TRY(model_call(m, find_layer(m, name), inputs, (int)n, &made[i]));
  }
  return NULL;
}

static shoal_status add_outputs(shoal_model *m, const json_t *file, const json_t *flat, shoal_output *const *made) {
  const json_t *list = json_object_get(file, "outputs"), *results = json_object_get(flat, "results");
  const size_t n = json_is_array(list) ? json_array_size(list) : 1;
  for (size_t i = 0; i < n; i++) {
    const json_t *one = json_is_array(list) ? json_array_get(list, i) : list;
    const char *name = json_is_object(one) ? json_string_value(json_object_get(one, "layer")) : json_string_value(one);
    if (!name) name = json_string_value(json_object_get(flat, "last"));
    const char *result = json_string_value(json_object_get(results, name));
    shoal_output *from = result ? find_result(flat, made, m, result) : NULL;
    if (!from || !from->layer) {
      const char *key, *names[256];
      json_t *value;
      size_t count = 0;
      json_object_foreach ((json_t *)results, key, value)
        if (count < COUNT_OF(names)) names[count++] = key;
      return status_wrap(status_unknown("layer", name, names, count), "outputs");
    }
    const json_t *share = json_object_get(one, "weight");
    TRY(model_add_result(m, from, json_string_value(json_object_get(one, "name")),
                         json_string_value(json_object_get(one, "loss")), share ? json_number_value(share) : 1));
  }
  return NULL;
}

static shoal_status build(shoal_model *m, const json_t *file, const json_t *values) {
  file_input inputs[INPUTS_MAX];
  const char *names[INPUTS_MAX];
  shoal_model_kind unused = {0};
  int n;
  TRY(read_inputs(file, &unused, inputs, &n));
  names_of(inputs, n, names);
  for (int i = 0; i < n; i++)
    TRY(model_set_input(m, i, inputs[i].name, n > 1 ? inputs[i].shape : m->input, inputs[i].integers));
  json_t *flat;
  TRY(expand_layers(file, values, names, n, &flat));
  shoal_output **made = calloc(json_array_size(json_object_get(flat, "calls")) + 1, sizeof(shoal_output *));
  shoal_status status = made ? add_layers(m, flat) : status_no_memory();
  if (!status) status = add_calls(m, flat, made);
  if (!status) status = add_outputs(m, file, flat, made);
  free(made);
  json_decref(flat);
  return status;
}

shoal_status model_file_build(const model_file *f, shoal_model *m, const shoal_model_options *options) {
  shoal_model_options o;
  json_t *values;
  TRY(OPTIONS_TAKE(&o, options));
  TRY(all_values(f->file, &o, shoal_shape_count(&m->input), &values));
  shoal_status status = build(m, f->file, values);
  json_decref(values);
  return status;
}
