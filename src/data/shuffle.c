#include "data/shuffle.h"

#include "base/mem.h"
#include "base/random.h"

#include <string.h>

#define WINDOW_STREAM 0x77696e646f77ull /* names the random numbers that permute a window ... */
#define FIRST_STREAM 0x6669727374ull    /* ... and those that shorten an epoch's first one */
#define CHUNK 64                        /* rows read at a time, at which the memory is looked at */

size_t shuffle_content_bytes(const rows_block *b) {
  size_t n = (size_t)b->count,
         row = sizeof *b->labels + (b->targets ? (size_t)rows_targets(&b->schema) * sizeof *b->targets : 0);
  if (b->weights) row += sizeof *b->weights;
  if (b->schema.kind == ROWS_DENSE) return n * (row + rows_dense_bytes(&b->schema));
  size_t entries = b->offsets ? (size_t)b->offsets[b->count] : 0;
  size_t entry = b->schema.kind == ROWS_BYTES ? 1 : sizeof *b->indices + sizeof *b->values;
  if (b->schema.fields) entry += sizeof *b->fields;
  if (b->schema.ids) entry += sizeof *b->ids;
  return n * (row + sizeof *b->offsets) + entries * entry;
}

/* ---- windows */

/* Rows the window is to have. */
static int64_t window_target(const shuffler *s, const pipeline_position *start) {
  if (start->window || start->previous <= s->size || s->size < 2) return s->size;
  random_stream stream = random_stream_make(s->seed, random_mix(FIRST_STREAM, (uint64_t)start->source.epoch));
  return s->size - (int64_t)random_below(&stream, (uint64_t)s->source->shard, (uint64_t)s->size / 2 + 1);
}

/* Begins a window at `start`, where the source stands. */
static void begin_window(shuffler *s, shuffle_window *w, const pipeline_position *start) {
  rows_clear(&w->rows);
  w->start = *start;
  source_tell(s->source, &w->start.source);
  w->start.done = 0;
  w->target = window_target(s, &w->start);
  w->started = true;
  w->complete = w->last = w->broken = false;
}

/* Reads at least `rows` more rows into the window, if it is to have so many. */
static void read_window(shuffler *s, shuffle_window *w, int64_t rows) {
  int64_t until = rows < w->target - w->rows.count ? w->rows.count + rows : w->target;
  while (!w->complete && w->rows.count < until) {
    int64_t most = MIN_OF(w->target - w->rows.count, CHUNK - w->rows.count % CHUNK), got = 0;
    bool stop = s->stop && __atomic_load_n(s->stop, __ATOMIC_RELAXED);
    shoal_status status = stop ? status_make(SHOAL_ERR_CANCELLED, "the pipeline is closed")
                               : source_read(s->source, most, &w->rows, &got);
    if (status) {
      s->failed = status;
      w->broken = w->complete = true;
    } else if (got < most) {
      w->last = w->complete = true;
    } else if (w->rows.count % CHUNK == 0 && (int64_t)shuffle_content_bytes(&w->rows) >= s->memory) {
      w->complete = true;
    }
  }
  if (w->rows.count >= w->target) w->complete = true;
}

/* Begins the window after the current one, unless that was the last of all. */
static void begin_next(shuffler *s) {
  const shuffle_window *now = &s->windows[s->current];
  shuffle_window *next = &s->windows[!s->current];
  if (next->started || !now->complete || now->broken) return;
  pipeline_position start = now->start;
  if (now->last) {
    int64_t epoch = now->start.source.epoch + 1;
    if (s->epochs && epoch >= s->epochs) return;
    source_begin(s->source, epoch);
    start.previous = start.rows + now->rows.count;
    start.window = start.rows = 0;
  } else {
    start.rows += now->rows.count;
    start.window++;
  }
  begin_window(s, next, &start);
}

static shoal_status permute(shuffler *s, shuffle_window *w) {
  size_t need = (size_t)w->rows.count;
  TRY(mem_grow((void **)&w->order, &w->order_capacity, need, sizeof *w->order));
  random_stream stream =
      random_stream_make(s->seed, random_mix(random_mix(WINDOW_STREAM, (uint64_t)w->start.source.epoch),
                                             random_mix((uint64_t)w->start.window, (uint64_t)s->source->shard)));
  if (need) random_permutation(&stream, w->order, w->rows.count);
  return NULL;
}

