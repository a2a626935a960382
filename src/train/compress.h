/* The strategy allreduce by the way gradients travel: all of them ("none"), by PowerSGD ("powersgd"), or the way that is
 * fastest here ("auto"): the first steps of a training try each in turn.
 *
 * 1. Trials are steps of the training like all others: nothing is computed only to be measured.
 * 2. All ranks try the same ways in the same steps; rank 0 decides by its own clock and tells the others.
 * 3. Where little of a step is spent waiting for messages, no other way is tried: none can pay. */
#ifndef SHOAL_TRAIN_COMPRESS_H
#define SHOAL_TRAIN_COMPRESS_H

#include "train/local_steps.h"

/* The ways that "auto" tries: wire formats, the usual one first, and PowerSGD last. */
enum { COMPRESS_WAYS = 5, COMPRESS_POWERSGD = COMPRESS_WAYS - 1 };
const char *compress_way(int way);
/* The way to take, by the seconds of a step with each. */
int compress_fastest(const double seconds[COMPRESS_WAYS]);

/* options->rank: of PowerSGD, where it is used; with "auto" the wire format is chosen, too. ARGUMENT: no such way. */
SHOAL_CHECKED shoal_status compress_create(const char *how, const local_steps_options *options, shoal_strategy **out);

#endif
