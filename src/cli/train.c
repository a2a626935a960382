/* shoal train: builds the model, trains it, and leaves a folder with the result. */
#include "base/clock.h"
#include "base/mem.h"
#include "cli/command.h"
#include "cli/curve.h"
#include "cli/data_notes.h"
#include "cli/described.h"
#include "cli/evaluator.h"
#include "cli/interrupt.h"
#include "cli/metrics.h"
#include "cli/progress.h"
#include "cli/ranks.h"
#include "cli/summary.h"
#include "cli/say.h"
#include "cli/table.h"
#include "cli/task.h"
#include "exec/session.h"
#include "observe/trace_file.h"
#include "train/evaluation.h"
#include "train/mirrored.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EVALUATOR_PATIENCE 60.0 /* seconds without a sign of life of the run */

typedef struct {
  training base;
  flags_parsed parsed;
  char **argv;
  cluster place; /* this task's, in a cluster that was described */
  ranks ranks;
  json_t *kept; /* settings of the run that is resumed; texts in the flags may point into it */
  interrupt *signals;
  shoal_strategy *strategy; /* mirrored; NULL: none */
  progress screen;
  metrics log;
  curve points; /* of the tests on the way */
  events *events; /* of the timeline, in a process alone; NULL: none */
  shoal_progress last; /* what the callbacks saw last */
  run_report report;
  double started;
  bool begun; /* there is a folder, in which a failure is noted */
} train_run;

static void warn_unwritten(train_run *t, bool good) {
  if (!good) progress_note(&t->screen, METRICS_WARNING);
}

static bool on_step(void *context, const shoal_progress *p) {
  train_run *t = context;
  t->last = *p;
  progress_step(&t->screen, p);
  warn_unwritten(t, metrics_add(&t->log, "step", p, NULL));
  return false;
}

static bool on_epoch(void *context, const shoal_progress *p) {
  train_run *t = context;
  t->last = *p;
  progress_epoch(&t->screen, p);
  warn_unwritten(t, metrics_add(&t->log, "epoch", p, NULL));
  if (p->test.examples) warn_unwritten(t, metrics_test(&t->log, p->step, &p->test));
  return false;
}

static void on_inspect(void *context, const shoal_inspection *i) {
  train_run *t = context;
  warn_unwritten(t, metrics_inspect(&t->log, i));
}

static void on_eval(void *context, int64_t rows, const shoal_progress *p, const shoal_evaluation *e) {
  train_run *t = context;
  warn_unwritten(t, metrics_test(&t->log, p->step, e));
  progress_test(&t->screen, rows, p, e);
  shoal_status status = curve_add(&t->points, rows, p, e);
  if (status) progress_note(&t->screen, shoal_status_message(status));
  shoal_status_free(status);
}

static void on_note(void *context, const char *line) {
  train_run *t = context;
  progress_note(&t->screen, line);
}

/* The run's folder and, of a run that is resumed, its settings. Makes nothing yet. */
static shoal_status open_folder(train_run *t) {
  char *name = t->base.flags.run_dir ? strdup(t->base.flags.run_dir) : run_dir_name(t->base.kind->name);
  if (!name) return status_no_memory();
  shoal_status status = run_dir_init(name, &t->base.dir);
  free(name);
  if (status || !run_dir_used(&t->base.dir)) return status;
  if (!t->base.flags.resume)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "%s holds a run already; add --resume to continue it, or name another --run-dir",
                       t->base.dir.path);
  if (access(t->base.dir.settings, F_OK)) return NULL; /* killed before it could write them: nothing to continue */
  TRY(run_dir_read_settings(t->base.dir.settings, &t->kept));
  const char *model = json_string_value(json_object_get(t->kept, "model"));
  if (strcmp(model, t->base.kind->name))
    return status_make(SHOAL_ERR_ARGUMENT, "%s holds a run of the model %s, not %s", t->base.dir.path, model,
                       t->base.kind->name);
  TRY(training_take_learned(&t->base, t->kept, t->base.dir.settings));
  return flags_from_json(job_table, json_object_get(t->kept, "flags"), t->base.dir.settings, &t->parsed,
                         &t->base.flags);
}

static shoal_status make_folder(train_run *t) {
  TRY(run_dir_make(&t->base.dir));
  TRY(training_note_settings(&t->base, t->base.train.classes));
  TRY(metrics_repair(t->base.dir.metrics));
  return training_open_metrics(&t->base, &(metrics_options){.folder = t->base.dir.path, .role = "worker", .host = true},
                               &(graph_export_options){.device = "/job:worker/task:0"}, &t->log);
}

