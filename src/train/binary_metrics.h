/* Rows of two classes, the scores a model gave them, and what those are worth. */
#ifndef SHOAL_TRAIN_BINARY_METRICS_H
#define SHOAL_TRAIN_BINARY_METRICS_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct {
  int64_t rows, hits; /* hits: right ones; a score above 0 says class 1 */
  double loss;        /* sum over the rows of -log(probability of the right class) */
  uint64_t *pairs;    /* [rows] a number that ascends with the score, then the label in the lowest bit */
  size_t capacity;
} binary_metrics;

/* Logits and labels (0 or 1) of n more rows. */
SHOAL_CHECKED shoal_status binary_metrics_add(binary_metrics *t, const float *scores, const int32_t *labels, int64_t n);
/* The same for the area alone: any numbers that ascend with the probability of class 1. */
SHOAL_CHECKED shoal_status binary_metrics_rank(binary_metrics *t, const float *scores, const int32_t *labels,
                                               int64_t n);
/* Area under the ROC curve, equal scores counting half; NaN when a class is missing. Sorts the pairs. */
SHOAL_CHECKED shoal_status binary_metrics_auc(binary_metrics *t, double *out);
void binary_metrics_fini(binary_metrics *t);

#endif
