#include "dist/id_set.h"

#include "base/mem.h"
#include "dist/ps_protocol.h"

#include <stdlib.h>
#include <string.h>

enum { DIGIT = 11, DIGITS = 1 << DIGIT }; /* bits sorted by at a time */

static int table_bits(int64_t entries) {
  int bits = 8;
  while ((int64_t)1 << bits < 2 * entries) bits++;
  return bits;
}

/* Each id once, as it is met; its number into `places`. */
static void find_ids(id_set *s, const int64_t *ids, int64_t entries, int bits, int servers) {
  const size_t mask = ((size_t)1 << bits) - 1;
  uint32_t n = 0;
  memset(s->table, 0, (mask + 1) * sizeof *s->table);
  for (int64_t e = 0; e < entries; e++) {
    const uint64_t id = (uint64_t)ids[e];
    size_t at = (size_t)(id * 0x9e3779b97f4a7c15u >> (64 - bits));
    while (s->table[at] && s->found[s->table[at] - 1].id != id) at = (at + 1) & mask;
    if (!s->table[at]) {
      s->found[n] = (id_set_entry){id, n, (uint32_t)ps_id_server(id, servers)};
      s->table[at] = ++n;
    }
    s->places[e] = (int32_t)s->table[at] - 1;
  }
  s->n = n;
}

/* By the id; digits that all have alike are passed over. The sorted ones stand where the result points to. */
static id_set_entry *sort_ids(id_set_entry *from, id_set_entry *room, int64_t n) {
  uint64_t any = 0;
  for (int64_t i = 1; i < n; i++) any |= from[i].id ^ from[0].id;
  for (int shift = 0; shift < 64; shift += DIGIT) {
    if (!(any >> shift & (DIGITS - 1))) continue;
    uint32_t ends[DIGITS] = {0}, sum = 0;
    for (int64_t i = 0; i < n; i++) ends[from[i].id >> shift & (DIGITS - 1)]++;
    for (int d = 0; d < DIGITS; d++) {
      const uint32_t count = ends[d];
      ends[d] = sum;
      sum += count;
    }
    for (int64_t i = 0; i < n; i++) room[ends[from[i].id >> shift & (DIGITS - 1)]++] = from[i];
    id_set_entry *swap = from;
    from = room;
    room = swap;
  }
  return from;
}

shoal_status id_set_make(id_set *s, const int64_t *ids, int64_t entries, int servers) {
  const int bits = table_bits(entries);
  const size_t n = (size_t)entries + 1;
  TRY(mem_grow((void **)&s->ids, &s->cap_ids, n, sizeof *s->ids));
  TRY(mem_grow((void **)&s->first, &s->cap_first, (size_t)servers + 1, sizeof *s->first));
  TRY(mem_grow((void **)&s->places, &s->cap_places, n, sizeof *s->places));
  TRY(mem_grow((void **)&s->found, &s->cap_found, 2 * n, sizeof *s->found));
  TRY(mem_grow((void **)&s->table, &s->cap_table, (size_t)1 << bits, sizeof *s->table));
  find_ids(s, ids, entries, bits, servers);
  const id_set_entry *sorted = sort_ids(s->found, s->found + s->n, s->n);
  uint32_t *place_of = s->table; /* [n] of the id with a number; the table has done its work */
  int64_t at = 0;
  for (int k = 0; k < servers; k++) {
    s->first[k] = at;
    for (int64_t i = 0; i < s->n; i++) {
      if (sorted[i].server != (uint32_t)k) continue;
      place_of[sorted[i].number] = (uint32_t)at;
      s->ids[at++] = sorted[i].id;
    }
  }
  s->first[servers] = at;
  for (int64_t e = 0; e < entries; e++) s->places[e] = (int32_t)place_of[s->places[e]];
  return NULL;
}

void id_set_fini(id_set *s) {
  free(s->ids);
  free(s->first);
  free(s->places);
  free(s->table);
  free(s->found);
  *s = (id_set){0};
}
