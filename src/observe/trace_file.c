#include "observe/trace_file.h"

#include "base/clock.h"
#include "base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- parts */

json_t *trace_part(const events *e, const char *task, const double *ahead, int servers, size_t most) {
  char boot[CLOCK_NAME];
  clock_name(boot);
  json_t *labels = json_array(), *spans = json_array(), *clocks = json_array();
  int64_t lost = 0;
  for (int i = 0; i < servers; i++) json_array_append_new(clocks, json_real(ahead[i]));
  for (uint32_t i = 0; i < e->n_labels; i++) {
    const event_label *l = &e->labels[i];
    json_array_append_new(labels, json_pack("[i, s, s, s, i, f, f]", (int)l->kind, l->name, l->op ? l->op : "",
                                            l->kernel ? l->kernel : "", l->phase, l->flops, l->bytes));
  }
  for (int t = 0; t < e->tracks; t++) {
    const event_track *track = &e->track[t];
    uint64_t keep = MIN_OF(MIN_OF(track->added, (uint64_t)e->capacity), (uint64_t)most);
    lost += (int64_t)(track->added - keep);
    for (uint64_t i = track->added - keep; i < track->added; i++) {
      const event_span *s = &track->spans[i & (e->capacity - 1)];
      json_array_append_new(spans, json_pack("[i, I, I, I, I, f]", t, (json_int_t)s->label, (json_int_t)s->start,
                                             (json_int_t)(s->end - s->start), (json_int_t)s->step, s->amount));
    }
  }
  return json_pack("{s:s, s:s, s:f, s:o, s:I, s:o, s:o}", "task", task, "boot", boot, "fma_gflops", e->fma_gflops,
                   "ahead", clocks, "lost", (json_int_t)lost, "labels", labels, "spans", spans);
}

/* ---- one clock */

static const char *text_of(const json_t *o, const char *key) {
  const char *words = json_string_value(json_object_get(o, key));
  return words ? words : "";
}

static double ahead_of(const json_t *part, int server) {
  return json_number_value(json_array_get(json_object_get(part, "ahead"), (size_t)server));
}

/* Whose clock the timeline has: a graph's client, whose servers may be called workers, or who leads a training. */
static const json_t *chief_of(const json_t *parts) {
  static const char *const names[] = {"client/0", "chief/0", "worker/0"};
  size_t i;
  json_t *part;
  for (size_t k = 0; k < COUNT_OF(names); k++)
    json_array_foreach((json_t *)parts, i, part)
      if (!strcmp(text_of(part, "task"), names[k])) return part;
  return json_array_get(parts, 0);
}

/* Nanoseconds to add to the part's times. Machines that started at the same time are one. */
static int64_t shift_of(const json_t *part, const json_t *chief) {
  if (!strcmp(text_of(part, "boot"), text_of(chief, "boot"))) return 0;
  int server;
  double seconds = sscanf(text_of(part, "task"), "ps/%d", &server) == 1 ? -ahead_of(chief, server)
                                                                       : ahead_of(part, 0) - ahead_of(chief, 0);
  return (int64_t)(seconds * 1e9);
}

static int64_t at(const json_t *span, int i) { return json_integer_value(json_array_get(span, (size_t)i)); }
enum { SPAN_TRACK, SPAN_LABEL, SPAN_START, SPAN_LENGTH, SPAN_STEP, SPAN_AMOUNT };
enum { LABEL_KIND, LABEL_NAME, LABEL_OP, LABEL_KERNEL, LABEL_PHASE, LABEL_FLOPS, LABEL_BYTES };

static int64_t first_of(const json_t *parts, const json_t *chief) {
  int64_t first = INT64_MAX;
  size_t i, k;
  json_t *part, *span;
  json_array_foreach((json_t *)parts, i, part) {
    int64_t shift = shift_of(part, chief);
    json_array_foreach(json_object_get(part, "spans"), k, span) first = MIN_OF(first, at(span, SPAN_START) + shift);
  }
  return first == INT64_MAX ? 0 : first;
}

/* Servers first, then workers, each by number. */
static int by_task(const void *a, const void *b) {
  const char *x = text_of(*(json_t *const *)a, "task"), *y = text_of(*(json_t *const *)b, "task");
  size_t role = strcspn(x, "/");
  int order = strncmp(x, y, role + 1);
  return order ? order : atoi(x + role + 1) - atoi(y + role + 1);
}

/* ---- writing */

