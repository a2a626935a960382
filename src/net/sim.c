#include "net/sim.h"

#include "base/clock.h"
#include "base/coroutine.h"
#include "base/mem.h"
#include "base/random.h"
#include "net/sim_queues.h"
#include "net/wire.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define CELL_PAYLOAD 192 /* bytes that a message of the stock has room for */
#define CELLS 256        /* made at first; each time after that as many as there are */
#define FETCHED 132      /* of which so many are usual */
#define AT_ONCE 4        /* messages that a task usually takes in a turn */
#define COMING 64        /* messages on their way to a host that there is room for at first */
#define NAME 32
/* Bytes: messages above the first go in pieces of the second, with those to other hosts in between; at most so many. */
#define WHOLE 65536.0
#define PIECE 16384.0
#define PIECES_MAX 32
#define ONE_OF 4 /* turns of a piece of that size is followed by one more of the same message */

struct sim_end {
  sim_host *host;
  sim_message *first, **last;
  bool closed;
  struct sim_end *older, *newer; /* of the simulation */
};

struct sim_host {
  sim *sim;
  double now;
  double task_key; /* its task does nothing before that */
  double until;    /* it waits at most so long ... */
  sim_end *awaits; /* ... for a message to that end; NULL: it has not begun */
  double horizon;  /* all that arrives before is known */
  double in_free;  /* its link is, for what comes */
  arrivals coming;
  double out_free;  /* its link is, for what goes */
  sim_message *out; /* the last of a ring: those that are sent in turns, a piece each; NULL: none */
  double queued;    /* seconds that the link has to send of them */
  size_t index;
  sim_side side;
  uint32_t sent;
  uint64_t turns; /* of those, so far */
  sim_stats stats;
  sim_costs costs;
  coroutine *task;
  void (*run)(void *context);
  void *context;
  void *published;
  char name[NAME];
};

struct sim {
  clock_simulated clock; /* first: sim_here finds it by that */
  sim_options options;
  sim_host **hosts;
  size_t n_hosts, hosts_room;
  line lines[SIM_SIDES]; /* those that wait */
  size_t *places;        /* [n_hosts] in their line; 0: not there */
  sim_host *current;
  bool stops;
  sim_end *ends;
  sim_message **cells; /* [cells_room] the first n_cells are free */
  size_t n_cells, cells_room;
  size_t made;   /* cells */
  void **blocks; /* of cells */
  size_t n_blocks, blocks_room;
};

/* The lines of a message, while something else is done. */
static void fetch(const sim_message *m) {
  for (size_t at = 0; at < sizeof *m + FETCHED; at += MEM_ALIGN) __builtin_prefetch((const char *)m + at);
}

/* ---- turns */

/* When its task or its link has something to do next. */
static double key_of(const sim_host *h) { return h->out ? MIN_OF(h->task_key, h->out_free) : h->task_key; }

static void wait_in_line(sim *s, sim_host *h) { line_push(&s->lines[h->side], (turn){key_of(h), h->index}); }

static void fetch_host(const sim_host *h) {
  for (size_t at = 0; at < offsetof(sim_host, queued); at += MEM_ALIGN) __builtin_prefetch((const char *)h + at);
}

/* Whose turn is probably next, and after that: what they look at first is far away, and comes nearer meanwhile. */
static void expect_next(const sim *s) {
  for (int side = 0; side < SIM_SIDES; side++) {
    const line *l = &s->lines[side];
    const turn *first = line_first(l);
    const arrivals *coming = first ? &s->hosts[first->index]->coming : NULL;
    const sim_message *m;
    for (size_t i = 0; coming && i < AT_ONCE && (m = arrivals_soon(coming, i)); i++) fetch(m);
  }
}

