#include "cli/task.h"

#include "base/clock.h"
#include "cli/interrupt.h"
#include "cli/metrics.h"
#include "cli/record.h"

#include <math.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

typedef struct {
  task_place place;
  metrics log;
  resource_meter meter;
  shoal_strategy *strategy;
} task;

static const char *role_of(const task *t) { return t->place.server ? "ps" : "worker"; }

/* Takes `value`. */
static void tell(const task *t, const char *key, json_t *value) {
  t->place.ears->tell(t->place.ears->context, key, value);
}

/* ---- worker */

static void send_progress(task *t, const char *kind, const shoal_progress *p) {
  resource_meter_sample(&t->meter);
  if (t->place.index) return;
  if (!metrics_add(&t->log, kind, p))
    tell(t, "note", json_string("warning: metrics.jsonl cannot be written any more"));
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

static void on_note(void *context, const char *line) { tell(context, "note", json_string(line)); }

static shoal_status be_chief(task *t) {
  training *b = t->place.base;
  TRY(training_note_settings(b, t->place.job->classes));
  TRY(metrics_open(&t->log, b->dir.metrics));
  tell(t, "ready", json_pack("{s:I, s:i, s:I}", "parameters", (json_int_t)shoal_model_parameters(b->model), "threads",
                             shoal_model_threads(b->model), "rows", (json_int_t)t->place.job->rows));
  return NULL;
}

static json_t *worker_json(task *t, const shoal_fit_result *fit, const shoal_evaluation *test) {
  task_report report = {.role = role_of(t),
                        .index = t->place.index,
                        .pid = getpid(),
                        .seconds = fit->seconds,
                        .steps = fit->worker_steps,
                        .examples = fit->worker_examples,
                        .test_accuracy = test->accuracy};
  net_stats net;
  ps_strategy_stats(t->strategy, &net);
  report.net_sent_bytes = (int64_t)net.sent_bytes;
  report.net_received_bytes = (int64_t)net.received_bytes;
  resource_meter_read(&t->meter, &report.use);
  return task_json(&report);
}

/* What all tasks have reported, servers first. */
static shoal_status collect(task *t) {
  int workers = (int)t->place.base->flags.workers, n = workers + t->place.job->servers;
  char **words = calloc((size_t)n, sizeof *words);
  if (!words) return status_no_memory();
  shoal_status status = ps_strategy_collect(t->strategy, words);
  json_t *list = json_array();
  for (int i = 0; i < n && !status; i++) {
    int from = i < n - workers ? workers + i : i - (n - workers);
    json_t *one = json_loads(words[from], 0, NULL);
    if (!one || json_array_append_new(list, one))
      status = status_make(SHOAL_ERR_PEER, "the report of task %d cannot be read", from);
  }
  for (int i = 0; i < n && words[i]; i++) free(words[i]);
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
    char *words = json_dumps(own, JSON_COMPACT);
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
  tell(t, "result", o);
  return NULL;
}

static shoal_status be_worker(task *t) {
  training *b = t->place.base;
  if (!b->train.data) TRY(training_load(b, false));
  if (b->train.classes != t->place.job->classes || b->rows != t->place.job->rows)
    return status_make(SHOAL_ERR_INPUT, "%s: %lld rows of %d classes here, %lld rows of %d classes where the job was "
                       "started", b->flags.data, (long long)b->rows, b->train.classes, (long long)t->place.job->rows,
                       t->place.job->classes);
  TRY(training_compile(b, t->place.job->classes, t->place.job->rows));
  if (t->place.index == 0) TRY(be_chief(t));
  ps_options options = cluster_job_options(t->place.job, &b->flags, t->place.index);
  TRY(ps_strategy_create(&options, b->model, &t->strategy));
  shoal_fit_options fit;
  TRY(training_options(b, &fit));
  fit.strategy = t->strategy;
  fit.stop = t->place.stop;
  fit.callbacks = (shoal_callbacks){.context = t, .on_step = on_step, .on_epoch = on_epoch};
  if (t->place.index == 0) fit.callbacks.on_note = on_note;
  shoal_fit_result result;
  resource_meter_start(&t->meter);
  TRY(shoal_model_fit(b->model, b->train.data, &fit, &result));
  resource_meter_sample(&t->meter);
  if (!t->place.ears->collects) TRY(ps_strategy_close(t->strategy));
  shoal_evaluation test = {.loss = NAN, .accuracy = NAN, .top_k = NAN, .auc = NAN, .seconds = NAN};
  if (b->test.data) TRY(shoal_model_evaluate(b->model, b->test.data, &test));
  if (t->place.index == 0) TRY(shoal_model_save(b->model, b->dir.weights));
  return report(t, worker_json(t, &result, &test), &result, &test);
}

/* ---- parameter server */

static json_t *list_json(const int64_t *values, int n) {
  json_t *list = json_array();
  for (int i = 0; i < n; i++) json_array_append_new(list, json_integer(values[i]));
  return list;
}

static json_t *server_json(task *t, const ps_server_result *r) {
  task_report report = {.role = role_of(t),
                        .index = t->place.index,
                        .pid = getpid(),
                        .seconds = r->seconds,
                        .net_sent_bytes = (int64_t)r->net.sent_bytes,
                        .net_received_bytes = (int64_t)r->net.received_bytes,
                        .steps = -1,
                        .test_accuracy = NAN};
  resource_meter_read(&t->meter, &report.use);
  int64_t gradients = 0;
  int used = 1;
  for (int w = 0; w < (int)t->place.base->flags.workers; w++) gradients += r->gradients[w];
  for (int k = 0; k < PS_STALENESS_MOST; k++)
    if (r->staleness[k]) used = k + 1;
  json_t *task_object = task_json(&report);
  json_object_set_new(task_object, "updates", json_integer(r->updates));
  json_object_set_new(task_object, "gradients", list_json(r->gradients, (int)t->place.base->flags.workers));
  json_object_set_new(task_object, "gradient_examples", list_json(r->examples, (int)t->place.base->flags.workers));
  json_object_set_new(task_object, "refused_messages", json_integer((json_int_t)r->net.refused));
  json_object_set_new(task_object, "staleness",
                      json_pack("{s:f, s:I, s:o}", "mean", gradients ? r->staleness_sum / (double)gradients : 0.0,
                                "most", (json_int_t)r->stalest, "histogram", list_json(r->staleness, used)));
  return task_object;
}

static char *describe(void *describer, const ps_server_result *so_far) {
  json_t *o = server_json(describer, so_far);
  char *words = json_dumps(o, JSON_COMPACT);
  json_decref(o);
  return words;
}

static shoal_status be_server(task *t) {
  training *b = t->place.base;
  b->flags.threads = 1; /* the model is only looked at */
  TRY(training_compile(b, t->place.job->classes, t->place.job->rows));
  ps_options options = cluster_job_options(t->place.job, &b->flags, t->place.index);
  options.describer = t;
  options.describe = describe;
  ps_server_result result;
  resource_meter_start(&t->meter);
  TRY(ps_serve(&options, t->place.index, b->model, t->place.stop, &result));
  tell(t, "result", json_pack("{s:o}", "task", server_json(t, &result)));
  free(result.gradients);
  free(result.examples);
  return NULL;
}

/* ---- both */

shoal_status task_do(const task_place *place) {
  task t = {.place = *place};
  shoal_status status = place->server ? be_server(&t) : be_worker(&t);
  ps_strategy_destroy(t.strategy);
  metrics_close(&t.log);
  return status;
}

static void tell_parent(void *context, const char *key, json_t *value) { record_send(key, value); }
static const task_ears parent = {.tell = tell_parent};

static shoal_status run(const char *name, const char *job_path, training *base, cluster_job *job, interrupt **signals) {
  if (!job_path) return status_make(SHOAL_ERR_ARGUMENT, "--task %s needs --cluster FILE", name);
  TRY(cluster_job_read(job_path, base, job));
  const char *colon = strchr(name, ':');
  bool server = !strncmp(name, "ps:", 3);
  int64_t index, count = server ? base->flags.ps : base->flags.workers;
  if (!colon || (!server && strncmp(name, "worker:", 7)) || !text_to_int(colon + 1, &index) || index < 0 ||
      index >= count)
    return status_make(SHOAL_ERR_ARGUMENT, "--task %s: %s has no such task", name, job_path);
  TRY(interrupt_create("Stopping after this step.", "Ended at once.", signals));
  task_place place = {.base = base,
                      .job = job,
                      .server = server,
                      .index = (int)index,
                      .stop = interrupt_flag(*signals),
                      .ears = &parent};
  return task_do(&place);
}

shoal_status task_run(const char *name, const char *job_path) {
  training base = {0};
  cluster_job job = {0};
  interrupt *signals = NULL;
  signal(SIGPIPE, SIG_IGN);
  shoal_status status = run(name, job_path, &base, &job, &signals);
  if (status)
    record_send("error", json_pack("{s:s, s:i}", "message", shoal_status_message(status), "code",
                                   (int)shoal_status_code(status)));
  interrupt_destroy(signals);
  training_fini(&base);
  cluster_job_fini(&job);
  return status;
}