/* What all spans of a label have in common, up to the opening of their args; the caller frees it. */
static char *head_of(const json_t *label) {
  char *name = json_dumps(json_array_get(label, LABEL_NAME), JSON_ENCODE_ANY), *head = NULL;
  int64_t kind = at(label, LABEL_KIND);
  if (name && kind >= 0 && kind < EVENT_KINDS &&
      asprintf(&head, "\"ph\":\"X\",\"name\":%s,\"cat\":\"%s\"", name, event_kind_names[kind]) < 0)
    head = NULL;
  free(name);
  return head;
}

static void write_args(FILE *f, const json_t *label, const json_t *span) {
  double amount = json_number_value(json_array_get(span, SPAN_AMOUNT));
  fprintf(f, "\"step\":%lld", (long long)at(span, SPAN_STEP));
  if (at(label, LABEL_KIND) == EVENT_OP)
    fprintf(f, ",\"op\":\"%s\",\"kernel\":\"%s\",\"phase\":%lld,\"flops\":%.0f,\"bytes\":%.0f",
            json_string_value(json_array_get(label, LABEL_OP)), json_string_value(json_array_get(label, LABEL_KERNEL)),
            (long long)at(label, LABEL_PHASE), amount * json_number_value(json_array_get(label, LABEL_FLOPS)),
            amount * json_number_value(json_array_get(label, LABEL_BYTES)));
  else if (amount > 0)
    fprintf(f, ",\"bytes\":%.0f", amount);
}

static shoal_status write_part(FILE *f, const json_t *part, int pid, int64_t shift) {
  const json_t *labels = json_object_get(part, "labels"), *spans = json_object_get(part, "spans");
  size_t n = json_array_size(labels), i;
  char **heads = calloc(n + 1, sizeof *heads);
  char *task = json_dumps(json_object_get(part, "task"), JSON_ENCODE_ANY);
  bool good = heads && task;
  for (i = 0; i < n && good; i++) good = (heads[i] = head_of(json_array_get(labels, i))) != NULL;
  int64_t tracks = 0;
  json_t *span;
  if (good) {
    fprintf(f, "{\"ph\":\"M\",\"pid\":%d,\"tid\":0,\"name\":\"process_name\",\"args\":{\"name\":%s,", pid, task);
    fprintf(f, "\"fma_gflops\":%.1f}}", json_number_value(json_object_get(part, "fma_gflops")));
    json_array_foreach((json_t *)spans, i, span) {
      size_t label = (size_t)at(span, SPAN_LABEL);
      tracks = MAX_OF(tracks, at(span, SPAN_TRACK) + 1);
      if (label >= n) continue;
      fprintf(f, ",\n{%s,\"pid\":%d,\"tid\":%lld,\"ts\":%.3f,\"dur\":%.3f,\"args\":{", heads[label], pid,
              (long long)at(span, SPAN_TRACK), (double)(at(span, SPAN_START) + shift) / 1e3,
              (double)at(span, SPAN_LENGTH) / 1e3);
      write_args(f, json_array_get(labels, label), span);
      fputs("}}", f);
    }
    for (int64_t t = 0; t < tracks; t++)
      fprintf(f,
              ",\n{\"ph\":\"M\",\"pid\":%d,\"tid\":%lld,\"name\":\"thread_name\",\"args\":{\"name\":\"thread %lld\"}}",
              pid, (long long)t, (long long)t);
  }
  for (i = 0; heads && i < n; i++) free(heads[i]);
  free(heads);
  free(task);
  return good ? NULL : status_no_memory();
}

shoal_status trace_write(const json_t *parts, const char *path) {
  size_t n = json_array_size(parts);
  json_t **ordered = calloc(n + 1, sizeof *ordered);
  char *temporary;
  if (!ordered || asprintf(&temporary, "%s.tmp", path) < 0) {
    free(ordered);
    return status_no_memory();
  }
  for (size_t k = 0; k < n; k++) ordered[k] = json_array_get(parts, k);
  qsort(ordered, n, sizeof *ordered, by_task);
  FILE *f = fopen(temporary, "we");
  shoal_status status = f ? NULL : status_errno(errno, "cannot write %s", temporary);
  const json_t *chief = chief_of(parts);
  int64_t first = first_of(parts, chief), lost = 0;
  if (f) fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n", f);
  for (size_t k = 0; k < n && !status; k++) {
    if (k) fputs(",\n", f);
    lost += json_integer_value(json_object_get(ordered[k], "lost"));
    status = write_part(f, ordered[k], (int)k, shift_of(ordered[k], chief) - first);
  }
  free(ordered);
  if (f) {
    fprintf(f, "\n],\"otherData\":{\"clock\":\"%s\",\"lost\":%lld}}\n", text_of(chief, "task"), (long long)lost);
    bool bad = ferror(f) || fflush(f) || fsync(fileno(f));
    if ((fclose(f) || bad) && !status) status = status_errno(errno, "cannot write %s", temporary);
  }
  if (!status && rename(temporary, path)) status = status_errno(errno, "cannot rename %s to %s", temporary, path);
  if (status) unlink(temporary);
  free(temporary);
  return status;
}

