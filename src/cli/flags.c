#include "cli/flags.h"

#include "cli/say.h"

#include <math.h>
#include <string.h>

size_t names_count(const char *const *names) {
  size_t n = 0;
  while (names[n]) n++;
  return n;
}

char *names_list(const char *const *names) {
  size_t n = names_count(names);
  text list = {0};
  for (size_t i = 0; i < n; i++) text_add(&list, "%s%s", i == 0 ? "" : i + 1 == n ? " or " : ", ", names[i]);
  return list.data;
}

/* The row called name[0..length), or NULL. */
static const flag_row *find(const flag_row *table, const char *name, size_t length) {
  for (const flag_row *row = table; row->name; row++)
    if (strlen(row->name) == length && !memcmp(row->name, name, length)) return row;
  return NULL;
}

static shoal_status unknown_flag(const flag_row *table, const char *name, size_t length) {
  const char *names[FLAGS_MAX + 1];
  size_t n = 0;
  for (const flag_row *row = table; row->name && n < FLAGS_MAX; row++)
    if (!(row->marks & FLAG_HIDDEN)) names[n++] = row->name;
  names[n++] = "help";
  char word[64];
  snprintf(word, sizeof word, "%.*s", (int)length, name);
  const char *near = shoal_nearest_name(word, names, n);
  if (near) return status_make(SHOAL_ERR_ARGUMENT, "unknown flag --%s; did you mean --%s?", word, near);
  return status_make(SHOAL_ERR_ARGUMENT, "unknown flag --%s", word);
}

static bool asks_for_help(int argc, char **argv) {
  for (int i = 0; i < argc && strcmp(argv[i], "--"); i++)
    if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) return true;
  return false;
}

static shoal_status add_word(flags_parsed *out, const char *word) {
  if (out->count == FLAGS_WORDS_MAX) return status_make(SHOAL_ERR_ARGUMENT, "more than %d arguments", FLAGS_WORDS_MAX);
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
    if (!strcmp(arg, "-o") && find(table, "out", 3)) arg = "--out"; /* as everywhere */
    if (!strcmp(arg, "-n") && find(table, "lines", 5)) arg = "--lines";
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
    TRY(shoal_setting_set(row, word, fields));
  }
  return NULL;
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
    say_indented(to, widest + 4, "  %-*s  %s%s%s%s%s%s\n", widest, flag_label(row, label), row->help, names ? ": " : "",
                 names ? names : "", standard ? " (" : "", standard ? standard : "", standard ? ")" : "");
    free(names);
  }
  fprintf(to, "  %-*s  this text\n", widest, "--help");
}

/* ---- the library's messages */

static bool is_name_byte(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-'; }

char *flags_in_words(const char *message) {
  text out = {0};
  while (*message) {
    size_t n = 0;
    if (*message == '`')
      while (is_name_byte(message[1 + n])) n++;
    if (!n || message[1 + n] != '`') {
      text_add_bytes(&out, message++, 1);
      continue;
    }
    text_add(&out, "--");
    for (size_t i = 0; i < n; i++) text_add(&out, "%c", message[1 + i] == '_' ? '-' : message[1 + i]);
    message += n + 2;
  }
  return out.data;
}
