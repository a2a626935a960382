/* How fast this machine multiplies matrices with all its processors: what a spread product is measured by. */
#ifndef SHOAL_CLI_YARDSTICK_H
#define SHOAL_CLI_YARDSTICK_H

#include "base/status.h"

#include <stdint.h>

/* f32 operations a second, a product of `side` cubed counted as 2 side^3: the best of several. */
typedef struct {
  double own;       /* our kernels */
  double blas;      /* 0: no BLAS library was found on this machine */
  const char *name; /* its file; NULL: none */
} yardstick;

/* Each is tried for `seconds`, three times at least. */
SHOAL_CHECKED shoal_status yardstick_measure(int64_t side, double seconds, yardstick *out);

static inline double yardstick_best(const yardstick *y) { return y->own > y->blas ? y->own : y->blas; }

#endif
