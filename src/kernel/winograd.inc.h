/* Convolution on LANES by Winograd's minimal filtering (Lavin and Gray, 2016), with the six points 0, 1, -1, 2, -2
 * and infinity: filters of r x r on tiles of m x m outputs, r + m = 7, cost 36 products a tile instead of r r m m: a
 * quarter for 3 x 3 filters, 36 hundredths for 5 x 5. Between the transforms stand 36 matrix products, one for each
 * frequency. The sixteen images of a vector go through all of it side by side, so the transforms need no shuffling.
 *
 * A stride is taken away first: cells of step x step pixels are seen as one pixel of step * step * channels, which the
 * filter, filled up with zeros, meets with stride 1. The gradient of the image is the convolution of the output's
 * gradient with the mirrored filter. Included by the files lanes_*.c. */

#define WINO_VECTORS 4                 /* tiles (or vectors of channels) that a product's tile spans */
#define WINO_DEPTH 128                 /* of a product, at a time: 128 x 4 vectors stay in the first-level cache */
#define WINO_WIDTH (WINO_VECTORS * VW) /* at least LANES */
#if V_REGISTERS == 32
#define WINO_OUT 6
#else
#define WINO_OUT 3
#endif

typedef struct {
  int64_t h, w, c;    /* input, in cells, and their channels */
  int64_t step;       /* pixels of a cell's side */
  int64_t row, pixel; /* floats from one row of pixels to the next, from one pixel to the next, as it lies in memory */
  int64_t oh, ow, o;  /* output */
  int64_t r, m;       /* sides of filter and output tile */
  int64_t pt, pl;     /* padding, cells */
  int64_t th, tw;     /* tiles down and across */
  int64_t packs;      /* of filters */
  int64_t group;      /* tiles carried through at a time */
  int64_t v_step, m_step; /* floats from one frequency to the next, transformed input and output */
} wino_shape;

/* Frequencies are an odd number of cache lines apart: 36 that fall into one set of the cache would evict each other. */
static int64_t wino_apart(int64_t vectors) { return (vectors | 1) * VW; }

static wino_shape wino_complete(wino_shape s) {
  s.m = WINO_SIDE + 1 - s.r;
  s.th = (s.oh + s.m - 1) / s.m;
  s.tw = (s.ow + s.m - 1) / s.m;
  s.packs = (s.o + WINO_PACK - 1) / WINO_PACK;
  s.group = s.c + s.o <= WINO_FEW ? WINO_VECTORS : WINO_GROUP;
  s.v_step = wino_apart(s.group * s.c);
  s.m_step = wino_apart(s.group * s.packs * WINO_PACK);
  return s;
}

static wino_shape wino_forward_shape(const conv_shape *s) {
  wino_shape n = {.step = s->sh, .row = s->w * s->c * LANES, .pixel = s->c * LANES};
  n.h = s->h / s->sh;
  n.w = s->w / s->sh;
  n.c = s->c * s->sh * s->sh;
  n.oh = s->oh;
  n.ow = s->ow;
  n.o = s->o;
  n.r = (s->kh + s->sh - 1) / s->sh;
  n.pt = s->pt;
  n.pl = s->pl;
  return wino_complete(n);
}

/* From the output's gradient to the image's. */
static wino_shape wino_mirrored_shape(const conv_shape *s) {
  wino_shape n = {.step = 1, .row = s->ow * s->o * LANES, .pixel = s->o * LANES};
  n.h = s->oh;
  n.w = s->ow;
  n.c = s->o;
  n.oh = s->h;
  n.ow = s->w;
  n.o = s->c;
  n.r = s->kh;
  n.pt = s->kh - 1 - s->pt;
  n.pl = s->kw - 1 - s->pl;
  return wino_complete(n);
}

/* ---- filters */

/* Row i of G times the filter's column: point p's row is scale(p) (1, p, p^2 ...), infinity's picks the last. */
static void wino_filter_matrix(int64_t r, float g[WINO_SIDE][WINO_SIDE]) {
  static const float points[] = {0, 1, -1, 2, -2}, scales[] = {1 / 4.0f, -1 / 6.0f, -1 / 6.0f, 1 / 24.0f, 1 / 24.0f};
  for (int i = 0; i < WINO_SIDE - 1; i++) {
    float power = scales[i];
    for (int64_t j = 0; j < r; j++, power *= points[i]) g[i][j] = power;
  }
  for (int64_t j = 0; j < r; j++) g[WINO_SIDE - 1][j] = j == r - 1;
}

