/* The commands of `shoal`: one row a command; main, help, the man page and the completion read the table. */
#ifndef SHOAL_CLI_COMMAND_H
#define SHOAL_CLI_COMMAND_H

#include "cli/flags.h"

#include <string.h>

enum { ANY_NUMBER = FLAGS_WORDS_MAX }; /* of arguments */

/* What a command is called with. */
typedef struct {
  const void *flags;         /* the command's own struct, filled */
  const flags_parsed *words; /* its arguments */
  const int *stop;      /* becomes the number of a signal that asked to stop; NULL unless the command has `stopping` */
  int exit_status;      /* of a command that ends without an error; EXIT_GOOD at first */
  bool ended_by_signal; /* a signal is the usual end of this command: it then exits with exit_status */
} command_call;

/* Exit statuses. After Ctrl-C it is 128 + the signal, as a shell would report it. */
enum { EXIT_GOOD = 0, EXIT_JOB_FAILED = 1, EXIT_WRONG_USE = 2 };

typedef struct {
  const char *name;      /* "train", or two words: "data inspect" */
  const char *arguments; /* "MODEL"; NULL: none */
  const char *summary;   /* one line, no full stop */
  const char *details;   /* paragraphs for --help and the man page, wrapped by hand at 78 columns; may be NULL */
  const flag_row *flags;
  const flag_row *(*flag_table)(void); /* in place of `flags`, where the library has the table */
  const char *(*word_at)(int i);       /* what an argument may be, for the completion; NULL past the end. NULL: files */
  size_t fields;                       /* size of the struct that the flags fill, ... */
  const void *defaults;                /* ... and what it holds before; NULL: zeros */
  int words_min, words_max;            /* how many arguments it takes */
  const char *expected;                /* for messages: "one run folder"; NULL without arguments */
  const char *stopping, *killed;       /* what is said at the first and second Ctrl-C; NULL: it ends the process */
  shoal_status (*action)(command_call *call);
  int (*run)(int argc,
             char **argv); /* in place of all from `fields` on: the arguments after the command's name; returns
                                      * the exit status */
} command;

extern const command command_train, command_eval, command_predict, command_export, command_keygen, command_version,
    command_help;
extern const command command_doctor, command_trace, command_launch, command_lab, command_scale, command_simulate;
extern const command command_report, command_dash, command_serve, command_sweep, command_reproduce;
extern const command command_model_show, command_model_layers;
extern const command command_ps, command_status, command_stop, command_tail, command_clean;
extern const command command_run, command_server, command_matmul;
extern const command command_data_list, command_data_inspect, command_data_convert, command_data_generate;

static inline const flag_row *command_flags(const command *c) { return c->flag_table ? c->flag_table() : c->flags; }

const command *command_at(int i); /* NULL past the end */
/* The commands of two words whose first is `word`, "data": i counts over all commands. */
static inline bool command_in_group(const command *c, const char *word) {
  size_t n = strlen(word);
  return !strncmp(c->name, word, n) && c->name[n] == ' ';
}
/* Takes the command's words off the arguments; NULL when there is none. */
const command *command_take(int *argc, char ***argv);

/* Names of the models. NULL past the end. */
const char *model_name_at(int i);

void command_print_help(const command *c, FILE *to);
/* How most commands begin: fills `fields` by the command's flags. False: --help was asked for, and printed. */
bool command_parse(const command *c, int argc, char **argv, void *fields, flags_parsed *out, shoal_status *status);
/* Prints "shoal COMMAND: message" on standard error, frees the status and returns the exit status that fits it. */
int command_fail(const command *c, shoal_status status);
/* The same without freeing it. */
int command_explain(const command *c, const struct shoal_error *why);

/* What --on-end says, if anything: exit_status is the job's; status NULL: as that says. A failure is told, no more. */
void command_tell_end(const char *hook, const char *run_dir, const char *status, int exit_status);

/* The man pages and the completions, made from the tables. NULL: the page of all commands. */
void manual_print(FILE *to, const command *only);
SHOAL_CHECKED shoal_status manual_write(const char *folder); /* shoal.1, shoal-train.1, ... */
void completion_print(FILE *to);
void completion_print_zsh(FILE *to);
void completion_print_fish(FILE *to);

#endif
