#include "cli/task.h"

#include "base/clock.h"
#include "cli/curve.h"
#include "cli/evaluator.h"
#include "cli/interrupt.h"
#include "cli/membership.h"
#include "cli/metrics.h"
#include "cli/record.h"
#include "exec/session.h"
#include "observe/trace_file.h"
#include "train/evaluation.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#define TELL_SECONDS 0.1  /* between two steps told of */
#define SPAN_BYTES 24     /* of a report, at least */
#define LEAST_SPANS 8     /* fewer are not worth sending */
#define REPORT_DIGITS 13

typedef struct {
  task_place place;
  metrics log;
  shoal_strategy *strategy;
  events *events; /* of the timeline; NULL: none */
  double *ahead;  /* [servers] of a worker: their clocks minus this one */
  json_t *confusion; /* of the test rows; NULL: not counted */
  curve points;   /* of worker 0: the tests on the way */
  double told; /* clock: when progress was told last */
} task;

static const char *role_of(const task *t) { return t->place.server ? "ps" : "worker"; }

/* What users call that worker. */
static const char *worker_name(const task *t, int worker, char out[CLUSTER_NAME]) {
  return cluster_worker_name(cluster_job_has_chief(t->place.job), worker, out);
}

/* Takes `value`. */
static void tell(const task *t, const char *key, json_t *value) {
  t->place.ears->tell(t->place.ears->context, key, value);
}

/* ---- worker */

static void warn_unwritten(task *t, bool good) {
  if (!good) tell(t, "note", json_string(METRICS_WARNING));
}

static void send_progress(task *t, const char *kind, const shoal_progress *p) {
  net_stats net;
  ps_strategy_stats(t->strategy, &net);
  warn_unwritten(t, metrics_add(&t->log, kind, p, &net));
  if (t->place.index) return;
  double now = clock_seconds();
  if (!strcmp(kind, "step") && now - t->told < TELL_SECONDS) return; /* --log-every may be every step */
  t->told = now;
  json_t *o = record_to_json(progress_record, p);
  json_object_set_new(o, "kind", json_string(kind));
  tell(t, "progress", o);
}

static bool on_step(void *context, const shoal_progress *p) {
  send_progress(context, "step", p);
  return false;
}

static bool on_epoch(void *context, const shoal_progress *p) {
  send_progress(context, "epoch", p);
  return false;
}

static void on_inspect(void *context, const shoal_inspection *i) {
  task *t = context;
  warn_unwritten(t, metrics_inspect(&t->log, i));
}

static void on_eval(void *context, int64_t rows, const shoal_progress *p, const shoal_evaluation *e) {
  task *t = context;
  warn_unwritten(t, metrics_test(&t->log, p->step, e));
  shoal_status status = curve_add(&t->points, rows, p, e);
  if (status) tell(t, "note", json_string(shoal_status_message(status)));
  shoal_status_free(status);
  tell(t, "tested", json_pack("{s:I, s:o, s:o}", "rows", (json_int_t)rows, "progress",
                              record_to_json(progress_record, p), "test", record_to_json(evaluation_record, e)));
}

/* Of a cluster on this machine, the process that started all tasks has told already who has ended. */
static void on_change(void *context, const ps_change *c) {
  task *t = context;
  const cluster *members = t->place.job->members;
  char name[CLUSTER_NAME];
  text line = {0};
  worker_name(t, c->worker, name);
  tell(t, "membership", membership_json(c, name));
  if (!members && c->kind == PS_DISCONNECTED) return;
  membership_describe(c, name, members ? cluster_worker_address(members, c->worker) : NULL, &line);
  if (!line.failed) tell(t, "note", json_string(line.data));
  text_fini(&line);
}

static void on_note(void *context, const char *line) { tell(context, "note", json_string(line)); }

static int server_of(void *context, const shoal_value *variable) { return ps_strategy_server(context, variable); }

