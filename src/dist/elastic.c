#include "dist/elastic_internal.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/text.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ASK_SECONDS 0.05    /* between two questions */
#define HURRY_SECONDS 0.004 /* the same while this rank waits for the answer */
#define CONNECT_SECONDS 0.2 /* for one try */
#define SLOW_HEARTBEATS 4   /* for which the chief may be silent */

/* ---- waiting */

/* With e->lock held: until there is news, or so many seconds. */
static void wait_for_news(elastic *e, double seconds) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  const double until = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec + seconds;
  t.tv_sec = (time_t)until;
  t.tv_nsec = (long)((until - (double)t.tv_sec) * 1e9);
  pthread_cond_timedwait(&e->news, &e->lock, &t);
}

static double now_or_zero(double since) { return since > 0 ? clock_seconds() - since : 0; }

/* With e->lock held: why waiting for the chief makes no sense; NULL: it does. */
static shoal_status check_chief(elastic *e) {
  if (e->final) {
    shoal_status status = status_make(shoal_status_code(e->final), "%s", shoal_status_message(e->final));
    return status;
  }
  const char *address = e->chief_address + (strncmp(e->chief_address, "tcp://", 6) ? 0 : 6);
  if (now_or_zero(e->lost_since) > e->patience)
    return status_make(SHOAL_ERR_PEER, "rank 0 (%s): no connection in %g s (`deadline`)%s%s", address, e->patience,
                       *e->trouble ? ": " : "", e->trouble);
  return NULL;
}

/* ---- the connection with the chief */

/* One question and its answer, by whichever thread. *got is to be released by net_release_client, if there is no error. */
static shoal_status ask(elastic *e, const net_header *h, const void *bytes, size_t n, net_message *got) {
  const net_part part = {bytes, n};
  if (!e->client) return status_make(SHOAL_ERR_PEER, "there is no connection with rank 0");
  /* One that has died is known by its connection: the others may be slow. */
  shoal_status status = net_send(e->client, h, &part, n > 0, SLOW_HEARTBEATS * e->heartbeat);
  if (!status) status = net_await(e->client, SLOW_HEARTBEATS * e->heartbeat, got);
  if (!status) return NULL;
  net_client_abandon(e->client);
  e->client = NULL;
  return status;
}

static shoal_status connect_chief(elastic *e) {
  if (e->client) return NULL;
  return net_connect(e->chief_address, &e->asking, CONNECT_SECONDS, &e->client);
}

static shoal_status ask_once(elastic *e) {
  pthread_mutex_lock(&e->lock);
  const elastic_state own = e->own;
  pthread_mutex_unlock(&e->lock);
  pthread_mutex_lock(&e->wire);
  shoal_status status = connect_chief(e);
  net_message m;
  if (!status) status = ask(e, &(net_header){.kind = ELASTIC_ASK}, &own, sizeof own, &m);
  if (status) {
    pthread_mutex_unlock(&e->wire);
    return status;
  }
  elastic_answer a = {0};
  if (m.bytes >= sizeof a) memcpy(&a, m.payload, sizeof a);
  const elastic_rank *ranks = (const elastic_rank *)(const void *)(m.payload + sizeof a);
  if (m.bytes != sizeof a + (size_t)a.n * sizeof *ranks + (size_t)a.n_changes * sizeof(elastic_change) || a.n < 0 ||
      a.n > ELASTIC_RANKS || a.n_changes < 0 || a.n_changes > ELASTIC_RANKS) {
    status = status_make(SHOAL_ERR_REFUSED, "rank 0 answers with something else: use the same version of Shoal");
  } else {
    pthread_mutex_lock(&e->lock);
    e->lost_since = 0;
    e->reached = true;
    e->twice = a.twice;
    e->ended |= a.ended != 0;
    e->reported = a.reports;
    if (a.over && a.generation == e->own.generation) atomic_store(&e->broken, true);
    if (!a.twice && a.n) elastic_take(e, &a, ranks, (const elastic_change *)(const void *)(ranks + a.n));
    pthread_cond_broadcast(&e->news);
    pthread_mutex_unlock(&e->lock);
  }
  net_release_client(e->client, &m);
  pthread_mutex_unlock(&e->wire);
  return status;
}

