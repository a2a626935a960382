#include "run/worker.h"

#include "base/clock.h"
#include "run/curve.h"
#include "run/leaving.h"

#include <math.h>
#include <stdlib.h>

typedef struct {
  const worker_options *o;
  metrics log;
  curve points;        /* of the chief: tests on the way */
  double told;         /* clock: when progress was told last */
  shoal_progress last; /* what the callbacks saw last */
  double *ahead;       /* [servers] their clocks minus this one */
  task_trace trace;
  leaving leaving; /* of a worker that may leave alone */
  const int *stop; /* not 0: it ends its training */
} worker;

static const run_sink *sink_of(const worker *w) { return w->o->sink; }

static void warn_unwritten(worker *w, bool good) {
  if (!good) sink_of(w)->on_note(sink_of(w)->context, METRICS_WARNING);
}

/* A service that progress is sent to. */
static void warn_untold(worker *w) {
  char *line = metrics_failure(&w->log);
  if (line) sink_of(w)->on_note(sink_of(w)->context, line);
  free(line);
}

static void note_progress(worker *w, bool epoch, const shoal_progress *p) {
  net_stats net;
  w->last = *p;
  if (w->o->last) *w->o->last = *p;
  w->o->link->traffic(w->o->link_context, &net);
  warn_unwritten(w, metrics_add(&w->log, epoch ? "epoch" : "step", p, &net));
  if (!w->o->chief) return;
  warn_untold(w);
  if (epoch && p->test.examples) warn_unwritten(w, metrics_test(&w->log, p->step, &p->test));
  double now = clock_seconds();
  if (!epoch && now - w->told < w->o->tell_every) return;
  w->told = now;
  sink_of(w)->on_progress(sink_of(w)->context, epoch, p);
}

static bool on_step(void *context, const shoal_progress *p) {
  note_progress(context, false, p);
  return false;
}

static bool on_epoch(void *context, const shoal_progress *p) {
  note_progress(context, true, p);
  return false;
}

static void on_inspect(void *context, const shoal_inspection *i) {
  worker *w = context;
  warn_unwritten(w, metrics_inspect(&w->log, i));
}

static void on_eval(void *context, int64_t rows, const shoal_progress *p, const shoal_evaluation *e) {
  worker *w = context;
  const run_sink *s = sink_of(w);
  warn_unwritten(w, metrics_test(&w->log, p->step, e));
  shoal_status status = curve_add(&w->points, rows, p, e);
  if (status) s->on_note(s->context, shoal_status_message(status));
  shoal_status_free(status);
  s->on_test(s->context, rows, p, e);
}

static void on_note(void *context, const char *line) {
  const worker *w = context;
  sink_of(w)->on_note(sink_of(w)->context, line);
}

static int server_of(void *context, const shoal_value *variable) {
  const worker *w = context;
  return w->o->link->server_of(w->o->link_context, variable);
}

static shoal_status open_metrics(worker *w) {
  training *b = w->o->base;
  const metrics_options o = {.folder = w->o->has_folder ? b->dir.path : NULL,
                             .task = w->o->name,
                             .role = "worker",
                             .index = w->o->index,
                             .host = w->o->samples_host,
                             .port = w->o->port};
  const graph_export_options graph = {.device = w->o->graph_device, .server_of = server_of, .context = w};
  TRY(training_open_metrics(b, &o, w->o->chief ? &graph : NULL, &w->log));
  return metrics_start_sampling(&w->log);
}

static shoal_status fit(worker *w, shoal_fit_result *out) {
  const worker_options *o = w->o;
  training *b = o->base;
  shoal_fit_options fit;
  TRY(training_options(b, &fit));
  fit.strategy = o->strategy;
  fit.stop = w->stop;
  fit.test = job_is_cluster(&b->job) ? NULL : b->test.data; /* with servers the others would wait for that */
  fit.callbacks.context = w;
  fit.callbacks.on_step = on_step;
  fit.callbacks.on_epoch = on_epoch;
  fit.callbacks.on_inspect = on_inspect;
  if (o->chief) fit.callbacks.on_note = on_note;
  if (o->chief && fit.eval_every) {
    fit.callbacks.on_eval = on_eval;
    TRY(curve_open(&w->points, b->dir.path));
  }
  return shoal_model_fit(b->model, b->train.data, &fit, out);
}

