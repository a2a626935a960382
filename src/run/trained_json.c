/* What a trained model gives, as JSON. */
#include "base/json_text.h"
#include "data/class_names.h"
#include "shoal/run.h"

#include <stdlib.h>

/* ---- tests */

static json_t *confusion_json(const shoal_confusion *c) {
  json_t *all = c->counts ? json_array() : json_null();
  for (int i = 0; c->counts && i < c->classes; i++) {
    json_t *row = json_array();
    for (int k = 0; k < c->classes; k++) json_array_append_new(row, json_integer(c->counts[i * c->classes + k]));
    json_array_append_new(all, row);
  }
  return all;
}

shoal_status shoal_test_result_json(shoal_trained *t, const shoal_test_result *r, char **out) {
  const shoal_evaluation *e = &r->scores;
  const shoal_job *job = shoal_trained_job(t);
  json_t *o = json_pack(
      "{s:s, s:s, s:s, s:s, s:I, s:o, s:I, s:o, s:o}", "model", job->model, "weights", shoal_trained_weights(t), "data",
      job->data, "split", r->split, "examples", (json_int_t)e->examples, "seconds", json_finite(e->seconds),
      "unknown_entries", (json_int_t)e->unknown_entries, "class_names",
      class_names_to_json(shoal_model_class_names(shoal_trained_model(t))), "confusion", confusion_json(&r->confusion));
  for (const shoal_metric *m = shoal_metrics(); o && m->name; m++)
    json_object_set_new(o, m->name, json_finite(shoal_evaluation_get(e, m)));
  const char *name;
  double value;
  for (int i = 0; o && shoal_model_figure(shoal_trained_model(t), i, &name, &value); i++)
    json_object_set_new(o, name, json_finite(value));
  return json_text(o, 0, out);
}

/* ---- predictions */

static json_t *values_json(const shoal_prediction *p) {
  json_t *all = json_array();
  for (int i = 0; i < p->count; i++) json_array_append_new(all, json_real((double)p->values[i]));
  return all;
}

static json_t *class_json(const shoal_prediction *p, const char *const *names) {
  const int best = shoal_prediction_class(p);
  char number[SHOAL_CLASS_NAME_TEXT];
  json_t *o = json_pack("{s:s, s:i, s:f, s:o}", "input", p->input, "class", best, "probability",
                        (double)p->values[best], "probabilities", values_json(p));
  if (o && p->label >= 0) json_object_set_new(o, "label", json_integer(p->label));
  if (o && names) json_object_set_new(o, "class_name", json_string(shoal_class_name(names, best, number)));
  if (o && names && p->label >= 0)
    json_object_set_new(o, "label_name", json_string(shoal_class_name(names, p->label, number)));
  return o;
}

static json_t *numbers_json(const shoal_prediction *p) {
  json_t *o = json_pack("{s:s, s:f, s:o}", "input", p->input, "value", (double)p->values[0], "values", values_json(p));
  if (o && isfinite(p->target)) json_object_set_new(o, "label", json_real(p->target));
  return o;
}

int shoal_prediction_class(const shoal_prediction *p) {
  int best = 0;
  for (int i = 1; i < p->count; i++)
    if (p->values[i] > p->values[best]) best = i;
  return best;
}

shoal_status shoal_prediction_json(shoal_trained *t, const shoal_prediction *p, char **out) {
  shoal_model *m = shoal_trained_model(t);
  json_t *o = !shoal_model_classes(m)    ? numbers_json(p)
              : shoal_model_is_sparse(m) ? json_real((double)*p->values)
                                         : class_json(p, shoal_model_class_names(m));
  char *words = o ? json_words(o, JSON_ENCODE_ANY) : NULL;
  json_decref(o);
  if (!words) return status_no_memory();
  *out = words;
  return NULL;
}
