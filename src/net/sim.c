#include "net/sim.h"

#include "base/clock.h"
#include "base/coroutine.h"
#include "base/mem.h"
#include "net/wire.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define CELL_PAYLOAD 192 /* bytes that a message of the stock has room for */
#define CELLS 256        /* made at once */
#define NAME 32
/* Bytes: messages above the first go in pieces of the second, with those to other hosts in between; at most so many. */
#define WHOLE 65536.0
#define PIECE 16384.0
#define PIECES_MAX 32

/* A message on its way to a host: what is small is moved fast. */
typedef struct {
  double arrival;
  sim_message *message;
} arrival;

struct sim_end {
  sim_host *host;
  sim_message *first, **last;
  bool closed;
  struct sim_end *older; /* of the simulation */
};

struct sim_host {
  sim *sim;
  int index;
  char name[NAME];
  coroutine *task;
  void (*run)(void *context);
  void *context;
  sim_costs costs;
  double now;
  double key;      /* nothing happens here before that */
  double task_key; /* the same without its link */
  double until;    /* it waits at most so long */
  double horizon;  /* all that arrives before is known */
  int place;       /* among those that wait */
  double out_free, in_free;
  sim_message *out; /* the last of a ring: those that are sent in turns, a piece each; NULL: none */
  double queued;    /* seconds that the link has to send of them */
  arrival *coming;  /* a heap */
  size_t n_coming, room;
  uint32_t sent;
  void *published;
  sim_stats stats;
};

struct sim {
  clock_simulated clock; /* first: sim_here finds it by that */
  sim_options options;
  sim_host **hosts;
  size_t n_hosts, hosts_room;
  sim_host **waiting; /* a heap, by key */
  size_t n_waiting;
  sim_host *current;
  bool stops;
  sim_end *ends;
  sim_message *cells; /* free ones */
  void **blocks;      /* of cells */
  size_t n_blocks, blocks_room;
};

/* ---- heaps */

static bool is_before(const arrival *a, const arrival *b) {
  if (a->arrival != b->arrival) return a->arrival < b->arrival;
  const sim_message *x = a->message, *y = b->message;
  return x->from != y->from ? x->from < y->from : x->number < y->number;
}

static shoal_status coming_push(sim_host *h, arrival a) {
  TRY(mem_grow((void **)&h->coming, &h->room, h->n_coming + 1, sizeof *h->coming));
  size_t i = h->n_coming++;
  for (; i && is_before(&a, &h->coming[(i - 1) / 2]); i = (i - 1) / 2) h->coming[i] = h->coming[(i - 1) / 2];
  h->coming[i] = a;
  return NULL;
}

static void coming_pop(sim_host *h) {
  const arrival last = h->coming[--h->n_coming];
  size_t i = 0;
  for (size_t k; (k = 2 * i + 1) < h->n_coming; i = k) {
    if (k + 1 < h->n_coming && is_before(&h->coming[k + 1], &h->coming[k])) k++;
    if (!is_before(&h->coming[k], &last)) break;
    h->coming[i] = h->coming[k];
  }
  h->coming[i] = last;
}

static bool runs_before(const sim_host *a, const sim_host *b) {
  return a->key != b->key ? a->key < b->key : a->index < b->index;
}

static void put(sim *s, size_t i, sim_host *h) {
  s->waiting[i] = h;
  h->place = (int)i;
}

static void move_up(sim *s, sim_host *h) {
  size_t i = (size_t)h->place;
  for (; i && runs_before(h, s->waiting[(i - 1) / 2]); i = (i - 1) / 2) put(s, i, s->waiting[(i - 1) / 2]);
  put(s, i, h);
}

static void wait_in_line(sim *s, sim_host *h) {
  h->place = (int)s->n_waiting++;
  move_up(s, h);
}

