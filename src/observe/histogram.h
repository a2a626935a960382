/* How numbers are spread: buckets of equal width between the least and the greatest. Of numbers that are not finite
 * only the count is kept. */
#ifndef SHOAL_OBSERVE_HISTOGRAM_H
#define SHOAL_OBSERVE_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_BUCKETS 40

typedef struct {
  int64_t count, not_finite; /* count: of the finite ones */
  double least, most, sum, squares;
  int buckets;                      /* 1 when all are equal, 0 when there are none */
  double limits[HISTOGRAM_BUCKETS]; /* upper ends, the last one `most` */
  double counts[HISTOGRAM_BUCKETS];
} histogram;

/* values [n] */
void histogram_make(const float *values, int64_t n, histogram *out);

#endif
