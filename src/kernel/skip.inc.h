/* See skip.h. Rows of weights have at most 16 numbers and stand one after another, so they are loaded and stored by
 * masks; they are not padded. Included by the files lanes_*.c. */

#if VW == 16
typedef struct {
  vf v;
} skip_row;
typedef __mmask16 skip_mask;
INLINE skip_mask skip_mask_of(int64_t k) { return (skip_mask)((1u << k) - 1); }
INLINE skip_row skip_load(const float *p, skip_mask m) { return (skip_row){(vf)_mm512_maskz_loadu_ps(m, p)}; }
INLINE void skip_store(float *p, skip_row r, skip_mask m) { _mm512_mask_storeu_ps(p, m, (__m512)r.v); }
INLINE skip_row skip_fma(float c, skip_row x, skip_row y) { return (skip_row){v_set(c) * x.v + y.v}; }
INLINE skip_row skip_add(skip_row x, skip_row y) { return (skip_row){x.v + y.v}; }
INLINE skip_row skip_scale(float c, skip_row x) { return (skip_row){v_set(c) * x.v}; }
#elif VW == 8
typedef struct {
  vf v, w;
} skip_row;
typedef struct {
  __m256i v, w;
} skip_mask;
INLINE skip_mask skip_mask_of(int64_t k) {
  const __m256i count = _mm256_set1_epi32((int)k), at = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return (skip_mask){_mm256_cmpgt_epi32(count, at),
                     _mm256_cmpgt_epi32(count, _mm256_add_epi32(at, _mm256_set1_epi32(8)))};
}
INLINE skip_row skip_load(const float *p, skip_mask m) {
  return (skip_row){(vf)_mm256_maskload_ps(p, m.v), (vf)_mm256_maskload_ps(p + 8, m.w)};
}
INLINE void skip_store(float *p, skip_row r, skip_mask m) {
  _mm256_maskstore_ps(p, m.v, (__m256)r.v);
  _mm256_maskstore_ps(p + 8, m.w, (__m256)r.w);
}
INLINE skip_row skip_fma(float c, skip_row x, skip_row y) {
  return (skip_row){v_set(c) * x.v + y.v, v_set(c) * x.w + y.w};
}
INLINE skip_row skip_add(skip_row x, skip_row y) { return (skip_row){x.v + y.v, x.w + y.w}; }
INLINE skip_row skip_scale(float c, skip_row x) { return (skip_row){v_set(c) * x.v, v_set(c) * x.w}; }
#else
typedef struct {
  float v[SKIP_MOST_CLASSES];
} skip_row;
typedef int64_t skip_mask;
INLINE skip_mask skip_mask_of(int64_t k) { return k; }
INLINE skip_row skip_load(const float *p, skip_mask m) {
  skip_row r = {{0}};
  for (int64_t i = 0; i < m; i++) r.v[i] = p[i];
  return r;
}
INLINE void skip_store(float *p, skip_row r, skip_mask m) {
  for (int64_t i = 0; i < m; i++) p[i] = r.v[i];
}
INLINE skip_row skip_fma(float c, skip_row x, skip_row y) {
  for (int i = 0; i < SKIP_MOST_CLASSES; i++) y.v[i] += c * x.v[i];
  return y;
}
INLINE skip_row skip_add(skip_row x, skip_row y) {
  for (int i = 0; i < SKIP_MOST_CLASSES; i++) y.v[i] += x.v[i];
  return y;
}
INLINE skip_row skip_scale(float c, skip_row x) {
  for (int i = 0; i < SKIP_MOST_CLASSES; i++) x.v[i] *= c;
  return x;
}
#endif

static uint32_t compress_plain(const uint8_t *x, int64_t from, int64_t f, uint16_t *at, uint8_t *bytes, uint32_t n) {
  int64_t i = from;
  for (; i + 8 <= f; i += 8) {
    uint64_t word;
    memcpy(&word, x + i, sizeof word);
    if (!word) continue;
    for (int k = 0; k < 8; k++) { /* written in any case, counted only if it is not zero: no branch to mispredict */
      at[n] = (uint16_t)(i + k);
      bytes[n] = x[i + k];
      n += x[i + k] != 0;
    }
  }
  for (; i < f; i++)
    if (x[i]) {
      at[n] = (uint16_t)i;
      bytes[n++] = x[i];
    }
  return n;
}

