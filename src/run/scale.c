#include "run/scale.h"

#include "base/clock.h"
#include "base/json_read.h"
#include "base/text.h"
#include "shoal/run.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REQUEST "scale.json"
#define LOOK_MILLISECONDS 20
#define SCALE_WORKERS_MAX 64
enum { WORDS = 128 };

static shoal_status request_path(const run_dir *r, char **out) {
  return asprintf(out, "%s/" REQUEST, r->path) < 0 ? status_no_memory() : NULL;
}

bool scale_take(const run_dir *r, const char *what, int64_t *count) {
  char *path;
  shoal_status status = request_path(r, &path);
  if (status) {
    shoal_status_free(status); /* the next look finds it, too */
    return false;
  }
  json_t *request = access(path, F_OK) ? NULL : json_read_file(path, 0, NULL);
  const bool there = request && json_is_integer(json_object_get(request, what));
  if (there) *count = json_integer_value(json_object_get(request, what));
  if (request) unlink(path);
  json_decref(request);
  free(path);
  return there;
}

bool scale_is_live(const shoal_job *job) {
  return !job->replicas && !job->backup_workers && !job->trace && !job->metrics_port && job->max_restarts != 0;
}

const char *scale_objection(const shoal_job *job, int64_t servers, char *words, size_t room) {
  if (servers < 1 || servers * (1 + job->replicas) > SERVERS_MAX)
    snprintf(words, room, "from 1 to %lld servers are possible, not %lld",
             (long long)(SERVERS_MAX / (1 + job->replicas)), (long long)servers);
  else if (job->no_checkpoints && !scale_is_live(job))
    snprintf(words, room, "the job writes no checkpoints, by which the parameters move");
  else if (servers == job->ps)
    snprintf(words, room, "there are %lld already", (long long)servers);
  else
    return NULL;
  return words;
}

const char *scale_workers_objection(int64_t workers) {
  return workers < 1 || workers > SCALE_WORKERS_MAX ? "from 1 to 64 workers are possible" : NULL;
}

/* ---- whoever asks */

static const char *objection(const shoal_job *job, const char *what, int64_t count, char words[WORDS]) {
  if (!strcmp(what, SCALE_SERVERS))
    return job_is_cluster(job) ? scale_objection(job, count, words, WORDS) : "its job has no parameter servers";
  if (!job_is_ranks(job)) return "only an all-reduce can get other workers; with parameter servers: `ps`";
  if (!strcmp(job->transport, "mpi")) return "by MPI workers cannot come and go";
  return scale_workers_objection(count);
}

static shoal_status check(const run_dir *r, const char *what, int64_t count, double until) {
  json_t *settings = NULL;
  shoal_job job = job_unset();
  char words[WORDS];
  if (!run_dir_busy(r))
    return status_make(SHOAL_ERR_ARGUMENT, "%s: no job runs there; to go on with %lld %s: `resume` with `%s` %lld",
                       r->path, (long long)count, strcmp(what, SCALE_SERVERS) ? "workers" : "servers", what,
                       (long long)count);
  while (access(r->settings, F_OK) && run_dir_busy(r) && clock_seconds() < until) poll(NULL, 0, LOOK_MILLISECONDS);
  TRY(run_dir_read_settings(r->settings, &settings)); /* which are written soon after its start */
  shoal_status status = settings_from_json(job_table, json_object_get(settings, "flags"), r->settings, &job);
  const char *wrong = status ? NULL : objection(&job, what, count, words);
  if (wrong) status = status_make(SHOAL_ERR_ARGUMENT, "%s: %s", r->path, wrong);
  json_decref(settings);
  return status;
}

/* The job takes away temporary files when its tasks have ended, and among them this one, if that is just now. */
static shoal_status write_request(const run_dir *r, const json_t *request, const char *path, double until) {
  for (;;) {
    shoal_status status = json_write_atomically(request, path);
    if (!status || !run_dir_busy(r) || clock_seconds() > until) return status;
    shoal_status_free(status);
    poll(NULL, 0, LOOK_MILLISECONDS);
  }
}

/* Until the job has taken the request. */
static shoal_status await_taken(const run_dir *r, const char *path, double seconds, double until) {
  while (!access(path, F_OK)) {
    const bool over = !run_dir_busy(r);
    if (over || clock_seconds() > until) {
      unlink(path);
      return over ? status_make(SHOAL_ERR_PEER, "%s: the job ended before it looked at this", r->path)
                  : status_make(SHOAL_ERR_PEER,
                                "%s: the job has not looked at this in %g s; only clusters that were started by one "
                                "command on this machine do",
                                r->path, seconds);
    }
    poll(NULL, 0, LOOK_MILLISECONDS);
  }
  return NULL;
}

static shoal_status scale(const char *folder, const char *what, int64_t count, double seconds) {
  run_dir r;
  char *path = NULL;
  const double until = clock_seconds() + seconds;
  TRY(run_dir_init(folder, &r));
  shoal_status status = check(&r, what, count, until);
  json_t *request = json_pack("{s:I}", what, (json_int_t)count);
  if (!status && !request) status = status_no_memory();
  if (!status) status = request_path(&r, &path);
  if (!status) status = write_request(&r, request, path, until);
  if (!status) status = await_taken(&r, path, seconds, until);
  free(path);
  json_decref(request);
  run_dir_fini(&r);
  return status;
}

shoal_status shoal_run_scale(const char *folder, int64_t servers, double seconds) {
  return scale(folder, SCALE_SERVERS, servers, seconds);
}

shoal_status shoal_run_scale_workers(const char *folder, int64_t workers, double seconds) {
  return scale(folder, SCALE_WORKERS, workers, seconds);
}
