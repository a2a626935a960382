#include "run/ps_place.h"

#include "base/json_read.h"
#include "cluster/cluster.h"
#include "run/membership.h"
#include "run/ps_report.h"
#include "run/server_list.h"
#include "run/worker.h"
#include "train/ps.h"

#include <stdlib.h>
#include <string.h>

#define TELL_SECONDS 0.1 /* between two steps told of */

typedef struct {
  const ps_place *place;
  shoal_strategy *strategy;
  events *events;      /* of the timeline; NULL: none */
  server_list servers; /* of a cluster on this machine */
} ps_worker;

static const char *worker_name(const ps_place *t, int worker, char out[CLUSTER_NAME]) {
  return cluster_worker_name(job_file_has_chief(t->job), worker, out);
}

/* Of a cluster on this machine, the process that started all tasks has told already who has ended. */
static void on_change(void *context, const ps_change *c) {
  const ps_worker *w = context;
  const run_sink *s = w->place->sink;
  const cluster *members = w->place->job->members;
  char name[CLUSTER_NAME];
  text line = {0};
  const shoal_membership_event e = membership_event(c, worker_name(w->place, c->worker, name));
  s->on_membership(s->context, &e);
  if (!members && c->kind == PS_DISCONNECTED) return;
  membership_describe(&e, members ? cluster_worker_address(members, c->worker) : NULL, &line);
  if (!line.failed) s->on_note(s->context, line.data);
  text_fini(&line);
}

static void tell(const run_sink *s, const shoal_membership_event *e) {
  text line = {0};
  s->on_membership(s->context, e);
  membership_describe(e, NULL, &line);
  if (!line.failed) s->on_note(s->context, line.data);
  text_fini(&line);
}

static void on_failover(void *context, int server, int64_t step, double seconds) {
  const shoal_membership_event e = membership_failover(server, step, seconds);
  tell(((ps_worker *)context)->place->sink, &e);
}

/* ---- other servers (train/ps_move.h) */

static bool has_moved(void *context) { return server_list_changed(&((ps_worker *)context)->servers); }

static shoal_status find_servers(void *context, ps_servers *out) {
  server_list *l = &((ps_worker *)context)->servers;
  TRY(server_list_read(l));
  *out = l->now;
  return NULL;
}

static bool next_servers(void *context, ps_servers *out) {
  server_list *l = &((ps_worker *)context)->servers;
  const bool found = server_list_has_next(l);
  if (found) *out = l->later;
  return found;
}

static shoal_status settle(void *context) { return server_list_settle(&((ps_worker *)context)->servers); }

static void on_move(void *context, int before, int servers, int64_t step, double seconds, const char *why) {
  ps_worker *w = context;
  const ps_place *t = w->place;
  if (!why) {
    const shoal_membership_event e = membership_scaled(before, servers, step, seconds);
    t->base->job.ps = servers;
    shoal_status_free(training_note_settings(t->base, t->job->classes)); /* whoever resumes may say otherwise */
    tell(t->sink, &e);
    return;
  }
  text line = {0};
  text_add(&line, "ps: the job goes on with %d servers, not %d: %s", before, servers, why);
  if (!line.failed) t->sink->on_note(t->sink->context, line.data);
  text_fini(&line);
  server_list_give_up(&w->servers);
}

/* ---- as a worker's link (worker.h) */

static void traffic(void *context, net_stats *out) { ps_strategy_stats(((ps_worker *)context)->strategy, out); }
static int server_of(void *context, const shoal_value *v) {
  return ps_strategy_server(((ps_worker *)context)->strategy, v);
}
static double server_clock(void *context, int server) {
  return ps_strategy_clock(((ps_worker *)context)->strategy, server);
}

/* Where the weights are a table, what is tested and saved is the servers'. */
static bool needs_servers(const ps_worker *w) {
  return w->place->collects || job_has_table(&w->place->base->job, w->place->base->kind);
}

static shoal_status after_training(void *context) {
  ps_worker *w = context;
  return needs_servers(w) ? NULL : ps_strategy_close(w->strategy);
}

/* Samples go to the file, the timeline to whoever writes it, the report to the list. */
static shoal_status take_report(const ps_worker *w, metrics *log, const char *words, int from) {
  const run_sink *s = w->place->sink;
  json_t *one = json_read_words(words, 0, NULL), *line, *trace = json_object_get(one, "trace");
  size_t i;
  shoal_task_report t;
  json_array_foreach (json_object_get(one, "kept_samples"), i, line) metrics_line(log, line);
  if (trace) s->on_trace(s->context, json_incref(trace));
  shoal_status status = task_report_from_json(one, &t);
  json_decref(one);
  if (status) {
    shoal_status_free(status);
    return status_make(SHOAL_ERR_PEER, "the report of task %d cannot be read", from);
  }
  s->on_task(s->context, &t);
  return NULL;
}

