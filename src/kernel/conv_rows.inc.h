/* Convolutions of images in rows, [n, h, w, c], as products of whole matrices: a row of A is what one place of the
 * output sees of the image, gathered while it is copied into a panel, B is the filters. For layers of many channels and
 * few places, where the filters are the larger part. The panels and tiles are those of gemm.inc.h, and again the order
 * in which a number is added up depends on the shapes alone. Included by the files lanes_*.c. */

typedef struct {
  int64_t n, h, w, c; /* the images */
  int64_t oh, ow, o;  /* places and channels of the output */
  int64_t kh, kw;     /* the filters [kh, kw, c, o] */
  int64_t sh, sw;     /* strides */
  int64_t top, left;  /* padding */
  int64_t dh, dw;     /* dilation */
  const float *x;     /* forward, to the filters: the images */
  const float *f;     /* forward, to the images: the filters */
  const float *dy;    /* backward */
  float *out;         /* what is computed */
  gemm_panels b;
  const float *zeros; /* as many as there are channels: the image beyond its border */
  bool add;           /* to what `out` holds */
} conv_rows;

static conv_rows conv_rows_of(const kernel_call *call, const shoal_shape *x, const shoal_shape *w,
                              const shoal_shape *y) {
  const attr_value *attr = call->attr;
  return (conv_rows){.n = x->dim[0],
                     .h = x->dim[1],
                     .w = x->dim[2],
                     .c = x->dim[3],
                     .oh = y->dim[1],
                     .ow = y->dim[2],
                     .o = y->dim[3],
                     .kh = w->dim[0],
                     .kw = w->dim[1],
                     .sh = attr[CONV_STRIDE_H].i,
                     .sw = attr[CONV_STRIDE_W].i,
                     .top = attr[CONV_PAD_TOP].i,
                     .left = attr[CONV_PAD_LEFT].i,
                     .dh = attr[CONV_DILATION_H].i,
                     .dw = attr[CONV_DILATION_W].i,
                     .out = call->out[0].data};
}

/* They stand behind the panels. */
static float *conv_rows_zeros(const gemm_panels *b, int64_t channels) {
  float *at = b->data + gemm_panels_wide(b) * GEMM_COLUMNS * b->depth;
  memset(at, 0, (size_t)channels * sizeof *at);
  return at;
}

/* B is a matrix as it lies: the filters, or the gradient of the output. */
typedef struct {
  const gemm_panels *panels;
  const float *b;
} conv_rows_copy;

static void conv_rows_pack_share(void *context, int thread, int threads) {
  const conv_rows_copy *p = context;
  int64_t first, last;
  pool_share(gemm_panels_count(p->panels), 1, thread, threads, &first, &last);
  gemm_panels_pack(p->panels, (gemm_operand){p->b, 1, p->panels->columns}, first, last);
}

/* ---- forward */

static void conv_rows_share(void *context, int thread, int threads) {
  const conv_rows *r = context;
  const int64_t places = r->n * r->oh * r->ow, tiles = (places + GEMM_ROWS - 1) / GEMM_ROWS;
  float a[GEMM_ROWS * GEMM_DEPTH] __attribute__((aligned(64)));
  int64_t first, last;
  pool_share(tiles, 1, thread, threads, &first, &last);
  for (int64_t k0 = 0; k0 < r->b.depth; k0 += r->b.level)
    for (int64_t t = first; t < last; t++) {
      const int64_t m0 = places * t / tiles, rows = places * (t + 1) / tiles - m0;
      const int64_t end = MIN_OF(r->b.depth, k0 + r->b.level);
      for (int64_t k = k0, next; k < end; k = next) { /* as far as one tap of the filter goes */
        const int64_t tap = k / r->c, ky = tap / r->kw * r->dh - r->top, kx = tap % r->kw * r->dw - r->left;
        const float *pixels[GEMM_ROWS];
        next = MIN_OF(end, (tap + 1) * r->c);
        for (int64_t i = 0; i < rows; i++) {
          const int64_t m = m0 + i, y = m / r->ow % r->oh * r->sh + ky, x = m % r->ow * r->sw + kx;
          const bool inside = y >= 0 && y < r->h && x >= 0 && x < r->w;
          pixels[i] =
              inside ? r->x + ((m / (r->ow * r->oh) * r->h + y) * r->w + x) * r->c + (k - tap * r->c) : r->zeros;
        }
        gemm_pack_rows(pixels, rows, next - k, GEMM_ROWS, a + (k - k0) * GEMM_ROWS);
      }
      gemm_panels_multiply(&r->b, rows, a, k0, r->out + m0 * r->o, r->o, k0 > 0);
    }
}

