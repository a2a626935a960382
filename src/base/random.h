/* Random numbers from a counter: no state, so any element of any stream can be drawn at any time, by any thread, in
 * any order, with the same result. Philox4x32-10 (Salmon et al., 2011). */
#ifndef SHOAL_BASE_RANDOM_H
#define SHOAL_BASE_RANDOM_H

#include <stdint.h>

/* A stream is named by a seed and a purpose (operator, step, epoch ...). */
typedef struct {
  uint32_t key[2];
  uint32_t stream[2];
} random_stream;

random_stream random_stream_make(uint64_t seed, uint64_t stream);

/* Four 32-bit words for the given position of the stream. */
void random_block(const random_stream *s, uint64_t position, uint32_t out[4]);

/* Uniform in [0, 1), 24 bits. */
static inline float random_to_float(uint32_t word) { return (float)(word >> 8) * 0x1p-24f; }

/* Element i of the stream: uniform in [0,1); standard normal; standard normal redrawn outside two deviations. */
double random_uniform_at(const random_stream *s, uint64_t i);
double random_normal_at(const random_stream *s, uint64_t i);
double random_truncated_at(const random_stream *s, uint64_t i);

/* Uniform integer in [0, bound). */
uint64_t random_below(const random_stream *s, uint64_t i, uint64_t bound);

/* order[0..n) becomes a permutation of 0..n-1 that depends on the stream alone. */
void random_permutation(const random_stream *s, int32_t *order, int64_t n);

/* A well-mixed 64-bit hash of two words, for naming streams. */
uint64_t random_mix(uint64_t a, uint64_t b);

#endif
