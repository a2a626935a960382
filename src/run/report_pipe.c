#include "run/report_pipe.h"

#include "base/json_read.h"
#include "base/json_text.h"

#include "cluster/launch.h"
#include "run/membership.h"
#include "run/record.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the writing end */

/* Sends {"key": value}. Takes `value`. */
static void send(const char *key, json_t *value) {
  json_t *o = json_object();
  char *line = !json_object_set_new(o, key, value) ? json_words(o, JSON_COMPACT) : NULL;
  json_decref(o);
  if (!line) return;
  size_t length = strlen(line), done = 0;
  line[length++] = '\n'; /* in place of the end */
  while (done < length) {
    ssize_t n = write(LAUNCH_REPORT_FD, line + done, length - done);
    if (n < 0 && errno != EINTR) break; /* nobody listens any more: this process ends with its parent */
    if (n > 0) done += (size_t)n;
  }
  free(line);
}

static void send_ready(void *context, int64_t parameters, int threads, int64_t rows) {
  send("ready", json_pack("{s:I, s:i, s:I}", "parameters", (json_int_t)parameters, "threads", threads, "rows",
                          (json_int_t)rows));
}

static void send_progress(void *context, bool epoch, const shoal_progress *p) {
  json_t *o = record_to_json(progress_record, p);
  json_object_set_new(o, "kind", json_string(epoch ? "epoch" : "step"));
  send("progress", o);
}

static void send_test(void *context, int64_t rows, const shoal_progress *p, const shoal_evaluation *e) {
  send("tested", json_pack("{s:I, s:o, s:o}", "rows", (json_int_t)rows, "progress", record_to_json(progress_record, p),
                           "test", record_to_json(evaluation_record, e)));
}

static void send_note(void *context, const char *line) { send("note", json_string(line)); }
static void send_membership(void *context, const shoal_membership_event *e) {
  send("membership", membership_to_json(e));
}
static void send_trace(void *context, json_t *part) { send("trace", part); }

/* Tasks that a process has started report to it themselves: none collects for others. */
static void drop_task(void *context, shoal_task_report *t) { task_report_fini(t); }

static void send_result(void *context, task_result *r) {
  json_t *o = json_object();
  json_object_set_new(o, "task", task_report_to_json(&r->task, true));
  if (r->trained) {
    json_object_set_new(o, "fit", record_to_json(fit_record, &r->fit));
    json_object_set_new(o, "test", record_to_json(evaluation_record, &r->test));
    json_object_set_new(o, "confusion", confusion_to_json(&r->confusion));
  }
  send("result", o);
  task_result_fini(r);
}

run_sink report_pipe_sink(void) {
  return (run_sink){.on_ready = send_ready,
                    .on_progress = send_progress,
                    .on_test = send_test,
                    .on_note = send_note,
                    .on_membership = send_membership,
                    .on_trace = send_trace,
                    .on_task = drop_task,
                    .on_result = send_result};
}

void report_pipe_fail(shoal_status status) {
  send("error",
       json_pack("{s:s, s:i}", "message", shoal_status_message(status), "code", (int)shoal_status_code(status)));
}

/* ---- the reading end */

static int64_t integer(const json_t *o, const char *key) { return json_integer_value(json_object_get(o, key)); }

static void read_ready(const json_t *o, const run_sink *s) {
  s->on_ready(s->context, integer(o, "parameters"), (int)integer(o, "threads"), integer(o, "rows"));
}

static void read_progress(const json_t *o, const run_sink *s) {
  const char *kind = json_string_value(json_object_get(o, "kind"));
  shoal_progress p = {0};
  record_from_json(progress_record, o, &p);
  s->on_progress(s->context, kind && !strcmp(kind, "epoch"), &p);
}

static void read_test(const json_t *o, const run_sink *s) {
  shoal_progress p = {0};
  shoal_evaluation e = {0};
  record_from_json(progress_record, json_object_get(o, "progress"), &p);
  record_from_json(evaluation_record, json_object_get(o, "test"), &e);
  s->on_test(s->context, integer(o, "rows"), &p, &e);
}

static void read_note(const json_t *o, const run_sink *s) {
  if (json_is_string(o)) s->on_note(s->context, json_string_value(o));
}

static void read_membership(const json_t *o, const run_sink *s) {
  const shoal_membership_event e = membership_from_json(o);
  s->on_membership(s->context, &e);
}

static void read_trace(const json_t *o, const run_sink *s) { s->on_trace(s->context, json_incref((json_t *)o)); }

static void read_result(const json_t *o, task_end *end) {
  const json_t *fit = json_object_get(o, "fit");
  task_result r = {.trained = fit != NULL, .test = evaluation_none()};
  shoal_status status = task_report_from_json(json_object_get(o, "task"), &r.task);
  if (!status) status = confusion_from_json(json_object_get(o, "confusion"), &r.confusion);
  record_from_json(fit_record, fit, &r.fit);
  record_from_json(evaluation_record, json_object_get(o, "test"), &r.test);
  if (status) {
    shoal_status_free(status); /* a task without a result has failed, and that is said */
    task_result_fini(&r);
    return;
  }
  if (end->has_result) task_result_fini(&end->result);
  end->has_result = true;
  end->result = r;
}

static void read_error(const json_t *o, task_end *end) {
  const char *message = json_string_value(json_object_get(o, "message"));
  if (end->error) return;
  end->error = strdup(message ? message : "an error without a message");
  end->code = (shoal_code)integer(o, "code");
}

static const struct {
  const char *key;
  void (*read)(const json_t *value, const run_sink *sink);
} kinds[] = {{"ready", read_ready}, {"progress", read_progress},     {"tested", read_test},
             {"note", read_note},   {"membership", read_membership}, {"trace", read_trace}};

void report_pipe_read(const char *line, const run_sink *sink, task_end *end) {
  json_t *o = json_read_words(line, 0, NULL);
  const json_t *value;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if ((value = json_object_get(o, kinds[i].key))) kinds[i].read(value, sink);
  if ((value = json_object_get(o, "result"))) read_result(value, end);
  if ((value = json_object_get(o, "error"))) read_error(value, end);
  json_decref(o);
}

void task_end_fini(task_end *e) {
  if (e->has_result) task_result_fini(&e->result);
  free(e->error);
  *e = (task_end){0};
}
