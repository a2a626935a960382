/* From floats to integers: towards zero; what does not fit becomes the nearest number that does, a NaN 0. C leaves the
 * latter two undefined. */
#ifndef SHOAL_TENSOR_CONVERT_H
#define SHOAL_TENSOR_CONVERT_H

#include <stdint.h>

#define FLOAT_TO(type, low, high, limit)                                      \
  static inline type float_to_##type(double v) {                              \
    return v != v ? 0 : v <= (low) ? (low) : v >= (limit) ? (high) : (type)v; \
  }
FLOAT_TO(int32_t, INT32_MIN, INT32_MAX, 2147483647.0)
FLOAT_TO(int64_t, INT64_MIN, INT64_MAX, 0x1p63)
FLOAT_TO(uint8_t, 0, UINT8_MAX, 255.0)
#undef FLOAT_TO

#endif