/* What all tasks have reported, servers first; this one's own is there already. */
static shoal_status collect(const ps_worker *w, metrics *log, task_result *own) {
  const run_sink *s = w->place->sink;
  const int workers = (int)w->place->base->job.workers, n = workers + w->place->job->servers;
  char **words = calloc((size_t)n, sizeof *words);
  if (!words) return status_no_memory();
  shoal_status status = ps_strategy_collect(w->strategy, words);
  for (int i = 0; i < n && !status; i++) {
    const int from = i < n - workers ? workers + i : i - (n - workers);
    if (from == 0)
      s->on_result(s->context, own);
    else if (words[from])
      status = take_report(w, log, words[from], from); /* NULL: a worker that has gone */
  }
  for (int i = 0; i < n; i++) free(words[i]);
  free(words);
  return status;
}

static shoal_status report_through_servers(ps_worker *w, task_result *own, metrics *log, const task_trace *trace) {
  char *words = ps_report_words(&own->task, log, trace);
  shoal_status status = words ? ps_strategy_report(w->strategy, words) : status_no_memory();
  free(words);
  if (!status && w->place->index == 0) status = collect(w, log, own);
  return status;
}

static shoal_status finish(void *context, task_result *own, metrics *log, const task_trace *trace) {
  ps_worker *w = context;
  const run_sink *s = w->place->sink;
  const bool through = w->place->collects, told = through && w->place->index == 0;
  if (through) TRY(report_through_servers(w, own, log, trace));
  if (trace->events && !log->kept) s->on_trace(s->context, task_trace_part(trace, SIZE_MAX));
  if (needs_servers(w)) TRY(ps_strategy_close(w->strategy));
  if (!told) s->on_result(s->context, own);
  return NULL;
}

static const worker_link ps_link = {.traffic = traffic,
                                    .server_of = server_of,
                                    .clock = server_clock,
                                    .after_training = after_training,
                                    .finish = finish};

/* ---- the whole */

static shoal_status load(const ps_place *t) {
  training *b = t->base;
  const job_file *job = t->job;
  if (!b->train.data && !b->train.files) TRY(training_load(b));
  if (b->train.classes == job->classes && b->rows == job->rows) return NULL;
  return status_make(SHOAL_ERR_INPUT,
                     "%s: %lld rows of %d classes here, %lld rows of %d classes where the job was "
                     "started",
                     b->job.data, (long long)b->rows, b->train.classes, (long long)job->rows, job->classes);
}

static shoal_status work(ps_worker *w) {
  const ps_place *t = w->place;
  training *b = t->base;
  const bool chief = t->index == 0;
  char name[CLUSTER_NAME], device[64];
  TRY(load(t));
  TRY(training_compile(b, t->job->classes, t->job->rows));
  if (chief) TRY(training_note_settings(b, t->job->classes));
  if (t->collects && chief) TRY(metrics_repair(b->dir.metrics));
  ps_options options = {.terms = job_file_terms(t->job, b),
                        .task = job_file_task(t->job, b),
                        .worker = t->index,
                        .addresses = t->job->addresses,
                        .replicas = t->job->replicas,
                        .folder = b->dir.path,
                        .wire = wire_format_find(b->job.wire),
                        .advised = !strcmp(b->job.compress, "auto"),
                        .outer_rate = b->job.outer_lr,
                        .outer_momentum = b->job.outer_momentum,
                        .table = job_has_table(&b->job, b->kind),
                        .cache = {b->job.cache_rows, b->job.cache_staleness},
                        .listener = w,
                        .on_change = on_change,
                        .on_failover = on_failover};
  if (t->job_path && !t->job->replicas) {
    TRY(server_list_open(&w->servers, t->job_path));
    options.terms.servers = w->servers.now.count; /* others may count since this task has read the file */
    options.addresses = w->servers.now.addresses;
    options.has_moved = has_moved;
    options.find_servers = find_servers;
    options.next_servers = next_servers;
    options.settle = settle;
    options.on_move = on_move;
  }
  options.task.stop = t->stop;
  TRY(training_open_trace(b, shoal_model_threads(b->model), 1, &w->events));
  TRY(ps_strategy_create(&options, b->model, &w->strategy));
  snprintf(device, sizeof device, "/job:%s/task:0", job_file_has_chief(t->job) ? "chief" : "worker");
  /* One task on each machine samples it: where all are on one, the chief, since it does so as long as training takes. */
  return worker_run(&(worker_options){.base = b,
                                      .index = t->index,
                                      .name = worker_name(t, t->index, name),
                                      .chief = chief,
                                      .has_folder = !t->collects || chief,
                                      .samples_host = t->collects || chief,
                                      .port = t->collects ? 0 : t->job->servers * (1 + t->job->replicas) + t->index,
                                      .servers = t->job->servers,
                                      .tell_every = TELL_SECONDS,
                                      .graph_device = device,
                                      .rows = t->job->rows,
                                      .stop = t->stop,
                                      .strategy = w->strategy,
                                      .events = w->events,
                                      .link = &ps_link,
                                      .link_context = w,
                                      .sink = t->sink});
}

shoal_status ps_place_work(const ps_place *t) {
  ps_worker w = {.place = t};
  shoal_status status = work(&w);
  strategy_destroy(w.strategy);
  events_destroy(w.events);
  server_list_close(&w.servers);
  return status;
}