/* ---- reading */

static int kind_of(const char *name) {
  for (int k = 0; k < EVENT_KINDS; k++)
    if (!strcmp(event_kind_names[k], name)) return k;
  return -1;
}

static shoal_status bad_event(const char *path, size_t i) {
  return status_make(SHOAL_ERR_INPUT, "%s: event %zu was not written by Shoal: expected a known cat, a name, "
                     "pid, tid, ts and dur", path, i);
}

static trace_row *row_of(trace_table *t, int kind, const char *name, size_t *capacity) {
  for (size_t i = 0; i < t->n_rows; i++)
    if ((int)t->rows[i].kind == kind && !strcmp(t->rows[i].name, name)) return &t->rows[i];
  if (t->n_rows == *capacity) {
    size_t larger = *capacity ? 2 * *capacity : 64;
    trace_row *grown = realloc(t->rows, larger * sizeof *grown);
    if (!grown) return NULL;
    t->rows = grown;
    *capacity = larger;
  }
  t->rows[t->n_rows] = (trace_row){.name = name, .kind = (event_kind)kind};
  return &t->rows[t->n_rows++];
}

static int by_time(const void *a, const void *b) {
  const trace_row *x = a, *y = b;
  if (x->kind != y->kind) return x->kind < y->kind ? -1 : 1;
  return x->seconds < y->seconds ? 1 : x->seconds > y->seconds ? -1 : 0;
}

static shoal_status read_tasks(const json_t *list, trace_table *t) {
  size_t i;
  json_t *event;
  json_array_foreach((json_t *)list, i, event) {
    int64_t pid = json_integer_value(json_object_get(event, "pid"));
    if (pid >= 0 && pid < 1 << 20 && (size_t)pid >= t->n_tasks) t->n_tasks = (size_t)pid + 1;
  }
  t->tasks = calloc(t->n_tasks + 1, sizeof *t->tasks);
  if (!t->tasks) return status_no_memory();
  json_array_foreach((json_t *)list, i, event) {
    size_t pid = (size_t)json_integer_value(json_object_get(event, "pid"));
    if (strcmp(text_of(event, "name"), "process_name") || pid >= t->n_tasks) continue;
    const json_t *about = json_object_get(event, "args");
    t->tasks[pid].task = text_of(about, "name");
    t->tasks[pid].fma_gflops = json_number_value(json_object_get(about, "fma_gflops"));
  }
  return NULL;
}

static shoal_status read_events(const json_t *list, const char *path, trace_table *t) {
  size_t i, capacity = 0;
  json_t *event;
  double *from = calloc(2 * (t->n_tasks + 1), sizeof *from), *until = from + t->n_tasks;
  if (!from) return status_no_memory();
  shoal_status status = NULL;
  json_array_foreach((json_t *)list, i, event) {
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
    trace_row *row = row_of(t, kind, name, &capacity);
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
    trace_task *task = &t->tasks[pid];
    row->possible += 1e9 * task->fma_gflops * seconds;
    if (!task->threads || begun < from[pid]) from[pid] = begun;
    until[pid] = MAX_OF(until[pid], begun + seconds);
    task->threads = (int)MAX_OF((int64_t)task->threads, tid + 1);
    if (tid == 0) task->by_kind[kind] += seconds;
    task->seconds = until[pid] - from[pid];
  }
  free(from);
  return status;
}

shoal_status trace_read(const char *path, trace_table *out) {
  json_error_t error;
  trace_table t = {.file = json_load_file(path, 0, &error)};
  if (!t.file)
    return status_make(SHOAL_ERR_INPUT, "%s: line %d: %s", path, error.line, error.text);
  const json_t *list = json_object_get(t.file, "traceEvents");
  shoal_status status =
      json_is_array(list) ? read_tasks(list, &t) : status_make(SHOAL_ERR_INPUT, "%s has no traceEvents", path);
  if (!status) status = read_events(list, path, &t);
  if (status) {
    trace_table_fini(&t);
    return status;
  }
  qsort(t.rows, t.n_rows, sizeof *t.rows, by_time);
  *out = t;
  return NULL;
}

void trace_table_fini(trace_table *t) {
  json_decref(t->file);
  free(t->rows);
  free(t->tasks);
  *t = (trace_table){0};
}