/* x, w -> y */
shoal_status ISA_NAME(conv_rows)(const kernel_call *call) {
  conv_rows r = conv_rows_of(call, &call->in[0].shape, &call->in[1].shape, &call->out[0].shape);
  r.x = call->in[0].data;
  r.f = call->in[1].data;
  r.b = gemm_panels_of(call->scratch, r.kh * r.kw * r.c, r.o);
  r.zeros = conv_rows_zeros(&r.b, r.c);
  conv_rows_copy copy = {&r.b, r.f};
  pool_run(call->threads, conv_rows_pack_share, &copy);
  pool_run(call->threads, conv_rows_share, &r);
  return NULL;
}

/* ---- to the images: the pixels of a class, (y % sh, x % sw), are seen by the same taps of the filter */

typedef struct {
  int64_t y, x;                                             /* its first pixel */
  int64_t h, w;                                             /* its pixels of one image */
  int64_t first_y, step_y, taps_y, first_x, step_x, taps_x; /* the taps that see them */
} conv_class;

/* The taps k < count with (at + pad - k * dilation) % stride == 0: the first, how far apart, how many. */
static void conv_rows_taps(int64_t at, int64_t pad, int64_t count, int64_t stride, int64_t dilation, int64_t *first,
                           int64_t *step, int64_t *taps) {
  *first = *step = 0;
  *taps = 0;
  for (int64_t k = 0; k < count; k++) {
    if ((at + pad - k * dilation) % stride) continue;
    if (*taps == 0) *first = k;
    if (*taps == 1) *step = k - *first;
    ++*taps;
  }
}

static conv_class conv_rows_class(const conv_rows *r, int64_t which) {
  conv_class k = {.y = which / r->sw, .x = which % r->sw};
  k.h = (r->h - k.y + r->sh - 1) / r->sh;
  k.w = (r->w - k.x + r->sw - 1) / r->sw;
  conv_rows_taps(k.y, r->top, r->kh, r->sh, r->dh, &k.first_y, &k.step_y, &k.taps_y);
  conv_rows_taps(k.x, r->left, r->kw, r->sw, r->dw, &k.first_x, &k.step_x, &k.taps_x);
  return k;
}

typedef struct {
  conv_rows r; /* its panels are those of the class */
  conv_class k;
  float *rows; /* the result for the class, [n, k.h, k.w, c] */
} conv_rows_back;

/* Tap number `tap` of the class: in the filter. */
static int64_t conv_rows_tap_y(const conv_class *k, int64_t tap) { return k->first_y + tap / k->taps_x * k->step_y; }
static int64_t conv_rows_tap_x(const conv_class *k, int64_t tap) { return k->first_x + tap % k->taps_x * k->step_x; }

