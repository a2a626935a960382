#include "kernel/winograd.h"

#include "base/mem.h"

enum { LEAST_CHANNELS = 16, COLUMNS = 64 }; /* COLUMNS: WINO_WIDTH of the widest vectors */

static int64_t rounded(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

bool winograd_fits(const shoal_shape *x, const shoal_shape *w, const attr_value *attr, bool image) {
  const int64_t step = attr[CONV_STRIDE_H].i, side = w->dim[0];
  if (w->dim[1] != side || attr[CONV_STRIDE_W].i != step || step < 1) return false;
  if (step > 1) {
    if (image || x->dim[1] % step || x->dim[2] % step) return false;
    for (int i = CONV_PAD_TOP; i <= CONV_PAD_RIGHT; i++)
      if (attr[i].i) return false;
  }
  for (int i = CONV_PAD_TOP; i <= CONV_PAD_RIGHT; i++)
    if (attr[i].i >= side) return false;
  const int64_t cells = (side + step - 1) / step;
  return cells >= 2 && cells <= 5 && w->dim[2] * step * step >= LEAST_CHANNELS && w->dim[3] >= LEAST_CHANNELS;
}

/* Transformed filters, a cell of zeros, transformed tiles in and out; channels c to o. `cell`: floats that a cell of
 * the image spans. */
static size_t convolve_bytes(int64_t c, int64_t o, int64_t cell) {
  const int64_t outs = rounded(o, WINO_PACK), group = WINO_GROUP * LANES;
  const int64_t filters = WINO_POINTS * outs * c;
  return (size_t)(rounded(filters, LANES) + cell + WINO_POINTS * (group * (c + outs) + 2 * LANES)) * sizeof(float);
}

static int64_t cell_floats(const shoal_shape *x, int64_t step) {
  return (step - 1) * x->dim[2] * x->dim[3] * LANES + step * x->dim[3] * LANES;
}

size_t winograd_scratch(const shoal_shape *x, const shoal_shape *w, const attr_value *attr) {
  const int64_t step = attr[CONV_STRIDE_H].i;
  return convolve_bytes(w->dim[2] * step * step, w->dim[3], cell_floats(x, step));
}

size_t winograd_grad_x_scratch(const shoal_shape *x, const shoal_shape *w, const attr_value *attr) {
  return convolve_bytes(w->dim[3], w->dim[2], w->dim[3] * LANES);
}

size_t winograd_grad_w_scratch(const shoal_shape *x, const shoal_shape *w, const attr_value *attr) {
  const int64_t step = attr[CONV_STRIDE_H].i;
  const int64_t c = rounded(w->dim[2] * step * step, WINO_PACK), o = rounded(w->dim[3], COLUMNS);
  const int64_t zeros = MAX_OF(cell_floats(x, step), w->dim[3] * LANES), group = WINO_GROUP * LANES;
  const int64_t turning = WINO_POINTS * LANES * LANES;
  return (size_t)(WINO_POINTS * (c * o + group * (c + o) + 2 * LANES) + zeros + turning) * sizeof(float);
}
