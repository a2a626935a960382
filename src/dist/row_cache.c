#include "dist/row_cache.h"

#include "base/id_table.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

enum { WAYS = 8, COUNTERS_PER_ROW = 16, EMPTY = -1 };

/* What is kept of a place beside its key. */
typedef struct {
  int64_t came;  /* batch that the numbers came for; EMPTY: they have not */
  int64_t asked; /* batch that asked for it last; EMPTY: this place was never taken */
} place;

struct row_cache {
  int64_t sets, width, staleness, batch;
  uint64_t *keys;    /* [sets, WAYS] a set of them is one cache line */
  place *places;     /* [sets, WAYS] */
  float *rows;       /* [sets, WAYS, width] */
  uint8_t *counters; /* [mask + 1] how often rows came lately: each counts in two of them, and others may, too */
  uint64_t mask;
  int64_t asked; /* since they were halved */
};

shoal_status row_cache_create(int64_t rows, int64_t width, int64_t staleness, row_cache **out) {
  row_cache *c = calloc(1, sizeof *c);
  if (!c) return status_no_memory();
  c->sets = (rows + WAYS - 1) / WAYS;
  c->width = width;
  c->staleness = staleness;
  const size_t places = (size_t)c->sets * WAYS;
  for (c->mask = 1; c->mask < places * COUNTERS_PER_ROW;) c->mask *= 2;
  c->counters = calloc(c->mask, sizeof *c->counters);
  c->mask--;
  c->keys = calloc(places, sizeof *c->keys);
  c->places = calloc(places, sizeof *c->places);
  c->rows = calloc(places * (size_t)width, sizeof *c->rows);
  if (!c->counters || !c->keys || !c->places || !c->rows) {
    row_cache_destroy(c);
    return status_no_memory();
  }
  row_cache_clear(c);
  *out = c;
  return NULL;
}

void row_cache_destroy(row_cache *c) {
  if (!c) return;
  free(c->counters);
  free(c->keys);
  free(c->places);
  free(c->rows);
  free(c);
}

void row_cache_clear(row_cache *c) {
  for (int64_t i = 0; i < c->sets * WAYS; i++) c->places[i] = (place){.came = EMPTY, .asked = EMPTY};
}

void row_cache_next_batch(row_cache *c) { c->batch++; }

/* The lower of the two: what other rows have added is at least not added twice. */
static uint8_t count_of(const row_cache *c, uint64_t hash) {
  const uint8_t a = c->counters[hash & c->mask], b = c->counters[(hash >> 32) & c->mask];
  return MIN_OF(a, b);
}

static void count(row_cache *c, uint64_t hash) {
  uint8_t *counters[] = {&c->counters[hash & c->mask], &c->counters[(hash >> 32) & c->mask]};
  for (int i = 0; i < 2; i++) *counters[i] += *counters[i] < UINT8_MAX;
  if (++c->asked <= (int64_t)c->mask) return;
  for (uint64_t i = 0; i <= c->mask; i++) c->counters[i] /= 2;
  c->asked = 0;
}

/* A place of the set that a row with that count may have: one that is free, or whose row came least often, and less often than
 * this one; EMPTY: there is none. */
static int64_t find_victim(const row_cache *c, int64_t first, uint8_t often) {
  int64_t victim = EMPTY;
  for (int64_t i = first; i < first + WAYS; i++) {
    if (c->places[i].asked == EMPTY) return i;
    if (!often || c->places[i].asked == c->batch) continue; /* this batch wants it, too */
    const uint8_t other = count_of(c, id_table_hash(c->keys[i]));
    if (other >= often) continue;
    often = other;
    victim = i;
  }
  return victim;
}

int32_t row_cache_find(row_cache *c, uint64_t key, bool *fresh) {
  const uint64_t hash = id_table_hash(key);
  const int64_t first = (int64_t)((hash >> 16) % (uint64_t)c->sets) * WAYS;
  const uint8_t often = count_of(c, hash);
  *fresh = false;
  count(c, hash);
  for (int64_t i = first; i < first + WAYS; i++) {
    place *p = &c->places[i];
    if (c->keys[i] != key || p->asked == EMPTY) continue;
    *fresh = p->came != EMPTY && c->batch - p->came <= c->staleness;
    p->asked = c->batch;
    return (int32_t)i;
  }
  const int64_t victim = find_victim(c, first, often);
  if (victim == EMPTY) return EMPTY;
  c->keys[victim] = key;
  c->places[victim] = (place){.came = EMPTY, .asked = c->batch};
  return (int32_t)victim;
}

const float *row_cache_row(const row_cache *c, int32_t at) { return c->rows + at * c->width; }

void row_cache_put(row_cache *c, int32_t at, const float *row) {
  memcpy(c->rows + at * c->width, row, (size_t)c->width * sizeof *row);
  c->places[at].came = c->batch;
}
