#include "base/crc32c.h"

#include <stdbool.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* Remainders of the 256 bytes; the polynomial is 0x82f63b78, bits reversed. */
static const uint32_t remainders[256] = {
    0x00000000, 0xf26b8303, 0xe13b70f7, 0x1350f3f4, 0xc79a971f, 0x35f1141c, 0x26a1e7e8, 0xd4ca64eb, 0x8ad958cf,
    0x78b2dbcc, 0x6be22838, 0x9989ab3b, 0x4d43cfd0, 0xbf284cd3, 0xac78bf27, 0x5e133c24, 0x105ec76f, 0xe235446c,
    0xf165b798, 0x030e349b, 0xd7c45070, 0x25afd373, 0x36ff2087, 0xc494a384, 0x9a879fa0, 0x68ec1ca3, 0x7bbcef57,
    0x89d76c54, 0x5d1d08bf, 0xaf768bbc, 0xbc267848, 0x4e4dfb4b, 0x20bd8ede, 0xd2d60ddd, 0xc186fe29, 0x33ed7d2a,
    0xe72719c1, 0x154c9ac2, 0x061c6936, 0xf477ea35, 0xaa64d611, 0x580f5512, 0x4b5fa6e6, 0xb93425e5, 0x6dfe410e,
    0x9f95c20d, 0x8cc531f9, 0x7eaeb2fa, 0x30e349b1, 0xc288cab2, 0xd1d83946, 0x23b3ba45, 0xf779deae, 0x05125dad,
    0x1642ae59, 0xe4292d5a, 0xba3a117e, 0x4851927d, 0x5b016189, 0xa96ae28a, 0x7da08661, 0x8fcb0562, 0x9c9bf696,
    0x6ef07595, 0x417b1dbc, 0xb3109ebf, 0xa0406d4b, 0x522bee48, 0x86e18aa3, 0x748a09a0, 0x67dafa54, 0x95b17957,
    0xcba24573, 0x39c9c670, 0x2a993584, 0xd8f2b687, 0x0c38d26c, 0xfe53516f, 0xed03a29b, 0x1f682198, 0x5125dad3,
    0xa34e59d0, 0xb01eaa24, 0x42752927, 0x96bf4dcc, 0x64d4cecf, 0x77843d3b, 0x85efbe38, 0xdbfc821c, 0x2997011f,
    0x3ac7f2eb, 0xc8ac71e8, 0x1c661503, 0xee0d9600, 0xfd5d65f4, 0x0f36e6f7, 0x61c69362, 0x93ad1061, 0x80fde395,
    0x72966096, 0xa65c047d, 0x5437877e, 0x4767748a, 0xb50cf789, 0xeb1fcbad, 0x197448ae, 0x0a24bb5a, 0xf84f3859,
    0x2c855cb2, 0xdeeedfb1, 0xcdbe2c45, 0x3fd5af46, 0x7198540d, 0x83f3d70e, 0x90a324fa, 0x62c8a7f9, 0xb602c312,
    0x44694011, 0x5739b3e5, 0xa55230e6, 0xfb410cc2, 0x092a8fc1, 0x1a7a7c35, 0xe811ff36, 0x3cdb9bdd, 0xceb018de,
    0xdde0eb2a, 0x2f8b6829, 0x82f63b78, 0x709db87b, 0x63cd4b8f, 0x91a6c88c, 0x456cac67, 0xb7072f64, 0xa457dc90,
    0x563c5f93, 0x082f63b7, 0xfa44e0b4, 0xe9141340, 0x1b7f9043, 0xcfb5f4a8, 0x3dde77ab, 0x2e8e845f, 0xdce5075c,
    0x92a8fc17, 0x60c37f14, 0x73938ce0, 0x81f80fe3, 0x55326b08, 0xa759e80b, 0xb4091bff, 0x466298fc, 0x1871a4d8,
    0xea1a27db, 0xf94ad42f, 0x0b21572c, 0xdfeb33c7, 0x2d80b0c4, 0x3ed04330, 0xccbbc033, 0xa24bb5a6, 0x502036a5,
    0x4370c551, 0xb11b4652, 0x65d122b9, 0x97baa1ba, 0x84ea524e, 0x7681d14d, 0x2892ed69, 0xdaf96e6a, 0xc9a99d9e,
    0x3bc21e9d, 0xef087a76, 0x1d63f975, 0x0e330a81, 0xfc588982, 0xb21572c9, 0x407ef1ca, 0x532e023e, 0xa145813d,
    0x758fe5d6, 0x87e466d5, 0x94b49521, 0x66df1622, 0x38cc2a06, 0xcaa7a905, 0xd9f75af1, 0x2b9cd9f2, 0xff56bd19,
    0x0d3d3e1a, 0x1e6dcdee, 0xec064eed, 0xc38d26c4, 0x31e6a5c7, 0x22b65633, 0xd0ddd530, 0x0417b1db, 0xf67c32d8,
    0xe52cc12c, 0x1747422f, 0x49547e0b, 0xbb3ffd08, 0xa86f0efc, 0x5a048dff, 0x8ecee914, 0x7ca56a17, 0x6ff599e3,
    0x9d9e1ae0, 0xd3d3e1ab, 0x21b862a8, 0x32e8915c, 0xc083125f, 0x144976b4, 0xe622f5b7, 0xf5720643, 0x07198540,
    0x590ab964, 0xab613a67, 0xb831c993, 0x4a5a4a90, 0x9e902e7b, 0x6cfbad78, 0x7fab5e8c, 0x8dc0dd8f, 0xe330a81a,
    0x115b2b19, 0x020bd8ed, 0xf0605bee, 0x24aa3f05, 0xd6c1bc06, 0xc5914ff2, 0x37faccf1, 0x69e9f0d5, 0x9b8273d6,
    0x88d28022, 0x7ab90321, 0xae7367ca, 0x5c18e4c9, 0x4f48173d, 0xbd23943e, 0xf36e6f75, 0x0105ec76, 0x12551f82,
    0xe03e9c81, 0x34f4f86a, 0xc69f7b69, 0xd5cf889d, 0x27a40b9e, 0x79b737ba, 0x8bdcb4b9, 0x988c474d, 0x6ae7c44e,
    0xbe2da0a5, 0x4c4623a6, 0x5f16d052, 0xad7d5351,
};