/* The last sample sees all that was sent. */
static shoal_status end_recording(worker *w) {
  const worker_options *o = w->o;
  net_stats net;
  o->link->traffic(o->link_context, &net);
  sampler_note(w->log.sampler, (int64_t)net.sent_bytes, (int64_t)net.received_bytes, NULL);
  metrics_stop_sampling(&w->log);
  w->trace = (task_trace){.events = o->events, .task = w->log.task, .servers = o->servers};
  if (!o->events) return NULL;
  o->events->on = false;
  if (!(w->ahead = calloc((size_t)o->servers + 1, sizeof *w->ahead))) return status_no_memory();
  for (int i = 0; i < o->servers; i++) w->ahead[i] = o->link->clock(o->link_context, i);
  w->trace.ahead = o->servers ? w->ahead : NULL;
  return NULL;
}

static shoal_task_report own_report(worker *w, const shoal_fit_result *fit, const shoal_evaluation *test) {
  const worker_options *o = w->o;
  net_stats net;
  shoal_task_report t = task_report_begin("worker", o->index, w->log.task);
  o->link->traffic(o->link_context, &net);
  t.seconds = fit->seconds;
  t.threads = shoal_model_threads(o->base->model);
  t.steps = fit->worker_steps;
  t.examples = fit->worker_examples;
  t.times = fit->times;
  t.test_accuracy = test->accuracy;
  t.test_rmse = test->rmse;
  t.test_r2 = test->r2;
  t.touched_rows = fit->touched_rows;
  t.exchanged_bytes = fit->exchanged_bytes;
  t.net_sent_bytes = (int64_t)net.sent_bytes;
  t.net_received_bytes = (int64_t)net.received_bytes;
  sampler_read(w->log.sampler, &t.use);
  return t;
}

/* Of a stream, the chief alone tests. */
static shoal_status test(worker *w, task_result *r) {
  training *b = w->o->base;
  /* Of these weights, after the last epoch. */
  const bool same = w->last.step == r->fit.updates && !r->fit.restored && b->job.average == 0;
  const bool tested = w->last.test.examples && same;
  if (tested) r->test = w->last.test;
  if (!b->test.data && !(b->test.files && w->o->chief)) return NULL;
  /* It was asked to leave while the others go on: what it has is not the result. */
  if (!w->o->chief && r->fit.stopped && w->stop && __atomic_load_n(w->stop, __ATOMIC_RELAXED)) return NULL;
  TRY(training_test(b, tested, &r->test, &r->confusion));
  if (!tested) warn_unwritten(w, metrics_test(&w->log, r->fit.updates, &r->test));
  return NULL;
}

/* What ends the training of this worker. */
static shoal_status choose_stop(worker *w) {
  const worker_options *o = w->o;
  w->stop = o->stop;
  if (o->chief || !o->servers || !o->stop || o->base->job.drain <= 0) return NULL;
  w->stop = &w->leaving.leave;
  return leaving_begin(&w->leaving, o->stop, o->base->job.drain);
}

static shoal_status run(worker *w, task_result *r) {
  const worker_options *o = w->o;
  training *b = o->base;
  const run_sink *s = o->sink;
  TRY(choose_stop(w));
  TRY(open_metrics(w));
  if (o->chief) s->on_ready(s->context, shoal_model_parameters(b->model), shoal_model_threads(b->model), o->rows);
  TRY(fit(w, &r->fit));
  TRY(end_recording(w));
  TRY(o->link->after_training(o->link_context));
  TRY(test(w, r));
  metrics_end(&w->log, true, r->fit.stopped); /* before the job is told to be over */
  warn_untold(w);
  shoal_status saved = o->chief ? shoal_model_save(b->model, b->dir.weights) : NULL;
  r->task = own_report(w, &r->fit, &r->test);
  shoal_status told = o->link->finish(o->link_context, r, &w->log, &w->trace);
  if (saved && told) shoal_status_free(told);
  return saved ? saved : told; /* the result is told in any case */
}

shoal_status worker_run(const worker_options *options) {
  worker w = {.o = options};
  task_result r = {.trained = true, .test = evaluation_none()};
  shoal_status status = run(&w, &r);
  leaving_end(&w.leaving);
  task_result_fini(&r);
  metrics_close(&w.log);
  curve_close(&w.points);
  free(w.ahead);
  return status;
}

/* ---- without other tasks */

static void no_traffic(void *context, net_stats *out) { *out = (net_stats){0}; }
static int no_server(void *context, const shoal_value *variable) { return -1; }
static double no_clock(void *context, int server) { return 0; }
static shoal_status nothing_after(void *context) { return NULL; }

static shoal_status tell(void *context, task_result *own, metrics *log, const task_trace *trace) {
  const run_sink *s = context;
  if (trace->events) s->on_trace(s->context, task_trace_part(trace, SIZE_MAX));
  s->on_result(s->context, own);
  return NULL;
}

const worker_link worker_alone = {
    .traffic = no_traffic, .server_of = no_server, .clock = no_clock, .after_training = nothing_after, .finish = tell};
