/* Models of other programs to be trained: as model files, with their weights. */
#include "base/json_read.h"
#include "base/mem.h"
#include "exchange/formats.h"
#include "exchange/keras.h"
#include "exchange/network.h"
#include "models/model_file.h"
#include "train/model.h"

#include <string.h>

static bool ends_with(const char *path, const char *ending) {
  const size_t n = strlen(path), k = strlen(ending);
  return n > k && !strcmp(path + n - k, ending);
}

/* Of operators, not of layers. */
static bool is_graph(const char *name) { return ends_with(name, ".onnx") || ends_with(name, ".pb"); }

bool import_has_weights(const char *name) { return ends_with(name, ".keras") || is_graph(name); }
bool import_is_path(const char *name) { return import_has_weights(name) || model_file_is_path(name); }

/* What model.to_json() gives, not a model file of ours. */
static bool is_keras_json(const char *path) {
  if (!model_file_is_path(path)) return false;
  json_t *file = json_read_file(path, 0, NULL);
  const bool is = json_is_string(json_object_get(file, "class_name")) && !json_object_get(file, "shoal_model");
  json_decref(file);
  return is;
}

shoal_status import_model_file(const char *name, text *notes, model_file **out) {
  if (is_graph(name)) return graph_model_file(name, notes, out);
  if (import_has_weights(name) || is_keras_json(name)) return keras_model_file(name, notes, out);
  return model_file_find(name, out);
}

shoal_status json_import(const char *path, shoal_network **out) {
  shoal_model_kind *kind;
  shoal_model *m = NULL;
  if (is_keras_json(path)) return keras_json_import(path, out);
  TRY(shoal_model_kind_load(path, &kind));
  shoal_status status = shoal_model_kind_build(kind, NULL, NULL, &m);
  if (!status) status = shoal_model_compile(m, &(shoal_compile_options){.threads = 1, .loss = kind->loss});
  if (!status) status = shoal_network_of(m, out);
  if (status) {
    shoal_model_destroy(m);
    shoal_model_kind_destroy(kind);
    return status_wrap(status, "%s", path);
  }
  (*out)->owns_model = true;
  (*out)->kind = kind;
  return NULL;
}

shoal_status shoal_model_kind_import(const char *name, shoal_model_kind **out, char **notes) {
  text lines = {0};
  model_file *f;
  shoal_status status = import_model_file(name, &lines, &f);
  if (!status && notes && !(*notes = lines.data ? strdup(lines.data) : strdup(""))) {
    model_file_destroy(f);
    status = status_no_memory();
  }
  text_fini(&lines);
  if (!status) *out = &f->kind;
  return status;
}

shoal_status shoal_model_import_weights(shoal_model *m, const char *path) {
  TRY(model_ready(m));
  if (is_graph(path)) return graph_load_weights(path, m);
  return import_has_weights(path) ? keras_load_weights(path, m) : shoal_model_load(m, path);
}
