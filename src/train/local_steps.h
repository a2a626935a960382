/* The strategy allreduce where ranks exchange less: local SGD and DiLoCo (Douillard et al. 2023), and PowerSGD.
 *
 * Local steps: each rank trains on its own share of every step's rows, with its own optimizer; after H steps the ranks
 * average how far they have come and make one update of the parameters they had begun with, by SGD with Nesterov momentum
 * (rate 1 without momentum: the mean of all parameters). One exchange in H steps.
 *
 * PowerSGD: what is exchanged, gradients (H = 1) or distances, travels as thin factors (dist/low_rank.h).
 *
 * 1. After an exchange all ranks have the same parameters; between two of them each has its own, `apart` says so, and
 *    nothing is saved or tested. Epochs and trainings end with an exchange.
 * 2. The slots of the ranks' own optimizers are never exchanged: a checkpoint has rank 0's, and what the exchange keeps
 *    (momentum, what PowerSGD left out) begins with zeros after a resume.
 * 3. Whoever wants to stop says so in the next exchange, which then counts for nobody: all go back to the parameters of
 *    the last one. */
#ifndef SHOAL_TRAIN_LOCAL_STEPS_H
#define SHOAL_TRAIN_LOCAL_STEPS_H

#include "train/allreduce.h"

typedef struct {
  allreduce_options ranks;
  int64_t every;         /* H, 1: every step */
  double rate, momentum; /* of the exchange's own update; H above 1 */
  int rank;              /* of PowerSGD's factors; 0: all numbers travel, in the wire format */
  uint64_t seed;         /* for them */
} local_steps_options;

SHOAL_CHECKED shoal_status local_steps_create(const local_steps_options *options, shoal_strategy **out);
/* As allreduce_take_left. */
SHOAL_CHECKED shoal_status local_steps_take_left(const shoal_strategy *s, float **out);

#endif
