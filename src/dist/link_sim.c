#include "dist/link_sim.h"

#include "base/clock.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

#define SOON 1e-3 /* seconds until one looks again whether all ranks are there */

/* A message that is sent or received again and again. */
typedef struct message {
  link_set *set;
  void *bytes;
  int64_t count;
  int peer, tag;
  bool send, expected;
  struct message *next; /* of those expected of the same peer */
} message;

struct link_set {
  link_place *place;
  message *messages; /* [n] */
  int n, most;
  int left; /* that are not through */
};

struct link_place {
  sim *sim;
  link_sim_world *world;
  sim_end *end;
  int rank;
  char *why;
  message **expected;  /* [ranks] lists */
  sim_message **early; /* [ranks] that came before they were expected */
  int completed;       /* sets, since the last look */
};

static bool failed(link_place *p, const char *what) {
  snprintf(p->why, LINK_WHY, "%s", what);
  return false;
}

static bool took(link_place *p, shoal_status status) {
  if (!status) return true;
  snprintf(p->why, LINK_WHY, "%s", shoal_status_message(status));
  shoal_status_free(status);
  return false;
}

static void finish(link_set *s) {
  if (!--s->left) s->place->completed++;
}

/* ---- in */

static bool fits(link_place *p, message *to, const sim_message *m) {
  if ((size_t)to->count != m->bytes) return failed(p, "a message of another size than expected");
  memcpy(to->bytes, m->payload, m->bytes);
  to->expected = false;
  finish(to->set);
  return true;
}

static bool take_in(link_place *p, sim_message *m) {
  const uint32_t from = m->header.from;
  for (message **at = &p->expected[from]; *at; at = &(*at)->next) {
    message *to = *at;
    if ((uint64_t)to->tag != m->header.number) continue;
    *at = to->next;
    const bool good = fits(p, to, m);
    sim_release(p->sim, m, m->bytes);
    return good;
  }
  m->next = NULL;
  sim_message **end = &p->early[from];
  while (*end) end = &(*end)->next;
  *end = m;
  return true;
}

static bool expect(link_place *p, message *to) {
  for (sim_message **at = &p->early[to->peer]; *at; at = &(*at)->next) {
    sim_message *m = *at;
    if (m->header.number != (uint64_t)to->tag) continue;
    *at = m->next;
    const bool good = fits(p, to, m);
    sim_release(p->sim, m, m->bytes);
    return good;
  }
  message **end = &p->expected[to->peer];
  while (*end) end = &(*end)->next;
  to->next = NULL;
  to->expected = true;
  *end = to;
  return true;
}

static void forget(link_place *p, message *to) {
  if (!to->expected) return;
  message **at = &p->expected[to->peer];
  while (*at != to) at = &(*at)->next;
  *at = to->next;
  to->expected = false;
}

/* ---- the table */

/* Until a set is complete: only then there is something to do. */
static bool take_until(link_place *p, double until) {
  sim_message *m;
  p->completed = 0;
  while (!p->completed && (m = sim_take(p->end, until)))
    if (!take_in(p, m)) return false;
  return true;
}

static bool move(link_place *p) { return take_until(p, clock_seconds()); }
static void wait(link_place *p, double seconds) { (void)take_until(p, clock_seconds() + seconds); }

static bool begin(const void *start, char *why, link_place **out, int *rank, int *ranks) {
  const link_sim_start *o = start;
  link_place *p = calloc(1, sizeof *p);
  if (!p) return false;
  *p = (link_place){.sim = sim_here(), .world = o->world, .rank = o->rank, .why = why};
  p->expected = calloc((size_t)o->world->ranks, sizeof *p->expected);
  p->early = calloc((size_t)o->world->ranks, sizeof *p->early);
  if (!p->expected || !p->early || !took(p, sim_end_create(p->sim, &p->end))) {
    free(p->expected);
    free(p->early);
    free(p);
    return false;
  }
  o->world->ends[o->rank] = p->end;
  o->world->hosts[o->rank] = sim_self(p->sim);
  for (int r = 0; r < o->world->ranks; r++)
    while (!o->world->ends[r]) wait(p, SOON);
  *rank = o->rank;
  *ranks = o->world->ranks;
  *out = p;
  return true;
}

static bool set_create(link_place *p, int most, link_set **out) {
  link_set *s = calloc(1, sizeof *s);
  message *messages = calloc((size_t)MAX_OF(most, 1), sizeof *messages);
  if (!s || !messages) {
    free(s);
    free(messages);
    return failed(p, "no memory for messages");
  }
  *s = (link_set){.place = p, .messages = messages, .most = most};
  *out = s;
  return true;
}

static void set_free(link_set *s) {
  if (!s) return;
  for (int i = 0; i < s->n; i++) forget(s->place, &s->messages[i]);
  free(s->messages);
  free(s);
}

static bool add(link_set *s, void *bytes, int64_t count, int peer, int tag, bool send) {
  if (s->n == s->most) return failed(s->place, "one message too many");
  s->messages[s->n++] = (message){.set = s, .bytes = bytes, .count = count, .peer = peer, .tag = tag, .send = send};
  return true;
}

static bool set_send(link_set *s, const void *bytes, int64_t count, int peer, int tag) {
  return add(s, (void *)(uintptr_t)bytes, count, peer, tag, true);
}

static bool set_receive(link_set *s, void *bytes, int64_t count, int peer, int tag) {
  return add(s, bytes, count, peer, tag, false);
}

static bool post(link_place *p, const message *m) {
  const net_header h = {.from = (uint32_t)p->rank, .number = (uint64_t)m->tag};
  const net_part part = {m->bytes, (size_t)m->count};
  return took(p,
              sim_post(p->sim, p->world->hosts[m->peer], p->world->ends[m->peer], &h, 0, &part, 1, (size_t)m->count));
}

static bool set_start(link_set *s, const bool *use) {
  s->left = 1; /* until all are started */
  for (int i = 0; i < s->n; i++) {
    message *m = &s->messages[i];
    if (use && !use[i]) continue;
    s->left++;
    if (!m->send && !expect(s->place, m)) return false;
    if (!m->send) continue;
    if (!post(s->place, m)) return false;
    s->left--;
  }
  finish(s);
  return true;
}

static bool set_test(link_set *s, bool *done) {
  *done = !s->left;
  return true;
}

static int set_late(link_set *s, int *peers, int room) {
  int n = 0;
  for (int i = 0; i < s->n && n < room; i++)
    if (s->messages[i].expected) peers[n++] = s->messages[i].peer;
  return n;
}

static bool broadcast(link_place *p, void *bytes, int64_t count) {
  return failed(p, "simulated ranks begin with the same parameters");
}

static bool end(link_place *p) {
  for (int r = 0; r < p->world->ranks; r++)
    for (sim_message *m = p->early[r], *next; m; m = next) {
      next = m->next;
      sim_release(p->sim, m, m->bytes);
    }
  free(p->early);
  free(p->expected);
  free(p);
  return true;
}

static void abort_all(link_place *p, int code) {}

const link_table link_sim = {.version = LINK_VERSION,
                             .one_process = true,
                             .begin = begin,
                             .broadcast = broadcast,
                             .set_create = set_create,
                             .set_send = set_send,
                             .set_receive = set_receive,
                             .set_start = set_start,
                             .move = move,
                             .set_test = set_test,
                             .set_late = set_late,
                             .set_free = set_free,
                             .wait = wait,
                             .end = end,
                             .abort = abort_all};
