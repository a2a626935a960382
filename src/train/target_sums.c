#include "train/target_sums.h"

#include <math.h>
#include <stdlib.h>

shoal_status target_sums_init(target_sums *s, int64_t outputs) {
  double *block = calloc((size_t)outputs, 4 * sizeof *block);
  if (!block) return status_no_memory();
  *s = (target_sums){.outputs = outputs,
                     .mean = block,
                     .spread = block + outputs,
                     .squared = block + 2 * outputs,
                     .absolute = block + 3 * outputs};
  return NULL;
}

void target_sums_fini(target_sums *s) {
  free(s->mean);
  *s = (target_sums){0};
}

void target_sums_add(target_sums *s, const shoal_tensor *targets, const float *predictions) {
  for (int64_t i = 0; i < targets->shape.dim[0]; i++, predictions += s->outputs) {
    const int64_t row = targets->rows ? targets->rows[i] : i;
    const float *y = (const float *)targets->data + row * s->outputs;
    s->rows++;
    for (int64_t k = 0; k < s->outputs; k++) {
      const double error = (double)predictions[k] - (double)y[k], distance = (double)y[k] - s->mean[k];
      s->mean[k] += distance / (double)s->rows;
      s->spread[k] += distance * ((double)y[k] - s->mean[k]);
      s->squared[k] += error * error;
      s->absolute[k] += fabs(error);
    }
  }
}

void target_sums_read(const target_sums *s, shoal_evaluation *out) {
  const double numbers = (double)s->rows * (double)s->outputs;
  double squared = 0, absolute = 0, r2 = 0;
  for (int64_t k = 0; k < s->outputs; k++) {
    squared += s->squared[k];
    absolute += s->absolute[k];
    r2 += s->spread[k] > 0 ? 1 - s->squared[k] / s->spread[k] : NAN;
  }
  out->mae = absolute / numbers;
  out->rmse = sqrt(squared / numbers);
  out->r2 = r2 / (double)s->outputs;
}
