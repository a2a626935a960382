#include "train/evaluation.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>

#define AS_ROW(field, heading, is_share) \
  {.name = #field, .head = heading, .offset = offsetof(shoal_evaluation, field), .share = is_share},
static const shoal_metric rows[] = {METRICS(AS_ROW){0}};
#undef AS_ROW

const shoal_metric *shoal_metrics(void) { return rows; }

double shoal_evaluation_get(const shoal_evaluation *e, const shoal_metric *metric) {
  return *(const double *)((const char *)e + metric->offset);
}

shoal_evaluation evaluation_none(void) {
  shoal_evaluation e = {.seconds = NAN};
  for (const shoal_metric *m = rows; m->name; m++) *(double *)((char *)&e + m->offset) = NAN;
  return e;
}

const char *shoal_evaluation_text(const shoal_evaluation *e, char out[SHOAL_EVALUATION_TEXT]) {
  if (!isfinite(e->rmse))
    snprintf(out, SHOAL_EVALUATION_TEXT, "accuracy %.2f %%", 100 * e->accuracy);
  else if (!isfinite(e->r2))
    snprintf(out, SHOAL_EVALUATION_TEXT, "RMSE %.5g", e->rmse);
  else
    snprintf(out, SHOAL_EVALUATION_TEXT, "RMSE %.5g, R2 %.4f", e->rmse, e->r2);
  return out;
}
