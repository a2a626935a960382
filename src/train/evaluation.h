/* What an evaluation has measured. */
#ifndef SHOAL_TRAIN_EVALUATION_H
#define SHOAL_TRAIN_EVALUATION_H

#include "shoal/train.h"

/* Nothing measured yet: NaN in every figure. */
shoal_evaluation evaluation_none(void);

#endif
