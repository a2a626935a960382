/* Which rows of a data set are held out for validation. */
#ifndef SHOAL_TRAIN_SPLIT_H
#define SHOAL_TRAIN_SPLIT_H

#include "base/status.h"
#include "shoal/data.h"

/* rows [n] becomes the numbers of the rows to train on, *kept of them, then those held out: a share of each class,
 * drawn by the seed; each part ascending. No class is held out whole. classes 0: labels are numbers, and the share is of
 * all rows. ARGUMENT error when one part would be empty. */
SHOAL_CHECKED shoal_status split_rows(const shoal_dataset *data, int classes, double share, uint64_t seed,
                                      int32_t *rows, int64_t *kept);

#endif
