#include "cli/flags.h"

#include "cli/say.h"

#include <math.h>
#include <string.h>

static void *field(const flag_row *row, void *fields) { return (char *)fields + row->offset; }
static const void *field_of(const flag_row *row, const void *fields) { return (const char *)fields + row->offset; }

size_t names_count(const char *const *names) {
  size_t n = 0;
  while (names[n]) n++;
  return n;
}

char *names_list(const char *const *names) {
  size_t n = names_count(names);
  memory_text list;
  shoal_status status = memory_open(&list);
  for (size_t i = 0; !status && i < n; i++)
    fprintf(list.to, "%s%s", i == 0 ? "" : i + 1 == n ? " or " : ", ", names[i]);
  if (!status) status = memory_close(&list);
  shoal_status_free(status);
  return list.words;
}

/* The row called name[0..length), or NULL. */
static const flag_row *find(const flag_row *table, const char *name, size_t length) {
  for (const flag_row *row = table; row->name; row++)
    if (strlen(row->name) == length && !memcmp(row->name, name, length)) return row;
  return NULL;
}

static shoal_status unknown_flag(const flag_row *table, const char *name, size_t length) {
  const char *names[FLAGS_MOST + 1];
  size_t n = 0;
  for (const flag_row *row = table; row->name && n < FLAGS_MOST; row++)
    if (!(row->marks & FLAG_HIDDEN)) names[n++] = row->name;
  names[n++] = "help";
  char word[64];
  snprintf(word, sizeof word, "%.*s", (int)length, name);
  const char *near = shoal_nearest_name(word, names, n);
  if (near) return status_make(SHOAL_ERR_ARGUMENT, "unknown flag --%s; did you mean --%s?", word, near);
  return status_make(SHOAL_ERR_ARGUMENT, "unknown flag --%s", word);
}

static shoal_status bad_choice(const flag_row *row, const char *word) {
  const char *const *names = row->choices();
  const char *near = shoal_nearest_name(word, names, names_count(names));
  char *list = names_list(names);
  shoal_status status =
      status_make(SHOAL_ERR_ARGUMENT, "--%s: '%s' is not known%s%s%s; it is %s", row->name, word,
                  near ? "; did you mean " : "", near ? near : "", near ? "?" : "", list ? list : "?");
  free(list);
  return status;
}

static shoal_status out_of_range(const flag_row *row, const char *word) {
  const char *what = row->kind == FLAG_INT ? "a whole number" : "a number";
  if (row->least == 0 && row->most == 0)
    return status_make(SHOAL_ERR_ARGUMENT, "--%s: expected %s, not '%s'", row->name, what, word);
  if (!isfinite(row->most) || row->most >= 1e15)
    return status_make(SHOAL_ERR_ARGUMENT, "--%s: expected %s from %.12g on, not '%s'", row->name, what, row->least,
                       word);
  return status_make(SHOAL_ERR_ARGUMENT, "--%s: expected %s from %.12g to %.12g, not '%s'", row->name, what, row->least,
                     row->most, word);
}

static bool in_range(const flag_row *row, double value) {
  if (!isfinite(value)) return false;
  return (row->least == 0 && row->most == 0) || (value >= row->least && value <= row->most);
}

static shoal_status set_choice(const flag_row *row, const char *word, void *fields) {
  const char *const *names = row->choices();
  for (size_t i = 0; names[i]; i++)
    if (!strcmp(names[i], word)) {
      *(const char **)field(row, fields) = names[i];
      return NULL;
    }
  return bad_choice(row, word);
}