static void announce(train_run *t) {
  if (t->base.flags.quiet) return;
  char rows[COUNTED_TEXT], parameters[COUNTED_TEXT], batch[GROUPED_TEXT], threads[COUNTED_TEXT];
  const training *b = &t->base;
  say(stdout, "%s: %s, %s of %s, batch %s, %s\n", b->kind->name,
      counted_text(t->report.parameters, "parameter", parameters),
      b->train.data ? counted_text(b->rows, "training row", rows) : "streamed rows", b->flags.data,
      grouped_text(b->flags.batch_size, batch), counted_text(t->report.threads, "thread", threads));
  fflush(stdout);
}

static shoal_status fit(train_run *t) {
  shoal_fit_options options;
  TRY(training_options(&t->base, &options));
  options.strategy = t->strategy;
  options.test = t->base.test.data;
  options.stop = interrupt_flag(t->signals);
  options.callbacks.context = t;
  options.callbacks.on_step = on_step;
  options.callbacks.on_epoch = on_epoch;
  options.callbacks.on_note = on_note;
  options.callbacks.on_inspect = on_inspect;
  if (options.eval_every) {
    options.callbacks.on_eval = on_eval;
    TRY(curve_open(&t->points, t->base.dir.path));
  }
  t->report.startup_seconds = clock_seconds() - t->started;
  TRY(training_open_trace(&t->base, t->report.threads, 1, &t->events));
  if (t->events) TRY(session_trace(shoal_model_session(t->base.model), t->events, 0));
  TRY(metrics_start_sampling(&t->log));
  shoal_status status = shoal_model_fit(t->base.model, t->base.train.data, &options, &t->report.fit);
  metrics_stop_sampling(&t->log);
  if (t->events) {
    t->events->on = false;
    summary_add_trace(&t->report, trace_part(t->events, "worker/0", NULL, 0, SIZE_MAX));
  }
  progress_clear(&t->screen);
  return status;
}

/* Names the flags that help. Takes `status`. */
static shoal_status advise(const train_run *t, shoal_status status) {
  int64_t rows = t->base.rows;
  shoal_status advised = status_make(SHOAL_ERR_NUMERIC, "%s: --lr %.2g, --warmup %lld", shoal_status_message(status),
                                     fmin(t->base.flags.lr / 10, t->base.kind->rate),
                                     (long long)MAX_OF(training_steps_an_epoch(&t->base, rows), 100));
  shoal_status_free(status);
  return advised;
}

/* After a failure the report says how far it came. */
static void report_failure(train_run *t, const char *message) {
  run_report *r = &t->report;
  r->status = "failed";
  r->error = message;
  r->fit = (shoal_fit_result){.epochs = t->last.epoch,
                              .steps = t->last.step,
                              .updates = t->last.step,
                              .examples = t->last.examples,
                              .run_examples = t->last.examples,
                              .seconds = t->last.seconds,
                              .eval_seconds = NAN,
                              .checkpoint_seconds = NAN,
                              .input_wait_seconds = NAN,
                              .final_loss = t->last.loss,
                              .train_accuracy = t->last.accuracy,
                              .validation_accuracy = NAN,
                              .validation_loss = NAN,
                              .resumed_from = -1};
}

static shoal_status write_summary(train_run *t) {
  run_report *r = &t->report;
  r->final_rate = t->last.rate;
  r->total_seconds = clock_seconds() - t->started;
  r->class_names = t->base.class_names;
  sampler_read(t->log.sampler, &r->use);
  json_t *summary = summary_json(r);
  if (!summary) return status_no_memory();
  shoal_status status = json_write_atomically(summary, t->base.dir.summary);
  json_decref(summary);
  if (!status && r->traces) status = trace_write(r->traces, t->base.dir.trace);
  return status;
}

static void say_where(const train_run *t) {
  if (t->base.flags.quiet) return;
  const char *path = t->base.dir.path, *model = t->base.kind->name;
  if (t->report.traces) {
    say(stdout, "\nThe timeline is in %s.\n", t->base.dir.trace);
    say_command(stdout, "To see where the time went:", "%s trace %s", called(), path);
  }
  say(stdout, "\nThe run is in %s.\n", path);
  say_command(stdout, "To evaluate it:", "%s eval %s", called(), path);
  say_command(stdout, "To see it:", "%s report %s", called(), path);
  if (t->report.fit.stopped && !t->base.flags.no_checkpoints)
    say_command(stdout, "To continue it:", "%s train %s --resume --run-dir %s", called(), model, path);
  else if (!t->base.flags.no_checkpoints)
    say_command(stdout, "To train it longer:", "%s train %s --resume --run-dir %s --epochs %lld", called(), model, path,
                2 * (long long)(t->report.fit.epochs > 0 ? t->report.fit.epochs : 1));
}

