#include "kernel/lanes.h"

#include "base/mem.h"

/* As conv_shape_of in conv.inc.h, for what scratch memory depends on. */
static size_t frame_floats(const shoal_shape *x, const attr_value *attr) {
  int64_t h = x->dim[1] + attr[CONV_PAD_TOP].i + attr[CONV_PAD_BOTTOM].i;
  int64_t w = x->dim[2] + attr[CONV_PAD_LEFT].i + attr[CONV_PAD_RIGHT].i;
  if (h == x->dim[1] && w == x->dim[2]) return 0;
  return mem_times(mem_times((size_t)h, (size_t)w), mem_times((size_t)x->dim[3], LANES));
}

size_t lanes_conv_scratch(const shoal_shape *x, const shoal_shape *w, const attr_value *attr) {
  (void)w;
  return mem_times(frame_floats(x, attr), sizeof(float));
}

size_t lanes_conv_grad_scratch(const shoal_shape *x, const shoal_shape *w, const attr_value *attr) {
  int64_t oh = (x->dim[1] + attr[CONV_PAD_TOP].i + attr[CONV_PAD_BOTTOM].i - w->dim[0]) / attr[CONV_STRIDE_H].i + 1;
  int64_t ow = (x->dim[2] + attr[CONV_PAD_LEFT].i + attr[CONV_PAD_RIGHT].i - w->dim[1]) / attr[CONV_STRIDE_W].i + 1;
  size_t weights = (size_t)(w->dim[0] * w->dim[1] * w->dim[2] * w->dim[3]);
  size_t places = mem_times((size_t)oh + 1, (size_t)ow); /* at most the whole gradient of a block */
  size_t expanded = mem_times(places, (size_t)w->dim[3]);
  size_t lanes = mem_times(mem_plus(expanded, weights + (size_t)w->dim[3]), LANES);
  return mem_times(mem_plus(frame_floats(x, attr), lanes), sizeof(float));
}

size_t lanes_matmul_sum_scratch(int64_t out_features, int64_t rows) {
  int64_t n = (rows + LANES - 1) / LANES * LANES, stride = (out_features + LANES - 1) / LANES * LANES;
  return mem_times(mem_times((size_t)n, (size_t)stride), sizeof(float));
}
