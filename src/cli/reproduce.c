/* shoal reproduce: an experiment that was reported elsewhere, run here, and both results side by side. */
#include "cli/batch.h"
#include "cli/command.h"
#include "cli/experiments.h"
#include "cli/interrupt.h"
#include "cli/say.h"
#include "cli/table.h"
#include "shoal/models.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
  const char *run_dir;
  bool list, dry_run;
} reproduce_flags;

static const flag_row reproduce_table[] = {
    {"run-dir", FLAG_TEXT, offsetof(reproduce_flags, run_dir), "DIR",
     "where the runs go; a folder with some of them is gone on with", "runs/reproduce-ID",
     .complete = COMPLETE_DIRECTORY},
    {"list", FLAG_BOOL, offsetof(reproduce_flags, list), NULL, "list the experiments", .marks = 0},
    {"dry-run", FLAG_BOOL, offsetof(reproduce_flags, dry_run), NULL, "only list the commands", .marks = 0},
    {0},
};

typedef struct {
  const experiment *what;
  char *folder;
  batch runs;
  interrupt *signals;
} reproduction;

static void list_experiments(void) {
  const experiment *e;
  for (int i = 0; (e = experiment_at(i)); i++) say_indented(stdout, 7, "  %-3s  %s\n", e->id, e->title);
}

static shoal_status find(const flags_parsed *parsed, const experiment **out) {
  const char *names[64];
  size_t n = 0;
  const experiment *e;
  if (parsed->count != 1)
    return status_make(SHOAL_ERR_ARGUMENT, "which experiment? '%s reproduce --list' lists them", called());
  for (int i = 0; (e = experiment_at(i)); i++) {
    names[n++] = e->id;
    if (!strcasecmp(e->id, parsed->words[0])) {
      *out = e;
      return NULL;
    }
  }
  const char *near = shoal_nearest_name(parsed->words[0], names, n);
  return status_make(SHOAL_ERR_ARGUMENT, "unknown experiment '%s'%s%s%s; '%s reproduce --list' lists them",
                     parsed->words[0], near ? "; did you mean " : "", near ? near : "", near ? "?" : "", called());
}

static bool is_train(const experiment_row *row) { return !strncmp(row->words, "train ", 6); }

static shoal_status check_there(const experiment *e) {
  bool there = is_train(&e->rows[0]) ? shoal_model_kind_find(e->model) != NULL : command_find(e->model) != NULL;
  if (there) return NULL;
  return status_make(SHOAL_ERR_ARGUMENT, "%s needs %s%s, which this version of shoal does not have yet", e->id,
                     is_train(&e->rows[0]) ? "the model " : "the command shoal ", e->model);
}

/* Puts the folder for {folder}. */
static void fill(const char *words, const char *folder, text *out) {
  for (const char *at; (at = strstr(words, "{folder}")); words = at + strlen("{folder}")) {
    text_add_bytes(out, words, (size_t)(at - words));
    text_add(out, "%s", folder);
  }
  text_add(out, "%s", words);
}

/* "2 nodes, rate scaled" to "2-nodes-rate-scaled". */
static void name_folder(const char *name, char out[FIGURE_TEXT]) {
  size_t n = 0;
  for (; *name && n < FIGURE_TEXT - 1; name++)
    if (*name != ',') out[n++] = *name == ' ' ? '-' : *name;
  out[n] = 0;
}

static shoal_status plan(reproduction *r) {
  for (const experiment_row *row = r->what->rows; row < r->what->rows + EXPERIMENT_ROWS_MOST && row->name; row++) {
    batch_run *run;
    text words = {0};
    char name[FIGURE_TEXT];
    name_folder(row->name, name);
    fill(row->words, r->folder, &words);
    shoal_status status = words.failed ? status_no_memory() : batch_add(&r->runs, name, &run);
    if (!status) status = batch_add_words(run, words.data);
    text_fini(&words);
    TRY(status);
    int64_t seed;
    if (is_train(row)) TRY(batch_check(run, &seed));
  }
  return NULL;
}

/* Data that the runs need, once. */
static shoal_status prepare(reproduction *r) {
  char *data, *log;
  if (!r->what->prepare) return NULL;
  if (asprintf(&data, "%s/data/truth.json", r->folder) < 0) return status_no_memory();
  bool made = !access(data, F_OK);
  free(data);
  if (made) return NULL;
  batch one = {.folder = r->folder};
  batch_run *run;
  text words = {0};
  fill(r->what->prepare, r->folder, &words);
  shoal_status status = words.failed ? status_no_memory() : batch_add(&one, "data", &run);
  if (!status) status = batch_add_words(run, words.data);
  text_fini(&words);
  const char *argv[BATCH_WORDS_MAX + 2] = {"shoal"};
  for (int i = 0; !status && i < run->count; i++) argv[i + 1] = run->words[i];
  if (!status) puts("Making the data ...");
  fflush(stdout);
  if (!status && asprintf(&log, "%s/data.log", r->folder) < 0) status = status_no_memory();
  if (!status) {
    status = batch_once("the data", (char *const *)argv, log, interrupt_flag(r->signals));
    free(log);
  }
  batch_fini(&one);
  return status;
}

