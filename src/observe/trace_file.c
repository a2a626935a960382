#include "observe/trace_file.h"

#include "base/clock.h"
#include "base/json_text.h"
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
    json_array_foreach ((json_t *)parts, i, part)
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
  json_array_foreach ((json_t *)parts, i, part) {
    int64_t shift = shift_of(part, chief);
    json_array_foreach (json_object_get(part, "spans"), k, span) first = MIN_OF(first, at(span, SPAN_START) + shift);
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
  char *name = json_words(json_array_get(label, LABEL_NAME), JSON_ENCODE_ANY), *head = NULL;
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
  char *task = json_words(json_object_get(part, "task"), JSON_ENCODE_ANY);
  bool good = heads && task;
  for (i = 0; i < n && good; i++) good = (heads[i] = head_of(json_array_get(labels, i))) != NULL;
  int64_t tracks = 0;
  json_t *span;
  if (good) {
    fprintf(f, "{\"ph\":\"M\",\"pid\":%d,\"tid\":0,\"name\":\"process_name\",\"args\":{\"name\":%s,", pid, task);
    fprintf(f, "\"fma_gflops\":%.1f}}", json_number_value(json_object_get(part, "fma_gflops")));
    json_array_foreach ((json_t *)spans, i, span) {
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