static sim_host *take_first(sim *s) {
  sim_host *first = s->waiting[0], *last = s->waiting[--s->n_waiting];
  size_t i = 0;
  for (size_t k; (k = 2 * i + 1) < s->n_waiting; i = k) {
    if (k + 1 < s->n_waiting && runs_before(s->waiting[k + 1], s->waiting[k])) k++;
    if (!runs_before(s->waiting[k], last)) break;
    put(s, i, s->waiting[k]);
  }
  if (s->n_waiting) put(s, i, last);
  first->place = -1;
  return first;
}

/* ---- messages */

static shoal_status make_cells(sim *s) {
  const size_t bytes = sizeof(sim_message) + CELL_PAYLOAD;
  void *block;
  TRY(mem_grow((void **)&s->blocks, &s->blocks_room, s->n_blocks + 1, sizeof *s->blocks));
  TRY(mem_aligned(bytes * CELLS, &block));
  s->blocks[s->n_blocks++] = block;
  for (int i = CELLS - 1; i >= 0; i--) {
    sim_message *m = (sim_message *)((char *)block + (size_t)i * bytes);
    m->next = s->cells;
    s->cells = m;
  }
  return NULL;
}

static shoal_status new_message(sim *s, size_t bytes, sim_message **out) {
  if (bytes > CELL_PAYLOAD) return mem_aligned(sizeof **out + bytes, (void **)out);
  if (!s->cells) TRY(make_cells(s));
  *out = s->cells;
  s->cells = s->cells->next;
  return NULL;
}

void sim_release(sim *s, sim_message *m) {
  if (m->bytes > CELL_PAYLOAD) {
    free(m);
    return;
  }
  m->next = s->cells;
  s->cells = m;
}

static void charge(sim_host *h, double weight) {
  const double seconds = h->costs.message + weight * h->costs.byte;
  h->sim->clock.now += seconds;
  h->stats.working_seconds += seconds;
}

/* A host may have something to do earlier than was known. */
static void move_key(sim_host *h) {
  const double key = h->out ? MIN_OF(h->task_key, h->out_free) : h->task_key;
  if (h->place < 0 || key >= h->key) return;
  h->key = key;
  move_up(h->sim, h);
}

/* The next piece of a message leaves when the link is free, or at `at`. */
static shoal_status send_piece(sim_host *h, sim_message *m, double at) {
  sim *s = h->sim;
  sim_host *there = s->hosts[m->host];
  const double start = MAX_OF(at, h->out_free), arrives = start + s->options.delay;
  h->out_free = start + m->piece;
  h->stats.sending_seconds += m->piece;
  TRY(coming_push(there, (arrival){arrives, m}));
  if (there->place < 0 || arrives >= there->until) return NULL;
  there->task_key = MIN_OF(there->task_key, MAX_OF(there->now, arrives));
  move_key(there);
  return NULL;
}

/* Sends what can be before a time: one piece of each message in turn. */
static shoal_status send_until(sim_host *h, double time) {
  while (h->out && h->out_free < time) {
    sim_message *m = h->out->next;
    TRY(send_piece(h, m, h->out_free));
    h->queued -= m->piece;
    if (--m->unsent) {
      h->out = m;
      continue;
    }
    h->out = m == h->out ? NULL : h->out;
    if (h->out) h->out->next = m->next;
  }
  if (!h->out) h->queued = 0;
  return NULL;
}