/* Keeps in touch with the chief. */
static void *keep_asking(void *context) {
  elastic *e = context;
  for (bool quit = false; !quit;) {
    shoal_status status = ask_once(e);
    pthread_mutex_lock(&e->lock);
    if (status) {
      if (e->lost_since == 0) e->lost_since = clock_seconds();
      snprintf(e->trouble, sizeof e->trouble, "%s", shoal_status_message(status));
      if (e->own.generation) atomic_store(&e->broken, true);
      if (shoal_status_code(status) != SHOAL_ERR_PEER && !e->final && !e->reached) {
        e->final = status;
        status = NULL;
      }
      pthread_cond_broadcast(&e->news);
    }
    shoal_status_free(status);
    const bool waits = e->own.stage == ELASTIC_WAITS;
    if (!e->quit) wait_for_news(e, waits && !e->lost_since ? HURRY_SECONDS : ASK_SECONDS);
    quit = e->quit;
    pthread_mutex_unlock(&e->lock);
  }
  return NULL;
}

/* ---- generations */

void elastic_take(elastic *e, const elastic_answer *a, const elastic_rank *ranks, const elastic_change *changes) {
  elastic_view *v = &e->view;
  int own = -1;
  if (a->generation == e->own.generation) return;
  for (int i = 0; i < a->n; i++)
    if (ranks[i].id == e->id && ranks[i].pid == e->own.pid) own = i;
  if (own < 0 || e->own.stage != ELASTIC_WAITS) { /* the others have gone on without this rank */
    if (e->own.generation && a->generation > e->own.generation) atomic_store(&e->broken, true);
    if (own < 0 && e->own.generation && e->own.stage == ELASTIC_WAITS) {
      e->own.generation = 0;
      e->own.step = -1;
    }
    return;
  }
  const bool kept = e->own.generation && e->own.generation + 1 == a->generation;
  *v = (elastic_view){
      .kept = kept, .generation = a->generation, .step = a->step, .n = a->n, .own = own, .from = a->from};
  memcpy(v->ranks, ranks, (size_t)a->n * sizeof *ranks);
  memset(e->own.with, 0, sizeof e->own.with);
  for (int i = 0; i < v->n; i++) e->own.with[v->ranks[i].id / 8] |= (uint8_t)(1 << v->ranks[i].id % 8);
  elastic_history *h = &e->history;
  for (e->fresh = 0; e->fresh < a->n_changes && h->n < ELASTIC_CHANGES; e->fresh++) h->all[h->n++] = changes[e->fresh];
  e->own.generation = a->generation;
  e->own.stage = ELASTIC_WORKS;
  atomic_store(&e->broken, false);
  pthread_cond_broadcast(&e->news);
}

/* The chief does not ask itself. */
static void tell_self(elastic *e) {
  elastic_answer ignored;
  if (e->chief) elastic_chief_hear(e, &e->own, 0, &ignored);
}

bool elastic_broken(void *context) {
  elastic *e = context;
  return atomic_load_explicit(&e->broken, memory_order_relaxed);
}

bool elastic_wanted(elastic *e) {
  bool wanted = false;
  if (!e->chief) return false;
  pthread_mutex_lock(&e->lock);
  for (int i = 0; i < ELASTIC_RANKS && !wanted; i++) {
    const elastic_entry *m = &e->chief->entries[i];
    wanted = m->known && !m->gone && !m->in && m->said.stage == ELASTIC_WAITS;
  }
  pthread_mutex_unlock(&e->lock);
  return wanted;
}

