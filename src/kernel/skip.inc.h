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
    r.high = _mm256_castps128_ps256(
        _mm_fmadd_ps(_mm256_castps256_ps128(v), _mm256_castps256_ps128(x.high), _mm256_castps256_ps128(y.high)));
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
  float v[SKIP_CLASSES_MAX];
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
  for (int i = 0; i < (ten ? 10 : SKIP_CLASSES_MAX); i++) y.v[i] += c * x.v[i];
  return y;
}
INLINE skip_row skip_add(skip_row x, skip_row y) {
  for (int i = 0; i < SKIP_CLASSES_MAX; i++) y.v[i] += x.v[i];
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

#if VW == 8
/* Which bytes of eight are not zero, moved together: byte k of entry m is the place of the k-th bit set in m. */
static const uint64_t places_of_bits[256] = {
    0x0000000000000000u, 0x0000000000000000u, 0x0000000000000001u, 0x0000000000000100u, 0x0000000000000002u,
    0x0000000000000200u, 0x0000000000000201u, 0x0000000000020100u, 0x0000000000000003u, 0x0000000000000300u,
    0x0000000000000301u, 0x0000000000030100u, 0x0000000000000302u, 0x0000000000030200u, 0x0000000000030201u,
    0x0000000003020100u, 0x0000000000000004u, 0x0000000000000400u, 0x0000000000000401u, 0x0000000000040100u,
    0x0000000000000402u, 0x0000000000040200u, 0x0000000000040201u, 0x0000000004020100u, 0x0000000000000403u,
    0x0000000000040300u, 0x0000000000040301u, 0x0000000004030100u, 0x0000000000040302u, 0x0000000004030200u,
    0x0000000004030201u, 0x0000000403020100u, 0x0000000000000005u, 0x0000000000000500u, 0x0000000000000501u,
    0x0000000000050100u, 0x0000000000000502u, 0x0000000000050200u, 0x0000000000050201u, 0x0000000005020100u,
    0x0000000000000503u, 0x0000000000050300u, 0x0000000000050301u, 0x0000000005030100u, 0x0000000000050302u,
    0x0000000005030200u, 0x0000000005030201u, 0x0000000503020100u, 0x0000000000000504u, 0x0000000000050400u,
    0x0000000000050401u, 0x0000000005040100u, 0x0000000000050402u, 0x0000000005040200u, 0x0000000005040201u,
    0x0000000504020100u, 0x0000000000050403u, 0x0000000005040300u, 0x0000000005040301u, 0x0000000504030100u,
    0x0000000005040302u, 0x0000000504030200u, 0x0000000504030201u, 0x0000050403020100u, 0x0000000000000006u,
    0x0000000000000600u, 0x0000000000000601u, 0x0000000000060100u, 0x0000000000000602u, 0x0000000000060200u,
    0x0000000000060201u, 0x0000000006020100u, 0x0000000000000603u, 0x0000000000060300u, 0x0000000000060301u,
    0x0000000006030100u, 0x0000000000060302u, 0x0000000006030200u, 0x0000000006030201u, 0x0000000603020100u,
    0x0000000000000604u, 0x0000000000060400u, 0x0000000000060401u, 0x0000000006040100u, 0x0000000000060402u,
    0x0000000006040200u, 0x0000000006040201u, 0x0000000604020100u, 0x0000000000060403u, 0x0000000006040300u,
    0x0000000006040301u, 0x0000000604030100u, 0x0000000006040302u, 0x0000000604030200u, 0x0000000604030201u,
    0x0000060403020100u, 0x0000000000000605u, 0x0000000000060500u, 0x0000000000060501u, 0x0000000006050100u,
    0x0000000000060502u, 0x0000000006050200u, 0x0000000006050201u, 0x0000000605020100u, 0x0000000000060503u,
    0x0000000006050300u, 0x0000000006050301u, 0x0000000605030100u, 0x0000000006050302u, 0x0000000605030200u,
    0x0000000605030201u, 0x0000060503020100u, 0x0000000000060504u, 0x0000000006050400u, 0x0000000006050401u,
    0x0000000605040100u, 0x0000000006050402u, 0x0000000605040200u, 0x0000000605040201u, 0x0000060504020100u,
    0x0000000006050403u, 0x0000000605040300u, 0x0000000605040301u, 0x0000060504030100u, 0x0000000605040302u,
    0x0000060504030200u, 0x0000060504030201u, 0x0006050403020100u, 0x0000000000000007u, 0x0000000000000700u,
    0x0000000000000701u, 0x0000000000070100u, 0x0000000000000702u, 0x0000000000070200u, 0x0000000000070201u,
    0x0000000007020100u, 0x0000000000000703u, 0x0000000000070300u, 0x0000000000070301u, 0x0000000007030100u,
    0x0000000000070302u, 0x0000000007030200u, 0x0000000007030201u, 0x0000000703020100u, 0x0000000000000704u,
    0x0000000000070400u, 0x0000000000070401u, 0x0000000007040100u, 0x0000000000070402u, 0x0000000007040200u,
    0x0000000007040201u, 0x0000000704020100u, 0x0000000000070403u, 0x0000000007040300u, 0x0000000007040301u,
    0x0000000704030100u, 0x0000000007040302u, 0x0000000704030200u, 0x0000000704030201u, 0x0000070403020100u,
    0x0000000000000705u, 0x0000000000070500u, 0x0000000000070501u, 0x0000000007050100u, 0x0000000000070502u,
    0x0000000007050200u, 0x0000000007050201u, 0x0000000705020100u, 0x0000000000070503u, 0x0000000007050300u,
    0x0000000007050301u, 0x0000000705030100u, 0x0000000007050302u, 0x0000000705030200u, 0x0000000705030201u,
    0x0000070503020100u, 0x0000000000070504u, 0x0000000007050400u, 0x0000000007050401u, 0x0000000705040100u,
    0x0000000007050402u, 0x0000000705040200u, 0x0000000705040201u, 0x0000070504020100u, 0x0000000007050403u,
    0x0000000705040300u, 0x0000000705040301u, 0x0000070504030100u, 0x0000000705040302u, 0x0000070504030200u,
    0x0000070504030201u, 0x0007050403020100u, 0x0000000000000706u, 0x0000000000070600u, 0x0000000000070601u,
    0x0000000007060100u, 0x0000000000070602u, 0x0000000007060200u, 0x0000000007060201u, 0x0000000706020100u,
    0x0000000000070603u, 0x0000000007060300u, 0x0000000007060301u, 0x0000000706030100u, 0x0000000007060302u,
    0x0000000706030200u, 0x0000000706030201u, 0x0000070603020100u, 0x0000000000070604u, 0x0000000007060400u,
    0x0000000007060401u, 0x0000000706040100u, 0x0000000007060402u, 0x0000000706040200u, 0x0000000706040201u,
    0x0000070604020100u, 0x0000000007060403u, 0x0000000706040300u, 0x0000000706040301u, 0x0000070604030100u,
    0x0000000706040302u, 0x0000070604030200u, 0x0000070604030201u, 0x0007060403020100u, 0x0000000000070605u,
    0x0000000007060500u, 0x0000000007060501u, 0x0000000706050100u, 0x0000000007060502u, 0x0000000706050200u,
    0x0000000706050201u, 0x0000070605020100u, 0x0000000007060503u, 0x0000000706050300u, 0x0000000706050301u,
    0x0000070605030100u, 0x0000000706050302u, 0x0000070605030200u, 0x0000070605030201u, 0x0007060503020100u,
    0x0000000007060504u, 0x0000000706050400u, 0x0000000706050401u, 0x0000070605040100u, 0x0000000706050402u,
    0x0000070605040200u, 0x0000070605040201u, 0x0007060504020100u, 0x0000000706050403u, 0x0000070605040300u,
    0x0000070605040301u, 0x0007060504030100u, 0x0000070605040302u, 0x0007060504030200u, 0x0007060504030201u,
    0x0706050403020100u};

/* Sixteen bytes at a time; each half is moved together by a shuffle, widened and stored, whether it has eight bytes
 * that count or none. The vectors' unused ends are overwritten by what follows. */
static uint32_t compress_avx2(const uint8_t *x, int64_t f, float scale, uint16_t *at, float *values) {
  uint32_t n = 0;
  int64_t i = 0;
  const __m256 factor = _mm256_set1_ps(scale);
  for (; i + 16 <= f; i += 16) {
    const __m128i v = _mm_loadu_si128((const __m128i *)(x + i));
    const uint32_t m = ~(uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(v, _mm_setzero_si128())) & 0xffff;
    if (!m) continue;
    __m128i bytes = v;
    UNROLL for (int half = 0; half < 2; half++) {
      const uint32_t bits = half ? m >> 8 : m & 0xff;
      const __m128i places = _mm_cvtsi64_si128((long long)places_of_bits[bits]);
      const __m256i wide = _mm256_cvtepu8_epi32(_mm_shuffle_epi8(bytes, places));
      _mm256_storeu_ps(values + n, _mm256_mul_ps(factor, _mm256_cvtepi32_ps(wide)));
      _mm_storeu_si128((__m128i *)(at + n),
                       _mm_add_epi16(_mm_set1_epi16((short)(i + 8 * half)), _mm_cvtepu8_epi16(places)));
      n += (uint32_t)__builtin_popcount(bits);
      bytes = _mm_srli_si128(v, 8);
    }
  }
  return compress_plain(x, i, f, scale, at, values, n);
}
#endif

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
    count = vbmi2 ? compress_vbmi2(row, f, scale, at, values) : compress_plain(row, 0, f, scale, at, values, 0);
#elif VW == 8
    count = compress_avx2(row, f, scale, at, values);
#else
    count = compress_plain(row, 0, f, scale, at, values, 0);
#endif
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
    float all[SKIP_CLASSES_MAX], most = in[0], total = 0;
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
    for (int64_t c = 0; c < SKIP_CLASSES_MAX; c++) all[c] = c < k ? in[c] - most : -87.0f;
    for (int c = 0; c < SKIP_CLASSES_MAX; c += VW) v_store(all + c, v_exp(v_load(all + c)));
    for (int64_t c = 0; c < k; c++) total += all[c];
    const float r = weight[i] / total;
    for (int64_t c = 0; c < k; c++) out[c] = all[c] * r;
#endif
    loss[i] = __builtin_logf(total) + most - in[label];
    out[label] -= weight[i];
  }
  return NULL;
}
