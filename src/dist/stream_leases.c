#include "dist/stream_leases.h"

#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- as text: a line a shard */

void stream_leases_write(const stream_leases *l, text *out) {
  for (int i = 0; i < l->n; i++) {
    const stream_shard *s = &l->shards[i];
    text_add(out, "done=%" PRId64 " epochs=%" PRId64 " mark=%" PRId64 " %s\n", s->done, s->epochs, s->mark.index,
             s->mark.index ? s->mark.text : "");
  }
}

static bool read_line(const char *line, size_t length, stream_shard *s) {
  char copy[STREAM_LINE_MAX];
  int at = 0;
  if (length >= sizeof copy) return false;
  memcpy(copy, line, length);
  copy[length] = 0;
  if (sscanf(copy, "done=%" SCNd64 " epochs=%" SCNd64 " mark=%" SCNd64 " %n", &s->done, &s->epochs, &s->mark.index,
             &at) != 3 ||
      !at)
    return false;
  snprintf(s->mark.text, sizeof s->mark.text, "%s", copy + at);
  return s->done >= 0 && s->epochs >= 0 && s->mark.index >= 0 && s->mark.index <= s->done;
}

static shoal_status read_lines(stream_leases *l, const char *words) {
  int n = 0;
  const char *line = words;
  for (; *line; n++) {
    size_t length = strcspn(line, "\n");
    if (n < l->n && !read_line(line, length, &l->shards[n]))
      return status_make(SHOAL_ERR_INPUT, "where shard %d of the stream stood cannot be parsed: '%.*s'", n,
                         (int)MIN_OF(length, 200), line);
    line += length;
    line += *line == '\n';
  }
  if (n != l->n)
    return status_make(SHOAL_ERR_INPUT,
                       "the stream was cut into %d shards then and is into %d now: resume with as "
                       "many workers",
                       n, l->n);
  return NULL;
}

shoal_status stream_leases_init(stream_leases *l, int shards, int64_t epochs, const char *words) {
  if (shards < 1 || epochs < 0)
    return status_make(SHOAL_ERR_ARGUMENT, "%d shards, %lld epochs: expected at least one shard", shards,
                       (long long)epochs);
  stream_leases made = {.n = shards, .epochs = epochs, .shards = calloc((size_t)shards, sizeof *made.shards)};
  if (!made.shards) return status_no_memory();
  for (int i = 0; i < shards; i++) made.shards[i].holder = made.shards[i].lost_by = LEASE_NONE;
  shoal_status status = *words ? read_lines(&made, words) : NULL;
  if (status)
    stream_leases_fini(&made);
  else
    *l = made;
  return status;
}

void stream_leases_fini(stream_leases *l) {
  free(l->shards);
  *l = (stream_leases){0};
}

/* ---- who has what */

static bool at_end(const stream_leases *l, const stream_shard *s) { return l->epochs && s->epochs >= l->epochs; }
static bool is_free(const stream_leases *l, int i) {
  return l->shards[i].holder == LEASE_NONE && !at_end(l, &l->shards[i]);
}

int stream_leases_held(const stream_leases *l, int worker) {
  for (int i = 0; i < l->n; i++)
    if (l->shards[i].holder == worker) return i;
  return LEASE_NONE;
}

/* The free shard that is most epochs behind, or LEASE_NONE. */
static int most_behind(const stream_leases *l) {
  int best = LEASE_NONE;
  for (int i = 0; i < l->n; i++)
    if (is_free(l, i) && (best == LEASE_NONE || l->shards[i].epochs < l->shards[best].epochs)) best = i;
  return best;
}

bool stream_leases_has_free(const stream_leases *l) { return most_behind(l) != LEASE_NONE; }

int stream_leases_take(stream_leases *l, int worker) {
  int held = stream_leases_held(l, worker), best = most_behind(l);
  if (held != LEASE_NONE) {
    stream_shard *s = &l->shards[held];
    bool turns = s->epoch_ends && best != LEASE_NONE && l->shards[best].epochs < s->epochs;
    if (!turns) return held;
    s->holder = LEASE_NONE;
  } else if (worker < l->n && is_free(l, worker)) {
    best = worker;
  }
  if (best != LEASE_NONE) l->shards[best].holder = worker;
  return best;
}

void stream_leases_give_back(stream_leases *l, int worker) {
  int held = stream_leases_held(l, worker);
  if (held == LEASE_NONE) return;
  stream_shard *s = &l->shards[held];
  s->holder = LEASE_NONE;
  s->lost_by = worker;
  s->next.index = 0;
}

/* ---- what is done */

bool stream_leases_is_new(const stream_leases *l, const stream_batch *b) {
  return b->shard >= 0 && b->shard < l->n && b->index >= l->shards[b->shard].done;
}

/* The worker that lost it had one batch of it; another worker also has what was to come in the epoch. */
static int64_t count_handed_on(stream_shard *s, int64_t rows) {
  if (s->lost_by == LEASE_NONE) return 0;
  if (s->holder == s->lost_by || s->epoch_ends) s->lost_by = LEASE_NONE;
  return rows;
}

int64_t stream_leases_finish(stream_leases *l, const stream_batch *b) {
  stream_shard *s = &l->shards[b->shard];
  s->done = b->index + (b->rows > 0);
  s->epoch_ends = b->epochs > s->epochs;
  s->epochs = MAX_OF(s->epochs, b->epochs);
  if (s->next.index && s->next.index <= s->done) {
    s->older = s->mark;
    s->mark = s->next;
    s->next.index = 0;
  }
  int64_t handed_on = count_handed_on(s, b->rows);
  if (at_end(l, s)) s->holder = LEASE_NONE;
  return handed_on;
}

void stream_leases_mark(stream_leases *l, int64_t shard, int64_t index, const char *words, size_t length) {
  if (shard < 0 || shard >= l->n || length >= SHOAL_POSITION_TEXT || memchr(words, '\n', length)) return;
  stream_shard *s = &l->shards[shard];
  if (index != s->done + 1) return;
  s->next.index = index;
  memcpy(s->next.text, words, length);
  s->next.text[length] = 0;
}

const stream_mark *stream_leases_find(const stream_leases *l, int64_t shard, int64_t index) {
  const stream_shard *s = &l->shards[shard];
  const stream_mark *m = s->mark.index <= index ? &s->mark : &s->older;
  return m->index && m->index <= index ? m : NULL;
}

bool stream_leases_over(const stream_leases *l) {
  for (int i = 0; i < l->n; i++)
    if (!at_end(l, &l->shards[i])) return false;
  return true;
}

int64_t stream_leases_epochs(const stream_leases *l) {
  int64_t least = INT64_MAX;
  for (int i = 0; i < l->n; i++) least = MIN_OF(least, l->shards[i].epochs);
  return least;
}