/* Where weight (a, b) of channel k and filter i stands in w; NULL: it is one of the zeros that fill the filter up. */
INLINE const float *wino_weight(const wino_shape *s, const conv_shape *v, const float *w, bool mirrored, int64_t a,
                                int64_t b, int64_t k, int64_t i) {
  if (mirrored) return w + (((v->kh - 1 - a) * v->kw + v->kw - 1 - b) * v->c + i) * v->o + k;
  const int64_t y = a * s->step + k / (s->step * v->c), rest = k % (s->step * v->c), x = b * s->step + rest / v->c;
  if (y >= v->kh || x >= v->kw) return NULL;
  return w + ((y * v->kw + x) * v->c + rest % v->c) * v->o + i;
}

/* u [36][packs][c][6] = G filter G^T */
static void wino_filters(const wino_shape *s, const conv_shape *v, const float *w, bool mirrored, float *u) {
  enum { WIDE = 8 };
  float g[WINO_SIDE][WINO_SIDE];
  wino_filter_matrix(s->r, g);
  const int64_t next = mirrored ? v->o : 1; /* from one filter to the next */
  for (int64_t p = 0; p < s->packs; p++)
    for (int64_t k = 0; k < s->c; k++) {
      float f[WINO_SIDE][WINO_SIDE][WIDE], half[WINO_SIDE][WINO_SIDE][WIDE];
      const int64_t live = MIN_OF((int64_t)WINO_PACK, s->o - p * WINO_PACK);
      for (int64_t a = 0; a < s->r; a++)
        for (int64_t b = 0; b < s->r; b++) {
          const float *from = wino_weight(s, v, w, mirrored, a, b, k, p * WINO_PACK);
          for (int64_t i = 0; i < WIDE; i++) f[a][b][i] = from && i < live ? from[i * next] : 0;
        }
      for (int y = 0; y < WINO_SIDE; y++)
        for (int64_t b = 0; b < s->r; b++) {
          float sum[WIDE] = {0};
          for (int64_t a = 0; a < s->r; a++)
            for (int i = 0; i < WIDE; i++) sum[i] += g[y][a] * f[a][b][i];
          memcpy(half[y][b], sum, sizeof sum);
        }
      for (int y = 0; y < WINO_SIDE; y++)
        for (int x = 0; x < WINO_SIDE; x++) {
          float sum[WIDE] = {0};
          for (int64_t b = 0; b < s->r; b++)
            for (int i = 0; i < WIDE; i++) sum[i] += g[x][b] * half[y][b][i];
          memcpy(u + (((y * WINO_SIDE + x) * s->packs + p) * s->c + k) * WINO_PACK, sum, WINO_PACK * sizeof *sum);
        }
    }
}

/* ---- transforms of tiles, first down the columns, then along the rows */

/* B^T d */
INLINE void wino_in(const vf d[WINO_SIDE], vf out[WINO_SIDE]) {
  const vf four = v_set(4), five = v_set(5);
  vf a = d[4] - four * d[2], b = d[3] - four * d[1], c = d[4] - d[2], e = d[3] - d[1];
  e = e + e;
  out[0] = four * d[0] - five * d[2] + d[4];
  out[1] = a + b;
  out[2] = a - b;
  out[3] = c + e;
  out[4] = c - e;
  out[5] = four * d[1] - five * d[3] + d[5];
}

/* A^T d: M sums of six */
INLINE void wino_out(const int M, const vf d[WINO_SIDE], vf out[WINO_SIDE]) {
  vf a = d[1] + d[2], b = d[1] - d[2], c = d[3] + d[4], e = d[3] - d[4];
  out[0] = d[0] + a + c;
  out[1] = b + v_set(2) * e;
  if (M > 2) out[2] = a + v_set(4) * c;
  if (M > 3) out[3] = b + v_set(8) * e;
  if (M > 4) out[4] = a + v_set(16) * c;
  out[M - 1] += d[5];
}

