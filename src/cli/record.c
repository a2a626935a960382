#include "cli/record.h"

#include "cluster/launch.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define INT(type, field) {#field, RECORD_INT, offsetof(type, field)}
#define REAL(type, field) {#field, RECORD_REAL, offsetof(type, field)}
#define BOOL(type, field) {#field, RECORD_BOOL, offsetof(type, field)}

const record_field progress_record[] = {
    INT(shoal_progress, epoch),
    INT(shoal_progress, epochs),
    INT(shoal_progress, step),
    INT(shoal_progress, steps),
    INT(shoal_progress, examples),
    REAL(shoal_progress, loss),
    REAL(shoal_progress, accuracy),
    REAL(shoal_progress, rate),
    REAL(shoal_progress, seconds),
    REAL(shoal_progress, examples_seconds),
    REAL(shoal_progress, validation_loss),
    REAL(shoal_progress, validation_accuracy),
    {0},
};

const record_field fit_record[] = {
    INT(shoal_fit_result, epochs),
    INT(shoal_fit_result, steps),
    INT(shoal_fit_result, updates),
    INT(shoal_fit_result, examples),
    INT(shoal_fit_result, run_examples),
    INT(shoal_fit_result, worker_steps),
    INT(shoal_fit_result, worker_examples),
    INT(shoal_fit_result, dropped_examples),
    REAL(shoal_fit_result, seconds),
    REAL(shoal_fit_result, examples_seconds),
    REAL(shoal_fit_result, eval_seconds),
    REAL(shoal_fit_result, checkpoint_seconds),
    REAL(shoal_fit_result, input_wait_seconds),
    REAL(shoal_fit_result, final_loss),
    REAL(shoal_fit_result, train_accuracy),
    REAL(shoal_fit_result, validation_accuracy),
    REAL(shoal_fit_result, validation_loss),
    REAL(shoal_fit_result, times.compute),
    REAL(shoal_fit_result, times.network),
    REAL(shoal_fit_result, times.barrier),
    REAL(shoal_fit_result, times.server),
    REAL(shoal_fit_result, times.input),
    BOOL(shoal_fit_result, stopped),
    BOOL(shoal_fit_result, stopped_early),
    INT(shoal_fit_result, best_epoch),
    BOOL(shoal_fit_result, restored),
    INT(shoal_fit_result, resumed_from),
    INT(shoal_fit_result, lost_steps),
    INT(shoal_fit_result, touched_rows),
    INT(shoal_fit_result, exchanged_bytes),
    {0},
};

const record_field evaluation_record[] = {
    INT(shoal_evaluation, examples), REAL(shoal_evaluation, loss),    REAL(shoal_evaluation, accuracy),
    REAL(shoal_evaluation, top_k),   REAL(shoal_evaluation, auc),     REAL(shoal_evaluation, seconds),
    REAL(shoal_evaluation, mae),     REAL(shoal_evaluation, rmse),    REAL(shoal_evaluation, r2),      {0},
};

json_t *record_to_json(const record_field *fields, const void *record) {
  json_t *o = json_object();
  for (const record_field *f = fields; o && f->name; f++) {
    const char *at = (const char *)record + f->offset;
    json_t *value = NULL;
    switch (f->kind) {
      case RECORD_INT: value = json_integer(*(const int64_t *)(const void *)at); break;
      case RECORD_BOOL: value = json_boolean(*(const bool *)(const void *)at); break;
      case RECORD_REAL: {
        double number = *(const double *)(const void *)at;
        value = isfinite(number) ? json_real(number) : json_null();
        break;
      }
    }
    if (json_object_set_new(o, f->name, value)) {
      json_decref(o);
      return NULL;
    }
  }
  return o;
}

void record_from_json(const record_field *fields, const json_t *object, void *record) {
  for (const record_field *f = fields; f->name; f++) {
    const json_t *value = json_object_get(object, f->name);
    void *at = (char *)record + f->offset;
    if (!value) continue;
    switch (f->kind) {
      case RECORD_INT: *(int64_t *)at = json_integer_value(value); break;
      case RECORD_BOOL: *(bool *)at = json_is_true(value); break;
      case RECORD_REAL: *(double *)at = json_is_number(value) ? json_number_value(value) : NAN; break;
    }
  }
}

void record_send(const char *key, json_t *value) {
  json_t *o = json_object();
  char *line = !json_object_set_new(o, key, value) ? json_dumps(o, JSON_COMPACT) : NULL;
  json_decref(o);
  if (!line) return;
  size_t length = strlen(line), done = 0;
  line[length++] = '\n'; /* in place of the end */
  while (done < length) {
    ssize_t n = write(LAUNCH_REPORT_FD, line + done, length - done);
    if (n < 0 && errno != EINTR) break; /* nobody listens any more: this process ends with its parent */
    if (n > 0) done += (size_t)n;
  }
  free(line);
}
