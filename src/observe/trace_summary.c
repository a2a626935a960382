/* A timeline added up, by names and by tasks. */
#include "base/json_read.h"
#include "base/json_text.h"
#include "base/events.h"
#include "base/mem.h"
#include "shoal/observe.h"

#include <jansson.h>
#include <string.h>

_Static_assert((int)SHOAL_SPAN_KINDS == (int)EVENT_KINDS, "kinds of spans have the order of event_kind");

/* What shoal_trace_summary_destroy gets, the public part first. */
typedef struct {
  shoal_trace_summary found;
  json_t *file; /* names belong to it */
  shoal_trace_row *rows;
  shoal_trace_task *tasks;
  size_t n_rows, n_tasks;
} trace;

const char *shoal_span_kind_name(shoal_span_kind kind) { return event_kind_names[kind]; }

static const char *text_of(const json_t *o, const char *key) {
  const char *text = json_string_value(json_object_get(o, key));
  return text ? text : "";
}

static int kind_of(const char *name) {
  for (int k = 0; k < EVENT_KINDS; k++)
    if (!strcmp(event_kind_names[k], name)) return k;
  return -1;
}

static shoal_status bad_event(const char *path, size_t i) {
  return status_make(SHOAL_ERR_INPUT,
                     "%s: event %zu was not written by Shoal: expected a known cat, a name, "
                     "pid, tid, ts and dur",
                     path, i);
}

static shoal_trace_row *row_of(trace *t, int kind, const char *name, size_t *capacity) {
  for (size_t i = 0; i < t->n_rows; i++)
    if ((int)t->rows[i].kind == kind && !strcmp(t->rows[i].name, name)) return &t->rows[i];
  if (t->n_rows == *capacity) {
    size_t larger = *capacity ? 2 * *capacity : 64;
    shoal_trace_row *grown = realloc(t->rows, larger * sizeof *grown);
    if (!grown) return NULL;
    t->rows = grown;
    *capacity = larger;
  }
  t->rows[t->n_rows] = (shoal_trace_row){.name = name, .kind = (shoal_span_kind)kind};
  return &t->rows[t->n_rows++];
}

static int by_time(const void *a, const void *b) {
  const shoal_trace_row *x = a, *y = b;
  if (x->kind != y->kind) return x->kind < y->kind ? -1 : 1;
  return x->seconds < y->seconds ? 1 : x->seconds > y->seconds ? -1 : 0;
}

static shoal_status read_tasks(const json_t *list, trace *t) {
  size_t i;
  json_t *event;
  json_array_foreach ((json_t *)list, i, event) {
    int64_t pid = json_integer_value(json_object_get(event, "pid"));
    if (pid >= 0 && pid < 1 << 20 && (size_t)pid >= t->n_tasks) t->n_tasks = (size_t)pid + 1;
  }
  t->tasks = calloc(t->n_tasks + 1, sizeof *t->tasks);
  if (!t->tasks) return status_no_memory();
  json_array_foreach ((json_t *)list, i, event) {
    size_t pid = (size_t)json_integer_value(json_object_get(event, "pid"));
    if (strcmp(text_of(event, "name"), "process_name") || pid >= t->n_tasks) continue;
    const json_t *about = json_object_get(event, "args");
    t->tasks[pid].task = text_of(about, "name");
    t->tasks[pid].flops = 1e9 * json_number_value(json_object_get(about, "fma_gflops"));
  }
  return NULL;
}

static shoal_status read_events(const json_t *list, const char *path, trace *t) {
  size_t i, capacity = 0;
  json_t *event;
  double *from = calloc(2 * (t->n_tasks + 1), sizeof *from), *until = from + t->n_tasks;
  if (!from) return status_no_memory();
  shoal_status status = NULL;
  json_array_foreach ((json_t *)list, i, event) {
    if (strcmp(text_of(event, "ph"), "X")) continue;
    int kind = kind_of(text_of(event, "cat"));
    size_t pid = (size_t)json_integer_value(json_object_get(event, "pid"));
    int64_t tid = json_integer_value(json_object_get(event, "tid"));
    const char *name = json_string_value(json_object_get(event, "name"));
    const json_t *start = json_object_get(event, "ts"), *length = json_object_get(event, "dur");
    if (kind < 0 || !name || pid >= t->n_tasks || tid < 0 || !json_is_number(start) || !json_is_number(length)) {
      status = bad_event(path, i);
      break;
    }
    shoal_trace_row *row = row_of(t, kind, name, &capacity);
    if (!row) {
      status = status_no_memory();
      break;
    }
    const json_t *args = json_object_get(event, "args");
    double begun = 1e-6 * json_number_value(start), seconds = 1e-6 * json_number_value(length);
    row->calls++;
    row->seconds += seconds;
    row->flops += json_number_value(json_object_get(args, "flops"));
    row->bytes += json_number_value(json_object_get(args, "bytes"));
    row->kernel = json_string_value(json_object_get(args, "kernel"));
    shoal_trace_task *task = &t->tasks[pid];
    row->possible += task->flops * seconds;
    if (!task->threads || begun < from[pid]) from[pid] = begun;
    until[pid] = MAX_OF(until[pid], begun + seconds);
    task->threads = (int)MAX_OF((int64_t)task->threads, tid + 1);
    if (tid == 0) task->by_kind[kind] += seconds;
    task->seconds = until[pid] - from[pid];
  }
  free(from);
  return status;
}

static shoal_status read_file(const char *path, trace *t) {
  json_error_t error;
  t->file = json_read_file(path, 0, &error);
  if (!t->file) return status_make(SHOAL_ERR_INPUT, "%s: line %d: %s", path, error.line, error.text);
  const json_t *list = json_object_get(t->file, "traceEvents");
  if (!json_is_array(list)) return status_make(SHOAL_ERR_INPUT, "%s has no traceEvents", path);
  TRY(read_tasks(list, t));
  return read_events(list, path, t);
}

shoal_status shoal_trace_read(const char *path, shoal_trace_summary **out) {
  trace *t = calloc(1, sizeof *t);
  if (!t) return status_no_memory();
  shoal_status status = read_file(path, t);
  if (status) {
    shoal_trace_summary_destroy(&t->found);
    return status;
  }
  qsort(t->rows, t->n_rows, sizeof *t->rows, by_time);
  t->found = (shoal_trace_summary){.rows = t->rows, .n_rows = t->n_rows, .tasks = t->tasks, .n_tasks = t->n_tasks};
  *out = &t->found;
  return NULL;
}

void shoal_trace_summary_destroy(shoal_trace_summary *summary) {
  trace *t = (trace *)summary;
  if (!t) return;
  json_decref(t->file);
  free(t->rows);
  free(t->tasks);
  free(t);
}

shoal_status shoal_trace_summary_json(const shoal_trace_summary *t, char **out) {
  json_t *rows = json_array();
  for (size_t i = 0; i < t->n_rows; i++) {
    const shoal_trace_row *r = &t->rows[i];
    json_array_append_new(
        rows, json_pack("{s:s, s:s, s:s?, s:I, s:f, s:f, s:f, s:f}", "name", r->name, "kind",
                        shoal_span_kind_name(r->kind), "kernel", r->kernel, "calls", (json_int_t)r->calls, "seconds",
                        r->seconds, "flops", r->flops, "possible_flops", r->possible, "bytes", r->bytes));
  }
  return json_text(rows, 0, out);
}