/* A d: six sums of M */
INLINE void wino_back(const int M, const vf d[WINO_SIDE], vf out[WINO_SIDE]) {
  vf even = d[0], odd = d[1], even2 = d[0], odd2 = v_set(2) * d[1];
  if (M > 2) even += d[2], even2 += v_set(4) * d[2];
  if (M > 3) odd += d[3], odd2 += v_set(8) * d[3];
  if (M > 4) even += d[4], even2 += v_set(16) * d[4];
  out[0] = d[0];
  out[1] = even + odd;
  out[2] = even - odd;
  out[3] = even2 + odd2;
  out[4] = even2 - odd2;
  out[5] = d[M - 1];
}

/* Tile number t of the whole (all blocks), at cell (y, x) of its output. */
typedef struct {
  int64_t block, y, x;
} wino_place;

INLINE wino_place wino_place_of(const wino_shape *s, int64_t t) {
  const int64_t tiles = s->th * s->tw, in = t % tiles;
  return (wino_place){t / tiles, in / s->tw * s->m, in % s->tw * s->m};
}

/* Where the 6 x 6 cells under a tile lie; `zeros` for those outside the image. x: of this block. */
INLINE void wino_cells(const wino_shape *s, wino_place at, const float *x, const float *zeros,
                       const float *cell[WINO_POINTS]) {
  for (int i = 0; i < WINO_SIDE; i++)
    for (int j = 0; j < WINO_SIDE; j++) {
      const int64_t row = at.y - s->pt + i, column = at.x - s->pl + j;
      const bool inside = row >= 0 && row < s->h && column >= 0 && column < s->w;
      cell[i * WINO_SIDE + j] = inside ? x + row * s->step * s->row + column * s->step * s->pixel : zeros;
    }
}

/* Floats from a cell's first pixel to its channel k: channels of a row of pixels lie one after another. */
INLINE int64_t wino_channel(const wino_shape *s, int64_t k) {
  const int64_t line = s->step * s->pixel / LANES;
  return k / line * s->row + k % line * LANES;
}

INLINE void wino_transform_in(const float *const cell[WINO_POINTS], int64_t at, vf out[WINO_POINTS]) {
  vf half[WINO_SIDE][WINO_SIDE];
  UNROLL for (int j = 0; j < WINO_SIDE; j++) {
    vf d[WINO_SIDE], e[WINO_SIDE];
    UNROLL for (int i = 0; i < WINO_SIDE; i++) d[i] = v_load(cell[i * WINO_SIDE + j] + at);
    wino_in(d, e);
    UNROLL for (int i = 0; i < WINO_SIDE; i++) half[i][j] = e[i];
  }
  UNROLL for (int i = 0; i < WINO_SIDE; i++) wino_in(half[i], out + i * WINO_SIDE);
}

/* v [36][group / 4][c][4] of tiles first .. first + n - 1; those missing to a whole group of four are zero. */
static void wino_load(const wino_shape *s, const float *x, int64_t block_floats, int64_t first, int64_t n, int lane,
                      const float *zeros, float *v) {
  for (int64_t t = 0; t < (n + WINO_VECTORS - 1) / WINO_VECTORS * WINO_VECTORS; t++) {
    float *to = v + (t / WINO_VECTORS * s->c * WINO_VECTORS + t % WINO_VECTORS) * VW;
    const wino_place at = wino_place_of(s, first + MIN_OF(t, n - 1));
    const float *cell[WINO_POINTS];
    wino_cells(s, at, x + at.block * block_floats + lane, zeros, cell);
    for (int64_t k = 0; k < s->c; k++) {
      vf e[WINO_POINTS];
      wino_transform_in(cell, wino_channel(s, k), e);
      UNROLL for (int f = 0; f < WINO_POINTS; f++) v_store(to + f * s->v_step + k * WINO_WIDTH, e[f]);
    }
  }
}

