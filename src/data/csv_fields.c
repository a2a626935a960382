#include "data/csv_fields.h"

#include "base/mem.h"
#include "base/random.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CROSS 0x1f /* between the words of a cross */

shoal_status csv_fields_open(const csv_file *f, int64_t features, csv_fields_row *out) {
  const size_t fields = f->columns.field_count;
  csv_fields_row r = {.features = features ? features : CSV_FIELDS_FEATURES};
  if (r.features <= (int64_t)fields + 1 || r.features > INT32_MAX)
    return status_make(SHOAL_ERR_ARGUMENT, "%s: %zu fields need %zu to %d features, found %lld", f->path, fields,
                       fields + 2, INT32_MAX, (long long)r.features);
  r.cells = calloc(f->count, sizeof *r.cells);
  r.columns = calloc(2 * fields, sizeof *r.columns);
  shoal_status status = r.cells && r.columns ? NULL : status_no_memory();
  if (!status) status = status_wrap(csv_columns_fields(&f->columns, f->names, f->count, r.columns), "%s", f->path);
  if (status)
    csv_fields_close(&r);
  else
    *out = r;
  return status;
}

void csv_fields_close(csv_fields_row *r) {
  free(r->cells);
  free(r->entries);
  free(r->columns);
  *r = (csv_fields_row){0};
}

static shoal_status add(csv_fields_row *r, int64_t index, size_t field, float value) {
  void *array = r->entries;
  shoal_status status = mem_grow(&array, &r->capacity, r->count + 1, sizeof *r->entries);
  r->entries = array;
  if (!status) r->entries[r->count++] = (csv_entry){(int32_t)index, (int32_t)field, value};
  return status;
}

/* The index of a word; it must stay the same in all versions. */
static int64_t index_of(const csv_fields_row *r, size_t fields, size_t field, const char *word, size_t n) {
  uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
  for (size_t i = 0; i < n; i++) hash = (hash ^ (uint8_t)word[i]) * 0x100000001b3u;
  const uint64_t first = 1 + fields, room = (uint64_t)r->features - first;
  return (int64_t)(first + (uint64_t)((unsigned __int128)random_mix(field, hash) * room >> 64));
}

static shoal_status add_words(csv_fields_row *r, size_t fields, size_t field, const char *cell, char separator) {
  for (const char *at = cell;;) {
    const char *end = separator ? strchr(at, separator) : NULL;
    size_t n = end ? (size_t)(end - at) : strlen(at);
    while (n && *at == ' ') at++, n--;
    while (n && at[n - 1] == ' ') n--;
    if (n) TRY(add(r, index_of(r, fields, field, at, n), field, 1));
    if (!end) return NULL;
    at = end + 1;
  }
}

static shoal_status add_cross(csv_fields_row *r, size_t fields, size_t field, const char *a, const char *b) {
  char both[2 * CSV_FIELD];
  const int n = snprintf(both, sizeof both, "%s%c%s", a, CROSS, b);
  return add(r, index_of(r, fields, field, both, (size_t)n), field, 1);
}

static shoal_status add_bucket(csv_fields_row *r, size_t fields, size_t field, const csv_field_asked *asked, float x) {
  char word[32];
  int bucket = 0;
  while (bucket < asked->n_bounds && x >= asked->bounds[bucket]) bucket++;
  const int n = snprintf(word, sizeof word, "bucket %d", bucket);
  return add(r, index_of(r, fields, field, word, (size_t)n), field, 1);
}

static float scaled(csv_field_kind kind, float x, const csv_column *learned) {
  if (kind == CSV_FIELD_LOG) return copysignf(log2f(1 + fabsf(x)), x);
  if (kind == CSV_FIELD_STANDARDISE)
    return (float)(((double)x - learned->mean) / (learned->spread > 0 ? learned->spread : 1));
  return x;
}

static int by_index(const void *a, const void *b) {
  const csv_entry *x = a, *y = b;
  return x->index != y->index ? (x->index > y->index) - (x->index < y->index)
                              : (x->field > y->field) - (x->field < y->field);
}

/* By index, each once. */
static void put_in_order(csv_fields_row *r) {
  size_t kept = 0;
  if (r->count) qsort(r->entries, r->count, sizeof *r->entries, by_index);
  for (size_t i = 0; i < r->count; i++) {
    if (kept && r->entries[i].index == r->entries[kept - 1].index)
      r->entries[kept - 1].value += r->entries[i].value;
    else
      r->entries[kept++] = r->entries[i];
  }
  r->count = kept;
}

shoal_status csv_fields_make(csv_fields_row *r, const csv_file *f, const csv_fit *fit, size_t *column, char *why,
                             size_t room) {
  const size_t fields = f->columns.field_count;
  r->count = 0;
  *why = 0;
  for (size_t i = 0; i < fields; i++) {
    const csv_field_asked *asked = &f->columns.fields[i];
    const size_t at = r->columns[2 * i], with = r->columns[2 * i + 1];
    const char *cell = r->cells[at], *other = asked->with ? r->cells[with] : NULL;
    float x = 0;
    *column = at;
    if (strlen(cell) == CSV_FIELD - 1 || (other && strlen(other) == CSV_FIELD - 1)) {
      snprintf(why, room, "the value is longer than %d bytes", CSV_FIELD - 2);
      return NULL;
    }
    if (csv_is_missing(cell) || (other && csv_is_missing(other))) continue;
    if (asked->kind == CSV_FIELD_WORDS) {
      TRY(other ? add_cross(r, fields, i, cell, other) : add_words(r, fields, i, cell, asked->separator));
      continue;
    }
    if (!csv_number(&f->in, cell, &x)) {
      snprintf(why, room, "expected a number, found '%s': correct it, or take its words, --columns field=%s", cell,
               asked->column);
      return NULL;
    }
    if (asked->kind == CSV_FIELD_BUCKETS) {
      TRY(add_bucket(r, fields, i, asked, x));
      continue;
    }
    const float value = scaled(asked->kind, x, &fit->columns[f->learned[at]]);
    if (!isfinite(value)) {
      snprintf(why, room, "%s is too far from the mean of the training rows", cell);
      return NULL;
    }
    TRY(add(r, 1 + (int64_t)i, i, value));
  }
  put_in_order(r);
  return NULL;
}
