#include "data/interactions.h"

#include "base/mem.h"
#include "base/random.h"

#include <math.h>
#include <string.h>

/* Of the log's fields those with few words, so that their interactions can be learned from some ten thousand rows. */
static const int pair_fields[PAIR_FIELDS] = {5, 13, 16, 21, 22, 24};
static const int triple_fields[TRIPLE_FIELDS] = {8, 19, 16};

#define PAIR_SCALE 0.55  /* of a vector's numbers: all pairs together change the logit by about 1.3 */
#define TRIPLE_SCALE 1.4 /* standard deviation of a triple's part of the logit before its means are taken out */

static int64_t words_of(const int64_t *sizes, int field, int most) { return MIN_OF(sizes[field], most); }

/* How often word i of a field of n words is drawn. */
static double share(int64_t i, int64_t n) { return log2((double)(i + 2) / (double)(i + 1)) / log2((double)n + 1); }

/* Near normal (a sum of four uniforms), mean 0 and deviation 1. */
static double draw(uint64_t seed, uint64_t at) {
  const uint64_t bits = random_mix(seed ^ 0x1a7e4ac7ull, at);
  const double sum = (double)((bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48)) / 65536;
  return (sum - 2) * 1.7320508;
}

/* Takes the mean over words out of n numbers `stride` apart. */
static void centre(double *numbers, int64_t n, size_t stride) {
  double mean = 0;
  for (int64_t i = 0; i < n; i++) mean += share(i, n) * numbers[(size_t)i * stride];
  for (int64_t i = 0; i < n; i++) numbers[(size_t)i * stride] -= mean;
}

void interactions_init(interactions *t, uint64_t seed, const int64_t *sizes) {
  memset(t, 0, sizeof *t);
  for (int f = 0; f < PAIR_FIELDS; f++) {
    const int64_t n = words_of(sizes, pair_fields[f], PAIR_WORDS);
    for (int64_t w = 0; w < n; w++)
      for (int k = 0; k < PAIR_RANK; k++)
        t->vectors[f][w][k] = PAIR_SCALE * draw(seed, (uint64_t)((f * PAIR_WORDS + w) * PAIR_RANK + k));
    for (int k = 0; k < PAIR_RANK; k++) centre(&t->vectors[f][0][k], n, PAIR_RANK);
  }
  int64_t n[TRIPLE_FIELDS];
  for (int f = 0; f < TRIPLE_FIELDS; f++) n[f] = words_of(sizes, triple_fields[f], TRIPLE_WORDS);
  for (int64_t a = 0; a < n[0]; a++)
    for (int64_t b = 0; b < n[1]; b++)
      for (int64_t c = 0; c < n[2]; c++)
        t->triples[a][b][c] =
            TRIPLE_SCALE * draw(seed, (uint64_t)(1000000 + (a * TRIPLE_WORDS + b) * TRIPLE_WORDS + c));
  /* Along each axis in turn: what is zero on average along one stays so when another is centred. */
  for (int64_t a = 0; a < n[0]; a++)
    for (int64_t b = 0; b < n[1]; b++) centre(t->triples[a][b], n[2], 1);
  for (int64_t a = 0; a < n[0]; a++)
    for (int64_t c = 0; c < n[2]; c++) centre(&t->triples[a][0][c], n[1], TRIPLE_WORDS);
  for (int64_t b = 0; b < n[1]; b++)
    for (int64_t c = 0; c < n[2]; c++) centre(&t->triples[0][b][c], n[0], TRIPLE_WORDS * TRIPLE_WORDS);
}

double interactions_of_pairs(const interactions *t, const int32_t *words) {
  double sum = 0, total[PAIR_RANK] = {0}; /* of the vectors of fields so far */
  for (int f = 0; f < PAIR_FIELDS; f++) {
    const int32_t w = words[pair_fields[f]];
    if (w < 0 || w >= PAIR_WORDS) continue;
    for (int k = 0; k < PAIR_RANK; k++) {
      sum += total[k] * t->vectors[f][w][k];
      total[k] += t->vectors[f][w][k];
    }
  }
  return sum;
}

double interactions_of_triples(const interactions *t, const int32_t *words) {
  int32_t w[TRIPLE_FIELDS];
  for (int f = 0; f < TRIPLE_FIELDS; f++) {
    w[f] = words[triple_fields[f]];
    if (w[f] < 0 || w[f] >= TRIPLE_WORDS) return 0;
  }
  return t->triples[w[0]][w[1]][w[2]];
}
