/* .keras archives and Keras' JSON as networks. */
#include "base/json_read.h"
#include "base/mem.h"
#include "data/zip.h"
#include "exchange/formats.h"
#include "exchange/keras.h"
#include "exchange/keras_optimizer.h"
#include "exchange/network.h"
#include "train/layer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { CONFIG_MAX = 64 << 20, UNPACKED_TIMES = 256 /* a member's bytes for each one in the file */ };

typedef struct {
  json_t *config;
  uint8_t *bytes; /* of the HDF5 file; NULL: there are no weights */
  size_t n;
  hdf5_file *weights;
} keras_file;

static void keras_file_fini(keras_file *f) {
  hdf5_close(f->weights);
  free(f->bytes);
  json_decref(f->config);
}

static shoal_status parse_config(const char *path, const char *words, size_t n, json_t **out) {
  json_error_t error;
  *out = json_read(words, n, JSON_REJECT_DUPLICATES, &error);
  if (!*out)
    return status_make(SHOAL_ERR_INPUT, "%s: the config is not valid JSON: line %d: %s", path, error.line, error.text);
  return NULL;
}

/* Names that lead out of a folder, were the archive unpacked. */
static shoal_status check_names(const char *path, const zip_archive *z) {
  for (size_t i = 0; i < z->count; i++) {
    const char *name = z->members[i].name;
    if (name[0] == '/' || strstr(name, "..") || strchr(name, '\\'))
      return status_make(SHOAL_ERR_INPUT,
                         "%s: the member '%.100s' points outside the archive, which Keras never writes", path, name);
  }
  return NULL;
}

static shoal_status read_member(const char *path, const zip_archive *z, const char *name, size_t most, uint8_t **bytes,
                                size_t *n) {
  const zip_member *m = zip_find(z, name);
  if (!m)
    return status_make(SHOAL_ERR_INPUT, "%s: has no %s: expected an archive written by model.save('NAME.keras')", path,
                       name);
  return zip_read(path, m, MIN_OF(most, mem_plus(mem_times(m->part.bytes, UNPACKED_TIMES), 1 << 16)), bytes, n);
}

/* The lines of assets/LAYER/vocabulary.txt, by the layer. */
static shoal_status read_vocabularies(const char *path, const zip_archive *z, json_t *config) {
  static const char before[] = "assets/", after[] = "/vocabulary.txt";
  json_t *all = json_object();
  shoal_status status = all ? NULL : status_no_memory();
  for (size_t i = 0; i < z->count && !status; i++) {
    const char *name = z->members[i].name;
    const size_t n = strlen(name), begin = sizeof before - 1, end = sizeof after - 1;
    if (n <= begin + end || strncmp(name, before, begin) || strcmp(name + n - end, after)) continue;
    uint8_t *words = NULL;
    size_t length = 0;
    status = read_member(path, z, name, CONFIG_MAX, &words, &length);
    json_t *lines = json_array();
    for (size_t at = 0; !status && at < length;) {
      const uint8_t *stop = memchr(words + at, '\n', length - at);
      const size_t next = stop ? (size_t)(stop - words) : length;
      if (json_array_append_new(lines, json_stringn((const char *)words + at, next - at)))
        status = status_make(SHOAL_ERR_INPUT, "%s: %s is not a list of words in UTF-8", path, name);
      at = next + 1;
    }
    char *owner = strndup(name + begin, n - begin - end);
    if (!status && (!owner || json_object_set(all, owner, lines))) status = status_no_memory();
    json_decref(lines);
    free(owner);
    free(words);
  }
  if (!status && json_object_set(config, KERAS_ASSETS, all)) status = status_no_memory();
  json_decref(all);
  return status;
}