uint32_t crc32c_portable(uint32_t crc, const void *bytes, size_t n) {
  const uint8_t *at = bytes;
  crc = ~crc;
  for (size_t i = 0; i < n; i++) crc = crc >> 8 ^ remainders[(crc ^ at[i]) & 0xff];
  return ~crc;
}

#if defined(__x86_64__)
#define WITH_CRC __attribute__((target("sse4.2,pclmul")))

static inline uint64_t load(const uint8_t *at) {
  uint64_t word;
  memcpy(&word, at, sizeof word);
  return word;
}

/* The remainder after k more zero bytes, where factor = x^(8k - 33) mod the polynomial, bits reversed: the product has
 * 63 bits and the instruction itself multiplies by x^32 and reduces. */
WITH_CRC static inline uint64_t shifted(uint64_t crc, uint32_t factor) {
  __m128i product = _mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)crc), _mm_cvtsi64_si128((long long)factor), 0);
  return _mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(product));
}

/* The instruction takes 3 cycles but one can start each cycle: three stretches of `part` bytes at once, then joined. */
WITH_CRC static inline uint64_t three(uint64_t crc, const uint8_t *at, size_t part, uint32_t by_one, uint32_t by_two) {
  uint64_t a = crc, b = 0, c = 0;
  for (size_t i = 0; i < part; i += 8) {
    a = _mm_crc32_u64(a, load(at + i));
    b = _mm_crc32_u64(b, load(at + part + i));
    c = _mm_crc32_u64(c, load(at + 2 * part + i));
  }
  return shifted(a, by_two) ^ shifted(b, by_one) ^ c;
}

WITH_CRC static uint32_t crc32c_instruction(uint32_t crc, const uint8_t *at, size_t n) {
  uint64_t r = ~crc;
  for (; n >= 3 * 512; at += 3 * 512, n -= 3 * 512) r = three(r, at, 512, 0xdd7e3b0cu, 0x170076fau);
  for (; n >= 3 * 64; at += 3 * 64, n -= 3 * 64) r = three(r, at, 64, 0x9e4addf8u, 0x0d3b6092u);
  for (; n >= 8; at += 8, n -= 8) r = _mm_crc32_u64(r, load(at));
  for (; n; at++, n--) r = _mm_crc32_u8((uint32_t)r, *at);
  return ~(uint32_t)r;
}

/* Sixteen remainders of 16 bytes at once: each is carried 256 bytes on by two products, with x^(2048 + 32) and
 * x^(2048 - 32) mod the polynomial (bits reversed, one bit up), and meets the 16 bytes there. In the end they are carried on to
 * the last of them, whose 16 bytes have the remainder of all. */
#define WITH_FOLDING __attribute__((target("sse4.2,pclmul,avx512f,vpclmulqdq")))
#define FOLD_MIN 1024

