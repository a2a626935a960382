/* A whole training job, from its settings to its folder. */
#include "base/clock.h"
#include "base/json_read.h"
#include "base/mem.h"
#include "base/options.h"
#include "exchange/formats.h"
#include "observe/trace_file.h"
#include "run/cluster_member.h"
#include "run/data_notes.h"
#include "run/evaluator.h"
#include "run/local_cluster.h"
#include "run/rank_job.h"
#include "run/ranks.h"
#include "run/scale.h"
#include "run/summary.h"
#include "run/task.h"
#include "run/worker.h"
#include "shoal/observe.h"
#include "train/mirrored.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EVALUATOR_PATIENCE 60.0 /* seconds without a sign of life of the run */

typedef struct {
  run_state *state;
  cluster place; /* this task's, in a cluster that was described */
  bool described;
  ranks ranks;
  bool begun; /* there is a folder, in which a failure is noted */
} running;

/* ---- the folder */

/* The run's folder and, of a run that is resumed, its settings. Makes nothing yet. */
static shoal_status open_folder(run_state *s) {
  training *b = &s->base;
  char *name = b->job.run_dir ? strdup(b->job.run_dir) : shoal_run_dir_name(b->kind->name);
  if (!name) return status_no_memory();
  shoal_status status = run_dir_init(name, &b->dir);
  free(name);
  if (status || !run_dir_used(&b->dir)) return status;
  const bool goes_on = b->job.resume || getenv(RANKS_AGAIN);
  if (!goes_on && run_dir_busy(&b->dir)) return run_dir_refuse(&b->dir);
  if (!goes_on)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "%s already contains a run; add `resume` to continue it, or choose another "
                       "`run_dir`",
                       b->dir.path);
  if (access(b->dir.settings, F_OK)) return NULL; /* killed before it could write them: nothing to continue */
  TRY(run_dir_read_settings(b->dir.settings, &s->kept));
  const char *model = json_string_value(json_object_get(s->kept, "model"));
  if (strcmp(model, b->kind->name))
    return status_make(SHOAL_ERR_ARGUMENT, "%s contains a run of the model %s, not %s", b->dir.path, model,
                       b->kind->name);
  TRY(training_take_learned(b, s->kept, b->dir.settings));
  shoal_job kept = job_unset();
  TRY(settings_from_json(job_table, json_object_get(s->kept, "flags"), b->dir.settings, &kept));
  job_take_kept(&b->job, &kept);
  return NULL;
}

/* Bits that were lost before a run was resumed are not there again: its servers count since then only. */
static void keep_uneven(run_state *s) {
  if (s->report.fit.resumed_from <= 0) return;
  json_t *before = json_read_file(s->base.dir.summary, 0, NULL);
  const int64_t uneven = json_integer_value(json_object_get(before, "uneven_updates"));
  for (size_t i = 0; i < s->tasks.count; i++)
    if (s->tasks.tasks[i].updates >= 0) s->tasks.tasks[i].uneven_updates += uneven;
  json_decref(before);
}

static shoal_status write_summary(run_state *s) {
  shoal_run_report *r = &s->report;
  keep_uneven(s);
  r->total_seconds = clock_seconds() - s->started;
  run_state_complete(s);
  json_t *summary = summary_to_json(r);
  if (!summary) return status_no_memory();
  shoal_status status = json_write_atomically(summary, s->base.dir.summary);
  json_decref(summary);
  if (!status && s->traces) {
    status = trace_write(s->traces, s->base.dir.trace);
    r->trace = s->base.dir.trace;
  }
  return status;
}

/* ---- in this process */

