#include "base/random.h"

#include <math.h>

uint64_t random_mix(uint64_t a, uint64_t b) {
  uint64_t z = a + 0x9e3779b97f4a7c15u * (b + 1);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

random_stream random_stream_make(uint64_t seed, uint64_t stream) {
  return (random_stream){{(uint32_t)seed, (uint32_t)(seed >> 32)}, {(uint32_t)stream, (uint32_t)(stream >> 32)}};
}

void random_block(const random_stream *s, uint64_t position, uint32_t out[4]) {
  uint32_t c0 = (uint32_t)position, c1 = (uint32_t)(position >> 32), c2 = s->stream[0], c3 = s->stream[1];
  uint32_t k0 = s->key[0], k1 = s->key[1];
  for (int round = 0; round < 10; round++) {
    uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
    c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
    c1 = (uint32_t)p1;
    c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
    c3 = (uint32_t)p0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  out[0] = c0;
  out[1] = c1;
  out[2] = c2;
  out[3] = c3;
}

double random_uniform_at(const random_stream *s, uint64_t i) {
  uint32_t w[4];
  random_block(s, i / 4, w);
  return random_to_float(w[i % 4]);
}

/* Box-Muller on two uniforms of 32 bits; u > 0 keeps the logarithm finite. */
static double normal_of(uint32_t a, uint32_t b) {
  double u = ((double)a + 0.5) * 0x1p-32, v = (double)b * 0x1p-32;
  return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

double random_normal_at(const random_stream *s, uint64_t i) {
  uint32_t w[4];
  random_block(s, i / 2, w);
  return i % 2 ? normal_of(w[2], w[3]) : normal_of(w[0], w[1]);
}

double random_truncated_at(const random_stream *s, uint64_t i) {
  /* Each element has its own run of blocks, so a redraw disturbs no neighbour. 32 tries fail with p < 1e-42. */
  double x = 0;
  for (uint64_t attempt = 0; attempt < 16; attempt++) {
    uint32_t w[4];
    random_block(s, i * 16 + attempt, w);
    for (int half = 0; half < 2; half++) {
      x = normal_of(w[2 * half], w[2 * half + 1]);
      if (fabs(x) <= 2) return x;
    }
  }
  return 0;
}

uint64_t random_below(const random_stream *s, uint64_t i, uint64_t bound) {
  uint32_t w[4];
  random_block(s, i, w);
  uint64_t r = (uint64_t)w[0] << 32 | w[1];
  return (uint64_t)(((unsigned __int128)r * bound) >> 64);
}

void random_permutation(const random_stream *s, int32_t *order, int64_t n) {
  for (int64_t i = 0; i < n; i++) order[i] = (int32_t)i;
  uint32_t w[4];
  for (int64_t i = n - 1; i > 0; i--) { /* one block of numbers serves four exchanges: n is below 2^31 */
    int word = (int)((n - 1 - i) % 4);
    if (word == 0) random_block(s, (uint64_t)(n - 1 - i) / 4, w);
    int64_t j = (int64_t)(((uint64_t)w[word] * (uint64_t)(i + 1)) >> 32);
    int32_t t = order[i];
    order[i] = order[j];
    order[j] = t;
  }
}