/* ---- the comparison */

typedef struct {
  table_column cells[EXPERIMENT_ROWS_MOST][2 * EXPERIMENT_FIGURES_MOST + 1];
  char heads[2 * EXPERIMENT_FIGURES_MOST + 1][FIGURE_TEXT];
  int rows, columns;
} comparison;

static bool anybody_reported(const experiment *e, int figure) {
  for (int i = 0; i < EXPERIMENT_ROWS_MOST && e->rows[i].name; i++)
    if (e->rows[i].reported[figure]) return true;
  return false;
}

/* Starts a column; its heading goes to every row. */
static int add_column(comparison *c, const char *head, const char *more, bool left) {
  snprintf(c->heads[c->columns], FIGURE_TEXT, "%s%s%s", head, *more ? "\n" : "", more);
  for (int i = 0; i < c->rows; i++) {
    c->cells[i][c->columns].head = c->heads[c->columns];
    c->cells[i][c->columns].left = left;
  }
  return c->columns++;
}

static void compare(const reproduction *r, comparison *c) {
  const experiment *e = r->what;
  c->rows = (int)r->runs.count;
  int name = add_column(c, "run", "", true);
  for (int i = 0; i < c->rows; i++) table_set_text(&c->cells[i][name], e->rows[i].name);
  for (int k = 0; k < EXPERIMENT_FIGURES_MOST && e->figures[k]; k++) {
    const experiment_figure *f = experiment_figure_find(e->figures[k]);
    if (!f) continue;
    int own = add_column(c, f->head, "", false);
    for (int i = 0; i < c->rows; i++) {
      char value[FIGURE_TEXT] = "-";
      if (r->runs.runs[i].summary) f->show(r->runs.runs[i].summary, value);
      table_set_text(&c->cells[i][own], value);
    }
    if (!anybody_reported(e, k)) continue;
    int theirs = add_column(c, "reported", f->head, false);
    for (int i = 0; i < c->rows; i++)
      table_set_text(&c->cells[i][theirs], e->rows[i].reported[k] ? e->rows[i].reported[k] : "-");
  }
}

static void flat_head(const char *head, char out[FIGURE_TEXT]) {
  snprintf(out, FIGURE_TEXT, "%s", head);
  for (char *p = out; *p; p++)
    if (*p == '\n') *p = ' ';
}

static shoal_status write_text(const reproduction *r, const comparison *c, const char *name, bool markdown) {
  text out = {0};
  const char *gap = markdown ? " | " : ",", *quote = markdown ? "" : "\"";
  if (markdown) text_add(&out, "# %s: %s\n\n", r->what->id, r->what->title);
  for (int i = -1; i < c->rows; i++) {
    text_add(&out, "%s", markdown ? "| " : "");
    for (int k = 0; k < c->columns; k++) {
      char head[FIGURE_TEXT];
      flat_head(c->heads[k], head);
      text_add(&out, "%s%s%s%s", k ? gap : "", quote, i < 0 ? head : c->cells[i][k].cell, quote);
    }
    text_add(&out, markdown ? " |\n" : "\n");
    for (int k = 0; markdown && i < 0 && k < c->columns; k++)
      text_add(&out, "%s", c->cells[0][k].left ? "|---" : "|--:");
    if (markdown && i < 0) text_add(&out, "|\n");
  }
  if (markdown && r->what->note) text_add(&out, "\n%s\n", r->what->note);
  char *path;
  shoal_status status = asprintf(&path, "%s/%s", r->folder, name) < 0 ? status_no_memory() : NULL;
  if (!status) {
    status = shoal_text_write(&out, path);
    free(path);
  }
  text_fini(&out);
  return status;
}

/* For the page. */
static shoal_status write_json(const reproduction *r, const comparison *c) {
  json_t *columns = json_array(), *rows = json_array(), *notes = json_array();
  for (int k = 0; k < c->columns; k++) {
    char head[FIGURE_TEXT];
    flat_head(c->heads[k], head);
    json_array_append_new(columns, json_string(head));
  }
  for (int i = 0; i < c->rows; i++) {
    json_t *row = json_array();
    for (int k = 0; k < c->columns; k++) json_array_append_new(row, json_string(c->cells[i][k].cell));
    json_array_append_new(rows, row);
  }
  if (r->what->note) json_array_append_new(notes, json_string(r->what->note));
  char title[256], *path;
  snprintf(title, sizeof title, "%s: %s", r->what->id, r->what->title);
  json_t *all = json_pack("{s:s, s:o, s:o, s:o}", "title", title, "columns", columns, "rows", rows, "notes", notes);
  if (!all || asprintf(&path, "%s/comparison.json", r->folder) < 0) {
    json_decref(all);
    return status_no_memory();
  }
  shoal_status status = json_write_file(all, path);
  free(path);
  json_decref(all);
  return status;
}

