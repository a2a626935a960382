#include "base/clock.h"
#include "base/mem.h"
#include "dist/graph_protocol.h"
#include "dist/graph_trace.h"

#include <stdio.h>

void graph_task_short(const char *name, char out[DEVICE_TEXT]) {
  device d;
  shoal_status status = device_parse(name, &d);
  snprintf(out, DEVICE_TEXT, "%s/%d", status ? "task" : d.job, status ? 0 : d.task);
  shoal_status_free(status);
}

/* "send to worker/0" for each task. */
static shoal_status label_tasks(events *e, event_kind kind, const char *what, char *const *names, int tasks,
                                uint32_t **out) {
  *out = calloc((size_t)tasks, sizeof **out);
  if (!*out) return status_no_memory();
  for (int i = 0; i < tasks; i++) {
    char task[DEVICE_TEXT], name[DEVICE_TEXT + 32];
    graph_task_short(names[i], task);
    snprintf(name, sizeof name, "%s %s", what, task);
    TRY(events_label(e, &(event_label){.kind = kind, .name = name}, &(*out)[i]));
  }
  return NULL;
}

static shoal_status make(task_trace *t, shoal_session *s, char *const *names, int tasks) {
  TRY(events_create(pool_threads(s->threads) + 1, GRAPH_SPANS, &t->events));
  TRY(events_label(t->events, &(event_label){.kind = EVENT_STEP, .name = "run"}, &t->run));
  TRY(label_tasks(t->events, EVENT_MESSAGE, "send to", names, tasks, &t->send));
  TRY(label_tasks(t->events, EVENT_MESSAGE, "take in from", names, tasks, &t->take));
  TRY(label_tasks(t->events, EVENT_WAIT, "wait for", names, tasks, &t->wait));
  return session_trace(s, t->events, 0);
}

shoal_status task_trace_begin(task_trace *t, shoal_session *s, send_queue *c, char *const *names, int tasks) {
  if (!t->events) {
    shoal_status status = make(t, s, names, tasks);
    if (status) {
      s->events = NULL;
      task_trace_fini(t);
      return status;
    }
    send_queue_trace(c, t->events, t->send, t->events->tracks - 1);
  }
  for (int i = 0; i < t->events->tracks; i++) t->events->track[i].added = 0;
  t->awaited = -1;
  t->begun = 0;
  t->events->on = true;
  return NULL;
}

static void put_label(proto *p, const event_label *l) {
  size_t inside = proto_begin(p, TRACE_LABEL);
  proto_int(p, LABEL_KIND, l->kind);
  proto_text(p, LABEL_NAME, l->name);
  if (l->op) proto_text(p, LABEL_OP, l->op);
  if (l->kernel) proto_text(p, LABEL_KERNEL, l->kernel);
  proto_int(p, LABEL_PHASE, l->phase);
  proto_double(p, LABEL_FLOPS, l->flops);
  proto_double(p, LABEL_BYTES, l->bytes);
  proto_end(p, inside);
}

static shoal_status put_track(proto *p, const events *e, const event_track *track) {
  uint64_t keep = MIN_OF(track->added, (uint64_t)e->capacity);
  event_span *spans = calloc(keep + 1, sizeof *spans);
  if (!spans) return status_no_memory();
  for (uint64_t i = 0; i < keep; i++) spans[i] = track->spans[(track->added - keep + i) & (e->capacity - 1)];
  size_t inside = proto_begin(p, TRACE_TRACK);
  proto_int(p, TRACK_ADDED, (int64_t)track->added);
  proto_bytes(p, TRACK_SPANS, spans, keep * sizeof *spans);
  proto_end(p, inside);
  free(spans);
  return NULL;
}

shoal_status task_trace_end(task_trace *t, proto *out) {
  char clock[CLOCK_NAME];
  if (!t->events) return status_make(SHOAL_ERR_PEER, "nothing was recorded here");
  t->events->on = false;
  clock_name(clock);
  proto_text(out, TRACE_CLOCK, clock);
  for (uint32_t i = 0; i < t->events->n_labels; i++) put_label(out, &t->events->labels[i]);
  for (int i = 0; i < t->events->tracks; i++) TRY(put_track(out, t->events, &t->events->track[i]));
  return out->failed ? status_no_memory() : NULL;
}

void task_trace_fini(task_trace *t) {
  events_destroy(t->events);
  free(t->send);
  free(t->take);
  free(t->wait);
  *t = (task_trace){0};
}

void task_trace_run_begins(task_trace *t, uint64_t step) {
  t->awaited = -1;
  t->begun = 0;
  if (!events_on(t->events)) return;
  t->begun = events_now();
  t->events->step = (uint32_t)step;
}

void task_trace_run_ends(task_trace *t) {
  task_trace_awaits(t, -1);
  if (t->begun && events_on(t->events)) events_add(t->events, 0, t->run, t->begun, events_now(), 0);
  t->begun = 0;
}

void task_trace_awaits(task_trace *t, int task) {
  if (!t->begun || t->awaited == task) return;
  uint64_t now = events_now();
  if (t->awaited >= 0) events_add(t->events, 0, t->wait[t->awaited], t->since, now, 0);
  t->awaited = task;
  t->since = now;
}

void task_trace_took(task_trace *t, uint32_t from, uint64_t begun, size_t bytes) {
  if (begun) events_add(t->events, 0, t->take[from], begun, events_now(), (double)bytes);
}
