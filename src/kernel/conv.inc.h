/* Convolution on LANES: images [height][width][channels][16], filters [kh][kw][channels][out].
 *
 * Forward works on tiles of up to CONV_OUT output channels at four positions, which with 2 x 2 pooling are the pool's
 * window: bias, activation and pooling then finish in registers. Padding is done by copying the image into a zeroed
 * frame once. Included by the files lanes_*.c. */

#define CONV_POSITIONS 4
#if V_REGISTERS == 32
#define CONV_OUT 6 /* output channels a tile: 24 accumulators of 32 registers */
#define GRAD_OUT 4 /* weight gradient: times up to 5 taps, 20 accumulators */
#define GRAD_IN 6  /* data gradient: times four positions */
#else
#define CONV_OUT 3
#define GRAD_OUT 2
#define GRAD_IN 3
#endif
#define GRAD_TAPS 5

/* One convolution, seen from one block of images. */
typedef struct {
  int64_t h, w, c;   /* image */
  int64_t oh, ow, o; /* output, before pooling */
  int64_t kh, kw;
  int64_t sh, sw; /* stride */
  int64_t pt, pl; /* padding */
  int64_t fh, fw; /* image and padding: the frame */
  bool padded;
  activation act;
  pooling pool;
} conv_shape;

static conv_shape conv_shape_of(const shoal_shape *x, const shoal_shape *w, const attr_value *attr, bool block) {
  conv_shape s = {.h = x->dim[1], .w = x->dim[2], .c = x->dim[3], .kh = w->dim[0], .kw = w->dim[1], .o = w->dim[3]};
  s.sh = attr[CONV_STRIDE_H].i;
  s.sw = attr[CONV_STRIDE_W].i;
  s.pt = attr[CONV_PAD_TOP].i;
  s.pl = attr[CONV_PAD_LEFT].i;
  s.fh = s.h + s.pt + attr[CONV_PAD_BOTTOM].i;
  s.fw = s.w + s.pl + attr[CONV_PAD_RIGHT].i;
  s.oh = (s.fh - s.kh) / s.sh + 1;
  s.ow = (s.fw - s.kw) / s.sw + 1;
  s.padded = s.fh != s.h || s.fw != s.w;
  s.act = block ? (activation)attr[CONV_ACT].i : ACT_LINEAR;
  s.pool = block ? (pooling)attr[CONV_POOL].i : POOL_NONE;
  return s;
}

/* One block's image in a zeroed frame; the frame's border is zeroed by conv_clear_frame, once a call. */
static const float *conv_frame(const conv_shape *s, const float *x, float *frame) {
  if (!s->padded) return x;
  size_t row = (size_t)(s->w * s->c * LANES) * sizeof *x;
  for (int64_t y = 0; y < s->h; y++)
    memcpy(frame + ((y + s->pt) * s->fw + s->pl) * s->c * LANES, x + y * s->w * s->c * LANES, row);
  return frame;
}

static void conv_clear_frame(const conv_shape *s, float *frame) {
  if (s->padded) memset(frame, 0, (size_t)(s->fh * s->fw * s->c * LANES) * sizeof *frame);
}

INLINE vf conv_activate(vf x, activation act) {
  switch (act) {
    case ACT_RELU: return v_relu(x);
    case ACT_TANH: return v_tanh(x);
    case ACT_SIGMOID: return v_sigmoid(x);
    default: return x;
  }
}

/* A tile of sums is activated in two parts. v_max(conv_floor(act), x) does it for ACT_RELU and ACT_LINEAR, in a
 * register. The others are many instructions: conv_activate_stored does them afterwards in a loop, for n vectors LANES
 * apart, since a copy of them for each sum of each tile would be slow to compile and to fetch. */
INLINE vf conv_floor(activation act) { return v_set(act == ACT_RELU ? 0 : -INFINITY); }

static __attribute__((noinline)) void conv_activate_many(int64_t n, float *y, activation act) {
  for (int64_t i = 0; i < n; i++) v_store(y + i * LANES, conv_activate(v_load(y + i * LANES), act));
}

INLINE void conv_activate_stored(int64_t n, float *y, activation act) {
  if (act != ACT_LINEAR && act != ACT_RELU) conv_activate_many(n, y, act);
}

