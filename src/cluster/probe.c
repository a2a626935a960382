#include "cluster/probe.h"

#include "base/clock.h"
#include "base/json_read.h"
#include "base/json_text.h"
#include "base/mem.h"
#include "base/random.h"
#include "shoal/version.h"

#include <errno.h>
#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HELLO = 1, PING, BULK, REPORT };

#define JOB_MARK 0x646f63746f72ull /* keeps a probe's messages apart from those of a training */
#define BULK_BYTES ((size_t)1 << 20)
#define ATTEMPT_SECONDS 0.5 /* for one attempt to connect; the others get their turn, too */
#define ANSWER_SECONDS 5.0
#define LATE_SECONDS 5.0 /* beyond the end, for those who answered and are still measuring */
#define LOOK_SECONDS 0.02
#define PINGS 200
#define BULKS 64
#define BULK_SECONDS 0.2

typedef struct {
  const probe_options *options;
  int tasks, own;
  uint64_t job;
  net_server *server;
  pthread_t thread;
  atomic_bool done;
  pthread_mutex_t lock;    /* guards pairs and reported: the serving thread fills in what others found */
  shoal_probe_pair *pairs; /* [tasks][tasks] */
  bool *reported;          /* [tasks] */
  net_client **links;      /* [tasks] NULL: not connected */
  bool *refused;           /* [tasks] will never have us: not asked again */
  double until;
} probe;

/* ---- texts */

static double wall_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static uint64_t wall_nanoseconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static char *introduction(const probe *p) {
  char host[64] = "?";
  gethostname(host, sizeof host - 1);
  json_t *o = json_pack("{s:s, s:s}", "version", shoal_version(), "host", host);
  char *words = json_words(o, JSON_COMPACT);
  json_decref(o);
  return words;
}

static void take_text(const json_t *o, const char *key, size_t room, char *out) {
  const char *words = json_string_value(json_object_get(o, key));
  snprintf(out, room, "%s", words ? words : "?");
}

/* What this task found, as text. */
static char *own_row(probe *p) {
  json_t *list = json_array();
  pthread_mutex_lock(&p->lock);
  for (int i = 0; i < p->tasks; i++) {
    const shoal_probe_pair *q = &p->pairs[p->own * p->tasks + i];
    json_array_append_new(list, json_pack("{s:b, s:f, s:f, s:f, s:s, s:s, s:s}", "answered", q->answered, "round_trip",
                                          q->round_trip, "bandwidth", q->bandwidth, "offset", q->offset, "version",
                                          q->version, "host", q->host, "why", q->error));
  }
  pthread_mutex_unlock(&p->lock);
  char *words = json_words(list, JSON_COMPACT);
  json_decref(list);
  return words;
}

static void take_row(probe *p, int from, const net_message *m) {
  json_t *list = json_read((const char *)m->payload, m->bytes, 0, NULL);
  if (json_is_array(list) && (int)json_array_size(list) == p->tasks) {
    pthread_mutex_lock(&p->lock);
    for (int i = 0; i < p->tasks; i++) {
      const json_t *o = json_array_get(list, (size_t)i);
      shoal_probe_pair *q = &p->pairs[from * p->tasks + i];
      q->known = i != from;
      q->answered = json_is_true(json_object_get(o, "answered"));
      q->round_trip = json_number_value(json_object_get(o, "round_trip"));
      q->bandwidth = json_number_value(json_object_get(o, "bandwidth"));
      q->offset = json_number_value(json_object_get(o, "offset"));
      take_text(o, "version", sizeof q->version, q->version);
      take_text(o, "host", sizeof q->host, q->host);
      take_text(o, "why", sizeof q->error, q->error);
    }
    p->reported[from] = true;
    pthread_mutex_unlock(&p->lock);
  }
  json_decref(list);
}

/* ---- answering */

