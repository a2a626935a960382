#include "run/settings.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMES_MAX 128

static void *field(const shoal_setting *row, void *fields) { return (char *)fields + row->offset; }
static const void *field_of(const shoal_setting *row, const void *fields) { return (const char *)fields + row->offset; }

static size_t names_count(const char *const *names) {
  size_t n = 0;
  while (names[n]) n++;
  return n;
}

void text_add_names(const char *const *names, text *out) {
  size_t n = names_count(names);
  for (size_t i = 0; i < n; i++) text_add(out, "%s%s", i == 0 ? "" : i + 1 == n ? " or " : ", ", names[i]);
}

/* ---- finding */

static bool same_name(const char *a, const char *b) {
  for (; *a && *b; a++, b++)
    if (*a != *b && !(*a == '-' && *b == '_') && !(*a == '_' && *b == '-')) return false;
  return *a == *b;
}

const shoal_setting *setting_find(const shoal_setting *table, const char *name) {
  for (const shoal_setting *row = table; row->name; row++)
    if (same_name(row->name, name)) return row;
  return NULL;
}

shoal_status shoal_setting_find(const shoal_setting *table, const char *name, const shoal_setting **out) {
  const shoal_setting *found = setting_find(table, name);
  if (found) {
    *out = found;
    return NULL;
  }
  const char *names[NAMES_MAX];
  size_t n = 0;
  for (const shoal_setting *row = table; row->name && n < NAMES_MAX; row++)
    if (!(row->marks & SHOAL_SETTING_HIDDEN)) names[n++] = row->name;
  const char *near = shoal_nearest_name(name, names, n);
  if (near) return status_make(SHOAL_ERR_ARGUMENT, "unknown setting `%s`; did you mean `%s`?", name, near);
  return status_make(SHOAL_ERR_ARGUMENT, "unknown setting `%s`", name);
}

/* ---- values from text */

