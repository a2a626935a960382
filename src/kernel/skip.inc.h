/* See skip.h. Rows of weights have at most 16 numbers and stand one after another without padding. They are loaded and
 * stored in pieces of exactly their size: a masked store that is wider than the row would hold up the load of the next
 * row, which it only seems to touch. Ten classes are compiled by themselves. Included by the files lanes_*.c. */

#if VW > 4
typedef struct {
  __m256 low;
  __m256 high; /* of ten classes: the last two, in the lower half */
} skip_row;
typedef struct {
  __m256i low, high;
} skip_mask;
INLINE skip_mask skip_mask_of(int64_t k) {
  const __m256i count = _mm256_set1_epi32((int)k), at = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return (skip_mask){_mm256_cmpgt_epi32(count, at),
                     _mm256_cmpgt_epi32(count, _mm256_add_epi32(at, _mm256_set1_epi32(8)))};
}
INLINE skip_row skip_load(const float *p, const int ten, skip_mask m) {
  if (ten)
    return (skip_row){_mm256_loadu_ps(p), _mm256_castps128_ps256(_mm_castpd_ps(_mm_load_sd((const double *)(p + 8))))};
  return (skip_row){_mm256_maskload_ps(p, m.low), _mm256_maskload_ps(p + 8, m.high)};
}
INLINE void skip_store(float *p, skip_row r, const int ten, skip_mask m) {
  if (ten) {
    _mm256_storeu_ps(p, r.low);
    _mm_store_sd((double *)(p + 8), _mm_castps_pd(_mm256_castps256_ps128(r.high)));
  } else {
    _mm256_maskstore_ps(p, m.low, r.low);
    _mm256_maskstore_ps(p + 8, m.high, r.high);
  }
}
/* c x + y */
INLINE skip_row skip_fma(float c, skip_row x, skip_row y, const int ten) {
  const __m256 v = _mm256_set1_ps(c);
  skip_row r = {_mm256_fmadd_ps(v, x.low, y.low), y.high};
  if (ten)
    r.high = _mm256_castps128_ps256(_mm_fmadd_ps(_mm256_castps256_ps128(v), _mm256_castps256_ps128(x.high),
                                                 _mm256_castps256_ps128(y.high)));
  else
    r.high = _mm256_fmadd_ps(v, x.high, y.high);
  return r;
}
INLINE skip_row skip_add(skip_row x, skip_row y) {
  return (skip_row){_mm256_add_ps(x.low, y.low), _mm256_add_ps(x.high, y.high)};
}
INLINE skip_row skip_zero(void) { return (skip_row){_mm256_setzero_ps(), _mm256_setzero_ps()}; }
#else
typedef struct {
  float v[SKIP_MOST_CLASSES];
} skip_row;
typedef int64_t skip_mask;
INLINE skip_mask skip_mask_of(int64_t k) { return k; }
INLINE skip_row skip_load(const float *p, const int ten, skip_mask m) {
  skip_row r = {{0}};
  for (int64_t i = 0; i < (ten ? 10 : m); i++) r.v[i] = p[i];
  return r;
}
INLINE void skip_store(float *p, skip_row r, const int ten, skip_mask m) {
  for (int64_t i = 0; i < (ten ? 10 : m); i++) p[i] = r.v[i];
}
INLINE skip_row skip_fma(float c, skip_row x, skip_row y, const int ten) {
  for (int i = 0; i < (ten ? 10 : SKIP_MOST_CLASSES); i++) y.v[i] += c * x.v[i];
  return y;
}
INLINE skip_row skip_add(skip_row x, skip_row y) {
  for (int i = 0; i < SKIP_MOST_CLASSES; i++) y.v[i] += x.v[i];
  return y;
}
INLINE skip_row skip_zero(void) { return (skip_row){{0}}; }
#endif

static uint32_t compress_plain(const uint8_t *x, int64_t from, int64_t f, float scale, uint16_t *at, float *values,
                               uint32_t n) {
  int64_t i = from;
  for (; i + 8 <= f; i += 8) {
    uint64_t word;
    memcpy(&word, x + i, sizeof word);
    if (!word) continue;
    for (int k = 0; k < 8; k++) { /* written in any case, counted only if it is not zero: no branch to mispredict */
      at[n] = (uint16_t)(i + k);
      values[n] = (float)x[i + k] * scale;
      n += x[i + k] != 0;
    }
  }
  for (; i < f; i++)
    if (x[i]) {
      at[n] = (uint16_t)i;
      values[n++] = (float)x[i] * scale;
    }
  return n;
}

#if VW == 16
/* Sixty-four bytes at a time: the non-zero ones are moved together, widened and stored; the vectors' unused ends are
 * overwritten by what follows. */
