#include "base/id_table.h"

#include "base/mem.h"

#include <string.h>

enum {
  CHUNK_BYTES = 1 << 21, /* rows are allocated so many at a time, or fewer where memory is small */
  CHUNK_LEAST = 16,      /* rows */
  PARTS = 32,            /* a full table forgets one of so many */
  SWEEPS = 8,            /* times in `evict_after` steps that old rows are looked for */
  BUCKETS = 1024,
  AHEAD = 8, /* ids whose places are on their way from memory */
  SEEN_MAX = 255
};
#define ROWS_MAX INT32_MAX

/* A place in the hash: the upper half of the id's hash, which says where it belongs, and 1 + the row; 0: free. */
typedef uint64_t place;

typedef struct {
  uint64_t *ids;    /* [chunk_rows]; of a free row the next free one, as in id_table_place */
  uint32_t *used;   /* [chunk_rows] step; 0: free */
  uint8_t *changed; /* [chunk_rows] */
  float *rows;      /* [chunk_rows, width] */
} chunk;

/* Ids that are not admitted yet. */
typedef struct {
  uint64_t *ids;
  uint8_t *seen; /* 0: free */
  size_t places, n;
} waiting;

struct id_table {
  id_table_options o;
  place *places;
  size_t n_places;
  chunk *chunks;
  size_t n_chunks, cap_chunks;
  int chunk_bits;
  int64_t limit; /* rows at most */
  int64_t rows, free_row, ids, admitted, evicted;
  uint32_t step;
  waiting young, old;
  size_t waiting_limit; /* ids of `young` at most; SIZE_MAX: no limit */
  size_t bytes;
};

/* ---- hashes */