/* M outputs a side of one tile and one channel; y at the tile's first output, `rows` x `columns` of it are wanted. */
INLINE void wino_finish(const int M, const float *from, int64_t apart, vf bias, vf floor, float *y, int64_t pixel,
                        int64_t line, int64_t rows, int64_t columns) {
  vf half[WINO_SIDE][WINO_SIDE];
  UNROLL for (int j = 0; j < WINO_SIDE; j++) {
    vf d[WINO_SIDE], e[WINO_SIDE];
    UNROLL for (int i = 0; i < WINO_SIDE; i++) d[i] = v_load(from + (i * WINO_SIDE + j) * apart);
    wino_out(M, d, e);
    UNROLL for (int i = 0; i < M; i++) half[i][j] = e[i];
  }
  UNROLL for (int i = 0; i < M; i++) {
    vf e[WINO_SIDE];
    wino_out(M, half[i], e);
    if (i < rows) {
      UNROLL for (int j = 0; j < M; j++) if (j < columns) v_store(y + i * line + j * pixel, v_max(floor, e[j] + bias));
    }
  }
}

#define WINO_STORE_CASE(M)                                                                                            \
  case M:                                                                                                             \
    for (int64_t i = 0; i < s->o; i++)                                                                                \
      wino_finish(M, from + i * WINO_WIDTH, s->m_step, v_set(bias ? bias[i] : 0), floor, to + i * LANES, pixel, line, \
                  rows, columns);                                                                                     \
    break;

/* The outputs of tiles first .. first + n - 1 from m [36][group / 4][o][4]. */
static void wino_store(const wino_shape *s, const float *m, int64_t first, int64_t n, int lane, const float *bias,
                       activation act, float *y) {
  const int64_t pixel = s->o * LANES, line = s->ow * pixel;
  const vf floor = conv_floor(act);
  for (int64_t t = 0; t < n; t++) {
    const wino_place at = wino_place_of(s, first + t);
    const float *from = m + (t / WINO_VECTORS * s->packs * WINO_PACK * WINO_VECTORS + t % WINO_VECTORS) * VW;
    float *to = y + ((at.block * s->oh + at.y) * s->ow + at.x) * pixel + lane;
    const int64_t rows = MIN_OF(s->m, s->oh - at.y), columns = MIN_OF(s->m, s->ow - at.x);
    switch (s->m) {
      WINO_STORE_CASE(2)
      WINO_STORE_CASE(3)
      WINO_STORE_CASE(4)
      WINO_STORE_CASE(5)
    }
    for (int64_t i = 0; i < rows; i++)
      for (int64_t j = 0; j < columns; j++) conv_activate_stored(s->o, to + i * line + j * pixel, act);
  }
}

/* ---- products */

/* m [OT][4] (+)= sum over k of u [k][6] v [k][4] */
INLINE void wino_tile(const int OT, const float *u, const float *v, int64_t depth, float *m, bool add) {
  vf a[WINO_OUT][WINO_VECTORS];
  UNROLL for (int i = 0; i < OT; i++) {
    UNROLL for (int j = 0; j < WINO_VECTORS; j++) a[i][j] = add ? v_load(m + i * WINO_WIDTH + j * VW) : V_ZERO;
  }
  for (int64_t k = 0; k < depth; k++) {
    vf x[WINO_VECTORS];
    UNROLL for (int j = 0; j < WINO_VECTORS; j++) {
      x[j] = v_load(v + j * VW);
      V_KEEP(x[j]);
    }
    UNROLL for (int i = 0; i < OT; i++) {
      vf c = v_set(u[i]);
      V_KEEP(c);
      UNROLL for (int j = 0; j < WINO_VECTORS; j++) a[i][j] += c * x[j];
    }
    u += WINO_PACK;
    v += WINO_WIDTH;
  }
  UNROLL for (int i = 0; i < OT; i++) {
    UNROLL for (int j = 0; j < WINO_VECTORS; j++) v_store(m + i * WINO_WIDTH + j * VW, a[i][j]);
  }
}

static __attribute__((noinline)) void wino_tile_set(const float *u, const float *v, int64_t depth, float *m) {
  wino_tile(WINO_OUT, u, v, depth, m, false);
}
static __attribute__((noinline)) void wino_tile_add(const float *u, const float *v, int64_t depth, float *m) {
  wino_tile(WINO_OUT, u, v, depth, m, true);
}

