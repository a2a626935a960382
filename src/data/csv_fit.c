#include "data/csv_fit.h"

#include "base/json_read.h"
#include "base/mem.h"
#include "data/csv_file.h"

#include <math.h>
#include <string.h>

#define SAMPLE_ROWS 1000 /* of the first file, by which a column is text or numbers */

/* What is counted of a column. */
typedef struct {
  int64_t numbers, words, missing;
  double sum, squares;
} column_counts;

void csv_fit_fini(csv_fit *fit) {
  for (size_t i = 0; i < fit->count; i++) {
    free(fit->columns[i].name);
    class_names_fini(&fit->columns[i].words);
    text_ids_fini(&fit->columns[i].ids);
  }
  free(fit->columns);
  *fit = (csv_fit){0};
}

bool csv_fit_matters(const csv_fit *fit) {
  for (size_t i = 0; i < fit->count; i++) {
    const csv_column *c = &fit->columns[i];
    if (c->role == CSV_FEATURE && (c->kind != CSV_NUMBER || c->missing >= 0)) return true;
  }
  return false;
}

int csv_bucket(const char *word, int width) {
  uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a: it must stay the same in all versions */
  for (const char *p = word; *p; p++) hash = (hash ^ (uint8_t)*p) * 0x100000001b3u;
  return (int)(hash % (uint64_t)width);
}

/* Goes on to the next line and counts its fields; *more false at the end. counts: [f->count]. */
static shoal_status count_line(csv_file *f, column_counts *counts, bool *more) {
  const uint8_t *at;
  size_t n, whole;
  const char *problem;
  TRY(csv_next_line(&f->in, &at, &n, &whole, &problem));
  *more = n > 0;
  if (!n) return NULL;
  csv_cursor c = csv_fields(f->in.separator, at, n);
  char field[CSV_FIELD];
  for (size_t i = 0; !problem && i < f->count && csv_next_field(&c, field); i++) {
    float number;
    column_counts *t = &counts[i];
    if (csv_is_missing(field))
      t->missing++;
    else if (csv_number(&f->in, field, &number))
      t->numbers++, t->sum += (double)number;
    else
      t->words++;
  }
  csv_pass_line(&f->in, at, whole);
  return NULL;
}

static shoal_status find_kinds(csv_file *f, csv_fit *fit) {
  column_counts *counts = calloc(f->count, sizeof *counts);
  csv_kind *kinds = calloc(f->count, sizeof *kinds);
  int *widths = calloc(f->count, sizeof *widths);
  shoal_status status = counts && kinds && widths ? NULL : status_no_memory();
  bool more = true;
  for (int i = 0; !status && more && i < SAMPLE_ROWS; i++) status = count_line(f, counts, &more);
  if (!status) status = status_wrap(csv_columns_kinds(&f->columns, f->names, f->count, kinds, widths), "%s", f->path);
  for (size_t i = 0; !status && i < f->count; i++) {
    csv_column *c = &fit->columns[i];
    bool words = counts[i].words > counts[i].numbers && !f->columns.field_count;
    c->kind = kinds[i] != CSV_FOUND_OUT ? kinds[i] : words ? CSV_CATEGORIES : CSV_NUMBER;
    c->asked = kinds[i] != CSV_FOUND_OUT;
    c->width = c->kind == CSV_HASH ? widths[i] : 1;
    if (c->kind == CSV_IDS) c->ids = (text_ids){.bins = widths[i], .unknown = 1};
  }
  free(counts);
  free(kinds);
  free(widths);
  return status;
}

/* Columns whose words have numbers already. */
static shoal_status take_lookups(const char *lookups, const char *path, csv_fit *fit) {
  json_error_t error;
  const char *name;
  json_t *v, *o = lookups ? json_read_words(lookups, JSON_REJECT_DUPLICATES, &error) : NULL;
  if (!lookups) return NULL;
  shoal_status status = json_is_object(o) ? NULL : status_make(SHOAL_ERR_ARGUMENT, "lookups: expected a JSON object");
  json_object_foreach (o, name, v) {
    size_t i = 0;
    while (i < fit->count && (!fit->columns[i].name || strcmp(fit->columns[i].name, name))) i++;
    if (!status && i == fit->count)
      status =
          status_make(SHOAL_ERR_INPUT,
                      "%s: the model takes the words of a column '%s', which the first line does not name: expected "
                      "a header line with the names of the model's inputs",
                      path, name);
    if (!status && fit->columns[i].role != CSV_FEATURE)
      status = status_make(SHOAL_ERR_ARGUMENT, "%s: column '%s' is an input of the model, but not a feature here", path,
                           name);
    if (status) break;
    csv_column *c = &fit->columns[i];
    text_ids_fini(&c->ids);
    c->kind = CSV_IDS;
    c->asked = true;
    c->width = 1;
    status = status_wrap(text_ids_from_json(v, &c->ids), "column '%s'", name);
  }
  json_decref(o);
  return status;
}

/* Whether its words are to be found in the rows. */
static bool learns_words(const csv_column *c) {
  return c->kind == CSV_CATEGORIES || (c->kind == CSV_IDS && !c->ids.bins && !c->ids.words.ordered);
}

