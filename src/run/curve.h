/* curve.csv: how well the test rows were told after how many rows. A few numbers in all, so the file is written anew,
 * whole, with each point; a run that is resumed goes on behind the point it was resumed from. */
#ifndef SHOAL_RUN_CURVE_H
#define SHOAL_RUN_CURVE_H

#include "base/text.h"
#include "shoal/train.h"

typedef struct {
  char *path;
  text lines; /* without the heading */
} curve;

/* Takes in what an earlier life of the run has left, if there is any. */
SHOAL_CHECKED shoal_status curve_open(curve *c, const char *folder);
SHOAL_CHECKED shoal_status curve_add(curve *c, int64_t rows, const shoal_progress *p, const shoal_evaluation *e);
void curve_close(curve *c); /* fine on a zeroed one */

#endif