#if VW == 16
__attribute__((target("avx512vbmi2"))) static uint32_t compress_vbmi2(const uint8_t *x, int64_t f, uint16_t *at,
                                                                      uint8_t *bytes) {
  uint32_t n = 0;
  int64_t i = 0;
  const __m512i step = _mm512_set1_epi16(32);
  __m512i places = _mm512_set_epi16(31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16, 15, 14, 13, 12, 11,
                                    10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  for (; i + 64 <= f; i += 64) {
    __m512i v = _mm512_loadu_si512(x + i);
    __mmask64 m = _mm512_test_epi8_mask(v, v);
    __m512i high = _mm512_add_epi16(places, step);
    if (m) {
      const uint32_t low = (uint32_t)__builtin_popcount((uint32_t)m);
      _mm512_storeu_si512(bytes + n, _mm512_maskz_compress_epi8(m, v));
      _mm512_storeu_si512(at + n, _mm512_maskz_compress_epi16((__mmask32)m, places));
      _mm512_storeu_si512(at + n + low, _mm512_maskz_compress_epi16((__mmask32)(m >> 32), high));
      n += (uint32_t)__builtin_popcountll(m);
    }
    places = _mm512_add_epi16(high, step);
  }
  return compress_plain(x, i, f, at, bytes, n);
}
#endif

shoal_status ISA_NAME(skip_compress)(const kernel_call *call) {
  const shoal_tensor *x = &call->in[0];
  const int64_t n = x->shape.dim[0], f = lanes_features(x), stride = LIST_BYTES(f);
#if VW == 16
  const bool vbmi2 = __builtin_cpu_supports("avx512vbmi2");
#endif
  for (int64_t i = 0; i < n; i++) {
    char *list = (char *)call->out[0].data + i * stride;
    uint16_t *at = list_positions(list);
    uint8_t *bytes = list_bytes(list, f);
    const uint8_t *row = tensor_row(x, i, (size_t)f);
    uint32_t count;
#if VW == 16
    if (vbmi2)
      count = compress_vbmi2(row, f, at, bytes);
    else
#endif
      count = compress_plain(row, 0, f, at, bytes, 0);
    while (count % 4) {
      at[count] = 0;
      bytes[count++] = 0;
    }
    *list_count(list) = count;
  }
  return NULL;
}

static void skip_table(float table[256], float scale) {
  for (int i = 0; i < 256; i++) table[i] = (float)i * scale;
}

/* lists, w, bias; attr 0: scale */
shoal_status ISA_NAME(skip_matmul)(const kernel_call *call) {
  const int64_t f = call->in[1].shape.dim[0], k = call->in[1].shape.dim[1], stride = LIST_BYTES(f);
  const float *w = call->in[1].data, *bias = call->in[2].data;
  const skip_mask mask = skip_mask_of(k);
  float table[256];
  skip_table(table, (float)call->attr[0].f);
  const skip_row start = skip_load(bias, mask);
  for (int64_t i = 0; i < call->in[0].shape.dim[0]; i++) {
    char *list = (char *)call->in[0].data + i * stride;
    const uint16_t *at = list_positions(list);
    const uint8_t *bytes = list_bytes(list, f);
    skip_row a = start, b = {0}, c = {0}, d = {0};
    for (uint32_t e = 0, n = *list_count(list); e < n; e += 4) {
      a = skip_fma(table[bytes[e]], skip_load(w + at[e] * k, mask), a);
      b = skip_fma(table[bytes[e + 1]], skip_load(w + at[e + 1] * k, mask), b);
      c = skip_fma(table[bytes[e + 2]], skip_load(w + at[e + 2] * k, mask), c);
      d = skip_fma(table[bytes[e + 3]], skip_load(w + at[e + 3] * k, mask), d);
    }
    skip_store((float *)call->out[0].data + i * k, skip_add(skip_add(a, b), skip_add(c, d)), mask);
  }
  return NULL;
}

/* w += factor * x^T d, for the features [from, to). */
static void skip_add_product(float *w, const shoal_tensor *lists, const float *d, int64_t f, int64_t k, float scale,
                             float factor, int64_t from, int64_t to) {
  const skip_mask mask = skip_mask_of(k);
  const int64_t stride = LIST_BYTES(f), n = lists->shape.dim[0];
  const bool all = from == 0 && to == f;
  float table[256];
  skip_table(table, scale * factor);
  for (int64_t i = 0; i < n; i++) {
    char *list = (char *)lists->data + i * stride;
    const uint16_t *at = list_positions(list);
    const uint8_t *bytes = list_bytes(list, f);
    uint32_t e = 0, last = *list_count(list);
    const skip_row g = skip_load(d + i * k, mask);
    if (!all) { /* positions ascend, but for the filling at the end, whose byte is 0 */
      while (last && !bytes[last - 1]) last--;
      uint32_t low = 0, high = last;
      while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (at[middle] < from)
          low = middle + 1;
        else
          high = middle;
      }
      e = low;
      high = last;
      while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (at[middle] < to)
          low = middle + 1;
        else
          high = middle;
      }
      last = low;
    }
    for (; e < last; e++) {
      float *row = w + at[e] * k;
      skip_store(row, skip_fma(table[bytes[e]], g, skip_load(row, mask)), mask);
    }
  }
}

/* lists, d; attr 0: scale */
shoal_status ISA_NAME(skip_sum)(const kernel_call *call) {
  const int64_t f = call->out[0].shape.dim[0], k = call->out[0].shape.dim[1];
  if (!call->accumulate) memset(call->out[0].data, 0, (size_t)(f * k) * sizeof(float));
  skip_add_product(call->out[0].data, &call->in[0], call->in[1].data, f, k, (float)call->attr[0].f, 1.0f, 0, f);
  return NULL;
}

static void skip_sgd_share(void *context, int thread, int threads) {
  const kernel_call *call = context;
  const shoal_tensor *w = &call->in[0];
  int64_t from, to, f = w->shape.dim[0], k = w->shape.dim[1];
  pool_share(f, LANES, thread, threads, &from, &to);
  skip_add_product(w->data, &call->in[1], call->in[2].data, f, k, (float)call->attr[0].f,
                   -*(const float *)call->in[3].data, from, to);
}

/* w, lists, d, rate; attr 0: scale. Each thread updates its own features, so their number does not change the result. */
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
    const skip_mask mask = skip_mask_of(k);
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
