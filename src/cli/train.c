/* shoal train: builds the model, trains it, and leaves a folder with the result. */
#include "base/clock.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/metrics.h"
#include "cli/progress.h"
#include "cli/run_dir.h"
#include "cli/summary.h"
#include "cli/table.h"
#include "data/pipeline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
  job_flags flags;
  flags_parsed parsed;
  const shoal_model_kind *kind;
  json_t *kept; /* settings of the run that is resumed; texts in `flags` may point into it */
  run_dir dir;
  int64_t stream_rows;  /* of an epoch, when counted */
  job_rows train, test; /* test.data NULL: there are none */
  shoal_model *model;
  interrupt *signals;
  progress screen;
  metrics log;
  resource_meter meter;
  shoal_progress last; /* what the callbacks saw last */
  job_pieces pieces;
  text shape; /* the flags that decide what is learned, as lines */
  run_report report;
  double started;
} train_run;

static bool on_step(void *context, const shoal_progress *p) {
  train_run *t = context;
  t->last = *p;
  resource_meter_sample(&t->meter);
  progress_step(&t->screen, p);
  if (!metrics_add(&t->log, "step", p)) progress_note(&t->screen, "warning: metrics.jsonl cannot be written any more");
  return false;
}

static bool on_epoch(void *context, const shoal_progress *p) {
  train_run *t = context;
  t->last = *p;
  resource_meter_sample(&t->meter);
  progress_epoch(&t->screen, p);
  if (!metrics_add(&t->log, "epoch", p)) progress_note(&t->screen, "warning: metrics.jsonl cannot be written any more");
  return false;
}

static void on_note(void *context, const char *line) {
  train_run *t = context;
  progress_note(&t->screen, line);
}

/* The run's folder and, of a run that is resumed, its settings. Makes nothing yet. */
static shoal_status open_folder(train_run *t) {
  char *name = t->flags.run_dir ? strdup(t->flags.run_dir) : run_dir_name(t->kind->name);
  if (!name) return status_no_memory();
  shoal_status status = run_dir_init(name, &t->dir);
  free(name);
  if (status || !run_dir_used(&t->dir)) return status;
  if (!t->flags.resume)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "%s holds a run already; add --resume to continue it, or name another --run-dir", t->dir.path);
  if (access(t->dir.settings, F_OK)) return NULL; /* killed before it could write them: nothing to continue */
  TRY(run_dir_read_settings(t->dir.settings, &t->kept));
  const char *model = json_string_value(json_object_get(t->kept, "model"));
  if (strcmp(model, t->kind->name))
    return status_make(SHOAL_ERR_ARGUMENT, "%s holds a run of the model %s, not %s", t->dir.path, model, t->kind->name);
  return flags_from_json(job_table, json_object_get(t->kept, "flags"), t->dir.settings, &t->parsed, &t->flags);
}

static shoal_status load_data(train_run *t) {
  bool may_stream = t->flags.validation_split == 0;
  TRY(job_open_rows(&t->flags, t->kind, "train", may_stream, &t->train));
  if (!job_has_split(&t->flags, "test")) return NULL;
  TRY(job_open_rows(&t->flags, t->kind, "test", false, &t->test));
  int *classes = &t->train.classes; /* one side may lack the last ones */
  if (t->train.data && t->test.classes > *classes) *classes = t->test.classes;
  return NULL;
}

/* Rows trained on; 0: not known. */
static int64_t train_rows(const train_run *t) {
  return t->train.data ? shoal_dataset_rows(t->train.data) : t->stream_rows;
}

static int64_t steps_an_epoch(const train_run *t) {
  double rows = (double)train_rows(t) * (1 - t->flags.validation_split);
  int64_t steps = (int64_t)ceil(rows / (double)t->flags.batch_size);
  return steps > 0 ? steps : 1;
}

/* What the schedule takes when nothing is said depends on how long an epoch is. */
static shoal_status fill_schedule(train_run *t) {
  job_flags *f = &t->flags;
  bool cosine = !strcmp(f->schedule, "cosine");
  bool decays = !strcmp(f->schedule, "staircase") || !strcmp(f->schedule, "exponential");
  if ((decays || cosine) && !f->decay_every && !t->train.data)
    TRY(pipeline_count_rows(&t->train.stream, &t->stream_rows));
  if (decays && f->decay_factor == 0) f->decay_factor = 0.5;
  if (decays && !f->decay_every) f->decay_every = steps_an_epoch(t);
  if (cosine && !f->decay_every) {
    int64_t by_epochs = f->epochs * steps_an_epoch(t);
    f->decay_every = f->epochs && (!f->steps || by_epochs < f->steps) ? by_epochs : f->steps;
  }
  return NULL;
}

