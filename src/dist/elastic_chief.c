/* Rank 0's end: who is there, and which generation is formed when. A thread answers the others. */
#include "dist/elastic_internal.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LOOK_SECONDS 0.02 /* between two looks at who is silent */

static bool is_with(const elastic_state *s, int id) { return s->with[id / 8] >> (id % 8) & 1; }

static bool is_there(const elastic_entry *m) { return m->known && !m->gone; }
static bool is_waiting(const elastic_entry *m) { return is_there(m) && m->said.stage == ELASTIC_WAITS; }

static uint64_t wall_clock_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void note(elastic_chief *c, int id, elastic_kind kind) {
  if (c->n_pending == (int)COUNT_OF(c->pending)) return;
  c->pending[c->n_pending++] = (elastic_change){.id = id, .kind = kind, .time = 1e-9 * (double)wall_clock_ns()};
}

static void end_generation(elastic *e) {
  e->chief->over = true;
  atomic_store(&e->broken, true);
  pthread_cond_broadcast(&e->news);
}

static void lose(elastic *e, int id, elastic_kind kind) {
  elastic_entry *m = &e->chief->entries[id];
  if (!is_there(m)) return;
  m->gone = true;
  if (!m->in) return;
  m->in = false;
  end_generation(e);
  note(e->chief, id, kind);
}

/* ---- forming a generation */

/* Whether everybody is there that a chief which was started again has to wait for. last: the generation that is over. */
static bool survivors_are_there(elastic *e, uint64_t last, double now) {
  elastic_chief *c = e->chief;
  if (c->first == 0) c->first = now;
  if (now - c->first > e->heartbeat) return true;
  for (int i = 0; i < ELASTIC_RANKS; i++)
    for (int id = 0; is_waiting(&c->entries[i]) && c->entries[i].said.generation == last && id < ELASTIC_RANKS; id++)
      if (id != e->id && is_with(&c->entries[i].said, id) && !is_waiting(&c->entries[id])) return false;
  return true;
}

static bool all_have_stopped(const elastic_chief *c) {
  for (int i = 0; i < ELASTIC_RANKS; i++) {
    const elastic_entry *m = &c->entries[i];
    if (m->in && !(is_waiting(m) && m->said.generation == c->view.generation)) return false;
  }
  return true;
}

/* Whether the first generation can be formed. */
static bool all_have_come(elastic *e, double now) {
  elastic_chief *c = e->chief;
  if (c->begun == 0) c->begun = now;
  if (e->again && now - c->begun > e->heartbeat) return true;
  for (int i = 0; i < e->ranks; i++)
    if (!is_waiting(&c->entries[i])) return false;
  return true;
}

/* Where a chief is started again: who of its generation is not there. */
static void note_lost(elastic *e, uint64_t last) {
  elastic_chief *c = e->chief;
  bool was[ELASTIC_RANKS] = {0};
  for (int i = 0; i < ELASTIC_RANKS; i++)
    for (int id = 0; is_waiting(&c->entries[i]) && c->entries[i].said.generation == last && id < ELASTIC_RANKS; id++)
      was[id] |= is_with(&c->entries[i].said, id);
  for (int id = 0; id < ELASTIC_RANKS; id++) {
    c->entries[id].ever |= was[id];
    const bool survives = is_waiting(&c->entries[id]) && c->entries[id].said.generation == last;
    if (was[id] && !survives) note(c, id, ELASTIC_DIED);
    c->entries[id].in = was[id] && survives;
  }
}

/* first: of this job, or since all ranks had died. */
static void add_rank(elastic *e, int id, bool has, bool first) {
  elastic_view *v = &e->chief->view;
  elastic_entry *m = &e->chief->entries[id];
  elastic_rank *r = &v->ranks[v->n++];
  *r = (elastic_rank){.id = id, .pid = m->said.pid, .has = has};
  memcpy(r->host, m->said.host, sizeof r->host);
  memcpy(r->address, m->said.address, sizeof r->address);
  if (!m->in && !first) note(e->chief, id, m->ever ? ELASTIC_REJOINED : ELASTIC_JOINED);
  m->in = m->ever = true;
}