/* OT channels at four positions; x[j]: the window's first element of position j. */
INLINE void conv_tile(const int OT, const conv_shape *s, const float *const x[CONV_POSITIONS], const float *w,
                      const float *bias, vf a[CONV_OUT][CONV_POSITIONS]) {
  const int64_t row = s->fw * s->c * LANES, span = s->kw * s->c, o = s->o;
  UNROLL for (int m = 0; m < OT; m++) {
    UNROLL for (int j = 0; j < CONV_POSITIONS; j++) a[m][j] = v_set(bias ? bias[m] : 0);
  }
  const float *x0 = x[0], *x1 = x[1], *x2 = x[2], *x3 = x[3];
  for (int64_t ky = 0; ky < s->kh; ky++) {
    for (int64_t t = 0; t < span; t++) {
      if (OT > CONV_POSITIONS) { /* hold whichever is fewer in registers: four inputs or OT weights */
        vf v0 = v_load(x0 + t * LANES), v1 = v_load(x1 + t * LANES), v2 = v_load(x2 + t * LANES),
           v3 = v_load(x3 + t * LANES);
        V_KEEP(v0);
        V_KEEP(v1);
        V_KEEP(v2);
        V_KEEP(v3);
        UNROLL for (int m = 0; m < OT; m++) {
          vf k = v_set(w[m]);
          a[m][0] += k * v0;
          a[m][1] += k * v1;
          a[m][2] += k * v2;
          a[m][3] += k * v3;
        }
      } else {
        vf k[CONV_POSITIONS];
        UNROLL for (int m = 0; m < OT; m++) k[m] = v_set(w[m]);
        UNROLL for (int j = 0; j < CONV_POSITIONS; j++) {
          const float *xj = j == 0 ? x0 : j == 1 ? x1 : j == 2 ? x2 : x3;
          vf v = v_load(xj + t * LANES);
          V_KEEP(v);
          UNROLL for (int m = 0; m < OT; m++) a[m][j] += k[m] * v;
        }
      }
      w += o;
    }
    x0 += row;
    x1 += row;
    x2 += row;
    x3 += row;
  }
}

/* `live` of the four positions count (the rest repeat the last one's input). y, aux: at position 0, channel 0 of the
 * tile, this half of the lanes. */
INLINE void conv_finish(const int OT, const conv_shape *s, vf a[CONV_OUT][CONV_POSITIONS], int live, float *y,
                        void *aux, int64_t aux_row) {
  const vf floor = conv_floor(s->act);
  if (s->pool == POOL_NONE) {
    UNROLL for (int j = 0; j < CONV_POSITIONS; j++) {
      if (j >= live) break;
      UNROLL for (int m = 0; m < OT; m++) v_store(y + (j * s->o + m) * LANES, v_max(floor, a[m][j]));
    }
    for (int j = 0; j < live; j++) conv_activate_stored(OT, y + j * s->o * LANES, s->act);
  } else if (s->pool == POOL_MAX) {
    uint8_t *which = aux;
    UNROLL for (int m = 0; m < OT; m++)
        v_store(y + m * LANES, v_max(floor, v_best_of_4(a[m][0], a[m][1], a[m][2], a[m][3], which + m * LANES)));
    conv_activate_stored(OT, y, s->act);
  } else {
    float *all = aux;
    UNROLL for (int m = 0; m < OT; m++) {
      UNROLL for (int j = 0; j < 4; j++)
          v_store(all + (j >> 1) * aux_row + ((j & 1) * s->o + m) * LANES, v_max(floor, a[m][j]));
    }
    for (int j = 0; j < 4; j++) conv_activate_stored(OT, all + (j >> 1) * aux_row + (j & 1) * s->o * LANES, s->act);
    for (int m = 0; m < OT; m++) {
      const float *top = all + m * LANES, *bottom = top + aux_row;
      const int64_t next = s->o * LANES;
      vf sum = v_load(top) + v_load(top + next) + v_load(bottom) + v_load(bottom + next);
      v_store(y + m * LANES, sum * v_set(0.25f));
    }
  }
}

