#include "graph/ops/walk.h"

void walk_init(walk *w, const shoal_shape *frame, const int64_t *strides_a, const int64_t *strides_b) {
  *w = (walk){.n = 1, .left = 1, .step_a = 1, .step_b = 1};
  int rank = 0;
  for (int i = 0; i < frame->rank; i++) {
    int64_t d = frame->dim[i], a = strides_a[i], b = strides_b ? strides_b[i] : 0;
    if (d == 0) w->left = 0;
    if (d == 1) continue;
    if (rank && w->stride_a[rank - 1] == a * d && w->stride_b[rank - 1] == b * d) {
      w->dim[rank - 1] *= d;
      w->stride_a[rank - 1] = a;
      w->stride_b[rank - 1] = b;
    } else {
      w->dim[rank] = d;
      w->stride_a[rank] = a;
      w->stride_b[rank] = b;
      rank++;
    }
  }
  if (!rank) return;
  w->rank = rank - 1;
  w->n = w->dim[w->rank];
  w->step_a = w->stride_a[w->rank];
  w->step_b = w->stride_b[w->rank];
  for (int i = 0; i < w->rank; i++) w->left *= w->dim[i];
}

void walk_next(walk *w) {
  w->left--;
  for (int i = w->rank - 1; i >= 0; i--) {
    w->a += w->stride_a[i];
    w->b += w->stride_b[i];
    if (++w->at[i] < w->dim[i]) return;
    w->a -= w->stride_a[i] * w->dim[i];
    w->b -= w->stride_b[i] * w->dim[i];
    w->at[i] = 0;
  }
}

void walk_broadcast(const shoal_shape *from, const shoal_shape *to, int64_t strides[SHOAL_MAX_RANK]) {
  int64_t stride = 1;
  for (int i = to->rank - 1; i >= 0; i--) {
    int k = i - (to->rank - from->rank);
    int64_t d = k < 0 ? 1 : from->dim[k];
    strides[i] = d == 1 ? 0 : stride;
    stride *= d;
  }
}

void walk_reduced(const shoal_shape *frame, uint32_t reduced, int64_t strides[SHOAL_MAX_RANK]) {
  int64_t stride = 1;
  for (int i = frame->rank - 1; i >= 0; i--) {
    bool gone = reduced >> i & 1;
    strides[i] = gone ? 0 : stride;
    if (!gone) stride *= frame->dim[i];
  }
}
