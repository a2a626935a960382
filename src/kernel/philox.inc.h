/* Uniform numbers from the counter-based generator of base/random.h, several counters side by side. Included by the
 * files lanes_*.c. */

#define PHILOX_WIDE (VW == 16 ? 32 : 16) /* counters at a time */

/* Blocks `first` .. first + PHILOX_WIDE of the stream, as numbers in [0, 1): out [4 * PHILOX_WIDE]. */
#if VW == 16
/* As below, with twice as many counters in a vector. */
static void philox_wide(const random_stream *s, uint64_t first, float *out) {
  enum { V = PHILOX_WIDE / 8 };
  __m512i c0[V], c1[V], c2[V], c3[V];
  const __m512i m0 = _mm512_set1_epi64(0xD2511F53), m1 = _mm512_set1_epi64(0xCD9E8D57);
  UNROLL for (int v = 0; v < V; v++) {
    __m512i at =
        _mm512_add_epi64(_mm512_set1_epi64((long long)first + 8 * v), _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0));
    c0[v] = at;
    c1[v] = _mm512_srli_epi64(at, 32);
    c2[v] = _mm512_set1_epi64(s->stream[0]);
    c3[v] = _mm512_set1_epi64(s->stream[1]);
  }
  uint32_t k0 = s->key[0], k1 = s->key[1];
  UNROLL for (int round = 0; round < 10; round++) {
    const __m512i key0 = _mm512_set1_epi64(k0), key1 = _mm512_set1_epi64(k1);
    UNROLL for (int v = 0; v < V; v++) {
      __m512i p0 = _mm512_mul_epu32(c0[v], m0), p1 = _mm512_mul_epu32(c2[v], m1);
      c0[v] = _mm512_ternarylogic_epi64(_mm512_srli_epi64(p1, 32), c1[v], key0, 0x96); /* all three by xor */
      c2[v] = _mm512_ternarylogic_epi64(_mm512_srli_epi64(p0, 32), c3[v], key1, 0x96);
      c1[v] = p1;
      c3[v] = p0;
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  const __m512i order[2] = {_mm512_set_epi64(11, 10, 3, 2, 9, 8, 1, 0), _mm512_set_epi64(15, 14, 7, 6, 13, 12, 5, 4)};
  UNROLL for (int v = 0; v < V; v++) {
    __m512i front = _mm512_mask_shuffle_epi32(c0[v], 0xaaaa, c1[v], _MM_PERM_CCAA);
    __m512i back = _mm512_mask_shuffle_epi32(c2[v], 0xaaaa, c3[v], _MM_PERM_CCAA);
    __m512i even = _mm512_unpacklo_epi64(front, back), odd = _mm512_unpackhi_epi64(front, back);
    UNROLL for (int i = 0; i < 2; i++) {
      __m512i words = _mm512_permutex2var_epi64(even, order[i], odd);
      __m512 numbers = _mm512_cvtepi32_ps(_mm512_srli_epi32(words, 8));
      _mm512_storeu_ps(out + 32 * v + 16 * i, _mm512_mul_ps(numbers, _mm512_set1_ps(0x1p-24f)));
    }
  }
}
#elif VW == 8
/* A counter's word stands in the lower half of 64 bits; what multiplication leaves in the upper half does no harm. */
static void philox_wide(const random_stream *s, uint64_t first, float *out) {
  enum { V = PHILOX_WIDE / 4 }; /* vectors of four counters, independent of each other */
  __m256i c0[V], c1[V], c2[V], c3[V];
  const __m256i m0 = _mm256_set1_epi64x(0xD2511F53), m1 = _mm256_set1_epi64x(0xCD9E8D57);
  UNROLL for (int v = 0; v < V; v++) {
    __m256i at = _mm256_add_epi64(_mm256_set1_epi64x((long long)first + 4 * v), _mm256_set_epi64x(3, 2, 1, 0));
    c0[v] = at;
    c1[v] = _mm256_srli_epi64(at, 32);
    c2[v] = _mm256_set1_epi64x(s->stream[0]);
    c3[v] = _mm256_set1_epi64x(s->stream[1]);
  }
  uint32_t k0 = s->key[0], k1 = s->key[1];
  for (int round = 0; round < 10; round++) {
    const __m256i key0 = _mm256_set1_epi64x(k0), key1 = _mm256_set1_epi64x(k1);
    UNROLL for (int v = 0; v < V; v++) {
      __m256i p0 = _mm256_mul_epu32(c0[v], m0), p1 = _mm256_mul_epu32(c2[v], m1);
      c0[v] = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p1, 32), c1[v]), key0);
      c2[v] = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p0, 32), c3[v]), key1);
      c1[v] = p1;
      c3[v] = p0;
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  UNROLL for (int v = 0; v < V; v++) {
    /* Words 0 and 1, words 2 and 3 of each counter side by side; then all four of one after the other. */
    __m256i front = _mm256_blend_epi32(c0[v], _mm256_slli_epi64(c1[v], 32), 0xaa);
    __m256i back = _mm256_blend_epi32(c2[v], _mm256_slli_epi64(c3[v], 32), 0xaa);
    __m256i even = _mm256_unpacklo_epi64(front, back), odd = _mm256_unpackhi_epi64(front, back);
    __m256i words[2] = {_mm256_permute2x128_si256(even, odd, 0x20), _mm256_permute2x128_si256(even, odd, 0x31)};
    UNROLL for (int i = 0; i < 2; i++) {
      __m256 numbers = _mm256_cvtepi32_ps(_mm256_srli_epi32(words[i], 8));
      _mm256_storeu_ps(out + 16 * v + 8 * i, _mm256_mul_ps(numbers, _mm256_set1_ps(0x1p-24f)));
    }
  }
}
#else
static void philox_wide(const random_stream *s, uint64_t first, float *out) {
  for (int i = 0; i < PHILOX_WIDE; i++) {
    uint32_t words[4];
    random_block(s, first + (uint64_t)i, words);
    for (int k = 0; k < 4; k++) out[4 * i + k] = random_to_float(words[k]);
  }
}
#endif

void ISA_NAME(philox_uniform)(const random_stream *s, uint64_t first, int64_t n, float *out) {
  enum { WIDE = 4 * PHILOX_WIDE };
  float wide[WIDE];
  while (n > 0) {
    int64_t skip = (int64_t)(first % WIDE), take = WIDE - skip < n ? WIDE - skip : n;
    bool whole = take == WIDE;
    philox_wide(s, first / WIDE * PHILOX_WIDE, whole ? out : wide);
    if (!whole) memcpy(out, wide + skip, (size_t)take * sizeof *out);
    out += take;
    first += (uint64_t)take;
    n -= take;
  }
}