/* One task on each machine samples it: where all are on one, worker 0, since it does so as long as training takes. */
static shoal_status open_metrics(task *t) {
  training *b = t->place.base;
  bool collects = t->place.ears->collects, chief = !t->place.server && t->place.index == 0;
  char name[CLUSTER_NAME], device[64];
  bool named = cluster_job_has_chief(t->place.job);
  metrics_options o = {.folder = collects && !chief ? NULL : b->dir.path,
                       .task = t->place.server ? NULL : worker_name(t, t->place.index, name),
                       .role = role_of(t),
                       .index = t->place.index,
                       .host = collects || chief};
  snprintf(device, sizeof device, "/job:%s/task:0", named ? "chief" : "worker");
  graph_export_options graph = {.device = device, .server_of = server_of, .context = t->strategy};
  if (collects && chief) TRY(metrics_repair(b->dir.metrics));
  TRY(training_open_metrics(b, &o, chief ? &graph : NULL, &t->log));
  return metrics_start_sampling(&t->log);
}

static shoal_status be_chief(task *t) {
  training *b = t->place.base;
  TRY(training_note_settings(b, t->place.job->classes));
  tell(t, "ready", json_pack("{s:I, s:i, s:I}", "parameters", (json_int_t)shoal_model_parameters(b->model), "threads",
                             shoal_model_threads(b->model), "rows", (json_int_t)t->place.job->rows));
  return NULL;
}

static json_t *worker_json(task *t, const shoal_fit_result *fit, const shoal_evaluation *test) {
  task_report report = {.role = role_of(t),
                        .index = t->place.index,
                        .name = t->log.task,
                        .pid = getpid(),
                        .seconds = fit->seconds,
                        .threads = shoal_model_threads(t->place.base->model),
                        .steps = fit->worker_steps,
                        .examples = fit->worker_examples,
                        .times = fit->times,
                        .test = *test,
                        .touched_rows = fit->touched_rows,
                        .exchanged_bytes = fit->exchanged_bytes};
  net_stats net;
  ps_strategy_stats(t->strategy, &net);
  report.net_sent_bytes = (int64_t)net.sent_bytes;
  report.net_received_bytes = (int64_t)net.received_bytes;
  sampler_read(t->log.sampler, &report.use);
  return task_json(&report);
}

static json_t *own_trace(const task *t, size_t most) {
  return trace_part(t->events, t->log.task, t->ahead, t->ahead ? t->place.job->servers : 0, most);
}

/* What a task without a folder says at the end: its report, its samples, and as much of its timeline as there is room
 * for. The caller frees it; NULL: no memory. */
static char *report_words(task *t, json_t *own) {
  size_t most = t->events && t->log.kept ? PS_REPORT_MAX / SPAN_BYTES : 0;
  for (;; most = most > LEAST_SPANS ? most / 2 : 0) {
    json_t *all = json_copy(own);
    pthread_mutex_lock(&t->log.lock);
    if (t->log.kept) json_object_set(all, "kept_samples", t->log.kept);
    if (most) json_object_set_new(all, "trace", own_trace(t, most));
    char *words = json_dumps(all, JSON_COMPACT | JSON_REAL_PRECISION(REPORT_DIGITS));
    pthread_mutex_unlock(&t->log.lock);
    json_decref(all);
    if (!words || !most || strlen(words) <= PS_REPORT_MAX) return words;
    free(words);
  }
}

/* The other end: samples go to the file, the timeline to whoever writes it. */
static void take_report(task *t, json_t *one) {
  size_t i;
  json_t *line, *trace = json_object_get(one, "trace");
  json_array_foreach(json_object_get(one, "kept_samples"), i, line) metrics_line(&t->log, line);
  if (trace) tell(t, "trace", json_incref(trace));
  json_object_del(one, "kept_samples");
  json_object_del(one, "trace");
}

