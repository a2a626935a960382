#include "run/task_report.h"

#include "base/mem.h"
#include "run/record.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BINS_MAX 1024
#define WORKERS_MAX 4096

shoal_task_report task_report_begin(const char *role, int index, const char *name) {
  shoal_task_report t = {.index = index,
                         .pid = getpid(),
                         .steps = -1,
                         .test_accuracy = NAN,
                         .test_rmse = NAN,
                         .test_r2 = NAN,
                         .updates = -1,
                         .evaluations = -1,
                         .last_loss = NAN,
                         .last_accuracy = NAN,
                         .last_rmse = NAN};
  snprintf(t.role, sizeof t.role, "%s", role);
  if (name)
    snprintf(t.name, sizeof t.name, "%s", name);
  else
    snprintf(t.name, sizeof t.name, "%s/%d", role, index);
  gethostname(t.host, sizeof t.host - 1);
  return t;
}

void task_report_fini(shoal_task_report *t) {
  free(t->counts);
  free(t->staleness_histogram);
  t->counts = NULL;
  t->staleness_histogram = NULL;
  t->counted = t->staleness_bins = 0;
}

/* ---- tables */

#define T shoal_task_report
static const record_field head_fields[] = {
    RECORD_INT32_OF(T, index),
    RECORD_INT32_OF(T, pid),
    RECORD_REAL_OF(T, seconds),
    RECORD_REAL_NAMED("cpu_percent_mean", T, use.cpu_percent_mean),
    RECORD_REAL_NAMED("cpu_percent_peak", T, use.cpu_percent_peak),
    RECORD_INT_NAMED("rss_peak_bytes", T, use.rss_peak_bytes),
    RECORD_INT_OF(T, net_sent_bytes),
    RECORD_INT_OF(T, net_received_bytes),
    RECORD_INT_NAMED("disk_read_bytes", T, use.disk_read_bytes),
    RECORD_INT_NAMED("disk_written_bytes", T, use.disk_written_bytes),
    RECORD_REAL_NAMED("cpu_user_seconds", T, use.cpu_user_seconds),
    RECORD_REAL_NAMED("cpu_system_seconds", T, use.cpu_system_seconds),
    RECORD_INT_NAMED("rss_mean_bytes", T, use.rss_mean_bytes),
    RECORD_INT32_NAMED("samples", T, use.samples),
    {0},
};
static const record_field worker_fields[] = {
    RECORD_INT32_OF(T, threads),
    RECORD_INT_OF(T, steps),
    RECORD_INT_OF(T, examples),
    RECORD_REAL_OF(T, test_accuracy),
    {0},
};
static const record_field regression_fields[] = {RECORD_REAL_OF(T, test_rmse), RECORD_REAL_OF(T, test_r2), {0}};
static const record_field sparse_fields[] = {RECORD_INT_OF(T, touched_rows), RECORD_INT_OF(T, exchanged_bytes), {0}};
static const record_field server_fields[] = {
    RECORD_REAL_OF(T, busy_seconds),  RECORD_INT_OF(T, updates),          RECORD_INT_OF(T, handed_on_rows),
    RECORD_INT_OF(T, uneven_updates), RECORD_INT_OF(T, refused_messages), {0},
};
static const record_field table_fields[] = {RECORD_INT_OF(T, asked_rows), RECORD_REAL_OF(T, hot_share), {0}};
static const record_field staleness_fields[] = {
    RECORD_REAL_NAMED("mean", T, staleness_mean),  RECORD_INT_NAMED("max", T, staleness_max),
    RECORD_INT_NAMED("most", T, staleness_max), /* the older name of `max` */
    RECORD_INT_NAMED("ahead", T, staleness_ahead), {0},
};
static const record_field evaluator_fields[] = {
    RECORD_INT_NAMED("count", T, evaluations),
    RECORD_REAL_NAMED("seconds", T, evaluation_seconds),
    RECORD_REAL_OF(T, last_loss),
    RECORD_REAL_OF(T, last_accuracy),
    RECORD_REAL_OF(T, last_rmse),
    {0},
};
#undef T

