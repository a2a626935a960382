/* The emitting end of timelines: spans of time, each on one track (a thread), kept in rings that are laid out in
 * advance.
 *
 * Whoever does something worth seeing asks events_on first: one branch that is nearly always the same. Labels are made
 * before training; adding a span allocates nothing, takes no lock and makes no call into the system. A track is written
 * by one thread at a time. When a ring is full the oldest spans go. */
#ifndef SHOAL_BASE_EVENTS_H
#define SHOAL_BASE_EVENTS_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

typedef enum { EVENT_STEP, EVENT_OP, EVENT_SYNC, EVENT_MESSAGE, EVENT_WAIT, EVENT_SERVER, EVENT_KINDS } event_kind;
extern const char *const event_kind_names[EVENT_KINDS]; /* "step", "op", ... */

typedef struct {
  event_kind kind;
  char *name;     /* "conv2d train/conv2d/conv2d" */
  const char *op; /* of an operator: its name and its kernel's; not owned, of static life */
  const char *kernel;
  int phase;           /* of its plan */
  double flops, bytes; /* of the whole operator, all rows */
} event_label;

typedef struct {
  uint64_t start, end; /* nanoseconds of CLOCK_MONOTONIC */
  uint32_t label;
  uint32_t step;
  double amount; /* operators: the share of the whole that this call did; messages: bytes */
} event_span;

typedef struct {
  event_span *spans; /* [capacity], a ring */
  uint64_t added;    /* so far; the newest is at (added - 1) % capacity */
  char pad[48];      /* tracks of different threads do not share a cache line */
} event_track;

typedef struct events {
  bool on;             /* set by the thread that owns track 0, between steps */
  uint32_t step;       /* under way; likewise */
  int64_t from, until; /* steps of this process that are recorded: [from, until) */
  int tracks;
  uint32_t capacity; /* spans a track, a power of two */
  event_track *track;
  event_label *labels;
  uint32_t n_labels, cap_labels;
  double fma_gflops; /* of multiply-adds, what one thread here can reach; 0: not known. Set by whoever creates it */
} events;

SHOAL_CHECKED shoal_status events_create(int tracks, uint32_t capacity, events **out);
void events_destroy(events *e); /* NULL is fine */

/* Copies label->name. */
SHOAL_CHECKED shoal_status events_label(events *e, const event_label *label, uint32_t *out);

/* e may be NULL everywhere below. */
static inline bool events_on(const events *e) { return __builtin_expect(e != NULL, 0) && e->on; }

static inline uint64_t events_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Step `step` of this process begins: are its spans wanted? */
static inline void events_begin_step(events *e, int64_t step) {
  if (__builtin_expect(!e, 1)) return;
  e->on = step >= e->from && step < e->until;
  e->step = (uint32_t)step;
}

/* Only while on; a track that does not exist is passed over. Returns `end`, where the next span may start. */
static inline uint64_t events_add(events *e, int track, uint32_t label, uint64_t start, uint64_t end, double amount) {
  if (track >= e->tracks) return end;
  event_track *t = &e->track[track];
  t->spans[t->added++ & (e->capacity - 1)] = (event_span){start, end, label, e->step, amount};
  return end;
}

#endif
