/* Products of whole matrices in rows, any transposition: C [m, n] = A B. B is copied piece by piece into a block that
 * stays in the first-level cache, where its rows are whole vectors. Included by the files lanes_*.c. */

#define GEMM_DEPTH 128                     /* of a block of B */
#define GEMM_WIDTH (DENSE_VECTORS * VW)    /* columns of a block */

/* Element (i, k) of a matrix seen through its transposition: data[i * across + k * along]. */
typedef struct {
  const float *data;
  int64_t across, along;
} gemm_operand;

/* C of IT rows and VT vectors, `width` columns of them real, (+)= A(i, k) block[k]. */
INLINE void gemm_tile(const int IT, const int VT, gemm_operand a, int64_t depth, const float *block, float *c,
                      int64_t ld, int64_t width, bool add) {
  vf s[DENSE_OUT][DENSE_VECTORS];
  UNROLL for (int i = 0; i < IT; i++) {
    UNROLL for (int j = 0; j < VT; j++) s[i][j] = V_ZERO;
  }
  for (int64_t k = 0; k < depth; k++) {
    const float *ak = a.data + k * a.along;
    if (IT > VT) {
      vf b[DENSE_VECTORS];
      UNROLL for (int j = 0; j < VT; j++) b[j] = v_load(block + k * GEMM_WIDTH + j * VW);
      UNROLL for (int i = 0; i < IT; i++) {
        vf x = v_set(ak[i * a.across]);
        UNROLL for (int j = 0; j < VT; j++) s[i][j] += x * b[j];
      }
    } else {
      vf x[DENSE_OUT];
      UNROLL for (int i = 0; i < IT; i++) x[i] = v_set(ak[i * a.across]);
      UNROLL for (int j = 0; j < VT; j++) {
        vf b = v_load(block + k * GEMM_WIDTH + j * VW);
        V_KEEP(b);
        UNROLL for (int i = 0; i < IT; i++) s[i][j] += x[i] * b;
      }
    }
  }
  UNROLL for (int i = 0; i < IT; i++) {
    UNROLL for (int j = 0; j < VT; j++) {
      float *to = c + i * ld + j * VW;
      if ((j + 1) * VW <= width) {
        v_store(to, add ? v_load(to) + s[i][j] : s[i][j]);
      } else {
        float part[VW];
        v_store(part, s[i][j]);
        for (int64_t e = 0; j * VW + e < width; e++) to[e] = part[e] + (add ? to[e] : 0);
      }
    }
  }
}

#define GEMM_CASE(IT) \
  case IT: gemm_tile(IT, DENSE_VECTORS, a, depth, block, c, ld, width, add); break;

static __attribute__((noinline)) void gemm_any(int rows, gemm_operand a, int64_t depth, const float *block, float *c,
                                               int64_t ld, int64_t width, bool add) {
  switch (rows) {
    GEMM_CASE(1)
    GEMM_CASE(2)
    GEMM_CASE(3)
#if DENSE_OUT > 3
    GEMM_CASE(4)
    GEMM_CASE(5)
    GEMM_CASE(6)
#endif
  }
}

/* block[k][j] = B(k0 + k, j0 + j), zero beyond `width`. b.across: from row to row of B; b.along: from column to
 * column. */
static void gemm_pack(gemm_operand b, int64_t depth, int64_t width, float *block) {
  if (b.along == 1) {
    for (int64_t k = 0; k < depth; k++) {
      memcpy(block + k * GEMM_WIDTH, b.data + k * b.across, (size_t)width * sizeof *block);
      memset(block + k * GEMM_WIDTH + width, 0, (size_t)(GEMM_WIDTH - width) * sizeof *block);
    }
    return;
  }
  memset(block, 0, (size_t)(depth * GEMM_WIDTH) * sizeof *block);
  for (int64_t j = 0; j < width; j++)
    for (int64_t k = 0; k < depth; k++) block[k * GEMM_WIDTH + j] = b.data[k * b.across + j * b.along];
}

typedef struct {
  gemm_operand a, b;
  int64_t m, n, k;
  float *c;
} gemm_work;

static void gemm_share(void *context, int thread, int threads) {
  const gemm_work *w = context;
  float block[GEMM_DEPTH * GEMM_WIDTH] __attribute__((aligned(64)));
  int64_t first, last;
  pool_share(w->m, DENSE_OUT, thread, threads, &first, &last);
  if (first == last) return;
  if (!w->k) memset(w->c + first * w->n, 0, (size_t)((last - first) * w->n) * sizeof(float));
  for (int64_t j = 0; j < w->n; j += GEMM_WIDTH)
    for (int64_t k = 0; k < w->k; k += GEMM_DEPTH) {
      const int64_t depth = MIN_OF(w->k - k, (int64_t)GEMM_DEPTH), width = MIN_OF(w->n - j, (int64_t)GEMM_WIDTH);
      gemm_pack((gemm_operand){w->b.data + k * w->b.across + j * w->b.along, w->b.across, w->b.along}, depth, width,
                block);
      for (int64_t i = first; i < last; i += DENSE_OUT)
        gemm_any((int)MIN_OF(last - i, (int64_t)DENSE_OUT),
                 (gemm_operand){w->a.data + i * w->a.across + k * w->a.along, w->a.across, w->a.along}, depth, block,
                 w->c + i * w->n + j, w->n, width, k > 0);
    }
}

/* a, b; attributes: transpose_a, transpose_b. */
shoal_status ISA_NAME(rows_matmul)(const kernel_call *call) {
  enum { WORTH_THREADS_FLOPS = 1 << 20 };
  const shoal_tensor *a = &call->in[0], *b = &call->in[1];
  const bool ta = call->attr[0].i, tb = call->attr[1].i;
  const int64_t lda = a->shape.dim[1], ldb = b->shape.dim[1];
  gemm_work w = {.a = {a->data, ta ? 1 : lda, ta ? lda : 1},
                 .b = {b->data, tb ? 1 : ldb, tb ? ldb : 1},
                 .m = call->out[0].shape.dim[0],
                 .n = call->out[0].shape.dim[1],
                 .k = ta ? a->shape.dim[0] : a->shape.dim[1],
                 .c = call->out[0].data};
  if (2 * w.m * w.n * w.k >= WORTH_THREADS_FLOPS)
    pool_run(call->threads, gemm_share, &w);
  else
    gemm_share(&w, 0, 1);
  return NULL;
}
