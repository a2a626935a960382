#include "cli/confusion.h"

#include "base/mem.h"
#include "cli/say.h"
#include "cli/table.h"
#include "data/class_names.h"

#include <math.h>
#include <stdlib.h>

#define BATCH 1000

shoal_status confusion_init(confusion *c, int classes) {
  *c = (confusion){.classes = classes, .counts = calloc((size_t)classes * (size_t)classes, sizeof *c->counts)};
  return c->counts ? NULL : status_no_memory();
}

void confusion_fini(confusion *c) {
  free(c->counts);
  *c = (confusion){0};
}

void confusion_add(confusion *c, int64_t label, int64_t predicted) {
  if (label >= 0 && label < c->classes && predicted < c->classes) c->counts[label * c->classes + predicted]++;
}

static int64_t likeliest(const float *p, int classes) {
  int64_t best = 0;
  for (int k = 1; k < classes; k++)
    if (p[k] > p[best]) best = k;
  return best;
}

shoal_status confusion_add_rows(confusion *c, shoal_model *m, const shoal_dataset *data) {
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

json_t *confusion_json(const confusion *c) {
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

shoal_status confusion_print(const confusion *c, const char *const *names, FILE *to) {
  const int columns = c->classes + 2; /* the class, what it was taken for, the share that was right */
  table_column *cells = calloc((size_t)c->classes * (size_t)columns, sizeof *cells);
  char(*numbers)[CLASS_NAME_TEXT] = calloc((size_t)c->classes, sizeof *numbers);
  for (int i = 0; cells && numbers && i < c->classes; i++) {
    table_column *row = cells + (size_t)i * (size_t)columns;
    const int64_t *counts = c->counts + (int64_t)i * c->classes;
    int64_t all = 0;
    row[0] = (table_column){.head = "class", .left = true};
    table_set_text(&row[0], class_names_at(names, i, numbers[i]));
    for (int k = 0; k < c->classes; k++) {
      row[k + 1].head = class_names_at(names, k, numbers[k]);
      table_set_int(&row[k + 1], counts[k]);
      all += counts[k];
    }
    row[columns - 1].head = "right";
    table_set_share(&row[columns - 1], all ? (double)counts[i] / (double)all : NAN);
  }
  const bool good = cells && numbers;
  if (good) {
    say(to, "\nRows of each class, by the class they were taken for:\n\n");
    table_print(to, cells, c->classes, columns, terminal_width(to));
  }
  free(cells);
  free(numbers);
  return good ? NULL : status_no_memory();
}