/* Of all that wait; those that were in the one before (`in`) have what they say they have. */
static void form(elastic *e, uint64_t last) {
  elastic_chief *c = e->chief;
  elastic_view *v = &c->view;
  /* After a death of all the numbers must be others than before: who was asleep meanwhile may have been in those. */
  v->generation = !last && e->again ? wall_clock_ns() : last + 1;
  v->n = 0;
  v->step = -1;
  for (int i = 0; i < ELASTIC_RANKS; i++)
    if (c->entries[i].in) v->step = MAX_OF(v->step, c->entries[i].said.step);
  for (int k = 1; k <= ELASTIC_RANKS; k++) {
    const int id = (e->id + k) % ELASTIC_RANKS; /* this one is the last */
    const elastic_entry *m = &c->entries[id];
    if (is_waiting(m)) add_rank(e, id, v->step < 0 ? id == e->id : m->in && m->said.step == v->step, !last);
  }
  v->from = 0;
  while (v->from < v->n - 1 && !v->ranks[v->from].has) v->from++;
  for (int i = 0; i < c->n_pending; i++) {
    c->changes[i] = c->pending[i];
    c->changes[i].step = MAX_OF(v->step, 0);
  }
  c->n_changes = c->n_pending;
  c->n_pending = 0;
  c->over = false;
  const elastic_answer a = {
      .generation = v->generation, .step = v->step, .n = v->n, .from = v->from, .n_changes = c->n_changes};
  elastic_take(e, &a, v->ranks, c->changes);
}

void elastic_chief_form(elastic *e, double now) {
  elastic_chief *c = e->chief;
  uint64_t last = c->view.generation;
  if (c->ended || !is_waiting(&c->entries[e->id])) return;
  if (last) {
    if (c->over && all_have_stopped(c)) form(e, last);
    return;
  }
  for (int i = 0; i < ELASTIC_RANKS; i++)
    if (is_waiting(&c->entries[i])) last = MAX_OF(last, c->entries[i].said.generation);
  if (!last && all_have_come(e, now)) form(e, 0);
  if (!last || !survivors_are_there(e, last, now)) return;
  note_lost(e, last);
  form(e, last);
}

void elastic_chief_add_missing(elastic *e, text *out) {
  for (int i = 0; i < e->ranks; i++)
    if (!is_waiting(&e->chief->entries[i]))
      text_add(out, "%srank %d (%s)", out->length ? ", " : "", i,
               e->addresses[i] + (strncmp(e->addresses[i], "tcp://", 6) ? 0 : 6));
}

/* ---- what ranks say */

void elastic_chief_hear(elastic *e, const elastic_state *said, uint64_t peer, elastic_answer *a) {
  elastic_chief *c = e->chief;
  elastic_entry *m = &c->entries[said->id];
  const double now = clock_seconds();
  *a = (elastic_answer){.ended = c->ended, .broadcasts = (int32_t)c->n_items};
  if (m->known && m->said.life != said->life) {
    if (!m->gone) { /* it is known soon, if it is */
      a->twice = 1;
      return;
    }
    free(m->words);
    *m = (elastic_entry){.ever = m->ever};
  }
  m->known = true;
  m->gone = false; /* after a silence it is a new one */
  m->said = *said;
  m->heard = now;
  m->peer = peer;
  if (said->stage == ELASTIC_LEAVES) lose(e, said->id, ELASTIC_LEFT);
  if (m->in && said->stage == ELASTIC_WAITS && said->generation == c->view.generation) end_generation(e);
  elastic_chief_form(e, now);
  const elastic_view *v = &c->view;
  a->generation = v->generation;
  a->step = v->step;
  a->n = v->n;
  a->from = v->from;
  a->n_changes = c->n_changes;
  a->over = c->over;
  a->reports = m->reported;
}

/* A piece of a report; true: it is right. */
static bool take_words(elastic *e, const net_message *m) {
  elastic_entry *r = &e->chief->entries[m->header.from];
  if (m->header.number > ELASTIC_WORDS_MAX) return false;
  if (!m->header.step) {
    free(r->words);
    r->words = calloc(1, (size_t)m->header.number + 1);
    r->words_bytes = (size_t)m->header.number;
    r->words_have = 0;
  }
  if (!r->words || m->header.number != r->words_bytes || m->header.step != r->words_have ||
      m->bytes > r->words_bytes - r->words_have)
    return false;
  if (m->bytes) memcpy(r->words + r->words_have, m->payload, m->bytes);
  r->words_have += m->bytes;
  r->reported = r->words_have == r->words_bytes;
  pthread_cond_broadcast(&e->news);
  return true;
}

