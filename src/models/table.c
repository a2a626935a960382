#include "base/json_text.h"
#include "base/mem.h"
#include "base/text.h"
#include "models/embedded.h"
#include "models/model_file.h"
#include "train/model.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

const shoal_model_kind *shoal_model_kind_at(int i) {
  for (const embedded_model *e = embedded_models; i >= 0 && e->kind.name; e++)
    if (i-- == 0) return &e->kind;
  return NULL;
}

static const embedded_model *find(const char *name) {
  for (const embedded_model *e = embedded_models; e->kind.name; e++)
    if (!strcmp(e->kind.name, name)) return e;
  return NULL;
}

const shoal_model_kind *shoal_model_kind_find(const char *name) {
  const embedded_model *e = find(name);
  return e ? &e->kind : NULL;
}

static shoal_status unknown_model(const char *name) {
  const char *names[65] = {0};
  size_t n = 0;
  for (; n < 64 && embedded_models[n].kind.name; n++) names[n] = embedded_models[n].kind.name;
  const char *near = shoal_nearest_name(name, names, n);
  text list = {0};
  for (size_t i = 0; i < n; i++) text_add(&list, "%s%s", i ? ", " : "", names[i]);
  shoal_status status =
      status_make(SHOAL_ERR_ARGUMENT, "unknown model '%s'; expected %s, or a file NAME.json%s%s%s", name,
                  list.data ? list.data : "?", near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
  text_fini(&list);
  return status;
}

shoal_status model_file_find(const char *name, model_file **out) {
  char own[64]; /* "mlp" of "mlp.json": those that come with Shoal are such files, too */
  const embedded_model *e = find(name);
  if (!e && model_file_is_path(name)) {
    snprintf(own, sizeof own, "%.*s", (int)MIN_OF(strlen(name) - strlen(".json"), sizeof own - 1), name);
    e = access(name, F_OK) ? find(own) : NULL;
    if (!e) return model_file_load(name, out);
  }
  return e ? model_file_parse(e->text, strlen(e->text), e->kind.name, e->kind.name, out) : unknown_model(name);
}

shoal_status shoal_model_kind_load(const char *name, shoal_model_kind **out) {
  model_file *f;
  TRY(model_file_find(name, &f));
  *out = &f->kind;
  return NULL;
}

shoal_status shoal_model_kind_parse(const char *words, shoal_model_kind **out) {
  model_file *f;
  TRY(model_file_parse(words, strlen(words), "model", "model", &f));
  *out = &f->kind;
  return NULL;
}

shoal_status shoal_model_kind_text(const shoal_model_kind *kind, char **out) {
  const model_file *f = model_file_of(kind);
  if (!f)
    return status_make(SHOAL_ERR_ARGUMENT, "the model %s is made by a program: there is no file of it", kind->name);
  char *words = json_words(f->file, JSON_INDENT(1));
  if (!words) return status_no_memory();
  *out = words;
  return NULL;
}

void shoal_model_kind_destroy(shoal_model_kind *kind) { model_file_destroy((model_file *)model_file_of(kind)); }

void embedded_build(const char *name, shoal_model *m, const shoal_model_options *options) {
  model_file *f;
  shoal_status status = model_file_find(name, &f);
  if (!status) {
    status = model_file_build(f, m, options);
    model_file_destroy(f);
  }
  if (status) model_fail(m, status);
}

shoal_status shoal_model_kind_build(const shoal_model_kind *kind, const shoal_shape *input,
                                    const shoal_model_options *options, shoal_model **out) {
  const shoal_shape shape = input ? *input : kind->input;
  const model_file *f = model_file_of(kind);
  shoal_model *m;
  TRY(kind->sparse ? shoal_model_create_sparse(shape.dim[0], &m) : shoal_model_create(shape, &m));
  shoal_status status = NULL;
  if (f)
    status = model_file_build(f, m, options);
  else
    kind->build(m, options);
  if (status)
    shoal_model_destroy(m);
  else
    *out = m;
  return status;
}
