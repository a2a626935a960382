#include "run/evaluator.h"

#include "base/clock.h"
#include "base/json_read.h"
#include "base/mem.h"
#include "run/evaluation_files.h"
#include "run/saved.h"
#include "observe/event_file.h"
#include "train/evaluation.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOOK_SECONDS 0.05

/* Which file a name stands for, to notice that it is another one now. All zero: none. */
typedef struct {
  ino_t file;
  struct timespec changed;
  off_t size;
} identity;

typedef struct {
  const evaluator_options *options;
  run_dir dir;
  saved_model saved; /* saved.model NULL: no checkpoint came yet */
  job_rows rows;
  FILE *lines; /* eval/metrics.jsonl */
  event_file *events;
  identity first; /* the weights that an earlier life of the run left */
  int64_t newest; /* step of the newest checkpoint tested */
  evaluator_result result;
} evaluator;

static identity identify(const char *path) {
  struct stat s;
  if (stat(path, &s)) return (identity){0};
  return (identity){.file = s.st_ino, .changed = s.st_mtim, .size = s.st_size};
}

static bool same(identity a, identity b) {
  return a.file == b.file && a.size == b.size && a.changed.tv_sec == b.changed.tv_sec &&
         a.changed.tv_nsec == b.changed.tv_nsec;
}

static bool stopped(const evaluator *v) {
  return v->options->stop && __atomic_load_n(v->options->stop, __ATOMIC_RELAXED);
}

/* ---- one evaluation */

static shoal_status open_files(evaluator *v) {
  char *folder = NULL, *path = NULL, *board = NULL;
  shoal_status status = NULL;
  if (asprintf(&folder, "%s/eval", v->dir.path) < 0 || asprintf(&path, "%s/metrics.jsonl", folder) < 0 ||
      asprintf(&board, "%s/checkpoints", folder) < 0)
    TRY_GOTO(status, status_no_memory(), done);
  if (mkdir(folder, 0777) && errno != EEXIST)
    TRY_GOTO(status, status_errno(errno, "cannot create the folder %s", folder), done);
  if (!(v->lines = fopen(path, "ae"))) TRY_GOTO(status, status_errno(errno, "cannot write %s", path), done);
  TRY_GOTO(status, event_file_open(board, &v->events), done);
done:
  free(folder);
  free(path);
  free(board);
  return status;
}

/* The first file brings the model with it; later ones only their weights. */
static shoal_status load(evaluator *v, const char *path) {
  if (v->saved.model) return shoal_model_load(v->saved.model, path);
  shoal_trained_options o = {.data = v->options->data, .threads = v->options->threads};
  TRY(saved_model_load(path, &o, &v->saved));
  job_rows_options rows = {.split = "test", .known = job_learned_of(v->saved.model), .scored = true};
  TRY(job_open_rows(&v->saved.job, v->saved.kind, &rows, &v->rows));
  return open_files(v);
}

static json_t *number(double value) { return isfinite(value) ? json_real(value) : json_null(); }

static shoal_status note(evaluator *v, const char *kind, const char *path, int64_t step, const shoal_evaluation *e) {
  const char *slash = strrchr(path, '/');
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  json_t *o = json_pack("{s:s, s:s, s:o, s:s, s:o, s:I, s:o}", "kind", kind, "split", "test", "step",
                        step < 0 ? json_null() : json_integer(step), "file", slash ? slash + 1 : path, "time",
                        json_real((double)t.tv_sec + 1e-9 * (double)t.tv_nsec), "examples", (json_int_t)e->examples,
                        "seconds", number(e->seconds));
  if (o && !evaluation_to_json(o, "", e)) {
    json_decref(o);
    o = NULL;
  }
  if (!o) return status_no_memory();
  bool written = !json_dumpf(o, v->lines, JSON_COMPACT) && fputc('\n', v->lines) != EOF && !fflush(v->lines);
  json_decref(o);
  if (!written) return status_errno(errno, "cannot write to %s/eval/metrics.jsonl", v->dir.path);
  if (v->options->on_tested) v->options->on_tested(v->options->context, slash ? slash + 1 : path, e);
  if (step < 0) return NULL;
  return evaluation_to_events(v->events, step, e);
}

static void export_result(const evaluator *v) {
  openmetrics_values *values = exporter_lock(v->options->exporter);
  if (!values) return;
  values->evaluations = (double)v->result.count;
  values->test_loss = v->result.last.loss;
  values->test_accuracy = v->result.last.accuracy;
  if (v->result.step >= 0) values->step = (double)v->result.step;
  exporter_unlock(v->options->exporter);
}

/* A checkpoint that was removed before it could be read is passed over: newer ones are there. */
static shoal_status evaluate(evaluator *v, const char *kind, const char *path, int64_t step) {
  double start = clock_seconds();
  shoal_evaluation e;
  shoal_status status = load(v, path);
  if (status && access(path, F_OK)) {
    shoal_status_free(status);
    return NULL;
  }
  TRY(status_wrap(status, "%s", path));
  TRY(job_evaluate(v->saved.model, &v->rows, NULL, &e));
  TRY(note(v, kind, path, step, &e));
  v->result.count++;
  v->result.step = step;
  v->result.last = e;
  v->result.seconds += clock_seconds() - start;
  export_result(v);
  return NULL;
}

