#include "dist/sparse_set.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

enum { DIGIT = 11, DIGITS = 1 << DIGIT }; /* bits sorted by at a time */

static int table_bits(int64_t entries) {
  int bits = 8;
  while ((int64_t)1 << bits < 2 * entries) bits++;
  return bits;
}

static shoal_status make_room(sparse_set *s, int64_t entries, int bits) {
  const size_t n = (size_t)entries + 1;
  TRY(mem_grow((void **)&s->keys, &s->cap_keys, n, sizeof *s->keys));
  TRY(mem_grow((void **)&s->places, &s->cap_places, n, sizeof *s->places));
  TRY(mem_grow((void **)&s->pairs, &s->cap_pairs, 2 * n, sizeof *s->pairs));
  return mem_grow((void **)&s->table, &s->cap_table, (size_t)1 << bits, sizeof *s->table);
}

/* Each index once, as it is met, into `keys`; its number into `places`. */
static void find_keys(sparse_set *s, const int32_t *indices, int64_t entries, int bits) {
  const uint32_t mask = (1u << bits) - 1;
  uint32_t n = 0;
  memset(s->table, 0, ((size_t)1 << bits) * sizeof *s->table);
  for (int64_t e = 0; e < entries; e++) {
    uint32_t at = (uint32_t)indices[e] * 2654435769u >> (32 - bits);
    while (s->table[at] && s->keys[s->table[at] - 1] != indices[e]) at = (at + 1) & mask;
    if (!s->table[at]) {
      s->keys[n] = indices[e];
      s->table[at] = ++n;
    }
    s->places[e] = (int32_t)s->table[at] - 1;
  }
  s->n = n;
}

/* By the upper half; the sorted ones stand where the result points to. */
static uint64_t *sort_pairs(uint64_t *pairs, uint64_t *room, int64_t n, uint32_t most) {
  for (int shift = 32; shift < 64 && most >> (shift - 32); shift += DIGIT) {
    uint32_t ends[DIGITS] = {0}, sum = 0;
    for (int64_t i = 0; i < n; i++) ends[pairs[i] >> shift & (DIGITS - 1)]++;
    for (int d = 0; d < DIGITS; d++) {
      uint32_t count = ends[d];
      ends[d] = sum;
      sum += count;
    }
    for (int64_t i = 0; i < n; i++) room[ends[pairs[i] >> shift & (DIGITS - 1)]++] = pairs[i];
    uint64_t *swap = pairs;
    pairs = room;
    room = swap;
  }
  return pairs;
}

shoal_status sparse_set_make(sparse_set *s, const int32_t *indices, int64_t entries) {
  const int bits = table_bits(entries);
  TRY(make_room(s, entries, bits));
  find_keys(s, indices, entries, bits);
  uint32_t most = 0;
  for (int64_t i = 0; i < s->n; i++) {
    s->pairs[i] = (uint64_t)(uint32_t)s->keys[i] << 32 | (uint64_t)i;
    most = MAX_OF(most, (uint32_t)s->keys[i]);
  }
  const uint64_t *sorted = sort_pairs(s->pairs, s->pairs + s->n, s->n, most);
  uint32_t *place_of = s->table; /* [n] of the key with a number; the table has done its work */
  for (int64_t i = 0; i < s->n; i++) {
    s->keys[i] = (int32_t)(sorted[i] >> 32);
    place_of[(uint32_t)sorted[i]] = (uint32_t)i;
  }
  for (int64_t e = 0; e < entries; e++) s->places[e] = (int32_t)place_of[s->places[e]];
  return NULL;
}

void sparse_set_fini(sparse_set *s) {
  free(s->keys);
  free(s->places);
  free(s->table);
  free(s->pairs);
  *s = (sparse_set){0};
}
