#include "models/table.h"

#include "base/mem.h"

#include <string.h>

static const shoal_model_kind *const kinds[] = {&model_softmax, &model_lenet, &model_sparse_lr};

const shoal_model_kind *shoal_model_kind_at(int i) { return i >= 0 && i < (int)COUNT_OF(kinds) ? kinds[i] : NULL; }

const shoal_model_kind *shoal_model_kind_find(const char *name) {
  for (size_t i = 0; i < COUNT_OF(kinds); i++)
    if (!strcmp(kinds[i]->name, name)) return kinds[i];
  return NULL;
}

shoal_model_options model_options(const shoal_model_options *options, const char *activation, const char *pool) {
  shoal_model_options o = {0};
  if (options) o = *options;
  if (!o.classes) o.classes = 10;
  if (!o.activation) o.activation = activation;
  if (!o.pool) o.pool = pool;
  return o;
}