/* With e->lock held: not all have come to the first generation. */
static shoal_status name_missing(elastic *e) {
  text who = {0};
  elastic_chief_add_missing(e, &who);
  shoal_status status = status_make(SHOAL_ERR_PEER, "no connection in %g s (`deadline`) with %s", e->patience,
                                    who.data ? who.data : "a rank");
  text_fini(&who);
  return status;
}

shoal_status elastic_regroup(elastic *e, int64_t step, const elastic_view **out) {
  shoal_status status = NULL;
  pthread_mutex_lock(&e->lock);
  const double begun = clock_seconds();
  const uint64_t before = e->own.generation;
  e->own.stage = ELASTIC_WAITS;
  e->own.step = step;
  tell_self(e);
  pthread_cond_broadcast(&e->news);
  while (!status && e->own.stage == ELASTIC_WAITS) {
    if (!e->chief) status = check_chief(e);
    if (!status && e->ended) status = status_make(SHOAL_ERR_CANCELLED, "the training has ended");
    if (!status && e->chief && !before && !e->chief->view.generation && clock_seconds() - begun > e->patience)
      status = name_missing(e);
    if (!status && e->twice && clock_seconds() - begun > e->patience)
      status = status_make(SHOAL_ERR_REFUSED, "another process is rank %d", e->id);
    if (!status) wait_for_news(e, ASK_SECONDS);
  }
  pthread_mutex_unlock(&e->lock);
  TRY(status);
  *out = &e->view;
  return NULL;
}

void elastic_settle(elastic *e) {
  if (!e->chief) {
    shoal_status_free(ask_once(e)); /* if it is gone, the next wait finds out */
    return;
  }
  const double until = clock_seconds() + e->patience;
  pthread_mutex_lock(&e->lock);
  for (bool all = false; !all && clock_seconds() < until;) {
    all = true;
    for (int i = 0; i < ELASTIC_RANKS; i++) {
      const elastic_entry *m = &e->chief->entries[i];
      all &= i == e->id || !m->in || m->said.generation == e->view.generation;
    }
    if (!all) wait_for_news(e, HURRY_SECONDS);
  }
  pthread_mutex_unlock(&e->lock);
}

void elastic_mesh(elastic *e, mesh_options *out) {
  const elastic_view *v = &e->view;
  *out = e->mesh;
  for (int i = 0; i < v->n; i++) e->addresses[i] = v->ranks[i].address;
  out->rank = v->own;
  out->ranks = v->n;
  out->addresses = e->addresses;
  out->listening.job = out->connecting.job = random_mix(e->job, v->generation);
  out->listening.heartbeat = out->connecting.heartbeat = e->heartbeat;
  out->patience = MAX_OF(2 * e->heartbeat, 2);
  out->interrupted = elastic_broken;
  out->context = e;
}

void elastic_resumed(elastic *e, double pause) {
  for (; e->fresh > 0; e->fresh--) e->history.all[e->history.n - e->fresh].pause = pause;
}

elastic_history *elastic_changes(elastic *e) { return &e->history; }

/* ---- from the chief to all */

static shoal_status keep_item(elastic *e, const void *bytes, size_t count) {
  elastic_chief *c = e->chief;
  TRY(mem_grow((void **)&c->items, &c->room, c->n_items + 1, sizeof *c->items));
  void *copy = malloc(count + 1);
  if (!copy) return status_no_memory();
  memcpy(copy, bytes, count);
  c->items[c->n_items++] = (elastic_item){copy, count};
  return NULL;
}

/* One piece; *total: 0: it is not there yet, otherwise its bytes and one more. */
static shoal_status fetch_piece(elastic *e, size_t item, void *to, size_t at, size_t count, size_t *got,
                                size_t *total) {
  net_message m;
  pthread_mutex_lock(&e->wire);
  shoal_status status = ask(e, &(net_header){.kind = ELASTIC_BYTES, .number = item, .step = at}, NULL, 0, &m);
  if (!status) {
    *total = (size_t)m.header.number;
    *got = m.bytes;
    if (*total == count + 1 && m.bytes <= count - at) memcpy((char *)to + at, m.payload, m.bytes);
    net_release_client(e->client, &m);
  }
  pthread_mutex_unlock(&e->wire);
  return status;
}

