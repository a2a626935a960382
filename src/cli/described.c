#include "cli/described.h"

#include "base/mem.h"
#include "cli/membership.h"
#include "cli/record.h"
#include "cli/say.h"
#include "cli/table.h"
#include "cli/task.h"
#include "train/evaluation.h"

#include <math.h>
#include <string.h>

/* ---- finding the description */

static shoal_status agree(const flags_parsed *parsed, const char *flag, int64_t *value, int count) {
  if (flags_given(job_table, parsed, flag) && *value != count)
    return status_make(SHOAL_ERR_ARGUMENT, "--%s %lld, but the cluster described has %d; leave the flag out", flag,
                       (long long)*value, count);
  *value = count;
  return NULL;
}

shoal_status described_read(const char *file, const char *task, int servers, bool *there, cluster *out) {
  TRY(cluster_find(file, task, servers, there, out));
  if (!*there && task) return status_make(SHOAL_ERR_ARGUMENT, "--task %s needs --cluster FILE", task);
  return NULL;
}

shoal_status described_find(training *t, const flags_parsed *parsed, bool *there, cluster *out) {
  const job_flags *f = &t->flags;
  const bool servers = f->strategy && !strcmp(f->strategy, "ps"); /* otherwise a Slurm step's tasks are ranks */
  cluster c;
  shoal_status status = NULL;
  bool found;
  *there = false;
  TRY(described_read(f->cluster, f->task, servers ? (int)MAX_OF(f->ps, 1) : 0, &found, &c));
  if (!found) return NULL;
  if (c.role == SHOAL_EVALUATOR && !t->flags.run_dir)
    status = status_make(SHOAL_ERR_ARGUMENT,
                         "an evaluator needs --run-dir DIR: the folder the chief writes to, which it "
                         "must be able to see");
  else if (!c.counts[SHOAL_PS])
    status = status_make(SHOAL_ERR_ARGUMENT, "the cluster described has no ps; the strategy ps needs at least one");
  else if (c.counts[SHOAL_PS] > SERVERS_MOST || cluster_workers(&c) > WORKERS_MOST)
    status = status_make(SHOAL_ERR_ARGUMENT, "at most %d workers and %d servers are possible", WORKERS_MOST,
                         SERVERS_MOST);
  if (!status) status = agree(parsed, "workers", &t->flags.workers, cluster_workers(&c));
  if (!status) status = agree(parsed, "ps", &t->flags.ps, c.counts[SHOAL_PS]);
  if (status) {
    cluster_fini(&c);
    return status;
  }
  *there = true;
  *out = c;
  return NULL;
}

/* ---- taking the place */

typedef struct {
  crew *crew;
  bool chief;
} listener;

static double figure(const json_t *task, const char *key) {
  const json_t *value = json_object_get(task, key);
  return json_is_number(value) ? json_number_value(value) : NAN;
}

static void say_result(const crew *c, const json_t *task) {
  char a[COUNTED_TEXT], b[COUNTED_TEXT], figures[EVALUATION_TEXT];
  const shoal_evaluation test = {.accuracy = figure(task, "test_accuracy"),
                                 .rmse = figure(task, "test_rmse"),
                                 .r2 = figure(task, "test_r2")};
  const char *name = summary_task_name(task);
  if (json_object_get(task, "updates"))
    printf("%s: %s applied\n", name, counted_text(json_integer_value(json_object_get(task, "updates")), "update", a));
  else
    printf("%s: %s, %s, test %s\n", name,
           counted_text(json_integer_value(json_object_get(task, "steps")), "step", a),
           counted_text(json_integer_value(json_object_get(task, "examples")), "example", b),
           evaluation_text(&test, figures));
}

static void hear(void *context, const char *key, json_t *value) {
  listener *l = context;
  crew *c = l->crew;
  if (!strcmp(key, "ready")) {
    crew_announce(c, value);
  } else if (!strcmp(key, "progress")) {
    crew_show(c, value);
  } else if (!strcmp(key, "tested")) {
    crew_show_test(c, value);
  } else if (!strcmp(key, "note")) {
    progress_note(c->screen, json_string_value(value));
  } else if (!strcmp(key, "membership")) {
    membership_note(c->report, json_incref(value));
  } else if (!strcmp(key, "trace")) {
    summary_add_trace(c->report, json_incref(value));
  } else if (!strcmp(key, "tasks")) {
    json_decref(c->report->tasks);
    c->report->tasks = json_incref(value);
  } else if (!strcmp(key, "result") && l->chief) {
    record_from_json(fit_record, json_object_get(value, "fit"), &c->report->fit);
    record_from_json(evaluation_record, json_object_get(value, "test"), &c->report->test);
    c->report->confusion = json_incref(json_object_get(value, "confusion"));
  } else if (!strcmp(key, "result")) {
    say_result(c, json_object_get(value, "task"));
  }
  json_decref(value);
}

static shoal_status load(training *b, cluster_job *job) {
  TRY(training_load(b));
  job->classes = b->train.classes;
  job->rows = b->rows;
  return NULL;
}

shoal_status described_run(crew *c, const cluster *place) {
  training *b = c->base;
  bool server = place->role == SHOAL_PS;
  cluster_job job = {.id = place->id, .servers = place->counts[SHOAL_PS], .members = place};
  for (int i = 0; i < job.servers; i++) job.addresses[i] = place->addresses[SHOAL_PS][i];
  listener l = {.crew = c, .chief = cluster_worker(place) == 0};
  task_ears ears = {.context = &l, .tell = hear, .collects = true};
  task_place t = {.base = b,
                  .job = &job,
                  .server = server,
                  .index = server ? place->index : cluster_worker(place),
                  .stop = c->stop,
                  .ears = &ears};
  job.net.insecure = b->flags.insecure;
  c->report->has_chief = cluster_job_has_chief(&job);
  if (b->flags.max_restarts < 0) b->flags.max_restarts = 0; /* nobody is known to do it */
  shoal_status status = b->flags.keys ? key_ring_read(b->flags.keys, server, &job.ring, &job.net) : NULL;
  if (!status && !server) status = load(b, &job); /* a server learns from worker 0 what to hold */
  if (!status && l.chief) status = run_dir_make(&b->dir);
  if (!status) status = task_do(&t);
  progress_clear(c->screen);
  if (!status && l.chief) status = crew_check(c);
  cluster_job_fini(&job);
  char name[CLUSTER_NAME];
  if (server) return status; /* it names itself */
  return status_wrap(status, "%s", cluster_worker_name(c->report->has_chief, t.index, name));
}
