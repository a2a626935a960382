/* MLflow: its file store (a folder, as `mlflow ui --backend-store-uri DIR` reads it) or its server's REST interface.
 *
 * The experiment is called as MLFLOW_EXPERIMENT_NAME says, or "shoal". Settings become params, numbers of lines metrics. A
 * run that is resumed goes on as the same run of MLflow: its id is kept in the run's folder. */
#include "base/json_read.h"
#include "base/json_text.h"
#include "base/mem.h"
#include "observe/http_client.h"
#include "observe/tracking.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define KEPT_ID "mlflow-run"
#define PARAM_MAX 500 /* letters of a value */

/* As MLflow numbers them. */
enum { STATUS_RUNNING = 1, STATUS_FINISHED = 3, STATUS_FAILED = 4, STATUS_KILLED = 5 };

typedef struct {
  bool rest;
  http_url url;
  char *folder;        /* of the run in the file store */
  char experiment[40]; /* its id */
  char id[40];         /* of the run */
  char name[128];
  int64_t started; /* milliseconds since 1970 */
} mlflow;

static int64_t milliseconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static const char *experiment_name(void) {
  const char *said = tracking_variable("MLFLOW_EXPERIMENT_NAME");
  return said ? said : "shoal";
}

static void make_id(char out[33]) {
  unsigned char bytes[16] = {0};
  if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes) {
    const int64_t now = milliseconds(), pid = getpid();
    memcpy(bytes, &now, sizeof now);
    memcpy(bytes + 8, &pid, sizeof pid);
  }
  for (int i = 0; i < 16; i++) snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

static bool is_rest(const char *target) { return !strncmp(target, "http:", 5) || !strncmp(target, "https:", 6); }

static shoal_status check(const char *target) {
  http_url url;
  return is_rest(target) ? http_url_read(target, &url) : NULL;
}

/* ---- a run that goes on */

static void read_kept(const tracked_run *run, mlflow *m) {
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/" KEPT_ID, run->folder);
  FILE *f = fopen(path, "re");
  if (f && fscanf(f, "%39s %39s", m->experiment, m->id) != 2) *m->id = 0;
  if (f) fclose(f);
}

static void keep(const tracked_run *run, const mlflow *m) {
  char path[PATH_MAX];
  text words = {0};
  snprintf(path, sizeof path, "%s/" KEPT_ID, run->folder);
  text_add(&words, "%s %s\n", m->experiment, m->id);
  shoal_status_free(text_write_file(&words, path)); /* resumed, it would be another run there */
  text_fini(&words);
}

/* ---- the file store */

static shoal_status make_folder(const char *format, ...) __attribute__((format(printf, 1, 2)));
static shoal_status make_folder(const char *format, ...) {
  char path[PATH_MAX];
  va_list list;
  va_start(list, format);
  const int n = vsnprintf(path, sizeof path, format, list);
  va_end(list);
  if (n >= (int)sizeof path) return status_make(SHOAL_ERR_INPUT, "a path is too long");
  return mkdir(path, 0777) && errno != EEXIST ? status_errno(errno, "cannot create %s", path) : NULL;
}

static shoal_status put_file(const char *folder, const char *name, const char *words) {
  char path[PATH_MAX];
  text t = {0};
  if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
    return status_make(SHOAL_ERR_INPUT, "%s: a path is too long", folder);
  text_add(&t, "%s", words);
  shoal_status status = text_write_file(&t, path);
  text_fini(&t);
  return status;
}

