#include "graph/ops/walk.h"

void walk_init(walk *w, const shoal_shape *frame, const int64_t *strides_a, const int64_t *strides_b) {
  walk_init_three(w, frame, strides_a, strides_b, NULL);
}

void walk_init_three(walk *w, const shoal_shape *frame, const int64_t *strides_a, const int64_t *strides_b,
                     const int64_t *strides_c) {
  *w = (walk){.n = 1, .left = 1, .step_a = 1, .step_b = 1, .step_c = 1};
  int rank = 0;
  for (int i = 0; i < frame->rank; i++) {
    int64_t d = frame->dim[i], a = strides_a ? strides_a[i] : 0, b = strides_b ? strides_b[i] : 0,
            c = strides_c ? strides_c[i] : 0;
    if (d == 0) w->left = 0;
    if (d == 1) continue;
    bool merged =
        rank && w->stride_a[rank - 1] == a * d && w->stride_b[rank - 1] == b * d && w->stride_c[rank - 1] == c * d;
    if (merged) rank--;
    w->dim[rank] = merged ? w->dim[rank] * d : d;
    w->stride_a[rank] = a;
    w->stride_b[rank] = b;
    w->stride_c[rank] = c;
    rank++;
  }
  if (!rank) return;
  w->rank = rank - 1;
  w->n = w->dim[w->rank];
  w->step_a = w->stride_a[w->rank];
  w->step_b = w->stride_b[w->rank];
  w->step_c = w->stride_c[w->rank];
  for (int i = 0; i < w->rank; i++) w->left *= w->dim[i];
}

void walk_next(walk *w) {
  w->left--;
  for (int i = w->rank - 1; i >= 0; i--) {
    w->a += w->stride_a[i];
    w->b += w->stride_b[i];
    w->c += w->stride_c[i];
    if (++w->at[i] < w->dim[i]) return;
    w->a -= w->stride_a[i] * w->dim[i];
    w->b -= w->stride_b[i] * w->dim[i];
    w->c -= w->stride_c[i] * w->dim[i];
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

void walk_groups_init(walk_groups *g, const shoal_shape *frame, uint32_t reduced) {
  shoal_shape kept = {0}, gone = {0};
  int64_t kept_strides[SHOAL_MAX_RANK], gone_strides[SHOAL_MAX_RANK], strides[SHOAL_MAX_RANK];
  *g = (walk_groups){.left = 1, .count = 1};
  walk_reduced(frame, 0, strides);
  for (int i = 0; i < frame->rank; i++) {
    bool goes = reduced >> i & 1;
    shoal_shape *part = goes ? &gone : &kept;
    (goes ? gone_strides : kept_strides)[part->rank] = strides[i];
    part->dim[part->rank++] = frame->dim[i];
    *(goes ? &g->count : &g->left) *= frame->dim[i];
  }
  walk_init(&g->outside, &kept, kept_strides, NULL);
  walk_init(&g->inside, &gone, gone_strides, NULL);
}

void walk_groups_next(walk_groups *g) {
  g->left--;
  if (++g->at == g->outside.n) {
    g->at = 0;
    walk_next(&g->outside);
  }
  g->first = g->outside.a + g->at * g->outside.step_a;
}