static void conv_rows_back_pack_share(void *context, int thread, int threads) {
  const conv_rows_back *b = context;
  const conv_rows *r = &b->r;
  const int64_t tiles = gemm_panels_wide(&r->b);
  int64_t first, last;
  pool_share(gemm_panels_count(&r->b), 1, thread, threads, &first, &last);
  for (int64_t t = first; t < last; t++) {
    const int64_t k0 = t / tiles * r->b.level, j = t % tiles, end = MIN_OF(r->b.depth, k0 + r->b.level);
    const int64_t columns = gemm_panels_width(&r->b, j);
    float *panel = gemm_panels_at(&r->b, k0, j);
    for (int64_t k = k0, next; k < end; k = next) {
      const int64_t tap = k / r->o, at = conv_rows_tap_y(&b->k, tap) * r->kw + conv_rows_tap_x(&b->k, tap);
      next = MIN_OF(end, (tap + 1) * r->o);
      gemm_pack_turned((gemm_operand){r->f + (at * r->c + j * GEMM_COLUMNS) * r->o + (k - tap * r->o), r->o, 1},
                       columns, next - k, GEMM_COLUMNS, panel + (k - k0) * GEMM_COLUMNS);
    }
    gemm_clear_rest(columns, end - k0, panel);
  }
}

static void conv_rows_back_share(void *context, int thread, int threads) {
  const conv_rows_back *b = context;
  const conv_rows *r = &b->r;
  const conv_class *c = &b->k;
  const int64_t pixels = r->n * c->h * c->w, tiles = (pixels + GEMM_ROWS - 1) / GEMM_ROWS;
  float a[GEMM_ROWS * GEMM_DEPTH] __attribute__((aligned(64)));
  int64_t first, last;
  pool_share(tiles, 1, thread, threads, &first, &last);
  for (int64_t k0 = 0; k0 < r->b.depth; k0 += r->b.level)
    for (int64_t t = first; t < last; t++) {
      const int64_t m0 = pixels * t / tiles, rows = pixels * (t + 1) / tiles - m0;
      const int64_t end = MIN_OF(r->b.depth, k0 + r->b.level);
      for (int64_t k = k0, next; k < end; k = next) {
        const int64_t tap = k / r->o, ky = r->top - conv_rows_tap_y(c, tap) * r->dh;
        const int64_t kx = r->left - conv_rows_tap_x(c, tap) * r->dw;
        const float *places[GEMM_ROWS];
        next = MIN_OF(end, (tap + 1) * r->o);
        for (int64_t i = 0; i < rows; i++) {
          const int64_t m = m0 + i, y = m / c->w % c->h * r->sh + c->y + ky, x = m % c->w * r->sw + c->x + kx;
          const bool inside = y >= 0 && y < r->oh * r->sh && x >= 0 && x < r->ow * r->sw;
          places[i] =
              inside ? r->dy + ((m / (c->w * c->h) * r->oh + y / r->sh) * r->ow + x / r->sw) * r->o + (k - tap * r->o)
                     : r->zeros;
        }
        gemm_pack_rows(places, rows, next - k, GEMM_ROWS, a + (k - k0) * GEMM_ROWS);
      }
      gemm_panels_multiply(&r->b, rows, a, k0, b->rows + m0 * r->c, r->c, k0 > 0);
    }
  if (b->rows == r->out) return;
  for (int64_t m = pixels * first / MAX_OF(tiles, 1); m < pixels * last / MAX_OF(tiles, 1); m++) {
    const int64_t y = m / c->w % c->h * r->sh + c->y, x = m % c->w * r->sw + c->x;
    float *to = r->out + ((m / (c->w * c->h) * r->h + y) * r->w + x) * r->c;
    if (r->b.depth)
      memcpy(to, b->rows + m * r->c, (size_t)r->c * sizeof *to);
    else
      memset(to, 0, (size_t)r->c * sizeof *to);
  }
}

