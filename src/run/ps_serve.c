#include "run/ps_report.h"
#include "run/ps_place.h"
#include "train/ps.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
  const ps_place *place;
  metrics log;
  events *events; /* of the timeline; NULL: none */
} ps_serving;

static task_trace trace_of(const ps_serving *s) { return (task_trace){.events = s->events, .task = s->log.task}; }

/* *out: the caller's. */
static shoal_status make_report(ps_serving *s, const ps_server_result *r, shoal_task_report *out) {
  const int workers = (int)s->place->base->job.workers;
  const bool backup = r->was_backup; /* what it counted is the primary's */
  shoal_task_report t = task_report_begin(backup ? "replica" : "ps", s->place->index % s->place->job->servers, NULL);
  int64_t gradients = 0;
  t.seconds = r->seconds;
  t.net_sent_bytes = (int64_t)r->net.sent_bytes;
  t.net_received_bytes = (int64_t)r->net.received_bytes;
  sampler_note(s->log.sampler, t.net_sent_bytes, t.net_received_bytes, NULL);
  metrics_stop_sampling(&s->log);
  sampler_read(s->log.sampler, &t.use);
  t.busy_seconds = r->step_busy_seconds;
  t.updates = backup ? -1 : r->updates;
  t.handed_on_rows = r->handed_on;
  t.uneven_updates = r->uneven;
  t.asked_rows = r->asked_rows;
  t.hot_share = r->hot_share;
  t.refused_messages = (int64_t)r->net.refused;
  t.staleness_max = r->stalest;
  t.staleness_ahead = r->lead;
  t.counts = calloc((size_t)workers, sizeof *t.counts);
  t.staleness_histogram = malloc(sizeof r->staleness);
  if (!t.counts || !t.staleness_histogram) {
    task_report_fini(&t);
    return status_no_memory();
  }
  t.counted = workers;
  for (int w = 0; w < workers; w++) {
    const ps_worker_count *c = &r->workers[w];
    t.counts[w] = (shoal_worker_counts){c->gradients, c->examples, c->late, c->joins, c->late_joins, c->deaths};
    gradients += c->gradients;
  }
  t.staleness_mean = gradients ? r->staleness_sum / (double)gradients : 0;
  memcpy(t.staleness_histogram, r->staleness, sizeof r->staleness);
  t.staleness_bins = 1;
  for (int k = 0; k < PS_STALENESS_MAX; k++)
    if (r->staleness[k]) t.staleness_bins = k + 1;
  *out = t;
  return NULL;
}

static char *describe(void *describer, const ps_server_result *so_far) {
  ps_serving *s = describer;
  const task_trace trace = trace_of(s);
  shoal_task_report t;
  shoal_status status = make_report(s, so_far, &t);
  if (status) {
    shoal_status_free(status);
    return NULL;
  }
  char *words = ps_report_words(&t, &s->log, &trace);
  task_report_fini(&t);
  return words;
}

static void on_look(void *describer, const ps_server_result *so_far) {
  ps_serving *s = describer;
  sampler_note(s->log.sampler, (int64_t)so_far->net.sent_bytes, (int64_t)so_far->net.received_bytes, NULL);
  metrics_serving(&s->log, so_far, (int)s->place->base->job.workers);
}

static shoal_status serve(ps_serving *s) {
  const ps_place *p = s->place;
  training *b = p->base;
  const int servers = p->job->servers, index = p->index % servers;
  const char *members[PS_MEMBERS] = {p->job->addresses[index],
                                     p->job->addresses[p->job->replicas ? servers + index : 0]};
  ps_server_options server = {.index = index,
                              .address = p->job->addresses[p->index],
                              .members = p->job->replicas ? members : NULL,
                              .member = p->index / servers,
                              .terms = job_file_terms(p->job, b),
                              .task = job_file_task(p->job, b),
                              .kernels = b->job.kernels,
                              .threads = (int)b->job.server_threads,
                              .describer = s,
                              .describe = describe,
                              .on_look = on_look};
  TRY(training_open_trace(b, 1, job_is_sync(&b->job) ? 1 : b->job.workers, &s->events));
  server.task.events = s->events;
  server.task.stop = p->stop;
  const metrics_options recording = {.folder = p->collects ? NULL : b->dir.path,
                                     .role = "ps",
                                     .index = p->index,
                                     .host = p->collects,
                                     .port = p->collects ? 0 : p->index};
  TRY(training_open_metrics(b, &recording, NULL, &s->log));
  TRY(metrics_start_sampling(&s->log));
  ps_server_result result;
  TRY(ps_serve(&server, &result));
  const task_trace trace = trace_of(s);
  if (s->events && !s->log.kept) p->sink->on_trace(p->sink->context, task_trace_part(&trace, SIZE_MAX));
  task_result r = {.trained = false, .fit.stopped = result.stopped};
  shoal_status status = make_report(s, &result, &r.task);
  free(result.workers);
  TRY(status);
  p->sink->on_result(p->sink->context, &r);
  return NULL;
}

shoal_status ps_place_serve(const ps_place *t) {
  ps_serving s = {.place = t};
  shoal_status status = serve(&s);
  metrics_close(&s.log);
  events_destroy(s.events);
  return status;
}
