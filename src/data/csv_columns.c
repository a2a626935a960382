#include "data/csv_columns.h"

#include "base/mem.h"
#include "base/text.h"
#include "data/csv_text.h"
#include "data/text_ids.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

bool csv_label_name(const char *name) {
  static const char *const names[] = {"label", "target", "class", "y"};
  for (size_t i = 0; i < COUNT_OF(names); i++)
    if (!strcasecmp(name, names[i])) return true;
  return false;
}

static shoal_status add_word(char ***words, size_t *count, size_t *capacity, char *word) {
  void *array = *words;
  shoal_status status = mem_grow(&array, capacity, *count + 1, sizeof **words);
  *words = array;
  if (!status) (*words)[(*count)++] = word;
  return status;
}

static shoal_status set_missing(csv_columns *c, const char *value) {
  double number;
  c->missing = !strcmp(value, "mean")    ? CSV_MISSING_MEAN
               : !strcmp(value, "error") ? CSV_MISSING_ERROR
                                         : CSV_MISSING_VALUE;
  if (c->missing != CSV_MISSING_VALUE) return NULL;
  if (!text_to_double(value, &number) || !isfinite((float)number))
    return status_make(SHOAL_ERR_ARGUMENT, "columns: missing= expects error, mean or a number, found '%s'", value);
  c->missing_value = (float)number;
  return NULL;
}

/* categories=COLUMN, hash=COLUMN:WIDTH, bucket=COLUMN:BINS, ids=COLUMN, numbers=COLUMN. width: the usual one; most: 0 if the
 * column has none. */
static shoal_status add_kind(csv_columns *c, csv_kind kind, const char *key, char *value, int64_t width, int64_t most) {
  char *colon = most ? strrchr(value, ':') : NULL;
  if (colon && text_to_int(colon + 1, &width)) *colon = 0;
  if (most && (width < 1 || width > most))
    return status_make(SHOAL_ERR_ARGUMENT, "columns: %s=%s: expected a width of 1 to %lld, found %lld", key, value,
                       (long long)most, (long long)width);
  void *array = c->kinds;
  shoal_status status = mem_grow(&array, &c->kind_capacity, c->kind_count + 1, sizeof *c->kinds);
  c->kinds = array;
  if (!status) c->kinds[c->kind_count++] = (csv_kind_asked){value, kind, (int)width};
  return status;
}

/* "1|5|20" */
static shoal_status read_bounds(const char *words, csv_field_asked *f) {
  char *copy = strdup(words), *rest = copy;
  f->bounds = calloc(strlen(words) + 1, sizeof *f->bounds);
  bool good = copy && f->bounds;
  for (char *word; good && (word = strsep(&rest, "|"));) {
    double number;
    good = text_to_double(word, &number) && isfinite((float)number) &&
           (!f->n_bounds || (float)number > f->bounds[f->n_bounds - 1]);
    if (good) f->bounds[f->n_bounds++] = (float)number;
  }
  free(copy);
  if (good && f->n_bounds) return NULL;
  return status_make(SHOAL_ERR_ARGUMENT,
                     "columns: field=%s:buckets: expected ascending numbers with | between them, as in "
                     "field=%s:buckets:1|5|20, found '%s'",
                     f->column, f->column, words);
}

/* COLUMN, COLUMN:KIND, COLUMN:KIND:MORE or A*B. */
static shoal_status read_field(char *value, csv_field_asked *f) {
  static const char *const kinds[] = {"words", "number", "log", "standardise", "buckets", "split"};
  enum { SPLIT = 5 };
  char *colon = strchr(value, ':'), *more = colon ? strchr(colon + 1, ':') : NULL, *star = strchr(value, '*');
  size_t kind = 0;
  f->column = value;
  if (!colon && star) {
    *star = 0;
    f->with = star + 1;
    if (!*value || !*f->with) return status_make(SHOAL_ERR_ARGUMENT, "columns: a cross is field=COLUMN*COLUMN");
    return NULL;
  }
  if (!colon) return NULL;
  *colon = 0;
  if (more) *more++ = 0;
  while (kind < COUNT_OF(kinds) && strcmp(colon + 1, kinds[kind])) kind++;
  if (kind == COUNT_OF(kinds))
    return status_make(SHOAL_ERR_ARGUMENT,
                       "columns: field=%s: unknown kind '%s'; known are words, number, log, standardise, buckets and "
                       "split",
                       value, colon + 1);
  if (kind == SPLIT) {
    f->separator = more && *more ? *more : '|';
    return NULL;
  }
  f->kind = (csv_field_kind)kind;
  if (f->kind == CSV_FIELD_BUCKETS) return read_bounds(more ? more : "", f);
  if (more) return status_make(SHOAL_ERR_ARGUMENT, "columns: field=%s:%s takes no '%s'", value, kinds[kind], more);
  return NULL;
}