WITH_FOLDING static inline __m512i fold(__m512i r, __m512i by, __m512i next) {
  const __m512i low = _mm512_clmulepi64_epi128(r, by, 0x00), high = _mm512_clmulepi64_epi128(r, by, 0x11);
  return _mm512_ternarylogic_epi64(low, high, next, 0x96); /* xor of the three */
}

WITH_FOLDING static inline __m128i fold_one(__m128i r, long long by_low, long long by_high, __m128i next) {
  const __m128i by = _mm_set_epi64x(by_high, by_low);
  const __m128i both = _mm_xor_si128(_mm_clmulepi64_si128(r, by, 0x00), _mm_clmulepi64_si128(r, by, 0x11));
  return _mm_xor_si128(both, next);
}

/* 64 bytes, which also go to `to` unless that is NULL. */
WITH_FOLDING static inline __m512i take(const uint8_t *at, uint8_t *to) {
  const __m512i bytes = _mm512_loadu_si512(at);
  if (to) _mm512_storeu_si512(to, bytes);
  return bytes;
}

WITH_FOLDING static inline __attribute__((always_inline)) uint32_t folding(uint32_t crc, const uint8_t *at, size_t n,
                                                                           uint8_t *to) {
#define TAKE(offset) take(at + (offset), to ? to + (offset) : NULL)
#define NEXT (at += 256, to = to ? to + 256 : NULL, n -= 256)
  const __m512i by_256 = _mm512_broadcast_i32x4(_mm_set_epi64x(0xb9e02b86, 0xdcb17aa4));
  const __m512i by_64 = _mm512_broadcast_i32x4(_mm_set_epi64x(0x9e4addf8, 0x740eef02));
  __m512i a = TAKE(0), b = TAKE(64), c = TAKE(128), d = TAKE(192);
  a = _mm512_xor_si512(a, _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)~crc)));
  for (NEXT; n >= 256; NEXT) {
    a = fold(a, by_256, TAKE(0));
    b = fold(b, by_256, TAKE(64));
    c = fold(c, by_256, TAKE(128));
    d = fold(d, by_256, TAKE(192));
  }
#undef NEXT
#undef TAKE
  d = fold(fold(fold(a, by_64, b), by_64, c), by_64, d);
  __m128i r = _mm512_extracti32x4_epi32(d, 3);
  r = fold_one(_mm512_extracti32x4_epi32(d, 0), 0x1c291d04, 0x1d82c63da, r);
  r = fold_one(_mm512_extracti32x4_epi32(d, 1), 0x1384aa63a, 0xba4fc28e, r);
  r = fold_one(_mm512_extracti32x4_epi32(d, 2), 0xf20c0dfe, 0x14cd00bd6, r);
  uint64_t last = _mm_crc32_u64(0, (uint64_t)_mm_extract_epi64(r, 0));
  last = _mm_crc32_u64(last, (uint64_t)_mm_extract_epi64(r, 1));
  _mm256_zeroupper(); /* gcc leaves it out before a tail call; SSE code that follows would take three times as long */
  if (to) memcpy(to, at, n);
  return crc32c_instruction(~(uint32_t)last, at, n);
}

WITH_FOLDING static uint32_t crc32c_folding(uint32_t crc, const uint8_t *at, size_t n) {
  return folding(crc, at, n, NULL);
}

WITH_FOLDING static uint32_t crc32c_folding_copy(uint32_t crc, const uint8_t *at, size_t n, uint8_t *to) {
  return folding(crc, at, n, to);
}

static bool folds(size_t n) {
  return n >= FOLD_MIN && __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("avx512f");
}
#endif

uint32_t crc32c(uint32_t crc, const void *bytes, size_t n) {
#if defined(__x86_64__)
  if (folds(n)) return crc32c_folding(crc, bytes, n);
  if (__builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul")) return crc32c_instruction(crc, bytes, n);
#endif
  return crc32c_portable(crc, bytes, n);
}

#define NEAR ((size_t)16 << 10) /* bytes that are still in the nearest cache when they are read once more */

uint32_t crc32c_copy(uint32_t crc, void *restrict to, const void *restrict bytes, size_t n) {
#if defined(__x86_64__)
  if (folds(n)) return crc32c_folding_copy(crc, bytes, n, to);
#endif
  for (size_t at = 0, k; at < n; at += k) {
    k = n - at < NEAR ? n - at : NEAR;
    crc = crc32c(crc, (const uint8_t *)bytes + at, k);
    memcpy((uint8_t *)to + at, (const uint8_t *)bytes + at, k);
  }
  return crc;
}
