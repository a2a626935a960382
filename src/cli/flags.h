/* Flags of a command, declared once in a table of settings (shoal/run.h): parsing, --help, the man page and the shell
 * completion all read that table. */
#ifndef SHOAL_CLI_FLAGS_H
#define SHOAL_CLI_FLAGS_H

#include "cli/util.h"
#include "shoal/run.h"

#include <jansson.h>

typedef shoal_setting flag_row;
#define FLAG_BOOL SHOAL_SETTING_BOOL
#define FLAG_INT SHOAL_SETTING_INT
#define FLAG_NUMBER SHOAL_SETTING_NUMBER
#define FLAG_TEXT SHOAL_SETTING_TEXT
#define FLAG_CHOICE SHOAL_SETTING_CHOICE
#define FLAG_HIDDEN SHOAL_SETTING_HIDDEN
#define COMPLETE_NOTHING SHOAL_COMPLETE_NOTHING
#define COMPLETE_FILE SHOAL_COMPLETE_FILE
#define COMPLETE_DIRECTORY SHOAL_COMPLETE_DIRECTORY

/* A row whose field is in a struct of that type, `base` bytes into the command's own: for flags that commands share. */
#define FLAG_IN(base, type, field, name, kind, ...) \
  { name, FLAG_##kind, (base) + offsetof(type, field), __VA_ARGS__ }

#define FLAGS_MAX 128
#define FLAGS_WORDS_MAX 1024

typedef struct {
  bool help;                          /* --help was there; nothing else was checked */
  const char *words[FLAGS_WORDS_MAX]; /* what is not a flag, in order; borrowed from argv */
  int count;
} flags_parsed;

/* Fills the fields of `fields` whose flags are given; the others stay as they are. Texts are borrowed from argv.
 * Every failure is SHOAL_ERR_ARGUMENT with a suggestion where one is near. */
SHOAL_CHECKED shoal_status flags_parse(const flag_row *table, int argc, char **argv, void *fields, flags_parsed *out);

/* "  --batch-size N   examples a step (200)" lines. */
void flags_help(const flag_row *table, FILE *to);
/* "--batch-size=N" or "--nesterov"; returns buffer. */
#define FLAG_LABEL 64
const char *flag_label(const flag_row *row, char buffer[FLAG_LABEL]);
/* The library names settings in backticks; users know them as flags: "`batch_size`" to "--batch-size". The caller frees
 * it; NULL: no memory. */
char *flags_in_words(const char *message);

size_t names_count(const char *const *names);
/* "a, b or c"; the caller frees it. NULL: no memory. */
char *names_list(const char *const *names);

#endif
