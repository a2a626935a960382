#include "run/training.h"

#include "base/json_read.h"
#include "base/json_text.h"
#include "base/mem.h"
#include "data/class_names.h"
#include "data/pipeline.h"
#include "data/preprocessing.h"
#include "data/statistics.h"
#include "exchange/formats.h"
#include "exec/session.h"
#include "kernel/fma.h"
#include "run/class_weights.h"
#include "train/model.h"
#include "train/split.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#define SMALL_DATA_UPDATES 16 /* an epoch, of few rows and the model's own batch */
#define WARM_UP_SHARE 20      /* --scale-lr: one step of so many, when --warmup is not given */
#define TRACE_SKIPPED 10      /* steps: the first ones warm up */
#define TRACE_SPANS (1 << 16) /* kept of each thread */

/* The model takes rows as the training data has them. */
static shoal_status note_input(training *t) {
  const shoal_shape *in = &t->train.input, *own = &t->kind->input;
  if (t->job.input || t->kind->sparse || shoal_shape_equal(in, own)) return NULL;
  text words = {0};
  for (int i = 0; i < in->rank; i++) text_add(&words, "%s%lld", i ? "x" : "", (long long)in->dim[i]);
  t->job.input = t->input = words.data;
  return words.failed ? status_no_memory() : NULL;
}

/* The same preprocessing, but with statistics of the rows that are not held out; *out NULL: it has none. */
static shoal_status narrow_statistics(const training *t, char **out) {
  const shoal_dataset *d = t->train.data;
  preprocessing learned;
  int64_t kept;
  *out = NULL;
  TRY(preprocessing_parse(t->train.preprocessing, &learned));
  int32_t *rows = calloc((size_t)shoal_dataset_rows(d), sizeof *rows);
  shoal_status status = rows ? NULL : status_no_memory();
  if (!status && learned.features.step && d->features.dtype == SHOAL_F32) {
    status = split_rows(d, d->classes, t->job.validation_split, (uint64_t)t->job.seed, rows, &kept);
    if (!status) status = statistics_narrow(&learned.features, d->features.data, rows, kept);
    if (!status) status = preprocessing_write(&learned, out);
  }
  free(rows);
  preprocessing_fini(&learned);
  return status;
}

/* Statistics were learned from all rows: which of them are held out is known once they are there. They are read once
 * more, as every worker and later run reads them. */
static shoal_status forget_held_out(training *t, job_rows_options *options) {
  char *learned;
  if (t->preprocessing || !t->train.preprocessing || t->job.validation_split == 0 || !t->train.data) return NULL;
  TRY(narrow_statistics(t, &learned));
  if (!learned) return NULL;
  const char *const *names = NULL;
  shoal_status status = class_names_copy(t->train.class_names, &names);
  options->known = (job_learned){names, learned};
  job_close_rows(&t->train);
  if (!status) status = job_open_rows(&t->job, t->kind, options, &t->train);
  free((void *)names);
  free(learned);
  return status;
}

shoal_status training_load(training *t) {
  const shoal_job *f = &t->job;
  job_rows_options rows = {.split = "train",
                           .known = {t->class_names, t->preprocessing},
                           .follows = true,
                           .may_stream = f->validation_split == 0 && !(f->deterministic && job_is_cluster(f))};
  TRY(job_open_rows(f, t->kind, &rows, &t->train));
  TRY(forget_held_out(t, &rows));
  TRY(note_input(t));
  if (!t->class_names) TRY(class_names_copy(t->train.class_names, &t->class_names));
  if (!t->preprocessing && t->train.preprocessing && !(t->preprocessing = strdup(t->train.preprocessing)))
    return status_no_memory();
  t->rows = t->train.data ? shoal_dataset_rows(t->train.data) : 0;
  rows = (job_rows_options){.split = "validation", .known = {t->class_names, t->preprocessing}};
  if (f->validation_data) TRY(job_open_rows(f, t->kind, &rows, &t->validation));
  rows = (job_rows_options){.split = "test", .known = {t->class_names, t->preprocessing}};
  if (job_has_split(f, "test")) TRY(job_open_rows(f, t->kind, &rows, &t->test));
  if (t->kind->sparse && !t->job.features && !f->growing_ids)
    TRY(job_find_features(t->kind, &t->train, &t->test, &t->job.features));
  if (!t->test.files && !t->test.data) return NULL;
  int *classes = &t->train.classes; /* one side may lack the last ones */
  if (t->train.data && t->test.classes > *classes) *classes = t->test.classes;
  return NULL;
}