/* What all tasks have reported, servers first. */
static shoal_status collect(task *t) {
  int workers = (int)t->place.base->flags.workers, n = workers + t->place.job->servers;
  char **words = calloc((size_t)n, sizeof *words);
  if (!words) return status_no_memory();
  shoal_status status = ps_strategy_collect(t->strategy, words);
  if (status) {
    free(words);
    return status;
  }
  json_t *list = json_array();
  for (int i = 0; i < n && !status; i++) {
    int from = i < n - workers ? workers + i : i - (n - workers);
    if (!words[from]) continue; /* a worker that has gone */
    json_t *one = json_loads(words[from], 0, NULL);
    take_report(t, one);
    if (!one || json_array_append_new(list, one))
      status = status_make(SHOAL_ERR_PEER, "the report of task %d cannot be read", from);
  }
  for (int i = 0; i < n; i++) free(words[i]);
  free(words);
  if (status)
    json_decref(list);
  else
    tell(t, "tasks", list);
  return status;
}

/* Takes `own`. */
static shoal_status report(task *t, json_t *own, const shoal_fit_result *fit, const shoal_evaluation *test) {
  if (t->place.ears->collects) {
    char *words = report_words(t, own);
    shoal_status status = words ? ps_strategy_report(t->strategy, words) : status_no_memory();
    free(words);
    if (!status && t->place.index == 0) status = collect(t);
    if (!status) status = ps_strategy_close(t->strategy);
    if (status) {
      json_decref(own);
      return status;
    }
  }
  json_t *o = json_object();
  json_object_set_new(o, "task", own);
  json_object_set_new(o, "fit", record_to_json(fit_record, fit));
  json_object_set_new(o, "test", record_to_json(evaluation_record, test));
  if (t->confusion) json_object_set(o, "confusion", t->confusion);
  tell(t, "result", o);
  return NULL;
}

/* The last sample sees all that was sent. */
static void note_use(task *t) {
  net_stats net;
  ps_strategy_stats(t->strategy, &net);
  sampler_note(t->log.sampler, (int64_t)net.sent_bytes, (int64_t)net.received_bytes, NULL);
  metrics_stop_sampling(&t->log);
  if (!t->events) return;
  t->events->on = false;
  for (int i = 0; i < t->place.job->servers; i++) t->ahead[i] = ps_strategy_clock(t->strategy, i);
  if (!t->log.kept) tell(t, "trace", own_trace(t, SIZE_MAX));
}

static shoal_status open_trace(task *t) {
  training *b = t->place.base;
  TRY(training_open_trace(b, shoal_model_threads(b->model), 1, &t->events));
  if (!t->events) return NULL;
  t->ahead = calloc((size_t)t->place.job->servers, sizeof *t->ahead);
  return t->ahead ? session_trace(shoal_model_session(b->model), t->events, 0) : status_no_memory();
}

static shoal_status be_worker(task *t) {
  training *b = t->place.base;
  if (!b->train.data && !b->train.files) TRY(training_load(b));
  if (b->train.classes != t->place.job->classes || b->rows != t->place.job->rows)
    return status_make(SHOAL_ERR_INPUT, "%s: %lld rows of %d classes here, %lld rows of %d classes where the job was "
                       "started", b->flags.data, (long long)b->rows, b->train.classes, (long long)t->place.job->rows,
                       t->place.job->classes);
  TRY(training_compile(b, t->place.job->classes, t->place.job->rows));
  if (t->place.index == 0) TRY(be_chief(t));
  ps_options options = {.terms = cluster_job_terms(t->place.job, b),
                        .task = cluster_job_task(t->place.job, b),
                        .worker = t->place.index,
                        .addresses = t->place.job->addresses,
                        .table = job_has_table(&b->flags, b->kind),
                        .listener = t,
                        .on_change = on_change};
  options.task.stop = t->place.stop;
  TRY(open_trace(t));
  TRY(ps_strategy_create(&options, b->model, &t->strategy));
  shoal_fit_options fit;
  TRY(training_options(b, &fit));
  fit.strategy = t->strategy;
  fit.stop = t->place.stop;
  fit.callbacks.context = t;
  fit.callbacks.on_step = on_step;
  fit.callbacks.on_epoch = on_epoch;
  fit.callbacks.on_inspect = on_inspect;
  if (t->place.index == 0) fit.callbacks.on_note = on_note;
  if (t->place.index == 0 && fit.eval_every) {
    fit.callbacks.on_eval = on_eval;
    TRY(curve_open(&t->points, b->dir.path));
  }
  shoal_fit_result result;
  TRY(open_metrics(t));
  TRY(shoal_model_fit(b->model, b->train.data, &fit, &result));
  note_use(t);
  bool table = job_has_table(&b->flags, b->kind); /* then what is tested and saved is the servers' */
  if (!t->place.ears->collects && !table) TRY(ps_strategy_close(t->strategy));
  shoal_evaluation test = evaluation_none();
  if (b->test.data || (b->test.files && t->place.index == 0)) {
    TRY(training_test(b, false, &test, &t->confusion));
    warn_unwritten(t, metrics_test(&t->log, result.updates, &test));
  }
  if (t->place.index == 0) TRY(shoal_model_save(b->model, b->dir.weights));
  if (!t->place.ears->collects && table) TRY(ps_strategy_close(t->strategy));
  return report(t, worker_json(t, &result, &test), &result, &test);
}

