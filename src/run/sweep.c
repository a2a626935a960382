#include "run/sweep.h"

#include "base/json_read.h"
#include "base/mem.h"
#include "base/options.h"
#include "run/run_dir.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

void shoal_sweep_destroy(shoal_sweep *s) {
  if (!s) return;
  shoal_run_list_destroy(s->runs);
  sweep_grid_fini(&s->grid);
  for (int i = 0; i < s->n_words; i++) free(s->words[i]);
  free(s->words);
  free(s->folder);
  free(s->description);
  free(s);
}

static shoal_status keep_words(shoal_sweep *s, const char *const *words, int n) {
  if (!(s->words = calloc((size_t)n + 1, sizeof *s->words))) return status_no_memory();
  for (; s->n_words < n; s->n_words++)
    if (!(s->words[s->n_words] = strdup(words[s->n_words]))) return status_no_memory();
  return NULL;
}

static json_t *list_of(const char *const *words, int n) {
  json_t *list = json_array();
  for (int i = 0; i < n; i++) json_array_append_new(list, json_string(words[i]));
  return list;
}

/* ---- a sweep that goes on */

static shoal_status keep_list(shoal_sweep *s, const json_t *list) {
  const size_t n = json_array_size(list);
  const char **words = calloc(n + 1, sizeof *words);
  if (!words) return status_no_memory();
  shoal_status status = NULL;
  for (size_t i = 0; i < n && !status; i++)
    if (!(words[i] = json_string_value(json_array_get(list, i))))
      status = status_make(SHOAL_ERR_INPUT, "%s: argument %zu is not a string", s->description, i);
  if (!status) status = keep_words(s, words, (int)n);
  free(words);
  return status;
}

/* Its settings are in its folder; those said again must be the same. */
static shoal_status take_up(shoal_sweep *s, const char *const *words, int n, const json_t *kept) {
  const json_t *list = json_object_get(kept, "arguments");
  if (!json_is_array(list))
    return status_make(SHOAL_ERR_INPUT, "%s: no list of arguments; expected the description of a sweep",
                       s->description);
  const int64_t repeats = json_integer_value(json_object_get(kept, "repeats"));
  if (s->repeats && repeats != s->repeats)
    return status_make(SHOAL_ERR_ARGUMENT, "%s: the sweep there has `repeats` %lld", s->folder, (long long)repeats);
  s->repeats = repeats;
  json_t *now = list_of(words, n);
  const bool same = !n || json_equal(now, list);
  json_decref(now);
  if (!same)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "%s contains a sweep with other settings; leave them out, or choose another "
                       "`run_dir`",
                       s->folder);
  return keep_list(s, list);
}

static shoal_status resume(shoal_sweep *s, const char *const *words, int n) {
  json_error_t error;
  json_t *kept = json_read_file(s->description, 0, &error);
  if (!kept)
    return status_make(SHOAL_ERR_INPUT, "%s: %s; expected the description of a sweep", s->description, error.text);
  shoal_status status = take_up(s, words, n, kept);
  json_decref(kept);
  return status;
}

/* ---- making one */

static shoal_status name_folder(shoal_sweep *s, const char *folder) {
  char name[128];
  snprintf(name, sizeof name, "sweep-%s", s->grid.model ? s->grid.model : "");
  s->folder = folder ? strdup(folder) : shoal_run_dir_name(name);
  if (s->folder && asprintf(&s->description, "%s/sweep.json", s->folder) >= 0) return NULL;
  s->description = NULL;
  return status_no_memory();
}

static shoal_status open_new(shoal_sweep *s, const char *const *words, int n, const char *folder) {
  TRY(keep_words(s, words, n));
  TRY(sweep_grid_read(words, n, &s->grid));
  TRY(name_folder(s, folder));
  if (access(s->description, F_OK)) return NULL;
  return status_make(SHOAL_ERR_ARGUMENT,
                     "%s already contains a sweep; add `resume` to continue it, or choose another "
                     "`run_dir`",
                     s->folder);
}

static shoal_status open_again(shoal_sweep *s, const char *const *words, int n, const char *folder) {
  if (!folder) return status_make(SHOAL_ERR_ARGUMENT, "`resume` needs `run_dir`, the folder of the sweep to continue");
  TRY(name_folder(s, folder));
  TRY(resume(s, words, n));
  return sweep_grid_read((const char *const *)s->words, s->n_words, &s->grid);
}

static shoal_status open_sweep(shoal_sweep *s, const char *const *words, int n, const shoal_sweep_options *o) {
  if (o->repeats < 0)
    return status_make(SHOAL_ERR_ARGUMENT, "`repeats` %lld: expected 1 or more", (long long)o->repeats);
  s->repeats = o->repeats;
  TRY(o->resume ? open_again(s, words, n, o->run_dir) : open_new(s, words, n, o->run_dir));
  if (s->repeats < 1) s->repeats = 1;
  TRY(shoal_run_list_create(s->folder, &s->runs));
  return sweep_grid_add_runs(&s->grid, s->repeats, s->runs);
}

shoal_status shoal_sweep_create(const char *const *words, int n, const shoal_sweep_options *options,
                                shoal_sweep **out) {
  shoal_sweep_options own, *o = &own;
  TRY(OPTIONS_TAKE(o, options));
  shoal_sweep *s = calloc(1, sizeof *s);
  if (!s) return status_no_memory();
  shoal_status status = open_sweep(s, words, n, o);
  if (status)
    shoal_sweep_destroy(s);
  else
    *out = s;
  return status;
}

const char *shoal_sweep_model(const shoal_sweep *s) { return s->grid.model; }
shoal_run_list *shoal_sweep_runs(shoal_sweep *s) { return s->runs; }
int shoal_sweep_combinations(const shoal_sweep *s) { return s->grid.cells; }
const char *shoal_sweep_value(const shoal_sweep *s, int combination, const char *setting) {
  return sweep_grid_value(&s->grid, combination, setting);
}

/* ---- sweep.json; the page reads it, too */

static json_t *axes_json(const sweep_grid *g) {
  json_t *axes = json_array();
  for (int a = 0; a < g->n_axes; a++) {
    const sweep_setting *axis = sweep_grid_axis(g, a);
    json_array_append_new(axes, json_pack("{s:s, s:o}", "flag", axis->row->name, "values",
                                          list_of((const char *const *)axis->values, axis->count)));
  }
  return axes;
}

static json_t *runs_json(const shoal_sweep *s) {
  json_t *runs = json_array();
  for (size_t i = 0; i < shoal_run_list_count(s->runs); i++) {
    const char *values[SWEEP_AXES_MAX];
    for (int a = 0; a < s->grid.n_axes; a++)
      values[a] = sweep_grid_axis_value(&s->grid, (int)(i / (size_t)s->repeats), a);
    json_array_append_new(runs,
                          json_pack("{s:s, s:o, s:I}", "name", shoal_run_list_at(s->runs, i).name, "values",
                                    list_of(values, s->grid.n_axes), "repeat", (json_int_t)(i % (size_t)s->repeats)));
  }
  return runs;
}

shoal_status shoal_sweep_begin(const shoal_sweep *s) {
  TRY(run_dir_make(s->folder));
  json_t *all = json_pack("{s:i, s:s, s:I, s:o, s:o, s:o}", "format", 1, "model", s->grid.model, "repeats",
                          (json_int_t)s->repeats, "arguments", list_of((const char *const *)s->words, s->n_words),
                          "axes", axes_json(&s->grid), "runs", runs_json(s));
  if (!all) return status_no_memory();
  shoal_status status = json_write_atomically(all, s->description);
  json_decref(all);
  return status;
}