shoal_status sim_post(sim *s, int host, sim_end *to, const net_header *header, uint64_t peer, const net_part *parts,
                      int n, size_t bytes) {
  sim_host *h = s->current;
  sim_message *m;
  TRY(new_message(s, bytes, &m));
  const double weight =
      s->options.weigh ? s->options.weigh(s->options.context, header, bytes) : (double)(WIRE_HEADER + bytes);
  const double seconds = s->options.rate > 0 ? weight / s->options.rate : 0;
  const bool whole = s->options.rate <= 0 || weight <= WHOLE;
  const int pieces = whole ? 1 : (int)MIN_OF(ceil(weight / PIECE), (double)PIECES_MAX);
  charge(h, weight);
  h->stats.sent_bytes += weight;
  h->stats.sent_messages++;
  m->header = *header;
  m->peer = peer;
  m->piece = seconds / pieces;
  m->weight = weight;
  m->to = to;
  m->next = NULL;
  m->bytes = bytes;
  m->host = (uint32_t)host;
  m->from = (uint32_t)h->index;
  m->number = h->sent++;
  m->unsent = m->missing = pieces;
  uint8_t *at = m->payload;
  for (int i = 0; i < n; at += parts[i++].bytes)
    if (parts[i].bytes) memcpy(at, parts[i].data, parts[i].bytes);
  TRY(send_until(h, s->clock.now));
  if (pieces == 1 && !h->out) {
    TRY(send_piece(h, m, s->clock.now));
  } else {
    h->out_free = MAX_OF(h->out_free, s->clock.now);
    m->next = h->out ? h->out->next : m;
    if (h->out) h->out->next = m;
    h->out = m;
    h->queued += seconds;
  }
  if (s->options.rate > 0)
    s->clock.now = MAX_OF(s->clock.now, h->out_free + h->queued - s->options.window / s->options.rate);
  return NULL;
}

/* Lets the others go on, until nothing can happen here before what is known to. */
static void give_way(sim_host *h, double until) {
  sim *s = h->sim;
  h->now = s->clock.now;
  h->until = until;
  h->task_key = MAX_OF(h->now, h->n_coming ? MIN_OF(until, h->coming[0].arrival) : until);
  h->key = h->out ? MIN_OF(h->task_key, h->out_free) : h->task_key;
  coroutine_stop(h->task);
}

/* The next message to the host, whichever end it is for, taken off the line. NULL: there is none by `until`. */
static sim_message *next_message(sim_host *h, double until) {
  for (;;) {
    if (h->n_coming && (h->coming[0].arrival < h->horizon || h->coming[0].arrival <= h->task_key)) {
      const arrival a = h->coming[0];
      sim_message *m = a.message;
      const double ready = MAX_OF(a.arrival, h->in_free) + m->piece;
      if (ready > until) return NULL;
      coming_pop(h);
      if (h->n_coming) __builtin_prefetch(h->coming[0].message); /* the next one, while this one is looked at */
      __builtin_prefetch(m->to);
      h->stats.receiving_seconds += m->piece;
      h->in_free = ready;
      if (--m->missing) continue;
      h->stats.received_bytes += m->weight;
      h->stats.received_messages++;
      m->ready = ready;
      m->next = NULL;
      return m;
    }
    if (until < h->horizon || until <= h->task_key) return NULL;
    give_way(h, until);
  }
}

sim_message *sim_take(sim_end *e, double until) {
  sim_host *h = e->host;
  sim *s = h->sim;
  while (!e->first) {
    sim_message *m = next_message(h, until);
    if (!m) {
      s->clock.now = MAX_OF(s->clock.now, until);
      return NULL;
    }
    if (m->to->closed) {
      sim_release(s, m);
      continue;
    }
    *m->to->last = m;
    m->to->last = &m->next;
  }
  sim_message *m = e->first;
  e->first = m->next;
  if (!e->first) e->last = &e->first;
  s->clock.now = MAX_OF(s->clock.now, m->ready);
  charge(h, m->weight);
  return m;
}

shoal_status sim_end_create(sim *s, sim_end **out) {
  sim_end *e = calloc(1, sizeof *e);
  if (!e) return status_no_memory();
  e->host = s->current;
  e->last = &e->first;
  e->older = s->ends;
  s->ends = e;
  *out = e;
  return NULL;
}

static void drop_queue(sim *s, sim_end *e) {
  for (sim_message *m = e->first, *next; m; m = next) {
    next = m->next;
    sim_release(s, m);
  }
  e->first = NULL;
  e->last = &e->first;
}

void sim_end_close(sim_end *e) {
  e->closed = true;
  drop_queue(e->host->sim, e);
}

/* ---- tasks */

sim *sim_here(void) { return (sim *)clock_here; }
int sim_self(const sim *s) { return s->current->index; }
void *sim_task(const sim *s) { return s->current->context; }
double sim_delay(const sim *s) { return s->options.delay; }

