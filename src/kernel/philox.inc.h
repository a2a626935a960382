/* Uniform numbers from the counter-based generator of base/random.h, several counters side by side. Included by the files
 * lanes_*.c. */

#define PHILOX_WIDE 16 /* counters at a time */

/* Blocks `first` .. first + PHILOX_WIDE of the stream, as numbers in [0, 1): out [4 * PHILOX_WIDE]. */
static void philox_wide(const random_stream *s, uint64_t first, float *out) {
  uint32_t c0[PHILOX_WIDE], c1[PHILOX_WIDE], c2[PHILOX_WIDE], c3[PHILOX_WIDE];
  for (int i = 0; i < PHILOX_WIDE; i++) {
    c0[i] = (uint32_t)(first + (uint64_t)i);
    c1[i] = (uint32_t)((first + (uint64_t)i) >> 32);
    c2[i] = s->stream[0];
    c3[i] = s->stream[1];
  }
  uint32_t k0 = s->key[0], k1 = s->key[1];
  for (int round = 0; round < 10; round++) {
    for (int i = 0; i < PHILOX_WIDE; i++) {
      uint64_t p0 = (uint64_t)0xD2511F53u * c0[i], p1 = (uint64_t)0xCD9E8D57u * c2[i];
      c0[i] = (uint32_t)(p1 >> 32) ^ c1[i] ^ k0;
      c1[i] = (uint32_t)p1;
      c2[i] = (uint32_t)(p0 >> 32) ^ c3[i] ^ k1;
      c3[i] = (uint32_t)p0;
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  for (int i = 0; i < PHILOX_WIDE; i++) { /* 24 bits are exact in a signed conversion, which vectors have */
    out[4 * i] = (float)(int32_t)(c0[i] >> 8) * 0x1p-24f;
    out[4 * i + 1] = (float)(int32_t)(c1[i] >> 8) * 0x1p-24f;
    out[4 * i + 2] = (float)(int32_t)(c2[i] >> 8) * 0x1p-24f;
    out[4 * i + 3] = (float)(int32_t)(c3[i] >> 8) * 0x1p-24f;
  }
}

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
