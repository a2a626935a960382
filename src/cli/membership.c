#include "cli/membership.h"

#include "base/status.h"
#include "cluster/cluster.h"
#include "cli/say.h"
#include "cli/table.h"

#include <string.h>

/* ---- while it happens */

static bool is_leaving(const ps_change *c) { return c->kind == PS_DISCONNECTED || c->kind == PS_SILENT; }

void membership_describe(const ps_change *c, const char *name, const char *address, text *out) {
  char rows[COUNTED_TEXT];
  text_add(out, "%s", name);
  if (address) text_add(out, " (%s)", address);
  if (!is_leaving(c)) {
    text_add(out, " %s at step %lld", c->kind == PS_REJOINED ? "rejoined" : "joined", (long long)c->step);
    return;
  }
  text_add(out, " left at step %lld: %s; ", (long long)c->step,
           c->kind == PS_SILENT ? "no heartbeat" : "its connection closed");
  if (c->rows)
    text_add(out, "its %s are handed on", counted_text(c->rows, "row", rows));
  else
    text_add(out, "the others go on without it");
}

json_t *membership_json(const ps_change *c, const char *name) {
  const char *event = is_leaving(c) ? "left" : c->kind == PS_REJOINED ? "rejoined" : "joined";
  const char *reason = c->kind == PS_SILENT ? "no heartbeat" : is_leaving(c) ? "connection closed" : NULL;
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return json_pack("{s:s, s:s, s:s?, s:I, s:I, s:f}", "task", name, "event", event, "reason", reason, "step",
                   (json_int_t)c->step, "handed_on_rows", (json_int_t)c->rows, "time",
                   (double)t.tv_sec + 1e-9 * (double)t.tv_nsec);
}

void membership_note(run_report *r, json_t *change) {
  if (!r->membership) r->membership = json_array();
  json_array_append_new(r->membership, change);
}

/* ---- afterwards */

static const json_t *find_task(const run_report *r, const char *role, int index) {
  size_t i;
  json_t *task;
  json_array_foreach(r->tasks, i, task) {
    const char *its = json_string_value(json_object_get(task, "role"));
    if (its && !strcmp(its, role) && json_integer_value(json_object_get(task, "index")) == index) return task;
  }
  return NULL;
}

/* What server 0 has counted for a worker. */
static int64_t count_of(const run_report *r, const char *key, int worker) {
  const json_t *leader = find_task(r, "ps", 0);
  return json_integer_value(json_array_get(json_object_get(leader, key), (size_t)worker));
}

static int64_t sum_of(const run_report *r, const char *key) {
  int64_t sum = 0;
  for (int w = 0; w < (int)r->flags->workers; w++) sum += count_of(r, key, w);
  return sum;
}

static int64_t handed_on(const run_report *r) {
  return json_integer_value(json_object_get(find_task(r, "ps", 0), "handed_on_rows"));
}

/* Updates, of the server that has most of them, that did not add up a whole round as one process would. */
static int64_t uneven_updates(const run_report *r) {
  int64_t most = 0;
  for (int s = 0; s < (int)r->flags->ps; s++) {
    int64_t its = json_integer_value(json_object_get(find_task(r, "ps", s), "uneven_updates"));
    if (its > most) most = its;
  }
  return most;
}

static const char *name_of(const run_report *r, int worker, char out[CLUSTER_NAME]) {
  return cluster_worker_name(r->has_chief, worker, out);
}

/* Names of the workers that delivered no result. */
static json_t *lost_workers(const run_report *r) {
  char name[CLUSTER_NAME];
  json_t *list = json_array();
  for (int w = 0; r->tasks && w < (int)r->flags->workers; w++)
    if (!find_task(r, "worker", w)) json_array_append_new(list, json_string(name_of(r, w, name)));
  return list;
}

int membership_final_workers(const run_report *r) {
  int n = 0;
  if (!r->tasks || !job_is_cluster(r->flags)) return (int)r->flags->workers;
  for (int w = 0; w < (int)r->flags->workers; w++) n += find_task(r, "worker", w) != NULL;
  return n;
}

/* How often that worker came back. */
static int rejoined(const run_report *r, const char *name) {
  size_t i;
  json_t *change;
  int n = 0;
  json_array_foreach(r->membership, i, change)
    n += !strcmp(json_string_value(json_object_get(change, "task")), name) &&
         !strcmp(json_string_value(json_object_get(change, "event")), "rejoined");
  return n;
}

bool membership_add(const run_report *r, json_t *summary) {
  return !json_object_set_new(summary, "restarts", json_integer(r->restarts)) &&
         !json_object_set_new(summary, "lost_steps", json_integer(r->fit.lost_steps)) &&
         !json_object_set_new(summary, "handed_on_rows", json_integer(r->tasks ? handed_on(r) : 0)) &&
         !json_object_set_new(summary, "late_gradients", json_integer(r->tasks ? sum_of(r, "late_gradients") : 0)) &&
         !json_object_set_new(summary, "uneven_updates", json_integer(r->tasks ? uneven_updates(r) : 0)) &&
         !json_object_set_new(summary, "lost_workers", lost_workers(r)) &&
         !json_object_set_new(summary, "final_workers", json_integer(membership_final_workers(r))) &&
         !json_object_set_new(summary, "membership", r->membership ? json_incref(r->membership) : json_array());
}

void membership_print(const run_report *r, FILE *to) {
  if (!r->tasks || !job_is_cluster(r->flags)) return;
  char n[COUNTED_TEXT], name[CLUSTER_NAME];
  for (int w = 0; w < (int)r->flags->workers; w++) {
    name_of(r, w, name);
    if (!find_task(r, "worker", w))
      say(to, "\n%s was lost; %s of its gradients were used.\n", name,
          grouped_text(summary_gradients(r->tasks, w), n));
    else if (!summary_gradients(r->tasks, w) && r->fit.updates)
      say(to, "\n%s came too late to take part.\n", name);
    if (rejoined(r, name)) say(to, "\n%s left and rejoined: %s.\n", name, counted_text(rejoined(r, name), "time", n));
  }
  if (r->restarts) say(to, "\nTasks were started again %s.\n", counted_text(r->restarts, "time", n));
  if (r->fit.lost_steps)
    say(to, "\nLost with a parameter server and made once more: %s.\n", counted_text(r->fit.lost_steps, "step", n));
  if (sum_of(r, "late_gradients"))
    say(to, "\nToo late for their step and dropped: %s.\n", counted_text(sum_of(r, "late_gradients"), "gradient", n));
  if (uneven_updates(r))
    say(to, "\n--deterministic did not hold: made of other rows than those of their round, since a worker was lost: "
        "%s.\nThe weights are good, but their bits are not those of another run.\n",
        counted_text(uneven_updates(r), "update", n));
  if (handed_on(r))
    say(to, "\nHanded on to another worker than the one that had them first: %s.\n",
        counted_text(handed_on(r), "row", n));
}

shoal_status membership_check(const run_report *r) {
  for (int w = 0; w < (int)r->flags->workers && r->fit.updates > 0 && !r->fit.stopped; w++) {
    /* Resumed near its end, a worker's rows may all be done. */
    bool excused = r->restarts || r->fit.resumed_from > 0 || count_of(r, "deaths", w) || count_of(r, "late_joins", w);
    char name[CLUSTER_NAME];
    if (!summary_gradients(r->tasks, w) && !excused)
      return status_make(SHOAL_ERR_PEER, "no gradient of %s reached every parameter server: it did not take part in "
                         "the training", name_of(r, w, name));
  }
  return NULL;
}
