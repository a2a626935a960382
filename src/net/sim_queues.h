/* The two queues of a simulation, for sim.c only: messages on their way to a host, by when they arrive; and hosts, by when they
 * have something to do next.
 *
 * Both are heaps whose nodes have four children: a group of those is a cache line, and fewer lines are looked at than with two.
 * The first is at place ROOT, so that groups begin where lines do. */
#ifndef SHOAL_NET_SIM_QUEUES_H
#define SHOAL_NET_SIM_QUEUES_H

#include "base/mem.h"
#include "net/sim.h"

#include <string.h>

#define ROOT 3
static inline size_t parent_of(size_t i) { return i / 4 + 2; }
static inline size_t children_of(size_t i) { return 4 * i - 8; }

/* ---- messages */

typedef struct {
  double at;
  sim_message *message; /* there may be several of one: its pieces */
} arrival;

/* Most come in the order in which they are sent: those follow each other in a ring, where the next ones are known. What is
 * earlier than the last one there goes through the heap. */
typedef struct {
  arrival *heap; /* [room] */
  size_t end, room;
  arrival *ring; /* [ring_room], a power of two; the first is at `first % ring_room`, and so on up to `last` */
  size_t first, last, ring_room;
  arrival newest; /* of the ring: not far away, as its end may be */
} arrivals;

static inline SHOAL_CHECKED shoal_status arrivals_init(arrivals *q, size_t room) {
  *q = (arrivals){.end = ROOT, .room = room, .ring_room = room};
  TRY(mem_aligned(room * sizeof *q->heap, (void **)&q->heap));
  return mem_aligned(room * sizeof *q->ring, (void **)&q->ring);
}

static inline void arrivals_fini(arrivals *q) {
  free(q->heap);
  free(q->ring);
}

static inline bool arrives_before(const arrival *a, const arrival *b) {
  if (a->at != b->at) return a->at < b->at;
  const sim_message *x = a->message, *y = b->message;
  return x->from != y->from ? x->from < y->from : x->number < y->number;
}

static inline arrival *ring_at(const arrivals *q, size_t i) { return &q->ring[i & (q->ring_room - 1)]; }

static inline bool ring_is_first(const arrivals *q) {
  if (q->first == q->last) return false;
  return q->end == ROOT || arrives_before(ring_at(q, q->first), &q->heap[ROOT]);
}

/* The next one; NULL: there is none. */
static inline const arrival *arrivals_first(const arrivals *q) {
  if (ring_is_first(q)) return ring_at(q, q->first);
  return q->end > ROOT ? &q->heap[ROOT] : NULL;
}

/* One that comes soon, `ahead` after the next; NULL: not known. */
static inline const sim_message *arrivals_soon(const arrivals *q, size_t ahead) {
  return q->last - q->first > ahead ? ring_at(q, q->first + ahead)->message : NULL;
}

static inline SHOAL_CHECKED shoal_status arrivals_enlarge(arrival **block, size_t *room) {
  void *larger;
  TRY(mem_aligned(2 * *room * sizeof **block, &larger));
  memcpy(larger, *block, *room * sizeof **block);
  free(*block);
  *block = larger;
  *room *= 2;
  return NULL;
}

static inline SHOAL_CHECKED shoal_status ring_push(arrivals *q, arrival a) {
  if (q->last - q->first == q->ring_room) {
    const size_t old = q->ring_room, turned = q->first & (old - 1);
    TRY(arrivals_enlarge(&q->ring, &q->ring_room));
    memcpy(q->ring + old, q->ring, turned * sizeof a); /* those that came after the end of the old one */
    q->first = turned;
    q->last = turned + old;
  }
  arrival *to = ring_at(q, q->last++);
  to->at = q->newest.at = a.at; /* one by one: a whole one would wait until both parts of `a` are in memory */
  to->message = q->newest.message = a.message;
  return NULL;
}