static shoal_status work_alone(running *w, shoal_strategy *strategy, events *timeline) {
  run_state *s = w->state;
  training *b = &s->base;
  const run_sink sink = run_state_sink(s);
  TRY(run_dir_take(&b->dir));
  TRY(training_note_settings(b, b->train.classes));
  TRY(metrics_repair(b->dir.metrics));
  TRY(notes_say(b, &sink));
  w->begun = true;
  s->report.startup_seconds = clock_seconds() - s->started;
  return worker_run(&(worker_options){.base = b,
                                      .chief = true,
                                      .has_folder = true,
                                      .samples_host = true,
                                      .graph_device = "/job:worker/task:0",
                                      .rows = b->train.data ? b->rows : 0,
                                      .last = &s->last,
                                      .stop = s->options->stop,
                                      .strategy = strategy,
                                      .events = timeline,
                                      .link = &worker_alone,
                                      .link_context = (void *)&sink,
                                      .sink = &sink});
}

static shoal_status train_alone(running *w) {
  training *b = &w->state->base;
  shoal_strategy *strategy = NULL;
  events *timeline = NULL;
  TRY(training_load(b));
  training_fit_batch(b);
  TRY(training_compile(b, b->train.classes, b->rows));
  const mirrored_options mirrored = {.workers = (int)b->job.workers, .deterministic = b->job.deterministic};
  shoal_status status = NULL;
  if (job_is_mirrored(&b->job) || b->job.deterministic) status = mirrored_create(&mirrored, &strategy);
  if (!status) status = training_open_trace(b, shoal_model_threads(b->model), 1, &timeline);
  if (!status) status = work_alone(w, strategy, timeline);
  if (!status && !b->test.data && !b->test.files && !b->job.quiet)
    run_state_note(w->state, "no test rows: add `test_data`, or put them beside the others (see docs/data.md)");
  strategy_destroy(strategy);
  events_destroy(timeline);
  return status;
}

/* ---- an evaluator that was described: it follows the chief's folder, and leaves no run of its own */

static void note_evaluation(void *context, const char *file, const shoal_evaluation *e) {
  char line[512], figures[SHOAL_EVALUATION_TEXT];
  snprintf(line, sizeof line, "evaluator: %s: loss %.4f, %s", file, e->loss, shoal_evaluation_text(e, figures));
  run_state_note(context, line);
}

static shoal_status evaluate_along(run_state *s) {
  const shoal_job *f = &s->base.job;
  evaluator_result result;
  evaluator_options o = {.folder = f->run_dir,
                         .data = f->data,
                         .threads = f->threads,
                         .patience = f->deadline > 0 ? f->deadline : EVALUATOR_PATIENCE,
                         .stop = s->options->stop,
                         .context = s,
                         .on_tested = note_evaluation};
  TRY(metrics_serve((int)f->metrics_port, f->metrics_address, "evaluator/0", &o.exporter));
  shoal_status status = evaluator_run(&o, &result);
  exporter_destroy(o.exporter);
  TRY(status);
  shoal_task_report t = task_report_begin("evaluator", 0, NULL);
  t.evaluations = result.count;
  t.evaluation_seconds = result.seconds;
  if (result.count) {
    t.last_loss = result.last.loss;
    t.last_accuracy = result.last.accuracy;
    t.last_rmse = result.last.rmse;
  }
  return run_state_add_task(s, &t);
}

/* ---- the whole */

/* Names the settings that help. Takes `status`. */
static shoal_status advise(const run_state *s, shoal_status status) {
  const training *b = &s->base;
  shoal_status advised =
      status_make(SHOAL_ERR_NUMERIC, "%s: `lr` %.2g, `warmup` %lld", shoal_status_message(status),
                  fmin(b->job.lr / 10, b->kind->rate), (long long)MAX_OF(training_steps_an_epoch(b, b->rows), 100));
  shoal_status_free(status);
  return advised;
}

/* Whether the folder's summary says so. */
static bool summary_says(const run_state *s, const char *wanted) {
  json_t *summary = json_read_file(s->base.dir.summary, 0, NULL);
  const char *status = json_string_value(json_object_get(summary, "status"));
  const bool says = status && !strcmp(status, wanted);
  json_decref(summary);
  return says;
}

/* Whether the folder has the summary of a training that ended well: one that could not go on from there leaves it. */
static bool has_result(const run_state *s) { return summary_says(s, "finished") || summary_says(s, "stopped early"); }

