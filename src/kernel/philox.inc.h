/* Uniform numbers from the counter-based generator of base/random.h, several counters side by side. Included by the
 * files lanes_*.c. */

#define PHILOX_WIDE 16 /* counters at a time */

/* Blocks `first` .. first + PHILOX_WIDE of the stream, as numbers in [0, 1): out [4 * PHILOX_WIDE]. */
#ifdef __AVX2__
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
