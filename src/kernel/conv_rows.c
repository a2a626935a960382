#include "kernel/conv_rows.h"

#include "base/mem.h"
#include "kernel/gemm.h"
#include "kernel/lanes.h"

enum {
  LEAST_CHANNELS = 16,
  MANY_PLACES = 4096 /* from here on Winograd's algorithm repays transforming its filters */
};

bool conv_rows_fits(const shoal_shape *x, const shoal_shape *w, const shoal_shape *dy, const attr_value *attr) {
  (void)x;
  return attr[CONV_GROUPS].i == 1 && w->dim[2] >= LEAST_CHANNELS && w->dim[3] >= LEAST_CHANNELS &&
         dy->dim[0] * dy->dim[1] * dy->dim[2] < MANY_PLACES;
}

/* Panels of `columns` columns, of all depths together; and a pixel of zeros. */
static size_t panels(int64_t depth, int64_t columns, int64_t channels) {
  const int64_t wide = (columns + GEMM_COLUMNS_MAX - 1) / GEMM_COLUMNS_MAX * GEMM_COLUMNS_MAX;
  return mem_times(mem_plus(mem_times((size_t)depth, (size_t)wide), (size_t)(channels + LANES)), sizeof(float));
}

size_t conv_rows_scratch(const shoal_shape *w) {
  return panels(w->dim[0] * w->dim[1] * w->dim[2], w->dim[3], w->dim[2]);
}

/* Of a convolution with strides, the result besides, in another order. */
size_t conv_rows_grad_x_scratch(const shoal_shape *x, const shoal_shape *w, const attr_value *attr) {
  const bool strides = attr[CONV_STRIDE_H].i > 1 || attr[CONV_STRIDE_W].i > 1;
  const size_t image = mem_times((size_t)(x->dim[0] * x->dim[1]), (size_t)(x->dim[2] * x->dim[3]));
  return mem_plus(panels(w->dim[0] * w->dim[1] * w->dim[3], w->dim[2], w->dim[3]),
                  strides ? mem_times(image, sizeof(float)) : 0);
}

size_t conv_rows_grad_w_scratch(const shoal_shape *w, const shoal_shape *dy) {
  return panels(dy->dim[0] * dy->dim[1] * dy->dim[2], w->dim[3], w->dim[2]);
}