/* After a failure the report says how far it came. */
static void note_failure(run_state *s, const char *message) {
  shoal_run_report *r = &s->report;
  const shoal_progress *last = &s->last;
  free(s->error);
  r->status = "failed";
  r->error = s->error = strdup(message);
  if (!r->trained)
    r->fit = (shoal_fit_result){.epochs = last->epoch,
                                .steps = last->step,
                                .updates = last->step,
                                .examples = last->examples,
                                .run_examples = last->examples,
                                .seconds = last->seconds,
                                .eval_seconds = NAN,
                                .checkpoint_seconds = NAN,
                                .input_wait_seconds = NAN,
                                .final_loss = last->loss,
                                .train_accuracy = last->accuracy,
                                .validation_accuracy = NAN,
                                .validation_loss = NAN,
                                .resumed_from = -1};
  if (!s->last.step && has_result(s)) return;
  shoal_status second = write_summary(s);
  shoal_status_free(second); /* the first error is the one to tell */
}

/* The settings, complete. */
static shoal_status settle(run_state *s, bool reports) {
  training *b = &s->base;
  if (getenv(RANKS_AGAIN) && !b->job.no_checkpoints) b->job.resume = true; /* of a rank that died */
  if (reports) TRY(open_folder(s));
  return job_resolve(&b->job, &b->asked, b->kind);
}

static shoal_status work(running *w) {
  run_state *s = w->state;
  const shoal_job *f = &s->base.job;
  w->begun = s->report.reports && (job_is_cluster(f) || job_is_ranks(f));
  if (w->ranks.joined) return ranks_run(s, &w->ranks);
  if (w->described) return cluster_member_run(s, &w->place);
  return job_is_cluster(f) ? local_cluster_run(s) : train_alone(w);
}

/* Says where to go on from. Takes `status`. */
static shoal_status advise_ranks(const training *b, shoal_status status) {
  text words = {0};
  text_add(&words, "%s", shoal_status_message(status));
  ranks_add_advice(b, &words);
  shoal_status advised = words.failed ? NULL : status_make(SHOAL_ERR_PEER, "%s", words.data);
  text_fini(&words);
  if (!advised) return status;
  shoal_status_free(status);
  return advised;
}

static void note_of_ranks(void *context, const char *line) { run_state_note(context, line); }

/* Ranks that this process starts itself. */
static shoal_status start_ranks(run_state *s) {
  int code;
  training *b = &s->base;
  const rank_job_options o = {.program = s->options->program,
                              .transport = b->job.transport,
                              .workers = b->job.workers,
                              .deadline = b->job.deadline,
                              .stop = s->options->stop,
                              .max_restarts = job_is_elastic(&b->job) ? b->job.max_restarts : 0,
                              .heartbeat = b->job.heartbeat,
                              .dir = &b->dir,
                              .context = s,
                              .note = note_of_ranks};
  int64_t stale;
  (void)scale_take(&b->dir, SCALE_WORKERS, &stale); /* of somebody who asked when nobody was there */
  s->report.reports = false;                        /* rank 0 says all */
  shoal_job asked = b->asked;
  asked.run_dir = b->dir.path; /* a name with the time in it would be another there */
  shoal_status status = rank_job_run(&asked, &o, &code);
  if (shoal_status_code(status) == SHOAL_ERR_PEER) status = advise_ranks(b, status);
  TRY(status);
  if (code > 128) code = 1; /* of a rank that was killed; another has told of it */
  if (!code && !run_state_asked(s) && summary_says(s, "interrupted")) {
    run_state_note(s, "Stopped: a rank received a signal.");
    code = 128 + SIGTERM;
  }
  const shoal_run_listener *l = &s->options->listener;
  if (l->on_ranks_end) l->on_ranks_end(l->context, code);
  return code ? status_make(SHOAL_ERR_REPORTED, "the ranks ended with exit status %d", code) : NULL;
}

