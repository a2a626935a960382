#include "cli/task.h"

#include "base/clock.h"
#include "cli/cluster_job.h"
#include "cli/interrupt.h"
#include "cli/metrics.h"
#include "cli/record.h"

#include <math.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

typedef struct {
  training base;
  cluster_job job;
  const char *role;
  int index;
  interrupt *signals;
  metrics log;
  resource_meter meter;
  shoal_strategy *strategy;
} task;

/* ---- worker */

static void send_progress(task *t, const char *kind, const shoal_progress *p) {
  resource_meter_sample(&t->meter);
  if (t->index) return;
  if (!metrics_add(&t->log, kind, p))
    record_send("note", json_string("warning: metrics.jsonl cannot be written any more"));
  json_t *o = record_to_json(progress_record, p);
  json_object_set_new(o, "kind", json_string(kind));
  record_send("progress", o);
}

static bool on_step(void *context, const shoal_progress *p) {
  send_progress(context, "step", p);
  return false;
}

static bool on_epoch(void *context, const shoal_progress *p) {
  send_progress(context, "epoch", p);
  return false;
}

static void on_note(void *context, const char *line) { record_send("note", json_string(line)); }

static shoal_status be_chief(task *t) {
  TRY(training_note_settings(&t->base, t->job.classes));
  TRY(metrics_open(&t->log, t->base.dir.metrics));
  record_send("ready", json_pack("{s:I, s:i}", "parameters", (json_int_t)shoal_model_parameters(t->base.model),
                                 "threads", shoal_model_threads(t->base.model)));
  return NULL;
}