static uint64_t mix(uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

uint64_t id_table_hash(uint64_t id) { return mix(id); }

static uint32_t tag_of(uint64_t id) { return (uint32_t)(mix(id) >> 32); }
static size_t home_of(uint32_t tag, size_t places) { return (size_t)((uint64_t)tag * places >> 32); }
static uint32_t tag_at(place p) { return (uint32_t)(p >> 32); }
static int64_t row_at(place p) { return (int64_t)(uint32_t)p - 1; }

static chunk *chunk_of(const id_table *t, int64_t row) { return &t->chunks[row >> t->chunk_bits]; }
static size_t within(const id_table *t, int64_t row) { return (size_t)(row & (((int64_t)1 << t->chunk_bits) - 1)); }
static uint64_t *id_of(const id_table *t, int64_t row) { return &chunk_of(t, row)->ids[within(t, row)]; }
static uint32_t *used_of(const id_table *t, int64_t row) { return &chunk_of(t, row)->used[within(t, row)]; }
static void mark(const id_table *t, int64_t row) { chunk_of(t, row)->changed[within(t, row)] = 1; }

/* Where the id is, or where it would be put. */
static size_t look_up(const id_table *t, uint64_t id) {
  const uint32_t tag = tag_of(id);
  size_t at = home_of(tag, t->n_places);
  for (place p; (p = t->places[at]); at = at + 1 == t->n_places ? 0 : at + 1)
    if (tag_at(p) == tag && *id_of(t, row_at(p)) == id) break;
  return at;
}

/* ---- memory */

static size_t row_bytes(const id_table *t) {
  return sizeof(uint64_t) + sizeof(uint32_t) + 1 + (size_t)t->o.width * sizeof(float);
}

static size_t places_for(int64_t rows) { return (size_t)rows + (size_t)rows / 2 + 16; }

static shoal_status waiting_make(id_table *t, waiting *w, size_t ids) {
  const size_t n = ids + ids / 2 + 16;
  *w = (waiting){.ids = calloc(n, sizeof *w->ids), .seen = calloc(n, 1), .places = n};
  if (!w->ids || !w->seen) return status_no_memory();
  t->bytes += n * (sizeof *w->ids + 1);
  return NULL;
}

static void waiting_fini(id_table *t, waiting *w) {
  t->bytes -= w->places * (sizeof *w->ids + 1);
  free(w->ids);
  free(w->seen);
  *w = (waiting){0};
}

static shoal_status set_up(id_table *t) {
  const id_table_options *o = &t->o;
  size_t memory = (size_t)o->memory;
  size_t in_chunk = CHUNK_BYTES;
  if (memory) in_chunk = MIN_OF(in_chunk, memory / 64);
  while (((size_t)CHUNK_LEAST << t->chunk_bits) * row_bytes(t) <= in_chunk) t->chunk_bits++;
  t->chunk_bits += 4 - 1;
  t->limit = ROWS_MAX;
  t->waiting_limit = SIZE_MAX;
  if (o->admit > 1) {
    const size_t each = 3 * (sizeof(uint64_t) + 1); /* of a place and a half, in two lists */
    if (memory) t->waiting_limit = memory / 8 / each;
    const size_t first = MIN_OF(t->waiting_limit, 1024);
    TRY(waiting_make(t, &t->young, memory ? t->waiting_limit : first));
    if (memory) TRY(waiting_make(t, &t->old, t->waiting_limit));
  }
  if (!memory) {
    t->n_places = 1024;
  } else {
    const int64_t chunk_rows = (int64_t)1 << t->chunk_bits;
    const size_t left = memory > t->bytes ? memory - t->bytes : 0;
    t->limit = MIN_OF((int64_t)(left / (row_bytes(t) + 3 * sizeof(place) / 2)), ROWS_MAX) / chunk_rows * chunk_rows;
    if (t->limit < 2 * chunk_rows)
      return status_make(SHOAL_ERR_ARGUMENT,
                         "a table of growing ids cannot do with %lld bytes for rows of %lld numbers: give it more",
                         (long long)o->memory, (long long)o->width);
    t->n_places = places_for(t->limit);
  }
  TRY(mem_reserve(t->n_places * sizeof *t->places, (void **)&t->places));
  t->bytes += t->n_places * sizeof *t->places;
  return NULL;
}

shoal_status id_table_create(const id_table_options *options, id_table **out) {
  if (options->width < 1 || options->memory < 0 || options->admit < 0 || options->admit > SEEN_MAX ||
      options->evict_after < 0)
    return status_make(SHOAL_ERR_ARGUMENT, "a table of growing ids: width %lld, memory %lld, admit %lld, evict %lld",
                       (long long)options->width, (long long)options->memory, (long long)options->admit,
                       (long long)options->evict_after);
  id_table *t = calloc(1, sizeof *t);
  if (!t) return status_no_memory();
  t->o = *options;
  t->free_row = -1;
  shoal_status status = set_up(t);
  if (status)
    id_table_destroy(t);
  else
    *out = t;
  return status;
}

void id_table_destroy(id_table *t) {
  if (!t) return;
  for (size_t i = 0; i < t->n_chunks; i++) free(t->chunks[i].rows); /* all four in one block */
  free(t->chunks);
  if (t->places) mem_unreserve(t->places, t->n_places * sizeof *t->places);
  waiting_fini(t, &t->young);
  waiting_fini(t, &t->old);
  free(t);
}

static shoal_status add_chunk(id_table *t) {
  const size_t rows = (size_t)1 << t->chunk_bits;
  TRY(mem_grow((void **)&t->chunks, &t->cap_chunks, t->n_chunks + 1, sizeof *t->chunks));
  chunk c;
  TRY(mem_aligned(rows * row_bytes(t), (void **)&c.rows));
  c.ids = (uint64_t *)(void *)(c.rows + rows * (size_t)t->o.width);
  c.used = (uint32_t *)(c.ids + rows);
  c.changed = (uint8_t *)(c.used + rows);
  t->chunks[t->n_chunks++] = c;
  t->bytes += rows * row_bytes(t);
  return NULL;
}

static void put_place(place *places, size_t n, place p) {
  size_t at = home_of(tag_at(p), n);
  while (places[at]) at = at + 1 == n ? 0 : at + 1;
  places[at] = p;
}

/* Without a limit of memory the hash grows; what it holds says where it belongs. */
static shoal_status grow_places(id_table *t) {
  place *wider;
  const size_t n = 2 * t->n_places;
  TRY(mem_reserve(n * sizeof *wider, (void **)&wider));
  for (size_t i = 0; i < t->n_places; i++)
    if (t->places[i]) put_place(wider, n, t->places[i]);
  mem_unreserve(t->places, t->n_places * sizeof *t->places);
  t->bytes += t->n_places * sizeof *t->places;
  t->places = wider;
  t->n_places = n;
  return NULL;
}

/* ---- eviction */

/* Takes the place `at` out; what stands behind it moves up, so that nothing is searched for in vain. */
static void take_out(id_table *t, size_t at) {
  const size_t n = t->n_places;
  for (size_t next = at + 1 == n ? 0 : at + 1; t->places[next]; next = next + 1 == n ? 0 : next + 1) {
    const size_t home = home_of(tag_at(t->places[next]), n);
    const size_t from_home = next >= home ? next - home : next + n - home;
    const size_t from_hole = next >= at ? next - at : next + n - at;
    if (from_home < from_hole) continue;
    t->places[at] = t->places[next];
    at = next;
  }
  t->places[at] = 0;
}

static void evict(id_table *t, int64_t row) {
  take_out(t, look_up(t, *id_of(t, row)));
  *id_of(t, row) = (uint64_t)t->free_row;
  *used_of(t, row) = 0;
  mark(t, row);
  t->free_row = row;
  t->ids--;
  t->evicted++;
}

/* All that were used in a step up to this one. */
static void evict_up_to(id_table *t, uint32_t step) {
  for (int64_t row = 0; row < t->rows; row++) {
    const uint32_t used = *used_of(t, row);
    if (used && used <= step) evict(t, row);
  }
}

/* The least step up to which at least `count` rows were used last; those of the step under way do not count. 0: there are
 * not so many. */
static uint32_t step_of_oldest(const id_table *t, int64_t count) {
  uint32_t low = 1, high = t->step - 1;
  if (!high) return 0;
  while (low < high) {
    int64_t counts[BUCKETS] = {0}, before = 0;
    const uint64_t width = ((uint64_t)high - low) / BUCKETS + 1;
    for (int64_t row = 0; row < t->rows; row++) {
      const uint32_t used = *used_of(t, row);
      if (used && used < low)
        before++;
      else if (used && used <= high)
        counts[(used - low) / width]++;
    }
    int b = 0;
    while (b < BUCKETS && before + counts[b] < count) before += counts[b++];
    if (b == BUCKETS) return before ? high : 0; /* fewer than wanted, but all that there are */
    const uint64_t from = low + (uint64_t)b * width;
    high = (uint32_t)MIN_OF((uint64_t)high, from + width - 1);
    low = (uint32_t)from;
  }
  return low;
}

static shoal_status make_room(id_table *t) {
  const uint32_t step = step_of_oldest(t, MAX_OF(t->limit / PARTS, 1));
  if (step) evict_up_to(t, step);
  if (t->free_row < 0)
    return status_make(
        SHOAL_ERR_ARGUMENT,
        "a step uses more ids than the %lld rows that fit into %lld bytes: give the table more memory, or "
        "take smaller batches",
        (long long)t->limit, (long long)t->o.memory);
  return NULL;
}

static void evict_old(id_table *t) {
  if (t->step > t->o.evict_after + 1) evict_up_to(t, t->step - (uint32_t)t->o.evict_after - 1);
}

/* ---- admission */

static size_t waiting_at(const waiting *w, uint64_t id) {
  size_t at = home_of(tag_of(id), w->places);
  while (w->seen[at] && w->ids[at] != id) at = at + 1 == w->places ? 0 : at + 1;
  return at;
}

static void waiting_take_out(waiting *w, size_t at) {
  const size_t n = w->places;
  for (size_t next = at + 1 == n ? 0 : at + 1; w->seen[next]; next = next + 1 == n ? 0 : next + 1) {
    const size_t home = home_of(tag_of(w->ids[next]), n);
    if ((next >= home ? next - home : next + n - home) < (next >= at ? next - at : next + n - at)) continue;
    w->ids[at] = w->ids[next];
    w->seen[at] = w->seen[next];
    at = next;
  }
  w->seen[at] = 0;
  w->n--;
}

static void waiting_put(waiting *w, size_t at, uint64_t id, int seen) {
  w->n += !w->seen[at];
  w->ids[at] = id;
  w->seen[at] = (uint8_t)seen;
}

/* Before one more comes to the young. */
static shoal_status waiting_room(id_table *t) {
  waiting *w = &t->young;
  if (w->n >= t->waiting_limit) { /* the older ones are forgotten */
    const waiting old = t->old;
    t->old = t->young;
    t->young = old;
    memset(t->young.seen, 0, t->young.places);
    t->young.n = 0;
    return NULL;
  }
  if (w->n + w->n / 2 + 16 <= w->places) return NULL;
  waiting wider;
  TRY(waiting_make(t, &wider, 2 * w->n + 16));
  for (size_t i = 0; i < w->places; i++)
    if (w->seen[i]) waiting_put(&wider, waiting_at(&wider, w->ids[i]), w->ids[i], w->seen[i]);
  waiting_fini(t, w);
  *w = wider;
  return NULL;
}

/* Counts one sighting of an id that has no row. */
static shoal_status sight(id_table *t, uint64_t id, bool *admitted) {
  *admitted = t->o.admit <= 1;
  if (*admitted) return NULL;
  TRY(waiting_room(t));
  const size_t at = waiting_at(&t->young, id);
  int seen = t->young.seen[at];
  if (!seen && t->old.places) seen = t->old.seen[waiting_at(&t->old, id)];
  *admitted = seen + 1 >= t->o.admit;
  if (!*admitted)
    waiting_put(&t->young, at, id, seen + 1);
  else if (t->young.seen[at])
    waiting_take_out(&t->young, at);
  return NULL;
}

/* ---- use */

/* A row for an id that has none. */
static shoal_status take_row(id_table *t, uint64_t id, int64_t *out) {
  if (t->free_row < 0 && t->rows >= t->limit) TRY(make_room(t));
  if (t->free_row < 0 && t->rows >> t->chunk_bits == (int64_t)t->n_chunks) TRY(add_chunk(t));
  if (places_for(t->ids + 1) > t->n_places) TRY(grow_places(t));
  const int64_t row = t->free_row >= 0 ? t->free_row : t->rows++;
  if (row == t->free_row) t->free_row = (int64_t)*id_of(t, row);
  *id_of(t, row) = id;
  put_place(t->places, t->n_places, (uint64_t)tag_of(id) << 32 | (uint64_t)(row + 1));
  t->ids++;
  t->admitted++;
  t->o.begin(t->o.context, id, id_table_row(t, row));
  *out = row;
  return NULL;
}

static void prefetch(const id_table *t, const uint64_t *ids, int64_t i, int64_t n) {
  if (i + 2 * AHEAD < n) __builtin_prefetch(&t->places[home_of(tag_of(ids[i + 2 * AHEAD]), t->n_places)], 0, 2);
  if (i + AHEAD >= n) return;
  const place p = t->places[home_of(tag_of(ids[i + AHEAD]), t->n_places)];
  if (!p) return;
  const chunk *c = chunk_of(t, row_at(p));
  const size_t at = within(t, row_at(p));
  __builtin_prefetch(&c->ids[at], 0, 2);
  __builtin_prefetch(&c->used[at], 1, 2);
  __builtin_prefetch(&c->rows[at * (size_t)t->o.width], 1, 2);
}

shoal_status id_table_advance(id_table *t, int64_t step) {
  if (step < 1 || step < t->step || step > UINT32_MAX)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "a table of growing ids counts steps from 1 to %u, not falling: %lld came after %u", UINT32_MAX,
                       (long long)step, t->step);
  const int64_t period = MAX_OF(t->o.evict_after / SWEEPS, 1);
  const bool sweep = t->o.evict_after && step / period != t->step / period;
  t->step = (uint32_t)step;
  if (sweep) evict_old(t);
  return NULL;
}

