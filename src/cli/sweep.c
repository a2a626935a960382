/* shoal sweep: a grid of training runs and one comparison. */
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/say.h"
#include "cli/sweep_grid.h"
#include "cli/sweep_result.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
  int64_t repeats;
  const char *run_dir;
  bool resume, quiet, dry_run;
} sweep_flags;

static const flag_row sweep_table[] = {
    {"repeats", FLAG_INT, offsetof(sweep_flags, repeats), "N", "run each combination so often, with seeds that follow "
     "each other; mean and spread are shown", "1", .least = 1, .most = 1000},
    {"run-dir", FLAG_TEXT, offsetof(sweep_flags, run_dir), "DIR", "where the runs go", "runs/sweep-MODEL-DATE-TIME",
     .complete = COMPLETE_DIRECTORY},
    {"resume", FLAG_BOOL, offsetof(sweep_flags, resume), NULL, "go on with the sweep in --run-dir", .marks = 0},
    {"dry-run", FLAG_BOOL, offsetof(sweep_flags, dry_run), NULL, "only list the commands", .marks = 0},
    {"quiet", FLAG_BOOL, offsetof(sweep_flags, quiet), NULL, "print the result table only", .marks = 0},
    {0},
};

typedef struct {
  sweep_flags flags;
  flags_parsed parsed;
  char **rest; /* what is train's; borrowed words */
  int rest_count;
  json_t *kept; /* sweep.json of a sweep that goes on */
  char *folder, *description;
  sweep_grid grid;
  batch runs;
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
  shoal_status status =
      own && s->rest ? flags_parse(sweep_table, n, own, &s->flags, &s->parsed) : status_no_memory();
  free(own);
  return status;
}

/* ---- the folder */

static json_t *words_json(const sweep *s) {
  json_t *list = json_array();
  for (int i = 0; i < s->rest_count; i++) json_array_append_new(list, json_string(s->rest[i]));
  return list;
}

/* A sweep that goes on has its settings in its folder; those said again must be the same. */
static shoal_status take_up(sweep *s) {
  if (!s->flags.run_dir)
    return status_make(SHOAL_ERR_ARGUMENT, "--resume needs --run-dir DIR, the folder of the sweep to go on with");
  json_error_t error;
  s->kept = json_load_file(s->description, 0, &error);
  const json_t *words = json_object_get(s->kept, "arguments");
  if (!json_is_array(words))
    return status_make(SHOAL_ERR_INPUT, "%s: %s; expected the description of a sweep", s->description,
                       s->kept ? "no list of arguments" : error.text);
  int64_t repeats = json_integer_value(json_object_get(s->kept, "repeats"));
  if (s->flags.repeats && repeats != s->flags.repeats)
    return status_make(SHOAL_ERR_ARGUMENT, "%s: the sweep there has --repeats %lld", s->folder, (long long)repeats);
  s->flags.repeats = repeats > 0 ? repeats : 1;
  json_t *now = words_json(s);
  bool same = !s->rest_count || json_equal(now, words);
  json_decref(now);
  if (!same)
    return status_make(SHOAL_ERR_ARGUMENT, "%s holds a sweep with other settings; leave them out, or name another "
                       "--run-dir", s->folder);
  char **rest = realloc(s->rest, (json_array_size(words) + 1) * sizeof *rest);
  if (!rest) return status_no_memory();
  s->rest = rest;
  s->rest_count = 0;
  size_t i;
  json_t *word;
  json_array_foreach(words, i, word) {
    if (json_is_string(word)) s->rest[s->rest_count++] = (char *)json_string_value(word);
  }
  return NULL;
}

static shoal_status open_folder(sweep *s) {
  const char *model = "model";
  for (int i = 0; i < s->rest_count; i++)
    if (strncmp(s->rest[i], "--", 2) && (!i || strncmp(s->rest[i - 1], "--", 2))) model = s->rest[i];
  char name[128];
  snprintf(name, sizeof name, "sweep-%s", model);
  s->folder = s->flags.run_dir ? strdup(s->flags.run_dir) : shoal_run_dir_name(name);
  if (!s->folder || asprintf(&s->description, "%s/sweep.json", s->folder) < 0) {
    s->description = NULL;
    return status_no_memory();
  }
  if (s->flags.resume) return take_up(s);
  if (!access(s->description, F_OK))
    return status_make(SHOAL_ERR_ARGUMENT, "%s holds a sweep already; add --resume to go on with it, or name another "
                       "--run-dir", s->folder);
  return NULL;
}

