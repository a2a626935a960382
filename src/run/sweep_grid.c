#include "run/sweep_grid.h"

#include "base/mem.h"
#include "run/job.h"
#include "run/job_words.h"

#include <stdio.h>
#include <string.h>

#define SEED_TEXT 24

void sweep_grid_fini(sweep_grid *g) {
  for (int i = 0; i < g->count; i++)
    for (int k = 0; k < g->settings[i].count; k++) free(g->settings[i].values[k]);
  free(g->model);
  *g = (sweep_grid){0};
}

/* ---- reading */

static shoal_status add_value(sweep_setting *s, const char *bytes, size_t length) {
  const char *name = s->row->name;
  if (s->count == SWEEP_VALUES_MAX)
    return status_make(SHOAL_ERR_ARGUMENT, "`%s`: more than %d values", name, SWEEP_VALUES_MAX);
  char *value = strndup(bytes, length);
  if (!value) return status_no_memory();
  s->values[s->count++] = value; /* freed with the grid */
  for (int i = 0; i + 1 < s->count; i++)
    if (!strcmp(s->values[i], value)) return status_make(SHOAL_ERR_ARGUMENT, "`%s`: %s is listed twice", name, value);
  if (s->row->kind == SHOAL_SETTING_BOOL && strcmp(value, "yes") && strcmp(value, "no"))
    return status_make(SHOAL_ERR_ARGUMENT, "`%s` takes no value, or yes, no or yes,no", name);
  return NULL;
}

static shoal_status find_or_add(sweep_grid *g, const shoal_setting *row, sweep_setting **out) {
  for (int i = 0; i < g->count; i++)
    if (g->settings[i].row == row) {
      *out = &g->settings[i];
      return NULL;
    }
  if (g->count == SWEEP_SETTINGS_MAX)
    return status_make(SHOAL_ERR_ARGUMENT, "more than %d settings", SWEEP_SETTINGS_MAX);
  *out = &g->settings[g->count++];
  (*out)->row = row;
  return NULL;
}

/* value NULL: the setting stands alone. */
static shoal_status add_setting(sweep_grid *g, const shoal_setting *row, const char *value) {
  static const char *const refused[] = {"cluster", "task", "keys", "insecure", "job"};
  for (size_t i = 0; i < COUNT_OF(refused); i++)
    if (!strcmp(row->name, refused[i]))
      return status_make(SHOAL_ERR_ARGUMENT, "`%s`: a sweep runs on this machine only", row->name);
  sweep_setting *s;
  TRY(find_or_add(g, row, &s));
  if (!value) return add_value(s, "yes", 3);
  if (row->kind == SHOAL_SETTING_TEXT) return add_value(s, value, strlen(value)); /* commas may be part of it */
  for (const char *p = value;; p++) {
    size_t n = strcspn(p, ",");
    TRY(add_value(s, p, n));
    p += n;
    if (!*p) return NULL;
  }
}

static shoal_status span(sweep_grid *g) {
  g->cells = 1;
  for (int i = 0; i < g->count; i++) {
    if (g->settings[i].count < 2) continue;
    if (g->n_axes == SWEEP_AXES_MAX)
      return status_make(SHOAL_ERR_ARGUMENT, "more than %d settings with several values", SWEEP_AXES_MAX);
    g->axes[g->n_axes++] = i;
    g->cells *= g->settings[i].count;
    if (g->cells > SWEEP_RUNS_MAX) return status_make(SHOAL_ERR_ARGUMENT, "more than %d combinations", SWEEP_RUNS_MAX);
  }
  return NULL;
}

shoal_status sweep_grid_read(const char *const *words, int n, sweep_grid *out) {
  for (job_words w = {words, n, 0}; w.at < n;) {
    const shoal_setting *row;
    const char *value;
    TRY(job_words_next(&w, &row, &value));
    if (row) {
      TRY(add_setting(out, row, value));
      continue;
    }
    if (out->model) return status_make(SHOAL_ERR_ARGUMENT, "expected one model, but also got '%s'", value);
    if (!(out->model = strdup(value))) return status_no_memory();
  }
  if (!out->model)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "which model? A sweep is of one model, e.g. lenet `batch_size` 64,128 `workers` 1,2");
  return span(out);
}

/* ---- cells */

const sweep_setting *sweep_grid_axis(const sweep_grid *g, int a) { return &g->settings[g->axes[a]]; }

const char *sweep_grid_axis_value(const sweep_grid *g, int cell, int a) {
  for (int i = g->n_axes - 1; i > a; i--) cell /= sweep_grid_axis(g, i)->count;
  const sweep_setting *axis = sweep_grid_axis(g, a);
  return axis->values[cell % axis->count];
}