bool id_table_admits(const id_table *t, uint64_t id) {
  if (t->o.admit <= 1) return true;
  int seen = t->young.seen[waiting_at(&t->young, id)];
  if (!seen && t->old.places) seen = t->old.seen[waiting_at(&t->old, id)];
  return seen + 1 >= t->o.admit;
}

shoal_status id_table_use(id_table *t, int64_t step, const uint64_t *ids, int64_t n, int32_t *rows) {
  TRY(id_table_advance(t, step));
  for (int64_t i = 0; i < n; i++) { /* those that are there first: they then cannot go */
    prefetch(t, ids, i, n);
    const place p = t->places[look_up(t, ids[i])];
    rows[i] = p ? (int32_t)row_at(p) : -1;
    if (!p) continue;
    *used_of(t, rows[i]) = t->step;
    mark(t, rows[i]);
  }
  for (int64_t i = 0; i < n; i++) {
    bool admitted;
    int64_t row;
    if (rows[i] >= 0) continue;
    TRY(sight(t, ids[i], &admitted));
    if (!admitted) continue;
    TRY(take_row(t, ids[i], &row));
    *used_of(t, row) = t->step;
    mark(t, row);
    rows[i] = (int32_t)row;
  }
  return NULL;
}

void id_table_find(const id_table *t, const uint64_t *ids, int64_t n, int32_t *rows) {
  for (int64_t i = 0; i < n; i++) {
    prefetch(t, ids, i, n);
    const place p = t->places[look_up(t, ids[i])];
    rows[i] = p ? (int32_t)row_at(p) : -1;
  }
}

