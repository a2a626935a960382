#include "dist/graph_trace.h"

#include "base/clock.h"
#include "base/mem.h"
#include "dist/graph_protocol.h"

#include <stdio.h>
#include <string.h>

enum { PINGS = 16, TRACKS_MAX = 2048, LABELS_MAX = 1 << 24 };
#define ANSWER_SECONDS 20.0

/* What the client itself does. */
struct cluster_trace {
  events *events;
  uint32_t run, wait;
  uint32_t *send; /* [n_tasks] */
};

/* ---- recording */

void cluster_trace_destroy(struct cluster_trace *t) {
  if (!t) return;
  events_destroy(t->events);
  free(t->send);
  free(t);
}

static shoal_status make_own(cluster_session *c) {
  struct cluster_trace *t = c->trace = calloc(1, sizeof *t);
  if (!t || !(t->send = calloc((size_t)c->n_tasks, sizeof *t->send))) return status_no_memory();
  TRY(events_create(1, GRAPH_SPANS, &t->events));
  TRY(events_label(t->events, &(event_label){.kind = EVENT_STEP, .name = "run"}, &t->run));
  TRY(events_label(t->events, &(event_label){.kind = EVENT_WAIT, .name = "wait for tasks"}, &t->wait));
  for (int i = 0; i < c->n_tasks; i++) {
    char task[DEVICE_TEXT], name[DEVICE_TEXT + 32];
    graph_task_short(c->tasks[i].name, task);
    snprintf(name, sizeof name, "send to %s", task);
    TRY(events_label(t->events, &(event_label){.kind = EVENT_MESSAGE, .name = name}, &t->send[i]));
  }
  return NULL;
}

shoal_status cluster_trace_begin(cluster_session *c) {
  shoal_status status = c->trace ? NULL : make_own(c);
  if (status) {
    cluster_trace_destroy(c->trace);
    c->trace = NULL;
    return status;
  }
  for (int t = 0; t < c->n_tasks && !status; t++) status = cluster_ask(c, t, GRAPH_TRACE, 1, NULL, 0);
  TRY(cluster_await(c, GRAPH_TRACE, NULL, NULL, ANSWER_SECONDS, status));
  c->trace->events->track[0].added = 0;
  c->trace->events->on = true;
  return NULL;
}

uint64_t cluster_trace_now(const cluster_session *c) { return c->trace && c->trace->events->on ? events_now() : 0; }

void cluster_trace_sent(cluster_session *c, int task, uint64_t begun, uint64_t bytes) {
  if (begun) events_add(c->trace->events, 0, c->trace->send[task], begun, events_now(), (double)bytes);
}

void cluster_trace_ran(cluster_session *c, uint64_t begun, uint64_t sent, uint64_t step) {
  if (!begun) return;
  uint64_t now = events_now();
  events_add(c->trace->events, 0, c->trace->wait, sent, now, 0);
  events_add(c->trace->events, 0, c->trace->run, begun, now, 0);
  c->trace->events->step = (uint32_t)(step + 1);
}

/* ---- collecting */

static shoal_status nonsense(void) { return status_make(SHOAL_ERR_PEER, "an invalid timeline"); }

/* Text that lives as long as the timeline. */
static shoal_status keep_text(graph_timeline *t, const proto_reader *r, const char **out) {
  char **grown = realloc(t->texts, (t->n_texts + 1) * sizeof *grown);
  if (!grown) return status_no_memory();
  t->texts = grown;
  char *words = proto_as_text(r);
  if (!words) return nonsense();
  t->texts[t->n_texts++] = words;
  *out = words;
  return NULL;
}

static shoal_status read_label(graph_timeline *t, proto_reader r) {
  event_label l = {.kind = EVENT_KINDS};
  const char *name = NULL;
  while (proto_next(&r)) {
    switch (r.field) {
      case LABEL_KIND: l.kind = r.number < EVENT_KINDS ? (event_kind)r.number : EVENT_KINDS; break;
      case LABEL_NAME: TRY(keep_text(t, &r, &name)); break;
      case LABEL_OP: TRY(keep_text(t, &r, &l.op)); break;
      case LABEL_KERNEL: TRY(keep_text(t, &r, &l.kernel)); break;
      case LABEL_PHASE: l.phase = (int)r.number; break;
      case LABEL_FLOPS: l.flops = proto_as_double(&r); break;
      case LABEL_BYTES: l.bytes = proto_as_double(&r); break;
      default: break;
    }
  }
  uint32_t number;
  l.name = (char *)name;
  if (r.wrong || !name || l.kind == EVENT_KINDS || t->events->n_labels == LABELS_MAX) return nonsense();
  return events_label(t->events, &l, &number);
}

