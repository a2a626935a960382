#include "data/preprocessing.h"

#include "base/json_read.h"
#include "base/json_text.h"
#include "base/mem.h"

#include <math.h>
#include <string.h>

void feature_scaling_fini(feature_scaling *s) {
  free(s->step);
  free(s->shift);
  free(s->scale);
  *s = (feature_scaling){0};
}

void preprocessing_fini(preprocessing *p) {
  csv_fit_fini(&p->table);
  feature_scaling_fini(&p->features);
}

static json_t *numbers_to_json(const double *x, int64_t n) {
  json_t *array = json_array();
  for (int64_t i = 0; i < n; i++) json_array_append_new(array, json_real(x[i]));
  return array;
}

shoal_status preprocessing_write(const preprocessing *p, char **out) {
  *out = NULL;
  bool columns = csv_fit_matters(&p->table);
  const feature_scaling *s = &p->features;
  if (!columns && !s->step) return NULL;
  json_t *o = json_object();
  if (columns) json_object_set_new(o, "columns", csv_fit_to_json(&p->table));
  if (s->step)
    json_object_set_new(o, "features",
                        json_pack("{s:s, s:o, s:o}", "step", s->step, "shift", numbers_to_json(s->shift, s->count),
                                  "scale", numbers_to_json(s->scale, s->count)));
  *out = json_object_size(o) == (size_t)(columns + (s->step != NULL)) ? json_words(o, JSON_COMPACT) : NULL;
  json_decref(o);
  return *out ? NULL : status_no_memory();
}

/* false: not [count] finite numbers. */
static bool numbers_from_json(const json_t *array, int64_t count, double *out) {
  if ((int64_t)json_array_size(array) != count) return false;
  for (int64_t i = 0; i < count; i++) {
    const json_t *x = json_array_get(array, (size_t)i);
    out[i] = json_number_value(x);
    if (!json_is_number(x) || !isfinite(out[i])) return false;
  }
  return true;
}

static shoal_status scaling_from_json(const json_t *o, feature_scaling *out) {
  const char *step = json_string_value(json_object_get(o, "step"));
  int64_t count = (int64_t)json_array_size(json_object_get(o, "shift"));
  if (!step || count < 1 || count > FEATURE_SCALING_MAX)
    return status_make(SHOAL_ERR_INPUT, "expected \"features\" with a step and 1 to %d numbers", FEATURE_SCALING_MAX);
  *out = (feature_scaling){strdup(step), count, calloc((size_t)count, sizeof *out->shift),
                           calloc((size_t)count, sizeof *out->scale)};
  if (!out->step || !out->shift || !out->scale) return status_no_memory();
  if (!numbers_from_json(json_object_get(o, "shift"), count, out->shift) ||
      !numbers_from_json(json_object_get(o, "scale"), count, out->scale))
    return status_make(SHOAL_ERR_INPUT, "expected as many finite numbers in \"scale\" as in \"shift\" of its features");
  return NULL;
}

shoal_status preprocessing_parse(const char *words, preprocessing *out) {
  preprocessing p = {0};
  *out = p;
  if (!words) return NULL;
  json_error_t error;
  json_t *o = json_read_words(words, JSON_REJECT_DUPLICATES, &error);
  shoal_status status = NULL;
  if (!json_is_object(o)) {
    status = status_make(SHOAL_ERR_INPUT, "expected a JSON object, %s", o ? "found something else" : error.text);
  } else {
    const json_t *columns = json_object_get(o, "columns"), *features = json_object_get(o, "features");
    if (columns) status = csv_fit_from_json(columns, &p.table);
    if (!status && features) status = scaling_from_json(features, &p.features);
  }
  json_decref(o);
  if (status)
    preprocessing_fini(&p);
  else
    *out = p;
  return status_wrap(status, "preprocessing");
}

/* ---- for people */

static bool is_plain(const csv_column *c) {
  return c->role != CSV_FEATURE || (c->kind == CSV_NUMBER && c->missing <= 0);
}

static void describe_column(const csv_column *c, size_t number, text *out) {
  char words[CLASS_NAMES_TEXT], own[32];
  snprintf(own, sizeof own, "column %zu", number);
  text_add(out, "%s: ", c->name ? c->name : own);
  if (c->kind == CSV_CATEGORIES)
    text_add(out, "%d categories (%s)", c->words.count,
             class_names_describe((const char *const *)c->words.names, words));
  else if (c->kind == CSV_HASH)
    text_add(out, "text, hashed to %d numbers", c->width);
  else if (c->kind == CSV_IDS)
    text_add(out, "text, each word one of %lld numbers%s", (long long)text_ids_count(&c->ids),
             c->ids.bins ? ", by a hash" : "");
  if (c->missing > 0) text_add(out, "%s%lld missing", c->kind == CSV_NUMBER ? "" : ", ", (long long)c->missing);
  if (c->missing > 0 && c->kind == CSV_NUMBER) text_add(out, ", mean %.6g", c->mean);
}

/* The columns as an array, whose texts stand one after the other in *texts. */
static shoal_status list_columns(const csv_fit *table, shoal_data_column *out, text *texts) {
  size_t n = 0;
  for (size_t i = 0; i < table->count; i++) {
    const csv_column *c = &table->columns[i];
    if (is_plain(c)) continue;
    out[n++] = (shoal_data_column){.number = (int)i,
                                   .kind = c->kind == CSV_CATEGORIES ? SHOAL_COLUMN_CATEGORIES
                                           : c->kind == CSV_HASH     ? SHOAL_COLUMN_HASHED
                                           : c->kind == CSV_IDS      ? SHOAL_COLUMN_IDS
                                                                     : SHOAL_COLUMN_NUMBER,
                                   .name = c->name,
                                   .width = c->width,
                                   .missing = c->missing,
                                   .mean = c->mean};
    describe_column(c, i, texts);
    text_add_bytes(texts, "", 1);
    if (c->name) text_add_bytes(texts, c->name, strlen(c->name) + 1);
  }
  return texts->failed ? status_no_memory() : NULL;
}

shoal_status preprocessing_columns(const char *learned, shoal_data_column **out, int *count) {
  preprocessing p;
  text texts = {0};
  size_t n = 0;
  TRY(preprocessing_parse(learned, &p));
  for (size_t i = 0; i < p.table.count; i++) n += !is_plain(&p.table.columns[i]);
  shoal_data_column *columns = calloc(n + 1, sizeof *columns), *block = NULL;
  shoal_status status = columns ? list_columns(&p.table, columns, &texts) : status_no_memory();
  if (!status && !(block = realloc(columns, (n + 1) * sizeof *columns + texts.length))) status = status_no_memory();
  if (block) {
    columns = block;
    char *at = texts.length ? memcpy(columns + n + 1, texts.data, texts.length) : NULL;
    for (size_t i = 0; i < n; i++) {
      columns[i].text = at;
      at += strlen(at) + 1;
      if (!columns[i].name) continue;
      columns[i].name = at;
      at += strlen(at) + 1;
    }
    *out = columns;
    *count = (int)n;
  } else {
    free(columns);
  }
  text_fini(&texts);
  preprocessing_fini(&p);
  return status;
}

shoal_status preprocessing_describe(const char *learned, const char *indent, int most, text *out) {
  shoal_data_column *columns;
  int n;
  TRY(preprocessing_columns(learned, &columns, &n));
  for (int i = 0; i < n && i < most; i++) text_add(out, "%s%s\n", indent, columns[i].text);
  if (n > most) text_add(out, "%s... and %d more\n", indent, n - most);
  free(columns);
  return NULL;
}
