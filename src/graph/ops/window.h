/* Windows that slide over an axis: how many there are, and how SAME padding is shared out. */
#ifndef SHOAL_GRAPH_OPS_WINDOW_H
#define SHOAL_GRAPH_OPS_WINDOW_H

#include "base/mem.h"
#include "base/status.h"
#include "shoal/tensor.h"
#include "tensor/limits.h"

/* Positions of a window of `size` on `extent` elements; unknown when the extent is. `what` names the axis. */
static inline shoal_status window_count(int64_t extent, int64_t size, int64_t stride, int64_t before, int64_t after,
                                        const char *what, int64_t *out) {
  if (size < 1 || stride < 1)
    return status_make(SHOAL_ERR_ARGUMENT, "window %s %lld and stride %lld must be known and at least 1", what,
                       (long long)size, (long long)stride);
  /* A window wholly outside of the image would have no value. */
  if (before < 0 || after < 0 || before >= size || after >= size)
    return status_make(SHOAL_ERR_ARGUMENT, "padding %lld and %lld must be at least 0 and below the window's %s %lld",
                       (long long)before, (long long)after, what, (long long)size);
  if (extent == SHOAL_UNKNOWN) {
    *out = SHOAL_UNKNOWN;
    return NULL;
  }
  if (extent < 1 || extent + before + after < size)
    return status_make(SHOAL_ERR_ARGUMENT, "the image's %s %lld, padded by %lld, is less than the window's %lld", what,
                       (long long)extent, (long long)(before + after), (long long)size);
  *out = (extent + before + after - size) / stride + 1;
  return NULL;
}

/* Elements from the first to the last tap of a window whose taps are `dilation` apart. */
static inline shoal_status window_reach(int64_t size, int64_t dilation, const char *what, int64_t *out) {
  if (size < 1 || dilation < 1)
    return status_make(SHOAL_ERR_ARGUMENT, "window %s %lld and dilation %lld must be known and at least 1", what,
                       (long long)size, (long long)dilation);
  *out = MIN_OF(count_times(size - 1, dilation), TENSOR_MAX_BYTES) + 1;
  return NULL;
}

/* Declares the taps [from, to) of a window that lie on the image: tap p is at start + p * dilation. */
#define TAPS_ON_IMAGE(start, size, dilation, image, from, to)              \
  int64_t from = (start) < 0 ? (-(start) + (dilation)-1) / (dilation) : 0; \
  int64_t to = MIN_OF((size), ((image) - (start) + (dilation)-1) / (dilation))

/* Declares the part [from, to) of a window of `size` that lies on the image when the window starts at `start`. */
#define WINDOW_ON_IMAGE(start, size, image, from, to) \
  int64_t from = (start) < 0 ? -(start) : 0;          \
  int64_t to = (start) + (size) > (image) ? (image) - (start) : (size)

/* Padding that gives ceil(extent / stride) positions; an odd rest goes after. */
static inline shoal_status window_same(int64_t extent, int64_t size, int64_t stride, int64_t *before, int64_t *after) {
  if (extent < 1 || size < 1 || stride < 1)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "SAME padding needs an image and a window of known size and a stride of at least 1; use VALID "
                       "or give the placeholder's height and width");
  int64_t total = ((extent + stride - 1) / stride - 1) * stride + size - extent;
  if (total < 0) total = 0;
  *before = total / 2;
  *after = total - total / 2;
  return NULL;
}

#endif