/* All frequencies of `quads` times four tiles. */
static void wino_products(const wino_shape *s, const float *u, const float *v, int64_t quads, float *m) {
  for (int64_t f = 0; f < WINO_POINTS; f++)
    for (int64_t k = 0; k < s->c; k += WINO_DEPTH) {
      const int64_t depth = MIN_OF((int64_t)WINO_DEPTH, s->c - k);
      for (int64_t q = 0; q < quads; q++)
        for (int64_t p = 0; p < s->packs; p++) {
          const float *up = u + ((f * s->packs + p) * s->c + k) * WINO_PACK;
          const float *vp = v + f * s->v_step + (q * s->c + k) * WINO_WIDTH;
          float *mp = m + f * s->m_step + (q * s->packs + p) * WINO_PACK * WINO_WIDTH;
          for (int i = 0; i < WINO_PACK; i += WINO_OUT)
            if (k)
              wino_tile_add(up + i, vp, depth, mp + i * WINO_WIDTH);
            else
              wino_tile_set(up + i, vp, depth, mp + i * WINO_WIDTH);
        }
    }
}

/* ---- forward, and backward to the image */

/* Scratch: transformed filters, a cell of zeros, transformed tiles in, transformed tiles out. */
static void wino_convolve(const wino_shape *s, const conv_shape *v, const float *x, const float *w, bool mirrored,
                          const float *bias, activation act, int64_t blocks, float *scratch, float *y) {
  const int64_t filters = WINO_POINTS * s->packs * WINO_PACK * s->c;
  const int64_t cell = (s->step - 1) * s->row + s->step * s->pixel;
  float *u = scratch, *zeros = u + (filters + LANES - 1) / LANES * LANES, *in = zeros + cell;
  float *out = in + WINO_POINTS * s->v_step;
  wino_filters(s, v, w, mirrored, u);
  memset(zeros, 0, (size_t)cell * sizeof *zeros);
  const int64_t tiles = blocks * s->th * s->tw, block = s->h * s->step * s->row;
  for (int lane = 0; lane < LANES; lane += VW)
    for (int64_t t = 0; t < tiles; t += s->group) {
      const int64_t n = MIN_OF(s->group, tiles - t);
      wino_load(s, x, block, t, n, lane, zeros, in);
      wino_products(s, u, in, (n + WINO_VECTORS - 1) / WINO_VECTORS, out);
      wino_store(s, out, t, n, lane, bias, act, y);
    }
}

static shoal_status wino_forward(const kernel_call *call, bool block) {
  const shoal_tensor *x = &call->in[0], *w = &call->in[1];
  const conv_shape v = conv_shape_of(&x->shape, &w->shape, call->attr, block);
  const wino_shape s = wino_forward_shape(&v);
  wino_convolve(&s, &v, x->data, w->data, false, block ? call->in[2].data : NULL, v.act, lanes_blocks(x), call->scratch,
                call->out[0].data);
  return NULL;
}

shoal_status ISA_NAME(winograd_conv)(const kernel_call *call) { return wino_forward(call, false); }
shoal_status ISA_NAME(winograd_conv_block)(const kernel_call *call) { return wino_forward(call, true); }

shoal_status ISA_NAME(winograd_conv_grad_x)(const kernel_call *call) {
  const shoal_tensor *dy = &call->in[0], *w = &call->in[1];
  const conv_shape v = conv_shape_of(&call->in[2].shape, &w->shape, call->attr, false);
  const wino_shape s = wino_mirrored_shape(&v);
  wino_convolve(&s, &v, dy->data, w->data, true, NULL, ACT_LINEAR, lanes_blocks(dy), call->scratch, call->out[0].data);
  return NULL;
}

/* ---- backward to the filter: the forward pass turned round. The filter's gradient at a frequency is the sum over
 * tiles and images of transformed input times transformed gradient, the latter turned so that its channels fill the
 * vectors. */

