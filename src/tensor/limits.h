/* How large tensors may be, and counting that never wraps. */
#ifndef SHOAL_TENSOR_LIMITS_H
#define SHOAL_TENSOR_LIMITS_H

#include "base/status.h"
#include "shoal/tensor.h"

/* More than a machine has, and so little that products of a shape's dimensions and sums of a few of them fit into 64
 * bits. Sizes that are given as attributes (paddings, strides, starts of slices) are held to it, too. */
#define TENSOR_MAX_BYTES ((int64_t)1 << 46)

/* Product of two counts; INT64_MAX when it is larger. */
static inline int64_t count_times(int64_t a, int64_t b) {
  int64_t product;
  return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

/* Whether a tensor of that type and shape may exist: 0 to SHOAL_MAX_RANK dimensions, each 0 or more or unknown, and at
 * most TENSOR_MAX_BYTES. Dimensions of 0, and unknown ones, count as 1: strides of the other axes must not wrap. */
SHOAL_CHECKED shoal_status tensor_check(shoal_dtype dtype, const shoal_shape *shape);

#endif
