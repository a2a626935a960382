#include "run/trained.h"

#include "base/options.h"

#include <stdlib.h>
#include <string.h>

shoal_status shoal_trained_open(const char *target, const shoal_trained_options *options, shoal_trained **out) {
  shoal_trained *t = calloc(1, sizeof *t);
  if (!t) return status_no_memory();
  shoal_status status = OPTIONS_TAKE(&t->options, options);
  if (!status) status = saved_model_load(target, &t->options, &t->saved);
  if (status)
    free(t);
  else
    *out = t;
  return status;
}

void shoal_trained_close(shoal_trained *t) {
  if (!t) return;
  saved_model_fini(&t->saved);
  free(t);
}

shoal_model *shoal_trained_model(shoal_trained *t) { return t->saved.model; }
const shoal_job *shoal_trained_job(const shoal_trained *t) { return &t->saved.job; }
const char *shoal_trained_weights(const shoal_trained *t) { return t->saved.weights; }

shoal_status shoal_trained_evaluate(shoal_trained *t, const char *split, bool confusion, shoal_test_result *out) {
  const saved_model *s = &t->saved;
  shoal_test_result r = {.split = saved_split(s, &t->options, split)};
  const job_rows_options which = {.split = r.split, .known = job_learned_of(s->model), .scored = true};
  job_rows rows;
  TRY(job_open_rows(&s->job, s->kind, &which, &rows));
  shoal_status status = NULL;
  if (s->classes && (s->classes <= CONFUSION_CLASSES || confusion)) status = confusion_init(&r.confusion, s->classes);
  if (!status) status = job_evaluate(s->model, &rows, &r.confusion, &r.scores);
  job_close_rows(&rows);
  if (status) {
    confusion_fini(&r.confusion);
    return status;
  }
  if (!split && !strcmp(r.split, "train")) r.split = "all";
  *out = r;
  return NULL;
}

void shoal_test_result_free(shoal_test_result *r) { confusion_fini(&r->confusion); }
