#include "run/saved.h"

#include "exchange/formats.h"
#include "run/run_dir.h"
#include "data/class_names.h"
#include "train/checkpoint.h"
#include "train/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* As many as the data had that it was trained on, or as have names; 0 (the model's own) when nobody noted it. */
static shoal_status find_classes(const json_t *settings, const char *weights, int *out) {
  json_int_t classes = json_integer_value(json_object_get(settings, "classes"));
  *out = classes > 0 && classes < 1000000 ? (int)classes : 0;
  if (*out) return NULL;
  json_t *metadata;
  const char *const *names;
  TRY(checkpoint_metadata(weights, &metadata));
  shoal_status status = status_wrap(model_names_read(metadata, &names), "%s", weights);
  json_decref(metadata);
  TRY(status);
  *out = class_names_count(names);
  free((void *)names);
  return NULL;
}

/* The run's settings, then what the command line says otherwise. */
static shoal_status gather(const char *target, const shoal_trained_options *o, saved_model *s) {
  const shoal_job unset = job_unset();
  const char *name = o->model;
  json_t *described = json_object_get(s->settings, "model_file");
  if (s->settings) {
    const char *kept = json_string_value(json_object_get(s->settings, "model"));
    if (name && !import_is_path(name) && strcmp(name, kept))
      return status_make(SHOAL_ERR_ARGUMENT, "%s was trained as %s, not %s; leave `model` out", target, kept, name);
    name = kept;
    TRY(settings_from_json(job_table, json_object_get(s->settings, "flags"), "settings.json", &s->job));
  }
  if (!name && o->kind) name = o->kind->name;
  if (!name)
    return status_make(SHOAL_ERR_ARGUMENT, "%s is not in a run folder: set `model` to the model it belongs to", target);
  if (o->kind && !strcmp(o->kind->name, name))
    s->kind = o->kind;
  else if (described)
    TRY(model_file_from_json(described, target, name, &s->file));
  else
    TRY(job_find_kind(name, NULL, &s->kind, &s->file));
  if (s->file) s->kind = &s->file->kind;
  s->job.model = s->kind->name;
  job_fill(&s->job, &unset, s->kind);
  if (o->data) {
    s->job.data = o->data;
    s->job.test_data = NULL;
    s->job.format = NULL;
  }
  if (o->format) s->job.format = o->format;
  if (o->columns) s->job.columns = o->columns;
  if (o->activation) s->job.activation = o->activation;
  if (o->pool) s->job.pool = o->pool;
  if (o->kernels) s->job.kernels = o->kernels;
  if (o->threads) s->job.threads = o->threads;
  s->job.top_k = o->top_k ? o->top_k : s->job.top_k;
  return NULL;
}

shoal_status saved_model_load(const char *target, const shoal_trained_options *options, saved_model *out) {
  saved_model s = {.job = job_unset()};
  shoal_status status = NULL;
  TRY_GOTO(status, run_dir_resolve(target, &s.weights, &s.settings), fail);
  TRY_GOTO(status, gather(target, options, &s), fail);
  int classes;
  TRY_GOTO(status, find_classes(s.settings, s.weights, &classes), fail);
  TRY_GOTO(status, job_build(s.kind, &s.job, classes, &s.model), fail);
  shoal_compile_options compile = {.schedule = {.rate = 1},
                                   .top_k = (int)s.job.top_k,
                                   .threads = (int)s.job.threads,
                                   .seed = (uint64_t)s.job.seed,
                                   .kernels = s.job.kernels,
                                   .no_fusion = s.job.no_fusion,
                                   .loss = s.job.loss,
                                   .label_smoothing = s.job.label_smoothing,
                                   .growing_ids = s.job.growing_ids};
  TRY_GOTO(status, shoal_model_compile(s.model, &compile), fail);
  TRY_GOTO(status, shoal_model_load(s.model, s.weights), fail);
  s.classes = (int)shoal_model_classes(s.model);
  *out = s;
  return NULL;
fail:
  saved_model_fini(&s);
  return status;
}

const char *saved_split(const saved_model *s, const shoal_trained_options *options, const char *split) {
  if (split) return split;
  return options->data && !job_has_split(&s->job, "test") ? "train" : "test";
}

void saved_model_fini(saved_model *s) {
  shoal_model_destroy(s->model);
  model_file_destroy(s->file);
  json_decref(s->settings);
  free(s->weights);
  *s = (saved_model){0};
}