float *id_table_row(const id_table *t, int64_t row) {
  return chunk_of(t, row)->rows + within(t, row) * (size_t)t->o.width;
}

void id_table_count(const id_table *t, id_table_counts *out) {
  *out = (id_table_counts){t->ids, t->admitted, t->evicted, (int64_t)t->bytes};
}

int64_t id_table_capacity(const id_table *t) { return t->limit; }

/* ---- saving */

void id_table_state_of(const id_table *t, id_table_state *out) {
  *out = (id_table_state){t->rows, t->free_row, t->ids, t->admitted, t->evicted, t->step};
}

id_table_place id_table_at(const id_table *t, int64_t row) {
  return (id_table_place){(int64_t)*id_of(t, row), *used_of(t, row)};
}

bool id_table_changed(const id_table *t, int64_t row) { return chunk_of(t, row)->changed[within(t, row)]; }

void id_table_clean(id_table *t) {
  for (size_t i = 0; i < t->n_chunks; i++) memset(t->chunks[i].changed, 0, (size_t)1 << t->chunk_bits);
}

static int64_t list_waiting(const waiting *w, int sign, int64_t at, int64_t *ids, int32_t *seen) {
  for (size_t i = 0; i < w->places; i++) {
    if (!w->seen[i]) continue;
    if (ids) ids[at] = (int64_t)w->ids[i];
    if (seen) seen[at] = sign * w->seen[i];
    at++;
  }
  return at;
}

