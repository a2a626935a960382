/* The strategy mirrored: one process, one replica of the model a thread, all over the same variables. Each computes the
 * gradients of its rows; all threads add them up, each a part of the numbers, in a fixed order; all threads update the
 * weights, each a part of them.
 *
 * Adding up begins when all replicas are through: it is work for the same threads, so there is nothing to hide it
 * behind. */
#ifndef SHOAL_TRAIN_MIRRORED_H
#define SHOAL_TRAIN_MIRRORED_H

#include "train/strategy.h"

typedef struct {
  int workers; /* replicas whose batches make a step; the model has as many threads, if it is not deterministic */
  bool deterministic; /* the same bits whatever the number of workers and threads */
} mirrored_options;

SHOAL_CHECKED shoal_status mirrored_create(const mirrored_options *options, shoal_strategy **out);

#endif
