/* Timelines of sessions, of one process or over a cluster, as files. */
#include "dist/graph_trace.h"
#include "observe/trace_file.h"

static shoal_status begin_here(shoal_session *s) {
  if (s->events && !s->owns_events)
    return status_make(SHOAL_ERR_ARGUMENT, "this session's timeline is recorded by the training loop already");
  if (!s->events) {
    events *e;
    TRY(events_create(pool_threads(s->threads), GRAPH_SPANS, &e));
    shoal_status status = events_label(e, &(event_label){.kind = EVENT_STEP, .name = "run"}, &s->run_label);
    if (!status) status = session_trace(s, e, 0);
    if (status) {
      s->events = NULL;
      events_destroy(e);
      return status;
    }
    s->owns_events = true;
  }
  for (int i = 0; i < s->events->tracks; i++) s->events->track[i].added = 0;
  s->events->on = true;
  return NULL;
}

shoal_status shoal_session_trace_begin(shoal_session *s) {
  cluster_session *c = cluster_of(s);
  return c ? cluster_trace_begin(c) : begin_here(s);
}

static shoal_status write_lines(const graph_timeline *lines, int n, const char *path) {
  json_t *parts = json_array();
  shoal_status status = parts ? NULL : status_no_memory();
  for (int i = 0; i < n && !status; i++) {
    json_t *part = trace_part(lines[i].events, lines[i].task, NULL, 0, SIZE_MAX);
    if (!part || json_array_append_new(parts, part)) status = status_no_memory();
  }
  if (!status) status = trace_write(parts, path);
  json_decref(parts);
  return status;
}

shoal_status shoal_session_trace_end(shoal_session *s, const char *path) {
  cluster_session *c = cluster_of(s);
  if (c) {
    graph_timeline *lines;
    int n;
    TRY(cluster_trace_end(c, &lines, &n));
    shoal_status status = write_lines(lines, n, path);
    graph_timelines_destroy(lines, n);
    return status;
  }
  if (!s->owns_events || !s->events->on)
    return status_make(SHOAL_ERR_ARGUMENT, "no timeline is being recorded: begin one first");
  s->events->on = false;
  return write_lines(&(graph_timeline){.task = "client/0", .events = s->events}, 1, path);
}
