/* Experiments run here, and both results side by side. */
#include "base/mem.h"
#include "base/table.h"
#include "run/experiments.h"
#include "run/run_dir.h"
#include "run/run_list.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define WORDS_MAX 64

/* ---- commands */

/* Puts the folder for {folder}. */
static void fill(const char *word, size_t length, const char *folder, text *out) {
  const char *end = word + length, *at;
  static const char mark[] = "{folder}";
  while ((at = memmem(word, (size_t)(end - word), mark, sizeof mark - 1))) {
    text_add_bytes(out, word, (size_t)(at - word));
    text_add(out, "%s", folder);
    word = at + sizeof mark - 1;
  }
  text_add_bytes(out, word, (size_t)(end - word));
}

/* The words of a command, each a text of its own; ended by NULL. */
typedef struct {
  char *words[WORDS_MAX + 1];
  int count;
} command_words;

static void free_words(command_words *w) {
  for (int i = 0; i < w->count; i++) free(w->words[i]);
}

static shoal_status split(const char *line, const char *folder, command_words *out) {
  *out = (command_words){0};
  for (line += strspn(line, " "); *line; line += strspn(line, " ")) {
    const size_t n = strcspn(line, " ");
    text word = {0};
    fill(line, n, folder, &word);
    if (word.failed || out->count == WORDS_MAX) {
      text_fini(&word);
      free_words(out);
      return status_no_memory();
    }
    out->words[out->count++] = word.data;
    line += n;
  }
  return NULL;
}

/* "2 nodes, rate scaled" to "2-nodes-rate-scaled". */
static void name_folder(const char *name, char out[FIGURE_TEXT]) {
  size_t n = 0;
  for (; *name && n < FIGURE_TEXT - 1; name++)
    if (*name != ',') out[n++] = *name == ' ' ? '-' : *name;
  out[n] = 0;
}

static shoal_status add_run(const experiment_row *row, shoal_run_list *l) {
  char name[FIGURE_TEXT];
  command_words w;
  name_folder(row->name, name);
  TRY(split(row->words, shoal_run_list_folder(l), &w));
  shoal_status status = shoal_run_list_add(l, name, (const char *const *)w.words, w.count);
  free_words(&w);
  return status;
}

shoal_status shoal_experiment_runs(const shoal_experiment *e, const char *folder, shoal_run_list **out) {
  shoal_run_list *l;
  shoal_status status = NULL;
  TRY(shoal_run_list_create(folder, &l));
  for (int i = 0; i < experiment_rows(e) && !status; i++) status = add_run(&e->rows[i], l);
  if (status)
    shoal_run_list_destroy(l);
  else
    *out = l;
  return status;
}

/* ---- data */

bool shoal_experiment_lacks_data(const shoal_experiment *e, const shoal_run_list *runs) {
  char *made = e->prepare ? run_list_path(runs, "data/truth.json") : NULL;
  const bool lacks = made && access(made, F_OK);
  free(made);
  return lacks;
}

static shoal_status make_data(const shoal_run_list *runs, const command_words *w,
                              const shoal_run_list_options *options) {
  const char *argv[WORDS_MAX + 2] = {"shoal"};
  for (int i = 0; i < w->count; i++) argv[i + 1] = w->words[i];
  TRY(run_dir_make(shoal_run_list_folder(runs)));
  char *log = run_list_path(runs, "data.log");
  shoal_status status = log ? run_list_command("the data", argv, log, options) : status_no_memory();
  free(log);
  return status;
}

shoal_status shoal_experiment_make_data(const shoal_experiment *e, const shoal_run_list *runs,
                                        const shoal_run_list_options *options) {
  command_words w;
  if (!e->prepare) return NULL;
  TRY(split(e->prepare, shoal_run_list_folder(runs), &w));
  shoal_status status = make_data(runs, &w, options);
  free_words(&w);
  return status;
}

/* ---- the comparison */

static bool anybody_reported(const shoal_experiment *e, int figure) {
  for (int i = 0; i < experiment_rows(e); i++)
    if (e->rows[i].reported[figure]) return true;
  return false;
}

static int count_columns(const shoal_experiment *e) {
  int n = 1; /* the run's name */
  for (int k = 0; k < EXPERIMENT_FIGURES_MAX && e->figures[k]; k++) n += 1 + anybody_reported(e, k);
  return n;
}

