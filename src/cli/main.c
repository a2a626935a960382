/* The `shoal` command: finds the command and runs it. */
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/say.h"
#include "shoal/jobs.h"
#include "shoal/models.h"
#include "shoal/version.h"

#include <signal.h>

static const command *const commands[] = {
    &command_train,        &command_launch,       &command_lab,          &command_eval,          &command_predict,
    &command_export,       &command_serve,        &command_report,       &command_dash,          &command_model_show,
    &command_model_layers, &command_ps,           &command_status,       &command_stop,          &command_tail,
    &command_clean,        &command_scale,        &command_simulate,     &command_sweep,         &command_reproduce,
    &command_data_list,    &command_data_inspect, &command_data_convert, &command_data_generate, &command_run,
    &command_matmul,       &command_server,       &command_trace,        &command_keygen,        &command_doctor,
    &command_version,      &command_help};
enum { COMMANDS = sizeof commands / sizeof *commands };

const command *command_at(int i) { return i >= 0 && i < COMMANDS ? commands[i] : NULL; }

const command *command_take(int *argc, char ***argv) {
  for (int i = 0; *argc > 0 && i < COMMANDS; i++) {
    const char *name = commands[i]->name, *blank = strchr(name, ' ');
    size_t first = blank ? (size_t)(blank - name) : strlen(name);
    if (strlen((*argv)[0]) != first || strncmp((*argv)[0], name, first)) continue;
    if (blank && (*argc < 2 || strcmp((*argv)[1], blank + 1))) continue;
    *argc -= blank ? 2 : 1;
    *argv += blank ? 2 : 1;
    return commands[i];
  }
  return NULL;
}

const char *model_name_at(int i) {
  const shoal_model_kind *kind = shoal_model_kind_at(i);
  return kind ? kind->name : NULL;
}

int command_explain(const command *c, const struct shoal_error *why) {
  const bool wrong_use = shoal_status_code(why) == SHOAL_ERR_ARGUMENT;
  char *words = flags_in_words(shoal_status_message(why));
  say(stderr, "shoal %s: %s\n", c->name, words ? words : shoal_status_message(why));
  free(words);
  if (wrong_use) say(stderr, "'%s %s --help' lists what it takes.\n", called(), c->name);
  return wrong_use ? EXIT_WRONG_USE : EXIT_JOB_FAILED;
}

int command_fail(const command *c, shoal_status status) {
  const int code = command_explain(c, status);
  shoal_status_free(status);
  return code;
}

void command_tell_end(const char *hook, const char *run_dir, const char *status, int exit_status) {
  if (!hook) return;
  if (!status) status = exit_status > 128 ? "interrupted" : exit_status ? "failed" : "finished";
  fflush(stdout); /* before what the command prints */
  shoal_status failed = shoal_run_end_hook(hook, run_dir, status, exit_status, 0);
  char *words = failed ? flags_in_words(shoal_status_message(failed)) : NULL;
  if (failed) say(stderr, "%s\n", words ? words : shoal_status_message(failed));
  free(words);
  shoal_status_free(failed);
}

void command_print_help(const command *c, FILE *to) {
  say(to, "shoal %s: %s\n\nUsage: shoal %s%s%s [flags]\n", c->name, c->summary, c->name, c->arguments ? " " : "",
      c->arguments ? c->arguments : "");
  if (c->details) fprintf(to, "\n%s", c->details);
  fputs("\nFlags:\n", to);
  flags_help(command_flags(c), to);
}

bool command_parse(const command *c, int argc, char **argv, void *fields, flags_parsed *out, shoal_status *status) {
  *status = flags_parse(command_flags(c), argc, argv, fields, out);
  if (*status || !out->help) return true;
  command_print_help(c, stdout);
  return false;
}

static shoal_status check_words(const command *c, const flags_parsed *words) {
  if (words->count >= c->words_min && words->count <= c->words_max) return NULL;
  if (!c->words_max) return status_make(SHOAL_ERR_ARGUMENT, "takes no argument, but got '%s'", words->words[0]);
  if (!words->count) return status_make(SHOAL_ERR_ARGUMENT, "expected %s", c->expected);
  return status_make(SHOAL_ERR_ARGUMENT, "expected %s, not %d arguments", c->expected, words->count);
}

static int run_action(const command *c, int argc, char **argv) {
  flags_parsed words;
  command_call call = {.words = &words};
  interrupt *signals = NULL;
  void *fields = calloc(1, c->fields + 1);
  shoal_status status = fields ? NULL : status_no_memory();
  if (fields && c->defaults) memcpy(fields, c->defaults, c->fields);
  if (!status && !command_parse(c, argc, argv, fields, &words, &status)) {
    free(fields);
    return EXIT_GOOD;
  }
  if (!status) status = check_words(c, &words);
  if (!status && c->stopping) status = interrupt_create(c->stopping, c->killed, &signals);
  if (!status) {
    call.flags = fields;
    call.stop = signals ? interrupt_flag(signals) : NULL;
    status = c->action(&call);
  }
  const int asked = signals ? *interrupt_flag(signals) : 0;
  interrupt_destroy(signals);
  free(fields);
  if (status) call.exit_status = command_fail(c, status);
  return asked && !call.ended_by_signal ? 128 + asked : call.exit_status;
}

static void print_overview(FILE *to) {
  fputs("shoal trains models.\n\nUsage: shoal COMMAND [arguments] [flags]\n\nCommands:\n", to);
  for (int i = 0; i < COMMANDS; i++) say_named(to, commands[i]->name, commands[i]->summary);
  fputs("\nModels:\n", to);
  const shoal_model_kind *kind;
  for (int i = 0; (kind = shoal_model_kind_at(i)); i++) say_named(to, kind->name, kind->summary);
  fprintf(to, "\nTry: %s train softmax\n'%s COMMAND --help' lists a command's flags.\n", called(), called());
}