#define CONV_TILE_CASE(OT)                        \
  case OT: {                                      \
    vf a[CONV_OUT][CONV_POSITIONS];               \
    conv_tile(OT, s, x, w, bias, a);              \
    conv_finish(OT, s, a, live, y, aux, aux_row); \
    break;                                        \
  }

static __attribute__((noinline)) void conv_tile_any(int out, const conv_shape *s, const float *const x[CONV_POSITIONS],
                                                    const float *w, const float *bias, int live, float *y, void *aux,
                                                    int64_t aux_row) {
  switch (out) {
    CONV_TILE_CASE(1)
    CONV_TILE_CASE(2)
    CONV_TILE_CASE(3)
#if CONV_OUT > 3
    CONV_TILE_CASE(4)
    CONV_TILE_CASE(5)
    CONV_TILE_CASE(6)
#endif
  }
}

/* One block, one half of the lanes (`lane` the first): all outputs. */
static void conv_forward_block(const conv_shape *s, const float *x, const float *w, const float *bias, float *y,
                               void *aux, int lane) {
  const int64_t step = s->sw * s->c * LANES, line = s->sh * s->fw * s->c * LANES;
  const int tiles = (int)((s->o + CONV_OUT - 1) / CONV_OUT);
  const bool pooled = s->pool != POOL_NONE;
  const int64_t rows = pooled ? s->oh / 2 : s->oh, columns = pooled ? s->ow / 2 : s->ow;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t q = 0; q < columns; q += pooled ? 1 : CONV_POSITIONS) {
      const float *at[CONV_POSITIONS];
      int live = CONV_POSITIONS;
      if (pooled) {
        at[0] = x + 2 * r * line + 2 * q * step + lane;
        at[1] = at[0] + step;
        at[2] = at[0] + line;
        at[3] = at[2] + step;
      } else {
        live = (int)MIN_OF(columns - q, (int64_t)CONV_POSITIONS);
        for (int j = 0; j < CONV_POSITIONS; j++) at[j] = x + r * line + (q + MIN_OF(j, live - 1)) * step + lane;
      }
      for (int t = 0; t < tiles; t++) {
        int64_t first = s->o * t / tiles, last = s->o * (t + 1) / tiles;
        float *to = y + ((r * columns + q) * s->o + first) * LANES + lane;
        void *extra = NULL;
        if (s->pool == POOL_MAX)
          extra = (uint8_t *)aux + ((r * columns + q) * s->o + first) * LANES + lane;
        else if (s->pool == POOL_AVG)
          extra = (float *)aux + ((2 * r * s->ow + 2 * q) * s->o + first) * LANES + lane;
        conv_tile_any((int)(last - first), s, at, w + first, bias ? bias + first : NULL, live, to, extra,
                      s->ow * s->o * LANES);
      }
    }
}

static shoal_status conv_forward(const kernel_call *call, bool block) {
  const shoal_tensor *x = &call->in[0], *w = &call->in[1];
  const conv_shape s = conv_shape_of(&x->shape, &w->shape, call->attr, block);
  const float *bias = block ? call->in[2].data : NULL;
  float *frame = call->scratch;
  conv_clear_frame(&s, frame);
  const int64_t image = s.h * s.w * s.c * LANES, result = lanes_features(&call->out[0]) * LANES;
  const size_t aux_bytes =
      block ? (size_t)(lanes_features(&call->out[1]) * LANES) * shoal_dtype_size(call->out[1].dtype) : 0;
  for (int64_t b = 0; b < lanes_blocks(x); b++) {
    const float *in = conv_frame(&s, (const float *)x->data + b * image, frame);
    for (int lane = 0; lane < LANES; lane += VW)
      conv_forward_block(&s, in, w->data, bias, (float *)call->out[0].data + b * result,
                         block ? (char *)call->out[1].data + (size_t)b * aux_bytes : NULL, lane);
  }
  return NULL;
}

shoal_status ISA_NAME(lanes_conv)(const kernel_call *call) { return conv_forward(call, false); }
shoal_status ISA_NAME(lanes_conv_block)(const kernel_call *call) { return conv_forward(call, true); }

/* ---- backward */

/* The gradient before pooling and activation of output rows [first, first + rows) of one block, all lanes: d
 * [rows][ow][o][16]. dy, y, aux: of this block. */
