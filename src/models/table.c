#include "models/table.h"

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
