#include "train/binary_metrics.h"

#include "base/mem.h"

#include <math.h>
#include <string.h>

/* Ascends with the number: the bits of a float do, once the sign is seen to. -0 becomes 0. */
static uint64_t ascending(float score) {
  uint32_t bits;
  score += 0.0f;
  memcpy(&bits, &score, sizeof bits);
  return bits & 0x80000000u ? (uint32_t)~bits : bits | 0x80000000u;
}

shoal_status binary_metrics_rank(binary_metrics *t, const float *scores, const int32_t *labels, int64_t n) {
  TRY(mem_grow((void **)&t->pairs, &t->capacity, (size_t)(t->rows + n), sizeof *t->pairs));
  for (int64_t i = 0; i < n; i++) t->pairs[t->rows++] = ascending(scores[i]) << 1 | (uint64_t)(labels[i] != 0);
  return NULL;
}

shoal_status binary_metrics_add(binary_metrics *t, const float *scores, const int32_t *labels, int64_t n) {
  TRY(binary_metrics_rank(t, scores, labels, n));
  for (int64_t i = 0; i < n; i++) {
    const double z = (double)scores[i];
    const int label = labels[i] != 0;
    t->loss += (z > 0 ? z : 0) - (label ? z : 0) + log1p(exp(-fabs(z)));
    t->hits += !isnan(z) && (z > 0) == label;
  }
  return NULL;
}

/* By the 33 bits that count, eleven at a time. */
static void sort_pairs(uint64_t *pairs, uint64_t *room, int64_t n) {
  enum { BITS = 11, BINS = 1 << BITS, PASSES = 3 };
  for (int pass = 0; pass < PASSES; pass++) {
    int64_t starts[BINS] = {0}, sum = 0;
    const int shift = pass * BITS;
    for (int64_t i = 0; i < n; i++) starts[pairs[i] >> shift & (BINS - 1)]++;
    for (int b = 0; b < BINS; b++) {
      int64_t count = starts[b];
      starts[b] = sum;
      sum += count;
    }
    for (int64_t i = 0; i < n; i++) room[starts[pairs[i] >> shift & (BINS - 1)]++] = pairs[i];
    memcpy(pairs, room, (size_t)n * sizeof *pairs);
  }
}

shoal_status binary_metrics_auc(binary_metrics *t, double *out) {
  uint64_t *room = malloc(((size_t)t->rows + 1) * sizeof *room);
  if (!room) return status_no_memory();
  if (t->rows) sort_pairs(t->pairs, room, t->rows);
  free(room);
  double area = 0, below = 0, right = 0; /* below: rows of class 0 with a smaller score; right: rows of class 1 */
  for (int64_t i = 0; i < t->rows;) {
    const uint64_t score = t->pairs[i] >> 1;
    double zeros = 0, ones = 0;
    for (; i < t->rows && t->pairs[i] >> 1 == score; i++) {
      ones += (double)(t->pairs[i] & 1);
      zeros += (double)!(t->pairs[i] & 1);
    }
    area += ones * (below + zeros / 2);
    below += zeros;
    right += ones;
  }
  *out = below > 0 && right > 0 ? area / (below * right) : NAN;
  return NULL;
}

void binary_metrics_fini(binary_metrics *t) {
  free(t->pairs);
  *t = (binary_metrics){0};
}