static shoal_status set(const flag_row *row, const char *word, void *fields) {
  int64_t i;
  double d;
  switch (row->kind) {
    case FLAG_BOOL:
      *(bool *)field(row, fields) = true;
      return NULL;
    case FLAG_INT:
      if (!shoal_parse_int(word, &i) || !in_range(row, (double)i)) return out_of_range(row, word);
      *(int64_t *)field(row, fields) = i;
      return NULL;
    case FLAG_NUMBER:
      if (!shoal_parse_double(word, &d) || !in_range(row, d)) return out_of_range(row, word);
      *(double *)field(row, fields) = d;
      return NULL;
    case FLAG_TEXT:
      if (!*word)
        return status_make(SHOAL_ERR_ARGUMENT, "--%s: the value is empty; expected %s", row->name, row->value);
      *(const char **)field(row, fields) = word;
      return NULL;
    case FLAG_CHOICE:
      return set_choice(row, word, fields);
  }
  return status_make(SHOAL_ERR_INTERNAL, "--%s: a kind of flag nobody reads", row->name);
}

static bool asks_for_help(int argc, char **argv) {
  for (int i = 0; i < argc && strcmp(argv[i], "--"); i++)
    if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) return true;
  return false;
}

static shoal_status add_word(flags_parsed *out, const char *word) {
  if (out->count == FLAGS_WORDS_MOST)
    return status_make(SHOAL_ERR_ARGUMENT, "more than %d arguments", FLAGS_WORDS_MOST);
  out->words[out->count++] = word;
  return NULL;
}

shoal_status flags_parse(const flag_row *table, int argc, char **argv, void *fields, flags_parsed *out) {
  memset(out, 0, sizeof *out);
  if (asks_for_help(argc, argv)) {
    out->help = true;
    return NULL;
  }
  bool only_words = false;
  for (int i = 0; i < argc; i++) {
    const char *arg = argv[i];
    if (only_words || arg[0] != '-' || !arg[1]) {
      TRY(add_word(out, arg));
      continue;
    }
    if (!strcmp(arg, "--")) {
      only_words = true;
      continue;
    }
    if (arg[1] != '-') return status_make(SHOAL_ERR_ARGUMENT, "unknown flag %s; flags begin with two dashes", arg);
    const char *name = arg + 2, *equals = strchr(name, '=');
    size_t length = equals ? (size_t)(equals - name) : strlen(name);
    const flag_row *row = find(table, name, length);
    if (!row) return unknown_flag(table, name, length);
    const char *word = equals ? equals + 1 : NULL;
    if (row->kind == FLAG_BOOL && word) return status_make(SHOAL_ERR_ARGUMENT, "--%s takes no value", row->name);
    int64_t ignored;
    if (row->bare && !word && (i + 1 == argc || !shoal_parse_int(argv[i + 1], &ignored))) word = row->bare;
    if (row->kind != FLAG_BOOL && !word) {
      if (i + 1 == argc || !strncmp(argv[i + 1], "--", 2))
        return status_make(SHOAL_ERR_ARGUMENT, "--%s needs a value: --%s %s", row->name, row->name, row->value);
      word = argv[++i];
    }
    TRY(set(row, word, fields));
    out->given[row - table] = true;
  }
  return NULL;
}

bool flags_given(const flag_row *table, const flags_parsed *parsed, const char *name) {
  const flag_row *row = find(table, name, strlen(name));
  return row && parsed->given[row - table];
}

const char *flag_label(const flag_row *row, char buffer[FLAG_LABEL]) {
  if (row->kind == FLAG_BOOL)
    snprintf(buffer, FLAG_LABEL, "--%s", row->name);
  else
    snprintf(buffer, FLAG_LABEL, "--%s %s", row->name, row->value);
  return buffer;
}

void flags_help(const flag_row *table, FILE *to) {
  int widest = 0;
  char label[FLAG_LABEL];
  for (const flag_row *row = table; row->name; row++) {
    int width = (int)strlen(flag_label(row, label));
    if (!(row->marks & FLAG_HIDDEN) && width > widest) widest = width;
  }
  for (const flag_row *row = table; row->name; row++) {
    if (row->marks & FLAG_HIDDEN) continue;
    char *names = row->kind == FLAG_CHOICE ? names_list(row->choices()) : NULL;
    const char *standard = row->standard;
    say_indented(to, widest + 4, "  %-*s  %s%s%s%s%s%s\n", widest, flag_label(row, label), row->help,
                 names ? ": " : "", names ? names : "", standard ? " (" : "", standard ? standard : "",
                 standard ? ")" : "");
    free(names);
  }
  fprintf(to, "  %-*s  this text\n", widest, "--help");
}