static void send_worker_result(task *t, const shoal_fit_result *fit, const shoal_evaluation *test) {
  task_report report = {.role = t->role,
                        .index = t->index,
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
  json_t *o = json_object();
  json_object_set_new(o, "task", task_json(&report));
  json_object_set_new(o, "fit", record_to_json(fit_record, fit));
  json_object_set_new(o, "test", record_to_json(evaluation_record, test));
  record_send("result", o);
}

static shoal_status be_worker(task *t) {
  training *b = &t->base;
  TRY(training_load(b, false));
  if (b->train.classes != t->job.classes || b->rows != t->job.rows)
    return status_make(SHOAL_ERR_INPUT, "%s: %lld rows of %d classes here, %lld rows of %d classes where the job was "
                       "started", b->flags.data, (long long)b->rows, b->train.classes, (long long)t->job.rows,
                       t->job.classes);
  TRY(training_compile(b, t->job.classes, t->job.rows));
  if (t->index == 0) TRY(be_chief(t));
  ps_options options = cluster_job_options(&t->job, &b->flags, t->index);
  TRY(ps_strategy_create(&options, b->model, &t->strategy));
  shoal_fit_options fit;
  TRY(training_options(b, &fit));
  fit.strategy = t->strategy;
  fit.stop = interrupt_flag(t->signals);
  fit.callbacks = (shoal_callbacks){.context = t, .on_step = on_step, .on_epoch = on_epoch};
  if (t->index == 0) fit.callbacks.on_note = on_note;
  shoal_fit_result result;
  resource_meter_start(&t->meter);
  TRY(shoal_model_fit(b->model, b->train.data, &fit, &result));
  resource_meter_sample(&t->meter);
  TRY(ps_strategy_close(t->strategy));
  shoal_evaluation test = {.loss = NAN, .accuracy = NAN, .top_k = NAN, .seconds = NAN};
  if (b->test.data) TRY(shoal_model_evaluate(b->model, b->test.data, &test));
  if (t->index == 0) TRY(shoal_model_save(b->model, b->dir.weights));
  send_worker_result(t, &result, &test);
  return NULL;
}

/* ---- parameter server */

static json_t *list_json(const int64_t *values, int n) {
  json_t *list = json_array();
  for (int i = 0; i < n; i++) json_array_append_new(list, json_integer(values[i]));
  return list;
}

static void send_server_result(task *t, const ps_server_result *r) {
  task_report report = {.role = t->role,
                        .index = t->index,
                        .pid = getpid(),
                        .seconds = r->seconds,
                        .net_sent_bytes = (int64_t)r->net.sent_bytes,
                        .net_received_bytes = (int64_t)r->net.received_bytes,
                        .steps = -1,
                        .test_accuracy = NAN};
  resource_meter_read(&t->meter, &report.use);
  int64_t gradients = 0;
  int used = 1;
  for (int w = 0; w < (int)t->base.flags.workers; w++) gradients += r->gradients[w];
  for (int k = 0; k < PS_STALENESS_MOST; k++)
    if (r->staleness[k]) used = k + 1;
  json_t *task_object = task_json(&report);
  json_object_set_new(task_object, "updates", json_integer(r->updates));
  json_object_set_new(task_object, "gradients", list_json(r->gradients, (int)t->base.flags.workers));
  json_object_set_new(task_object, "gradient_examples", list_json(r->examples, (int)t->base.flags.workers));
  json_object_set_new(task_object, "refused_messages", json_integer((json_int_t)r->net.refused));
  json_object_set_new(task_object, "staleness",
                      json_pack("{s:f, s:I, s:o}", "mean", gradients ? r->staleness_sum / (double)gradients : 0.0,
                                "most", (json_int_t)r->stalest, "histogram", list_json(r->staleness, used)));
  record_send("result", json_pack("{s:o}", "task", task_object));
}

static shoal_status be_server(task *t) {
  training *b = &t->base;
  b->flags.threads = 1; /* the model is only looked at */
  TRY(training_compile(b, t->job.classes, t->job.rows));
  ps_options options = cluster_job_options(&t->job, &b->flags, t->index);
  ps_server_result result;
  resource_meter_start(&t->meter);
  TRY(ps_serve(&options, t->index, b->model, interrupt_flag(t->signals), &result));
  send_server_result(t, &result);
  free(result.gradients);
  free(result.examples);
  return NULL;
}

/* ---- both */

static const struct {
  const char *role;
  shoal_status (*run)(task *t);
} roles[] = {{"worker", be_worker}, {"ps", be_server}};

static shoal_status run(task *t, const char *name, const char *job_path) {
  if (!job_path) return status_make(SHOAL_ERR_ARGUMENT, "--task %s needs --job FILE", name);
  TRY(cluster_job_read(job_path, &t->base, &t->job));
  const char *colon = strchr(name, ':');
  int64_t index;
  for (size_t i = 0; colon && i < sizeof roles / sizeof *roles; i++) {
    size_t length = strlen(roles[i].role);
    if (length != (size_t)(colon - name) || strncmp(name, roles[i].role, length)) continue;
    int64_t count = i == 0 ? t->base.flags.workers : t->base.flags.ps;
    if (!text_to_int(colon + 1, &index) || index < 0 || index >= count)
      return status_make(SHOAL_ERR_ARGUMENT, "--task %s: the cluster has %s:0 to %s:%lld", name, roles[i].role,
                         roles[i].role, (long long)count - 1);
    t->role = roles[i].role;
    t->index = (int)index;
    TRY(interrupt_create("Stopping after this step.", "Ended at once.", &t->signals));
    return roles[i].run(t);
  }
  return status_make(SHOAL_ERR_ARGUMENT, "--task %s: expected worker:INDEX or ps:INDEX", name);
}

shoal_status task_run(const char *name, const char *job_path) {
  task t = {0};
  signal(SIGPIPE, SIG_IGN);
  shoal_status status = run(&t, name, job_path);
  if (status)
    record_send("error", json_pack("{s:s, s:i}", "message", shoal_status_message(status), "code",
                                   (int)shoal_status_code(status)));
  ps_strategy_destroy(t.strategy);
  metrics_close(&t.log);
  interrupt_destroy(t.signals);
  training_fini(&t.base);
  cluster_job_fini(&t.job);
  return status;
}
