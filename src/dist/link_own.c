#include "dist/link_own.h"

#include "base/clock.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>

#define BROADCAST_TAG ((uint64_t)1 << 32) /* above those of sets */
#define SLICE 0.02                        /* seconds between looks at the time */

struct link_place {
  mesh *mesh;
  char *why; /* [LINK_WHY] */
  double patience;
  int late;                /* who let a broadcast wait too long; -1: nobody */
  mesh_message *broadcast; /* [ranks] to each; the first also from rank 0 */
};

struct link_set {
  link_place *place;
  mesh_message *messages; /* [n] */
  int n, most;
};

static bool failed(link_place *p, const char *what) {
  snprintf(p->why, LINK_WHY, "%s", what);
  return false;
}

static bool begin(const void *start, char *why, link_place **out, int *rank, int *ranks) {
  const mesh_options *o = start;
  link_place *p = calloc(1, sizeof *p);
  mesh_message *broadcast = calloc((size_t)o->ranks, sizeof *broadcast);
  shoal_status status = p && broadcast ? mesh_create(o, &p->mesh) : status_no_memory();
  if (status) {
    snprintf(why, LINK_WHY, "%s", shoal_status_message(status));
    shoal_status_free(status);
    free(broadcast);
    free(p);
    return false;
  }
  p->why = why;
  p->late = -1;
  p->patience = o->patience;
  p->broadcast = broadcast;
  *rank = o->rank;
  *ranks = o->ranks;
  *out = p;
  return true;
}

static bool move(link_place *p) { return mesh_move(p->mesh) || failed(p, mesh_reason(p->mesh)); }
static void wait(link_place *p, double seconds) { mesh_wait(p->mesh, seconds); }
static bool gone(link_place *p, int rank) { return mesh_gone(p->mesh, rank) || p->late == rank; }
static bool told(link_place *p, int *rank) { return mesh_aborted(p->mesh, rank); }

/* ---- from rank 0 to all */

/* Who is still waited for; -1: nobody. */
static int unfinished(const link_place *p, int n) {
  for (int i = 0; i < n; i++)
    if (p->broadcast[i].under_way) return p->broadcast[i].peer;
  return -1;
}

static bool finish_broadcast(link_place *p, int n) {
  const double until = clock_seconds() + p->patience;
  for (;;) {
    if (!move(p)) return false;
    const int peer = unfinished(p, n);
    if (peer < 0) return true;
    if (mesh_gone(p->mesh, peer)) {
      char words[MESH_WORDS];
      return failed(p, mesh_why_gone(p->mesh, peer, words));
    }
    if (clock_seconds() > until) {
      snprintf(p->why, LINK_WHY, "no answer in %g s (`deadline`) of %s", p->patience, mesh_name(p->mesh, peer));
      p->late = peer;
      return false;
    }
    mesh_wait(p->mesh, SLICE);
  }
}

static bool broadcast(link_place *p, void *bytes, int64_t count) {
  const int me = mesh_rank(p->mesh), ranks = mesh_ranks(p->mesh), n = me ? 1 : ranks - 1;
  for (int i = 0; i < n; i++) {
    p->broadcast[i] = (mesh_message){
        .bytes = bytes, .count = (size_t)count, .peer = me ? 0 : i + 1, .tag = BROADCAST_TAG, .send = !me};
    mesh_start(p->mesh, &p->broadcast[i]);
  }
  const bool good = finish_broadcast(p, n);
  for (int i = 0; i < n && !good; i++) mesh_cancel(p->mesh, &p->broadcast[i]);
  return good;
}

/* ---- sets */

static void set_free(link_set *s) {
  if (!s) return;
  for (int i = 0; i < s->n; i++) mesh_cancel(s->place->mesh, &s->messages[i]);
  free(s->messages);
  free(s);
}

static bool set_create(link_place *p, int most, link_set **out) {
  link_set *s = calloc(1, sizeof *s);
  mesh_message *messages = calloc((size_t)MAX_OF(most, 1), sizeof *messages);
  if (!s || !messages) {
    free(s);
    free(messages);
    return failed(p, "no memory for messages");
  }
  *s = (link_set){.place = p, .messages = messages, .most = most};
  *out = s;
  return true;
}

static bool add(link_set *s, void *bytes, int64_t count, int peer, int tag, bool send) {
  if (s->n == s->most) return failed(s->place, "one message too many");
  s->messages[s->n++] =
      (mesh_message){.bytes = bytes, .count = (size_t)count, .peer = peer, .tag = (uint64_t)tag, .send = send};
  return true;
}

static bool set_send(link_set *s, const void *bytes, int64_t count, int peer, int tag) {
  return add(s, (void *)(uintptr_t)bytes, count, peer, tag, true);
}

static bool set_receive(link_set *s, void *bytes, int64_t count, int peer, int tag) {
  return add(s, bytes, count, peer, tag, false);
}

static bool set_start(link_set *s, const bool *use) {
  for (int i = 0; i < s->n; i++)
    if (!use || use[i]) mesh_start(s->place->mesh, &s->messages[i]);
  return true;
}

static bool set_test(link_set *s, bool *done) {
  *done = true;
  for (int i = 0; i < s->n && *done; i++) *done = !s->messages[i].under_way;
  return true;
}

static int set_late(link_set *s, int *peers, int room) {
  int n = 0;
  for (int i = 0; i < s->n && n < room; i++) {
    bool known = !s->messages[i].under_way;
    for (int k = 0; k < n && !known; k++) known = peers[k] == s->messages[i].peer;
    if (!known) peers[n++] = s->messages[i].peer;
  }
  return n;
}

/* ---- the end */

static bool end(link_place *p) {
  mesh_destroy(p->mesh);
  free(p->broadcast);
  free(p);
  return true;
}

static void drop(link_place *p) {
  mesh_drop(p->mesh);
  free(p->broadcast);
  free(p);
}

/* The caller ends this process; the others see that it does, and why. */
static void abort_all(link_place *p, int code) { mesh_abort(p->mesh); }

const link_table link_own = {.version = LINK_VERSION,
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
                             .gone = gone,
                             .told = told,
                             .end = end,
                             .drop = drop,
                             .abort = abort_all};