static shoal_status read_archive(const char *path, keras_file *out) {
  zip_archive z = {0};
  keras_file f = {0};
  uint8_t *words = NULL;
  size_t n;
  TRY(zip_open(path, &z));
  shoal_status status = check_names(path, &z);
  if (!status) status = read_member(path, &z, "config.json", CONFIG_MAX, &words, &n);
  if (!status) status = parse_config(path, (const char *)words, n, &f.config);
  if (!status && json_is_object(f.config)) status = read_vocabularies(path, &z, f.config);
  if (!status) status = read_member(path, &z, "model.weights.h5", SIZE_MAX / 2, &f.bytes, &f.n);
  if (!status) status = hdf5_open(f.bytes, f.n, path, &f.weights);
  free(words);
  zip_close(&z);
  if (status)
    keras_file_fini(&f);
  else
    *out = f;
  return status;
}

static shoal_status read_json(const char *path, keras_file *out) {
  FILE *f = fopen(path, "rbe");
  if (!f) return status_make(SHOAL_ERR_INPUT, "%s: cannot open: %s", path, strerror(errno));
  char *words = NULL;
  size_t capacity = 0, n = 0, got = 1;
  shoal_status status = NULL;
  while (!status && got && n <= CONFIG_MAX) {
    status = mem_grow((void **)&words, &capacity, n + 65536, 1);
    if (!status) n += got = fread(words + n, 1, 65536, f);
  }
  if (!status && ferror(f)) status = status_make(SHOAL_ERR_INPUT, "%s: cannot read it", path);
  if (!status && n > CONFIG_MAX) status = status_make(SHOAL_ERR_INPUT, "%s: is too large for a model's config", path);
  fclose(f);
  if (!status) status = parse_config(path, words, n, &out->config);
  free(words);
  return status;
}

/* ---- the layers */

typedef struct {
  shoal_model *model;
  json_t *calls; /* name -> index of the model's calls */
} building;

static shoal_shape shape_of(const json_t *list) {
  shoal_shape s = {.rank = (int)MIN_OF(json_array_size(list), (size_t)SHOAL_MAX_RANK)};
  for (int i = 0; i < s.rank; i++) s.dim[i] = json_integer_value(json_array_get(list, (size_t)i));
  return s;
}

static shoal_status keep_call(building *b, const char *name) {
  return json_object_set_new(b->calls, name, json_integer((json_int_t)b->model->n_calls - 1)) ? status_no_memory()
                                                                                              : NULL;
}

static shoal_output *find_call(const building *b, const char *name) {
  const json_t *at = name ? json_object_get(b->calls, name) : NULL;
  return at ? b->model->calls[json_integer_value(at)] : NULL;
}

static shoal_status make_inputs(building *b, const json_t *description) {
  const json_t *list = json_object_get(description, "inputs");
  for (size_t i = 0; i < json_array_size(list); i++) {
    const json_t *in = json_array_get(list, i), *shape = json_object_get(in, "shape");
    const char *name = json_string_value(json_object_get(in, "name"));
    shoal_output *made;
    if (json_array_size(shape) >= SHOAL_MAX_RANK)
      return status_make(SHOAL_ERR_INPUT, "input '%s' has more than %d axes", name, SHOAL_MAX_RANK - 1);
    const shoal_shape s = json_array_size(shape) ? shape_of(shape) : SHOAL_SHAPE(1);
    if (!i) {
      TRY(shoal_model_create(s, &b->model));
      free(b->model->inputs[0].name);
      b->model->inputs[0].name = strdup(name);
    } else {
      TRY(model_add_input(b->model, name, s, &made));
    }
    const char *dtype = json_string_value(json_object_get(in, "dtype"));
    b->model->inputs[i].integers = dtype && !strcmp(dtype, "int");
    TRY(keep_call(b, name));
  }
  return NULL;
}