static void fill_names(const shoal_experiment *e, shoal_result_table *t) {
  table_set_column(t, 0, (shoal_result_column){.head = "run", .left = true});
  for (int i = 0; i < t->n_rows; i++) table_set(t, i, 0, "%s", e->rows[i].name);
}

static void fill_own(const experiment_figure *f, const shoal_run_list *runs, shoal_result_table *t, int c) {
  table_set_column(t, c, (shoal_result_column){.head = f->head});
  for (int i = 0; i < t->n_rows; i++) {
    const json_t *summary = run_list_summary(runs, (size_t)i);
    char value[FIGURE_TEXT] = "-";
    if (summary) f->show(summary, value);
    table_set(t, i, c, "%s", value);
  }
}

static void fill_reported(const shoal_experiment *e, int k, const experiment_figure *f, shoal_result_table *t, int c) {
  char head[FIGURE_TEXT];
  snprintf(head, sizeof head, "reported\n%s", f->head);
  table_set_column(t, c, (shoal_result_column){.head = head});
  for (int i = 0; i < t->n_rows; i++) table_set(t, i, c, "%s", e->rows[i].reported[k] ? e->rows[i].reported[k] : "-");
}

static shoal_status fill_table(const shoal_experiment *e, const shoal_run_list *runs, shoal_result_table *t) {
  fill_names(e, t);
  for (int k = 0, c = 1; k < EXPERIMENT_FIGURES_MAX && e->figures[k]; k++) {
    const experiment_figure *f = experiment_figure_find(e->figures[k]);
    if (!f) return status_make(SHOAL_ERR_INTERNAL, "experiment %s: unknown figure '%s'", e->id, e->figures[k]);
    fill_own(f, runs, t, c++);
    if (anybody_reported(e, k)) fill_reported(e, k, f, t, c++);
  }
  return NULL;
}

/* ---- files */

static shoal_status write_markdown(const shoal_experiment *e, const shoal_run_list *runs, const shoal_result_table *t) {
  text out = {0};
  text_add(&out, "# %s: %s\n\n", e->id, e->title);
  shoal_result_table_markdown(t, &out);
  if (e->note) text_add(&out, "\n%s\n", e->note);
  return run_list_write(runs, "comparison.md", &out);
}

static shoal_status write_csv(const shoal_run_list *runs, const shoal_result_table *t) {
  text out = {0};
  shoal_result_table_csv(t, &out);
  return run_list_write(runs, "comparison.csv", &out);
}

/* For the page. */
static shoal_status write_json(const shoal_experiment *e, const shoal_run_list *runs, const shoal_result_table *t) {
  json_t *columns = json_array(), *rows = json_array(), *notes = json_array();
  char head[TABLE_HEAD], title[256];
  for (int c = 0; c < t->n_columns; c++) json_array_append_new(columns, json_string(table_head(&t->columns[c], head)));
  for (int i = 0; i < t->n_rows; i++) {
    json_t *row = json_array();
    for (int c = 0; c < t->n_columns; c++) json_array_append_new(row, json_string(t->cells[i * t->n_columns + c]));
    json_array_append_new(rows, row);
  }
  if (e->note) json_array_append_new(notes, json_string(e->note));
  snprintf(title, sizeof title, "%s: %s", e->id, e->title);
  json_t *all = json_pack("{s:s, s:o, s:o, s:o}", "title", title, "columns", columns, "rows", rows, "notes", notes);
  char *path = run_list_path(runs, "comparison.json");
  shoal_status status = all && path ? json_write_atomically(all, path) : status_no_memory();
  free(path);
  json_decref(all);
  return status;
}

shoal_status shoal_experiment_compare(const shoal_experiment *e, const shoal_run_list *runs, shoal_result_table **out) {
  shoal_result_table *t;
  if (shoal_run_list_count(runs) != (size_t)experiment_rows(e))
    return status_make(SHOAL_ERR_ARGUMENT, "these are not the runs of experiment %s", e->id);
  TRY(table_create(experiment_rows(e), NULL, count_columns(e), &t));
  shoal_status status = fill_table(e, runs, t);
  if (!status) status = write_markdown(e, runs, t);
  if (!status) status = write_csv(runs, t);
  if (!status) status = write_json(e, runs, t);
  return table_done(t, status, out);
}