void training_fit_batch(training *t) {
  shoal_job *f = &t->job;
  const int64_t rows = (int64_t)((double)t->rows * (1 - f->validation_split));
  const bool said = job_said(&t->asked, "batch-size") || job_said(&t->asked, "global-batch");
  if (said || f->resume || !rows || f->accumulate > 1 || f->batch_size <= rows / 2) return;
  f->batch_size = MAX_OF(rows / SMALL_DATA_UPDATES, 1);
  if (f->global_batch) f->global_batch = f->batch_size * f->workers;
}

int64_t training_steps_an_epoch(const training *t, int64_t rows) {
  double used = (double)rows * (1 - t->job.validation_split);
  int64_t steps = (int64_t)ceil(used / (double)job_global_batch(&t->job));
  return steps > 0 ? steps : 1;
}

/* What the schedule takes when nothing is said depends on how long an epoch is. */
shoal_status training_fill_schedule(training *t, int64_t rows) {
  shoal_job *f = &t->job;
  bool cosine = !strcmp(f->schedule, "cosine");
  bool decays = !strcmp(f->schedule, "staircase") || !strcmp(f->schedule, "exponential");
  bool warms = f->scale_lr && f->workers > 1 && !f->warmup;
  if (((decays || cosine) && !f->decay_every && !rows) || (warms && !f->steps && !rows)) {
    TRY(pipeline_count_rows(&t->train.stream, &t->rows));
    rows = t->rows;
  }
  int64_t by_epochs = f->epochs && rows ? f->epochs * training_steps_an_epoch(t, rows) : 0;
  int64_t whole = by_epochs && (!f->steps || by_epochs < f->steps) ? by_epochs : f->steps; /* steps of the run */
  if (warms) f->warmup = MAX_OF(whole / WARM_UP_SHARE, 1);
  if (decays && f->decay_factor == 0) f->decay_factor = t->kind->decay_factor > 0 ? t->kind->decay_factor : 0.5;
  if (decays && !f->decay_every) f->decay_every = training_steps_an_epoch(t, rows);
  if (cosine && !f->decay_every) f->decay_every = MAX_OF(whole - (warms ? f->warmup : 0), 1);
  return NULL;
}

/* Once the layers are there. */
static shoal_status compile(training *t, const double *class_weights, int classes) {
  const shoal_job *f = &t->job;
  double scale = job_rate_scale(f);
  if (f->pieces) TRY(job_read_pieces(f->pieces, &t->pieces));
  for (int i = 0; i < t->pieces.count; i++) t->pieces.rates[i] *= scale;
  shoal_compile_options options = {
      .optimizer = job_optimizer(f),
      .schedule = {.name = f->schedule,
                   .rate = f->lr * scale,
                   .factor = f->decay_factor,
                   .every = f->decay_every,
                   .final_rate = f->final_lr * scale,
                   .boundaries = t->pieces.boundaries,
                   .rates = t->pieces.rates,
                   .pieces = t->pieces.count,
                   .warmup = f->warmup},
      .l2 = f->l2,
      .bias_rate = f->bias_rate,
      .top_k = (int)f->top_k,
      .threads = (int)f->threads,
      .seed = (uint64_t)f->seed,
      .kernels = f->kernels,
      .no_fusion = f->no_fusion,
      .loss = f->loss,
      .label_smoothing = f->label_smoothing,
      .class_weights = class_weights,
      .class_weight_count = classes,
      .growing_ids = f->growing_ids && !job_is_cluster(f),
      .ids_memory = f->ids_memory << 20,
      .ids_admit = f->admit,
      .ids_evict_after = f->evict_after,
      .race = t->kind->sparse && !job_is_cluster(f) && !job_is_sync(f),
  };
  return shoal_model_compile(t->model, &options);
}