static void conv_expand(const conv_shape *s, const float *dy, const float *y, const void *aux, int64_t first,
                        int64_t rows, float *d) {
  const int64_t pw = s->ow / 2;
  if (s->oh % 2 || s->ow % 2) memset(d, 0, (size_t)(rows * s->ow * s->o * LANES) * sizeof *d);
  for (int64_t r = first; r < first + rows; r += 2) {
    if (r / 2 >= s->oh / 2) break;
    float *line = d + (r - first) * s->ow * s->o * LANES;
    for (int64_t q = 0; q < pw; q++)
      for (int64_t m = 0; m < s->o; m++)
        for (int lane = 0; lane < LANES; lane += VW) {
          const int64_t at = ((r / 2 * pw + q) * s->o + m) * LANES + lane;
          vf g = v_load(dy + at);
          if (s->pool == POOL_MAX) {
            vf v = v_load(y + at);
            if (s->act == ACT_RELU)
              g = v_where_positive(g, v);
            else if (s->act == ACT_TANH)
              g = g * (v_set(1.0f) - v * v);
            else if (s->act == ACT_SIGMOID)
              g = g * v * (v_set(1.0f) - v);
            UNROLL for (int j = 0; j < 4; j++)
                v_store(line + (((j >> 1) * s->ow + 2 * q + (j & 1)) * s->o + m) * LANES + lane,
                        v_where_byte(g, (const uint8_t *)aux + at, j));
          } else {
            g = g * v_set(0.25f);
            UNROLL for (int j = 0; j < 4; j++) {
              const int64_t full = (((j >> 1) * s->ow + 2 * q + (j & 1)) * s->o + m) * LANES + lane;
              vf v = v_load((const float *)aux + r * s->ow * s->o * LANES + full), e = g;
              if (s->act == ACT_RELU)
                e = v_where_positive(g, v);
              else if (s->act == ACT_TANH)
                e = g * (v_set(1.0f) - v * v);
              else if (s->act == ACT_SIGMOID)
                e = g * v * (v_set(1.0f) - v);
              v_store(line + full, e);
            }
          }
        }
  }
}

/* Adds to g[tap][OT channels] the products of d and x over `rows` x ow positions, for KT taps side by side. g's stride
 * from tap to tap: c * o vectors. */
INLINE void grad_w_tile(const int OT, const int KT, const conv_shape *s, const float *x, const float *d, int64_t rows,
                        float *g) {
  vf a[GRAD_OUT][GRAD_TAPS];
  const int64_t tap = s->c * s->o * LANES, step = s->sw * s->c * LANES, next = s->c * LANES;
  UNROLL for (int k = 0; k < KT; k++) { UNROLL for (int m = 0; m < OT; m++) a[m][k] = v_load(g + k * tap + m * LANES); }
  for (int64_t r = 0; r < rows; r++) {
    const float *xr = x + r * s->sh * s->fw * s->c * LANES, *dr = d + r * s->ow * s->o * LANES;
    for (int64_t q = 0; q < s->ow; q++) {
      vf e[GRAD_OUT];
      UNROLL for (int m = 0; m < OT; m++) e[m] = v_load(dr + m * LANES);
      UNROLL for (int k = 0; k < KT; k++) {
        vf v = v_load(xr + k * next);
        V_KEEP(v);
        UNROLL for (int m = 0; m < OT; m++) a[m][k] += e[m] * v;
      }
      xr += step;
      dr += s->o * LANES;
    }
  }
  UNROLL for (int k = 0; k < KT; k++) { UNROLL for (int m = 0; m < OT; m++) v_store(g + k * tap + m * LANES, a[m][k]); }
}

#define GRAD_W_CASE(OT, KT) \
  case OT * 8 + KT: grad_w_tile(OT, KT, s, x, d, rows, g); break;