void sim_stop(sim *s) { s->stops = true; }
void sim_publish(sim *s, void *what) { s->current->published = what; }
void *sim_published(const sim *s, int host) {
  return host >= 0 && host < (int)s->n_hosts ? s->hosts[host]->published : NULL;
}

void sim_work(sim *s, double seconds) {
  s->clock.now += seconds;
  s->current->stats.working_seconds += seconds;
}

static void pass(clock_simulated *c, double seconds) { c->now += seconds; }

static void run_task(void *context) {
  sim_host *h = context;
  h->run(h->context);
}

shoal_status sim_create(const sim_options *options, sim **out) {
  sim *s = calloc(1, sizeof *s);
  if (!s) return status_no_memory();
  s->options = *options;
  s->clock.pass = pass;
  *out = s;
  return NULL;
}

shoal_status sim_add(sim *s, const char *name, double start, const sim_costs *costs, void (*run)(void *context),
                     void *context, int *out) {
  TRY(mem_grow((void **)&s->hosts, &s->hosts_room, s->n_hosts + 1, sizeof *s->hosts));
  sim_host *h = calloc(1, sizeof *h);
  if (!h) return status_no_memory();
  *h = (sim_host){.sim = s,
                  .index = (int)s->n_hosts,
                  .run = run,
                  .context = context,
                  .costs = *costs,
                  .now = start,
                  .key = start,
                  .task_key = start,
                  .until = start,
                  .place = -1};
  snprintf(h->name, sizeof h->name, "%s", name);
  shoal_status status = coroutine_create(run_task, h, &h->task);
  if (status) {
    free(h);
    return status;
  }
  *out = h->index;
  s->hosts[s->n_hosts++] = h;
  return NULL;
}

shoal_status sim_run(sim *s) {
  s->waiting = calloc(s->n_hosts, sizeof *s->waiting);
  if (!s->waiting) return status_no_memory();
  clock_simulated *outside = clock_here;
  clock_here = &s->clock;
  shoal_status status = NULL;
  for (size_t i = 0; i < s->n_hosts; i++) wait_in_line(s, s->hosts[i]);
  while (s->n_waiting && !s->stops && !status) {
    sim_host *h = take_first(s);
    if (h->key == INFINITY) {
      status = status_make(SHOAL_ERR_INTERNAL, "the simulated %s waits for ever", h->name);
      break;
    }
    const double others = s->n_waiting ? s->waiting[0]->key : INFINITY;
    h->horizon = MIN_OF(others, h->key + s->options.delay) + s->options.delay;
    s->current = h;
    s->clock.now = h->now;
    if (h->out && h->out_free <= h->task_key) { /* the link is what is next */
      status = send_until(h, nextafter(h->out_free, INFINITY));
      h->key = h->out ? MIN_OF(h->task_key, h->out_free) : h->task_key;
      wait_in_line(s, h);
      continue;
    }
    coroutine_resume(h->task);
    if (!coroutine_ended(h->task))
      wait_in_line(s, h);
    else
      status = send_until(h, INFINITY);
  }
  s->current = NULL;
  clock_here = outside;
  return status;
}

void sim_destroy(sim *s) {
  if (!s) return;
  for (sim_end *e = s->ends, *older; e; e = older) {
    older = e->older;
    drop_queue(s, e);
    free(e);
  }
  for (size_t i = 0; i < s->n_hosts; i++) {
    sim_host *h = s->hosts[i];
    for (size_t k = 0; k < h->n_coming; k++) sim_release(s, h->coming[k].message);
    free(h->coming);
    coroutine_destroy(h->task);
    free(h);
  }
  for (size_t i = 0; i < s->n_blocks; i++) free(s->blocks[i]);
  free(s->blocks);
  free(s->hosts);
  free(s->waiting);
  free(s);
}

void sim_stats_read(const sim *s, int host, sim_stats *out) { *out = s->hosts[host]->stats; }

void sim_stats_reset(sim *s) {
  for (size_t i = 0; i < s->n_hosts; i++) s->hosts[i]->stats = (sim_stats){0};
}
