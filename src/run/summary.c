#include "run/summary.h"

#include "base/json_text.h"
#include "data/class_names.h"
#include "run/confusion.h"
#include "run/evaluation_files.h"
#include "run/job.h"
#include "run/membership.h"
#include "run/task_report.h"
#include "run/verdict_input.h"
#include "shoal/version.h"

#include <math.h>
#include <string.h>

static json_t *number(double value) { return isfinite(value) ? json_real(value) : json_null(); }
static json_t *words(const char *s) { return s ? json_string(s) : json_null(); }

static int64_t steps_of_run(const shoal_run_report *r) {
  return r->fit.steps - (r->fit.resumed_from > 0 ? r->fit.resumed_from : 0);
}

static double per_second(int64_t count, double seconds) {
  return seconds > 0 && count > 0 ? (double)count / seconds : NAN;
}

/* A list of keys and values, in the order people read them. */
typedef struct {
  const char *key;
  json_t *value; /* taken */
} pair;

static json_t *object_of(const pair *pairs, size_t count) {
  json_t *o = json_object();
  bool good = o != NULL;
  for (size_t i = 0; i < count; i++)
    if (json_object_set_new(o, pairs[i].key, pairs[i].value)) good = false;
  if (good) return o;
  json_decref(o);
  return NULL;
}
#define OBJECT_OF(pairs) object_of(pairs, sizeof pairs / sizeof *pairs)

/* A list that lacks an element is none. Takes it. */
static json_t *if_whole(json_t *list, bool whole) {
  if (whole) return list;
  json_decref(list);
  return NULL;
}

static json_t *tasks_json(const shoal_run_report *r) {
  json_t *list = json_array();
  bool whole = true;
  for (int i = 0; i < r->n_tasks; i++) whole &= !json_array_append_new(list, task_report_to_json(&r->tasks[i], false));
  return if_whole(list, whole);
}

/* One for each machine: of the first task that sampled it. */
static json_t *hosts_json(const shoal_run_report *r) {
  json_t *hosts = json_array(), *seen;
  bool whole = true;
  size_t k;
  for (int i = 0; i < r->n_tasks; i++) {
    const shoal_task_report *t = &r->tasks[i];
    bool known = !t->use.host.known;
    json_array_foreach (hosts, k, seen) known |= !strcmp(json_string_value(json_object_get(seen, "host")), t->host);
    if (!known) whole &= !json_array_append_new(hosts, host_usage_to_json(&t->use.host, t->host));
  }
  return if_whole(hosts, whole);
}

static json_t *gradients_json(const shoal_run_report *r) {
  json_t *list = json_array();
  bool whole = true;
  for (int w = 0; w < (int)r->job.workers; w++)
    whole &= !json_array_append_new(list, json_integer(shoal_run_report_gradients(r, w)));
  return if_whole(list, whole);
}

bool shoal_run_report_exchange(const shoal_run_report *r, shoal_exchange *out) {
  double steps = 0, touched = 0, bytes = 0;
  for (int i = 0; i < r->n_tasks; i++) {
    const shoal_task_report *t = &r->tasks[i];
    if (!t->touched_rows || t->steps < 0) continue;
    touched += (double)t->touched_rows;
    steps += (double)t->steps;
    bytes += (double)t->exchanged_bytes;
  }
  if (steps < 1 || touched < 1) return false;
  *out = (shoal_exchange){touched / steps, bytes / steps, 2.0 * sizeof(float) * (double)r->parameters};
  return true;
}

static bool add_exchange(const shoal_run_report *r, json_t *summary) {
  shoal_exchange e;
  if (!shoal_run_report_exchange(r, &e)) return true;
  const double each = e.step_bytes / e.touched_features;
  return !json_object_set_new(
      summary, "exchange",
      json_pack("{s:s, s:f, s:f, s:f, s:f, s:f}", "transfer", r->job.transfer, "touched_features", e.touched_features,
                "step_bytes", e.step_bytes, "bytes_per_feature", each, "bytes_a_feature", each, "whole_step_bytes",
                e.whole_step_bytes));
}