static shoal_status call_layer(building *b, layer *l, const json_t *inputs, const char *name, size_t number) {
  shoal_output *from[LAYER_INPUTS_MAX], *made;
  const size_t n = json_array_size(inputs);
  char *full = NULL;
  if (n > LAYER_INPUTS_MAX) return status_make(SHOAL_ERR_INPUT, "layer '%s' has too many inputs", name);
  for (size_t i = 0; i < n; i++) {
    from[i] = find_call(b, json_string_value(json_array_get(inputs, i)));
    if (!from[i]) return status_make(SHOAL_ERR_INPUT, "layer '%s': one of its inputs comes after it", name);
  }
  TRY(model_call(b->model, l, from, (int)n, &made));
  if (!number) return keep_call(b, name);
  if (asprintf(&full, "%s:%zu", name, number) < 0) return status_no_memory();
  shoal_status status = keep_call(b, full);
  free(full);
  return status;
}

static shoal_status make_layer(building *b, const json_t *description) {
  json_t *attributes = json_copy((json_t *)description);
  const char *name = json_string_value(json_object_get(description, "name")),
             *type = json_string_value(json_object_get(description, "type"));
  const json_t *inputs = json_object_get(description, "inputs");
  if (!attributes) return status_no_memory();
  json_object_del(attributes, "name");
  json_object_del(attributes, "type");
  json_object_del(attributes, "inputs");
  json_object_del(attributes, "trainable");
  layer *l;
  shoal_status status = model_add_layer(b->model, type, name, NULL, attributes, &l);
  json_decref(attributes);
  if (!status) l->frozen = json_is_false(json_object_get(description, "trainable"));
  if (!status && !json_is_array(json_array_get(inputs, 0))) return call_layer(b, l, inputs, name, 0);
  for (size_t i = 0; !status && i < json_array_size(inputs); i++)
    status = call_layer(b, l, json_array_get(inputs, i), name, i);
  return status;
}

static shoal_status build_outputs(shoal_network *n, const building *b, const json_t *description) {
  const json_t *list = json_object_get(description, "outputs");
  const size_t count = json_array_size(list);
  shoal_output **outputs = calloc(count + 1, sizeof(shoal_output *));
  const char **names = calloc(count + 1, sizeof *names);
  shoal_status status = outputs && names ? NULL : status_no_memory();
  for (size_t i = 0; i < count && !status; i++) {
    names[i] = json_string_value(json_object_get(json_array_get(list, i), "layer"));
    outputs[i] = find_call(b, names[i]);
    if (!outputs[i]) status = status_make(SHOAL_ERR_INPUT, "the output '%s' does not exist", names[i]);
  }
  if (!status) status = network_build(n, outputs, names, (int)count);
  free(outputs);
  free(names);
  return status;
}

static shoal_status build(shoal_network *n, const json_t *description) {
  building b = {.calls = json_object()};
  const json_t *layers = json_object_get(description, "layers");
  shoal_status status = make_inputs(&b, description);
  n->model = b.model;
  n->owns_model = true;
  for (size_t i = 0; i < json_array_size(layers) && !status; i++) status = make_layer(&b, json_array_get(layers, i));
  if (!status) status = build_outputs(n, &b, description);
  json_decref(b.calls);
  return status;
}

/* ---- the weights */

static shoal_status assign(shoal_network *n, const hdf5_file *file, const keras_weight *w) {
  char have[SHOAL_SHAPE_TEXT], want[SHOAL_SHAPE_TEXT];
  const hdf5_dataset *d = hdf5_find(file, w->path);
  const shoal_value *variable = shoal_graph_find(n->graph, w->name);
  shoal_tensor from, to;
  if (!variable) return status_make(SHOAL_ERR_INTERNAL, "the model has no weight '%s'", w->name);
  if (!d) return status_make(SHOAL_ERR_INPUT, "the weights '%s' of '%s' are missing", w->path, w->name);
  TRY(shoal_session_variable(n->session, variable, &to));
  TRY(hdf5_read(file, d, &from));
  const int64_t count = shoal_tensor_count(&to), all = shoal_tensor_count(&from);
  const bool rows = w->row >= 0 && from.shape.rank == 2 && from.shape.dim[0] == 2;
  shoal_status status = NULL;
  if (all != (rows ? 2 * count : count) ||
      (from.shape.rank == to.shape.rank && !rows && !shoal_shape_equal(&from.shape, &to.shape)))
    status = status_make(SHOAL_ERR_INPUT, "the weights '%s' have the shape %s; '%s' of the model has %s", w->path,
                         shoal_shape_text(&from.shape, have), w->name, shoal_shape_text(&to.shape, want));
  for (int64_t i = 0; i < count && !status; i++)
    shoal_tensor_set(&to, i, shoal_tensor_get(&from, i + (rows ? w->row * count : 0)));
  shoal_tensor_fini(&from);
  return status;
}