/* A word of a column of categories. */
static shoal_status add_word(csv_column *c, const char *word) {
  if (c->kind == CSV_IDS) return learns_words(c) ? class_names_add(&c->ids.words, word) : NULL;
  if (c->kind != CSV_CATEGORIES) return NULL;
  TRY(class_names_add(&c->words, word));
  if (c->asked || c->words.count <= CSV_CATEGORIES_MAX) return NULL;
  class_names_fini(&c->words);
  c->kind = CSV_HASH;
  c->width = CSV_HASH_WIDTH;
  return NULL;
}

static shoal_status read_through(csv_file *f, csv_fit *fit, column_counts *counts) {
  for (;;) {
    const uint8_t *at;
    size_t n, whole;
    const char *problem;
    char field[CSV_FIELD], where[CSV_COLUMN_TEXT];
    float number;
    TRY(csv_next_line(&f->in, &at, &n, &whole, &problem));
    if (!n) return NULL;
    csv_cursor c = csv_fields(f->in.separator, at, n);
    for (size_t i = 0; !problem && i < f->count && csv_next_field(&c, field); i++) {
      if (f->roles[i] != CSV_FEATURE) continue;
      csv_column *column = &fit->columns[f->learned ? f->learned[i] : i];
      column_counts *t = &counts[column - fit->columns];
      if (csv_is_missing(field))
        t->missing++;
      else if (column->kind != CSV_NUMBER)
        TRY(status_wrap(add_word(column, field), "%s: %s", f->path, csv_file_column(f, i, where)));
      else if (csv_number(&f->in, field, &number))
        t->numbers++, t->sum += (double)number, t->squares += (double)number * (double)number;
    }
    csv_pass_line(&f->in, at, whole);
  }
}

/* Words and means, over all files. first: open, at its first row. */
static shoal_status learn_all(csv_file *first, char *const *paths, size_t n, char separator, const char *description,
                              csv_labels labels, csv_fit *fit) {
  column_counts *counts = calloc(fit->count, sizeof *counts);
  if (!counts) return status_no_memory();
  shoal_status status = read_through(first, fit, counts);
  for (size_t i = 1; i < n && !status; i++) {
    csv_file f;
    status = csv_file_open(paths[i], separator, description, fit, labels, &f);
    if (status) break;
    status = read_through(&f, fit, counts);
    csv_file_close(&f);
  }
  for (size_t i = 0; i < fit->count; i++) {
    fit->columns[i].missing = counts[i].missing;
    const double values = (double)counts[i].numbers, mean = counts[i].sum / fmax(values, 1);
    if (counts[i].numbers) fit->columns[i].mean = mean;
    if (counts[i].numbers && first->columns.field_count)
      fit->columns[i].spread = sqrt(fmax(counts[i].squares / values - mean * mean, 0));
  }
  free(counts);
  return status;
}

/* Widths and places, once kinds and words are known. */
static shoal_status lay_out(csv_fit *fit) {
  fit->width = 0;
  for (size_t i = 0; i < fit->count; i++) {
    csv_column *c = &fit->columns[i];
    if (c->role != CSV_FEATURE) continue;
    class_names_sort(&c->ids.words);
    if (c->kind == CSV_CATEGORIES) {
      class_names_sort(&c->words);
      c->width = MAX_OF(c->words.count, 1); /* a column without a value has one that stays 0 */
    }
    c->offset = fit->width;
    fit->width += c->width;
    if (fit->width > INT32_MAX)
      return status_make(SHOAL_ERR_INPUT, "the columns become more than %d numbers", INT32_MAX);
  }
  return NULL;
}

static shoal_status copy_columns(const csv_file *f, csv_fit *fit) {
  fit->columns = calloc(f->count, sizeof *fit->columns);
  if (!fit->columns) return status_no_memory();
  fit->count = f->count;
  for (size_t i = 0; i < f->count; i++) {
    fit->columns[i] = (csv_column){.role = f->roles[i], .missing = -1};
    if (f->names && !(fit->columns[i].name = strdup(f->names[i]))) return status_no_memory();
  }
  return NULL;
}

static shoal_status learn(csv_file *first, char *const *paths, size_t n, char separator, const char *description,
                          const char *lookups, csv_labels labels, csv_fit *fit) {
  TRY(copy_columns(first, fit));
  TRY(find_kinds(first, fit));
  TRY(take_lookups(lookups, first->path, fit));
  bool through = first->columns.missing == CSV_MISSING_MEAN;
  for (size_t i = 0; i < fit->count; i++)
    through |= fit->columns[i].role == CSV_FEATURE && learns_words(&fit->columns[i]);
  for (size_t i = 0; i < first->columns.field_count; i++)
    through |= first->columns.fields[i].kind == CSV_FIELD_STANDARDISE;
  TRY(csv_file_rewind(first));
  if (through) TRY(learn_all(first, paths, n, separator, description, labels, fit));
  return lay_out(fit);
}