/* Of growing ids. */
static bool add_ids(const shoal_run_report *r, json_t *summary) {
  const shoal_fit_result *f = &r->fit;
  if (!r->job.growing_ids) return true;
  return !json_object_set_new(
      summary, "ids",
      json_pack("{s:I, s:I, s:I, s:I}", "count", (json_int_t)f->ids, "admitted", (json_int_t)f->ids_admitted, "evicted",
                (json_int_t)f->ids_evicted, "bytes", (json_int_t)f->ids_bytes));
}

json_t *summary_to_json(const shoal_run_report *r) {
  const shoal_job *f = &r->job;
  const shoal_fit_result *fit = &r->fit;
  char started[40];
  struct tm utc;
  gmtime_r(&r->started, &utc);
  strftime(started, sizeof started, "%Y-%m-%dT%H:%M:%SZ", &utc);
  const pair all[] = {
      {"model", json_string(f->model)},
      {"data", words(f->data)},
      {"status", json_string(r->status)},
      {"error", words(r->error)},
      {"strategy", json_string(f->strategy)},
      {"mode", json_string(f->mode)},
      {"staleness", f->staleness < 0 ? json_null() : json_integer(f->staleness)},
      {"workers", json_integer(f->workers)},
      {"ps", json_integer(f->ps)},
      {"threads", json_integer(r->threads)},
      {"batch_size", json_integer(f->batch_size)},
      {"global_batch", json_integer(r->global_batch)},
      {"optimizer", words(f->optimizer)},
      {"schedule", words(f->schedule)},
      {"learning_rate", number(f->lr)},
      {"effective_learning_rate", number(r->effective_rate)},
      {"final_learning_rate", number(r->final_rate)},
      {"seed", json_integer(f->seed)},
      {"kernels", words(f->kernels)},
      {"epochs", json_integer(fit->epochs)},
      {"steps", json_integer(fit->steps)},
      {"updates", json_integer(fit->updates)},
      {"examples", json_integer(fit->examples)},
      {"run_examples", json_integer(fit->run_examples)},
      {"bad_rows", json_integer(fit->bad_rows)},
      {"dropped_examples", json_integer(fit->dropped_examples)},
      {"resumed_from", fit->resumed_from >= 0 ? json_integer(fit->resumed_from) : json_null()},
      {"seconds", number(fit->seconds)},
      {"examples_seconds", number(fit->examples_seconds)},
      {"startup_seconds", number(r->startup_seconds)},
      {"eval_seconds", number(r->test.seconds)},
      {"validation_seconds", number(fit->eval_seconds)},
      {"checkpoint_seconds", number(fit->checkpoint_seconds)},
      {"input_wait_seconds", number(fit->input_wait_seconds)},
      {"total_seconds", number(r->total_seconds)},
      {"examples_per_second", number(per_second(fit->run_examples, fit->examples_seconds))},
      {"steps_per_second", number(per_second(steps_of_run(r), fit->examples_seconds))},
      {"final_loss", number(fit->final_loss)},
      {"train_accuracy", number(fit->train_accuracy)},
      {"validation_loss", number(fit->validation_loss)},
      {"validation_accuracy", number(fit->validation_accuracy)},
      {"best_epoch", fit->best_epoch ? json_integer(fit->best_epoch) : json_null()},
      {"test_error_rate", number(1 - r->test.accuracy)},
      {"loss", words(f->loss)},
      {"class_names", class_names_to_json(r->class_names)},
      {"test_confusion", confusion_to_json(&r->confusion)},
      {"parameters", json_integer(r->parameters)},
      {"started", json_string(started)},
      {"shoal_version", json_string(shoal_version())},
      {"gradients", gradients_json(r)},
      {"tasks", tasks_json(r)},
      {"hosts", hosts_json(r)},
      {"verdict", verdict_to_json(r)},
  };
  json_t *summary = OBJECT_OF(all);
  if (!summary || (evaluation_to_json(summary, "test_", &r->test) && membership_add(r, summary) &&
                   add_exchange(r, summary) && add_ids(r, summary)))
    return summary;
  json_decref(summary);
  return NULL;
}

bool summary_is_finished(const json_t *summary) {
  const char *status = json_string_value(json_object_get(summary, "status"));
  return status && (!strcmp(status, "finished") || !strcmp(status, "stopped early"));
}

shoal_status shoal_run_report_json(const shoal_run_report *r, char **out) {
  return json_text(summary_to_json(r), 0, out);
}