static shoal_status make_network(const keras_file *f, shoal_network *n) {
  json_t *description = NULL;
  keras_weights weights = {0};
  shoal_status status = keras_describe(f->config, f->weights, &n->notes, &description, &weights);
  if (!status) status = build(n, description);
  for (size_t i = 0; i < weights.n && f->weights && !status; i++) status = assign(n, f->weights, &weights.list[i]);
  keras_weights_fini(&weights);
  json_decref(description);
  return status;
}

/* An error of ours about a file of others is one of the file. */
static shoal_status as_input(shoal_status status, const char *path) {
  if (shoal_status_code(status) != SHOAL_ERR_ARGUMENT) return status_wrap(status, "%s", path);
  shoal_status input = status_make(SHOAL_ERR_INPUT, "%s: %s", path, shoal_status_message(status));
  shoal_status_free(status);
  return input;
}

/* ---- models to be trained */

shoal_status keras_model_file(const char *path, text *notes, model_file **out) {
  keras_file f = {0};
  json_t *description = NULL;
  keras_weights weights = {0};
  const size_t n = strlen(path);
  TRY(n > 6 && !strcmp(path + n - 6, ".keras") ? read_archive(path, &f) : read_json(path, &f));
  shoal_status status = keras_describe(f.config, f.weights, notes, &description, &weights);
  if (!status) status = keras_training(f.config, description, notes);
  if (!status) status = model_file_from_json(description, path, "model", out);
  keras_weights_fini(&weights);
  json_decref(description);
  keras_file_fini(&f);
  return as_input(status, path);
}

shoal_status keras_load_weights(const char *path, shoal_model *m) {
  keras_file f = {0};
  json_t *description = NULL;
  keras_weights weights = {0};
  text notes = {0};
  shoal_network view = {.graph = m->graph, .session = m->session};
  TRY(read_archive(path, &f));
  shoal_status status = keras_describe(f.config, f.weights, &notes, &description, &weights);
  for (size_t i = 0; i < weights.n && !status; i++) {
    if (shoal_graph_find(m->graph, weights.list[i].name))
      status = assign(&view, f.weights, &weights.list[i]);
    else
      status =
          status_make(SHOAL_ERR_INPUT, "the model has no weight '%s': it is of other layers", weights.list[i].name);
  }
  if (!status) status = keras_load_state(f.config, f.weights, &weights, m);
  keras_weights_fini(&weights);
  json_decref(description);
  text_fini(&notes);
  keras_file_fini(&f);
  return as_input(status, path);
}

/* ---- networks */

static shoal_status import(const char *path, keras_file *f, shoal_network **out) {
  shoal_network *n = NULL;
  shoal_status status = network_create(&n);
  if (!status) status = as_input(make_network(f, n), path);
  keras_file_fini(f);
  if (status)
    shoal_network_destroy(n);
  else
    *out = n;
  return status;
}

shoal_status keras_import(const char *path, shoal_network **out) {
  keras_file f = {0};
  TRY(read_archive(path, &f));
  return import(path, &f, out);
}

shoal_status keras_json_import(const char *path, shoal_network **out) {
  keras_file f = {0};
  TRY(read_json(path, &f));
  return import(path, &f, out);
}