/* sweep.json: what was asked for, and which run stands for which combination; the page reads it too. */
static shoal_status describe(const sweep *s) {
  const sweep_grid *g = &s->grid;
  json_t *axes = json_array(), *runs = json_array(), *words = words_json(s);
  for (int a = 0; a < g->axes_count; a++) {
    json_t *values = json_array();
    const sweep_axis *axis = &g->flags[g->axes[a]];
    for (int i = 0; i < axis->count; i++) json_array_append_new(values, json_string(axis->values[i]));
    json_array_append_new(axes, json_pack("{s:s, s:o}", "flag", axis->flag->name, "values", values));
  }
  for (size_t i = 0; i < s->runs.count; i++) {
    json_t *values = json_array();
    for (int a = 0; a < g->axes_count; a++)
      json_array_append_new(values, json_string(sweep_grid_value(g, (int)(i / (size_t)s->flags.repeats), a)));
    json_array_append_new(runs, json_pack("{s:s, s:o, s:I}", "name", s->runs.runs[i].name, "values", values, "repeat",
                                          (json_int_t)(i % (size_t)s->flags.repeats)));
  }
  json_t *all = json_pack("{s:i, s:s, s:I, s:o, s:o, s:o}", "format", 1, "model", g->model, "repeats",
                          (json_int_t)s->flags.repeats, "arguments", words, "axes", axes, "runs", runs);
  shoal_status status = all ? make_folders(s->folder) : status_no_memory();
  if (!status) status = json_write_file(all, s->description);
  json_decref(all);
  return status;
}

static void list_commands(const sweep *s) {
  for (size_t i = 0; i < s->runs.count; i++) {
    const batch_run *r = &s->runs.runs[i];
    fputs(called(), stdout);
    for (int k = 0; k < r->count; k++) printf(" %s", r->words[k]);
    printf(" --run-dir %s/%s\n", s->folder, r->name);
  }
}

static void say_how_to_go_on(const sweep *s) {
  putchar('\n');
  say_command(stdout, "To go on:", "%s sweep --resume --run-dir %s", called(), s->folder);
}

/* *exit_status: of a sweep that came to an end of some kind. */
static shoal_status run(sweep *s, int *exit_status) {
  TRY(open_folder(s));
  if (!s->flags.repeats) s->flags.repeats = 1;
  TRY(sweep_grid_read(s->rest_count, s->rest, &s->grid));
  s->runs.folder = s->folder;
  s->runs.quiet = s->flags.quiet;
  TRY(sweep_grid_runs(&s->grid, (int)s->flags.repeats, &s->runs));
  if (s->flags.dry_run) {
    list_commands(s);
    return NULL;
  }
  TRY(interrupt_create("Stopping after this step; press Ctrl-C again to end at once.",
                       "Ended at once; runs that are finished are kept.", &s->signals));
  s->runs.stop = interrupt_flag(s->signals);
  TRY(describe(s));
  char count[COUNTED_TEXT];
  if (!s->flags.quiet)
    say(stdout, "%s of %s in %s\n", counted_text((int64_t)s->runs.count, "run", count), s->grid.model, s->folder);
  TRY(batch_go(&s->runs));
  TRY(sweep_result_write(&s->grid, (int)s->flags.repeats, &s->runs, stdout));
  if (!s->flags.quiet) {
    say(stdout, "\nThe table is in %s/results.csv and results.md.\n", s->folder);
    batch_report(&s->runs);
  }
  if (s->runs.failed) {
    say(stdout, "\n%zu of %s failed; what they said is in %s/logs.\n", s->runs.failed,
        counted_text((int64_t)s->runs.count, "run", count), s->folder);
    *exit_status = EXIT_JOB_FAILED;
  }
  if (s->runs.stopped) *exit_status = 128 + __atomic_load_n(s->runs.stop, __ATOMIC_ACQUIRE);
  if (s->runs.stopped || s->runs.failed) say_how_to_go_on(s);
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
  batch_fini(&s.runs);
  interrupt_destroy(s.signals);
  sweep_grid_fini(&s.grid);
  json_decref(s.kept);
  free(s.folder);
  free(s.description);
  free(s.rest);
  return exit_status;
}

const command command_sweep = {
    .name = "sweep",
    .arguments = "MODEL",
    .summary = "train with every combination of settings and compare",
    .details = "Takes the flags of 'shoal train', each with one value or several: commas\n"
               "separate numbers and names, other values are given by repeating the flag; a\n"
               "flag without value takes =yes,no. Every combination is run, one after the\n"
               "other, in a folder of its own. Leaves results.csv (a line a run), results.md\n"
               "and report.html. Ctrl-C stops after the step under way; --resume goes on.\n"
               "\n"
               "Examples:\n"
               "  shoal sweep lenet --batch-size 64,128,256,512 --workers 1,2,3 --epochs 6\n"
               "  shoal sweep softmax --optimizer momentum --nesterov=yes,no --repeats 3\n"
               "  shoal sweep --resume --run-dir runs/sweep-lenet-20261115-120000\n",
    .flags = sweep_table,
    .word_at = model_name_at,
    .run = run_sweep,
};