static shoal_status add_field(csv_columns *c, char *value) {
  void *array = c->fields;
  shoal_status status = mem_grow(&array, &c->field_capacity, c->field_count + 1, sizeof *c->fields);
  c->fields = array;
  if (status) return status;
  csv_field_asked *f = &c->fields[c->field_count++];
  *f = (csv_field_asked){0};
  return read_field(value, f);
}

static shoal_status set_separator(csv_columns *c, const char *value) {
  c->separator = csv_separator_called(value);
  if (c->separator) return NULL;
  return status_make(SHOAL_ERR_ARGUMENT, "columns: separator= expects tab, semicolon, pipe, comma or blank, found '%s'",
                     value);
}

static const char *const keys[] = {"label",     "target",     "weight", "skip",    "missing", "header", "classes",
                                   "separator", "categories", "hash",   "numbers", "ids",     "bucket", "field"};

static shoal_status one(csv_columns *c, char *key, char *value) {
  if (!value || !*value)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "columns: expected label=, target=, weight=, skip=, missing=, header=, classes=, "
                       "separator=, categories=, hash=, ids=, bucket=, numbers= or field= with a value, found "
                       "'%s'",
                       key);
  if (!strcmp(key, "label") || !strcmp(key, "target")) {
    if (c->label) return status_make(SHOAL_ERR_ARGUMENT, "columns: label= or target= is given twice: keep one");
    c->label = value;
    c->target = *key == 't';
    return NULL;
  }
  if (!strcmp(key, "weight")) {
    if (c->weight) return status_make(SHOAL_ERR_ARGUMENT, "columns: weight= is given twice: keep one");
    c->weight = value;
    return NULL;
  }
  if (!strcmp(key, "skip")) return add_word(&c->skip, &c->skip_count, &c->skip_capacity, value);
  if (!strcmp(key, "missing")) return set_missing(c, value);
  if (!strcmp(key, "separator")) return set_separator(c, value);
  if (!strcmp(key, "categories")) return add_kind(c, CSV_CATEGORIES, key, value, 0, 0);
  if (!strcmp(key, "hash")) return add_kind(c, CSV_HASH, key, value, CSV_HASH_WIDTH, CSV_WIDTH_MAX);
  if (!strcmp(key, "ids")) return add_kind(c, CSV_IDS, key, value, 0, 0);
  if (!strcmp(key, "bucket")) return add_kind(c, CSV_IDS, key, value, 0, TEXT_IDS_MAX);
  if (!strcmp(key, "numbers")) return add_kind(c, CSV_NUMBER, key, value, 0, 0);
  if (!strcmp(key, "field")) return add_field(c, value);
  if (!strcmp(key, "header")) {
    c->header = !strcmp(value, "yes") ? 1 : !strcmp(value, "no") ? 0 : -1;
    if (c->header < 0) return status_make(SHOAL_ERR_ARGUMENT, "columns: header= expects yes or no, found '%s'", value);
    return NULL;
  }
  if (!strcmp(key, "classes")) {
    for (char *word; (word = strsep(&value, "|"));)
      TRY(add_word(&c->classes, &c->class_count, &c->class_capacity, word));
    return NULL;
  }
  const char *nearest = text_nearest(key, keys, COUNT_OF(keys));
  return status_make(SHOAL_ERR_ARGUMENT,
                     "columns: unknown key '%s='; known are label, target, weight, skip, missing, header, "
                     "classes, separator, categories, hash, ids, bucket, numbers and field%s%s%s",
                     key, nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
}

shoal_status csv_columns_parse(const char *description, csv_columns *out) {
  csv_columns c = {.header = -1};
  if (description && *description) {
    c.text = strdup(description);
    if (!c.text) return status_no_memory();
    char *rest = c.text;
    for (char *word; (word = strsep(&rest, ","));) {
      char *value = word, *key = strsep(&value, "=");
      shoal_status status = one(&c, key, value);
      if (status) {
        csv_columns_fini(&c);
        return status;
      }
    }
  }
  *out = c;
  return NULL;
}

void csv_columns_fini(csv_columns *c) {
  free(c->text);
  free(c->skip);
  free(c->classes);
  free(c->kinds);
  for (size_t i = 0; i < c->field_count; i++) free(c->fields[i].bounds);
  free(c->fields);
  *c = (csv_columns){.header = -1};
}

static shoal_status find(const char *column, char *const *names, size_t n, size_t *out) {
  for (size_t i = 0; names && i < n; i++)
    if (!strcmp(names[i], column)) {
      *out = i;
      return NULL;
    }
  int64_t number;
  if (text_to_int(column, &number)) {
    if (number < 0 || (uint64_t)number >= n)
      return status_make(SHOAL_ERR_ARGUMENT, "column %s is named, but there are %zu, 0 to %zu", column, n, n - 1);
    *out = (size_t)number;
    return NULL;
  }
  if (!names)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "column '%s' is named, but the first line holds no names: give its "
                       "number, from 0, or header=yes",
                       column);
  const char *nearest = text_nearest(column, (const char *const *)names, n);
  return status_make(SHOAL_ERR_ARGUMENT, "unknown column '%s'%s%s%s: see the first line of the file", column,
                     nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
}