/* ---- parameter server */

static json_t *list_json(const int64_t *values, int n) {
  json_t *list = json_array();
  for (int i = 0; i < n; i++) json_array_append_new(list, json_integer(values[i]));
  return list;
}

/* One number of each worker. */
static json_t *count_json(const task *t, const ps_server_result *r, size_t offset) {
  json_t *list = json_array();
  for (int w = 0; w < (int)t->place.base->flags.workers; w++)
    json_array_append_new(list, json_integer(*(const int64_t *)((const char *)&r->workers[w] + offset)));
  return list;
}

static json_t *server_json(task *t, const ps_server_result *r) {
  task_report report = {.role = role_of(t),
                        .index = t->place.index,
                        .pid = getpid(),
                        .seconds = r->seconds,
                        .net_sent_bytes = (int64_t)r->net.sent_bytes,
                        .net_received_bytes = (int64_t)r->net.received_bytes,
                        .steps = -1};
  sampler_note(t->log.sampler, report.net_sent_bytes, report.net_received_bytes, NULL);
  metrics_stop_sampling(&t->log);
  sampler_read(t->log.sampler, &report.use);
  int64_t gradients = 0;
  int used = 1;
  for (int w = 0; w < (int)t->place.base->flags.workers; w++) gradients += r->workers[w].gradients;
  for (int k = 0; k < PS_STALENESS_MAX; k++)
    if (r->staleness[k]) used = k + 1;
  json_t *task_object = task_json(&report);
  json_object_set_new(task_object, "busy_seconds", json_real(r->busy_seconds));
  json_object_set_new(task_object, "updates", json_integer(r->updates));
  static const struct {
    const char *key;
    size_t offset;
  } counts[] = {{"gradients", offsetof(ps_worker_count, gradients)},
                {"gradient_examples", offsetof(ps_worker_count, examples)},
                {"late_gradients", offsetof(ps_worker_count, late)},
                {"joins", offsetof(ps_worker_count, joins)},
                {"late_joins", offsetof(ps_worker_count, late_joins)},
                {"deaths", offsetof(ps_worker_count, deaths)}};
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
    json_object_set_new(task_object, counts[i].key, count_json(t, r, counts[i].offset));
  json_object_set_new(task_object, "handed_on_rows", json_integer(r->handed_on));
  json_object_set_new(task_object, "uneven_updates", json_integer(r->uneven));
  json_object_set_new(task_object, "refused_messages", json_integer((json_int_t)r->net.refused));
  json_object_set_new(task_object, "staleness",
                      json_pack("{s:f, s:I, s:I, s:o}", "mean", gradients ? r->staleness_sum / (double)gradients : 0.0,
                                "most", (json_int_t)r->stalest, "ahead", (json_int_t)r->lead, "histogram",
                                list_json(r->staleness, used)));
  return task_object;
}

