/* The part of trace.json that a page can draw: the first events, in little space.
 *
 * The file may be larger than memory, so it is read event by event: each is an object inside the list "traceEvents",
 * found by counting brackets. */
#include "base/json_read.h"
#include "base/mem.h"
#include "observe/report_run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define EVENTS_MAX 20000
#define EVENT_BYTES_MAX 65536
#define NAMES_MAX 4096

typedef struct {
  char **names;
  size_t count, capacity;
  text tasks, events; /* JSON so far */
  int drawn;
} trace_part;

static void part_fini(trace_part *p) {
  for (size_t i = 0; i < p->count; i++) free(p->names[i]);
  free(p->names);
  text_fini(&p->tasks);
  text_fini(&p->events);
}

/* The name's number; names over NAMES_MAX share the last. */
static shoal_status number_of(trace_part *p, const char *name, size_t *out) {
  for (size_t i = 0; i < p->count; i++)
    if (!strcmp(p->names[i], name) || i == NAMES_MAX - 1) {
      *out = i;
      return NULL;
    }
  TRY(mem_grow((void **)&p->names, &p->capacity, p->count + 1, sizeof *p->names));
  if (!(p->names[p->count] = strdup(name))) return status_no_memory();
  *out = p->count++;
  return NULL;
}

static shoal_status add_event(trace_part *p, const json_t *o) {
  const char *phase = json_string_value(json_object_get(o, "ph")),
             *name = json_string_value(json_object_get(o, "name"));
  const char *category = json_string_value(json_object_get(o, "cat"));
  long long task = json_integer_value(json_object_get(o, "pid")),
            thread = json_integer_value(json_object_get(o, "tid"));
  if (!phase || !name) return NULL;
  if (!strcmp(phase, "M")) {
    const char *called = json_string_value(json_object_get(json_object_get(o, "args"), "name"));
    if (!called || p->tasks.length > EVENT_BYTES_MAX) return NULL;
    text_add(&p->tasks, "%s[%lld,%lld,", p->tasks.length ? "," : "", task,
             !strcmp(name, "process_name") ? -1LL : thread);
    report_write_string(&p->tasks, called);
    text_add(&p->tasks, "]");
  }
  if (strcmp(phase, "X") || p->drawn == EVENTS_MAX) return NULL;
  size_t name_number, category_number;
  TRY(number_of(p, name, &name_number));
  TRY(number_of(p, category ? category : "", &category_number));
  text_add(&p->events, "%s[%lld,%lld,%zu,%zu,%.3f,%.3f]", p->drawn++ ? "," : "", task, thread, name_number,
           category_number, json_number_value(json_object_get(o, "ts")), json_number_value(json_object_get(o, "dur")));
  return NULL;
}

/* Goes on to just after `word` in quotes and the '[' that follows. */
static bool find_list(FILE *f, const char *word) {
  size_t n = strlen(word), at = 0;
  for (int c; (c = getc_unlocked(f)) != EOF;) {
    at = c == word[at] ? at + 1 : c == word[0] ? 1 : 0;
    if (at < n) continue;
    while ((c = getc_unlocked(f)) != EOF)
      if (c == '[') return true;
  }
  return false;
}

/* The next object's text; false at the end of the list, or at what is none. */
static bool next_object(FILE *f, char *buffer, bool *too_long) {
  int depth = 0, c;
  size_t n = 0;
  bool quoted = false, escaped = false;
  *too_long = false;
  while ((c = getc_unlocked(f)) != EOF) {
    if (!depth && c == ']') return false;
    if (!depth && c != '{') continue;
    if (n < EVENT_BYTES_MAX - 1)
      buffer[n++] = (char)c;
    else
      *too_long = true;
    if (quoted) {
      quoted = escaped || c != '"';
      escaped = !escaped && c == '\\';
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{' || c == '[') {
      depth++;
    } else if ((c == '}' || c == ']') && --depth == 0) {
      buffer[n] = 0;
      return true;
    }
  }
  return false;
}

static shoal_status read_events(FILE *f, trace_part *p) {
  char *buffer = malloc(EVENT_BYTES_MAX);
  if (!buffer) return status_no_memory();
  shoal_status status = NULL;
  bool too_long;
  while (!status && p->drawn < EVENTS_MAX && next_object(f, buffer, &too_long)) {
    json_t *o = too_long ? NULL : json_read_words(buffer, 0, NULL);
    if (o) status = add_event(p, o);
    json_decref(o);
  }
  free(buffer);
  return status;
}

shoal_status report_trace_write(const report_run *run, text *out) {
  char *path;
  if (asprintf(&path, "%s/trace.json", run->path) < 0) return status_no_memory();
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  free(path);
  FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
  if (!f) {
    if (fd >= 0) close(fd);
    text_add(out, "null");
    return NULL;
  }
  trace_part p = {0};
  shoal_status status = find_list(f, "\"traceEvents\"") ? read_events(f, &p) : NULL;
  fclose(f);
  if (!status) {
    text_add(out, "{\"cut\":%s,\"tasks\":[%s],\"names\":[", p.drawn == EVENTS_MAX ? "true" : "false",
             p.tasks.data ? p.tasks.data : "");
    for (size_t i = 0; i < p.count; i++) {
      if (i) text_add_bytes(out, ",", 1);
      report_write_string(out, p.names[i]);
    }
    text_add(out, "],\"events\":[");
    text_add_bytes(out, p.events.data ? p.events.data : "", p.events.length);
    text_add(out, "]}");
    if (p.tasks.failed || p.events.failed || out->failed) status = status_no_memory();
  }
  part_fini(&p);
  return status;
}
