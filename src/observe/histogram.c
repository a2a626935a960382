#include "observe/histogram.h"

#include <math.h>

void histogram_make(const float *values, int64_t n, histogram *out) {
  histogram h = {.least = INFINITY, .most = -INFINITY};
  for (int64_t i = 0; i < n; i++) {
    double x = values[i];
    if (!isfinite(x)) {
      h.not_finite++;
      continue;
    }
    h.count++;
    h.least = fmin(h.least, x);
    h.most = fmax(h.most, x);
    h.sum += x;
    h.squares += x * x;
  }
  if (!h.count) h.least = h.most = 0;
  double width = (h.most - h.least) / HISTOGRAM_BUCKETS;
  h.buckets = !h.count ? 0 : width > 0 ? HISTOGRAM_BUCKETS : 1;
  for (int k = 0; k < h.buckets; k++) h.limits[k] = k == h.buckets - 1 ? h.most : h.least + width * (k + 1);
  for (int64_t i = 0; i < n; i++) {
    if (!isfinite(values[i])) continue;
    int k = width > 0 ? (int)((values[i] - h.least) / width) : 0;
    h.counts[k < h.buckets ? k : h.buckets - 1]++;
  }
  *out = h;
}