static int find_axis(const sweep_grid *g, const char *setting) {
  for (int a = 0; a < g->n_axes; a++)
    if (!strcmp(sweep_grid_axis(g, a)->row->name, setting)) return a;
  return -1;
}

const char *sweep_grid_value(const sweep_grid *g, int cell, const char *setting) {
  const int a = find_axis(g, setting);
  if (a >= 0) return sweep_grid_axis_value(g, cell, a);
  for (int i = 0; i < g->count; i++)
    if (!strcmp(g->settings[i].row->name, setting)) return g->settings[i].values[0];
  return NULL;
}

/* A slash in a value becomes an underscore. */
void sweep_grid_name(const sweep_grid *g, int cell, int repeat, int repeats, text *out) {
  for (int a = 0; a < g->n_axes; a++) {
    text_add(out, "%s%s=", a ? "," : "", sweep_grid_axis(g, a)->row->name);
    for (const char *p = sweep_grid_axis_value(g, cell, a); *p; p++) text_add(out, "%c", *p == '/' ? '_' : *p);
  }
  if (repeats > 1) text_add(out, "%srepeat=%d", g->n_axes ? "," : "", repeat + 1);
  if (!out->length) text_add(out, "run");
}

/* ---- runs */

/* Among numbers of workers, one worker is a process alone: what is said to parameter servers is not meant for it. */
static bool is_alone(const sweep_grid *g, int cell) {
  return find_axis(g, "workers") >= 0 && !strcmp(sweep_grid_value(g, cell, "workers"), "1") &&
         !sweep_grid_value(g, cell, "ps") && !sweep_grid_value(g, cell, "strategy");
}

/* The words of a run, borrowed but for the settings' names. */
typedef struct {
  const char *words[2 * SWEEP_SETTINGS_MAX + 4];
  char flags[SWEEP_SETTINGS_MAX][64];
  char seed[SEED_TEXT];
  int count;
} run_words;

static void make_words(const sweep_grid *g, int cell, const shoal_model_kind *kind, run_words *w) {
  const bool alone = is_alone(g, cell);
  w->count = 0;
  w->words[w->count++] = "train";
  w->words[w->count++] = g->model;
  for (int i = 0; i < g->count; i++) {
    const shoal_setting *row = g->settings[i].row;
    const char *value = sweep_grid_value(g, cell, row->name);
    const bool is_bool = row->kind == SHOAL_SETTING_BOOL;
    if (alone && !shoal_job_setting_suits(row->name, "single", kind)) continue;
    if (is_bool && !strcmp(value, "no")) continue;
    snprintf(w->flags[i], sizeof w->flags[i], "--%s", row->name);
    w->words[w->count++] = w->flags[i];
    if (!is_bool) w->words[w->count++] = value;
  }
}

/* The last one that is said counts. */
static shoal_status add_seed(int repeat, run_words *w) {
  shoal_job job;
  TRY(job_from_words(w->words, w->count, &job));
  TRY(shoal_job_resolve(&job, &job));
  snprintf(w->seed, sizeof w->seed, "%lld", (long long)job.seed + repeat);
  w->words[w->count++] = "--seed";
  w->words[w->count++] = w->seed;
  return NULL;
}

static shoal_status add_run(const sweep_grid *g, const shoal_model_kind *kind, int cell, int repeat, int repeats,
                            run_words *w, shoal_run_list *out) {
  text name = {0};
  sweep_grid_name(g, cell, repeat, repeats, &name);
  shoal_status status = name.failed ? status_no_memory() : NULL;
  make_words(g, cell, kind, w);
  if (!status && repeats > 1) status = status_wrap(add_seed(repeat, w), "%s", name.data);
  if (!status) status = shoal_run_list_add(out, name.data, w->words, w->count);
  text_fini(&name);
  return status;
}

shoal_status sweep_grid_add_runs(const sweep_grid *g, int64_t repeats, shoal_run_list *out) {
  if (repeats > SWEEP_RUNS_MAX / g->cells)
    return status_make(SHOAL_ERR_ARGUMENT, "%lld runs are more than %d", (long long)(g->cells * repeats),
                       SWEEP_RUNS_MAX);
  if (repeats > 1 && find_axis(g, "seed") >= 0)
    return status_make(SHOAL_ERR_ARGUMENT, "`repeats` sets the seeds itself; leave the list of `seed` out");
  const shoal_model_kind *kind;
  model_file *file;
  TRY(job_find_kind(g->model, NULL, &kind, &file));
  run_words *w = malloc(sizeof *w);
  shoal_status status = w ? NULL : status_no_memory();
  for (int cell = 0; cell < g->cells && !status; cell++)
    for (int k = 0; k < repeats && !status; k++) status = add_run(g, kind, cell, k, (int)repeats, w, out);
  free(w);
  model_file_destroy(file);
  return status;
}