static inline SHOAL_CHECKED shoal_status arrivals_push(arrivals *q, arrival a) {
  if (q->first == q->last || !arrives_before(&a, &q->newest)) return ring_push(q, a);
  if (q->end == q->room) TRY(arrivals_enlarge(&q->heap, &q->room));
  arrival *heap = q->heap;
  size_t i = q->end++;
  for (size_t up; i > ROOT && arrives_before(&a, &heap[up = parent_of(i)]); i = up) heap[i] = heap[up];
  heap[i] = a;
  return NULL;
}

static inline size_t first_of(const arrival *heap, size_t first, size_t end) {
  for (size_t i = first + 1; i < end; i++)
    if (arrives_before(&heap[i], &heap[first])) first = i;
  return first;
}

/* Without branches, which nobody could predict; where several come at the same time, with them. */
static inline size_t first_of_four(const arrival *heap, size_t at) {
  const arrival *a = heap + at;
  const size_t low = a[1].at < a[0].at, high = 2 + (a[3].at < a[2].at), best = a[high].at < a[low].at ? high : low;
  const double t = a[best].at;
  const int same = (a[0].at == t) + (a[1].at == t) + (a[2].at == t) + (a[3].at == t);
  return __builtin_expect(same > 1, 0) ? first_of(heap, at, at + 4) : at + best;
}

static inline void heap_pop(arrivals *q) {
  arrival *heap = q->heap;
  const arrival last = heap[--q->end];
  size_t i = ROOT;
  for (size_t k; (k = children_of(i)) < q->end; i = k) {
    k = k + 4 <= q->end ? first_of_four(heap, k) : first_of(heap, k, q->end);
    if (!arrives_before(&heap[k], &last)) break;
    heap[i] = heap[k];
  }
  heap[i] = last;
}

static inline void arrivals_pop(arrivals *q) {
  if (ring_is_first(q))
    q->first++;
  else
    heap_pop(q);
}

/* ---- hosts */

typedef struct {
  double key;
  size_t index;
} turn;

typedef struct {
  turn *heap; /* room for all hosts */
  size_t end;
  size_t *places; /* [hosts] where each is; 0: in no line. Lines share it */
} line;

static inline SHOAL_CHECKED shoal_status line_init(line *l, size_t hosts, size_t *places) {
  *l = (line){.end = ROOT, .places = places};
  return mem_aligned((hosts + ROOT) * sizeof *l->heap, (void **)&l->heap);
}

/* Whose turn it is; NULL: nobody waits. */
static inline const turn *line_first(const line *l) { return l->end > ROOT ? &l->heap[ROOT] : NULL; }

static inline bool runs_before(const turn *a, const turn *b) {
  return a->key != b->key ? a->key < b->key : a->index < b->index;
}

static inline void line_put(line *l, size_t i, turn t) {
  l->heap[i] = t;
  l->places[t.index] = i;
}

/* From place i, which is free, towards the first. */
static inline void line_rise(line *l, size_t i, turn t) {
  for (size_t up; i > ROOT && runs_before(&t, &l->heap[up = parent_of(i)]); i = up) line_put(l, i, l->heap[up]);
  line_put(l, i, t);
}

static inline void line_push(line *l, turn t) { line_rise(l, l->end++, t); }

/* The host at a place has something to do earlier than it had. */
static inline void line_hasten(line *l, size_t place, turn t) {
  if (t.key < l->heap[place].key) line_rise(l, place, t);
}

static inline void line_pop(line *l) {
  turn *heap = l->heap;
  l->places[heap[ROOT].index] = 0;
  const turn last = heap[--l->end];
  size_t i = ROOT;
  for (size_t k; (k = children_of(i)) < l->end; i = k) {
    const size_t after = MIN_OF(k + 4, l->end);
    for (size_t j = k + 1; j < after; j++)
      if (runs_before(&heap[j], &heap[k])) k = j;
    if (!runs_before(&heap[k], &last)) break;
    line_put(l, i, heap[k]);
  }
  if (l->end > ROOT) line_put(l, i, last);
}

#endif
