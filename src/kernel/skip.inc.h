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
__attribute__((target("avx512vbmi2"))) static inline void compress_store(__m512i bytes, __m512i where, __m512i first,
                                                                         __m512 factor, uint16_t *at, float *values) {
  const __m512i next = _mm512_shuffle_i64x2(bytes, bytes, 0x39);
  _mm512_storeu_ps(values, factor * _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm512_castsi512_si128(bytes))));
  _mm512_storeu_ps(values + 16, factor * _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm512_castsi512_si128(next))));
  _mm512_storeu_si512(at, _mm512_add_epi16(first, _mm512_cvtepu8_epi16(_mm512_castsi512_si256(where))));
}

/* Sixty-four bytes at a time: the non-zero ones and their places are moved together, widened and stored. The vectors'
 * unused ends are overwritten by what follows. */
__attribute__((target("avx512vbmi2"))) static uint32_t compress_vbmi2(const uint8_t *x, int64_t f, float scale,
                                                                      uint16_t *at, float *values) {
  uint32_t n = 0;
  int64_t i = 0;
  const __m512 factor = _mm512_set1_ps(scale);
  static const uint8_t count_up[64] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                                       16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31,
                                       32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47,
                                       48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63};
  const __m512i places = _mm512_loadu_si512(count_up);
  for (; i + 64 <= f; i += 64) {
    const __m512i v = _mm512_loadu_si512(x + i);
    const __mmask64 m = _mm512_test_epi8_mask(v, v);
    const __m512i first = _mm512_set1_epi16((short)i);
    const __m512i bytes = _mm512_maskz_compress_epi8(m, v), where = _mm512_maskz_compress_epi8(m, places);
    const uint32_t all = (uint32_t)__builtin_popcountll(m);
    /* Half of the bytes at once, whether there are so many or not: a branch on their number would be mispredicted. */
    compress_store(bytes, where, first, factor, at + n, values + n);
    if (__builtin_expect(all > 32, 0))
      compress_store(_mm512_shuffle_i64x2(bytes, bytes, 0x0e), _mm512_shuffle_i64x2(where, where, 0x0e), first, factor,
                     at + n + 32, values + n + 32);
    n += all;
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
    for (const float *end = values + *list_count(list); values < end; values += 4, at += 4) {
      a = skip_fma(values[0], skip_load(w + at[0] * k, ten, mask), a, ten);
      b = skip_fma(values[1], skip_load(w + at[1] * k, ten, mask), b, ten);
      c = skip_fma(values[2], skip_load(w + at[2] * k, ten, mask), c, ten);
      d = skip_fma(values[3], skip_load(w + at[3] * k, ten, mask), d, ten);
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

/* w += factor * x^T d. */
INLINE void skip_add_product(float *w, const shoal_tensor *lists, const float *d, int64_t f, int64_t k, float factor,
                             const int ten) {
  if (ten) k = 10;
  const skip_mask mask = skip_mask_of(k);
  const int64_t stride = LIST_BYTES(f), n = lists->shape.dim[0];
  for (int64_t i = 0; i < n; i++) {
    char *list = (char *)lists->data + i * stride;
    const uint16_t *at = list_positions(list);
    const float *values = list_values(list, f);
    const skip_row g = skip_fma(factor, skip_load(d + i * k, ten, mask), skip_zero(), ten);
    for (const float *end = values + *list_count(list); values < end; values += 4, at += 4) {
      UNROLL for (int e = 0; e < 4; e++) {
        float *row = w + at[e] * k;
        skip_store(row, skip_fma(values[e], g, skip_load(row, ten, mask), ten), ten, mask);
      }
    }
  }
}

static void skip_add_product_any(float *w, const shoal_tensor *lists, const float *d, int64_t f, int64_t k,
                                 float factor) {
  if (k == 10)
    skip_add_product(w, lists, d, f, k, factor, 1);
  else
    skip_add_product(w, lists, d, f, k, factor, 0);
}

/* lists, d */
shoal_status ISA_NAME(skip_sum)(const kernel_call *call) {
  const int64_t f = call->out[0].shape.dim[0], k = call->out[0].shape.dim[1];
  if (!call->accumulate) memset(call->out[0].data, 0, (size_t)(f * k) * sizeof(float));
  skip_add_product_any(call->out[0].data, &call->in[0], call->in[1].data, f, k, 1.0f);
  return NULL;
}

/* w, lists, d, rate */
shoal_status ISA_NAME(skip_sgd)(const kernel_call *call) {
  const shoal_tensor *w = &call->in[0];
  skip_add_product_any(w->data, &call->in[1], call->in[2].data, w->shape.dim[0], w->shape.dim[1],
                       -*(const float *)call->in[3].data);
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