/* A name in YAML: as it is, or in quotes. Returns buffer. */
enum { YAML_TEXT = 300 };
static const char *yaml(const char *name, char buffer[YAML_TEXT]) {
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=";
  size_t n = 0;
  const bool quoted =
      name[strspn(name, plain)] || !strpbrk(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
  if (quoted) buffer[n++] = '\'';
  for (; *name && n < YAML_TEXT - 4; name++) {
    if (*name == '\'') buffer[n++] = '\'';
    buffer[n++] = *name == '\n' ? ' ' : *name;
  }
  if (quoted) buffer[n++] = '\'';
  buffer[n] = 0;
  return buffer;
}

/* Whether meta.yaml there has the line "name: NAME". */
static bool has_name(const char *folder, const char *name) {
  char path[PATH_MAX], line[512], shown[YAML_TEXT], wanted[YAML_TEXT + 8];
  bool found = false;
  snprintf(wanted, sizeof wanted, "name: %s\n", yaml(name, shown));
  if (snprintf(path, sizeof path, "%s/meta.yaml", folder) >= (int)sizeof path) return false;
  FILE *f = fopen(path, "re");
  while (f && fgets(line, sizeof line, f)) found |= !strcmp(line, wanted);
  if (f) fclose(f);
  return found;
}

static bool find_experiment(const char *store, mlflow *m) {
  DIR *d = opendir(store);
  bool found = false;
  for (const struct dirent *e; d && !found && (e = readdir(d));) {
    char path[PATH_MAX];
    if (e->d_name[0] == '.' || strlen(e->d_name) >= sizeof m->experiment) continue;
    if (snprintf(path, sizeof path, "%s/%s", store, e->d_name) >= (int)sizeof path) continue;
    found = has_name(path, experiment_name());
    if (found) snprintf(m->experiment, sizeof m->experiment, "%.39s", e->d_name);
  }
  if (d) closedir(d);
  return found;
}

static shoal_status make_experiment(const char *store, mlflow *m) {
  char folder[PATH_MAX], name[YAML_TEXT];
  const long long now = milliseconds();
  if (find_experiment(store, m)) return NULL;
  snprintf(m->experiment, sizeof m->experiment, "%lld%03d", now, (int)(getpid() % 1000));
  if (snprintf(folder, sizeof folder, "%s/%s", store, m->experiment) >= (int)sizeof folder)
    return status_make(SHOAL_ERR_INPUT, "%s: a path is too long", store);
  TRY(make_folder("%s", folder));
  text meta = {0};
  text_add(&meta,
           "artifact_location: file://%s\ncreation_time: %lld\nexperiment_id: '%s'\nlast_update_time: %lld\n"
           "lifecycle_stage: active\nname: %s\n",
           folder, now, m->experiment, now, yaml(experiment_name(), name));
  shoal_status status = meta.failed ? status_no_memory() : put_file(folder, "meta.yaml", meta.data);
  text_fini(&meta);
  return status;
}

static shoal_status write_meta(const mlflow *m, int state, int64_t ended) {
  const struct passwd *user = getpwuid(getuid());
  text meta = {0};
  char end[32] = "null", name[YAML_TEXT], whose[YAML_TEXT];
  if (ended) snprintf(end, sizeof end, "%lld", (long long)ended);
  text_add(&meta,
           "artifact_uri: file://%s/artifacts\nend_time: %s\nentry_point_name: ''\nexperiment_id: '%s'\n"
           "lifecycle_stage: active\nrun_id: %s\nrun_name: %s\nrun_uuid: %s\nsource_name: ''\nsource_type: 4\n"
           "source_version: ''\nstart_time: %lld\nstatus: %d\ntags: []\nuser_id: %s\n",
           m->folder, end, m->experiment, m->id, yaml(m->name, name), m->id, (long long)m->started, state,
           yaml(user ? user->pw_name : "shoal", whose));
  shoal_status status = meta.failed ? status_no_memory() : put_file(m->folder, "meta.yaml", meta.data);
  text_fini(&meta);
  return status;
}

static shoal_status put_settings(const mlflow *m, const json_t *settings) {
  char folder[PATH_MAX];
  const char *key;
  json_t *value;
  snprintf(folder, sizeof folder, "%s/params", m->folder);
  json_object_foreach ((json_t *)settings, key, value) {
    if (json_is_null(value)) continue;
    char *words = json_is_string(value) ? strdup(json_string_value(value)) : json_words(value, JSON_ENCODE_ANY);
    shoal_status status = words ? put_file(folder, key, words) : status_no_memory();
    free(words);
    TRY(status);
  }
  return NULL;
}

static shoal_status begin_files(const tracked_run *run, mlflow *m) {
  TRY(make_folder("%s", run->target));
  char *store = realpath(run->target, NULL);
  if (!store) return status_errno(errno, "%s", run->target);
  shoal_status status = NULL;
  const bool resumed = *m->id;
  if (!resumed) status = make_experiment(store, m);
  if (!resumed) make_id(m->id);
  if (!status && asprintf(&m->folder, "%s/%s/%s", store, m->experiment, m->id) < 0) {
    m->folder = NULL;
    status = status_no_memory();
  }
  free(store);
  if (!status) status = make_folder("%s", m->folder);
  static const char *const parts[] = {"metrics", "params", "tags", "artifacts"};
  for (size_t i = 0; i < COUNT_OF(parts) && !status; i++) status = make_folder("%s/%s", m->folder, parts[i]);
  if (!status) status = write_meta(m, STATUS_RUNNING, 0);
  if (!status) status = put_settings(m, run->settings);
  char tags[PATH_MAX];
  snprintf(tags, sizeof tags, "%s/tags", m->folder ? m->folder : "");
  if (!status) status = put_file(tags, "mlflow.runName", m->name);
  return status;
}

typedef struct {
  const mlflow *m;
  int64_t time, step;
  int error; /* errno of what could not be written */
  json_t *metrics;
} line_writer;

static void append_number(void *context, const char *name, double value) {
  line_writer *w = context;
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/metrics/%s", w->m->folder, name);
  FILE *f = fopen(path, "ae");
  if (!f || fprintf(f, "%lld %.17g %lld\n", (long long)w->time, value, (long long)w->step) < 0) w->error = errno;
  if (f && fclose(f)) w->error = errno;
}

/* ---- the server */

static shoal_status ask(const mlflow *m, const tracked_run *run, const char *method, const char *path, json_t *body,
                        int *code, json_t **answer) {
  const char *token = tracking_variable("MLFLOW_TRACKING_TOKEN");
  const bool has_body = body != NULL;
  char *words = body ? json_words(body, JSON_COMPACT) : NULL, *headers = NULL;
  json_decref(body);
  text got = {0};
  if (token && asprintf(&headers, "Authorization: Bearer %s\r\n", token) < 0) headers = NULL;
  shoal_status status = has_body && !words ? status_no_memory() : NULL;
  if (!status)
    status = http_request(&m->url,
                          &(http_call){.method = method,
                                       .path = path,
                                       .headers = headers,
                                       .body = words,
                                       .ca = tracking_variable("MLFLOW_TRACKING_SERVER_CERT_PATH"),
                                       .seconds = tracking_seconds(run)},
                          code, &got);
  if (!status) *answer = got.data ? json_read_words(got.data, 0, NULL) : NULL;
  free(words);
  free(headers);
  text_fini(&got);
  return status;
}

/* The same where only a good answer will do. answer may be NULL. */
static shoal_status post(const mlflow *m, const tracked_run *run, const char *path, json_t *body, json_t **answer) {
  int code = 0;
  json_t *got = NULL;
  TRY(ask(m, run, "POST", path, body, &code, &got));
  const char *message = json_string_value(json_object_get(got, "message"));
  shoal_status status = NULL;
  if (code / 100 != 2)
    status =
        status_make(SHOAL_ERR_PEER, "%s: HTTP status %d%s%s", path, code, message ? ": " : "", message ? message : "");
  if (!status && answer)
    *answer = got;
  else
    json_decref(got);
  return status;
}

static void add_escaped(text *out, const char *words) {
  for (; *words; words++) {
    if (strchr("-_.~", *words) || (*words >= '0' && *words <= '9') || (*words >= 'A' && *words <= 'Z') ||
        (*words >= 'a' && *words <= 'z'))
      text_add(out, "%c", *words);
    else
      text_add(out, "%%%02X", (unsigned char)*words);
  }
}

static shoal_status take_id(json_t *answer, const char *outer, const char *inner, const char *key, char out[40]) {
  const json_t *o = outer ? json_object_get(answer, outer) : answer;
  if (inner) o = json_object_get(o, inner);
  const char *id = json_string_value(json_object_get(o, key));
  const bool good = id && *id && strlen(id) < 40;
  if (good) snprintf(out, 40, "%s", id);
  json_decref(answer);
  return good ? NULL : status_make(SHOAL_ERR_PEER, "the answer has no %s", key);
}

static shoal_status ask_experiment(mlflow *m, const tracked_run *run) {
  text path = {0};
  int code = 0;
  json_t *answer = NULL;
  text_add(&path, "/api/2.0/mlflow/experiments/get-by-name?experiment_name=");
  add_escaped(&path, experiment_name());
  shoal_status status = path.failed ? status_no_memory() : ask(m, run, "GET", path.data, NULL, &code, &answer);
  text_fini(&path);
  TRY(status);
  if (code / 100 == 2) return take_id(answer, "experiment", NULL, "experiment_id", m->experiment);
  json_decref(answer);
  TRY(post(m, run, "/api/2.0/mlflow/experiments/create", json_pack("{s:s}", "name", experiment_name()), &answer));
  return take_id(answer, NULL, NULL, "experiment_id", m->experiment);
}

static json_t *params_of(const json_t *settings) {
  json_t *params = json_array(), *value;
  const char *key;
  json_object_foreach ((json_t *)settings, key, value) {
    if (json_is_null(value) || json_array_size(params) == 100) continue; /* of one request */
    char *words = json_is_string(value) ? strdup(json_string_value(value)) : json_words(value, JSON_ENCODE_ANY);
    if (words && strlen(words) > PARAM_MAX) words[PARAM_MAX] = 0;
    if (words) json_array_append_new(params, json_pack("{s:s, s:s}", "key", key, "value", words));
    free(words);
  }
  return params;
}

static shoal_status begin_rest(const tracked_run *run, mlflow *m) {
  json_t *answer = NULL;
  if (*m->id)
    return post(m, run, "/api/2.0/mlflow/runs/update", json_pack("{s:s, s:s}", "run_id", m->id, "status", "RUNNING"),
                NULL);
  TRY(ask_experiment(m, run));
  TRY(post(m, run, "/api/2.0/mlflow/runs/create",
           json_pack("{s:s, s:I, s:s, s:[{s:s, s:s}]}", "experiment_id", m->experiment, "start_time",
                     (json_int_t)m->started, "run_name", m->name, "tags", "key", "mlflow.runName", "value", m->name),
           &answer));
  TRY(take_id(answer, "run", "info", "run_id", m->id));
  return post(m, run, "/api/2.0/mlflow/runs/log-batch",
              json_pack("{s:s, s:o}", "run_id", m->id, "params", params_of(run->settings)), NULL);
}

static void collect_number(void *context, const char *name, double value) {
  line_writer *w = context;
  json_array_append_new(w->metrics, json_pack("{s:s, s:f, s:I, s:I}", "key", name, "value", value, "timestamp",
                                              (json_int_t)w->time, "step", (json_int_t)w->step));
}

static shoal_status send_metrics(mlflow *m, const tracked_run *run, json_t *metrics) {
  return post(m, run, "/api/2.0/mlflow/runs/log-batch", json_pack("{s:s, s:o}", "run_id", m->id, "metrics", metrics),
              NULL);
}

/* ---- the row */

static void destroy(void *state) {
  mlflow *m = state;
  if (m) free(m->folder);
  free(m);
}

static shoal_status begin(const tracked_run *run, void **state) {
  mlflow *m = calloc(1, sizeof *m);
  if (!m) return status_no_memory();
  const char *slash = strrchr(run->folder, '/');
  snprintf(m->name, sizeof m->name, "%.127s", slash && slash[1] ? slash + 1 : run->folder);
  m->started = milliseconds();
  m->rest = is_rest(run->target);
  read_kept(run, m);
  shoal_status status = m->rest ? http_url_read(run->target, &m->url) : NULL;
  if (!status) status = m->rest ? begin_rest(run, m) : begin_files(run, m);
  if (status) {
    destroy(m);
    return status;
  }
  keep(run, m);
  *state = m;
  return NULL;
}

static shoal_status send(void *state, const tracked_run *run, json_t *const *lines, size_t n) {
  enum { METRICS_MAX = 900 }; /* of one request: the server takes 1000 */
  mlflow *m = state;
  line_writer w = {.m = m, .metrics = m->rest ? json_array() : NULL};
  for (size_t i = 0; i < n && !w.error; i++) {
    w.time = (int64_t)(1e3 * json_number_value(json_object_get(lines[i], "time")));
    w.step = json_integer_value(json_object_get(lines[i], "step"));
    tracking_numbers(lines[i], &w, m->rest ? collect_number : append_number);
    if (!m->rest || json_array_size(w.metrics) < METRICS_MAX - 50) continue;
    TRY(send_metrics(m, run, w.metrics));
    w.metrics = json_array();
  }
  if (m->rest) return send_metrics(m, run, w.metrics);
  return w.error ? status_errno(w.error, "cannot write to %s", m->folder) : NULL;
}

static shoal_status end(void *state, const tracked_run *run, bool finished, bool stopped) {
  mlflow *m = state;
  const char *const names[] = {[STATUS_FINISHED] = "FINISHED", [STATUS_FAILED] = "FAILED", [STATUS_KILLED] = "KILLED"};
  const int how = stopped ? STATUS_KILLED : finished ? STATUS_FINISHED : STATUS_FAILED;
  const int64_t now = milliseconds();
  if (!m->rest) return write_meta(m, how, now);
  return post(m, run, "/api/2.0/mlflow/runs/update",
              json_pack("{s:s, s:s, s:I}", "run_id", m->id, "status", names[how], "end_time", (json_int_t)now), NULL);
}

const tracking_kind tracking_mlflow = {
    .name = "mlflow",
    .variable = "MLFLOW_TRACKING_URI",
    .check = check,
    .begin = begin,
    .send = send,
    .end = end,
    .destroy = destroy,
};