/* The host whose turn it is. NULL: none waits. */
static sim_host *take_first(sim *s) {
  const turn *best = NULL;
  for (int side = 0; side < SIM_SIDES; side++) {
    const turn *first = line_first(&s->lines[side]);
    if (first && (!best || runs_before(first, best))) best = first;
  }
  if (!best) return NULL;
  sim_host *h = s->hosts[best->index];
  line_pop(&s->lines[h->side]);
  expect_next(s);
  return h;
}

/* Up to when all that arrives at the host whose turn it is is known: what others do first, or what they do after they
 * have heard of it, takes the delay, and between those of one side twice. */
static double horizon_of(const sim *s, const sim_host *h) {
  const double delay = s->options.delay;
  double horizon = key_of(h) + 2 * delay;
  for (sim_side side = 0; side < SIM_SIDES; side++) {
    const turn *first = line_first(&s->lines[side]);
    if (first && (side != h->side || side == SIM_ANY)) horizon = MIN_OF(horizon, first->key + delay);
  }
  return horizon;
}

/* ---- messages */

/* As many as there are: large blocks lie in huge pages, and thousands of tasks look at messages all over them. */
static shoal_status make_cells(sim *s) {
  const size_t bytes = sizeof(sim_message) + CELL_PAYLOAD, n = MAX_OF(s->made, (size_t)CELLS);
  char *block;
  TRY(mem_grow((void **)&s->blocks, &s->blocks_room, s->n_blocks + 1, sizeof *s->blocks));
  TRY(mem_grow((void **)&s->cells, &s->cells_room, s->made + n, sizeof *s->cells));
  TRY(mem_aligned(bytes * n, (void **)&block));
  s->blocks[s->n_blocks++] = block;
  s->made += n;
  for (size_t i = n; i--;) s->cells[s->n_cells++] = (sim_message *)(block + i * bytes);
  return NULL;
}

static shoal_status new_message(sim *s, size_t bytes, sim_message **out) {
  if (bytes > CELL_PAYLOAD) return mem_aligned(sizeof **out + bytes, (void **)out);
  if (!s->n_cells) TRY(make_cells(s));
  *out = s->cells[--s->n_cells];
  if (s->n_cells) fetch(s->cells[s->n_cells - 1]);
  return NULL;
}

void sim_release(sim *s, sim_message *m, size_t bytes) {
  if (bytes > CELL_PAYLOAD)
    free(m);
  else
    s->cells[s->n_cells++] = m; /* there is room for all that were made */
}

static void charge(sim_host *h, double weight) {
  const double seconds = h->costs.message + weight * h->costs.byte;
  h->sim->clock.now += seconds;
  h->stats.working_seconds += seconds;
}

/* When the next message can be in, if it is none that is not known yet. */
static double ready_at(const sim_host *h, double arrives, double piece) { return MAX_OF(arrives, h->in_free) + piece; }

/* A host may have something to do earlier than was known: when what it waits for comes. What comes to its other ends
 * meanwhile is taken off the line then. */
static void hear_of(sim_host *h, const sim_end *to, double arrives, double piece) {
  sim *s = h->sim;
  const size_t place = s->places[h->index];
  if (!place || to != h->awaits || arrives >= h->until) return;
  h->task_key = MIN_OF(h->task_key, MAX_OF(h->now, MIN_OF(h->until, ready_at(h, arrives, piece))));
  line_hasten(&s->lines[h->side], place, (turn){key_of(h), h->index});
}

/* The next piece of a message, to `there`, leaves when the link is free, or at `at`. */
static shoal_status send_piece(sim_host *h, sim_message *m, sim_host *there, const sim_end *to, double piece,
                               double at) {
  const double start = MAX_OF(at, h->out_free), arrives = start + h->sim->options.delay;
  h->out_free = start + piece;
  h->stats.sending_seconds += piece;
  TRY(arrivals_push(&there->coming, (arrival){arrives, m}));
  hear_of(there, to, arrives, piece);
  return NULL;
}

/* Whether a message has one more turn before the next one's. By chance: connections of TCP share a link evenly in the mean
 * alone, as their windows and acknowledgements have it. With even turns, ranks that send to all others would never meet at the
 * same receiver, which real ones do. Of larger pieces, which stand for many, less is left to chance. */
