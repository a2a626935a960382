/* Max pooling on LANES, any window: [height][width][channels][16]. Included by the files lanes_*.c. */

typedef struct {
  int64_t h, w, c, oh, ow;
  int64_t size_h, size_w, step_h, step_w, top, left;
} pool_shape;

static pool_shape pool_shape_of(const shoal_shape *x, const shoal_shape *y, const attr_value *attr) {
  return (pool_shape){x->dim[1],
                      x->dim[2],
                      x->dim[3],
                      y->dim[1],
                      y->dim[2],
                      attr[POOL_SIZE_H].i,
                      attr[POOL_SIZE_W].i,
                      attr[POOL_STRIDE_H].i,
                      attr[POOL_STRIDE_W].i,
                      attr[POOL_PAD_TOP].i,
                      attr[POOL_PAD_LEFT].i};
}

/* The part of a window that lies on the image: rows [y0, y1), columns [x0, x1). */
typedef struct {
  int64_t y0, y1, x0, x1;
} pool_window;

INLINE pool_window pool_window_at(const pool_shape *s, int64_t i, int64_t j) {
  const int64_t y = i * s->step_h - s->top, x = j * s->step_w - s->left;
  return (pool_window){MAX_OF(y, (int64_t)0), MIN_OF(y + s->size_h, s->h), MAX_OF(x, (int64_t)0),
                       MIN_OF(x + s->size_w, s->w)};
}

shoal_status ISA_NAME(lanes_max_pool)(const kernel_call *call) {
  const pool_shape s = pool_shape_of(&call->in[0].shape, &call->out[0].shape, call->attr);
  const int64_t pixel = s.c * LANES;
  for (int64_t b = 0; b < lanes_blocks(&call->in[0]); b++) {
    const float *x = (const float *)call->in[0].data + b * s.h * s.w * pixel;
    float *y = (float *)call->out[0].data + b * s.oh * s.ow * pixel;
    for (int64_t i = 0; i < s.oh; i++)
      for (int64_t j = 0; j < s.ow; j++, y += pixel) {
        const pool_window n = pool_window_at(&s, i, j);
        for (int64_t c = 0; c < pixel; c += VW) {
          vf best = v_load(x + (n.y0 * s.w + n.x0) * pixel + c);
          for (int64_t p = n.y0; p < n.y1; p++)
            for (int64_t q = n.x0; q < n.x1; q++) best = v_max(v_load(x + (p * s.w + q) * pixel + c), best);
          v_store(y + c, best);
        }
      }
  }
  return NULL;
}

/* dy, x, y -> dx: to the first maximum of each window. */
shoal_status ISA_NAME(lanes_max_pool_grad)(const kernel_call *call) {
  const pool_shape s = pool_shape_of(&call->in[1].shape, &call->in[0].shape, call->attr);
  const int64_t pixel = s.c * LANES, image = s.h * s.w * pixel;
  for (int64_t b = 0; b < lanes_blocks(&call->in[1]); b++) {
    const int64_t out = b * s.oh * s.ow * pixel;
    const float *dy = (const float *)call->in[0].data + out, *y = (const float *)call->in[2].data + out;
    const float *x = (const float *)call->in[1].data + b * image;
    float *dx = (float *)call->out[0].data + b * image;
    memset(dx, 0, (size_t)image * sizeof *dx);
    for (int64_t i = 0; i < s.oh; i++)
      for (int64_t j = 0; j < s.ow; j++, dy += pixel, y += pixel) {
        const pool_window n = pool_window_at(&s, i, j);
        for (int64_t c = 0; c < pixel; c += VW) {
          vf left = v_load(dy + c), best = v_load(y + c);
          for (int64_t p = n.y0; p < n.y1; p++)
            for (int64_t q = n.x0; q < n.x1; q++) {
              const int64_t at = (p * s.w + q) * pixel + c;
              const vi here = v_load(x + at) == best;
              v_store(dx + at, v_load(dx + at) + (vf)((vi)left & here));
              left = (vf)((vi)left & ~here);
            }
        }
      }
  }
  return NULL;
}