static shoal_status tell(const reproduction *r) {
  comparison *c = calloc(1, sizeof *c);
  if (!c) return status_no_memory();
  compare(r, c);
  table_column *flat = calloc((size_t)(c->rows * c->columns), sizeof *flat);
  shoal_status status = flat ? NULL : status_no_memory();
  for (int i = 0; flat && i < c->rows; i++)
    memcpy(flat + i * c->columns, c->cells[i], (size_t)c->columns * sizeof *flat);
  if (flat) {
    putchar('\n');
    table_print(stdout, flat, c->rows, c->columns, terminal_width(stdout));
    if (r->what->note) say(stdout, "\n%s\n", r->what->note);
  }
  free(flat);
  if (!status) status = write_text(r, c, "comparison.md", true);
  if (!status) status = write_text(r, c, "comparison.csv", false);
  if (!status) status = write_json(r, c);
  free(c);
  return status;
}

static void list_commands(const reproduction *r) {
  for (size_t i = 0; i < r->runs.count; i++) {
    fputs(called(), stdout);
    for (int k = 0; k < r->runs.runs[i].count; k++) printf(" %s", r->runs.runs[i].words[k]);
    printf(" --run-dir %s/%s\n", r->folder, r->runs.runs[i].name);
  }
}

static shoal_status reproduce(reproduction *r, const reproduce_flags *f, int *exit_status) {
  TRY(check_there(r->what));
  if (f->run_dir ? !(r->folder = strdup(f->run_dir)) : asprintf(&r->folder, "runs/reproduce-%s", r->what->id) < 0) {
    r->folder = NULL;
    return status_no_memory();
  }
  r->runs.folder = r->folder;
  TRY(plan(r));
  if (f->dry_run) {
    list_commands(r);
    return NULL;
  }
  TRY(interrupt_create("Stopping after this step; press Ctrl-C again to end at once.",
                       "Ended at once; runs that are finished are kept.", &r->signals));
  r->runs.stop = interrupt_flag(r->signals);
  TRY(make_folders(r->folder));
  char count[COUNTED_TEXT];
  say(stdout, "%s: %s, %s in %s\n", r->what->id, r->what->title, counted_text((int64_t)r->runs.count, "run", count),
      r->folder);
  TRY(prepare(r));
  TRY(batch_go(&r->runs));
  TRY(tell(r));
  say(stdout, "\nThe comparison is in %s/comparison.md and comparison.csv.\n", r->folder);
  batch_report(&r->runs);
  if (r->runs.failed) *exit_status = EXIT_JOB_FAILED;
  if (r->runs.stopped) *exit_status = 128 + __atomic_load_n(r->runs.stop, __ATOMIC_ACQUIRE);
  if (r->runs.failed || r->runs.stopped) {
    putchar('\n');
    say_command(stdout, "To go on:", "%s reproduce %s --run-dir %s", called(), r->what->id, r->folder);
  }
  return NULL;
}

static int run_reproduce(int argc, char **argv) {
  reproduce_flags f = {0};
  flags_parsed parsed;
  reproduction r = {0};
  int exit_status = EXIT_GOOD;
  shoal_status status = flags_parse(reproduce_table, argc, argv, &f, &parsed);
  if (!status && parsed.help) {
    command_print_help(&command_reproduce, stdout);
    return EXIT_GOOD;
  }
  if (!status && f.list) {
    list_experiments();
    return EXIT_GOOD;
  }
  if (!status) status = find(&parsed, &r.what);
  if (!status) status = reproduce(&r, &f, &exit_status);
  if (status) exit_status = command_fail(&command_reproduce, status);
  batch_fini(&r.runs);
  interrupt_destroy(r.signals);
  free(r.folder);
  return exit_status;
}

const command command_reproduce = {
    .name = "reproduce",
    .arguments = "ID",
    .summary = "run an experiment that was reported and compare with it",
    .details = "Runs the experiment, prints its figures beside the reported ones, and leaves\n"
               "comparison.md, comparison.csv and report.html. Started again it goes on where\n"
               "it stopped. --list names the experiments.\n"
               "\n"
               "Examples:\n"
               "  shoal reproduce A5\n"
               "  shoal reproduce B1 --dry-run\n",
    .flags = reproduce_table,
    .word_at = experiment_id_at,
    .run = run_reproduce,
};