/* 16 vectors of 16 lanes, turned: to[i * stride + k] = from[k * 16 + i] */
INLINE void wino_turn(const float *from, float *to, int64_t stride) {
#if VW == 16
  vf a[16], b[16];
  UNROLL for (int i = 0; i < 16; i++) a[i] = v_load(from + i * 16);
  UNROLL for (int i = 0; i < 16; i += 2) {
    b[i] = (vf)_mm512_unpacklo_ps((__m512)a[i], (__m512)a[i + 1]);
    b[i + 1] = (vf)_mm512_unpackhi_ps((__m512)a[i], (__m512)a[i + 1]);
  }
  UNROLL for (int i = 0; i < 16; i += 4) {
    a[i] = (vf)_mm512_unpacklo_pd((__m512d)b[i], (__m512d)b[i + 2]);
    a[i + 1] = (vf)_mm512_unpackhi_pd((__m512d)b[i], (__m512d)b[i + 2]);
    a[i + 2] = (vf)_mm512_unpacklo_pd((__m512d)b[i + 1], (__m512d)b[i + 3]);
    a[i + 3] = (vf)_mm512_unpackhi_pd((__m512d)b[i + 1], (__m512d)b[i + 3]);
  }
  /* a[4 q + j] holds column 4 l + j of rows 4 q .. 4 q + 3 in its quarter l */
  UNROLL for (int j = 0; j < 4; j++) {
    __m512 lo = _mm512_shuffle_f32x4((__m512)a[j], (__m512)a[4 + j], 0x88);
    __m512 hi = _mm512_shuffle_f32x4((__m512)a[8 + j], (__m512)a[12 + j], 0x88);
    v_store(to + j * stride, (vf)_mm512_shuffle_f32x4(lo, hi, 0x88));
    v_store(to + (8 + j) * stride, (vf)_mm512_shuffle_f32x4(lo, hi, 0xdd));
    lo = _mm512_shuffle_f32x4((__m512)a[j], (__m512)a[4 + j], 0xdd);
    hi = _mm512_shuffle_f32x4((__m512)a[8 + j], (__m512)a[12 + j], 0xdd);
    v_store(to + (4 + j) * stride, (vf)_mm512_shuffle_f32x4(lo, hi, 0x88));
    v_store(to + (12 + j) * stride, (vf)_mm512_shuffle_f32x4(lo, hi, 0xdd));
  }
#else
  for (int i = 0; i < LANES; i++)
    for (int k = 0; k < LANES; k++) to[i * stride + k] = from[k * LANES + i];
#endif
}

typedef struct {
  wino_shape s;
  int64_t ins, outs;      /* channels, rounded up to whole tiles of the product */
  int64_t v_step, z_step; /* floats from one frequency to the next */
} wino_grad;

/* v [36][ins][group][16] of tiles first .. first + n - 1 */
static void wino_grad_load(const wino_grad *g, const float *x, int64_t first, int64_t n, const float *zeros, float *v) {
  const wino_shape *s = &g->s;
  for (int64_t t = 0; t < n; t++) {
    const wino_place at = wino_place_of(s, first + t);
    for (int lane = 0; lane < LANES; lane += VW) {
      const float *cell[WINO_POINTS];
      wino_cells(s, at, x + at.block * s->h * s->step * s->row + lane, zeros, cell);
      for (int64_t k = 0; k < s->c; k++) {
        vf e[WINO_POINTS];
        wino_transform_in(cell, wino_channel(s, k), e);
        UNROLL for (int f = 0; f < WINO_POINTS; f++)
            v_store(v + f * g->v_step + (k * s->group + t) * LANES + lane, e[f]);
      }
    }
  }
}

/* The transformed gradient of one channel; dy at the tile's first output, `rows` x `columns` of it exist.
 * to [36][16][16]: channel and lane of this one. */
INLINE void wino_back_tile(const int M, const float *dy, int64_t pixel, int64_t line, int64_t rows, int64_t columns,
                           float *to) {
  vf half[WINO_SIDE][WINO_SIDE];
  UNROLL for (int j = 0; j < M; j++) {
    vf d[WINO_SIDE], e[WINO_SIDE];
    UNROLL for (int i = 0; i < M; i++) d[i] = i < rows && j < columns ? v_load(dy + i * line + j * pixel) : V_ZERO;
    wino_back(M, d, e);
    UNROLL for (int i = 0; i < WINO_SIDE; i++) half[i][j] = e[i];
  }
  UNROLL for (int i = 0; i < WINO_SIDE; i++) {
    vf e[WINO_SIDE];
    wino_back(M, half[i], e);
    UNROLL for (int j = 0; j < WINO_SIDE; j++) v_store(to + (i * WINO_SIDE + j) * LANES * LANES, e[j]);
  }
}