static shoal_status train(running *w) {
  run_state *s = w->state;
  shoal_run_report *r = &s->report;
  training *b = &s->base;
  bool first;
  if (ranks_expected(&b->job, &first)) TRY(ranks_join(b, &w->ranks));
  TRY(cluster_member_find(b, &w->described, &w->place));
  if (w->described && w->place.role == SHOAL_EVALUATOR) return evaluate_along(s);
  if (w->described && !w->place.counts[SHOAL_PS]) { /* its workers are ranks */
    w->described = false;
    TRY(ranks_join_cluster(b, &w->place, &w->ranks));
  }
  /* Who has a folder and a result. */
  r->reports = w->ranks.joined ? w->ranks.place.rank == 0 : !w->described || cluster_worker(&w->place) == 0;
  if (w->described && !b->job.strategy) b->job.strategy = "ps";
  if (w->described && !r->reports) b->job.resume = false; /* the chief has the checkpoints */
  shoal_status settled = w->ranks.joined && !r->reports ? NULL : settle(s, r->reports);
  shoal_status agreed = w->ranks.joined ? ranks_agree(&w->ranks, b, settled) : settled;
  if (ranks_came_late(&w->ranks, agreed)) {
    shoal_status_free(agreed);
    return NULL;
  }
  TRY(agreed);
  r->run_dir = b->dir.path;
  if (job_is_ranks(&b->job) && !w->ranks.joined) return start_ranks(s);
  shoal_status status = work(w);
  if (!status) status = run_dir_check(&b->dir);
  if (!status && s->lost) {
    status = s->lost;
    s->lost = NULL;
  }
  if (status && run_state_asked(s) && shoal_status_code(status) == SHOAL_ERR_CANCELLED) return status;
  if (shoal_status_code(status) == SHOAL_ERR_NUMERIC) status = advise(s, status);
  if (status) {
    if (w->begun && run_dir_taken(&b->dir)) note_failure(s, shoal_status_message(status)); /* not in another's folder */
    return status;
  }
  r->status = r->fit.stopped ? "interrupted" : r->fit.stopped_early ? "stopped early" : "finished";
  if (!r->reports) {
    run_state_complete(s);
    return NULL;
  }
  return write_summary(s);
}

bool shoal_run_speaks(const shoal_job *job) {
  bool first;
  return !job->job_file && !(ranks_expected(job, &first) && (!first || ranks_are_ours()));
}

static bool same_key(const model_file *a, const model_file *b, const char *key) {
  const json_t *x = json_object_get(a->file, key), *y = json_object_get(b->file, key);
  return x && y ? json_equal(x, y) : x == y;
}

/* A run goes on with the model that it began with: its folder has it. */
static shoal_status check_same(const model_file *kept, const model_file *given, const char *path) {
  static const char *const keys[] = {"inputs", "blocks", "layers", "outputs", "loss"};
  for (size_t i = 0; i < COUNT_OF(keys); i++)
    if (!same_key(kept, given, keys[i]))
      return status_make(SHOAL_ERR_ARGUMENT, "%s: its %s are not those that the run began with; 'train %s' takes those",
                         path, keys[i], kept->name);
  return NULL;
}

/* The job's model; of a run that is resumed, as its folder has it. */
static shoal_status find_model(const shoal_job *job, training *t) {
  char *path = NULL;
  if (!job->resume || !job->run_dir) return job_find_kind(job->model, &t->notes, &t->kind, &t->file);
  if (asprintf(&path, "%s/" RUN_MODEL, job->run_dir) < 0) return status_no_memory();
  const bool kept = access(path, F_OK) == 0;
  shoal_status status = kept ? model_file_load(path, &t->file) : job_find_kind(job->model, NULL, &t->kind, &t->file);
  free(path);
  if (status || !kept) return status;
  t->kind = &t->file->kind;
  if (import_is_path(job->model)) {
    const shoal_model_kind *kind;
    model_file *given;
    TRY(job_find_kind(job->model, NULL, &kind, &given));
    status = check_same(t->file, given, job->model);
    model_file_destroy(given);
  } else if (strcmp(job->model, t->kind->name)) {
    status = status_make(SHOAL_ERR_ARGUMENT, "%s contains a run of the model %s, not %s", job->run_dir, t->kind->name,
                         job->model);
  }
  return status;
}