__attribute__((target("avx512vbmi2"))) static uint32_t compress_vbmi2(const uint8_t *x, int64_t f, float scale,
                                                                      uint16_t *at, float *values) {
  uint32_t n = 0;
  int64_t i = 0;
  const __m512i step = _mm512_set1_epi16(32);
  const __m512 factor = _mm512_set1_ps(scale);
  __m512i places = _mm512_set_epi16(31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16, 15, 14, 13, 12, 11,
                                    10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  for (; i + 64 <= f; i += 64) {
    __m512i v = _mm512_loadu_si512(x + i);
    __mmask64 m = _mm512_test_epi8_mask(v, v);
    __m512i high = _mm512_add_epi16(places, step);
    if (m) {
      const uint32_t low = (uint32_t)__builtin_popcount((uint32_t)m), all = (uint32_t)__builtin_popcountll(m);
      _mm512_storeu_si512(at + n, _mm512_maskz_compress_epi16((__mmask32)m, places));
      _mm512_storeu_si512(at + n + low, _mm512_maskz_compress_epi16((__mmask32)(m >> 32), high));
      __m512i packed = _mm512_maskz_compress_epi8(m, v);
      for (uint32_t k = 0; k < all; k += 16) {
        _mm512_storeu_ps(values + n + k,
                         _mm512_mul_ps(factor, _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm512_castsi512_si128(packed)))));
        packed = _mm512_shuffle_i64x2(packed, packed, 0x39); /* the next sixteen */
      }
      n += all;
    }
    places = _mm512_add_epi16(high, step);
  }
  return compress_plain(x, i, f, scale, at, values, n);
}
#endif

shoal_status ISA_NAME(skip_compress)(const kernel_call *call) {
  const shoal_tensor *x = &call->in[0];
  const int64_t n = x->shape.dim[0], f = lanes_features(x), stride = LIST_BYTES(f);
  const float scale = (float)call->attr[0].f;
#if VW == 16
  const bool vbmi2 = __builtin_cpu_supports("avx512vbmi2");
#endif
  for (int64_t i = 0; i < n; i++) {
    char *list = (char *)call->out[0].data + i * stride;
    uint16_t *at = list_positions(list);
    float *values = list_values(list, f);
    const uint8_t *row = tensor_row(x, i, (size_t)f);
    if (i + ROWS_AHEAD < n) prefetch_row(tensor_row(x, i + ROWS_AHEAD, (size_t)f), f);
    uint32_t count;
#if VW == 16
    if (vbmi2)
      count = compress_vbmi2(row, f, scale, at, values);
    else
#endif
      count = compress_plain(row, 0, f, scale, at, values, 0);
    while (count % 4) {
      at[count] = 0;
      values[count++] = 0;
    }
    *list_count(list) = count;
  }
  return NULL;
}

INLINE void skip_matmul_rows(const kernel_call *call, const int ten) {
  const int64_t f = call->in[1].shape.dim[0], k = ten ? 10 : call->in[1].shape.dim[1], stride = LIST_BYTES(f);
  const float *w = call->in[1].data;
  const skip_mask mask = skip_mask_of(k);
  const skip_row bias = skip_load(call->in[2].data, ten, mask);
  for (int64_t i = 0; i < call->in[0].shape.dim[0]; i++) {
    char *list = (char *)call->in[0].data + i * stride;
    const uint16_t *at = list_positions(list);
    const float *values = list_values(list, f);
    skip_row a = bias, b = skip_zero(), c = skip_zero(), d = skip_zero();
    for (uint32_t e = 0, n = *list_count(list); e < n; e += 4) {
      a = skip_fma(values[e], skip_load(w + at[e] * k, ten, mask), a, ten);
      b = skip_fma(values[e + 1], skip_load(w + at[e + 1] * k, ten, mask), b, ten);
      c = skip_fma(values[e + 2], skip_load(w + at[e + 2] * k, ten, mask), c, ten);
      d = skip_fma(values[e + 3], skip_load(w + at[e + 3] * k, ten, mask), d, ten);
    }
    skip_store((float *)call->out[0].data + i * k, skip_add(skip_add(a, b), skip_add(c, d)), ten, mask);
  }
}

/* lists, w, bias */
shoal_status ISA_NAME(skip_matmul)(const kernel_call *call) {
  if (call->in[1].shape.dim[1] == 10)
    skip_matmul_rows(call, 1);
  else
    skip_matmul_rows(call, 0);
  return NULL;
}

/* The first entry of [from, to) whose position is not below `position`; positions ascend. */
static uint32_t skip_find(const uint16_t *at, uint32_t from, uint32_t to, int64_t position) {
  while (from < to) {
    uint32_t middle = (from + to) / 2;
    if (at[middle] < position)
      from = middle + 1;
    else
      to = middle;
  }
  return from;
}

