/* Flags of a command, declared once in a table: parsing, --help, the man page, the shell completion and settings.json
 * all read that table. */
#ifndef SHOAL_CLI_FLAGS_H
#define SHOAL_CLI_FLAGS_H

#include "cli/util.h"

#include <jansson.h>

typedef enum { FLAG_BOOL, FLAG_INT, FLAG_NUMBER, FLAG_TEXT, FLAG_CHOICE } flag_kind;
typedef enum { COMPLETE_NOTHING, COMPLETE_FILE, COMPLETE_DIRECTORY } flag_complete;

enum {
  FLAG_KEPT = 1,   /* goes to settings.json, from where --resume, eval and predict take it */
  FLAG_SHAPES = 2, /* decides what is learned: a run is not resumed with another value */
  FLAG_HIDDEN = 4  /* for the build, not for people */
};

typedef struct {
  const char *name; /* without the dashes; NULL ends a table */
  flag_kind kind;
  size_t offset;        /* of its field in the command's struct: bool, int64_t, double or const char * */
  const char *value;    /* what stands for the value in --help: "N" */
  const char *help;     /* one sentence without a full stop */
  const char *standard; /* what --help says happens without the flag; NULL: nothing worth saying */
  double least, most;   /* numbers: both inclusive; both 0: any */
  const char *const *(*choices)(void); /* FLAG_CHOICE: the valid names, ended by NULL */
  flag_complete complete;
  uint32_t marks;
  const char *bare; /* the value when the flag stands alone; NULL: it needs one */
} flag_row;

#define FLAGS_MOST 128
#define FLAGS_WORDS_MOST 1024

typedef struct {
  bool help;              /* --help was there; nothing else was checked */
  bool given[FLAGS_MOST]; /* by position in the table */
  const char *words[FLAGS_WORDS_MOST]; /* what is not a flag, in order; borrowed from argv */
  int count;
} flags_parsed;

/* Fills the fields of `fields` whose flags are given; the others stay as they are. Texts are borrowed from argv.
 * Every failure is SHOAL_ERR_ARGUMENT with a suggestion where one is near. */
SHOAL_CHECKED shoal_status flags_parse(const flag_row *table, int argc, char **argv, void *fields, flags_parsed *out);
bool flags_given(const flag_row *table, const flags_parsed *parsed, const char *name);

/* "  --batch-size N   examples a step (200)" lines. */
void flags_help(const flag_row *table, FILE *to);
/* "--batch-size=N" or "--nesterov"; returns buffer. */
#define FLAG_LABEL 64
const char *flag_label(const flag_row *row, char buffer[FLAG_LABEL]);

/* The kept flags as a JSON object; NULL: no memory. The caller owns it. */
json_t *flags_to_json(const flag_row *table, const void *fields);
/* Sets the kept flags that are not given on the command line from the object, which must outlive `fields`. `file`
 * is for messages. */
SHOAL_CHECKED shoal_status flags_from_json(const flag_row *table, const json_t *object, const char *file,
                                           const flags_parsed *parsed, void *fields);
/* "name=value" lines of the flags that decide what is learned. The caller frees them; NULL: no memory. */
char *flags_to_lines(const flag_row *table, const void *fields);

size_t names_count(const char *const *names);
/* "a, b or c", the caller's to free; NULL: no memory. */
char *names_list(const char *const *names);

#endif
