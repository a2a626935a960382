#include "run/evaluation_files.h"

#include "train/evaluation.h"

#include <math.h>
#include <stdio.h>

enum { NAME = 64 }; /* room for a prefix and the name of a figure */

bool evaluation_to_json(json_t *o, const char *prefix, const shoal_evaluation *e) {
  bool good = true;
  for (const shoal_metric *m = shoal_metrics(); m->name; m++) {
    char key[NAME];
    const double value = shoal_evaluation_get(e, m);
    snprintf(key, sizeof key, "%s%s", prefix, m->name);
    good &= !json_object_set_new(o, key, isfinite(value) ? json_real(value) : json_null());
  }
  return good;
}

shoal_status evaluation_to_events(event_file *f, int64_t step, const shoal_evaluation *e) {
  event_scalar all[METRICS_COUNT];
  char tags[METRICS_COUNT][NAME];
  const shoal_metric *rows = shoal_metrics();
  for (int i = 0; i < METRICS_COUNT; i++) {
    snprintf(tags[i], NAME, "test/%s", rows[i].name);
    all[i] = (event_scalar){tags[i], shoal_evaluation_get(e, &rows[i])};
  }
  return event_file_scalars(f, step, all, METRICS_COUNT);
}