/* shift: nanoseconds to be added to its times. */
static shoal_status read_track(graph_timeline *t, int track, proto_reader r, int64_t shift) {
  event_track *to = &t->events->track[track];
  uint64_t added = 0, n = 0;
  const uint8_t *bytes = NULL;
  while (proto_next(&r)) {
    if (r.field == TRACK_ADDED) added = r.number;
    if (r.field != TRACK_SPANS) continue;
    bytes = r.bytes;
    n = r.length / sizeof(event_span);
    if (!bytes || r.length % sizeof(event_span)) return nonsense();
  }
  if (r.wrong || n > t->events->capacity || n > added) return nonsense();
  to->added = added;
  for (uint64_t i = 0; i < n; i++) {
    event_span *s = &to->spans[(added - n + i) & (t->events->capacity - 1)];
    memcpy(s, bytes + i * sizeof *s, sizeof *s);
    if (s->label >= t->events->n_labels || s->end < s->start) return nonsense();
    s->start += (uint64_t)shift;
    s->end += (uint64_t)shift;
  }
  return NULL;
}

static shoal_status read_timeline(graph_timeline *t, const void *payload, size_t n, double ahead) {
  int tracks = 0, track = 0;
  char own[CLOCK_NAME];
  int64_t shift = -(int64_t)(ahead * 1e9);
  clock_name(own);
  proto_reader r = proto_read(payload, n);
  while (proto_next(&r)) tracks += r.field == TRACE_TRACK;
  if (r.wrong || tracks < 1 || tracks > TRACKS_MAX) return nonsense();
  TRY(events_create(tracks, GRAPH_SPANS, &t->events));
  r = proto_read(payload, n);
  while (proto_next(&r)) {
    if (r.field == TRACE_CLOCK && r.length && r.length == strlen(own) && !memcmp(r.bytes, own, r.length))
      shift = 0; /* the same machine: its clock is this one */
    if (r.field == TRACE_LABEL) TRY(read_label(t, proto_inside(&r)));
    if (r.field == TRACE_TRACK) TRY(read_track(t, track++, proto_inside(&r), shift));
  }
  return r.wrong ? nonsense() : NULL;
}

typedef struct {
  graph_timeline *lines;  /* [1 + tasks] */
  clock_estimate *clocks; /* [tasks] */
  double sent;
} collecting;

static shoal_status take_clock(cluster_session *c, int task, const net_message *m, void *context) {
  (void)c;
  collecting *k = context;
  double there = 1e-9 * (double)m->header.number;
  clock_note(&k->clocks[task], k->sent, there, there, clock_seconds());
  return NULL;
}

static shoal_status take_timeline(cluster_session *c, int task, const net_message *m, void *context) {
  collecting *k = context;
  graph_task_short(c->tasks[task].name, k->lines[task + 1].task);
  return read_timeline(&k->lines[task + 1], m->payload, m->bytes, k->clocks[task].ahead);
}

/* What the client recorded itself, as a copy. */
static shoal_status copy_own(const cluster_session *c, graph_timeline *t) {
  const events *from = c->trace->events;
  snprintf(t->task, sizeof t->task, "client/0");
  TRY(events_create(1, from->capacity, &t->events));
  for (uint32_t i = 0; i < from->n_labels; i++) {
    uint32_t number;
    TRY(events_label(t->events, &from->labels[i], &number));
  }
  memcpy(t->events->track[0].spans, from->track[0].spans, from->capacity * sizeof(event_span));
  t->events->track[0].added = from->track[0].added;
  return NULL;
}

static shoal_status collect(cluster_session *c, collecting *k) {
  TRY(copy_own(c, &k->lines[0]));
  for (int t = 0; t < c->n_tasks; t++)
    for (int i = 0; i < PINGS; i++) {
      k->sent = clock_seconds();
      shoal_status asked = cluster_ask(c, t, GRAPH_CLOCK, 0, NULL, 0);
      TRY(cluster_await(c, GRAPH_CLOCK, take_clock, k, ANSWER_SECONDS, asked));
    }
  shoal_status status = NULL;
  for (int t = 0; t < c->n_tasks && !status; t++) status = cluster_ask(c, t, GRAPH_TRACE, 0, NULL, 0);
  return cluster_await(c, GRAPH_TRACE, take_timeline, k, ANSWER_SECONDS, status);
}

shoal_status cluster_trace_end(cluster_session *c, graph_timeline **out, int *n) {
  if (!c->trace || !c->trace->events->on)
    return status_make(SHOAL_ERR_ARGUMENT, "no timeline is being recorded: begin one first");
  c->trace->events->on = false;
  collecting k = {.lines = calloc((size_t)c->n_tasks + 1, sizeof *k.lines),
                  .clocks = calloc((size_t)c->n_tasks, sizeof *k.clocks)};
  shoal_status status = k.lines && k.clocks ? collect(c, &k) : status_no_memory();
  free(k.clocks);
  if (status) {
    graph_timelines_destroy(k.lines, k.lines ? c->n_tasks + 1 : 0);
    return status;
  }
  *out = k.lines;
  *n = c->n_tasks + 1;
  return NULL;
}

void graph_timelines_destroy(graph_timeline *t, int n) {
  for (int i = 0; i < n; i++) {
    events_destroy(t[i].events);
    for (size_t k = 0; k < t[i].n_texts; k++) free(t[i].texts[k]);
    free(t[i].texts);
  }
  free(t);
}
