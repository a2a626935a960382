#include "run/run_list.h"

#include "base/json_read.h"
#include "base/mem.h"
#include "base/options.h"
#include "run/job_words.h"
#include "run/run_dir.h"
#include "shoal/run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define OWN_WORDS 6 /* that a run gets beside its own: the program, its folder, --quiet ... */

typedef struct {
  char *name;
  char **words;
  int count;
  json_t *summary; /* of a run that has ended well; NULL: none yet */
  char *error;     /* why it failed; NULL: it did not */
} listed;

struct shoal_run_list {
  char *folder;
  listed *runs;
  size_t count, capacity;
};

/* ---- the list */

shoal_status shoal_run_list_create(const char *folder, shoal_run_list **out) {
  shoal_run_list *l = calloc(1, sizeof *l);
  if (!l || !(l->folder = strdup(folder))) {
    free(l);
    return status_no_memory();
  }
  *out = l;
  return NULL;
}

static void free_run(listed *r) {
  for (int i = 0; i < r->count; i++) free(r->words[i]);
  free(r->words);
  free(r->name);
  json_decref(r->summary);
  free(r->error);
}

void shoal_run_list_destroy(shoal_run_list *l) {
  if (!l) return;
  for (size_t i = 0; i < l->count; i++) free_run(&l->runs[i]);
  free(l->runs);
  free(l->folder);
  free(l);
}

static shoal_status copy_run(const char *name, const char *const *words, int n, listed *out) {
  listed r = {.name = strdup(name), .words = calloc((size_t)n + 1, sizeof *r.words)};
  bool good = r.name && r.words;
  for (int i = 0; good && i < n; i++) good = (r.words[r.count++] = strdup(words[i])) != NULL;
  if (!good) {
    free_run(&r);
    return status_no_memory();
  }
  *out = r;
  return NULL;
}

static shoal_status check(const char *const *words, int n) {
  shoal_job job;
  if (n < 1) return status_make(SHOAL_ERR_ARGUMENT, "expected the words of a command");
  if (strcmp(words[0], "train")) return NULL;
  TRY(job_from_words(words, n, &job));
  return shoal_job_resolve(&job, &job);
}

shoal_status shoal_run_list_add(shoal_run_list *l, const char *name, const char *const *words, int n) {
  TRY(status_wrap(check(words, n), "%s", name));
  TRY(mem_grow((void **)&l->runs, &l->capacity, l->count + 1, sizeof *l->runs));
  TRY(copy_run(name, words, n, &l->runs[l->count]));
  l->count++;
  return NULL;
}

const char *shoal_run_list_folder(const shoal_run_list *l) { return l->folder; }
size_t shoal_run_list_count(const shoal_run_list *l) { return l->count; }

shoal_listed_run shoal_run_list_at(const shoal_run_list *l, size_t i) {
  const listed *r = &l->runs[i];
  return (shoal_listed_run){.name = r->name,
                            .words = (const char *const *)r->words,
                            .n_words = r->count,
                            .finished = r->summary != NULL,
                            .error = r->error};
}

const json_t *run_list_summary(const shoal_run_list *l, size_t i) { return l->runs[i].summary; }

double shoal_run_list_number(const shoal_run_list *l, size_t i, const char *key) {
  const json_t *value = json_object_get(l->runs[i].summary, key);
  return json_is_number(value) ? json_number_value(value) : NAN;
}

char *run_list_path(const shoal_run_list *l, const char *name) {
  char *path;
  return asprintf(&path, "%s/%s", l->folder, name) < 0 ? NULL : path;
}

shoal_status run_list_write(const shoal_run_list *l, const char *name, text *content) {
  char *path = run_list_path(l, name);
  shoal_status status = path ? text_write_file(content, path) : status_no_memory();
  free(path);
  text_fini(content);
  return status;
}

/* ---- what is there */

static bool is_finished(const json_t *summary) {
  const char *status = json_string_value(json_object_get(summary, "status"));
  return status && (!strcmp(status, "finished") || !strcmp(status, "stopped early"));
}

/* A run without a whole summary is run again, or continued. */
static shoal_status read_run(const shoal_run_list *l, listed *r) {
  char *path;
  if (asprintf(&path, "%s/%s/summary.json", l->folder, r->name) < 0) return status_no_memory();
  json_t *summary = json_read_file(path, 0, NULL);
  free(path);
  json_decref(r->summary);
  r->summary = is_finished(summary) ? json_incref(summary) : NULL;
  json_decref(summary);
  return NULL;
}

shoal_status shoal_run_list_read(shoal_run_list *l, size_t *finished) {
  size_t n = 0;
  for (size_t i = 0; i < l->count; i++) {
    TRY(read_run(l, &l->runs[i]));
    n += l->runs[i].summary != NULL;
  }
  if (finished) *finished = n;
  return NULL;
}

/* ---- running */