/* dy, w, (shape of x) -> dx */
shoal_status ISA_NAME(conv_rows_grad_x)(const kernel_call *call) {
  conv_rows_back b = {.r = conv_rows_of(call, &call->out[0].shape, &call->in[1].shape, &call->in[0].shape)};
  conv_rows *r = &b.r;
  r->dy = call->in[0].data;
  r->f = call->in[1].data;
  r->b = gemm_panels_of(call->scratch, r->kh * r->kw * r->o, r->c); /* at most: one class with all taps */
  float *zeros = conv_rows_zeros(&r->b, r->o);
  r->zeros = zeros;
  b.rows = r->sh == 1 && r->sw == 1 ? r->out : zeros + r->o;
  for (int64_t which = 0; which < r->sh * r->sw; which++) {
    b.k = conv_rows_class(r, which);
    if (b.k.h <= 0 || b.k.w <= 0) continue;
    r->b = gemm_panels_of(call->scratch, b.k.taps_y * b.k.taps_x * r->o, r->c);
    pool_run(call->threads, conv_rows_back_pack_share, &b);
    pool_run(call->threads, conv_rows_back_share, &b);
  }
  return NULL;
}

/* ---- to the filters: the sum over all places; rows of the result are a tap's channels, as many as a tile has */

static void conv_rows_sum_share(void *context, int thread, int threads) {
  const conv_rows *r = context;
  enum { CHUNK = (GEMM_ROWS + 7) / 8 * 8 };
  const int64_t tiles = (r->c + GEMM_ROWS - 1) / GEMM_ROWS; /* of one tap */
  float a[GEMM_ROWS * GEMM_DEPTH + CHUNK] __attribute__((aligned(64)));
  const float *pixels[GEMM_DEPTH];
  int64_t first, last;
  pool_share(r->kh * r->kw * tiles, 1, thread, threads, &first, &last);
  for (int64_t k0 = 0; k0 < r->b.depth; k0 += r->b.level)
    for (int64_t t = first; t < last; t++) {
      const int64_t tap = t / tiles, depth = MIN_OF(r->b.level, r->b.depth - k0);
      const int64_t c0 = r->c * (t % tiles) / tiles, rows = r->c * (t % tiles + 1) / tiles - c0;
      for (int64_t k = 0; k < depth && (t == first || t % tiles == 0); k++) { /* a new tap */
        const int64_t m = k0 + k, y = m / r->ow % r->oh * r->sh - r->top + tap / r->kw * r->dh;
        const int64_t x = m % r->ow * r->sw - r->left + tap % r->kw * r->dw;
        const bool inside = y >= 0 && y < r->h && x >= 0 && x < r->w;
        pixels[k] = inside ? r->x + ((m / (r->ow * r->oh) * r->h + y) * r->w + x) * r->c : r->zeros;
      }
      if (c0 + CHUNK <= r->c) /* more than is needed, in a size that the compiler knows */
        for (int64_t k = 0; k < depth; k++) memcpy(a + k * GEMM_ROWS, pixels[k] + c0, CHUNK * sizeof *a);
      else
        for (int64_t k = 0; k < depth; k++)
          for (int64_t i = 0; i < rows; i++) a[k * GEMM_ROWS + i] = pixels[k][c0 + i];
      gemm_panels_multiply(&r->b, rows, a, k0, r->out + (tap * r->c + c0) * r->o, r->o, r->add || k0 > 0);
    }
}

/* x, dy, (shape of w) -> dw */
shoal_status ISA_NAME(conv_rows_grad_w)(const kernel_call *call) {
  conv_rows r = conv_rows_of(call, &call->in[0].shape, &call->out[0].shape, &call->in[1].shape);
  r.x = call->in[0].data;
  r.dy = call->in[1].data;
  r.add = call->accumulate;
  r.b = gemm_panels_of(call->scratch, r.n * r.oh * r.ow, r.o);
  r.zeros = conv_rows_zeros(&r.b, r.c);
  if (!r.b.depth && !r.add) memset(r.out, 0, shoal_tensor_bytes(&call->out[0]));
  conv_rows_copy copy = {&r.b, r.dy};
  pool_run(call->threads, conv_rows_pack_share, &copy);
  pool_run(call->threads, conv_rows_sum_share, &r);
  return NULL;
}