/* What it begins with: class names and preprocessing are those of the rows. */
static shoal_status load_weights(const training *t) {
  const char *path = t->job.weights;
  if (import_has_weights(path)) return shoal_model_import_weights(t->model, path);
  char *file;
  json_t *settings;
  TRY(run_dir_resolve(path, &file, &settings));
  json_decref(settings);
  shoal_status status = weights_load(t->model, file);
  free(file);
  return status;
}

shoal_status training_compile(training *t, int classes, int64_t rows) {
  TRY(training_fill_schedule(t, rows));
  const shoal_job *f = &t->job;
  const int weighed = t->kind->sparse ? 2 : classes;
  double *weights = NULL;
  TRY(job_build(t->kind, f, classes, &t->model));
  if (job_has_table(f, t->kind) && f->growing_ids)
    model_grow_elsewhere(t->model);
  else if (job_has_table(f, t->kind))
    model_shrink_table(t->model, job_table_room(f));
  if (f->class_weight) TRY(class_weights_make(f->class_weight, t->train.data, weighed, &weights));
  shoal_status status = compile(t, weights, weighed);
  free(weights);
  TRY(status);
  if (f->weights && !f->resume) TRY(load_weights(t));
  TRY(shoal_model_set_class_names(t->model, t->class_names));
  return shoal_model_set_preprocessing(t->model, t->preprocessing);
}

shoal_status training_test(const training *t, bool tested, shoal_evaluation *out, shoal_confusion *counts) {
  shoal_confusion c = {0};
  const int classes = (int)shoal_model_classes(t->model);
  if (classes && classes <= CONFUSION_CLASSES) TRY(confusion_init(&c, classes));
  shoal_status status = NULL;
  if (!tested)
    status = job_evaluate(t->model, &t->test, &c, out);
  else if (c.counts && t->test.data)
    status = confusion_add_rows(&c, t->model, t->test.data);
  if (status)
    confusion_fini(&c);
  else
    *counts = c;
  return status;
}

shoal_status training_options(training *t, shoal_fit_options *out) {
  const shoal_job *f = &t->job;
  settings_to_lines(job_table, f, &t->shape);
  if (t->shape.failed) return status_no_memory();
  *out = (shoal_fit_options){
      .epochs = f->epochs,
      .steps = f->steps,
      .batch_size = f->batch_size,
      .global_batch = f->global_batch,
      .accumulate = f->accumulate,
      .stream = t->train.files && !t->train.data ? &t->train.stream : NULL,
      .test_stream = t->test.files && !t->test.data ? &t->test.stream : NULL,
      .eval_every = f->eval_every,
      .validation_split = f->validation_split,
      .validation = t->validation.data,
      .patience = (int)f->patience,
      .restore_best = f->patience > 0,
      .checkpoint_dir = f->no_checkpoints ? NULL : t->dir.checkpoints,
      .checkpoint_every = f->checkpoint_every,
      .keep = (int)f->keep,
      .keep_best = (f->validation_split > 0 || f->validation_data) && !f->no_checkpoints,
      .resume = f->resume,
      .settings = t->shape.data,
      .callbacks = {.every_steps = f->log_every, .inspect_every = f->histograms},
  };
  return NULL;
}