static bool asked_to_stop(const int *stop) { return stop && __atomic_load_n(stop, __ATOMIC_ACQUIRE); }

/* The last line of a log that says something; the caller frees it. */
static char *last_line(const char *path) {
  FILE *f = fopen(path, "re");
  char *line = NULL, *kept = NULL;
  size_t capacity = 0;
  ssize_t n;
  while (f && (n = getline(&line, &capacity, f)) > 0) {
    while (n && (line[n - 1] == '\n' || line[n - 1] == ' ')) line[--n] = 0;
    if (!n || !strncmp(line, "'shoal ", 7)) continue; /* where help is */
    free(kept);
    kept = strdup(line);
  }
  free(line);
  if (f) fclose(f);
  return kept;
}

shoal_status run_list_command(const char *name, const char *const *words, const char *log,
                              const shoal_run_list_options *options) {
  shoal_run_list_options own, *o = &own;
  int ended = 0;
  TRY(OPTIONS_TAKE(o, options));
  TRY(shoal_process_run(
      &(shoal_process){.program = o->program, .argv = words, .name = name, .log = log, .stop = o->stop}, &ended));
  if (asked_to_stop(o->stop)) return status_make(SHOAL_ERR_CANCELLED, "stopped");
  if (!ended) return NULL;
  char *why = last_line(log);
  shoal_status status = status_make(SHOAL_ERR_INPUT, "%s: %s", name, why ? why : "it failed without an error message");
  free(why);
  return status;
}

/* argv has room for the run's words and OWN_WORDS. A run that is there is continued, where it can be. */
static shoal_status make_argv(const listed *r, const char *folder, const char **argv) {
  int n = 0;
  bool continues = true;
  argv[n++] = "shoal";
  for (int i = 0; i < r->count; i++) {
    argv[n++] = r->words[i];
    if (!strcmp(r->words[i], "--no-checkpoints")) continues = false;
  }
  const bool used = shoal_run_dir_used(folder);
  argv[n++] = "--run-dir";
  argv[n++] = folder;
  argv[n++] = "--quiet";
  if (used && continues) argv[n++] = "--resume";
  argv[n] = NULL;
  return used && !continues ? shoal_run_dir_clear(folder) : NULL; /* from the beginning: nothing was saved */
}

typedef struct {
  const shoal_run_list_options *options;
  size_t i;
} ticking;

static void tick(void *context) {
  const ticking *t = context;
  if (t->options->on_tick) t->options->on_tick(t->options->context, t->i);
}

static shoal_status run_process(const shoal_run_list *l, size_t i, const char *log, const shoal_run_list_options *o) {
  const listed *r = &l->runs[i];
  const char **argv = calloc((size_t)r->count + OWN_WORDS, sizeof *argv);
  char *folder = run_list_path(l, r->name);
  int ended;
  shoal_status status = argv && folder ? make_argv(r, folder, argv) : status_no_memory();
  if (!status)
    status = shoal_process_run(&(shoal_process){.program = o->program,
                                                .argv = argv,
                                                .name = r->name,
                                                .log = log,
                                                .stop = o->stop,
                                                .context = &(ticking){o, i},
                                                .on_tick = tick},
                               &ended);
  free(folder);
  free(argv);
  return status;
}

static shoal_status run_one(shoal_run_list *l, size_t i, const shoal_run_list_options *o) {
  listed *r = &l->runs[i];
  char *log;
  if (asprintf(&log, "%s/logs/%s.log", l->folder, r->name) < 0) return status_no_memory();
  shoal_status status = run_process(l, i, log, o);
  if (!status) status = read_run(l, r);
  free(r->error);
  r->error = NULL;
  if (!status && !r->summary && !asked_to_stop(o->stop)) {
    r->error = last_line(log);
    if (!r->error && !(r->error = strdup("it ended without a result"))) status = status_no_memory();
  }
  free(log);
  return status;
}

shoal_status shoal_run_list_run(shoal_run_list *l, const shoal_run_list_options *options,
                                shoal_run_list_outcome *outcome) {
  shoal_run_list_options own, *o = &own;
  shoal_run_list_outcome came = {0};
  TRY(OPTIONS_TAKE(o, options));
  char *logs = run_list_path(l, "logs");
  shoal_status status = logs ? run_dir_make(logs) : status_no_memory();
  free(logs);
  if (!status) status = shoal_run_list_read(l, NULL);
  for (size_t i = 0; i < l->count && !status && !came.stopped; i++) {
    const listed *r = &l->runs[i];
    if (r->summary) continue;
    came.stopped = asked_to_stop(o->stop);
    if (came.stopped) break;
    if (o->on_start) o->on_start(o->context, i);
    status = run_one(l, i, o);
    came.failed += r->error != NULL;
    came.stopped = !status && !r->summary && asked_to_stop(o->stop);
    if (!status && !came.stopped && o->on_end) o->on_end(o->context, i);
  }
  if (outcome) *outcome = came;
  return status;
}