static shoal_status bad_choice(const shoal_setting *row, const char *word) {
  const char *const *names = row->choices();
  const char *near = shoal_nearest_name(word, names, names_count(names));
  text list = {0};
  text_add_names(names, &list);
  shoal_status status =
      status_make(SHOAL_ERR_ARGUMENT, "`%s`: unknown value '%s'; expected %s%s%s%s", row->name, word,
                  list.data ? list.data : "?", near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
  text_fini(&list);
  return status;
}

static shoal_status out_of_range(const shoal_setting *row, const char *word) {
  const char *what = row->kind == SHOAL_SETTING_INT ? "a whole number" : "a number";
  if (row->least == 0 && row->most == 0)
    return status_make(SHOAL_ERR_ARGUMENT, "`%s`: expected %s, not '%s'", row->name, what, word);
  if (!isfinite(row->most) || row->most >= 1e15)
    return status_make(SHOAL_ERR_ARGUMENT, "`%s`: expected %s from %.12g on, not '%s'", row->name, what, row->least,
                       word);
  return status_make(SHOAL_ERR_ARGUMENT, "`%s`: expected %s from %.12g to %.12g, not '%s'", row->name, what, row->least,
                     row->most, word);
}

static bool in_range(const shoal_setting *row, double value) {
  if (!isfinite(value)) return false;
  return (row->least == 0 && row->most == 0) || (value >= row->least && value <= row->most);
}

static shoal_status set_choice(const shoal_setting *row, const char *word, void *fields) {
  const char *const *names = row->choices();
  for (size_t i = 0; names[i]; i++)
    if (!strcmp(names[i], word)) {
      *(const char **)field(row, fields) = names[i];
      return NULL;
    }
  return bad_choice(row, word);
}

/* A flag without a value is switched on. */
static shoal_status set_bool(const shoal_setting *row, const char *word, void *fields) {
  const bool no = word && (!strcmp(word, "no") || !strcmp(word, "false"));
  if (word && !no && strcmp(word, "yes") && strcmp(word, "true"))
    return status_make(SHOAL_ERR_ARGUMENT, "`%s`: expected yes or no, not '%s'", row->name, word);
  *(bool *)field(row, fields) = !no;
  return NULL;
}

shoal_status shoal_setting_set(const shoal_setting *row, const char *word, void *fields) {
  int64_t i;
  double d;
  switch (row->kind) {
    case SHOAL_SETTING_BOOL: return set_bool(row, word, fields);
    case SHOAL_SETTING_INT:
      if (!shoal_parse_int(word, &i) || !in_range(row, (double)i)) return out_of_range(row, word);
      *(int64_t *)field(row, fields) = i;
      return NULL;
    case SHOAL_SETTING_NUMBER:
      if (!shoal_parse_double(word, &d) || !in_range(row, d)) return out_of_range(row, word);
      *(double *)field(row, fields) = d;
      return NULL;
    case SHOAL_SETTING_TEXT:
      if (!*word)
        return status_make(SHOAL_ERR_ARGUMENT, "`%s`: the value is empty; expected %s", row->name, row->value);
      *(const char **)field(row, fields) = word;
      return NULL;
    case SHOAL_SETTING_CHOICE: return set_choice(row, word, fields);
  }
  return status_make(SHOAL_ERR_INTERNAL, "`%s`: a kind of setting that nobody reads", row->name);
}

/* ---- what was said */

static size_t size_of(const shoal_setting *row) {
  switch (row->kind) {
    case SHOAL_SETTING_BOOL: return sizeof(bool);
    case SHOAL_SETTING_INT: return sizeof(int64_t);
    case SHOAL_SETTING_NUMBER: return sizeof(double);
    case SHOAL_SETTING_TEXT:
    case SHOAL_SETTING_CHOICE: return sizeof(const char *);
  }
  return 0;
}

bool setting_is_said(const shoal_setting *row, const void *fields, const void *unset) {
  const void *a = field_of(row, fields), *b = field_of(row, unset);
  if (row->kind == SHOAL_SETTING_NUMBER && isnan(*(const double *)a) && isnan(*(const double *)b)) return false;
  return memcmp(a, b, size_of(row)) != 0;
}

void setting_copy(const shoal_setting *row, const void *from, void *to) {
  memcpy(field(row, to), field_of(row, from), size_of(row));
}

/* ---- kept */

static json_t *value_json(const shoal_setting *row, const void *fields) {
  const void *at = field_of(row, fields);
  switch (row->kind) {
    case SHOAL_SETTING_BOOL: return json_boolean(*(const bool *)at);
    case SHOAL_SETTING_INT: return json_integer(*(const int64_t *)at);
    case SHOAL_SETTING_NUMBER: return json_real(*(const double *)at);
    case SHOAL_SETTING_TEXT:
    case SHOAL_SETTING_CHOICE: return *(const char *const *)at ? json_string(*(const char *const *)at) : json_null();
  }
  return NULL;
}

json_t *settings_to_json(const shoal_setting *table, const void *fields) {
  json_t *object = json_object();
  for (const shoal_setting *row = table; object && row->name; row++) {
    if (!(row->marks & SHOAL_SETTING_KEPT)) continue;
    if (json_object_set_new(object, row->name, value_json(row, fields)) < 0) {
      json_decref(object);
      return NULL;
    }
  }
  return object;
}

/* 0 is what a setting that was not said holds, whatever the range. */
static bool kept_in_range(const shoal_setting *row, double value) { return value == 0 || in_range(row, value); }

static shoal_status from_json(const shoal_setting *row, const json_t *value, const char *file, void *fields) {
  if (row->kind == SHOAL_SETTING_BOOL && json_is_boolean(value)) {
    *(bool *)field(row, fields) = json_is_true(value);
    return NULL;
  }
  if (row->kind == SHOAL_SETTING_INT && json_is_integer(value) &&
      kept_in_range(row, (double)json_integer_value(value))) {
    *(int64_t *)field(row, fields) = json_integer_value(value);
    return NULL;
  }
  if (row->kind == SHOAL_SETTING_NUMBER && json_is_number(value) && kept_in_range(row, json_number_value(value))) {
    *(double *)field(row, fields) = json_number_value(value);
    return NULL;
  }
  if (row->kind == SHOAL_SETTING_TEXT && json_is_string(value)) {
    *(const char **)field(row, fields) = json_string_value(value);
    return NULL;
  }
  if (row->kind == SHOAL_SETTING_CHOICE && json_is_string(value))
    return status_wrap(set_choice(row, json_string_value(value), fields), "%s", file);
  return status_make(SHOAL_ERR_INPUT, "%s: \"%s\" is not a valid value of `%s`; set it, or start a new run", file,
                     row->name, row->name);
}

shoal_status settings_from_json(const shoal_setting *table, const json_t *object, const char *file, void *fields) {
  for (const shoal_setting *row = table; row->name; row++) {
    if (!(row->marks & SHOAL_SETTING_KEPT)) continue;
    const json_t *value = json_object_get(object, row->name);
    if (value && !json_is_null(value)) TRY(from_json(row, value, file, fields));
  }
  return NULL;
}

char *setting_to_text(const shoal_setting *row, const void *fields) {
  const void *at = field_of(row, fields);
  char *out;
  int n = 0;
  switch (row->kind) {
    case SHOAL_SETTING_BOOL: n = asprintf(&out, "%s", *(const bool *)at ? "yes" : "no"); break;
    case SHOAL_SETTING_INT: n = asprintf(&out, "%lld", (long long)*(const int64_t *)at); break;
    case SHOAL_SETTING_NUMBER: n = asprintf(&out, "%.17g", *(const double *)at); break;
    case SHOAL_SETTING_TEXT:
    case SHOAL_SETTING_CHOICE:
      n = asprintf(&out, "%s", *(const char *const *)at ? *(const char *const *)at : "");
      break;
  }
  return n < 0 ? NULL : out;
}

void settings_to_lines(const shoal_setting *table, const void *fields, text *out) {
  for (const shoal_setting *row = table; row->name; row++) {
    if (!(row->marks & SHOAL_SETTING_SHAPES)) continue;
    char *value = setting_to_text(row, fields);
    if (value)
      text_add(out, "%s=%s\n", row->name, value);
    else
      out->failed = true;
    free(value);
  }
}