static __attribute__((noinline)) void grad_w_any(int out, int taps, const conv_shape *s, const float *x, const float *d,
                                                 int64_t rows, float *g) {
  switch (out * 8 + taps) {
    GRAD_W_CASE(1, 1)
    GRAD_W_CASE(1, 2)
    GRAD_W_CASE(1, 3)
    GRAD_W_CASE(1, 4)
    GRAD_W_CASE(1, 5)
    GRAD_W_CASE(2, 1)
    GRAD_W_CASE(2, 2)
    GRAD_W_CASE(2, 3)
    GRAD_W_CASE(2, 4)
    GRAD_W_CASE(2, 5)
#if GRAD_OUT > 2
    GRAD_W_CASE(3, 1)
    GRAD_W_CASE(3, 2)
    GRAD_W_CASE(3, 3)
    GRAD_W_CASE(3, 4)
    GRAD_W_CASE(3, 5)
    GRAD_W_CASE(4, 1)
    GRAD_W_CASE(4, 2)
    GRAD_W_CASE(4, 3)
    GRAD_W_CASE(4, 4)
    GRAD_W_CASE(4, 5)
#endif
  }
}

/* Rows of the gradient looked at together: few enough that one tile's share stays in the first-level cache. */
static int64_t grad_rows(const conv_shape *s) {
  int64_t bytes = s->ow * MIN_OF(s->o, (int64_t)GRAD_OUT) * LANES * (int64_t)sizeof(float);
  int64_t rows = 26 * 1024 / bytes / 2 * 2;
  return MAX_OF((int64_t)2, MIN_OF(rows, (s->oh + 1) / 2 * 2));
}

/* g [kh][kw][c][o][16] += products of one block. */
static void grad_w_block(const conv_shape *s, const float *x, const float *d, int64_t first, int64_t rows, float *g) {
  const int tiles = (int)((s->o + GRAD_OUT - 1) / GRAD_OUT);
  for (int t = 0; t < tiles; t++) {
    int64_t o0 = s->o * t / tiles, o1 = s->o * (t + 1) / tiles;
    for (int64_t c = 0; c < s->c; c++)
      for (int64_t ky = 0; ky < s->kh; ky++)
        for (int64_t kx = 0; kx < s->kw; kx += GRAD_TAPS)
          for (int lane = 0; lane < LANES; lane += VW)
            grad_w_any((int)(o1 - o0), (int)MIN_OF(s->kw - kx, (int64_t)GRAD_TAPS), s,
                       x + (((first * s->sh + ky) * s->fw + kx) * s->c + c) * LANES + lane, d + o0 * LANES + lane, rows,
                       g + (((ky * s->kw + kx) * s->c + c) * s->o + o0) * LANES + lane);
  }
}

static void sum_channels(const float *d, int64_t positions, int64_t o, float *sums /* [o][16] */) {
  for (int64_t q = 0; q < positions; q++)
    for (int64_t m = 0; m < o; m++)
      for (int lane = 0; lane < LANES; lane += VW) {
        float *to = sums + m * LANES + lane;
        v_store(to, v_load(to) + v_load(d + (q * o + m) * LANES + lane));
      }
}

/* out[i] (+)= sum of the lanes of g[i]. */
static void sum_lanes(const float *g, int64_t n, bool accumulate, float *out) {
  for (int64_t i = 0; i < n; i++) {
    vf s = v_load(g + i * LANES);
    for (int lane = VW; lane < LANES; lane += VW) s += v_load(g + i * LANES + lane);
    out[i] = v_sum(s) + (accumulate ? out[i] : 0);
  }
}