static shoal_status fetch(elastic *e, size_t item, void *to, size_t count) {
  const double until = clock_seconds() + e->patience;
  for (size_t at = 0, got = 0, total = 0; at < count || !total;) {
    shoal_status status = fetch_piece(e, item, to, at, count, &got, &total);
    const bool there = !status && total;
    shoal_status_free(status); /* the other thread connects again */
    if (there && (total != count + 1 || got > count - at))
      return status_make(SHOAL_ERR_PEER, "rank 0 tells something else: do all ranks have the same program?");
    if (there) {
      at += got;
      continue;
    }
    pthread_mutex_lock(&e->lock);
    status = check_chief(e);
    if (!status && e->ended) status = status_make(SHOAL_ERR_CANCELLED, "the training has ended");
    pthread_mutex_unlock(&e->lock);
    TRY(status);
    if (clock_seconds() > until)
      return status_make(SHOAL_ERR_PEER, "no answer in %g s (`deadline`) of rank 0", e->patience);
    poll(NULL, 0, (int)(1e3 * HURRY_SECONDS));
  }
  return NULL;
}

shoal_status elastic_broadcast(elastic *e, void *bytes, int64_t count) {
  if (!e->chief) return fetch(e, e->taken++, bytes, (size_t)count);
  pthread_mutex_lock(&e->lock);
  shoal_status status = keep_item(e, bytes, (size_t)count);
  pthread_mutex_unlock(&e->lock);
  return status;
}

/* ---- the end */

void elastic_leave(elastic *e) {
  pthread_mutex_lock(&e->lock);
  e->own.stage = ELASTIC_LEAVES;
  pthread_mutex_unlock(&e->lock);
  if (!e->chief) shoal_status_free(ask_once(e)); /* it sees that this process ends, at least */
}

static shoal_status send_words(elastic *e, const char *words, size_t count) {
  shoal_status status = NULL;
  pthread_mutex_lock(&e->wire);
  size_t at = 0;
  do {
    const size_t n = MIN_OF(count - at, ELASTIC_PIECE);
    net_message m;
    status = ask(e, &(net_header){.kind = ELASTIC_WORDS, .number = count, .step = at}, words + at, n, &m);
    if (status) break;
    at += n;
    if (!m.header.number) status = status_make(SHOAL_ERR_PEER, "rank 0 refuses the report");
    net_release_client(e->client, &m);
  } while (!status && at < count);
  pthread_mutex_unlock(&e->wire);
  return status;
}

shoal_status elastic_report(elastic *e, const char *words) {
  pthread_mutex_lock(&e->lock);
  e->own.stage = ELASTIC_ENDS;
  pthread_mutex_unlock(&e->lock);
  TRY(send_words(e, words, strlen(words)));
  pthread_mutex_lock(&e->lock);
  e->reported = true;
  pthread_mutex_unlock(&e->lock);
  return NULL;
}

shoal_status elastic_await_report(elastic *e, int id, char **out) {
  elastic_entry *m = &e->chief->entries[id];
  const double until = clock_seconds() + e->patience;
  *out = NULL;
  pthread_mutex_lock(&e->lock);
  while (m->known && !m->gone && !m->reported && clock_seconds() < until) wait_for_news(e, ASK_SECONDS);
  if (m->reported) {
    *out = m->words;
    m->words = NULL;
  }
  pthread_mutex_unlock(&e->lock);
  return NULL;
}

void elastic_end(elastic *e) {
  const double until = clock_seconds() + 2 * ASK_SECONDS + MIN_OF(e->heartbeat, 1);
  pthread_mutex_lock(&e->lock);
  e->chief->ended = true;
  for (bool any = true; any && clock_seconds() < until;) { /* until they have heard it, or are gone */
    any = false;
    for (int i = 0; i < ELASTIC_RANKS; i++)
      any |= i != e->id && e->chief->entries[i].known && !e->chief->entries[i].gone;
    if (any) wait_for_news(e, HURRY_SECONDS);
  }
  pthread_mutex_unlock(&e->lock);
}

