#include "run/membership.h"

#include "cluster/cluster.h"
#include "dist/tree.h"
#include "run/job.h"

#include <string.h>
#include <time.h>

/* ---- while it happens */

shoal_membership_event membership_event(const ps_change *c, const char *name) {
  const bool left = c->kind == PS_DISCONNECTED || c->kind == PS_SILENT || c->kind == PS_LEFT || c->kind == PS_DAMAGED;
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  shoal_membership_event e = {
      .step = c->step, .handed_on_rows = c->rows, .time = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec};
  snprintf(e.task, sizeof e.task, "%s", name);
  snprintf(e.event, sizeof e.event, "%s", left ? "left" : c->kind == PS_REJOINED ? "rejoined" : "joined");
  if (left)
    snprintf(e.reason, sizeof e.reason, "%s",
             c->kind == PS_SILENT    ? "no heartbeat"
             : c->kind == PS_LEFT    ? "asked to stop"
             : c->kind == PS_DAMAGED ? "damaged message"
                                     : "connection closed");
  return e;
}

shoal_membership_event membership_of_rank(const elastic_change *c) {
  shoal_membership_event e = {.step = c->step, .time = c->time, .pause_seconds = c->pause};
  snprintf(e.task, sizeof e.task, "worker/%d", c->id);
  snprintf(e.event, sizeof e.event, "%s",
           c->kind == ELASTIC_JOINED     ? "joined"
           : c->kind == ELASTIC_REJOINED ? "rejoined"
                                         : "left");
  if (c->kind < ELASTIC_JOINED)
    snprintf(e.reason, sizeof e.reason, "%s",
             c->kind == ELASTIC_SILENT ? "no heartbeat"
             : c->kind == ELASTIC_LEFT ? "asked to stop"
                                       : "connection closed");
  return e;
}

shoal_membership_event membership_failover(int server, int64_t step, double seconds) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  shoal_membership_event e = {
      .step = step, .time = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec, .pause_seconds = seconds, .event = "replaced"};
  snprintf(e.task, sizeof e.task, "ps/%d", server);
  return e;
}

shoal_membership_event membership_scaled(int64_t before, int64_t servers, int64_t step, double seconds) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  shoal_membership_event e = {.step = step,
                              .time = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec,
                              .pause_seconds = seconds,
                              .event = "scaled",
                              .task = "ps"};
  snprintf(e.reason, sizeof e.reason, "%d to %d", (int)before, (int)servers);
  return e;
}

void membership_describe(const shoal_membership_event *e, const char *address, text *out) {
  char rows[GROUPED_TEXT];
  text_add(out, "%s", e->task);
  if (!strcmp(e->event, "scaled")) {
    text_add(out, ": %s servers at step %lld, after a pause of %.2f s; no update is lost", e->reason,
             (long long)e->step, e->pause_seconds);
    return;
  }
  if (!strcmp(e->event, "replaced")) {
    text_add(out, " was replaced by its backup at step %lld, after %.2f s; no update is lost", (long long)e->step,
             e->pause_seconds);
    return;
  }
  if (address) text_add(out, " (%s)", address);
  text_add(out, " %s at step %lld", e->event, (long long)e->step);
  if (e->pause_seconds > 0) text_add(out, ", a pause of %.2f s", e->pause_seconds);
  if (!*e->reason) return;
  text_add(out, ": %s; ", !strcmp(e->reason, "connection closed") ? "its connection closed" : e->reason);
  if (e->handed_on_rows)
    text_add(out, "its %s row%s handed on", grouped_text(e->handed_on_rows, rows),
             e->handed_on_rows == 1 ? " is" : "s are");
  else
    text_add(out, "the others go on without it");
}

json_t *membership_to_json(const shoal_membership_event *e) {
  json_t *o = json_pack("{s:s, s:s, s:s?, s:I, s:I, s:f}", "task", e->task, "event", e->event, "reason",
                        *e->reason ? e->reason : NULL, "step", (json_int_t)e->step, "handed_on_rows",
                        (json_int_t)e->handed_on_rows, "time", e->time);
  if (o && e->pause_seconds > 0) json_object_set_new(o, "pause_seconds", json_real(e->pause_seconds));
  return o;
}

static void take_text(const json_t *o, const char *key, char *out, size_t size) {
  const char *words = json_string_value(json_object_get(o, key));
  snprintf(out, size, "%s", words ? words : "");
}

shoal_membership_event membership_from_json(const json_t *o) {
  shoal_membership_event e = {.step = json_integer_value(json_object_get(o, "step")),
                              .handed_on_rows = json_integer_value(json_object_get(o, "handed_on_rows")),
                              .time = json_number_value(json_object_get(o, "time")),
                              .pause_seconds = json_number_value(json_object_get(o, "pause_seconds"))};
  take_text(o, "task", e.task, sizeof e.task);
  take_text(o, "event", e.event, sizeof e.event);
  take_text(o, "reason", e.reason, sizeof e.reason);
  return e;
}

/* ---- afterwards */

const shoal_task_report *shoal_run_report_task(const shoal_run_report *r, const char *role, int index) {
  for (int i = 0; i < r->n_tasks; i++)
    if (!strcmp(r->tasks[i].role, role) && r->tasks[i].index == index) return &r->tasks[i];
  return NULL;
}

const char *shoal_run_report_worker_name(const shoal_run_report *r, int worker, char out[SHOAL_TASK_NAME]) {
  char name[CLUSTER_NAME];
  snprintf(out, SHOAL_TASK_NAME, "%s", cluster_worker_name(r->has_chief, worker, name));
  return out;
}

