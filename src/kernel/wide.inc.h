/* Dense layers whose weights fit no cache. Each of the three products reads (or writes) the weights once, in order, and
 * all threads share one product:
 *   forward        rows times weights as in gemm.inc.h, then bias and activation
 *   to the input   LANES: row i of the weights is broadcast against the gradient's panels; a thread takes rows
 *   to the weights x in LANES, the gradient in rows; a thread takes rows of the weights
 * Included by the files lanes_*.c after gemm.inc.h. */

#define WIDE_DEPTH 256 /* columns of the weights at a time: 4 panels of them are 64 KB */
#define WIDE_ROWS (32 * DENSE_OUT)
#define WIDE_WIDTH (DENSE_VECTORS * VW)

/* ---- forward: x, w [in, out], bias; attr 0: the activation */

typedef struct {
  const float *bias; /* [n] */
  float *y;          /* [m, n] */
  int64_t m, n;
  activation act;
} wide_end;

static void wide_end_share(void *context, int thread, int threads) {
  const wide_end *w = context;
  int64_t first, last;
  pool_share(w->m, 1, thread, threads, &first, &last);
  for (int64_t i = first; i < last; i++)
    for (int64_t j = 0; j < w->n; j += VW) {
      float *to = w->y + i * w->n + j;
      if (j + VW <= w->n) {
        v_store(to, conv_activate(v_load(to) + v_load(w->bias + j), w->act));
      } else {
        float part[VW] = {0};
        for (int64_t e = 0; e < w->n - j; e++) part[e] = to[e] + w->bias[j + e];
        v_store(part, conv_activate(v_load(part), w->act));
        memcpy(to, part, (size_t)(w->n - j) * sizeof *part);
      }
    }
}

/* x of any rank, of which the last axis is `in`. Scratch: gemm_scratch. */
shoal_status ISA_NAME(wide_dense)(const kernel_call *call) {
  const shoal_tensor *x = &call->in[0], *w = &call->in[1];
  const int64_t in = w->shape.dim[0], out = w->shape.dim[1];
  int64_t n = 1;
  for (int i = 0; i + 1 < x->shape.rank; i++) n *= x->shape.dim[i];
  const bool linear = (activation)call->attr[0].i == ACT_LINEAR && in > 0;
  gemm_work product = {.a = {x->data, in, 1},
                       .b = {w->data, 1, out},
                       .m = n,
                       .n = out,
                       .k = in,
                       .c = call->out[0].data,
                       .bias = linear ? call->in[2].data : NULL};
  gemm_run(&product, call->scratch, call->threads);
  if (linear) return NULL;
  wide_end end = {call->in[2].data, call->out[0].data, n, out, (activation)call->attr[0].i};
  pool_run(call->threads, wide_end_share, &end);
  return NULL;
}

/* ---- to the input: L d, w [in, out] -> L d w^T */

typedef struct {
  const float *d, *w; /* [blocks][out][16], [in][out] */
  float *dx;          /* [blocks][in][16] */
  int64_t blocks, in, out;
} wide_back;

/* dx of OT rows on PT panels (+)= w rows times panels; the rows that come next are fetched meanwhile. */
INLINE void wide_back_tile(const int OT, const int PT, const wide_back *b, const float *w, const float *d,
                           int64_t depth, float *dx, bool add) {
  const int64_t dp = b->out * LANES, xp = b->in * LANES;
  vf a[DENSE_OUT][DENSE_PANELS];
  UNROLL for (int i = 0; i < OT; i++) {
    UNROLL for (int j = 0; j < PT; j++) a[i][j] = add ? v_load(dx + j * xp + i * LANES) : V_ZERO;
  }
  for (int64_t k0 = 0; k0 < depth; k0 += LANES) {
    UNROLL for (int i = 0; i < OT; i++) __builtin_prefetch(w + (OT + i) * b->out + k0);
    for (int64_t k = k0; k < MIN_OF(depth, k0 + LANES); k++) {
      vf e[DENSE_PANELS];
      UNROLL for (int j = 0; j < PT; j++) {
        e[j] = v_load(d + j * dp + k * LANES);
        V_KEEP(e[j]);
      }
      UNROLL for (int i = 0; i < OT; i++) {
        vf c = v_set(w[i * b->out + k]);
        V_KEEP(c);
        UNROLL for (int j = 0; j < PT; j++) a[i][j] += c * e[j];
      }
    }
  }
  UNROLL for (int i = 0; i < OT; i++) { UNROLL for (int j = 0; j < PT; j++) v_store(dx + j * xp + i * LANES, a[i][j]); }
}

#define WIDE_BACK_CASE(OT, PT)                       \
  case OT * 8 + PT:                                  \
    wide_back_tile(OT, PT, b, w, d, depth, dx, add); \
    break;