shoal_status elastic_await_end(elastic *e, bool *lost) {
  shoal_status status = NULL;
  pthread_mutex_lock(&e->lock);
  *lost = false;
  while (!status && !e->ended && !*lost) {
    status = check_chief(e);
    *lost = e->lost_since > 0 || !e->reported;
    if (!*lost) wait_for_news(e, ASK_SECONDS);
  }
  pthread_mutex_unlock(&e->lock);
  return status;
}

/* ---- the beginning */

bool elastic_is_chief(const elastic *e) { return e->chief != NULL; }

uint64_t elastic_refused(const elastic *e) {
  net_stats s = {0};
  if (e->chief) net_server_stats(e->chief->server, &s);
  return s.refused;
}

shoal_status elastic_connect(elastic *e) {
  shoal_status status = NULL;
  pthread_mutex_lock(&e->lock);
  while (!e->chief && !e->reached && !status) {
    status = check_chief(e);
    if (!status) wait_for_news(e, ASK_SECONDS);
  }
  pthread_mutex_unlock(&e->lock);
  return status;
}

static void introduce(elastic *e, const rank_place *p) {
  peers_rank me;
  struct timespec t;
  peers_introduce(&me);
  clock_gettime(CLOCK_REALTIME, &t);
  e->own = (elastic_state){.id = e->id, .pid = me.pid, .step = -1};
  e->own.life = random_mix((uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec, (uint64_t)me.pid);
  memcpy(e->own.host, me.host, sizeof me.host);
  snprintf(e->own.address, sizeof e->own.address, "%s", p->addresses[e->id]);
  snprintf(e->chief_address, sizeof e->chief_address, "%s", p->addresses[0]);
}

static shoal_status start(elastic *e) {
  if (!e->id) return elastic_chief_start(e);
  int error = pthread_create(&e->thread, NULL, keep_asking, e);
  if (error) return status_errno(error, "cannot start the thread that keeps in touch with rank 0");
  e->started = true;
  return NULL;
}

shoal_status elastic_create(const elastic_options *o, elastic **out) {
  elastic *e = calloc(1, sizeof *e);
  if (!e) return status_no_memory();
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&e->news, &monotonic);
  pthread_condattr_destroy(&monotonic);
  pthread_mutex_init(&e->lock, NULL);
  pthread_mutex_init(&e->wire, NULL);
  const rank_place *p = o->place;
  e->mesh = p->mesh;
  e->id = p->mesh.rank;
  e->ranks = p->mesh.ranks;
  e->job = p->mesh.listening.job;
  e->heartbeat = o->heartbeat;
  e->patience = o->patience;
  e->again = o->again;
  e->serving = p->mesh.listening;
  e->asking = p->mesh.connecting;
  e->asking.largest = ELASTIC_PIECE + sizeof(elastic_state);
  e->asking.from = (uint32_t)e->id;
  e->asking.heartbeat = e->heartbeat;
  for (int i = 0; i < e->ranks; i++) e->addresses[i] = p->addresses[i];
  introduce(e, p);
  if (e->id) e->lost_since = clock_seconds();
  shoal_status status = start(e);
  if (status)
    elastic_destroy(e);
  else
    *out = e;
  return status;
}

void elastic_destroy(elastic *e) {
  if (!e) return;
  pthread_mutex_lock(&e->lock);
  e->quit = true;
  pthread_cond_broadcast(&e->news);
  pthread_mutex_unlock(&e->lock);
  if (e->started) pthread_join(e->thread, NULL);
  elastic_chief_stop(e);
  if (e->client) net_client_close(e->client);
  shoal_status_free(e->final);
  pthread_mutex_destroy(&e->lock);
  pthread_mutex_destroy(&e->wire);
  pthread_cond_destroy(&e->news);
  free(e);
}
