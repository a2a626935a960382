#include "run/state.h"

#include "base/clock.h"
#include "base/mem.h"
#include "run/membership.h"
#include "run/verdict_input.h"

#include <math.h>
#include <string.h>

int run_state_asked(const run_state *s) {
  const int *stop = s->options ? s->options->stop : NULL;
  return stop ? __atomic_load_n(stop, __ATOMIC_ACQUIRE) : 0;
}

void run_state_note(const run_state *s, const char *line) {
  const shoal_run_listener *l = &s->options->listener;
  if (l->on_note) l->on_note(l->context, line);
}

static void on_ready(void *context, int64_t parameters, int threads, int64_t rows) {
  run_state *s = context;
  const shoal_run_listener *l = &s->options->listener;
  s->report.parameters = parameters;
  s->report.threads = threads;
  const shoal_run_ready ready = {.job = &s->base.job,
                                 .parameters = parameters,
                                 .threads = threads,
                                 .rows = rows,
                                 .late_gradients = job_rate_is_rough(&s->base.job, s->base.kind)};
  if (l->on_ready) l->on_ready(l->context, &ready);
}

static void on_progress(void *context, bool epoch, const shoal_progress *p) {
  run_state *s = context;
  const shoal_run_listener *l = &s->options->listener;
  s->last = *p;
  if (!s->report.startup_seconds) s->report.startup_seconds = clock_seconds() - s->started - p->seconds;
  if (epoch && l->on_epoch) l->on_epoch(l->context, p);
  if (!epoch && l->on_step) l->on_step(l->context, p);
}

static void on_test(void *context, int64_t rows, const shoal_progress *p, const shoal_evaluation *e) {
  const run_state *s = context;
  const shoal_run_listener *l = &s->options->listener;
  if (l->on_test) l->on_test(l->context, rows, p, e);
}

static void on_note(void *context, const char *line) { run_state_note(context, line); }

static void on_membership(void *context, const shoal_membership_event *e) {
  run_state *s = context;
  const size_t n = (size_t)s->report.n_membership;
  shoal_status status = mem_grow((void **)&s->membership, &s->membership_capacity, n + 1, sizeof *s->membership);
  if (status) {
    shoal_status_free(status); /* a line less in the summary */
    return;
  }
  s->membership[n] = *e;
  s->report.membership = s->membership;
  s->report.n_membership++;
}

static void on_trace(void *context, json_t *part) {
  run_state *s = context;
  if (!part) return;
  if (!s->traces) s->traces = json_array();
  json_array_append_new(s->traces, part);
}

shoal_status run_state_add_task(run_state *s, shoal_task_report *t) {
  TRY(task_reports_add(&s->tasks, t));
  s->report.tasks = s->tasks.tasks;
  s->report.n_tasks = (int)s->tasks.count;
  return NULL;
}

static void on_task(void *context, shoal_task_report *t) {
  run_state *s = context;
  shoal_status status = run_state_add_task(s, t);
  if (s->lost)
    shoal_status_free(status);
  else
    s->lost = status;
  task_report_fini(t);
}

void run_state_take_result(run_state *s, task_result *r) {
  if (!r->trained) {
    s->report.fit.stopped = r->fit.stopped;
    return;
  }
  s->report.trained = true;
  s->report.fit = r->fit;
  s->report.test = r->test;
  confusion_fini(&s->report.confusion);
  s->report.confusion = r->confusion;
  r->confusion = (shoal_confusion){0};
}

static void on_result(void *context, task_result *r) {
  run_state_take_result(context, r);
  on_task(context, &r->task);
  task_result_fini(r);
}

run_sink run_state_sink(run_state *s) {
  return (run_sink){.context = s,
                    .on_ready = on_ready,
                    .on_progress = on_progress,
                    .on_test = on_test,
                    .on_note = on_note,
                    .on_membership = on_membership,
                    .on_trace = on_trace,
                    .on_task = on_task,
                    .on_result = on_result};
}

void run_state_complete(run_state *s) {
  shoal_run_report *r = &s->report;
  r->job = s->base.job;
  r->global_batch = job_global_batch(&s->base.job);
  r->effective_rate = s->base.job.lr * job_rate_scale(&s->base.job);
  r->final_rate = s->last.rate;
  r->class_names = s->base.class_names;
  r->final_workers = membership_final_workers(r);
  verdict_on_run(r, s->base.kind->rate, s->next_threads, &r->verdict);
}

void shoal_run_report_destroy(shoal_run_report *r) {
  run_state *s = (run_state *)r;
  if (!s) return;
  confusion_fini(&r->confusion);
  task_reports_fini(&s->tasks);
  shoal_status_free(s->lost);
  free(s->membership);
  json_decref(s->traces);
  json_decref(s->kept);
  training_fini(&s->base);
  free(s->error);
  free(s);
}