/* w += factor * x^T d, for the features [from, to). */
INLINE void skip_add_product(float *w, const shoal_tensor *lists, const float *d, int64_t f, int64_t k, float factor,
                             int64_t from, int64_t to, const int ten) {
  if (ten) k = 10;
  const skip_mask mask = skip_mask_of(k);
  const int64_t stride = LIST_BYTES(f), n = lists->shape.dim[0];
  const bool all = from == 0 && to == f;
  for (int64_t i = 0; i < n; i++) {
    char *list = (char *)lists->data + i * stride;
    const uint16_t *at = list_positions(list);
    const float *values = list_values(list, f);
    uint32_t e = 0, last = *list_count(list);
    const skip_row g = skip_fma(factor, skip_load(d + i * k, ten, mask), skip_zero(), ten);
    if (!all) {
      while (last && values[last - 1] == 0) last--; /* what fills the list up does not ascend */
      e = skip_find(at, 0, last, from);
      last = skip_find(at, e, last, to);
    }
    for (; e < last; e++) {
      float *row = w + at[e] * k;
      skip_store(row, skip_fma(values[e], g, skip_load(row, ten, mask), ten), ten, mask);
    }
  }
}

static void skip_add_product_any(float *w, const shoal_tensor *lists, const float *d, int64_t f, int64_t k,
                                 float factor, int64_t from, int64_t to) {
  if (k == 10)
    skip_add_product(w, lists, d, f, k, factor, from, to, 1);
  else
    skip_add_product(w, lists, d, f, k, factor, from, to, 0);
}

/* lists, d */
shoal_status ISA_NAME(skip_sum)(const kernel_call *call) {
  const int64_t f = call->out[0].shape.dim[0], k = call->out[0].shape.dim[1];
  if (!call->accumulate) memset(call->out[0].data, 0, (size_t)(f * k) * sizeof(float));
  skip_add_product_any(call->out[0].data, &call->in[0], call->in[1].data, f, k, 1.0f, 0, f);
  return NULL;
}

static void skip_sgd_share(void *context, int thread, int threads) {
  const kernel_call *call = context;
  const shoal_tensor *w = &call->in[0];
  int64_t from, to, f = w->shape.dim[0], k = w->shape.dim[1];
  pool_share(f, LANES, thread, threads, &from, &to);
  skip_add_product_any(w->data, &call->in[1], call->in[2].data, f, k, -*(const float *)call->in[3].data, from, to);
}

/* w, lists, d, rate. Each thread updates its own features, so their number does not change the result. */
shoal_status ISA_NAME(skip_sgd)(const kernel_call *call) {
  enum { WORTH_THREADS_ROWS = 64 };
  if (call->in[1].shape.dim[0] >= WORTH_THREADS_ROWS)
    pool_run(call->threads, skip_sgd_share, (void *)call);
  else
    skip_sgd_share((void *)call, 0, 1);
  return NULL;
}

/* logits, labels, dloss -> loss, dlogits: a row in one vector. */
shoal_status ISA_NAME(xent_rows)(const kernel_call *call) {
  const shoal_tensor *logits = &call->in[0], *labels = &call->in[1];
  const int64_t n = logits->shape.dim[0], k = logits->shape.dim[1];
  const float *weight = call->in[2].data;
  float *loss = call->out[0].data;
  for (int64_t i = 0; i < n; i++) {
    const float *in = (const float *)logits->data + i * k;
    float *out = (float *)call->out[1].data + i * k;
    int64_t label = label_at(labels, i);
    if (label < 0 || label >= k) return label_error(call, i, label, k);
    float all[SKIP_MOST_CLASSES], most = in[0], total = 0;
#if VW == 16
    const __mmask16 mask = (__mmask16)((1u << k) - 1);
    vf v = (vf)_mm512_mask_loadu_ps(_mm512_set1_ps(-INFINITY), mask, in);
    most = v_most(v);
    v = (vf)_mm512_maskz_mov_ps(mask, (__m512)v_exp(v - v_set(most)));
    total = v_sum(v);
    _mm512_mask_storeu_ps(out, mask, (__m512)(v * v_set(weight[i] / total)));
    (void)all;
#else
    for (int64_t c = 1; c < k; c++) most = in[c] > most ? in[c] : most;
    for (int64_t c = 0; c < SKIP_MOST_CLASSES; c++) all[c] = c < k ? in[c] - most : -87.0f;
    for (int c = 0; c < SKIP_MOST_CLASSES; c += VW) v_store(all + c, v_exp(v_load(all + c)));
    for (int64_t c = 0; c < k; c++) total += all[c];
    const float r = weight[i] / total;
    for (int64_t c = 0; c < k; c++) out[c] = all[c] * r;
#endif
    loss[i] = __builtin_logf(total) + most - in[label];
    out[label] -= weight[i];
  }
  return NULL;
}
