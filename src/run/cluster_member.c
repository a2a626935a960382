#include "run/cluster_member.h"

#include "base/mem.h"
#include "run/local_cluster.h"
#include "run/ps_place.h"

#include <string.h>

/* ---- finding the description */

static shoal_status agree(const shoal_job *asked, const char *name, int64_t *value, int count) {
  if (job_said(asked, name) && *value != count)
    return status_make(SHOAL_ERR_ARGUMENT, "`%s` %lld, but the cluster description has %d; leave it out", name,
                       (long long)*value, count);
  *value = count;
  return NULL;
}

shoal_status cluster_member_read(const char *file, const char *task, int servers, bool *there, cluster *out) {
  TRY(cluster_find(file, task, servers, there, out));
  if (!*there && task) return status_make(SHOAL_ERR_ARGUMENT, "`task` %s needs `cluster` FILE", task);
  return NULL;
}

shoal_status cluster_member_find(training *t, bool *there, cluster *out) {
  const shoal_job *f = &t->job;
  const bool servers = f->strategy && !strcmp(f->strategy, "ps"); /* otherwise a Slurm step's tasks are ranks */
  cluster c;
  shoal_status status = NULL;
  bool found;
  *there = false;
  TRY(cluster_member_read(f->cluster, f->task, servers ? (int)MAX_OF(f->ps, 1) : 0, &found, &c));
  if (!found) return NULL;
  if (c.role == SHOAL_EVALUATOR && !t->job.run_dir)
    status =
        status_make(SHOAL_ERR_ARGUMENT,
                    "an evaluator needs `run_dir` DIR: the folder the chief writes to, which it must be able to read");
  else if (c.counts[SHOAL_PS] && f->strategy && job_is_ranks(f))
    status =
        status_make(SHOAL_ERR_ARGUMENT, "the cluster description has ps, which the strategy allreduce does not use");
  else if (!c.counts[SHOAL_PS] && f->strategy && !job_is_ranks(f))
    status = status_make(SHOAL_ERR_ARGUMENT, "the cluster description has no ps, so it is for `strategy` allreduce");
  else if (c.counts[SHOAL_PS] > SERVERS_MAX || cluster_workers(&c) > WORKERS_MAX)
    status =
        status_make(SHOAL_ERR_ARGUMENT, "at most %d workers and %d servers are possible", WORKERS_MAX, SERVERS_MAX);
  if (!status) status = agree(&t->asked, "workers", &t->job.workers, cluster_workers(&c));
  if (!status && c.counts[SHOAL_PS] % (1 + f->replicas))
    status = status_make(
        SHOAL_ERR_ARGUMENT,
        "`replicas` %lld: the cluster description has %d ps, which are the servers and then as many backups: "
        "an even number is expected",
        (long long)f->replicas, c.counts[SHOAL_PS]);
  if (!status && c.counts[SHOAL_PS])
    status = agree(&t->asked, "ps", &t->job.ps, c.counts[SHOAL_PS] / (1 + (int)f->replicas));
  if (status) {
    cluster_fini(&c);
    return status;
  }
  *there = true;
  *out = c;
  return NULL;
}

/* ---- taking the place */

static shoal_status load(training *b, job_file *job) {
  TRY(training_load(b));
  training_fit_batch(b);
  job->classes = b->train.classes;
  job->rows = b->rows;
  return NULL;
}

static shoal_status take_place(run_state *s, const cluster *place, job_file *job) {
  training *b = &s->base;
  const bool server = place->role == SHOAL_PS, chief = cluster_worker(place) == 0;
  const run_sink sink = run_state_sink(s);
  const ps_place t = {.base = b,
                      .job = job,
                      .index = server ? place->index : cluster_worker(place),
                      .stop = s->options->stop,
                      .collects = true,
                      .sink = &sink};
  if (b->job.keys) TRY(key_ring_read(b->job.keys, server, &job->ring, &job->net));
  if (!server) TRY(load(b, job)); /* a server learns from worker 0 what to hold */
  if (chief) TRY(run_dir_take(&b->dir));
  TRY(server ? ps_place_serve(&t) : ps_place_work(&t));
  s->report.job = b->job;
  return chief ? cluster_check(&s->report) : NULL;
}

shoal_status cluster_member_run(run_state *s, const cluster *place) {
  training *b = &s->base;
  const int replicas = (int)b->job.replicas, addresses = place->counts[SHOAL_PS];
  job_file job = {.id = place->id, .servers = addresses / (1 + replicas), .replicas = replicas, .members = place};
  char name[CLUSTER_NAME];
  for (int i = 0; i < addresses; i++) job.addresses[i] = place->addresses[SHOAL_PS][i];
  job.net.insecure = b->job.insecure;
  s->report.has_chief = job_file_has_chief(&job);
  if (b->job.max_restarts < 0) b->job.max_restarts = CLUSTER_RESTARTS; /* a lost connection may come back */
  shoal_status status = take_place(s, place, &job);
  job_file_fini(&job);
  if (place->role == SHOAL_PS) return status; /* it names itself */
  return status_wrap(status, "%s", cluster_worker_name(s->report.has_chief, cluster_worker(place), name));
}
