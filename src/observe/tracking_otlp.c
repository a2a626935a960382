/* OpenTelemetry: metrics as OTLP over HTTP, in JSON, to a collector. Numbers are gauges called shoal.NAME; steps and examples are
 * sums that only rise. */
#include "base/json_text.h"
#include "base/mem.h"
#include "observe/http_client.h"
#include "observe/tracking.h"
#include "shoal/version.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CUMULATIVE 2 /* AGGREGATION_TEMPORALITY_CUMULATIVE */

typedef struct {
  http_url url;
  char *headers;  /* of OTEL_EXPORTER_OTLP_HEADERS; NULL: none */
  char start[32]; /* nanoseconds since 1970 */
} otlp;

static shoal_status check(const char *target) {
  http_url url;
  return http_url_read(target, &url);
}

static void destroy(void *state) {
  otlp *o = state;
  if (o) free(o->headers);
  free(o);
}

/* "key=value,key2=value2" to lines of a request. */
static char *read_headers(const char *words) {
  text out = {0};
  char *copy = words ? strdup(words) : NULL, *rest = copy, *one;
  while (copy && (one = strsep(&rest, ","))) {
    char *equals = strchr(one, '=');
    if (!equals || strpbrk(one, "\r\n")) continue;
    *equals = 0;
    text_add(&out, "%s: %s\r\n", one, equals + 1);
  }
  free(copy);
  return out.data;
}

static shoal_status begin(const tracked_run *run, void **state) {
  otlp *o = calloc(1, sizeof *o);
  if (!o) return status_no_memory();
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  snprintf(o->start, sizeof o->start, "%lld%09ld", (long long)t.tv_sec, t.tv_nsec);
  o->headers = read_headers(getenv("OTEL_EXPORTER_OTLP_HEADERS"));
  shoal_status status = http_url_read(run->target, &o->url);
  if (status)
    destroy(o);
  else
    *state = o;
  return status;
}

static json_t *attribute(const char *key, const char *value) {
  return json_pack("{s:s, s:{s:s}}", "key", key, "value", "stringValue", value);
}

/* ---- points of each metric, by name */

typedef struct {
  const otlp *o;
  json_t *metrics; /* an object: name to a list of points */
  char time[32];   /* nanoseconds since 1970 */
  const char *task;
} point_writer;

static void add_point(void *context, const char *name, double value) {
  point_writer *w = context;
  json_t *points = json_object_get(w->metrics, name);
  if (!points) {
    points = json_array();
    json_object_set_new(w->metrics, name, points);
  }
  json_array_append_new(points, json_pack("{s:s, s:s, s:f, s:[o]}", "startTimeUnixNano", w->o->start, "timeUnixNano",
                                          w->time, "asDouble", value, "attributes", attribute("task", w->task)));
}

static bool only_rises(const char *name) { return !strcmp(name, "steps") || !strcmp(name, "examples"); }

static json_t *metric_of(const char *key, json_t *points) {
  char name[160];
  snprintf(name, sizeof name, "shoal.%s", key);
  if (only_rises(key))
    return json_pack("{s:s, s:{s:i, s:b, s:O}}", "name", name, "sum", "aggregationTemporality", CUMULATIVE,
                     "isMonotonic", 1, "dataPoints", points);
  return json_pack("{s:s, s:{s:O}}", "name", name, "gauge", "dataPoints", points);
}

static json_t *request_of(const tracked_run *run, json_t *by_name) {
  json_t *metrics = json_array(), *points;
  const char *key, *service = tracking_variable("OTEL_SERVICE_NAME");
  json_object_foreach (by_name, key, points) json_array_append_new(metrics, metric_of(key, points));
  return json_pack("{s:[{s:{s:[o, o, o]}, s:[{s:{s:s, s:s}, s:o}]}]}", "resourceMetrics", "resource", "attributes",
                   attribute("service.name", service ? service : "shoal"), attribute("shoal.run", run->folder),
                   attribute("shoal.model", run->model), "scopeMetrics", "scope", "name", "shoal", "version",
                   shoal_version(), "metrics", metrics);
}

static shoal_status post(const otlp *o, const tracked_run *run, json_t *request) {
  char *words = request ? json_words(request, JSON_COMPACT) : NULL;
  text answer = {0};
  int code = 0;
  json_decref(request);
  if (!words) return status_no_memory();
  shoal_status status = http_request(&o->url,
                                     &(http_call){.method = "POST",
                                                  .path = "/v1/metrics",
                                                  .headers = o->headers,
                                                  .body = words,
                                                  .ca = tracking_variable("OTEL_EXPORTER_OTLP_CERTIFICATE"),
                                                  .seconds = tracking_seconds(run)},
                                     &code, &answer);
  if (!status && code / 100 != 2)
    status = status_make(SHOAL_ERR_PEER, "/v1/metrics: HTTP status %d: %.200s", code, answer.data ? answer.data : "");
  free(words);
  text_fini(&answer);
  return status;
}

static shoal_status send(void *state, const tracked_run *run, json_t *const *lines, size_t n) {
  const otlp *o = state;
  point_writer w = {.o = o, .metrics = json_object()};
  for (size_t i = 0; i < n; i++) {
    const double time = json_number_value(json_object_get(lines[i], "time"));
    const char *task = json_string_value(json_object_get(lines[i], "task"));
    const bool tests = json_object_get(lines[i], "split") != NULL;
    w.task = task ? task : "";
    snprintf(w.time, sizeof w.time, "%.0f000", 1e6 * time);
    tracking_numbers(lines[i], &w, add_point);
    if (!tests) add_point(&w, "steps", json_number_value(json_object_get(lines[i], "step")));
  }
  json_t *request = request_of(run, w.metrics);
  json_decref(w.metrics);
  return post(o, run, request);
}

/* Its metrics simply end. */
static shoal_status end(void *state, const tracked_run *run, bool finished, bool stopped) { return NULL; }

const tracking_kind tracking_otlp = {
    .name = "otlp",
    .variable = "OTEL_EXPORTER_OTLP_ENDPOINT",
    .check = check,
    .begin = begin,
    .send = send,
    .end = end,
    .destroy = destroy,
};
