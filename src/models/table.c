#include "models/table.h"

#include "models/model_file.h"

#include "base/mem.h"
#include "base/options.h"
#include "base/text.h"
#include "train/model.h"

#include <string.h>

#define ROW_OF(name) &model_##name,
static const shoal_model_kind *const kinds[] = {MODELS(ROW_OF)};
#undef ROW_OF

const shoal_model_kind *shoal_model_kind_at(int i) { return i >= 0 && i < (int)COUNT_OF(kinds) ? kinds[i] : NULL; }

const shoal_model_kind *shoal_model_kind_find(const char *name) {
  for (size_t i = 0; i < COUNT_OF(kinds); i++)
    if (!strcmp(kinds[i]->name, name)) return kinds[i];
  return NULL;
}

shoal_status shoal_model_kind_load(const char *path, shoal_model_kind **out) {
  model_file *f;
  TRY(model_file_load(path, &f));
  *out = &f->kind;
  return NULL;
}

void shoal_model_kind_destroy(shoal_model_kind *kind) { model_file_destroy((model_file *)model_file_of(kind)); }

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

shoal_model_options model_options(shoal_model *m, const shoal_model_options *options, const char *act, const char *pool,
                                  int classes) {
  shoal_model_options o;
  shoal_status status = OPTIONS_TAKE(&o, options);
  if (status) {
    o = (shoal_model_options){0};
    model_fail(m, status);
  }
  if (!o.classes) o.classes = classes;
  if (!o.activation) o.activation = act;
  if (!o.pool) o.pool = pool;
  return o;
}

void model_pool(shoal_model *m, const char *pool, int size, int stride) {
  if (!strcmp(pool, "max"))
    shoal_model_max_pool(m, size, stride, SHOAL_VALID);
  else if (!strcmp(pool, "avg"))
    shoal_model_avg_pool(m, size, stride, SHOAL_VALID);
  else
    model_fail(m, status_unknown("pooling", pool, (const char *const[]){"max", "avg"}, 2));
}