static json_t *value_json(const flag_row *row, const void *fields) {
  const void *at = field_of(row, fields);
  switch (row->kind) {
    case FLAG_BOOL: return json_boolean(*(const bool *)at);
    case FLAG_INT: return json_integer(*(const int64_t *)at);
    case FLAG_NUMBER: return json_real(*(const double *)at);
    case FLAG_TEXT:
    case FLAG_CHOICE: return *(const char *const *)at ? json_string(*(const char *const *)at) : json_null();
  }
  return NULL;
}

json_t *flags_to_json(const flag_row *table, const void *fields) {
  json_t *object = json_object();
  for (const flag_row *row = table; object && row->name; row++) {
    if (!(row->marks & FLAG_KEPT)) continue;
    if (json_object_set_new(object, row->name, value_json(row, fields)) < 0) {
      json_decref(object);
      return NULL;
    }
  }
  return object;
}

/* 0 is what a flag that was not given holds, whatever the range. */
static bool kept_in_range(const flag_row *row, double value) { return value == 0 || in_range(row, value); }

static shoal_status from_json(const flag_row *row, const json_t *value, const char *file, void *fields) {
  if (row->kind == FLAG_BOOL && json_is_boolean(value)) {
    *(bool *)field(row, fields) = json_is_true(value);
    return NULL;
  }
  if (row->kind == FLAG_INT && json_is_integer(value) && kept_in_range(row, (double)json_integer_value(value))) {
    *(int64_t *)field(row, fields) = json_integer_value(value);
    return NULL;
  }
  if (row->kind == FLAG_NUMBER && json_is_number(value) && kept_in_range(row, json_number_value(value))) {
    *(double *)field(row, fields) = json_number_value(value);
    return NULL;
  }
  if (row->kind == FLAG_TEXT && json_is_string(value)) {
    *(const char **)field(row, fields) = json_string_value(value);
    return NULL;
  }
  if (row->kind == FLAG_CHOICE && json_is_string(value))
    return status_wrap(set_choice(row, json_string_value(value), fields), "%s", file);
  return status_make(SHOAL_ERR_INPUT, "%s: \"%s\" does not hold what --%s takes; give the flag, or start a new run",
                     file, row->name, row->name);
}

shoal_status flags_from_json(const flag_row *table, const json_t *object, const char *file, const flags_parsed *parsed,
                             void *fields) {
  for (const flag_row *row = table; row->name; row++) {
    if (!(row->marks & FLAG_KEPT) || parsed->given[row - table]) continue;
    const json_t *value = json_object_get(object, row->name);
    if (value && !json_is_null(value)) TRY(from_json(row, value, file, fields));
  }
  return NULL;
}

static void print_value(const flag_row *row, const void *fields, FILE *to) {
  const void *at = field_of(row, fields);
  fprintf(to, "%s=", row->name);
  switch (row->kind) {
    case FLAG_BOOL: fputs(*(const bool *)at ? "yes" : "no", to); break;
    case FLAG_INT: fprintf(to, "%lld", (long long)*(const int64_t *)at); break;
    case FLAG_NUMBER: fprintf(to, "%.17g", *(const double *)at); break;
    case FLAG_TEXT:
    case FLAG_CHOICE: fputs(*(const char *const *)at ? *(const char *const *)at : "", to); break;
  }
  fputc('\n', to);
}

char *flags_to_lines(const flag_row *table, const void *fields) {
  memory_text lines;
  shoal_status status = memory_open(&lines);
  for (const flag_row *row = table; !status && row->name; row++)
    if (row->marks & FLAG_SHAPES) print_value(row, fields, lines.to);
  if (!status) status = memory_close(&lines);
  shoal_status_free(status);
  return lines.words;
}
