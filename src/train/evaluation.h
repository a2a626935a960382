/* What an evaluation has measured. */
#ifndef SHOAL_TRAIN_EVALUATION_H
#define SHOAL_TRAIN_EVALUATION_H

#include "shoal/train.h"

/* Every figure: its field of shoal_evaluation, its heading, and whether it is a share of rows. Files, messages between tasks
 * and tables have all of them from here. */
#define METRICS(METRIC)                \
  METRIC(loss, "loss", false)          \
  METRIC(accuracy, "accuracy", true)   \
  METRIC(top_k, "top k", true)         \
  METRIC(auc, "AUC", false)            \
  METRIC(precision, "precision", true) \
  METRIC(recall, "recall", true)       \
  METRIC(f1, "F1", false)              \
  METRIC(mae, "MAE", false)            \
  METRIC(rmse, "RMSE", false)          \
  METRIC(r2, "R2", false)

/* How many there are. */
#define METRIC_ONE(name, head, share) +1
enum { METRICS_COUNT = 0 METRICS(METRIC_ONE) };
#undef METRIC_ONE

/* Nothing measured yet: NaN in every figure. */
shoal_evaluation evaluation_none(void);

#endif