static char *describe(void *describer, const ps_server_result *so_far) {
  json_t *o = server_json(describer, so_far);
  char *words = report_words(describer, o);
  json_decref(o);
  return words;
}

static void on_look(void *describer, const ps_server_result *so_far) {
  task *t = describer;
  sampler_note(t->log.sampler, (int64_t)so_far->net.sent_bytes, (int64_t)so_far->net.received_bytes, NULL);
}

static shoal_status be_server(task *t) {
  training *b = t->place.base;
  ps_server_options server = {.index = t->place.index,
                              .address = t->place.job->addresses[t->place.index],
                              .terms = cluster_job_terms(t->place.job, b),
                              .task = cluster_job_task(t->place.job, b),
                              .kernels = b->flags.kernels,
                              .describer = t,
                              .describe = describe,
                              .on_look = on_look};
  TRY(training_open_trace(b, 1, job_is_together(&b->flags) ? 1 : b->flags.workers, &t->events));
  server.task.events = t->events;
  server.task.stop = t->place.stop;
  ps_server_result result;
  TRY(open_metrics(t));
  TRY(ps_serve(&server, &result));
  if (t->events && !t->log.kept) tell(t, "trace", own_trace(t, SIZE_MAX));
  tell(t, "result", json_pack("{s:o}", "task", server_json(t, &result)));
  free(result.workers);
  return NULL;
}

/* ---- both */

shoal_status task_do(const task_place *place) {
  task t = {.place = *place};
  shoal_status status = place->server ? be_server(&t) : be_worker(&t);
  strategy_destroy(t.strategy);
  metrics_close(&t.log);
  curve_close(&t.points);
  events_destroy(t.events);
  free(t.ahead);
  json_decref(t.confusion);
  return status;
}

static void tell_parent(void *context, const char *key, json_t *value) { record_send(key, value); }
static const task_ears parent = {.tell = tell_parent};

static shoal_status run(const char *name, const char *job_path, bool again, training *base, cluster_job *job,
                        interrupt **signals) {
  if (!job_path) return status_make(SHOAL_ERR_ARGUMENT, "--task %s needs --cluster FILE", name);
  TRY(cluster_job_read(job_path, base, job));
  if (!strcmp(name, "evaluator:0")) {
    TRY(interrupt_create("Stopping after this evaluation.", "Ended at once.", signals));
    return evaluator_task(base, interrupt_flag(*signals), &parent);
  }
  if (again) base->flags.resume = true; /* if there is a checkpoint; no matter how the job began */
  const char *colon = strchr(name, ':');
  bool server = !strncmp(name, "ps:", 3);
  int64_t index, count = server ? base->flags.ps : base->flags.workers;
  if (!colon || (!server && strncmp(name, "worker:", 7)) || !text_to_int(colon + 1, &index) || index < 0 ||
      index >= count)
    return status_make(SHOAL_ERR_ARGUMENT, "--task %s: %s has no such task", name, job_path);
  if (base->flags.keys) TRY(key_ring_read(base->flags.keys, server, &job->ring, &job->net));
  TRY(interrupt_create("Stopping after this step.", "Ended at once.", signals));
  task_place place = {.base = base,
                      .job = job,
                      .server = server,
                      .index = (int)index,
                      .stop = interrupt_flag(*signals),
                      .ears = &parent};
  return task_do(&place);
}

shoal_status task_run(const char *name, const char *job_path, bool again) {
  training base = {0};
  cluster_job job = {0};
  interrupt *signals = NULL;
  signal(SIGPIPE, SIG_IGN);
  shoal_status status = run(name, job_path, again, &base, &job, &signals);
  if (status)
    record_send("error", json_pack("{s:s, s:i}", "message", shoal_status_message(status), "code",
                                   (int)shoal_status_code(status)));
  interrupt_destroy(signals);
  training_fini(&base);
  cluster_job_fini(&job);
  return status;
}