/* Scratch: frame, d of grad_rows rows (or none), g, channel sums. */
static shoal_status conv_backward_w(const kernel_call *call, bool block) {
  const shoal_tensor *x = &call->in[0], *dy = &call->in[1];
  const shoal_shape *w = &call->out[0].shape;
  const conv_shape s = conv_shape_of(&x->shape, w, call->attr, block);
  const bool expand = s.pool != POOL_NONE;
  const int64_t weights = s.kh * s.kw * s.c * s.o, chunk = expand ? grad_rows(&s) : s.oh;
  float *frame = call->scratch;
  float *d = frame + (s.padded ? s.fh * s.fw * s.c * LANES : 0);
  float *g = d + (expand ? chunk * s.ow * s.o * LANES : 0);
  float *sums = g + weights * LANES;
  conv_clear_frame(&s, frame);
  memset(g, 0, (size_t)((weights + s.o) * LANES) * sizeof *g);
  const int64_t image = s.h * s.w * s.c * LANES, result = lanes_features(dy) * LANES;
  const size_t aux_bytes =
      block ? (size_t)(lanes_features(&call->in[3]) * LANES) * shoal_dtype_size(call->in[3].dtype) : 0;
  for (int64_t b = 0; b < lanes_blocks(x); b++) {
    const float *in = conv_frame(&s, (const float *)x->data + b * image, frame);
    const float *grad = (const float *)dy->data + b * result;
    for (int64_t first = 0; first < s.oh; first += chunk) {
      int64_t rows = MIN_OF(chunk, s.oh - first);
      const float *part = grad;
      if (expand) {
        conv_expand(&s, grad, (const float *)call->in[2].data + b * result,
                    (const char *)call->in[3].data + (size_t)b * aux_bytes, first, rows, d);
        part = d;
      }
      grad_w_block(&s, in, part, first, rows, g);
      if (block) sum_channels(part, rows * s.ow, s.o, sums);
    }
  }
  sum_lanes(g, weights, call->accumulate, call->out[0].data);
  if (block) sum_lanes(sums, s.o, call->accumulate, call->out[1].data);
  return NULL;
}

shoal_status ISA_NAME(lanes_conv_grad_w)(const kernel_call *call) { return conv_backward_w(call, false); }
shoal_status ISA_NAME(lanes_conv_block_grad_w)(const kernel_call *call) { return conv_backward_w(call, true); }

/* a[i][j] += w of channel i times d at position j, for the positions [J0, J1) that lie on the output. */
#define GRAD_X_TAPS(CT, J0, J1)                                             \
  case J0 * 8 + J1:                                                         \
    for (int64_t ky = ky0; ky <= ky1; ky++) {                               \
      const float *dr = d + ((y + s->pt - ky) * s->ow + at) * s->o * LANES; \
      const float *wr = w + (ky * s->kw + kx) * s->c * s->o;                \
      for (int64_t o = 0; o < s->o; o++) {                                  \
        vf k[GRAD_IN];                                                      \
        UNROLL for (int i = 0; i < CT; i++) k[i] = v_set(wr[i * s->o + o]); \
        UNROLL for (int j = J0; j < J1; j++) {                              \
          vf e = v_load(dr + (j * s->o + o) * LANES);                       \
          V_KEEP(e);                                                        \
          UNROLL for (int i = 0; i < CT; i++) a[i][j] += k[i] * e;          \
        }                                                                   \
      }                                                                     \
    }                                                                       \
    break;

/* CT channels of four neighbouring positions of the image, stride 1: each tap is added for just those positions where
 * it meets the output, so the border costs no more than it must. */
INLINE void grad_x_tile(const int CT, const conv_shape *s, const float *d, const float *w, int64_t y, int64_t x0,
                        int live, float *dx) {
  vf a[GRAD_IN][CONV_POSITIONS];
  UNROLL for (int i = 0; i < CT; i++) { UNROLL for (int j = 0; j < CONV_POSITIONS; j++) a[i][j] = V_ZERO; }
  const int64_t ky0 = MAX_OF((int64_t)0, y + s->pt - (s->oh - 1)), ky1 = MIN_OF(s->kh - 1, y + s->pt);
  for (int64_t kx = 0; kx < s->kw; kx++) {
    const int64_t at = x0 + s->pl - kx; /* output column that position 0 meets with this tap */
    const int64_t j0 = MAX_OF((int64_t)0, -at), j1 = MIN_OF((int64_t)live, s->ow - at);
    if (j0 >= j1) continue;
    switch (j0 * 8 + j1) {
      GRAD_X_TAPS(CT, 0, 4)
      GRAD_X_TAPS(CT, 0, 3)
      GRAD_X_TAPS(CT, 0, 2)
      GRAD_X_TAPS(CT, 0, 1)
      GRAD_X_TAPS(CT, 1, 4)
      GRAD_X_TAPS(CT, 1, 3)
      GRAD_X_TAPS(CT, 1, 2)
      GRAD_X_TAPS(CT, 2, 4)
      GRAD_X_TAPS(CT, 2, 3)
      GRAD_X_TAPS(CT, 3, 4)
    }
  }
  for (int j = 0; j < live; j++) {
    UNROLL for (int i = 0; i < CT; i++) v_store(dx + (j * s->c + i) * LANES, a[i][j]);
  }
}

