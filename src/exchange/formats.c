#include "exchange/formats.h"

#include "base/mem.h"
#include "base/options.h"
#include "base/text.h"

#include <string.h>

static const model_format formats[] = {
    {".keras", keras_import, keras_export},     {".json", json_import, NULL},
    {".onnx", onnx_import, onnx_export},        {".pb", tensorflow_import, tensorflow_export},
    {".safetensors", NULL, safetensors_export}, {".svg", NULL, svg_export},
};

const char *const *shoal_import_endings(void) {
  static const char *const endings[] = {".keras", ".json", ".onnx", ".pb", NULL};
  return endings;
}

const char *const *shoal_export_endings(void) {
  static const char *const endings[] = {".keras", ".onnx", ".pb", ".safetensors", ".svg", NULL};
  return endings;
}

bool shoal_has_ending(const char *path, const char *const *endings) {
  const size_t length = strlen(path);
  for (; *endings; endings++) {
    const size_t n = strlen(*endings);
    if (length > n && !strcmp(path + length - n, *endings)) return true;
  }
  return false;
}

static const model_format *find_format(const char *path) {
  for (size_t i = 0; i < COUNT_OF(formats); i++)
    if (shoal_has_ending(path, (const char *const[]){formats[i].ending, NULL})) return &formats[i];
  return NULL;
}

static shoal_status unknown(const char *path, const char *what, const char *const *endings) {
  text known = {0};
  for (size_t i = 0; endings[i]; i++) text_add(&known, "%s%s", i ? ", " : "", endings[i]);
  shoal_status status = status_make(SHOAL_ERR_ARGUMENT, "%s: a model is %s a file that ends in %s", path, what,
                                    known.data ? known.data : "");
  text_fini(&known);
  return status;
}

shoal_status shoal_network_load(const char *path, shoal_network **out) {
  const model_format *f = find_format(path);
  if (!f || !f->read) return unknown(path, "read from", shoal_import_endings());
  return f->read(path, out);
}

shoal_status shoal_network_export(shoal_network *n, const char *path, const shoal_export_options *options) {
  shoal_export_options own;
  TRY(OPTIONS_TAKE(&own, options));
  const model_format *f = find_format(path);
  if (own.layout && f && strcmp(f->ending, ".safetensors"))
    return status_make(SHOAL_ERR_ARGUMENT, "%s: a layout is of weights alone, in a file that ends in .safetensors",
                       path);
  if (!f || !f->write) return unknown(path, "written as", shoal_export_endings());
  return status_wrap(f->write(n, path, &own), "%s", path);
}
