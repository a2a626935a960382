/* shoal/cluster.h: strategies for programs. What each of them does is in its own file. */
#include "base/mem.h"
#include "base/options.h"
#include "base/text.h"
#include "cluster/cluster.h"
#include "net/key_ring.h"
#include "train/compress.h"
#include "train/mirrored.h"
#include "train/ps.h"

#include <string.h>

#define DEADLINE_SECONDS 30.0
#define WORKERS_MAX 128

static const char *const modes[] = {"sync", "async"};

static shoal_status check_count(const char *what, int n, int most) {
  if (n >= 1 && n <= most) return NULL;
  return status_make(SHOAL_ERR_ARGUMENT, "%s is %d: expected 1 to %d", what, n, most);
}

static shoal_status find_mode(const char *mode, bool *sync) {
  *sync = !mode || !strcmp(mode, modes[0]);
  if (*sync || !strcmp(mode, modes[1])) return NULL;
  const char *near = text_nearest(mode, modes, COUNT_OF(modes));
  return status_make(SHOAL_ERR_ARGUMENT, "the mode is '%s'; expected sync or async%s%s%s", mode,
                     near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

/* How this task takes part; keys are read elsewhere. */
static shoal_status fill_task(const shoal_ps_options *o, ps_task *out) {
  if (!(o->deadline >= 0) || !(o->heartbeat >= 0))
    return status_make(SHOAL_ERR_ARGUMENT, "deadline and heartbeat are at least 0");
  *out = (ps_task){.net = {.insecure = o->insecure, .heartbeat = o->heartbeat},
                   .deadline = o->deadline > 0 ? o->deadline : DEADLINE_SECONDS,
                   .heartbeat = o->heartbeat};
  return NULL;
}

static shoal_status find_wire(const char *name, const wire_format **out) {
  *out = wire_format_find(name);
  if (*out) return NULL;
  return status_make(SHOAL_ERR_ARGUMENT, "the wire format is '%s'; f32, bf16, fp16, int8 or topk is expected", name);
}

/* How gradients travel to the servers. */
static shoal_status fill_traffic(const shoal_ps_options *o, ps_options *out) {
  const bool chosen = o->compress && !strcmp(o->compress, "auto");
  if (o->compress && !chosen && strcmp(o->compress, "none"))
    return status_make(SHOAL_ERR_ARGUMENT, "the compression is '%s'; with parameter servers none or auto is expected",
                       o->compress);
  TRY(find_wire(o->wire ? o->wire : "f32", &out->wire));
  if (chosen && o->wire) return status_make(SHOAL_ERR_ARGUMENT, "compress auto chooses wire itself: leave one out");
  if (o->local_steps < 0 || !(o->outer_lr >= 0) || !(o->outer_momentum >= 0 && o->outer_momentum < 1))
    return status_make(SHOAL_ERR_ARGUMENT, "local_steps and outer_lr must be 0 or more, outer_momentum below 1");
  if (o->deterministic && (out->wire->encode || chosen || o->local_steps > 1))
    return status_make(
        SHOAL_ERR_ARGUMENT,
        "with wire formats, compression or local steps the result depends on the number of workers: leave "
        "out deterministic");
  if (o->local_steps > 1 && o->in_flight > 1)
    return status_make(SHOAL_ERR_ARGUMENT, "local_steps and in_flight contradict each other: leave one out");
  out->advised = chosen;
  out->terms.local_steps = o->local_steps > 1 ? o->local_steps : 0;
  out->outer_momentum = o->outer_momentum;
  out->outer_rate =
      o->outer_lr > 0 ? o->outer_lr : strategy_outer_rate(o->outer_momentum, out->terms.sync ? 1 : out->terms.workers);
  return NULL;
}

/* Options that contradict each other or make no sense. */
static shoal_status fill(const shoal_ps_options *options, int workers, int servers, ps_options *out) {
  const shoal_ps_options o = *options;
  bool sync;
  ps_task task;
  TRY(find_mode(o.mode, &sync));
  TRY(fill_task(&o, &task));
  if (sync && o.bounded)
    return status_make(SHOAL_ERR_ARGUMENT, "bounded staleness is for the mode async: sync steps are never stale");
  if (sync && o.in_flight > 1) return status_make(SHOAL_ERR_ARGUMENT, "in_flight is for the mode async");
  if (!sync && (o.backup_workers || o.deterministic))
    return status_make(SHOAL_ERR_ARGUMENT, "%s is for the mode sync",
                       o.backup_workers ? "backup_workers" : "deterministic");
  if (o.staleness < 0 || o.in_flight < 0 || o.in_flight > PS_FLIGHT_MAX || o.backup_workers < 0 ||
      o.backup_workers >= workers)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "staleness is at least 0, in_flight at most %d, and backup_workers fewer than "
                       "workers",
                       PS_FLIGHT_MAX);
  if (o.cache_rows < 0 || o.cache_rows > PS_CACHE_ROWS_MAX || o.cache_staleness < 0)
    return status_make(SHOAL_ERR_ARGUMENT, "cache_rows is 0 to %d, and cache_staleness at least 0", PS_CACHE_ROWS_MAX);
  *out = (ps_options){.terms = {.workers = workers,
                                .servers = servers,
                                .sync = sync,
                                .staleness = o.bounded ? o.staleness : -1,
                                .in_flight = o.in_flight,
                                .backups = o.backup_workers},
                      .task = task,
                      .cache = {o.cache_rows, o.cache_staleness},
                      .deterministic = o.deterministic};
  return fill_traffic(&o, out);
}

shoal_status shoal_strategy_create_local_ps(int workers, int servers, const shoal_ps_options *options,
                                            shoal_strategy **out) {
  ps_options o;
  shoal_ps_options given;
  TRY(OPTIONS_TAKE(&given, options));
  TRY(check_count("workers", workers, WORKERS_MAX));
  TRY(check_count("servers", servers, PS_TASKS_MAX - WORKERS_MAX));
  TRY(fill(&given, workers, servers, &o));
  if (given.keys)
    return status_make(SHOAL_ERR_ARGUMENT, "keys are for tasks on several machines: local ones share memory");
  o.local = true;
  return ps_strategy_create(&o, NULL, out);
}

/* What the description and its keys say; the ring is to be finished, also after a failure. */
static shoal_status join_cluster(const shoal_cluster *c, const shoal_ps_options *options, bool server, ps_task *task,
                                 key_ring *ring) {
  if (!c->counts[SHOAL_PS]) return status_make(SHOAL_ERR_ARGUMENT, "the cluster has no ps; at least one is needed");
  task->net.job = c->id;
  task->has_chief = c->counts[SHOAL_CHIEF] > 0;
  task->returns = true; /* a connection that is lost may come back, and so may a task that somebody starts again */
  return options->keys ? key_ring_read(options->keys, server, ring, &task->net) : NULL;
}

shoal_status shoal_strategy_create_ps(const shoal_cluster *c, const shoal_ps_options *options, shoal_strategy **out) {
  ps_options o;
  shoal_ps_options given;
  TRY(OPTIONS_TAKE(&given, options));
  const int worker = cluster_worker(c);
  if (worker < 0)
    return status_make(SHOAL_ERR_ARGUMENT, "this process is %s:%d of the cluster; only workers and the chief can train",
                       cluster_role_name(c->role), c->index);
  key_ring *ring = calloc(1, sizeof *ring);
  if (!ring) return status_no_memory();
  shoal_status status = fill(&given, cluster_workers(c), c->counts[SHOAL_PS], &o);
  if (!status) status = join_cluster(c, &given, false, &o.task, ring);
  o.worker = worker;
  o.addresses = (const char *const *)c->addresses[SHOAL_PS];
  o.ring = ring;
  if (!status) return ps_strategy_create(&o, NULL, out);
  key_ring_fini(ring);
  free(ring);
  return status;
}

shoal_status shoal_serve_parameters(const shoal_cluster *c, const shoal_ps_options *options, const int *stop) {
  shoal_ps_options given;
  TRY(OPTIONS_TAKE(&given, options));
  key_ring ring = {0};
  ps_server_result result = {0};
  if (c->role != SHOAL_PS)
    return status_make(SHOAL_ERR_ARGUMENT, "this process is %s:%d of the cluster, not a ps", cluster_role_name(c->role),
                       c->index);
  ps_server_options server = {.index = c->index,
                              .address = c->addresses[SHOAL_PS][c->index],
                              .terms = {.workers = cluster_workers(c), .servers = c->counts[SHOAL_PS]}};
  shoal_status status = fill_task(&given, &server.task);
  if (!status) status = join_cluster(c, &given, true, &server.task, &ring);
  server.task.stop = stop;
  if (!status) status = ps_serve(&server, &result);
  free(result.workers);
  key_ring_fini(&ring);
  return status;
}

shoal_status shoal_strategy_create_mirrored(int workers, const shoal_replica_options *options, shoal_strategy **out) {
  shoal_replica_options o;
  TRY(OPTIONS_TAKE(&o, options));
  TRY(check_count("workers", workers, WORKERS_MAX));
  return mirrored_create(&(mirrored_options){.workers = workers, .deterministic = o.deterministic}, out);
}

static shoal_status check_ranks(const shoal_cluster *c) {
  if (c->counts[SHOAL_PS])
    return status_make(SHOAL_ERR_ARGUMENT, "the cluster has a ps, which an all-reduce does not use");
  if (cluster_worker(c) >= 0) return NULL;
  return status_make(SHOAL_ERR_ARGUMENT, "this process is %s:%d of the cluster; only workers and the chief can train",
                     cluster_role_name(c->role), c->index);
}

static shoal_status fill_ranks(const shoal_replica_options *o, local_steps_options *out) {
  const wire_format *format;
  TRY(find_wire(o->wire ? o->wire : o->bf16 ? "bf16" : "f32", &format));
  const bool compressed = format->feedback || (o->compress && strcmp(o->compress, "none")) || o->local_steps > 1;
  if (o->deterministic && compressed)
    return status_make(
        SHOAL_ERR_ARGUMENT,
        "with the wire formats int8 and topk, compression or local steps the result depends on the number of "
        "workers: leave out deterministic");
  if (o->local_steps < 0 || o->compress_rank < 0 || !(o->outer_lr >= 0) ||
      !(o->outer_momentum >= 0 && o->outer_momentum < 1))
    return status_make(SHOAL_ERR_ARGUMENT,
                       "local_steps, compress_rank and outer_lr must be 0 or more, outer_momentum below 1");
  *out = (local_steps_options){.ranks = {.deterministic = o->deterministic,
                                         .wire = format,
                                         .check_every = o->check_every,
                                         .patience = o->deadline > 0 ? o->deadline : DEADLINE_SECONDS},
                               .every = MAX_OF(o->local_steps, 1),
                               .rate = o->outer_lr > 0 ? o->outer_lr : strategy_outer_rate(o->outer_momentum, 1),
                               .momentum = o->outer_momentum,
                               .rank = o->compress_rank ? o->compress_rank : 4,
                               .seed = o->seed};
  return NULL;
}

shoal_status shoal_strategy_create_allreduce(const shoal_replica_options *options, shoal_strategy **out) {
  shoal_replica_options o;
  TRY(OPTIONS_TAKE(&o, options));
  local_steps_options a;
  TRY(fill_ranks(&o, &a));
  const char *how = o.compress ? o.compress : "none";
  if (!o.cluster) return compress_create(how, &a, out);
  rank_place start = {0};
  shoal_status status = check_ranks(o.cluster);
  if (!status) status = rank_place_of_cluster(o.cluster, &start);
  if (!status)
    status = rank_place_arm(
        &start, &(rank_place_options){.keys = o.keys, .insecure = o.insecure, .patience = a.ranks.patience});
  a.ranks.start = &start;
  if (!status) status = compress_create(how, &a, out);
  rank_place_fini(&start);
  return status;
}

void shoal_strategy_destroy(shoal_strategy *s) { strategy_destroy(s); }
int shoal_strategy_worker(const shoal_strategy *s) { return s->worker; }
int shoal_strategy_workers(const shoal_strategy *s) { return s->workers; }