#define WINO_BACK_CASE(M) \
  case M: wino_back_tile(M, dy, pixel, line, rows, columns, to); break;

static void wino_back_any(int64_t m, const float *dy, int64_t pixel, int64_t line, int64_t rows, int64_t columns,
                          float *to) {
  switch (m) {
    WINO_BACK_CASE(2)
    WINO_BACK_CASE(3)
    WINO_BACK_CASE(4)
    WINO_BACK_CASE(5)
  }
}

/* z [36][outs / WIDTH][group * 16][WIDTH]; turning: [36][16][16] */
static void wino_grad_back(const wino_grad *g, const float *dy, int64_t first, int64_t n, float *turning, float *z) {
  const wino_shape *s = &g->s;
  const int64_t pixel = s->o * LANES, line = s->ow * pixel;
  for (int64_t t = 0; t < n; t++) {
    const wino_place at = wino_place_of(s, first + t);
    const float *from = dy + ((at.block * s->oh + at.y) * s->ow + at.x) * pixel;
    const int64_t rows = MIN_OF(s->m, s->oh - at.y), columns = MIN_OF(s->m, s->ow - at.x);
    for (int64_t o = 0; o < s->o; o += LANES) {
      for (int64_t i = 0; i < LANES; i++)
        for (int lane = 0; lane < LANES; lane += VW)
          if (o + i < s->o)
            wino_back_any(s->m, from + (o + i) * LANES + lane, pixel, line, rows, columns, turning + i * LANES + lane);
          else
            for (int f = 0; f < WINO_POINTS; f++) v_store(turning + (f * LANES + i) * LANES + lane, V_ZERO);
      float *to = z + o / WINO_WIDTH * s->group * LANES * WINO_WIDTH + t * LANES * WINO_WIDTH + o % WINO_WIDTH;
      for (int f = 0; f < WINO_POINTS; f++) wino_turn(turning + f * LANES * LANES, to + f * g->z_step, WINO_WIDTH);
    }
  }
}

/* du [OT][WIDTH] += sum over n of v [OT][n] z [n][WIDTH]; rows of v and du stand v_row and du_row floats apart. */
INLINE void wino_grad_tile(const int OT, const float *v, int64_t v_row, const float *z, int64_t depth, float *du,
                           int64_t du_row) {
  vf a[WINO_OUT][WINO_VECTORS];
  UNROLL for (int i = 0; i < OT; i++) {
    UNROLL for (int j = 0; j < WINO_VECTORS; j++) a[i][j] = v_load(du + i * du_row + j * VW);
  }
  for (int64_t k = 0; k < depth; k++) {
    vf x[WINO_VECTORS];
    UNROLL for (int j = 0; j < WINO_VECTORS; j++) {
      x[j] = v_load(z + j * VW);
      V_KEEP(x[j]);
    }
    UNROLL for (int i = 0; i < OT; i++) {
      vf c = v_set(v[i * v_row + k]);
      V_KEEP(c);
      UNROLL for (int j = 0; j < WINO_VECTORS; j++) a[i][j] += c * x[j];
    }
    z += WINO_WIDTH;
  }
  UNROLL for (int i = 0; i < OT; i++) {
    UNROLL for (int j = 0; j < WINO_VECTORS; j++) v_store(du + i * du_row + j * VW, a[i][j]);
  }
}

static __attribute__((noinline)) void wino_grad_tile_any(const float *v, int64_t v_row, const float *z, int64_t depth,
                                                         float *du, int64_t du_row) {
  wino_grad_tile(WINO_OUT, v, v_row, z, depth, du, du_row);
}