static bool goes_on(sim_host *h, const sim_message *m) {
  const double pieces = MAX_OF(m->piece * h->sim->options.rate / PIECE, 1);
  return random_mix(h->index, h->turns++) % (uint64_t)(ONE_OF * pieces) == 0;
}

/* Sends what can be before a time: pieces of messages in turn. */
static shoal_status send_until(sim_host *h, double time) {
  while (h->out && h->out_free < time) {
    sim_message *m = h->out->next;
    TRY(send_piece(h, m, h->sim->hosts[m->host], m->to, m->piece, h->out_free));
    h->queued -= m->piece;
    if (--m->unsent) {
      if (!goes_on(h, m)) h->out = m;
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
  sim_host *h = s->current, *there = s->hosts[host];
  sim_message *m;
  fetch_host(there);
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
    TRY(send_piece(h, m, there, to, seconds, s->clock.now));
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

/* Nothing is done here before what is known to come. */
static void set_task_key(sim_host *h) {
  const arrival *next = arrivals_first(&h->coming);
  const double first = next ? MIN_OF(h->until, ready_at(h, next->at, next->message->piece)) : h->until;
  h->task_key = MAX_OF(h->now, first);
}

/* Takes what has come off the line, up to a message to the end that is waited for. False: what else there is in time is
 * not known yet. */
static bool take_off(sim_host *h) {
  for (const arrival *a; (a = arrivals_first(&h->coming)) && (a->at < h->horizon || a->at <= h->task_key);) {
    sim_message *m = a->message;
    const double ready = ready_at(h, a->at, m->piece);
    if (ready > h->until) return true;
    arrivals_pop(&h->coming);
    const sim_message *soon = arrivals_soon(&h->coming, AT_ONCE - 1);
    if (soon) fetch(soon); /* while this one is looked at */
    h->stats.receiving_seconds += m->piece;
    h->in_free = ready;
    if (--m->missing) continue;
    h->stats.received_bytes += m->weight;
    h->stats.received_messages++;
    m->ready = ready;
    m->next = NULL;
    sim_end *to = m->to;
    if (to->closed) {
      sim_release(h->sim, m, m->bytes);
      continue;
    }
    *to->last = m;
    to->last = &m->next;
    if (to == h->awaits) return true;
  }
  return h->until < h->horizon || h->until <= h->task_key;
}

sim_message *sim_take(sim_end *e, double until) {
  sim_host *h = e->host;
  sim *s = h->sim;
  if (!e->first) {
    h->awaits = e;
    h->until = until;
    if (!take_off(h)) {
      h->now = s->clock.now;
      set_task_key(h);
      coroutine_stop(h->task); /* until there is one, or none in time */
    }
  }
  sim_message *m = e->first;
  if (!m) {
    s->clock.now = MAX_OF(s->clock.now, until);
    return NULL;
  }
  e->first = m->next;
  if (!e->first) e->last = &e->first;
  if (e->newer && e->newer->first) fetch(e->newer->first); /* whoever has several asks them in turn */
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
  if (s->ends) s->ends->newer = e;
  s->ends = e;
  *out = e;
  return NULL;
}

static void drop_queue(sim *s, sim_end *e) {
  for (sim_message *m = e->first, *next; m; m = next) {
    next = m->next;
    sim_release(s, m, m->bytes);
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
int sim_self(const sim *s) { return (int)s->current->index; }
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

shoal_status sim_add(sim *s, const char *name, double start, const sim_costs *costs, sim_side side,
                     void (*run)(void *context), void *context, int *out) {
  TRY(mem_grow((void **)&s->hosts, &s->hosts_room, s->n_hosts + 1, sizeof *s->hosts));
  sim_host *h = calloc(1, sizeof *h);
  if (!h) return status_no_memory();
  *h = (sim_host){.sim = s,
                  .index = s->n_hosts,
                  .side = side,
                  .run = run,
                  .context = context,
                  .costs = *costs,
                  .now = start,
                  .task_key = start,
                  .until = start};
  snprintf(h->name, sizeof h->name, "%s", name);
  shoal_status status = arrivals_init(&h->coming, COMING);
  if (!status) status = coroutine_create(run_task, h, &h->task);
  if (status) {
    arrivals_fini(&h->coming);
    free(h);
    return status;
  }
  *out = (int)h->index;
  s->hosts[s->n_hosts++] = h;
  return NULL;
}

static shoal_status make_lines(sim *s) {
  s->places = calloc(s->n_hosts, sizeof *s->places);
  if (!s->places) return status_no_memory();
  for (int side = 0; side < SIM_SIDES; side++) TRY(line_init(&s->lines[side], s->n_hosts, s->places));
  for (size_t i = 0; i < s->n_hosts; i++) wait_in_line(s, s->hosts[i]);
  return NULL;
}

/* What the host has to do next. */
static shoal_status give_turn(sim *s, sim_host *h) {
  if (key_of(h) == INFINITY) return status_make(SHOAL_ERR_INTERNAL, "the simulated %s waits for ever", h->name);
  h->horizon = horizon_of(s, h);
  s->current = h;
  s->clock.now = h->now;
  if (h->out && h->out_free <= h->task_key) { /* the link is what is next */
    TRY(send_until(h, nextafter(h->out_free, INFINITY)));
  } else if (h->awaits && !take_off(h)) {
    set_task_key(h);
  } else {
    coroutine_resume(h->task);
    if (coroutine_ended(h->task)) return send_until(h, INFINITY);
  }
  wait_in_line(s, h);
  return NULL;
}

shoal_status sim_run(sim *s) {
  TRY(make_lines(s));
  clock_simulated *outside = clock_here;
  clock_here = &s->clock;
  shoal_status status = NULL;
  for (sim_host *h; !s->stops && !status && (h = take_first(s));) status = give_turn(s, h);
  s->current = NULL;
  clock_here = outside;
  return status;
}

/* A piece of it is lost. Messages of the stock are freed with it. */
static void lose_piece(sim_message *m) {
  if (!--m->missing && m->bytes > CELL_PAYLOAD) free(m);
}

/* What has not gone out, or not come in. */
static void drop_link(sim_host *h) {
  if (h->out) {
    sim_message *m = h->out->next;
    h->out->next = NULL;
    for (sim_message *next; m; m = next) {
      next = m->next;
      for (int unsent = m->unsent; unsent; unsent--) lose_piece(m);
    }
  }
  for (const arrival *a; (a = arrivals_first(&h->coming));) {
    sim_message *m = a->message;
    arrivals_pop(&h->coming);
    lose_piece(m);
  }
}

void sim_destroy(sim *s) {
  if (!s) return;
  for (sim_end *e = s->ends, *older; e; e = older) {
    older = e->older;
    drop_queue(s, e);
    free(e);
  }
  for (size_t i = 0; i < s->n_hosts; i++) drop_link(s->hosts[i]);
  for (size_t i = 0; i < s->n_hosts; i++) {
    sim_host *h = s->hosts[i];
    arrivals_fini(&h->coming);
    coroutine_destroy(h->task);
    free(h);
  }
  for (int side = 0; side < SIM_SIDES; side++) free(s->lines[side].heap);
  for (size_t i = 0; i < s->n_blocks; i++) free(s->blocks[i]);
  free(s->blocks);
  free(s->cells);
  free(s->hosts);
  free(s->places);
  free(s);
}

void sim_stats_read(const sim *s, int host, sim_stats *out) { *out = s->hosts[host]->stats; }

void sim_stats_reset(sim *s) {
  for (size_t i = 0; i < s->n_hosts; i++) s->hosts[i]->stats = (sim_stats){0};
}