int64_t id_table_waiting(const id_table *t, int64_t *ids, int32_t *seen) {
  return list_waiting(&t->old, -1, list_waiting(&t->young, 1, 0, ids, seen), ids, seen);
}

static shoal_status wrong(const char *what) {
  return status_make(SHOAL_ERR_INPUT, "a saved table of growing ids: %s", what);
}

shoal_status id_table_put(id_table *t, int64_t row, id_table_place at, float **numbers) {
  if (row < 0 || row >= t->limit || at.used < 0 || at.used > UINT32_MAX)
    return wrong("a row is none, or more than the memory is enough for: give it as much as it had");
  while (row >> t->chunk_bits >= (int64_t)t->n_chunks) TRY(add_chunk(t));
  t->rows = MAX_OF(t->rows, row + 1);
  *id_of(t, row) = (uint64_t)at.id;
  *used_of(t, row) = (uint32_t)at.used;
  mark(t, row);
  *numbers = id_table_row(t, row);
  return NULL;
}

shoal_status id_table_put_waiting(id_table *t, int64_t id, int32_t seen) {
  waiting *w = seen < 0 ? &t->old : &t->young;
  const int times = seen < 0 ? -seen : seen;
  if (times < 1 || times > SEEN_MAX || !w->places || w->n >= t->waiting_limit)
    return wrong("an id that waits was seen in a way that cannot be");
  if (seen > 0) TRY(waiting_room(t));
  waiting_put(w, waiting_at(w, (uint64_t)id), (uint64_t)id, times);
  return NULL;
}

shoal_status id_table_finish(id_table *t, const id_table_state *s) {
  if (s->rows < t->rows || s->rows > t->limit || s->step < 0 || s->step > UINT32_MAX || s->ids < 0 || s->ids > s->rows)
    return wrong("its counts do not fit its rows");
  if (s->rows > t->rows) return wrong("rows are missing");
  int64_t free_rows = 0;
  for (int64_t row = t->free_row = s->free_row; row != -1; row = (int64_t)*id_of(t, row), free_rows++)
    if (row < -1 || row >= t->rows || *used_of(t, row) || free_rows > t->rows)
      return wrong("its free rows are no list");
  for (int64_t row = 0; row < t->rows; row++) {
    if (!*used_of(t, row)) continue;
    const uint64_t id = *id_of(t, row);
    if (places_for(t->ids + 1) > t->n_places) TRY(grow_places(t));
    if (t->places[look_up(t, id)]) return wrong("an id is there twice");
    if (*used_of(t, row) > s->step) return wrong("a row was used after the last step");
    put_place(t->places, t->n_places, (uint64_t)tag_of(id) << 32 | (uint64_t)(row + 1));
    t->ids++;
  }
  if (t->ids != s->ids || t->ids + free_rows != t->rows) return wrong("its counts do not fit its rows");
  t->admitted = s->admitted;
  t->evicted = s->evicted;
  t->step = (uint32_t)s->step;
  return NULL;
}