shoal_status csv_fit_learn(char *const *paths, size_t n, char separator, const char *description, const char *lookups,
                           csv_labels labels, csv_fit *out) {
  csv_file first;
  csv_fit fit = {0};
  TRY(csv_file_open(paths[0], separator, description, NULL, labels, &first));
  shoal_status status = learn(&first, paths, n, separator, description, lookups, labels, &fit);
  csv_file_close(&first);
  if (status)
    csv_fit_fini(&fit);
  else
    *out = fit;
  return status;
}

/* ---- JSON: an array of columns */

static const char *const role_names[] = {
    [CSV_FEATURE] = "feature", [CSV_LABEL] = "label", [CSV_HOT] = "hot", [CSV_SKIP] = "skip", [CSV_WEIGHT] = "weight"};
static const char *const kind_names[] = {[CSV_FOUND_OUT] = "",
                                         [CSV_NUMBER] = "number",
                                         [CSV_CATEGORIES] = "categories",
                                         [CSV_HASH] = "hash",
                                         [CSV_IDS] = "ids"};

static int among(const char *word, const char *const *names, size_t n) {
  for (size_t i = 0; word && i < n; i++)
    if (!strcmp(names[i], word)) return (int)i;
  return -1;
}

json_t *csv_fit_to_json(const csv_fit *fit) {
  json_t *array = json_array();
  for (size_t i = 0; array && i < fit->count; i++) {
    const csv_column *c = &fit->columns[i];
    json_t *o = json_pack("{s:s?, s:s}", "name", c->name, "role", role_names[c->role]);
    if (c->role == CSV_FEATURE) {
      json_object_set_new(o, "kind", json_string(kind_names[c->kind]));
      if (c->kind == CSV_NUMBER) json_object_set_new(o, "mean", json_real(c->mean));
      if (c->spread > 0) json_object_set_new(o, "spread", json_real(c->spread));
      if (c->kind == CSV_HASH) json_object_set_new(o, "width", json_integer(c->width));
      if (c->kind == CSV_CATEGORIES)
        json_object_set_new(o, "words", class_names_to_json((const char *const *)c->words.names));
      if (c->kind == CSV_IDS && !text_ids_to_json(&c->ids, o)) {
        json_decref(o);
        o = NULL;
      }
      json_object_set_new(o, "missing", json_integer(c->missing));
    }
    if (!o || json_array_append_new(array, o)) {
      json_decref(array);
      return NULL;
    }
  }
  return array;
}

static shoal_status column_from_json(const json_t *o, csv_column *c) {
  const char *name = json_string_value(json_object_get(o, "name"));
  int role = among(json_string_value(json_object_get(o, "role")), role_names, COUNT_OF(role_names));
  int kind = among(json_string_value(json_object_get(o, "kind")), kind_names, COUNT_OF(kind_names));
  if (role < 0 || (role == CSV_FEATURE && kind <= CSV_FOUND_OUT))
    return status_make(SHOAL_ERR_INPUT,
                       "expected a \"role\" (feature, label, hot, skip) and a \"kind\" (number, "
                       "categories, hash, ids) in each of its columns");
  if (name && !(c->name = strdup(name))) return status_no_memory();
  c->role = (csv_role)role;
  c->missing = -1;
  if (role != CSV_FEATURE) return NULL;
  const json_t *missing = json_object_get(o, "missing");
  c->kind = (csv_kind)kind;
  c->width = 1;
  c->mean = json_number_value(json_object_get(o, "mean"));
  c->spread = json_number_value(json_object_get(o, "spread"));
  if (missing) c->missing = json_integer_value(missing);
  if (kind == CSV_HASH) {
    json_int_t width = json_integer_value(json_object_get(o, "width"));
    if (width < 1 || width > CSV_WIDTH_MAX)
      return status_make(SHOAL_ERR_INPUT, "expected a \"width\" of 1 to %d in a column of kind hash", CSV_WIDTH_MAX);
    c->width = (int)width;
  }
  if (kind == CSV_IDS) return text_ids_from_json(o, &c->ids);
  if (kind != CSV_CATEGORIES) return NULL;
  const char *const *words;
  TRY(class_names_from_json(json_object_get(o, "words"), &words));
  shoal_status status = class_names_add_all(&c->words, words);
  free((void *)words);
  return status;
}

shoal_status csv_fit_from_json(const json_t *array, csv_fit *out) {
  csv_fit fit = {.columns = calloc(json_array_size(array) + 1, sizeof *fit.columns)};
  if (!fit.columns) return status_no_memory();
  shoal_status status = NULL;
  int labels = 0;
  for (; fit.count < json_array_size(array) && !status; fit.count++) {
    csv_column *c = &fit.columns[fit.count];
    status = column_from_json(json_array_get(array, fit.count), c);
    labels += c->role == CSV_LABEL;
  }
  if (!status && labels > 1) status = status_make(SHOAL_ERR_INPUT, "expected one column that is the label");
  if (!status) status = lay_out(&fit);
  if (!status && !fit.width) status = status_make(SHOAL_ERR_INPUT, "expected a column that is a feature");
  if (status)
    csv_fit_fini(&fit);
  else
    *out = fit;
  return status;
}