/* Is `word` the first of two? */
static bool is_group(const char *word) {
  for (int i = 0; i < COMMANDS; i++)
    if (command_in_group(commands[i], word)) return true;
  return false;
}

static void print_group(const char *word, FILE *to) {
  fprintf(to, "Usage: shoal %s COMMAND [arguments] [flags]\n\nCommands:\n", word);
  for (int i = 0; i < COMMANDS; i++)
    if (command_in_group(commands[i], word)) say_named(to, commands[i]->name, commands[i]->summary);
  fprintf(to, "\n'%s %s COMMAND --help' lists a command's flags.\n", called(), word);
}

static bool asks_for_help(const char *word) { return !strcmp(word, "--help") || !strcmp(word, "-h"); }

/* "shoal data" and what does not go on as it should. */
static int run_group(const char *word, const char *second) {
  if (second && asks_for_help(second)) {
    print_group(word, stdout);
    return EXIT_GOOD;
  }
  if (second) {
    const char *names[COMMANDS];
    size_t n = 0;
    for (int i = 0; i < COMMANDS; i++)
      if (command_in_group(commands[i], word)) names[n++] = commands[i]->name + strlen(word) + 1;
    const char *near = shoal_nearest_name(second, names, n);
    fprintf(stderr, "shoal %s: unknown command '%s'", word, second);
    if (near) fprintf(stderr, "; did you mean '%s'?", near);
    fputs("\n", stderr);
  }
  print_group(word, stderr);
  return EXIT_WRONG_USE;
}

static int unknown_command(const char *word) {
  const char *names[COMMANDS];
  for (int i = 0; i < COMMANDS; i++) names[i] = commands[i]->name;
  const char *near = shoal_nearest_name(word, names, COMMANDS);
  fprintf(stderr, "shoal: unknown command '%s'", word);
  if (near) fprintf(stderr, "; did you mean '%s'?", near);
  fprintf(stderr, "\n'%s help' lists the commands.\n", called());
  return EXIT_WRONG_USE;
}

typedef struct {
  bool man;
  const char *man_pages;  /* write them all to this folder */
  const char *completion; /* for this shell; NULL: not asked for */
} help_flags;

static const char *const *shells(void) {
  static const char *const names[] = {"bash", "zsh", "fish", NULL};
  return names;
}

static const flag_row help_table[] = {
    {"man", FLAG_BOOL, offsetof(help_flags, man), NULL, "print the man page", .marks = FLAG_HIDDEN},
    {"man-pages", FLAG_TEXT, offsetof(help_flags, man_pages), "DIR", "write all man pages there", .marks = FLAG_HIDDEN},
    {"completion", FLAG_CHOICE, offsetof(help_flags, completion), "SHELL", "print the completion for a shell",
     .choices = shells, .marks = FLAG_HIDDEN, .bare = "bash"},
    {0},
};

static const char *command_name_at(int i) { return i < COMMANDS ? commands[i]->name : NULL; }

static int run_help(int argc, char **argv) {
  help_flags f = {0};
  flags_parsed parsed;
  shoal_status status = flags_parse(help_table, argc, argv, &f, &parsed);
  if (status) return command_fail(&command_help, status);
  if (parsed.help) {
    command_print_help(&command_help, stdout);
  } else if (f.man_pages) {
    status = manual_write(f.man_pages);
    if (status) return command_fail(&command_help, status);
  } else if (f.man && !parsed.count) {
    manual_print(stdout, NULL);
  } else if (f.completion) {
    (*f.completion == 'z'   ? completion_print_zsh
     : *f.completion == 'f' ? completion_print_fish
                            : completion_print)(stdout);
  } else if (!parsed.count) {
    print_overview(stdout);
  } else {
    int count = parsed.count;
    char **words = (char **)parsed.words; /* only compared */
    const command *c = command_take(&count, &words);
    if (c && f.man)
      manual_print(stdout, c);
    else if (c)
      command_print_help(c, stdout);
    else if (is_group(parsed.words[0]))
      return run_group(parsed.words[0], parsed.count > 1 ? parsed.words[1] : "--help");
    else
      return unknown_command(parsed.words[0]);
  }
  return EXIT_GOOD;
}

const command command_help = {
    .name = "help",
    .arguments = "[COMMAND]",
    .summary = "list the commands, or explain one",
    .flags = help_table,
    .word_at = command_name_at,
    .run = run_help,
};

static const flag_row no_flags[] = {{0}};

static shoal_status print_version(command_call *call) {
  printf("shoal %s\n", shoal_version());
  return NULL;
}

const command command_version = {
    .name = "version",
    .summary = "print the version",
    .flags = no_flags,
    .action = print_version,
};

int main(int argc, char **argv) {
  /* A file-size limit then shows as a failed write, which is handled, instead of ending the process. */
  signal(SIGXFSZ, SIG_IGN);
  if (argc < 2) {
    print_overview(stderr);
    return EXIT_WRONG_USE;
  }
  const char *word = argv[1];
  char help[] = "help", version[] = "version"; /* words that stand for commands */
  if (asks_for_help(word)) argv[1] = help;
  if (!strcmp(word, "--version")) argv[1] = version;
  argc--;
  argv++;
  const command *c = command_take(&argc, &argv);
  int exit_status = c && c->action   ? run_action(c, argc, argv)
                    : c              ? c->run(argc, argv)
                    : is_group(word) ? run_group(word, argc > 1 ? argv[1] : NULL)
                                     : unknown_command(word);
  if (fflush(stdout) && exit_status == EXIT_GOOD) {
    perror("shoal: standard output");
    exit_status = EXIT_JOB_FAILED;
  }
  return exit_status;
}
