/* shoal sweep: a grid of training runs and one comparison. */
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/run_list.h"
#include "cli/say.h"
#include "cli/table.h"

typedef struct {
  int64_t repeats;
  const char *run_dir;
  bool resume, quiet, dry_run, json;
} sweep_flags;

static const flag_row sweep_table[] = {
    {"repeats", FLAG_INT, offsetof(sweep_flags, repeats), "N",
     "runs of each combination, with consecutive seeds; mean and spread are shown", "1", .least = 1, .most = 1000},
    {"run-dir", FLAG_TEXT, offsetof(sweep_flags, run_dir), "DIR", "folder of the sweep", "runs/sweep-MODEL-DATE-TIME",
     .complete = COMPLETE_DIRECTORY},
    {"resume", FLAG_BOOL, offsetof(sweep_flags, resume), NULL, "continue the sweep in --run-dir", .marks = 0},
    {"dry-run", FLAG_BOOL, offsetof(sweep_flags, dry_run), NULL, "only list the commands", .marks = 0},
    {"json", FLAG_BOOL, offsetof(sweep_flags, json), NULL, "print the result as a JSON array", .marks = 0},
    {"quiet", FLAG_BOOL, offsetof(sweep_flags, quiet), NULL, "print the result table only", .marks = 0},
    {0},
};

typedef struct {
  sweep_flags flags;
  flags_parsed parsed;
  const char **rest; /* what is train's; borrowed words */
  int rest_count;
  shoal_sweep *grid;
  interrupt *signals;
} sweep;

/* Its own flags to own[], all else to rest[]. */
static bool is_own(const char *word) {
  if (strncmp(word, "--", 2)) return false;
  size_t n = strcspn(word + 2, "=");
  for (const flag_row *row = sweep_table; row->name; row++)
    if (strlen(row->name) == n && !strncmp(row->name, word + 2, n)) return true;
  return false;
}

static bool takes_value(const char *word) {
  for (const flag_row *row = sweep_table; row->name; row++)
    if (!strcmp(row->name, word + 2)) return row->kind != FLAG_BOOL;
  return false;
}

static shoal_status split(sweep *s, int argc, char **argv) {
  char **own = calloc((size_t)argc + 1, sizeof *own);
  s->rest = calloc((size_t)argc + 1, sizeof *s->rest);
  int n = 0;
  for (int i = 0; own && s->rest && i < argc; i++) {
    bool mine = is_own(argv[i]) || !strcmp(argv[i], "--help") || !strcmp(argv[i], "-h");
    if (!mine) {
      s->rest[s->rest_count++] = argv[i];
      continue;
    }
    own[n++] = argv[i];
    if (takes_value(argv[i]) && i + 1 < argc) own[n++] = argv[++i];
  }
  shoal_status status = own && s->rest ? flags_parse(sweep_table, n, own, &s->flags, &s->parsed) : status_no_memory();
  free(own);
  return status;
}

static shoal_status show_result(const sweep *s) {
  shoal_result_table *t = NULL;
  char all[512];
  const char *folder = shoal_run_list_folder(shoal_sweep_runs(s->grid));
  snprintf(all, sizeof all, "%s/results.csv", folder);
  shoal_status status = shoal_sweep_finish(s->grid, &t);
  if (s->flags.json) return table_print_json(status, t);
  putchar('\n');
  TRY(table_print(stdout, status, t, all));
  if (!s->flags.quiet) {
    say(stdout, "\nThe table is in %s/results.csv and results.md.\n", folder);
    run_list_report(shoal_sweep_runs(s->grid));
  }
  return NULL;
}

/* *exit_status: of a sweep that came to an end of some kind. */
static shoal_status run(sweep *s, int *exit_status) {
  sweep_flags *f = &s->flags;
  shoal_run_list_outcome outcome;
  f->quiet |= f->json;
  char count[COUNTED_TEXT];
  TRY(shoal_sweep_create(s->rest, s->rest_count,
                         &(shoal_sweep_options){.run_dir = f->run_dir, .repeats = f->repeats, .resume = f->resume},
                         &s->grid));
  shoal_run_list *runs = shoal_sweep_runs(s->grid);
  if (f->dry_run) {
    run_list_print(runs);
    return NULL;
  }
  TRY(interrupt_create("Stopping after this step; press Ctrl-C again to quit at once.",
                       "Killed; finished runs are kept.", &s->signals));
  TRY(shoal_sweep_begin(s->grid));
  const char *folder = shoal_run_list_folder(runs);
  counted_text((int64_t)shoal_run_list_count(runs), "run", count);
  if (!f->quiet) say(stdout, "%s of %s in %s\n", count, shoal_sweep_model(s->grid), folder);
  TRY(run_list_go(runs, interrupt_flag(s->signals), f->quiet, &outcome));
  TRY(show_result(s));
  if (outcome.failed && !f->json)
    say(stdout, "\n%zu of %s failed; their output is in %s/logs.\n", outcome.failed, count, folder);
  *exit_status = run_list_exit_status(&outcome, interrupt_flag(s->signals));
  if (*exit_status == EXIT_GOOD || f->json) return NULL;
  putchar('\n');
  say_command(stdout, "To continue:", "%s sweep --resume --run-dir %s", called(), folder);
  return NULL;
}

static int run_sweep(int argc, char **argv) {
  sweep s = {0};
  int exit_status = EXIT_GOOD;
  shoal_status status = split(&s, argc, argv);
  if (!status && s.parsed.help)
    command_print_help(&command_sweep, stdout);
  else if (!status)
    status = run(&s, &exit_status);
  if (status) exit_status = command_fail(&command_sweep, status);
  shoal_sweep_destroy(s.grid);
  interrupt_destroy(s.signals);
  free(s.rest);
  return exit_status;
}

const command command_sweep = {
    .name = "sweep",
    .arguments = "MODEL",
    .summary = "train with every combination of settings and compare",
    .details =
        "Takes the flags of 'shoal train', each with one value or several: commas\n"
        "separate numbers and names, other values are given by repeating the flag; a\n"
        "flag without value takes =yes,no. Every combination is run, one after the\n"
        "other, in a folder of its own. Writes results.csv (a line per run), results.md\n"
        "and report.html. Ctrl-C stops after the current step; --resume continues.\n"
        "\n"
        "Examples:\n"
        "  shoal sweep lenet --batch-size 64,128,256,512 --workers 1,2,3 --epochs 6\n"
        "  shoal sweep softmax --optimizer momentum --nesterov=yes,no --repeats 3\n"
        "  shoal sweep --resume --run-dir runs/sweep-lenet-20261115-120000\n",
    .flags = sweep_table,
    .word_at = model_name_at,
    .run = run_sweep,
};