shoal_status csv_columns_kinds(const csv_columns *c, char *const *names, size_t n, csv_kind *kinds, int *widths) {
  for (size_t i = 0; i < c->kind_count; i++) {
    size_t column;
    TRY(find(c->kinds[i].column, names, n, &column));
    kinds[column] = c->kinds[i].kind;
    widths[column] = c->kinds[i].width;
  }
  return NULL;
}

shoal_status csv_columns_fields(const csv_columns *c, char *const *names, size_t n, size_t *out) {
  for (size_t i = 0; i < c->field_count; i++) {
    const csv_field_asked *f = &c->fields[i];
    TRY(find(f->column, names, n, &out[2 * i]));
    out[2 * i + 1] = out[2 * i];
    if (f->with) TRY(find(f->with, names, n, &out[2 * i + 1]));
  }
  return NULL;
}

/* Only what is a field is a feature. */
static shoal_status assign_fields(const csv_columns *c, char *const *names, size_t n, csv_role *roles) {
  size_t *columns = calloc(2 * c->field_count, sizeof *columns);
  if (!columns) return status_no_memory();
  shoal_status status = csv_columns_fields(c, names, n, columns);
  for (size_t i = 0; i < n && !status; i++) {
    bool named = false;
    for (size_t k = 0; k < 2 * c->field_count; k++) named |= columns[k] == i;
    if (named && roles[i] != CSV_FEATURE)
      status = status_make(SHOAL_ERR_ARGUMENT, "column %zu is a field and also the label or weight: choose another", i);
    if (!named && roles[i] == CSV_FEATURE) roles[i] = CSV_SKIP;
  }
  free(columns);
  return status;
}

/* "A|B|C", or "4-6". *several false: it is neither. */
static shoal_status assign_hot(const char *words, char *const *names, size_t n, csv_role *roles, bool *several) {
  size_t first, last, column;
  char more;
  *several = true;
  if (sscanf(words, "%zu-%zu%c", &first, &last, &more) == 2 && first < last) {
    if (last >= n)
      return status_make(SHOAL_ERR_ARGUMENT, "columns %s are named, but there are %zu, 0 to %zu", words, n, n - 1);
    while (first <= last) roles[first++] = CSV_HOT;
    return NULL;
  }
  *several = strchr(words, '|') != NULL;
  if (!*several) return NULL;
  char *copy = strdup(words), *rest = copy;
  if (!copy) return status_no_memory();
  shoal_status status = NULL;
  for (char *word; !status && (word = strsep(&rest, "|"));) {
    status = find(word, names, n, &column);
    if (!status) roles[column] = CSV_HOT;
  }
  free(copy);
  return status;
}

static bool is_column(const char *word, char *const *names, size_t n) {
  for (size_t i = 0; names && i < n; i++)
    if (!strcmp(names[i], word)) return true;
  return false;
}

static shoal_status assign_label(const csv_columns *c, char *const *names, size_t n, csv_role *roles) {
  size_t label = n - 1;
  bool several = false;
  for (size_t i = n; names && i-- > 0;)
    if (csv_label_name(names[i])) label = i;
  if (c->label && !c->target && !is_column(c->label, names, n)) TRY(assign_hot(c->label, names, n, roles, &several));
  if (several) return NULL;
  if (c->label) TRY(find(c->label, names, n, &label));
  roles[label] = CSV_LABEL;
  return NULL;
}

static shoal_status assign_weight(const csv_columns *c, char *const *names, size_t n, csv_role *roles) {
  size_t column;
  TRY(find(c->weight, names, n, &column));
  if (roles[column] != CSV_FEATURE)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "column %zu is both the label and the weight: choose another weight=", column);
  roles[column] = CSV_WEIGHT;
  return NULL;
}

shoal_status csv_columns_assign(const csv_columns *c, char *const *names, size_t n, bool labelled, csv_role *roles) {
  for (size_t i = 0; i < n; i++) roles[i] = CSV_FEATURE;
  size_t features = 0;
  if (labelled) TRY(assign_label(c, names, n, roles));
  if (c->weight) TRY(assign_weight(c, names, n, roles));
  if (c->field_count) TRY(assign_fields(c, names, n, roles));
  for (size_t i = 0; i < c->skip_count; i++) {
    size_t column;
    TRY(find(c->skip[i], names, n, &column));
    if (roles[column] != CSV_FEATURE && roles[column] != CSV_SKIP) {
      const char *what = roles[column] == CSV_WEIGHT ? "weight" : "label";
      return status_make(SHOAL_ERR_ARGUMENT, "column %zu is both the %s and skipped: choose another %s=", column, what,
                         what);
    }
    roles[column] = CSV_SKIP;
  }
  for (size_t i = 0; i < n; i++) features += roles[i] == CSV_FEATURE;
  if (!features)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "no column is left for features: expected a label and at least one number "
                       "in each line");
  return NULL;
}