static const record_field time_fields[] = {
    RECORD_REAL_NAMED("compute_seconds", shoal_times, compute),
    RECORD_REAL_NAMED("network_seconds", shoal_times, network),
    RECORD_REAL_NAMED("barrier_seconds", shoal_times, barrier),
    RECORD_REAL_NAMED("server_seconds", shoal_times, server),
    RECORD_REAL_NAMED("input_seconds", shoal_times, input),
    {0},
};

#define H shoal_host_usage
static const record_field host_fields[] = {
    RECORD_INT32_OF(H, cores),
    RECORD_INT_OF(H, memory_bytes),
    RECORD_REAL_OF(H, cpu_percent_mean),
    RECORD_REAL_OF(H, cpu_percent_peak),
    RECORD_INT_OF(H, memory_used_mean_bytes),
    RECORD_INT_OF(H, memory_used_peak_bytes),
    RECORD_INT_OF(H, net_sent_bytes),
    RECORD_INT_OF(H, net_received_bytes),
    RECORD_INT_OF(H, disk_read_bytes),
    RECORD_INT_OF(H, disk_written_bytes),
    {0},
};
#undef H

/* One list for each count, with a number for each worker. */
static const struct {
  const char *key;
  size_t offset;
} count_lists[] = {{"gradients", offsetof(shoal_worker_counts, gradients)},
                   {"gradient_examples", offsetof(shoal_worker_counts, examples)},
                   {"late_gradients", offsetof(shoal_worker_counts, late)},
                   {"joins", offsetof(shoal_worker_counts, joins)},
                   {"late_joins", offsetof(shoal_worker_counts, late_joins)},
                   {"deaths", offsetof(shoal_worker_counts, deaths)}};

/* ---- writing */

json_t *host_usage_to_json(const shoal_host_usage *use, const char *name) {
  json_t *o = json_object(), *numbers = record_to_json(host_fields, use);
  if (o) json_object_set_new(o, "host", json_string(name));
  if (o && numbers) json_object_update(o, numbers);
  json_decref(numbers);
  return o;
}

static void add(json_t *o, const record_field *fields, const void *record) {
  json_t *more = record_to_json(fields, record);
  json_object_update(o, more);
  json_decref(more);
}

static json_t *times_json(const shoal_times *t) {
  const double sum = t->compute + t->network + t->barrier + t->server + t->input;
  const shoal_times shares = {.compute = t->compute / sum,
                              .network = t->network / sum,
                              .barrier = t->barrier / sum,
                              .server = t->server / sum,
                              .input = t->input / sum};
  static const record_field share_fields[] = {
      RECORD_REAL_OF(shoal_times, compute), RECORD_REAL_OF(shoal_times, network), RECORD_REAL_OF(shoal_times, barrier),
      RECORD_REAL_OF(shoal_times, server),  RECORD_REAL_OF(shoal_times, input),   {0},
  };
  json_t *o = record_to_json(time_fields, t);
  json_object_set_new(o, "shares", record_to_json(share_fields, &shares));
  return o;
}

static json_t *numbers_json(const void *first, size_t stride, int n) {
  json_t *list = json_array();
  for (int i = 0; i < n; i++)
    json_array_append_new(list, json_integer(*(const int64_t *)((const char *)first + (size_t)i * stride)));
  return list;
}

static void add_server(json_t *o, const shoal_task_report *t) {
  add(o, server_fields, t);
  for (size_t i = 0; i < COUNT_OF(count_lists); i++)
    json_object_set_new(o, count_lists[i].key,
                        numbers_json((const char *)t->counts + count_lists[i].offset, sizeof *t->counts, t->counted));
  json_t *staleness = record_to_json(staleness_fields, t);
  json_object_set_new(staleness, "histogram", numbers_json(t->staleness_histogram, sizeof(int64_t), t->staleness_bins));
  json_object_set_new(o, "staleness", staleness);
}

