/* Probes with the keys of a folder, and says what is wrong. */
#include "base/mem.h"
#include "base/options.h"
#include "base/text.h"
#include "cluster/probe.h"
#include "net/key_ring.h"
#include "shoal/version.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define WAIT_SECONDS 30.0
#define CLOCK_MAX 1.0       /* seconds of difference from which on traces and logs no longer fit together */
#define ROUND_TRIP_MAX 0.01 /* seconds */
#define BANDWIDTH_MIN 10e6  /* bytes/s */

/* What shoal_probe_destroy gets, the public part first. */
typedef struct {
  shoal_probe found;
  shoal_probe_pair *pairs;
  char **problems;
  size_t room;
} report;

/* ---- keys: a parameter server listens with server.key, the others with client.key */

static shoal_status pin_keys(const cluster *c, const key_ring *ring, const char ***out) {
  int tasks = shoal_cluster_tasks(c), index;
  const char **pins = calloc((size_t)tasks, sizeof *pins);
  if (!pins) return status_no_memory();
  for (int i = 0; i < tasks; i++) {
    bool alike = (cluster_role_of(c, i, &index) == SHOAL_PS) == (c->role == SHOAL_PS);
    pins[i] = alike ? ring->own.public_key : ring->other;
  }
  *out = pins;
  return NULL;
}

static shoal_status probe_with_keys(const cluster *c, const shoal_probe_options *o, shoal_probe_pair **pairs) {
  key_ring ring = {0};
  const char **pins = NULL;
  probe_options options = {.place = c, .seconds = o->seconds > 0 ? o->seconds : WAIT_SECONDS, .stop = o->stop};
  options.net.insecure = o->insecure;
  shoal_status status = NULL;
  if (o->keys) status = key_ring_read_both(o->keys, c->role == SHOAL_PS, &ring, &options.net);
  if (!status && o->keys) status = pin_keys(c, &ring, &pins);
  options.server_keys = pins;
  if (!status) status = probe_run(&options, pairs);
  free(pins);
  key_ring_fini(&ring);
  return status;
}

/* ---- what is wrong */

__attribute__((format(printf, 2, 3))) static shoal_status complain(report *r, const char *format, ...) {
  void *list = r->problems;
  TRY(mem_grow(&list, &r->room, (size_t)r->found.n_problems + 1, sizeof *r->problems));
  r->problems = list;
  va_list args;
  va_start(args, format);
  int n = vasprintf(&r->problems[r->found.n_problems], format, args);
  va_end(args);
  if (n < 0) return status_no_memory();
  r->found.n_problems++;
  return NULL;
}

static shoal_status judge_pair(report *r, const cluster *c, int from, int to) {
  const shoal_probe_pair *p = &r->pairs[from * r->found.tasks + to];
  char a[SHOAL_TASK_NAME], b[SHOAL_TASK_NAME];
  shoal_cluster_task_name(c, from, a);
  shoal_cluster_task_name(c, to, b);
  if (!p->known) return NULL;
  if (!p->answered)
    return complain(r, "%s does not reach %s at %s: %s", a, b, shoal_cluster_task_address(c, to), p->error);
  if (strcmp(p->version, shoal_version()) && from == shoal_cluster_task(c))
    TRY(complain(r, "%s runs Shoal %s, this task %s: install the same version on all hosts", b, p->version,
                 shoal_version()));
  if (fabs(p->offset) > CLOCK_MAX)
    TRY(complain(r, "the clock of %s is %+.1f s from that of %s: let both keep time by NTP", b, p->offset, a));
  if (p->round_trip > ROUND_TRIP_MAX)
    TRY(complain(r, "%s to %s takes %.0f ms there and back: synchronous steps cannot be faster", a, b,
                 p->round_trip * 1e3));
  if (p->bandwidth < BANDWIDTH_MIN)
    TRY(complain(r, "%s to %s carries only %.1f MB/s: each step moves the whole model", a, b, p->bandwidth / 1e6));
  return NULL;
}

static shoal_status judge(report *r, const cluster *c) {
  const int tasks = r->found.tasks, own = shoal_cluster_task(c);
  for (int from = 0; from < tasks; from++) {
    bool silent = true;
    for (int to = 0; to < tasks; to++) {
      if (from == to) continue;
      silent = silent && !r->pairs[from * tasks + to].known;
      TRY(judge_pair(r, c, from, to));
    }
    char name[SHOAL_TASK_NAME];
    if (silent && tasks > 1 && r->pairs[own * tasks + from].answered)
      TRY(complain(r, "%s answers, but did not tell in time what it found", shoal_cluster_task_name(c, from, name)));
  }
  return NULL;
}

shoal_status shoal_cluster_probe(const shoal_cluster *c, const shoal_probe_options *options, shoal_probe **out) {
  shoal_probe_options own;
  TRY(OPTIONS_TAKE(&own, options));
  report *r = calloc(1, sizeof *r);
  if (!r) return status_no_memory();
  r->found.tasks = shoal_cluster_tasks(c);
  shoal_status status = probe_with_keys(c, &own, &r->pairs);
  if (!status) status = judge(r, c);
  if (status) {
    shoal_probe_destroy(&r->found);
    return status;
  }
  r->found.pairs = r->pairs;
  r->found.problems = (const char *const *)r->problems;
  *out = &r->found;
  return NULL;
}

void shoal_probe_destroy(shoal_probe *p) {
  report *r = (report *)p;
  if (!r) return;
  for (int i = 0; i < r->found.n_problems; i++) free(r->problems[i]);
  free(r->problems);
  free(r->pairs);
  free(r);
}
