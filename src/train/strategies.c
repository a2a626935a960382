/* shoal/cluster.h: strategies for programs. What each of them does is in its own file. */
#include "base/mem.h"
#include "base/text.h"
#include "cluster/cluster.h"
#include "net/key_ring.h"
#include "train/allreduce.h"
#include "train/mirrored.h"
#include "train/ps.h"

#include <string.h>

#define DEADLINE_SECONDS 30.0
#define WORKERS_MAX 128

static const char *const modes[] = {"sync", "async"};

static shoal_status check_count(const char *what, int n, int most) {
  if (n >= 1 && n <= most) return NULL;
  return status_make(SHOAL_ERR_ARGUMENT, "%s is %d: 1 to %d are expected", what, n, most);
}

static shoal_status find_mode(const char *mode, bool *sync) {
  *sync = !mode || !strcmp(mode, modes[0]);
  if (*sync || !strcmp(mode, modes[1])) return NULL;
  const char *near = text_nearest(mode, modes, COUNT_OF(modes));
  return status_make(SHOAL_ERR_ARGUMENT, "the mode is '%s'; sync or async is expected%s%s%s", mode,
                     near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

/* Options that contradict each other or make no sense. */
static shoal_status fill(const shoal_ps_options *options, int workers, ps_options *out) {
  const shoal_ps_options o = options ? *options : (shoal_ps_options){0};
  bool sync;
  TRY(find_mode(o.mode, &sync));
  if (sync && o.bounded)
    return status_make(SHOAL_ERR_ARGUMENT, "bounded staleness is for the mode async: sync steps are never stale");
  if (sync && o.in_flight > 1) return status_make(SHOAL_ERR_ARGUMENT, "in_flight is for the mode async");
  if (!sync && (o.backup_workers || o.deterministic))
    return status_make(SHOAL_ERR_ARGUMENT, "%s is for the mode sync",
                       o.backup_workers ? "backup_workers" : "deterministic");
  if (o.staleness < 0 || o.in_flight < 0 || o.in_flight > PS_FLIGHT_MOST || o.backup_workers < 0 ||
      o.backup_workers >= workers || !(o.deadline >= 0) || !(o.heartbeat >= 0))
    return status_make(SHOAL_ERR_ARGUMENT, "staleness, deadline and heartbeat are at least 0, in_flight is at most %d, "
                       "and backup_workers fewer than workers", PS_FLIGHT_MOST);
  const double deadline = o.deadline > 0 ? o.deadline : DEADLINE_SECONDS;
  *out = (ps_options){.workers = workers,
                      .together = sync,
                      .staleness = o.bounded ? o.staleness : -1,
                      .in_flight = o.in_flight,
                      .backups = o.backup_workers,
                      .deterministic = o.deterministic,
                      .net = {.insecure = o.insecure, .heartbeat = o.heartbeat},
                      .connect_seconds = deadline,
                      .answer_seconds = deadline,
                      .heartbeat = o.heartbeat};
  return NULL;
}

shoal_status shoal_strategy_create_local_ps(int workers, int servers, const shoal_ps_options *options,
                                            shoal_strategy **out) {
  ps_options o;
  TRY(check_count("workers", workers, WORKERS_MAX));
  TRY(check_count("servers", servers, PS_TASKS_MAX - WORKERS_MAX));
  TRY(fill(options, workers, &o));
  if (options && options->keys)
    return status_make(SHOAL_ERR_ARGUMENT, "keys are for tasks on several machines: local ones share memory");
  o.servers = servers;
  o.local = true;
  return ps_strategy_create(&o, NULL, out);
}

/* What the description says; the ring is to be finished, also after a failure. */
static shoal_status fill_from(const shoal_cluster *c, const shoal_ps_options *options, bool server, ps_options *out,
                              key_ring *ring) {
  if (!c->counts[SHOAL_PS])
    return status_make(SHOAL_ERR_ARGUMENT, "the cluster has no ps; at least one is needed");
  TRY(fill(options, cluster_workers(c), out));
  if (out->deterministic)
    return status_make(SHOAL_ERR_ARGUMENT, "deterministic needs servers that this program starts: see "
                       "shoal_strategy_create_local_ps");
  out->addresses = (const char *const *)c->addresses[SHOAL_PS];
  out->servers = c->counts[SHOAL_PS];
  out->net.job = c->id;
  out->has_chief = c->counts[SHOAL_CHIEF] > 0;
  return options && options->keys ? key_ring_read(options->keys, server, ring, &out->net) : NULL;
}

shoal_status shoal_strategy_create_ps(const shoal_cluster *c, const shoal_ps_options *options, shoal_strategy **out) {
  ps_options o;
  const int worker = cluster_worker(c);
  if (worker < 0)
    return status_make(SHOAL_ERR_ARGUMENT, "this process is %s:%d of the cluster; only workers and the chief train",
                       cluster_role_name(c->role), c->index);
  key_ring *ring = calloc(1, sizeof *ring);
  if (!ring) return status_no_memory();
  shoal_status status = fill_from(c, options, false, &o, ring);
  o.worker = worker;
  o.ring = ring;
  if (!status) return ps_strategy_create(&o, NULL, out);
  key_ring_fini(ring);
  free(ring);
  return status;
}

shoal_status shoal_serve_parameters(const shoal_cluster *c, const shoal_ps_options *options, shoal_model *m,
                                    const int *stop) {
  ps_options o;
  key_ring ring = {0};
  ps_server_result result = {0};
  if (c->role != SHOAL_PS)
    return status_make(SHOAL_ERR_ARGUMENT, "this process is %s:%d of the cluster, not a ps",
                       cluster_role_name(c->role), c->index);
  shoal_status status = model_ready(m);
  if (!status) status = fill_from(c, options, true, &o, &ring);
  if (!status) {
    o.table = m->sparse && m->features > 0;
    status = ps_serve(&o, c->index, m, stop, &result);
  }
  free(result.workers);
  key_ring_fini(&ring);
  return status;
}

shoal_status shoal_strategy_create_mirrored(int workers, const shoal_replica_options *options, shoal_strategy **out) {
  TRY(check_count("workers", workers, WORKERS_MAX));
  return mirrored_create(&(mirrored_options){.workers = workers, .deterministic = options && options->deterministic},
                         out);
}

shoal_status shoal_strategy_create_allreduce(const shoal_replica_options *options, shoal_strategy **out) {
  const shoal_replica_options o = options ? *options : (shoal_replica_options){0};
  return allreduce_create(&(allreduce_options){.deterministic = o.deterministic,
                                               .bf16 = o.bf16,
                                               .check_every = o.check_every,
                                               .patience = o.deadline > 0 ? o.deadline : DEADLINE_SECONDS},
                          out);
}

void shoal_strategy_destroy(shoal_strategy *s) { strategy_destroy(s); }
int shoal_strategy_worker(const shoal_strategy *s) { return s->worker; }
int shoal_strategy_workers(const shoal_strategy *s) { return s->workers; }