json_t *task_report_to_json(const shoal_task_report *t, bool host_use) {
  json_t *o = json_object();
  if (!o) return NULL;
  json_object_set_new(o, "role", json_string(t->role));
  add(o, head_fields, t);
  json_object_set_new(o, "name", json_string(t->name));
  json_object_set_new(o, "host", json_string(t->host));
  if (host_use && t->use.host.known) json_object_set_new(o, "host_use", host_usage_to_json(&t->use.host, t->host));
  if (t->steps >= 0) {
    json_object_set_new(o, "time", times_json(&t->times));
    add(o, worker_fields, t);
    if (!t->threads) json_object_del(o, "threads");
    if (isfinite(t->test_rmse)) add(o, regression_fields, t);
    if (t->touched_rows) add(o, sparse_fields, t);
  }
  if (t->updates >= 0) add_server(o, t);
  if (t->updates >= 0 && t->asked_rows) add(o, table_fields, t);
  if (t->evaluations >= 0) json_object_set_new(o, "evaluations", record_to_json(evaluator_fields, t));
  return o;
}

/* ---- reading */

static void take_text(const json_t *o, const char *key, char *out, size_t size) {
  const char *words = json_string_value(json_object_get(o, key));
  if (words) snprintf(out, size, "%s", words);
}

static int length_of(const json_t *list, size_t most) { return (int)MIN_OF(json_array_size(list), most); }

static shoal_status take_server(const json_t *o, shoal_task_report *t) {
  const json_t *staleness = json_object_get(o, "staleness"), *bins = json_object_get(staleness, "histogram");
  record_from_json(server_fields, o, t);
  record_from_json(table_fields, o, t);
  record_from_json(staleness_fields, staleness, t);
  t->counted = length_of(json_object_get(o, count_lists[0].key), WORKERS_MAX);
  t->staleness_bins = length_of(bins, BINS_MAX);
  t->counts = calloc((size_t)t->counted + 1, sizeof *t->counts);
  t->staleness_histogram = calloc((size_t)t->staleness_bins + 1, sizeof *t->staleness_histogram);
  if (!t->counts || !t->staleness_histogram) return status_no_memory();
  for (size_t k = 0; k < COUNT_OF(count_lists); k++) {
    const json_t *list = json_object_get(o, count_lists[k].key);
    for (int i = 0; i < t->counted; i++)
      *(int64_t *)((char *)&t->counts[i] + count_lists[k].offset) = json_integer_value(json_array_get(list, (size_t)i));
  }
  for (int i = 0; i < t->staleness_bins; i++)
    t->staleness_histogram[i] = json_integer_value(json_array_get(bins, (size_t)i));
  return NULL;
}

shoal_status task_report_from_json(const json_t *object, shoal_task_report *out) {
  const char *role = json_string_value(json_object_get(object, "role"));
  if (!role) return status_make(SHOAL_ERR_PEER, "a task's report cannot be read");
  shoal_task_report t = task_report_begin(role, 0, "");
  const json_t *use = json_object_get(object, "host_use"), *tests = json_object_get(object, "evaluations");
  record_from_json(head_fields, object, &t);
  record_from_json(worker_fields, object, &t);
  record_from_json(regression_fields, object, &t);
  record_from_json(sparse_fields, object, &t);
  record_from_json(time_fields, json_object_get(object, "time"), &t.times);
  record_from_json(evaluator_fields, tests, &t);
  take_text(object, "name", t.name, sizeof t.name);
  take_text(object, "host", t.host, sizeof t.host);
  if (use) record_from_json(host_fields, use, &t.use.host);
  t.use.host.known = use != NULL;
  shoal_status status = json_object_get(object, "updates") ? take_server(object, &t) : NULL;
  if (status)
    task_report_fini(&t);
  else
    *out = t;
  return status;
}

/* ---- lists */

shoal_status task_reports_add(task_reports *list, shoal_task_report *t) {
  TRY(mem_grow((void **)&list->tasks, &list->capacity, list->count + 1, sizeof *list->tasks));
  list->tasks[list->count++] = *t;
  t->counts = NULL;
  t->staleness_histogram = NULL;
  return NULL;
}

void task_reports_fini(task_reports *list) {
  for (size_t i = 0; i < list->count; i++) task_report_fini(&list->tasks[i]);
  free(list->tasks);
  *list = (task_reports){0};
}