shoal_status training_open_metrics(training *t, const metrics_options *options, const graph_export_options *graph,
                                   metrics *out) {
  metrics_options o = *options;
  o.every = t->job.sample_every;
  o.resumed = t->job.resume;
  o.metrics_port = t->job.metrics_port ? (int)t->job.metrics_port + o.port : 0;
  o.metrics_address = t->job.metrics_address;
  o.sinks = t->job.sink;
  TRY(metrics_open(out, &o));
  if (!graph) return NULL;
  json_t *settings = settings_to_json(job_table, &t->job);
  if (!settings) return status_no_memory();
  text picture = {0};
  shoal_status status = svg_of_model(t->model, &picture);
  if (!status)
    status = metrics_describe(out, t->kind->name, shoal_model_graph(t->model), graph, picture.data, settings);
  text_fini(&picture);
  json_decref(settings);
  return status;
}

shoal_status training_open_trace(const training *t, int threads, int64_t times, events **out) {
  int64_t skipped = TRACE_SKIPPED, n = t->job.trace;
  *out = NULL;
  if (!n) return NULL;
  if (t->job.steps && t->job.steps < skipped + n) skipped = t->job.steps > n ? t->job.steps - n : 0;
  TRY(events_create(threads, TRACE_SPANS, out));
  (*out)->fma_gflops = fma_gflops(); /* 10 ms, before anything runs */
  (*out)->from = skipped * times;
  (*out)->until = (skipped + n) * times;
  return t->model ? session_trace(shoal_model_session(t->model), *out, 0) : NULL;
}

shoal_status training_note_learned(const training *t, json_t *into) {
  json_t *learned = t->preprocessing ? json_read_words(t->preprocessing, 0, NULL) : json_null();
  bool failed = json_object_set_new(into, "class_names", class_names_to_json(t->class_names)) ||
                json_object_set_new(into, "preprocessing", learned);
  return failed ? status_no_memory() : NULL;
}

shoal_status training_take_learned(training *t, const json_t *from, const char *where) {
  const json_t *learned = json_object_get(from, "preprocessing");
  TRY(status_wrap(class_names_from_json(json_object_get(from, "class_names"), &t->class_names), "%s", where));
  if (!json_is_object(learned)) return NULL;
  t->preprocessing = json_words(learned, JSON_COMPACT);
  return t->preprocessing ? NULL : status_no_memory();
}

shoal_status training_note_model(const training *t, int classes, json_t *into) {
  const model_file *file = model_file_of(t->kind);
  const shoal_model_options options = job_model_options(&t->job, classes);
  json_t *resolved;
  if (!file) return NULL;
  TRY(model_file_resolve(file, &options, &resolved));
  return json_object_set_new(into, "model_file", resolved) ? status_no_memory() : NULL;
}

shoal_status training_take_model(training *t, const json_t *from, const char *name, const char *where) {
  json_t *described = json_object_get(from, "model_file");
  model_file_destroy(t->file);
  t->file = NULL;
  if (!described) return job_find_kind(name, NULL, &t->kind, &t->file);
  TRY(model_file_from_json(described, where, name, &t->file));
  t->kind = &t->file->kind;
  return NULL;
}

/* What eval, predict and a resumed run make the model of. */
static shoal_status write_model(const training *t, int classes) {
  json_t *all = json_object();
  shoal_status status = all ? training_note_model(t, classes, all) : status_no_memory();
  const json_t *file = json_object_get(all, "model_file");
  if (!status && file) status = json_write_atomically(file, t->dir.model);
  json_decref(all);
  return status;
}

shoal_status training_note_settings(training *t, int classes) {
  TRY(write_model(t, classes));
  json_t *all = json_pack("{s:s, s:i, s:o}", "model", t->kind->name, "classes", classes, "flags",
                          settings_to_json(job_table, &t->job));
  shoal_status status = all ? training_note_learned(t, all) : status_no_memory();
  if (!status) status = run_dir_write_settings(&t->dir, all);
  json_decref(all);
  return status;
}

void training_fini(training *t) {
  shoal_model_destroy(t->model);
  job_close_rows(&t->train);
  job_close_rows(&t->validation);
  job_close_rows(&t->test);
  free((void *)t->class_names);
  free(t->preprocessing);
  run_dir_fini(&t->dir);
  text_fini(&t->shape);
  free(t->input);
  text_fini(&t->notes);
  model_file_destroy(t->file);
}