/* ---- following */

/* The oldest checkpoint newer than those tested; -1: none. */
static int64_t next_step(const evaluator *v) {
  DIR *d = opendir(v->dir.checkpoints);
  int64_t best = -1;
  for (struct dirent *e; d && (e = readdir(d));) {
    long long step;
    int end = 0;
    if (sscanf(e->d_name, "step-%lld.safetensors%n", &step, &end) != 1 || !end || e->d_name[end]) continue;
    if (step > v->newest && (best < 0 || step < best)) best = step;
  }
  if (d) closedir(d);
  return best;
}

static shoal_status evaluate_new(evaluator *v, bool *any) {
  int64_t step;
  *any = false;
  while (!stopped(v) && (step = next_step(v)) >= 0) {
    char *path;
    if (asprintf(&path, "%s/step-%012lld.safetensors", v->dir.checkpoints, (long long)step) < 0)
      return status_no_memory();
    shoal_status status = evaluate(v, "checkpoint", path, step);
    free(path);
    TRY(status);
    v->newest = step;
    *any = true;
  }
  return NULL;
}

/* What an earlier evaluator of this run has tested. */
static shoal_status find_tested(evaluator *v) {
  char *path, *line = NULL;
  size_t room = 0;
  if (asprintf(&path, "%s/eval/metrics.jsonl", v->dir.path) < 0) return status_no_memory();
  FILE *f = fopen(path, "re");
  while (f && getline(&line, &room, f) > 0) {
    json_t *o = json_read_words(line, 0, NULL);
    const json_t *step = json_object_get(o, "step");
    if (json_is_integer(step)) v->newest = MAX_OF(v->newest, (int64_t)json_integer_value(step));
    json_decref(o);
  }
  if (f) fclose(f);
  free(line);
  free(path);
  return NULL;
}

static void sleep_a_little(void) {
  struct timespec t = {.tv_nsec = (long)(LOOK_SECONDS * 1e9)};
  nanosleep(&t, NULL);
}

static shoal_status follow(evaluator *v) {
  identity life = {0};
  double heard = clock_seconds();
  v->first = identify(v->dir.weights);
  exporter_set_ready(v->options->exporter, true);
  for (;;) {
    bool any;
    identity weights = identify(v->dir.weights), now = identify(v->dir.metrics);
    TRY(evaluate_new(v, &any));
    bool final = weights.file && !same(weights, v->first);
    if (!weights.file) v->first = weights; /* the new life has begun */
    if (any || !same(now, life)) {
      life = now;
      heard = clock_seconds();
    }
    bool silent = clock_seconds() - heard > v->options->patience;
    if (final || (silent && weights.file)) return evaluate(v, "final", v->dir.weights, -1);
    if (stopped(v)) return NULL;
    if (silent)
      return status_make(SHOAL_ERR_PEER,
                         "no progress of the run in %s for %g s (neither a checkpoint nor a line in metrics.jsonl); is "
                         "it the folder the chief writes to, and does the job run?",
                         v->dir.path, v->options->patience);
    sleep_a_little();
  }
}

shoal_status evaluator_run(const evaluator_options *options, evaluator_result *out) {
  evaluator v = {.options = options, .newest = -1, .result = {.step = -1}};
  TRY(run_dir_init(options->folder, &v.dir));
  shoal_status status = find_tested(&v);
  if (!status) status = follow(&v);
  if (v.lines && fclose(v.lines) && !status) status = status_errno(errno, "%s/eval/metrics.jsonl", options->folder);
  event_file_close(v.events);
  job_close_rows(&v.rows);
  saved_model_fini(&v.saved);
  run_dir_fini(&v.dir);
  if (!status) *out = v.result;
  return status;
}

/* ---- as a task of a local cluster */

shoal_status evaluator_task(const evaluator_options *options, training *base, const run_sink *sink) {
  metrics log = {0};
  evaluator_result r;
  double start = clock_seconds();
  metrics_options recording = {.folder = base->dir.path,
                               .role = "evaluator",
                               .port = (int)(base->job.ps * (1 + base->job.replicas) + base->job.workers)};
  TRY(training_open_metrics(base, &recording, NULL, &log));
  shoal_status status = metrics_start_sampling(&log);
  evaluator_options own = *options;
  own.exporter = log.exporter;
  if (!status) status = evaluator_run(&own, &r);
  if (!status) {
    task_result result = {.task = task_report_begin("evaluator", 0, NULL)};
    metrics_stop_sampling(&log);
    sampler_read(log.sampler, &result.task.use);
    result.task.seconds = clock_seconds() - start;
    result.task.evaluations = r.count;
    result.task.evaluation_seconds = r.seconds;
    if (r.count) {
      result.task.last_loss = r.last.loss;
      result.task.last_accuracy = r.last.accuracy;
      result.task.last_rmse = r.last.rmse;
    }
    sink->on_result(sink->context, &result);
  }
  metrics_close(&log);
  return status;
}
