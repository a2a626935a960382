/* Errors of a regression, added up over rows: what mean absolute error, root of the mean squared error and R2 are made
 * of. */
#ifndef SHOAL_TRAIN_TARGET_SUMS_H
#define SHOAL_TRAIN_TARGET_SUMS_H

#include "base/status.h"
#include "shoal/train.h"

typedef struct {
  int64_t rows, outputs;
  double *mean;     /* [outputs] of the targets so far ... */
  double *spread;   /* ... and their squared distances from it, summed (Welford) */
  double *squared;  /* [outputs] errors squared, summed */
  double *absolute; /* [outputs] the same of their sizes */
} target_sums;

SHOAL_CHECKED shoal_status target_sums_init(target_sums *s, int64_t outputs);
void target_sums_fini(target_sums *s);
/* targets: f32 [n, outputs], or [n] of one output; predictions: [n, outputs]. */
void target_sums_add(target_sums *s, const shoal_tensor *targets, const float *predictions);
/* Sets mae, rmse and r2: means over the outputs; r2 NaN where all targets of an output are the same. */
void target_sums_read(const target_sums *s, shoal_evaluation *out);

#endif