static shoal_status answer(probe *p, const net_message *m) {
  net_header h = {.kind = m->header.kind, .from = (uint32_t)p->own, .number = wall_nanoseconds()};
  char *words = m->header.kind == HELLO ? introduction(p) : NULL;
  if (m->header.kind == REPORT) take_row(p, (int)m->header.from, m);
  net_part part = {words, words ? strlen(words) : 0};
  shoal_status status = net_answer(p->server, m->peer, &h, &part, 1);
  free(words);
  return status;
}

/* A thread of its own: it answers while this task measures. What fails here the others notice. */
static void *serve(void *context) {
  probe *p = context;
  while (!atomic_load(&p->done)) {
    net_message m;
    bool got;
    shoal_status status = net_receive(p->server, LOOK_SECONDS, &m, &got);
    if (!status && got && m.header.kind != NET_GONE && m.header.from < (uint32_t)p->tasks) status = answer(p, &m);
    if (!status && got) net_release_server(p->server, &m);
    shoal_status_free(status);
  }
  return NULL;
}

/* ---- measuring */

static bool over(const probe *p, double until) {
  return clock_seconds() >= until || (p->options->stop && __atomic_load_n(p->options->stop, __ATOMIC_RELAXED));
}

static shoal_status ask(probe *p, int peer, int kind, const net_part *part, net_message *m) {
  net_header h = {.kind = (uint16_t)kind, .from = (uint32_t)p->own};
  TRY(net_send(p->links[peer], &h, part, 1, ANSWER_SECONDS));
  return net_await(p->links[peer], ANSWER_SECONDS, m);
}

static shoal_status say_hello(probe *p, int peer, shoal_probe_pair *q) {
  net_message m;
  TRY(ask(p, peer, HELLO, &(net_part){0}, &m));
  json_t *o = json_read((const char *)m.payload, m.bytes, 0, NULL);
  take_text(o, "version", sizeof q->version, q->version);
  take_text(o, "host", sizeof q->host, q->host);
  json_decref(o);
  net_release_client(p->links[peer], &m);
  return NULL;
}

static shoal_status measure_round_trip(probe *p, int peer, shoal_probe_pair *q) {
  clock_estimate best = {0};
  for (int i = 0; i < PINGS; i++) {
    double wall = wall_seconds(), start = clock_seconds();
    net_message m;
    TRY(ask(p, peer, PING, &(net_part){0}, &m));
    double took = clock_seconds() - start, there = 1e-9 * (double)m.header.number;
    net_release_client(p->links[peer], &m);
    clock_note(&best, wall, there, there, wall + took);
  }
  q->round_trip = best.trip;
  q->offset = best.ahead;
  return NULL;
}

static shoal_status measure_bandwidth(probe *p, int peer, const uint8_t *bulk, shoal_probe_pair *q) {
  double until = clock_seconds() + BULK_SECONDS, best = 1e9;
  for (int i = 0; i < BULKS && (i < 2 || clock_seconds() < until); i++) {
    double start = clock_seconds();
    net_message m;
    TRY(ask(p, peer, BULK, &(net_part){bulk, BULK_BYTES}, &m));
    best = MIN_OF(best, clock_seconds() - start);
    net_release_client(p->links[peer], &m);
  }
  q->bandwidth = (double)BULK_BYTES / best;
  return NULL;
}

static shoal_status try_peer(probe *p, int peer, const uint8_t *bulk, shoal_probe_pair *q) {
  net_options net = p->options->net;
  net.largest = BULK_BYTES;
  net.from = (uint32_t)p->own;
  net.job = p->job;
  net.allowed = NULL;
  if (p->options->server_keys) net.server_key = p->options->server_keys[peer];
  TRY(net_connect(shoal_cluster_task_address(p->options->place, peer), &net, ATTEMPT_SECONDS, &p->links[peer]));
  TRY(say_hello(p, peer, q));
  TRY(measure_round_trip(p, peer, q));
  return measure_bandwidth(p, peer, bulk, q);
}