/* The answer's bytes; `room` has space for all there may be. */
static size_t answer(elastic *e, const net_message *m, uint8_t *room, net_header *h) {
  elastic_chief *c = e->chief;
  *h = (net_header){.kind = m->header.kind};
  if (m->header.kind == ELASTIC_ASK) {
    elastic_state said;
    elastic_answer a;
    if (m->bytes != sizeof said) return 0;
    memcpy(&said, m->payload, sizeof said);
    said.host[sizeof said.host - 1] = said.address[sizeof said.address - 1] = 0;
    if (said.id < 0 || said.id >= ELASTIC_RANKS || said.id == e->id || (uint32_t)said.id != m->header.from) return 0;
    elastic_chief_hear(e, &said, m->peer, &a);
    if (a.generation == said.generation || !a.generation) a.n = a.n_changes = 0;
    size_t n = sizeof a, more = (size_t)a.n * sizeof *c->view.ranks;
    memcpy(room, &a, n);
    memcpy(room + n, c->view.ranks, more);
    n += more;
    more = (size_t)a.n_changes * sizeof *c->changes;
    memcpy(room + n, c->changes, more);
    return n + more;
  }
  if (m->header.kind == ELASTIC_BYTES && m->header.number < c->n_items) {
    const elastic_item *item = &c->items[m->header.number];
    if (m->header.step > item->count) return 0;
    const size_t n = MIN_OF(item->count - (size_t)m->header.step, ELASTIC_PIECE);
    h->number = item->count + 1;
    memcpy(room, (const uint8_t *)item->bytes + m->header.step, n);
    return n;
  }
  if (m->header.kind == ELASTIC_WORDS) h->number = take_words(e, m);
  return 0;
}

static void look_for_silence(elastic *e, double now, double before) {
  elastic_chief *c = e->chief;
  const bool slept = now - before > e->heartbeat / 2; /* this process has: nobody could be heard */
  for (int i = 0; i < ELASTIC_RANKS; i++) {
    elastic_entry *m = &c->entries[i];
    if (slept) m->heard = now;
    if (i != e->id && is_there(m) && now - m->heard > e->heartbeat) lose(e, i, ELASTIC_SILENT);
  }
  elastic_chief_form(e, now);
}

static void lose_peer(elastic *e, uint64_t peer) {
  for (int i = 0; i < ELASTIC_RANKS; i++)
    if (i != e->id && e->chief->entries[i].known && e->chief->entries[i].peer == peer) lose(e, i, ELASTIC_DIED);
}

static void *serve(void *context) {
  elastic *e = context;
  elastic_chief *c = e->chief;
  const size_t room = sizeof(elastic_answer) + sizeof c->view.ranks + sizeof c->changes;
  uint8_t *bytes = malloc(MAX_OF(room, ELASTIC_PIECE));
  double before = clock_seconds();
  for (bool quit = !bytes; !quit;) {
    net_message m;
    bool got = false;
    shoal_status status = net_receive(c->server, LOOK_SECONDS, &m, &got);
    net_header h;
    size_t n = 0;
    const bool good = !status && got;
    shoal_status_free(status); /* the next one may be better */
    pthread_mutex_lock(&e->lock);
    const double now = clock_seconds();
    if (good && m.header.kind == NET_GONE)
      lose_peer(e, m.peer);
    else if (good && m.header.from < ELASTIC_RANKS)
      n = answer(e, &m, bytes, &h);
    look_for_silence(e, now, before);
    before = now;
    quit = e->quit;
    pthread_mutex_unlock(&e->lock);
    if (good && m.header.kind != NET_GONE) {
      const net_part part = {bytes, n};
      shoal_status_free(net_answer(c->server, m.peer, &h, &part, n > 0));
    }
    if (good) net_release_server(c->server, &m);
  }
  free(bytes);
  return NULL;
}

shoal_status elastic_chief_start(elastic *e) {
  e->chief = calloc(1, sizeof *e->chief);
  if (!e->chief) return status_no_memory();
  e->serving.largest = ELASTIC_PIECE + sizeof(elastic_state);
  e->serving.job = e->job;
  e->serving.heartbeat = e->heartbeat;
  TRY(net_listen(e->chief_address, &e->serving, &e->chief->server));
  int error = pthread_create(&e->chief->thread, NULL, serve, e);
  if (error) return status_errno(error, "cannot start the thread that answers the other ranks");
  e->chief->started = true;
  return NULL;
}

void elastic_chief_stop(elastic *e) {
  elastic_chief *c = e->chief;
  if (!c) return;
  if (c->started) pthread_join(c->thread, NULL);
  if (c->server) net_server_close(c->server);
  for (int i = 0; i < ELASTIC_RANKS; i++) free(c->entries[i].words);
  for (size_t i = 0; i < c->n_items; i++) free(c->items[i].bytes);
  free(c->items);
  free(c);
}
