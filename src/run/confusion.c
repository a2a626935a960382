#include "run/confusion.h"

#include "base/mem.h"

#include <stdlib.h>

#define BATCH 1000
#define CLASSES_MAX 4096 /* of a matrix that is read */

shoal_status confusion_init(shoal_confusion *c, int classes) {
  *c = (shoal_confusion){.classes = classes, .counts = calloc((size_t)classes * (size_t)classes, sizeof *c->counts)};
  return c->counts ? NULL : status_no_memory();
}

void confusion_fini(shoal_confusion *c) {
  free(c->counts);
  *c = (shoal_confusion){0};
}

void confusion_add(shoal_confusion *c, int64_t label, int64_t predicted) {
  if (label >= 0 && label < c->classes && predicted < c->classes) c->counts[label * c->classes + predicted]++;
}

static int64_t likeliest(const float *p, int classes) {
  int64_t best = 0;
  for (int k = 1; k < classes; k++)
    if (p[k] > p[best]) best = k;
  return best;
}

shoal_status confusion_add_rows(shoal_confusion *c, shoal_model *m, const shoal_dataset *data) {
  const int64_t n = shoal_dataset_rows(data);
  shoal_tensor p;
  TRY(shoal_tensor_create(SHOAL_F32, SHOAL_SHAPE(MIN_OF(n, BATCH), c->classes), &p));
  shoal_status status = NULL;
  for (int64_t first = 0; first < n && !status; first += BATCH) {
    shoal_dataset rows;
    p.shape.dim[0] = MIN_OF(n - first, BATCH);
    status = shoal_dataset_view(data, first, p.shape.dim[0], &rows);
    if (!status) status = shoal_model_predict(m, &rows.features, &p);
    for (int64_t i = 0; i < p.shape.dim[0] && !status; i++)
      confusion_add(c, (int64_t)shoal_tensor_get(&rows.labels, i),
                    likeliest((const float *)p.data + i * c->classes, c->classes));
  }
  shoal_tensor_fini(&p);
  return status;
}

json_t *confusion_to_json(const shoal_confusion *c) {
  if (!c->counts) return json_null();
  json_t *all = json_array();
  for (int i = 0; i < c->classes; i++) {
    json_t *row = json_array();
    for (int k = 0; k < c->classes; k++) json_array_append_new(row, json_integer(c->counts[i * c->classes + k]));
    if (json_array_append_new(all, row)) {
      json_decref(all);
      return NULL;
    }
  }
  return all;
}

shoal_status confusion_from_json(const json_t *list, shoal_confusion *out) {
  shoal_confusion c = {.classes = (int)json_array_size(list)};
  if (c.classes < 1 || c.classes > CLASSES_MAX) {
    *out = (shoal_confusion){0};
    return NULL;
  }
  TRY(confusion_init(&c, c.classes));
  for (int i = 0; i < c.classes; i++)
    for (int k = 0; k < c.classes; k++)
      c.counts[i * c.classes + k] = json_integer_value(json_array_get(json_array_get(list, (size_t)i), (size_t)k));
  *out = c;
  return NULL;
}
