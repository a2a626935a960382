#include "dist/sparse_set.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

enum { DIGIT_MAX = 11, DIGITS = 1 << DIGIT_MAX }; /* bits sorted by at a time */

static shoal_status make_room(sparse_set *s, int64_t entries) {
  const size_t n = (size_t)entries + 1;
  TRY(mem_grow((void **)&s->keys, &s->cap_keys, n, sizeof *s->keys));
  TRY(mem_grow((void **)&s->places, &s->cap_places, n, sizeof *s->places));
  return mem_grow((void **)&s->pairs, &s->cap_pairs, 2 * n, sizeof *s->pairs);
}

/* By the upper half, none above `most`; the sorted ones are where the result points to. */
static uint64_t *sort_pairs(uint64_t *pairs, uint64_t *room, int64_t n, uint32_t most) {
  const int bits = most ? 32 - __builtin_clz(most) : 0, passes = (bits + DIGIT_MAX - 1) / DIGIT_MAX;
  const int digit = passes ? (bits + passes - 1) / passes : 0; /* as equal as can be: few counters */
  const uint32_t mask = (1u << digit) - 1;
  for (int pass = 0; pass < passes; pass++) {
    const int shift = 32 + pass * digit;
    uint32_t ends[DIGITS], sum = 0;
    memset(ends, 0, (mask + 1) * sizeof *ends);
    for (int64_t i = 0; i < n; i++) ends[pairs[i] >> shift & mask]++;
    for (uint32_t d = 0; d <= mask; d++) {
      const uint32_t count = ends[d];
      ends[d] = sum;
      sum += count;
    }
    for (int64_t i = 0; i < n; i++) room[ends[pairs[i] >> shift & mask]++] = pairs[i];
    uint64_t *swap = pairs;
    pairs = room;
    room = swap;
  }
  return pairs;
}

/* All entries are sorted, not only the keys that a hash table would find among them: whether an entry is new is what no branch
 * predictor can tell, and that cost more. */
shoal_status sparse_set_make(sparse_set *s, const int32_t *indices, int64_t entries) {
  TRY(make_room(s, entries));
  uint32_t most = 0;
  for (int64_t e = 0; e < entries; e++) {
    s->pairs[e] = (uint64_t)(uint32_t)indices[e] << 32 | (uint64_t)e;
    most = MAX_OF(most, (uint32_t)indices[e]);
  }
  const uint64_t *sorted = sort_pairs(s->pairs, s->pairs + entries, entries, most);
  int64_t last = -1; /* place of the key before */
  for (int64_t i = 0; i < entries; i++) {
    last += i == 0 || sorted[i] >> 32 != sorted[i - 1] >> 32;
    s->keys[last] = (int32_t)(sorted[i] >> 32);
    s->places[(uint32_t)sorted[i]] = (int32_t)last;
  }
  s->n = last + 1;
  return NULL;
}

void sparse_set_fini(sparse_set *s) {
  free(s->keys);
  free(s->places);
  free(s->pairs);
  *s = (sparse_set){0};
}