#define WIDE_BACK_CASES(OT) WIDE_BACK_CASE(OT, 1) WIDE_BACK_CASE(OT, 2) WIDE_BACK_CASE(OT, 3) WIDE_BACK_CASE(OT, 4)

static __attribute__((noinline)) void wide_back_any(int rows, int panels, const wide_back *b, const float *w,
                                                    const float *d, int64_t depth, float *dx, bool add) {
  switch (rows * 8 + panels) {
    WIDE_BACK_CASES(1)
    WIDE_BACK_CASES(2)
    WIDE_BACK_CASES(3)
#if DENSE_OUT > 3
    WIDE_BACK_CASES(4)
    WIDE_BACK_CASES(5)
    WIDE_BACK_CASES(6)
#endif
  }
}

static void wide_back_share(void *context, int thread, int threads) {
  const wide_back *b = context;
  int64_t first, last;
  pool_share(b->in, DENSE_OUT, thread, threads, &first, &last);
  for (int64_t k = 0; k < b->out; k += WIDE_DEPTH)
    for (int64_t i = first; i < last; i += DENSE_OUT)
      for (int64_t p = 0; p < b->blocks; p += DENSE_PANELS)
        for (int lane = 0; lane < LANES; lane += VW)
          wide_back_any((int)MIN_OF((int64_t)DENSE_OUT, last - i), (int)MIN_OF((int64_t)DENSE_PANELS, b->blocks - p), b,
                        b->w + i * b->out + k, b->d + (p * b->out + k) * LANES + lane,
                        MIN_OF((int64_t)WIDE_DEPTH, b->out - k), b->dx + (p * b->in + i) * LANES + lane, k > 0);
}

shoal_status ISA_NAME(wide_matmul_back)(const kernel_call *call) {
  const shoal_tensor *w = &call->in[1];
  wide_back b = {call->in[0].data,           w->data,         call->out[0].data,
                 lanes_blocks(&call->in[0]), w->shape.dim[0], w->shape.dim[1]};
  pool_run(call->threads, wide_back_share, &b);
  return NULL;
}

/* ---- to the weights: L x, d [n, out] -> x^T d [in, out] */

typedef struct {
  const float *x; /* [blocks][in][16] */
  const float *d; /* [n][out] */
  float *dw;      /* [in][out] */
  float *packed;  /* [out / WIDTH][blocks * 16][WIDTH] */
  int64_t n, blocks, in, out;
} wide_sum;

/* Vectors of d side by side, so that a block of columns lies together; rows that only pad are zero. */
static void wide_pack_share(void *context, int thread, int threads) {
  const wide_sum *s = context;
  int64_t first, last;
  pool_share(s->out, WIDE_WIDTH, thread, threads, &first, &last);
  for (int64_t o = first; o < last; o += WIDE_WIDTH) {
    float *to = s->packed + o * s->blocks * LANES;
    const int64_t width = MIN_OF((int64_t)WIDE_WIDTH, s->out - o);
    memset(to, 0, (size_t)(s->blocks * LANES * WIDE_WIDTH) * sizeof *to);
    for (int64_t i = 0; i < s->n; i++) memcpy(to + i * WIDE_WIDTH, s->d + i * s->out + o, (size_t)width * sizeof *to);
  }
}

static void wide_sum_share(void *context, int thread, int threads) {
  const wide_sum *s = context;
  int64_t first, last;
  pool_share(s->in, DENSE_OUT, thread, threads, &first, &last);
  for (int64_t k0 = first; k0 < last; k0 += WIDE_ROWS)
    for (int64_t o = 0; o < s->out; o += WIDE_WIDTH) {
      const int64_t width = MIN_OF((int64_t)WIDE_WIDTH, s->out - o), end = MIN_OF(last, k0 + WIDE_ROWS);
      for (int64_t k = k0; k < end; k += DENSE_OUT)
        dense_grad_any((int)MIN_OF((int64_t)DENSE_OUT, end - k), DENSE_VECTORS, s->x + k * LANES, s->blocks,
                       s->in * LANES, s->packed + o * s->blocks * LANES, WIDE_WIDTH, s->dw + k * s->out + o, s->out,
                       width, false);
    }
}

shoal_status ISA_NAME(wide_matmul_sum)(const kernel_call *call) {
  const shoal_tensor *x = &call->in[0], *d = &call->in[1];
  wide_sum s = {.x = x->data,
                .d = d->data,
                .dw = call->out[0].data,
                .packed = call->scratch,
                .n = x->shape.dim[0],
                .blocks = lanes_blocks(x),
                .in = x->shape.dim[1],
                .out = d->shape.dim[1]};
  pool_run(call->threads, wide_pack_share, &s);
  pool_run(call->threads, wide_sum_share, &s);
  return NULL;
}