/* The next window becomes the current one. */
static shoal_status advance(shuffler *s) {
  begin_next(s);
  shuffle_window *next = &s->windows[!s->current];
  if (!next->started) return status_make(SHOAL_ERR_INTERNAL, "rows were requested after the last epoch");
  read_window(s, next, next->target);
  TRY(permute(s, next));
  s->windows[s->current].started = false;
  s->current = !s->current;
  s->done = 0;
  return NULL;
}

static shoal_status take_shuffled(shuffler *s, int64_t most, rows_block *into, int64_t *got, bool *ended) {
  while (*got < most) {
    shuffle_window *w = &s->windows[s->current];
    if (s->done < w->rows.count) {
      TRY(rows_append(into, &w->rows, w->order[s->done]));
      s->done++;
      ++*got;
      continue;
    }
    if (w->broken) {
      shoal_status status = s->failed;
      s->failed = NULL;
      return status ? status : status_make(SHOAL_ERR_INTERNAL, "rows were requested after an error");
    }
    if (w->last) break;
    TRY(advance(s));
  }
  const shuffle_window *now = &s->windows[s->current];
  s->over = *ended = now->last && s->done >= now->rows.count;
  begin_next(s);
  shuffle_window *next = &s->windows[!s->current];
  if (next->started && !next->complete) read_window(s, next, most);
  return NULL;
}

/* ---- without shuffling */

static shoal_status take_plain(shuffler *s, int64_t most, rows_block *into, int64_t *got, bool *ended) {
  shoal_status status = source_read(s->source, most, into, got);
  s->position.rows += *got;
  TRY(status);
  *ended = *got < most;
  return NULL;
}

/* After the epoch's last row, so that a position taken there is the next one's first. */
static void next_epoch(shuffler *s) {
  pipeline_position *p = &s->position;
  source_begin(s->source, s->source->position.epoch + 1);
  *p = (pipeline_position){.previous = p->rows};
}

/* ---- the whole */

shoal_status shuffler_take(shuffler *s, int64_t most, rows_block *into, int64_t *got, int64_t *first, bool *ended) {
  *got = 0;
  *ended = false;
  if (!s->size) {
    *first = s->position.rows;
    TRY(take_plain(s, most, into, got, ended));
    if (*ended) next_epoch(s);
    return NULL;
  }
  if (s->over) TRY(advance(s)); /* into the next epoch */
  s->over = false;
  const shuffle_window *w = &s->windows[s->current];
  *first = w->start.rows + s->done;
  return take_shuffled(s, most, into, got, ended);
}

void shuffler_tell(const shuffler *s, pipeline_position *out) {
  int64_t rejected_by_transform = out->rejected_by_transform;
  if (!s->size) {
    *out = s->position;
    source_tell(s->source, &out->source);
  } else {
    const shuffle_window *w = &s->windows[s->current], *next = &s->windows[!s->current];
    *out = w->start;
    out->done = s->done;
    if (w->last && s->done >= w->rows.count) {
      pipeline_position after = {
          .previous = w->start.rows + w->rows.count, /* no such epoch may be wanted */
          .source = {
              .epoch = w->start.source.epoch + 1, .seen = s->source->position.seen, .bad = s->source->position.bad}};
      *out = next->started ? next->start : after;
    }
  }
  out->rejected_by_transform = rejected_by_transform;
}

shoal_status shuffler_init(shuffler *s, source *from_source, int64_t size, int64_t epochs, int64_t memory,
                           uint64_t seed, const bool *stop, const pipeline_position *from) {
  *s = (shuffler){.source = from_source, .size = size, .epochs = epochs, .memory = memory, .seed = seed, .stop = stop};
  TRY(source_seek(s->source, &from->source));
  for (int i = 0; i < 2; i++) rows_init(&s->windows[i].rows, &from_source->schema);
  s->position = *from;
  if (!size) return NULL;
  shuffle_window *w = &s->windows[0];
  begin_window(s, w, from);
  read_window(s, w, w->target);
  s->done = from->done;
  if (s->done > w->rows.count && !s->failed)
    return status_make(SHOAL_ERR_INPUT,
                       "position: %lld rows of a window are done, but it has %lld: the files have "
                       "changed since",
                       (long long)s->done, (long long)w->rows.count);
  return permute(s, w);
}

void shuffler_fini(shuffler *s) {
  for (int i = 0; i < 2; i++) {
    rows_fini(&s->windows[i].rows);
    free(s->windows[i].order);
  }
  shoal_status_free(s->failed);
  *s = (shuffler){0};
}
