#include "run/record.h"
#include "train/evaluation.h"

#include <math.h>

const record_field progress_record[] = {
    RECORD_INT_OF(shoal_progress, epoch),
    RECORD_INT_OF(shoal_progress, epochs),
    RECORD_INT_OF(shoal_progress, step),
    RECORD_INT_OF(shoal_progress, steps),
    RECORD_INT_OF(shoal_progress, examples),
    RECORD_REAL_OF(shoal_progress, loss),
    RECORD_REAL_OF(shoal_progress, accuracy),
    RECORD_REAL_OF(shoal_progress, rate),
    RECORD_REAL_OF(shoal_progress, seconds),
    RECORD_REAL_OF(shoal_progress, examples_seconds),
    RECORD_REAL_OF(shoal_progress, validation_loss),
    RECORD_REAL_OF(shoal_progress, validation_accuracy),
    {0},
};

const record_field fit_record[] = {
    RECORD_INT_OF(shoal_fit_result, epochs),
    RECORD_INT_OF(shoal_fit_result, steps),
    RECORD_INT_OF(shoal_fit_result, updates),
    RECORD_INT_OF(shoal_fit_result, examples),
    RECORD_INT_OF(shoal_fit_result, run_examples),
    RECORD_INT_OF(shoal_fit_result, worker_steps),
    RECORD_INT_OF(shoal_fit_result, worker_examples),
    RECORD_INT_OF(shoal_fit_result, dropped_examples),
    RECORD_REAL_OF(shoal_fit_result, seconds),
    RECORD_REAL_OF(shoal_fit_result, examples_seconds),
    RECORD_REAL_OF(shoal_fit_result, eval_seconds),
    RECORD_REAL_OF(shoal_fit_result, checkpoint_seconds),
    RECORD_REAL_OF(shoal_fit_result, input_wait_seconds),
    RECORD_REAL_OF(shoal_fit_result, final_loss),
    RECORD_REAL_OF(shoal_fit_result, train_accuracy),
    RECORD_REAL_OF(shoal_fit_result, validation_accuracy),
    RECORD_REAL_OF(shoal_fit_result, validation_loss),
    RECORD_REAL_OF(shoal_fit_result, times.compute),
    RECORD_REAL_OF(shoal_fit_result, times.network),
    RECORD_REAL_OF(shoal_fit_result, times.barrier),
    RECORD_REAL_OF(shoal_fit_result, times.server),
    RECORD_REAL_OF(shoal_fit_result, times.input),
    RECORD_BOOL_OF(shoal_fit_result, stopped),
    RECORD_BOOL_OF(shoal_fit_result, stopped_early),
    RECORD_INT_OF(shoal_fit_result, best_epoch),
    RECORD_BOOL_OF(shoal_fit_result, restored),
    RECORD_INT_OF(shoal_fit_result, resumed_from),
    RECORD_INT_OF(shoal_fit_result, lost_steps),
    RECORD_INT_OF(shoal_fit_result, touched_rows),
    RECORD_INT_OF(shoal_fit_result, exchanged_bytes),
    RECORD_INT_OF(shoal_fit_result, ids),
    RECORD_INT_OF(shoal_fit_result, ids_admitted),
    RECORD_INT_OF(shoal_fit_result, ids_evicted),
    RECORD_INT_OF(shoal_fit_result, ids_bytes),
    {0},
};

#define AS_FIELD(field, head, share) RECORD_REAL_OF(shoal_evaluation, field),
const record_field evaluation_record[] = {
    RECORD_INT_OF(shoal_evaluation, examples), METRICS(AS_FIELD) RECORD_REAL_OF(shoal_evaluation, seconds), {0}};
#undef AS_FIELD

json_t *record_to_json(const record_field *fields, const void *record) {
  json_t *o = json_object();
  for (const record_field *f = fields; o && f->name; f++) {
    const char *at = (const char *)record + f->offset;
    json_t *value = NULL;
    switch (f->kind) {
      case RECORD_INT: value = json_integer(*(const int64_t *)(const void *)at); break;
      case RECORD_INT32: value = json_integer(*(const int *)(const void *)at); break;
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
      case RECORD_INT32: *(int *)at = (int)json_integer_value(value); break;
      case RECORD_BOOL: *(bool *)at = json_is_true(value); break;
      case RECORD_REAL: *(double *)at = json_is_number(value) ? json_number_value(value) : NAN; break;
    }
  }
}
