#include "cli/membership.h"

#include "base/status.h"
#include "cli/say.h"
#include "cli/table.h"

#include <string.h>

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

/* Names of the workers that delivered no result. */
static json_t *lost_workers(const run_report *r) {
  json_t *list = json_array();
  for (int w = 0; r->tasks && w < (int)r->flags->workers; w++)
    if (!find_task(r, "worker", w)) json_array_append_new(list, json_sprintf("worker/%d", w));
  return list;
}

bool membership_add(const run_report *r, json_t *summary) {
  return !json_object_set_new(summary, "restarts", json_integer(r->restarts)) &&
         !json_object_set_new(summary, "lost_steps", json_integer(r->fit.lost_steps)) &&
         !json_object_set_new(summary, "handed_on_rows", json_integer(r->tasks ? handed_on(r) : 0)) &&
         !json_object_set_new(summary, "late_gradients", json_integer(r->tasks ? sum_of(r, "late_gradients") : 0)) &&
         !json_object_set_new(summary, "uneven_updates", json_integer(r->tasks ? uneven_updates(r) : 0)) &&
         !json_object_set_new(summary, "lost_workers", lost_workers(r));
}

void membership_print(const run_report *r, FILE *to) {
  if (!r->tasks || !job_is_cluster(r->flags)) return;
  char n[COUNTED_TEXT];
  for (int w = 0; w < (int)r->flags->workers; w++) {
    if (!find_task(r, "worker", w))
      say(to, "\nworker/%d was lost; %s of its gradients were used.\n", w,
          grouped_text(summary_gradients(r->tasks, w), n));
    else if (!summary_gradients(r->tasks, w) && r->fit.updates)
      say(to, "\nworker/%d came too late to take part.\n", w);
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
    if (!summary_gradients(r->tasks, w) && !excused)
      return status_make(SHOAL_ERR_PEER, "no gradient of worker/%d reached every parameter server: it did not take "
                         "part in the training", w);
  }
  return NULL;
}
