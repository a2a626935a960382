/* The sum of products of two contiguous rows. */
#ifndef SHOAL_GRAPH_OPS_DOT_H
#define SHOAL_GRAPH_OPS_DOT_H

#include <stdint.h>

/* Eight sums are kept apart so that the compiler may use vectors without being allowed to reorder anything itself. */
#define DOT_BODY(real)                                          \
  real part[8] = {0}, sum = 0;                                  \
  int64_t k = 0;                                                \
  for (; k + 8 <= n; k += 8)                                    \
    for (int l = 0; l < 8; l++) part[l] += a[k + l] * b[k + l]; \
  for (; k < n; k++) sum += a[k] * b[k];                        \
  for (int l = 0; l < 8; l++) sum += part[l];                   \
  return sum;

static inline float dot_f32(const float *a, const float *b, int64_t n) { DOT_BODY(float) }
static inline double dot_f64(const double *a, const double *b, int64_t n) { DOT_BODY(double) }

/* By the type of a: both are float or both double, n of them. */
#define DOT(a, b, n) _Generic((a), const float * : dot_f32, const double * : dot_f64)(a, b, n)

#endif
