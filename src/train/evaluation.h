/* What an evaluation has measured, and how it is told in a few words. */
#ifndef SHOAL_TRAIN_EVALUATION_H
#define SHOAL_TRAIN_EVALUATION_H

#include "shoal/train.h"

/* Nothing measured yet: NaN in every figure. */
shoal_evaluation evaluation_none(void);
#define EVALUATION_TEXT 64
/* "accuracy 98.12 %", or of a regression "RMSE 54.3, R2 0.481". Returns `out`. */
const char *evaluation_text(const shoal_evaluation *e, char out[EVALUATION_TEXT]);

#endif