/* Trains in this process and tests the result. */
static shoal_status train_alone(train_run *t) {
  TRY(training_load(&t->base));
  TRY(training_compile(&t->base, t->base.train.classes, t->base.rows));
  t->report.parameters = shoal_model_parameters(t->base.model);
  t->report.threads = shoal_model_threads(t->base.model);
  const job_flags *f = &t->base.flags;
  const mirrored_options mirrored = {.workers = (int)f->workers, .deterministic = f->deterministic};
  if (job_is_mirrored(f) || f->deterministic) TRY(mirrored_create(&mirrored, &t->strategy));
  TRY(make_folder(t));
  announce(t);
  TRY(notes_say(&t->base, &t->screen));
  t->begun = true;
  TRY(fit(t));
  const bool tested = t->last.test.examples && t->last.step == t->report.fit.updates && !t->report.fit.restored;
  if (tested) t->report.test = t->last.test; /* of these weights, after the last epoch */
  if (t->base.test.data || t->base.test.files) {
    TRY(training_test(&t->base, tested, &t->report.test, &t->report.confusion));
    if (!tested) warn_unwritten(t, metrics_test(&t->log, t->report.fit.updates, &t->report.test));
    return NULL;
  }
  if (!t->base.flags.quiet)
    progress_note(&t->screen, "no test rows: add --test-data PATH, or put them beside the others (see docs/data.md)");
  return NULL;
}

/* The same with others: with local processes, or as a task of a cluster that was described. */
static shoal_status train_together(train_run *t, bool described) {
  crew c = {.base = &t->base,
            .stop = interrupt_flag(t->signals),
            .screen = &t->screen,
            .report = &t->report,
            .last = &t->last,
            .started = t->started};
  return t->ranks.joined ? ranks_run(&c, &t->ranks) : described ? described_run(&c, &t->place) : crew_run(&c);
}

/* The settings, complete. */
static shoal_status settle(train_run *t, bool reports) {
  if (reports) TRY(open_folder(t));
  job_fill(&t->base.flags, &t->parsed, t->base.kind);
  return job_check(&t->base.flags, &t->parsed, t->base.kind);
}

/* A described cluster's evaluator: it follows the chief's folder, and leaves no run of its own. */
static shoal_status evaluate_along(train_run *t) {
  const job_flags *f = &t->base.flags;
  evaluator_result result;
  TRY(interrupt_create("Stopping after this evaluation.", "Ended at once.", &t->signals));
  evaluator_options o = {.folder = f->run_dir,
                         .data = f->data,
                         .threads = f->threads,
                         .patience = f->deadline > 0 ? f->deadline : EVALUATOR_PATIENCE,
                         .stop = interrupt_flag(t->signals)};
  TRY(evaluator_run(&o, &result));
  char count[COUNTED_TEXT], last[EVALUATION_TEXT];
  printf("evaluator/0: %s tested", counted_text(result.count, "checkpoint", count));
  if (result.count) printf(", last %s", evaluation_text(&result.last, last));
  putchar('\n');
  return NULL;
}

static shoal_status listen(train_run *t, bool speaks) {
  return interrupt_create(
      speaks ? "Stopping after this step, with a checkpoint; Ctrl-C again ends it at once." : NULL,
      speaks ? "Ended at once; the last checkpoint saved is whole." : NULL, &t->signals);
}

/* Everything after the flags are known. *exit_status: set if a signal stopped it. */
static shoal_status train(train_run *t, int *exit_status) {
  bool described, first;
  if (ranks_expected(&t->base.flags, &first)) {
    TRY(listen(t, first && !ranks_are_ours()));
    TRY(ranks_join(&t->base, &t->parsed, &t->ranks));
  }
  TRY(described_find(&t->base, &t->parsed, &described, &t->place));
  if (described && t->place.role == SHOAL_EVALUATOR) return evaluate_along(t);
  /* Who has a folder and a result. */
  bool reports = t->ranks.joined ? t->ranks.place.rank == 0 : !described || cluster_worker(&t->place) == 0;
  if (described && !t->base.flags.strategy) t->base.flags.strategy = "ps";
  shoal_status settled = t->ranks.joined && !reports ? NULL : settle(t, reports);
  TRY(t->ranks.joined ? ranks_agree(&t->ranks, &t->base, settled) : settled);
  const bool others = job_is_cluster(&t->base.flags) || job_is_ranks(&t->base.flags);
  if (!t->signals) TRY(listen(t, true));
  if (job_is_ranks(&t->base.flags) && !t->ranks.joined)
    return ranks_launch(&t->base, t->argv, interrupt_flag(t->signals), exit_status);
  progress_init(&t->screen, stdout, job_global_batch(&t->base.flags), t->base.flags.quiet || !reports);
  run_report *r = &t->report;
  t->begun = reports && others;
  shoal_status status = others ? train_together(t, described) : train_alone(t);
  int asked = __atomic_load_n(interrupt_flag(t->signals), __ATOMIC_ACQUIRE);
  if (asked && shoal_status_code(status) == SHOAL_ERR_CANCELLED) {
    progress_note(&t->screen, shoal_status_message(status));
    shoal_status_free(status);
    *exit_status = 128 + asked;
    return NULL;
  }
  if (shoal_status_code(status) == SHOAL_ERR_NUMERIC) status = advise(t, status);
  if (status) {
    if (!t->begun) return status;
    report_failure(t, shoal_status_message(status));
    shoal_status second = write_summary(t);
    shoal_status_free(second); /* the first error is the one to tell */
    return status;
  }
  if (!reports) return NULL;
  r->status = r->fit.stopped ? "interrupted" : r->fit.stopped_early ? "stopped early" : "finished";
  /* Of ranks that were started here, who started them knows why they stopped. */
  if (r->fit.stopped && asked && !ranks_are_ours()) *exit_status = 128 + asked;
  /* In a cluster worker 0 has saved it. */
  shoal_status saved = others ? NULL : shoal_model_save(t->base.model, t->base.dir.weights);
  shoal_status written = write_summary(t);
  summary_print(r, stdout);
  say_where(t);
  if (saved && written) shoal_status_free(written);
  return saved ? saved : written;
}

