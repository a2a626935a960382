#include "cli/sweep_grid.h"

#include "cli/util.h"

#include "cli/say.h"

#include <string.h>

void sweep_grid_fini(sweep_grid *g) {
  for (int i = 0; i < g->words_count; i++) free(g->words[i]);
  free(g->words);
  *g = (sweep_grid){0};
}

static const flag_row *find(const char *name, size_t length) {
  for (const flag_row *row = shoal_job_settings(); row->name; row++)
    if (strlen(row->name) == length && !memcmp(row->name, name, length)) return row;
  return NULL;
}

/* What train says of a flag nobody knows. */
static shoal_status unknown(char *word) {
  shoal_job ignored;
  flags_parsed parsed;
  char *argv[] = {word};
  return flags_parse(shoal_job_settings(), 1, argv, &ignored, &parsed);
}

static shoal_status add_value(sweep_axis *axis, const char *value) {
  if (axis->count == VALUES_MOST)
    return status_make(SHOAL_ERR_ARGUMENT, "--%s: more than %d values", axis->flag->name, VALUES_MOST);
  for (int i = 0; i < axis->count; i++)
    if (!strcmp(axis->values[i], value))
      return status_make(SHOAL_ERR_ARGUMENT, "--%s: %s is listed twice", axis->flag->name, value);
  if (axis->flag->kind == FLAG_BOOL && strcmp(value, "yes") && strcmp(value, "no"))
    return status_make(SHOAL_ERR_ARGUMENT, "--%s takes no value, or yes, no or yes,no", axis->flag->name);
  axis->values[axis->count++] = value;
  return NULL;
}

/* value NULL: a flag without one. */
static shoal_status add_flag(sweep_grid *g, const flag_row *row, char *value) {
  static const char *const refused[] = {"cluster", "task", "keys", "insecure", "job"};
  for (size_t i = 0; i < COUNT_OF(refused); i++)
    if (!strcmp(row->name, refused[i]))
      return status_make(SHOAL_ERR_ARGUMENT, "--%s: a sweep runs on this machine only", row->name);
  sweep_axis *axis = NULL;
  for (int i = 0; i < g->count; i++)
    if (g->flags[i].flag == row) axis = &g->flags[i];
  if (!axis) {
    axis = &g->flags[g->count++];
    *axis = (sweep_axis){.flag = row};
  }
  if (!value) return add_value(axis, row->bare ? row->bare : "yes");
  if (row->kind == FLAG_TEXT) return add_value(axis, value); /* commas may be part of it */
  for (char *rest = value, *one; (one = strsep(&rest, ","));) TRY(add_value(axis, one));
  return NULL;
}

static shoal_status read_words(sweep_grid *g) {
  for (int i = 0; i < g->words_count; i++) {
    char *word = g->words[i];
    if (strncmp(word, "--", 2)) {
      if (g->model) return status_make(SHOAL_ERR_ARGUMENT, "one model at a time, but got '%s' too", word);
      g->model = word;
      continue;
    }
    char *name = word + 2, *equals = strchr(name, '='), *value = equals ? equals + 1 : NULL;
    const flag_row *row = find(name, equals ? (size_t)(equals - name) : strlen(name));
    if (!row) return unknown(word);
    int64_t ignored;
    bool alone = row->bare && (i + 1 == g->words_count || !shoal_parse_int(g->words[i + 1], &ignored));
    if (!value && row->kind != FLAG_BOOL && !alone) {
      if (i + 1 == g->words_count)
        return status_make(SHOAL_ERR_ARGUMENT, "--%s needs a value: --%s %s", row->name, row->name, row->value);
      value = g->words[++i];
    }
    TRY(add_flag(g, row, value));
  }
  if (!g->model)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "which model? For example: %s sweep lenet --batch-size 64,128 --workers 1,2", called());
  return NULL;
}

static shoal_status span(sweep_grid *g) {
  g->cells = 1;
  for (int i = 0; i < g->count; i++) {
    if (g->flags[i].count < 2) continue;
    if (g->axes_count == AXES_MOST) return status_make(SHOAL_ERR_ARGUMENT, "more than %d flags with lists", AXES_MOST);
    g->axes[g->axes_count++] = i;
    g->cells *= g->flags[i].count;
    if (g->cells > SWEEP_RUNS_MOST)
      return status_make(SHOAL_ERR_ARGUMENT, "more than %d combinations", SWEEP_RUNS_MOST);
  }
  return NULL;
}