/* du [36][ins][outs] += all frequencies of n tiles. */
static void wino_grad_products(const wino_grad *g, const float *v, const float *z, int64_t n, float *du) {
  const int64_t v_row = g->s.group * LANES, depth = n * LANES;
  for (int64_t f = 0; f < WINO_POINTS; f++)
    for (int64_t k = 0; k < depth; k += WINO_DEPTH)
      for (int64_t o = 0; o < g->outs; o += WINO_WIDTH) {
        const float *zp = z + f * g->z_step + (o / WINO_WIDTH * g->s.group * LANES + k) * WINO_WIDTH;
        for (int64_t c = 0; c < g->ins; c += WINO_OUT)
          wino_grad_tile_any(v + f * g->v_step + c * v_row + k, v_row, zp, MIN_OF((int64_t)WINO_DEPTH, depth - k),
                             du + (f * g->ins + c) * g->outs + o, g->outs);
      }
}

/* dw (+)= G^T du G */
static void wino_filters_back(const wino_grad *g, const conv_shape *v, const float *du, bool accumulate, float *dw) {
  const wino_shape *s = &g->s;
  float matrix[WINO_SIDE][WINO_SIDE];
  wino_filter_matrix(s->r, matrix);
  for (int64_t k = 0; k < s->c; k++)
    for (int64_t o = 0; o < s->o; o += VW) {
      vf half[WINO_SIDE][WINO_SIDE]; /* [a][frequency along] */
      for (int x = 0; x < WINO_SIDE; x++)
        for (int64_t a = 0; a < s->r; a++) {
          vf sum = V_ZERO;
          for (int y = 0; y < WINO_SIDE; y++)
            sum += v_set(matrix[y][a]) * v_load(du + ((y * WINO_SIDE + x) * g->ins + k) * g->outs + o);
          half[a][x] = sum;
        }
      for (int64_t a = 0; a < s->r; a++)
        for (int64_t b = 0; b < s->r; b++) {
          float *to = (float *)wino_weight(s, v, dw, false, a, b, k, o);
          if (!to) continue;
          vf sum = V_ZERO;
          for (int x = 0; x < WINO_SIDE; x++) sum += v_set(matrix[x][b]) * half[a][x];
          float part[VW];
          v_store(part, sum);
          for (int64_t i = 0; i < MIN_OF((int64_t)VW, s->o - o); i++) to[i] = part[i] + (accumulate ? to[i] : 0);
        }
    }
}

/* Scratch: du, zeros, turning, v, z. */
shoal_status ISA_NAME(winograd_conv_grad_w)(const kernel_call *call) {
  const shoal_tensor *x = &call->in[0], *dy = &call->in[1];
  const conv_shape v = conv_shape_of(&x->shape, &call->out[0].shape, call->attr, false);
  wino_grad g = {.s = wino_forward_shape(&v)};
  const wino_shape *s = &g.s;
  g.ins = (s->c + WINO_PACK - 1) / WINO_PACK * WINO_PACK;
  g.outs = (s->o + WINO_WIDTH - 1) / WINO_WIDTH * WINO_WIDTH;
  g.v_step = (s->group * g.ins * LANES / VW | 1) * VW;
  g.z_step = (s->group * g.outs * LANES / VW | 1) * VW;
  const int64_t cell = (s->step - 1) * s->row + s->step * s->pixel;
  float *du = call->scratch, *zeros = du + WINO_POINTS * g.ins * g.outs, *turning = zeros + cell;
  float *in = turning + WINO_POINTS * LANES * LANES, *back = in + WINO_POINTS * g.v_step;
  memset(du, 0, (size_t)(WINO_POINTS * g.ins * g.outs + cell) * sizeof *du);
  /* Channels that only fill up tiles of the product are never set. */
  memset(in, 0, (size_t)(WINO_POINTS * (g.v_step + g.z_step)) * sizeof *in);
  const int64_t tiles = lanes_blocks(x) * s->th * s->tw;
  for (int64_t t = 0; t < tiles; t += s->group) {
    const int64_t n = MIN_OF(s->group, tiles - t);
    wino_grad_load(&g, x->data, t, n, zeros, in);
    wino_grad_back(&g, dy->data, t, n, turning, back);
    wino_grad_products(&g, in, back, n, du);
  }
  wino_filters_back(&g, &v, du, call->accumulate, call->out[0].data);
  return NULL;
}