#define GRAD_X_CASE(CT) \
  case CT: grad_x_tile(CT, s, d, w, y, x0, live, dx); break;

static __attribute__((noinline)) void grad_x_any(int channels, const conv_shape *s, const float *d, const float *w,
                                                 int64_t y, int64_t x0, int live, float *dx) {
  switch (channels) {
    GRAD_X_CASE(1)
    GRAD_X_CASE(2)
    GRAD_X_CASE(3)
#if GRAD_IN > 3
    GRAD_X_CASE(4)
    GRAD_X_CASE(5)
    GRAD_X_CASE(6)
#endif
  }
}

static void grad_x_block(const conv_shape *s, const float *d, const float *w, float *dx) {
  const int tiles = (int)((s->c + GRAD_IN - 1) / GRAD_IN);
  for (int t = 0; t < tiles; t++) {
    int64_t c0 = s->c * t / tiles, c1 = s->c * (t + 1) / tiles;
    for (int lane = 0; lane < LANES; lane += VW)
      for (int64_t y = 0; y < s->h; y++)
        for (int64_t x = 0; x < s->w; x += CONV_POSITIONS)
          grad_x_any((int)(c1 - c0), s, d + lane, w + c0 * s->o, y, x, (int)MIN_OF(s->w - x, (int64_t)CONV_POSITIONS),
                     dx + ((y * s->w + x) * s->c + c0) * LANES + lane);
  }
}

/* Any stride: each output adds to the window it came from. */
static void grad_x_strided(const conv_shape *s, const float *d, const float *w, float *dx) {
  memset(dx, 0, (size_t)(s->h * s->w * s->c * LANES) * sizeof *dx);
  for (int64_t r = 0; r < s->oh; r++)
    for (int64_t q = 0; q < s->ow; q++)
      for (int64_t ky = 0; ky < s->kh; ky++)
        for (int64_t kx = 0; kx < s->kw; kx++) {
          int64_t y = r * s->sh + ky - s->pt, x = q * s->sw + kx - s->pl;
          if (y < 0 || y >= s->h || x < 0 || x >= s->w) continue;
          for (int64_t c = 0; c < s->c; c++)
            for (int lane = 0; lane < LANES; lane += VW) {
              float *to = dx + ((y * s->w + x) * s->c + c) * LANES + lane;
              const float *k = w + ((ky * s->kw + kx) * s->c + c) * s->o;
              const float *e = d + (r * s->ow + q) * s->o * LANES + lane;
              vf sum = v_load(to);
              for (int64_t o = 0; o < s->o; o++) sum += v_set(k[o]) * v_load(e + o * LANES);
              v_store(to, sum);
            }
        }
}

static shoal_status conv_backward_x(const kernel_call *call, bool block) {
  const shoal_tensor *dy = &call->in[0], *w = &call->in[1];
  const conv_shape s = conv_shape_of(&call->in[2].shape, &w->shape, call->attr, block);
  const bool expand = s.pool != POOL_NONE;
  float *d = call->scratch;
  const int64_t image = s.h * s.w * s.c * LANES, result = lanes_features(dy) * LANES;
  const size_t aux_bytes =
      block ? (size_t)(lanes_features(&call->in[4]) * LANES) * shoal_dtype_size(call->in[4].dtype) : 0;
  for (int64_t b = 0; b < lanes_blocks(dy); b++) {
    const float *grad = (const float *)dy->data + b * result;
    if (expand) {
      conv_expand(&s, grad, (const float *)call->in[3].data + b * result,
                  (const char *)call->in[4].data + (size_t)b * aux_bytes, 0, s.oh, d);
      grad = d;
    }
    float *dx = (float *)call->out[0].data + b * image;
    if (s.sh == 1 && s.sw == 1)
      grad_x_block(&s, grad, w->data, dx);
    else
      grad_x_strided(&s, grad, w->data, dx);
  }
  return NULL;
}

shoal_status ISA_NAME(lanes_conv_grad_x)(const kernel_call *call) { return conv_backward_x(call, false); }
shoal_status ISA_NAME(lanes_conv_block_grad_x)(const kernel_call *call) { return conv_backward_x(call, true); }
