/* How classes were told apart, added up over rows: what precision, recall, F1 and, of two classes, the area under the
 * ROC curve are made of. */
#ifndef SHOAL_TRAIN_CLASS_SUMS_H
#define SHOAL_TRAIN_CLASS_SUMS_H

#include "shoal/train.h"
#include "train/binary_metrics.h"

typedef struct {
  int64_t classes;
  int64_t *labelled;    /* [classes] rows that are of it ... */
  int64_t *predicted;   /* ... that were taken for it ... */
  int64_t *right;       /* ... both */
  binary_metrics pairs; /* of two classes: the probability of class 1 of each row */
} class_sums;

SHOAL_CHECKED shoal_status class_sums_init(class_sums *s, int64_t classes);
void class_sums_fini(class_sums *s);
/* One row. */
void class_sums_count(class_sums *s, int64_t label, int64_t predicted);
/* labels: [n]; probabilities: [n, classes]. */
SHOAL_CHECKED shoal_status class_sums_add(class_sums *s, const shoal_tensor *labels, const float *probabilities);
/* Sets precision, recall and f1: of class 1 where there are two classes, otherwise means over the classes that occur;
 * and auc, of two classes that class_sums_add has seen. */
SHOAL_CHECKED shoal_status class_sums_read(class_sums *s, shoal_evaluation *out);

#endif