/* Takes `status`. */
static void note(probe *p, int peer, shoal_probe_pair *found, shoal_status status) {
  found->known = true;
  found->answered = !status;
  p->refused[peer] = status && shoal_status_code(status) == SHOAL_ERR_REFUSED;
  snprintf(found->error, sizeof found->error, "%s", status ? shoal_status_message(status) : "");
  shoal_status_free(status);
  if (!found->answered) {
    net_client_close(p->links[peer]);
    p->links[peer] = NULL;
  }
  pthread_mutex_lock(&p->lock);
  p->pairs[p->own * p->tasks + peer] = *found;
  pthread_mutex_unlock(&p->lock);
}

/* Everybody in turn, again and again, until all have answered or time is over. */
static void measure_all(probe *p, const uint8_t *bulk) {
  int missing = p->tasks - 1;
  for (bool first = true; missing && (first || !over(p, p->until)); first = false)
    for (int i = 0; i < p->tasks; i++) {
      if (i == p->own || p->links[i] || p->refused[i] || (!first && over(p, p->until))) continue;
      shoal_probe_pair found = {0};
      note(p, i, &found, try_peer(p, i, bulk, &found));
      missing -= found.answered || p->refused[i];
    }
}

static void tell_all(probe *p) {
  char *words = own_row(p);
  for (int i = 0; words && i < p->tasks; i++) {
    net_message m;
    if (!p->links[i]) continue;
    shoal_status status = ask(p, i, REPORT, &(net_part){words, strlen(words)}, &m);
    if (!status) net_release_client(p->links[i], &m);
    shoal_status_free(status); /* it went before hearing us: its own affair */
  }
  free(words);
}

static bool all_reported(probe *p) {
  bool all = true;
  pthread_mutex_lock(&p->lock);
  for (int i = 0; i < p->tasks; i++) all = all && (!p->links[i] || p->reported[i]);
  pthread_mutex_unlock(&p->lock);
  return all;
}

static shoal_status set_up(probe *p) {
  size_t n = (size_t)p->tasks;
  p->pairs = calloc(n * n, sizeof *p->pairs);
  p->reported = calloc(n, sizeof *p->reported);
  p->links = calloc(n, sizeof *p->links);
  p->refused = calloc(n, sizeof *p->refused);
  if (!p->pairs || !p->reported || !p->links || !p->refused) return status_no_memory();
  net_options net = p->options->net;
  net.largest = BULK_BYTES;
  net.job = p->job;
  TRY(net_listen(shoal_cluster_task_address(p->options->place, p->own), &net, &p->server));
  int error = pthread_create(&p->thread, NULL, serve, p);
  if (!error) return NULL;
  net_server_close(p->server);
  p->server = NULL;
  return status_errno(error, "a thread that answers");
}

shoal_status probe_run(const probe_options *options, shoal_probe_pair **pairs) {
  probe p = {.options = options,
             .tasks = shoal_cluster_tasks(options->place),
             .own = shoal_cluster_task(options->place),
             .job = random_mix(options->place->id, JOB_MARK),
             .until = clock_seconds() + options->seconds};
  if (p.own < 0)
    return status_make(SHOAL_ERR_ARGUMENT, "this %s is not part of the cluster and has no address to be probed at",
                       cluster_role_name(options->place->role));
  pthread_mutex_init(&p.lock, NULL);
  uint8_t *bulk = calloc(1, BULK_BYTES);
  shoal_status status = bulk ? set_up(&p) : status_no_memory();
  if (!status) {
    measure_all(&p, bulk);
    tell_all(&p);
    while (!all_reported(&p) && !over(&p, p.until + LATE_SECONDS)) {
      struct timespec t = {.tv_nsec = (long)(LOOK_SECONDS * 1e9)};
      nanosleep(&t, NULL);
    }
  }
  for (int i = 0; p.links && i < p.tasks; i++) net_client_close(p.links[i]);
  if (p.server) {
    atomic_store(&p.done, true);
    pthread_join(p.thread, NULL);
    net_server_close(p.server);
  }
  pthread_mutex_destroy(&p.lock);
  free(bulk);
  free(p.reported);
  free(p.links);
  free(p.refused);
  if (status)
    free(p.pairs);
  else
    *pairs = p.pairs;
  return status;
}