shoal_status sweep_grid_read(int argc, char **argv, sweep_grid *out) {
  sweep_grid g = {.words = calloc((size_t)argc + 1, sizeof *g.words)};
  if (!g.words) return status_no_memory();
  shoal_status status = NULL;
  for (int i = 0; i < argc && !status; i++) {
    if (!(g.words[i] = strdup(argv[i]))) status = status_no_memory();
    g.words_count++;
  }
  if (!status) status = read_words(&g);
  if (!status) status = span(&g);
  if (status)
    sweep_grid_fini(&g);
  else
    *out = g;
  return status;
}

/* The last axis changes fastest. */
const char *sweep_grid_value(const sweep_grid *g, int cell, int a) {
  for (int i = g->axes_count - 1; i > a; i--) cell /= g->flags[g->axes[i]].count;
  const sweep_axis *axis = &g->flags[g->axes[a]];
  return axis->values[cell % axis->count];
}

/* "batch-size=64,workers=2"; a slash in a value becomes an underscore. */
static void name_run(const sweep_grid *g, int cell, int repeat, int repeats, text *out) {
  for (int a = 0; a < g->axes_count; a++) {
    text_add(out, "%s%s=", a ? "," : "", g->flags[g->axes[a]].flag->name);
    for (const char *p = sweep_grid_value(g, cell, a); *p; p++) text_add(out, "%c", *p == '/' ? '_' : *p);
  }
  if (repeats > 1) text_add(out, "%srepeat=%d", g->axes_count ? "," : "", repeat + 1);
  if (!out->length) text_add(out, "run");
}

/* The value of a flag in a cell; NULL: the flag is not there. */
static const char *value_of(const sweep_grid *g, int cell, const char *flag) {
  for (int a = 0; a < g->axes_count; a++)
    if (!strcmp(g->flags[g->axes[a]].flag->name, flag)) return sweep_grid_value(g, cell, a);
  for (int i = 0; i < g->count; i++)
    if (!strcmp(g->flags[i].flag->name, flag)) return g->flags[i].values[0];
  return NULL;
}

/* Among numbers of workers, one worker is a process alone: what is said to parameter servers is not meant for it. */
static bool is_alone(const sweep_grid *g, int cell) {
  const char *workers = value_of(g, cell, "workers");
  bool axis = false;
  for (int a = 0; a < g->axes_count; a++) axis |= !strcmp(g->flags[g->axes[a]].flag->name, "workers");
  return axis && !strcmp(workers, "1") && !value_of(g, cell, "ps") && !value_of(g, cell, "strategy");
}

/* What train says of a model nobody knows. */
static shoal_status unknown_model(const char *name) {
  shoal_job job;
  shoal_job_init(&job, sizeof job);
  job.model = name;
  return shoal_job_resolve(&job, &job);
}

static shoal_status add_words(const sweep_grid *g, int cell, batch_run *r) {
  const shoal_model_kind *kind;
  if (!(kind = shoal_model_kind_find(g->model))) return unknown_model(g->model);
  const bool alone = is_alone(g, cell);
  TRY(batch_add_word(r, "train"));
  TRY(batch_add_word(r, g->model));
  for (int i = 0; i < g->count; i++) {
    const sweep_axis *f = &g->flags[i];
    const char *value = value_of(g, cell, f->flag->name);
    if (alone && !shoal_job_setting_suits(f->flag->name, "single", kind)) continue;
    if (f->flag->kind == FLAG_BOOL && !strcmp(value, "no")) continue;
    char flag[FLAG_LABEL];
    snprintf(flag, sizeof flag, "--%s", f->flag->name);
    TRY(batch_add_word(r, flag));
    if (f->flag->kind != FLAG_BOOL) TRY(batch_add_word(r, value));
  }
  return NULL;
}

shoal_status sweep_grid_runs(const sweep_grid *g, int repeats, batch *out) {
  if (g->cells * repeats > SWEEP_RUNS_MOST)
    return status_make(SHOAL_ERR_ARGUMENT, "%d runs are more than %d", g->cells * repeats, SWEEP_RUNS_MOST);
  for (int a = 0; repeats > 1 && a < g->axes_count; a++)
    if (!strcmp(g->flags[g->axes[a]].flag->name, "seed"))
      return status_make(SHOAL_ERR_ARGUMENT, "--repeats sets the seeds itself; leave the list of --seed out");
  for (int cell = 0; cell < g->cells; cell++)
    for (int k = 0; k < repeats; k++) {
      text name = {0};
      name_run(g, cell, k, repeats, &name);
      batch_run *r;
      shoal_status status = name.failed ? status_no_memory() : batch_add(out, name.data, &r);
      text_fini(&name);
      TRY(status);
      TRY(add_words(g, cell, r));
      int64_t seed;
      TRY(batch_check(r, &seed));
      char words[48];
      snprintf(words, sizeof words, "--seed %lld", (long long)seed + k);
      if (repeats > 1) TRY(batch_add_words(r, words)); /* the last one counts */
    }
  return NULL;
}