/* What server 0 has counted for a worker. */
static int64_t count_of(const shoal_run_report *r, size_t offset, int worker) {
  const shoal_task_report *leader = shoal_run_report_task(r, "ps", 0);
  if (!leader || worker >= leader->counted) return 0;
  return *(const int64_t *)((const char *)&leader->counts[worker] + offset);
}

int64_t shoal_run_report_count(const shoal_run_report *r, size_t offset) {
  int64_t sum = 0;
  for (int w = 0; w < (int)r->job.workers; w++) sum += count_of(r, offset, w);
  return sum;
}

int64_t shoal_run_report_gradients(const shoal_run_report *r, int worker) {
  if (!job_is_cluster(&r->job)) {
    const shoal_task_report *t = shoal_run_report_task(r, "worker", worker);
    return t ? t->steps : r->fit.updates;
  }
  int64_t least = -1;
  for (int i = 0; i < r->n_tasks; i++) {
    const shoal_task_report *t = &r->tasks[i];
    if (t->updates < 0) continue;
    const int64_t n = worker < t->counted ? t->counts[worker].gradients : 0;
    if (least < 0 || n < least) least = n;
  }
  return least < 0 ? 0 : least;
}

static int64_t handed_on(const shoal_run_report *r) {
  const shoal_task_report *leader = shoal_run_report_task(r, "ps", 0);
  return leader ? leader->handed_on_rows : 0;
}

/* Updates, of the server that has most of them, that did not add up a whole round as one process would. */
static int64_t uneven_updates(const shoal_run_report *r) {
  int64_t most = 0;
  for (int i = 0; i < r->n_tasks; i++)
    if (r->tasks[i].updates >= 0 && r->tasks[i].uneven_updates > most) most = r->tasks[i].uneven_updates;
  return most;
}

/* Names of the workers that delivered no result. */
static json_t *lost_workers(const shoal_run_report *r) {
  char name[SHOAL_TASK_NAME];
  json_t *list = json_array();
  for (int w = 0; r->n_tasks && w < (int)r->job.workers; w++)
    if (!job_is_mirrored(&r->job) && !shoal_run_report_task(r, "worker", w))
      json_array_append_new(list, json_string(shoal_run_report_worker_name(r, w, name)));
  return list;
}

int membership_final_workers(const shoal_run_report *r) {
  int n = 0;
  if (!r->n_tasks || job_is_mirrored(&r->job)) return (int)r->job.workers;
  for (int i = 0; i < r->n_tasks && !job_is_cluster(&r->job); i++) n += !strcmp(r->tasks[i].role, "worker");
  if (!job_is_cluster(&r->job)) return n;
  for (int w = 0; w < (int)r->job.workers; w++) n += shoal_run_report_task(r, "worker", w) != NULL;
  return n;
}

bool membership_add(const shoal_run_report *r, json_t *summary) {
  json_t *changes = json_array();
  bool good = true;
  for (int i = 0; i < r->n_membership; i++)
    good &= !json_array_append_new(changes, membership_to_json(&r->membership[i]));
  int failovers = 0;
  double longest = 0, pause = 0;
  for (int i = 0; i < r->n_membership; i++) {
    pause = r->membership[i].pause_seconds > pause ? r->membership[i].pause_seconds : pause;
    if (strcmp(r->membership[i].event, "replaced")) continue;
    failovers++;
    longest = r->membership[i].pause_seconds > longest ? r->membership[i].pause_seconds : longest;
  }
  const int64_t late = shoal_run_report_count(r, offsetof(shoal_worker_counts, late));
  return !json_object_set_new(summary, "membership", changes) && good &&
         !json_object_set_new(summary, "restarts", json_integer(r->restarts)) &&
         !json_object_set_new(summary, "lost_steps", json_integer(r->fit.lost_steps)) &&
         !json_object_set_new(summary, "handed_on_rows", json_integer(handed_on(r))) &&
         !json_object_set_new(summary, "late_gradients", json_integer(late)) &&
         !json_object_set_new(summary, "uneven_updates", json_integer(uneven_updates(r))) &&
         !json_object_set_new(summary, "lost_workers", lost_workers(r)) &&
         !json_object_set_new(summary, "final_workers", json_integer(membership_final_workers(r))) &&
         !json_object_set_new(summary, "failovers", json_integer(failovers)) &&
         !json_object_set_new(summary, "failover_seconds_max", json_real(longest)) &&
         !json_object_set_new(summary, "pause_seconds_max", json_real(pause));
}

/* Servers count since they were there. */
static bool was_scaled(const shoal_run_report *r) {
  for (int i = 0; i < r->n_membership; i++)
    if (!strcmp(r->membership[i].event, "scaled")) return true;
  return false;
}

shoal_status membership_check(const shoal_run_report *r) {
  for (int w = 0; w < (int)r->job.workers && r->fit.updates > 0 && !r->fit.stopped; w++) {
    /* Resumed near its end, a worker's rows may all be done; of a small deterministic step there may be none for it. One
     * that did not report has not ended well: it is known to have been late, silent or lost. */
    const bool excused = r->restarts || was_scaled(r) || r->fit.resumed_from > 0 ||
                         !shoal_run_report_task(r, "worker", w) ||
                         count_of(r, offsetof(shoal_worker_counts, deaths), w) ||
                         count_of(r, offsetof(shoal_worker_counts, late_joins), w) ||
                         (r->job.deterministic && tree_leaves(job_global_batch(&r->job)) < r->job.workers);
    char name[SHOAL_TASK_NAME];
    if (!shoal_run_report_gradients(r, w) && !excused)
      return status_make(SHOAL_ERR_PEER,
                         "no gradient of %s reached every parameter server: it did not take part in "
                         "the training",
                         shoal_run_report_worker_name(r, w, name));
  }
  return NULL;
}
