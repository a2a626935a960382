/* The strategy of a process alone: the update is part of the step's own plan, and there is nobody to talk to. */
#ifndef SHOAL_TRAIN_LOCAL_H
#define SHOAL_TRAIN_LOCAL_H

#include "train/strategy.h"

/* Steps on sparse rows are so short that a chunk of the stream, many batches, is computed in one go. */
SHOAL_CHECKED shoal_status local_create(shoal_strategy **out);

#endif