static void clean_up(train_run *t) {
  strategy_destroy(t->strategy);
  metrics_close(&t->log);
  curve_close(&t->points);
  interrupt_destroy(t->signals);
  training_fini(&t->base);
  json_decref(t->kept);
  json_decref(t->report.tasks);
  json_decref(t->report.membership);
  json_decref(t->report.traces);
  json_decref(t->report.confusion);
  events_destroy(t->events);
  cluster_fini(&t->place);
}

static int run_train(int argc, char **argv) {
  train_run t = {.base.flags = JOB_FLAGS_NONE_GIVEN, .argv = argv, .started = clock_seconds()};
  t.report = (run_report){.flags = &t.base.flags,
                          .started = time(NULL),
                          .final_rate = NAN,
                          .test = evaluation_none()};
  t.last = (shoal_progress){.loss = NAN, .accuracy = NAN, .rate = NAN};
  shoal_status status = flags_parse(job_table, argc, argv, &t.base.flags, &t.parsed);
  if (!status && t.parsed.help) {
    command_print_help(&command_train, stdout);
    return EXIT_GOOD;
  }
  if (!status && t.base.flags.job) {
    status = task_run(t.base.flags.task ? t.base.flags.task : "", t.base.flags.job, t.base.flags.resume);
    return status ? command_fail(&command_train, status) : EXIT_GOOD;
  }
  if (!status && t.parsed.count == 0)
    status = status_make(SHOAL_ERR_ARGUMENT, "which model? For example: %s train %s", called(), model_name_at(0));
  if (!status && t.parsed.count > 1)
    status = status_make(SHOAL_ERR_ARGUMENT, "one model at a time, but got '%s' too", t.parsed.words[1]);
  if (!status) status = job_find_kind(t.parsed.words[0], &t.base.kind);
  t.report.kind = t.base.kind;
  int exit_status = EXIT_GOOD;
  if (!status) status = train(&t, &exit_status);
  const bool failed = status != NULL;
  /* mpirun passes on whichever exit status comes first: rank 0's is to be the only one. */
  if (failed) exit_status = t.ranks.parted ? EXIT_GOOD : EXIT_JOB_FAILED;
  if (failed && !ranks_are_told(&t.ranks))
    exit_status = command_fail(&command_train, status);
  else
    shoal_status_free(status);
  clean_up(&t);
  ranks_leave(&t.ranks, failed ? exit_status : 0);
  return exit_status;
}

const command command_train = {
    .name = "train",
    .arguments = "MODEL",
    .summary = "train a model and leave its result in a folder",
    .details = "Trains until --epochs or --steps are reached, tests the result on the test\n"
               "rows and prints a table. The run's folder keeps summary.json, metrics.jsonl,\n"
               "settings.json, model.safetensors and checkpoints/. Ctrl-C saves a checkpoint\n"
               "and prints the table; a second Ctrl-C ends at once.\n"
               "\n"
               "Examples:\n"
               "  shoal train softmax --epochs 5\n"
               "  shoal train lenet --activation relu --pool max --optimizer momentum --lr 0.02\n"
               "  shoal train lenet --run-dir runs/first --resume\n"
               "  shoal train softmax --workers 3 --ps 1 --mode async --staleness 4\n"
               "\n"
               "With --workers or --ps it starts a cluster of local processes, whose logs are\n"
               "in the folder logs. With TF_CONFIG or --cluster it is one task of a cluster.\n",
    .flags = job_table,
    .word_at = model_name_at,
    .run = run_train,
};