/* What the model's file has that is left out, a line each. */
static void say_notes(run_state *s) {
  char *rest = s->base.notes.data, *line;
  while (!s->base.job.quiet && rest && (line = strsep(&rest, "\n")))
    if (*line) run_state_note(s, line);
}

static shoal_status run_job(running *w, const shoal_job *said, const shoal_run_options *options) {
  run_state *s = w->state;
  training *b = &s->base;
  shoal_job job;
  TRY(job_take(said, &job));
  if (job.job_file) return task_run(&job, options->stop, s, note_evaluation);
  if (!job.model && !options->kind) return status_make(SHOAL_ERR_ARGUMENT, "which `model`?");
  if (options->kind)
    b->kind = options->kind;
  else
    TRY(find_model(&job, b));
  if (!job.weights && job.model && import_has_weights(job.model)) job.weights = job.model;
  b->asked = b->job = job;
  b->asked.model = job.model ? job.model : b->kind->name; /* a file as it was said: ranks read it, too */
  b->job.model = b->kind->name;
  say_notes(s);
  return train(w);
}

/* A rank that fails takes all others with it, and with them this process: the listener has the last word. Takes
 * `status`. */
static shoal_status leave_ranks(running *w, shoal_status status) {
  const shoal_run_listener *l = &w->state->options->listener;
  if (!w->ranks.joined && !w->ranks.watch) return status;
  if (status && ranks_are_told(&w->ranks)) {
    shoal_status_free(status);
    status = status_make(SHOAL_ERR_REPORTED, "another rank has failed; its message says why");
  }
  const bool tells = status && shoal_status_code(status) != SHOAL_ERR_REPORTED;
  if (tells) rank_watch_reach(w->ranks.watch, RANK_TOLD);
  int code = status && !w->ranks.parted && w->ranks.joined ? 1 : 0;
  if (code && l->on_abort && tells && !w->ranks.described) code = l->on_abort(l->context, status);
  ranks_leave(&w->ranks, code);
  return status;
}

/* By the process that the user has started, once all of the run's files are there. */
static shoal_status write_report(run_state *s, const shoal_job *job) {
  const char *folder = s->report.run_dir;
  shoal_report_result page;
  text line = {0};
  if (!job->report || !folder || !(s->report.reports || job_is_ranks(&s->base.job))) return NULL;
  TRY(status_wrap(
      shoal_report_write(&(shoal_report_options){.folders = &folder, .n_folders = 1, .path = job->report}, &page),
      "the run is in %s, but not its report", folder));
  text_add(&line, "Its report is %s (%.1f MB): open it in a browser.", job->report, (double)page.bytes / 1e6);
  if (!line.failed) run_state_note(s, line.data);
  text_fini(&line);
  return NULL;
}

shoal_status shoal_run(const shoal_job *job, const shoal_run_options *options, shoal_run_report **out) {
  shoal_run_options own;
  *out = NULL;
  TRY(OPTIONS_TAKE(&own, options));
  run_state *s = calloc(1, sizeof *s);
  if (!s) return status_no_memory();
  running w = {.state = s};
  s->options = &own;
  s->started = clock_seconds();
  s->last = (shoal_progress){.loss = NAN, .accuracy = NAN, .rate = NAN};
  s->report.started = time(NULL);
  s->report.final_rate = NAN;
  s->report.test = evaluation_none();
  const bool speaks = shoal_run_speaks(job);
  shoal_status status = run_job(&w, job, s->options);
  cluster_fini(&w.place);
  status = leave_ranks(&w, status);
  if (!status && speaks) status = write_report(s, job);
  s->options = NULL;
  *out = &s->report;
  return status;
}