static shoal_status compile(train_run *t) {
  const job_flags *f = &t->flags;
  TRY(job_build(t->kind, f, t->train.classes, &t->model));
  if (f->pieces) TRY(job_read_pieces(f->pieces, &t->pieces));
  shoal_compile_options options = {
      .optimizer = {.name = f->optimizer, .momentum = f->momentum, .nesterov = f->nesterov},
      .schedule = {.name = f->schedule,
                   .rate = f->lr,
                   .factor = f->decay_factor,
                   .every = f->decay_every,
                   .final_rate = f->final_lr,
                   .boundaries = t->pieces.boundaries,
                   .rates = t->pieces.rates,
                   .pieces = t->pieces.count,
                   .warmup = f->warmup},
      .l2 = f->l2,
      .top_k = (int)f->top_k,
      .threads = (int)f->threads,
      .seed = (uint64_t)f->seed,
      .kernels = f->kernels,
      .no_fusion = f->no_fusion,
  };
  return shoal_model_compile(t->model, &options);
}

static shoal_status make_folder(train_run *t) {
  TRY(run_dir_make(&t->dir));
  unlink(t->dir.weights); /* of the run so far: no longer its end */
  json_t *flags = flags_to_json(job_table, &t->flags);
  if (!flags) return status_no_memory();
  shoal_status status = run_dir_write_settings(&t->dir, t->kind->name, t->train.classes, flags);
  json_decref(flags);
  TRY(status);
  return metrics_open(&t->log, t->dir.metrics);
}

static void announce(train_run *t) {
  if (t->flags.quiet) return;
  char rows[GROUPED_TEXT], parameters[GROUPED_TEXT];
  printf("%s: %s parameters, %s %s of %s, batch %lld, %d thread%s\n", t->kind->name,
         grouped_text(t->report.parameters, parameters), t->train.data ? grouped_text(train_rows(t), rows) : "streamed",
         t->train.data ? "training rows" : "rows", t->flags.data, (long long)t->flags.batch_size,
         t->report.threads, t->report.threads == 1 ? "" : "s");
  fflush(stdout);
}

static shoal_status fit(train_run *t) {
  const job_flags *f = &t->flags;
  flags_to_lines(job_table, f, &t->shape);
  if (t->shape.failed) return status_no_memory();
  shoal_fit_options options = {
      .epochs = f->epochs,
      .steps = f->steps,
      .batch_size = f->batch_size,
      .stream = t->train.data ? NULL : &t->train.stream,
      .validation_split = f->validation_split,
      .patience = (int)f->patience,
      .checkpoint_dir = f->no_checkpoints ? NULL : t->dir.checkpoints,
      .checkpoint_every = f->checkpoint_every,
      .keep = (int)f->keep,
      .keep_best = f->validation_split > 0,
      .resume = f->resume,
      .settings = t->shape.data,
      .stop = interrupt_flag(t->signals),
      .callbacks = {.context = t, .on_step = on_step, .on_epoch = on_epoch, .on_note = on_note},
  };
  t->report.startup_seconds = clock_seconds() - t->started;
  resource_meter_start(&t->meter);
  shoal_status status = shoal_model_fit(t->model, t->train.data, &options, &t->report.fit);
  resource_meter_sample(&t->meter);
  progress_clear(&t->screen);
  return status;
}

/* Names the flags that help. Takes `status`. */
static shoal_status advise(const train_run *t, shoal_status status) {
  shoal_status advised = status_make(SHOAL_ERR_NUMERIC, "%s: --lr %.2g, --warmup %lld", shoal_status_message(status),
                                     fmin(t->flags.lr / 10, t->kind->rate), (long long)steps_an_epoch(t));
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
  resource_meter_read(&t->meter, &r->use);
  json_t *summary = summary_json(r);
  if (!summary) return status_no_memory();
  shoal_status status = json_write_atomically(summary, t->dir.summary);
  json_decref(summary);
  return status;
}

static void say_where(const train_run *t) {
  if (t->flags.quiet) return;
  printf("\nThe run is in %s. To evaluate it:  shoal eval %s\n", t->dir.path, t->dir.path);
  if (t->report.fit.stopped && !t->flags.no_checkpoints)
    printf("To continue it:  shoal train %s --resume --run-dir %s\n", t->kind->name, t->dir.path);
  else if (!t->flags.no_checkpoints)
    printf("To train it longer:  shoal train %s --resume --run-dir %s --epochs %lld\n", t->kind->name, t->dir.path,
           2 * (long long)(t->report.fit.epochs > 0 ? t->report.fit.epochs : 1));
}

/* Everything after the flags are known. *signal: the signal that stopped it, or 0. */
static shoal_status train(train_run *t, int *signal) {
  TRY(open_folder(t));
  job_fill(&t->flags, &t->parsed, t->kind);
  TRY(job_check(&t->flags, &t->parsed));
  TRY(interrupt_create("Stopping after this step and saving a checkpoint; press Ctrl-C again to end at once.",
                       "Ended at once; the last checkpoint saved is whole.", &t->signals));
  TRY(load_data(t));
  TRY(fill_schedule(t));
  TRY(compile(t));
  run_report *r = &t->report;
  r->parameters = shoal_model_parameters(t->model);
  r->threads = shoal_model_threads(t->model);
  TRY(make_folder(t));
  progress_init(&t->screen, stdout, t->flags.batch_size, t->flags.quiet);
  announce(t);

  shoal_status status = fit(t);
  if (shoal_status_code(status) == SHOAL_ERR_NUMERIC) status = advise(t, status);
  if (status) {
    report_failure(t, shoal_status_message(status));
    shoal_status second = write_summary(t);
    shoal_status_free(second); /* the first error is the one to tell */
    return status;
  }
  r->status = r->fit.stopped ? "interrupted" : r->fit.stopped_early ? "stopped early" : "finished";
  *signal = r->fit.stopped ? __atomic_load_n(interrupt_flag(t->signals), __ATOMIC_ACQUIRE) : 0;
  if (t->test.data) TRY(shoal_model_evaluate(t->model, t->test.data, &r->test));
  if (!t->test.data && !t->flags.quiet)
    progress_note(&t->screen, "no test rows: add --test-data PATH, or put them beside the others (see docs/data.md)");
  shoal_status saved = shoal_model_save(t->model, t->dir.weights);
  shoal_status written = write_summary(t);
  summary_print(r, stdout);
  say_where(t);
  if (saved && written) shoal_status_free(written);
  return saved ? saved : written;
}

static void clean_up(train_run *t) {
  metrics_close(&t->log);
  shoal_model_destroy(t->model);
  job_close_rows(&t->train);
  job_close_rows(&t->test);
  interrupt_destroy(t->signals);
  run_dir_fini(&t->dir);
  text_fini(&t->shape);
  json_decref(t->kept);
}

static int run_train(int argc, char **argv) {
  train_run t = {.flags = {.lr = NAN, .seed = 1}, .started = clock_seconds()};
  t.report = (run_report){.flags = &t.flags,
                          .started = time(NULL),
                          .final_rate = NAN,
                          .test = {.loss = NAN, .accuracy = NAN, .top_k = NAN, .seconds = NAN}};
  t.last = (shoal_progress){.loss = NAN, .accuracy = NAN, .rate = NAN};
  shoal_status status = flags_parse(job_table, argc, argv, &t.flags, &t.parsed);
  if (!status && t.parsed.help) {
    command_print_help(&command_train, stdout);
    return EXIT_GOOD;
  }
  if (!status && t.parsed.count == 0)
    status = status_make(SHOAL_ERR_ARGUMENT, "which model? For example: shoal train %s", model_name_at(0));
  if (!status && t.parsed.count > 1)
    status = status_make(SHOAL_ERR_ARGUMENT, "one model at a time, but got '%s' too", t.parsed.words[1]);
  if (!status) status = job_find_kind(t.parsed.words[0], &t.kind);
  t.report.kind = t.kind;
  int signal = 0;
  if (!status) status = train(&t, &signal);
  int exit_status = status ? command_fail(&command_train, status) : signal ? 128 + signal : EXIT_GOOD;
  clean_up(&t);
  return exit_status;
}

const command command_train = {
    .name = "train",
    .arguments = "MODEL",
    .summary = "train a model and leave its result in a folder",
    .details = "Trains until --epochs or --steps are reached, tests the result on the test rows and\n"
               "prints a table. The run's folder keeps summary.json, metrics.jsonl, settings.json,\n"
               "model.safetensors and checkpoints/. Ctrl-C saves a checkpoint and prints the table;\n"
               "a second Ctrl-C ends at once.\n"
               "\n"
               "Examples:\n"
               "  shoal train softmax --epochs 5\n"
               "  shoal train lenet --activation relu --pool max --optimizer momentum --lr 0.02\n"
               "  shoal train lenet --run-dir runs/first --resume\n",
    .flags = job_table,
    .word_at = model_name_at,
    .run = run_train,
};
