/* Scores over HTTP (shoal/serve.h).
 *
 * 1. One thread has all connections, one scores, one looks for newer weights.
 * 2. A request whose rows are good waits, its connection set aside, until the scoring thread has taken it with all
 *    others that wait at that moment. Each request is answered once.
 * 3. Who may ask is in observe/http.h. Bodies and rows have limits; what is wrong gets a 4xx with the reason.
 * 4. When it ends, what was taken is answered; what comes later gets 503. */
#include "shoal/serve.h"

#include "base/clock.h"
#include "base/json_text.h"
#include "base/mem.h"
#include "base/options.h"
#include "observe/dash_guard.h"
#include "observe/http.h"
#include "run/serve_model.h"
#include "run/serve_rows.h"

#include <errno.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CONNECTIONS_MAX 1024
#define CONNECTION_SECONDS 60u /* without traffic */
#define BATCH_STANDARD 256
#define BATCH_MAX 65536
#define BODY_STANDARD (1 << 20)
#define END_SECONDS 5.0 /* for the answers under way */
#define PREFIX "/v1/models/"
#define CONTENT_TOO_LARGE 413 /* libmicrohttpd has had two names for it */

typedef struct request request;

struct request {
  struct MHD_Connection *connection;
  serve_type type;
  text body;
  bool too_large;  /* more than body_max, not kept */
  rows_block rows; /* read from it */
  float *scores;   /* [rows, outputs] */
  shoal_status status;
  bool done;
  request *next; /* in the queue */
};

struct shoal_serving {
  shoal_serving_options options; /* texts are not kept */
  char *token, *own_model;
  serve_model *model;
  int64_t batch_max, body_max;
  double reload_seconds;
  int port;
  struct MHD_Daemon *server;
  pthread_t scorer, loader;
  bool scoring, loading;
  dash_guard guard;
  pthread_mutex_t lock;
  pthread_cond_t work; /* a request waits, or it ends */
  pthread_cond_t idle; /* it ends */
  /* All below under the lock. */
  request *first, **last; /* waiting, the oldest first */
  int open;               /* requests that are not answered yet */
  bool ending;
  shoal_serving_counts counts;
};

static void count(shoal_serving *s, int64_t *which, int64_t n) {
  pthread_mutex_lock(&s->lock);
  *which += n;
  pthread_mutex_unlock(&s->lock);
}

/* ---- answers */

/* As TensorFlow Serving has it. Takes nothing. */
static enum MHD_Result answer_error(shoal_serving *s, struct MHD_Connection *c, unsigned code, const char *words) {
  if (code >= 400 && code < 500) count(s, &s->counts.refused, 1);
  json_t *o = json_pack("{s:s}", "error", words);
  char *line = o ? json_words(o, 0) : NULL;
  json_decref(o);
  text body = {0};
  text_add(&body, "%s\n", line ? line : "{\"error\": \"\"}");
  free(line);
  return http_answer_text(c, code, &body, serve_type_name(SERVE_JSON));
}

static enum MHD_Result answer_scores(shoal_serving *s, request *r) {
  if (r->status) {
    const bool theirs = shoal_status_code(r->status) == SHOAL_ERR_INPUT;
    return answer_error(s, r->connection, theirs ? MHD_HTTP_BAD_REQUEST : MHD_HTTP_INTERNAL_SERVER_ERROR,
                        shoal_status_message(r->status));
  }
  text body = {0};
  serve_rows_write(r->type, r->scores, r->rows.count, serve_model_outputs(s->model), serve_model_first(s->model),
                   &body);
  return http_answer_text(r->connection, MHD_HTTP_OK, &body, serve_type_name(r->type));
}

static enum MHD_Result answer_model(shoal_serving *s, struct MHD_Connection *c) {
  char path[SERVE_WEIGHTS_TEXT], version[32];
  snprintf(version, sizeof version, "%lld", (long long)serve_model_weights(s->model, path));
  json_t *o = json_pack("{s:[{s:s, s:s, s:{s:s, s:s}}], s:s, s:s}", "model_version_status", "version", version, "state",
                        "AVAILABLE", "status", "error_code", "OK", "error_message", "", "model",
                        serve_model_name(s->model), "weights", path);
  char *line = o ? json_words(o, 0) : NULL;
  json_decref(o);
  text body = {0};
  text_add(&body, "%s\n", line ? line : "{}");
  free(line);
  return http_answer_text(c, MHD_HTTP_OK, &body, serve_type_name(SERVE_JSON));
}

/* ---- the scoring thread */

/* Takes waiting requests off the queue as long as their rows fit into one batch, the oldest first. Under the lock. */
static request *take_waiting(shoal_serving *s) {
  request *taken = s->first, **end = &s->first;
  for (int64_t rows = 0; *end && (rows += (*end)->rows.count) <= s->batch_max;) end = &(*end)->next;
  s->first = *end;
  if (!s->first) s->last = &s->first;
  *end = NULL;
  return taken;
}

/* Their scores; `batch` and `scores` have room for all. */
static shoal_status score_taken(shoal_serving *s, request *taken, rows_block *batch, float *scores) {
  const size_t row = (size_t)serve_model_outputs(s->model) * sizeof *scores;
  rows_clear(batch);
  for (const request *r = taken; r; r = r->next)
    for (int64_t i = 0; i < r->rows.count; i++) TRY(rows_append(batch, &r->rows, i));
  if (batch->count) TRY(serve_model_score(s->model, batch, scores));
  for (request *r = taken; r; r = r->next) {
    const size_t bytes = (size_t)r->rows.count * row;
    if (!(r->scores = malloc(bytes + 1))) return status_no_memory();
    memcpy(r->scores, scores, bytes);
    scores += r->rows.count * serve_model_outputs(s->model);
  }
  return NULL;
}

/* Sends their connections on to be answered. */
static void finish(shoal_serving *s, request *taken, shoal_status status) {
  pthread_mutex_lock(&s->lock);
  s->counts.batches++;
  for (const request *r = taken; r && !status; r = r->next) {
    s->counts.requests++;
    s->counts.rows += r->rows.count;
  }
  pthread_mutex_unlock(&s->lock);
  while (taken) {
    request *r = taken;
    taken = r->next; /* once resumed it may be gone */
    if (status) r->status = status_make(SHOAL_ERR_INTERNAL, "%s", shoal_status_message(status));
    r->done = true;
    MHD_resume_connection(r->connection);
  }
  shoal_status_free(status);
}

static void *score_requests(void *context) {
  shoal_serving *s = context;
  rows_block batch;
  rows_init(&batch, serve_model_schema(s->model));
  float *scores = calloc((size_t)s->batch_max, (size_t)serve_model_outputs(s->model) * sizeof *scores);
  for (;;) {
    pthread_mutex_lock(&s->lock);
    while (!s->ending && !s->first) pthread_cond_wait(&s->work, &s->lock);
    request *taken = take_waiting(s);
    pthread_mutex_unlock(&s->lock);
    if (!taken) break; /* ending, and nobody waits */
    finish(s, taken, scores ? score_taken(s, taken, &batch, scores) : status_no_memory());
  }
  free(scores);
  rows_fini(&batch);
  return NULL;
}

/* ---- newer weights */

static void note_weights(shoal_serving *s, shoal_status status, bool changed) {
  char path[SERVE_WEIGHTS_TEXT], line[SERVE_WEIGHTS_TEXT + 64];
  if (!status && !changed) return;
  if (changed) {
    serve_model_weights(s->model, path);
    snprintf(line, sizeof line, "now serving %s", path);
    count(s, &s->counts.reloads, 1);
  } else {
    snprintf(line, sizeof line, "newer weights were not taken over: %s", shoal_status_message(status));
  }
  if (s->options.on_note) s->options.on_note(s->options.context, line);
}

static void *load_newer(void *context) {
  shoal_serving *s = context;
  for (;;) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    const double at = (double)until.tv_sec + 1e-9 * (double)until.tv_nsec + s->reload_seconds;
    until = (struct timespec){(time_t)at, (long)((at - (double)(time_t)at) * 1e9)};
    pthread_mutex_lock(&s->lock);
    int late = 0;
    while (!s->ending && !late) late = pthread_cond_timedwait(&s->idle, &s->lock, &until);
    const bool ending = s->ending;
    pthread_mutex_unlock(&s->lock);
    if (ending) return NULL;
    bool changed;
    shoal_status status = serve_model_refresh(s->model, &changed);
    note_weights(s, status, changed);
    shoal_status_free(status);
  }
}

/* ---- requests */

static int socket_of(struct MHD_Connection *c) {
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
  return info ? info->connect_fd : -1;
}

static void on_connection(void *context, struct MHD_Connection *c, void **state,
                          enum MHD_ConnectionNotificationCode what) {
  shoal_serving *s = context;
  if (what == MHD_CONNECTION_NOTIFY_STARTED)
    dash_guard_begins(&s->guard, socket_of(c));
  else
    dash_guard_leaves(&s->guard, socket_of(c));
}

static void on_completed(void *context, struct MHD_Connection *c, void **state, enum MHD_RequestTerminationCode why) {
  shoal_serving *s = context;
  request *r = *state;
  *state = NULL;
  if (!r) return;
  text_fini(&r->body);
  rows_fini(&r->rows);
  shoal_status_free(r->status);
  free(r->scores);
  free(r);
  pthread_mutex_lock(&s->lock);
  s->open--;
  pthread_mutex_unlock(&s->lock);
}

/* The headers are there, the body is not. */
static enum MHD_Result begin_request(shoal_serving *s, struct MHD_Connection *c, void **state) {
  const char *length = MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Content-Length");
  int64_t bytes;
  if (length && text_to_int(length, &bytes) && bytes > s->body_max) {
    char words[96];
    snprintf(words, sizeof words, "expected a body of at most %lld bytes", (long long)s->body_max);
    return answer_error(s, c, CONTENT_TOO_LARGE, words);
  }
  request *r = calloc(1, sizeof *r);
  if (!r) return MHD_NO;
  r->connection = c;
  rows_init(&r->rows, serve_model_schema(s->model));
  *state = r;
  pthread_mutex_lock(&s->lock);
  s->open++;
  pthread_mutex_unlock(&s->lock);
  const char *type = MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Content-Type");
  if (!serve_type_find(type, &r->type))
    return answer_error(s, c, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE,
                        "expected the Content-Type application/json, text/plain or application/octet-stream");
  return MHD_YES;
}

/* All of the body is there. */
static enum MHD_Result take_request(shoal_serving *s, request *r) {
  if (r->too_large) return answer_error(s, r->connection, CONTENT_TOO_LARGE, "the body is too large");
  if (r->body.failed) return answer_error(s, r->connection, MHD_HTTP_SERVICE_UNAVAILABLE, "no memory");
  r->status = serve_rows_read(r->type, r->body.data, r->body.length, s->batch_max, &r->rows);
  if (r->status || !r->rows.count) return answer_scores(s, r);
  int64_t unknown = 0;
  if (r->rows.schema.kind == ROWS_SPARSE && !r->rows.schema.ids)
    unknown = rows_drop_beyond(&r->rows, r->rows.schema.features);
  pthread_mutex_lock(&s->lock);
  s->counts.unknown_entries += unknown;
  const bool ending = s->ending;
  if (!ending) {
    MHD_suspend_connection(r->connection);
    *s->last = r;
    s->last = &r->next;
    pthread_cond_signal(&s->work);
  }
  pthread_mutex_unlock(&s->lock);
  return ending ? answer_error(s, r->connection, MHD_HTTP_SERVICE_UNAVAILABLE, "the server is ending") : MHD_YES;
}

static enum MHD_Result on_post(shoal_serving *s, struct MHD_Connection *c, const char *upload, size_t *upload_size,
                               void **state) {
  request *r = *state;
  if (!r) return begin_request(s, c, state);
  if (r->done) return answer_scores(s, r);
  if (!*upload_size) return take_request(s, r);
  r->too_large |= r->body.length + *upload_size > (size_t)s->body_max;
  if (!r->too_large) text_add_bytes(&r->body, upload, *upload_size);
  *upload_size = 0;
  return MHD_YES;
}

/* "/v1/models/NAME:predict" and "/v1/models/NAME", of which `ending` is what follows the name. */
static bool names_model(const shoal_serving *s, const char *path, const char *ending) {
  const char *name = serve_model_name(s->model);
  const size_t n = strlen(name);
  if (strncmp(path, PREFIX, strlen(PREFIX))) return false;
  path += strlen(PREFIX);
  return !strncmp(path, name, n) && !strcmp(path + n, ending);
}

static enum MHD_Result on_request(void *context, struct MHD_Connection *c, const char *path, const char *method,
                                  const char *version, const char *upload, size_t *upload_size, void **state) {
  shoal_serving *s = context;
  if (!*state) { /* later calls are about the same request */
    unsigned refusal;
    const char *why = http_refusal(c, s->token, &refusal);
    if (why) return answer_error(s, c, refusal, why);
    dash_guard_leaves(&s->guard, socket_of(c));
  }
  const bool get = !strcmp(method, "GET") || !strcmp(method, "HEAD");
  if (get && (!strcmp(path, "/healthz") || !strcmp(path, "/readyz"))) return http_answer_words(c, MHD_HTTP_OK, "ok\n");
  if (names_model(s, path, ":predict")) {
    if (!strcmp(method, "POST")) return on_post(s, c, upload, upload_size, state);
    return answer_error(s, c, MHD_HTTP_METHOD_NOT_ALLOWED, "rows are sent by POST");
  }
  if (get && names_model(s, path, "")) return answer_model(s, c);
  char words[256];
  snprintf(words, sizeof words, "nothing is here; rows go to %s%s:predict", PREFIX, serve_model_name(s->model));
  return answer_error(s, c, MHD_HTTP_NOT_FOUND, words);
}

/* ---- the server's life */

static shoal_status start(shoal_serving *s, const shoal_serving_options *o) {
  struct sockaddr_storage address;
  const char *where = o->address ? o->address : "127.0.0.1";
  TRY(http_read_address(where, o->port, o->token, &address));
  const shoal_trained_options trained = {.model = s->own_model, .threads = o->threads > 0 ? o->threads : 1};
  TRY(serve_model_create(o->target, &trained, s->batch_max, &s->model));
  int error = pthread_create(&s->scorer, NULL, score_requests, s);
  if (error) return status_errno(error, "cannot start a thread");
  s->scoring = true;
  if (s->reload_seconds > 0) {
    error = pthread_create(&s->loader, NULL, load_newer, s);
    if (error) return status_errno(error, "cannot start a thread");
    s->loading = true;
  }
  const unsigned flags =
      MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | (address.ss_family == AF_INET6 ? MHD_USE_IPv6 : 0);
  errno = 0;
  s->server =
      MHD_start_daemon(flags, (uint16_t)o->port, NULL, NULL, on_request, s, MHD_OPTION_SOCK_ADDR, &address,
                       MHD_OPTION_NOTIFY_CONNECTION, on_connection, s, MHD_OPTION_NOTIFY_COMPLETED, on_completed, s,
                       MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX, MHD_OPTION_CONNECTION_TIMEOUT,
                       CONNECTION_SECONDS, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)32768, MHD_OPTION_END);
  if (!s->server) return status_errno(errno ? errno : EADDRINUSE, "cannot listen on %s port %d", where, o->port);
  s->port = http_port(s->server, o->port);
  return NULL;
}

static shoal_status check_options(const shoal_serving_options *o) {
  if (!o->target) return status_make(SHOAL_ERR_ARGUMENT, "expected a run's folder or a safetensors file to serve");
  if (o->batch_max < 0 || o->batch_max > BATCH_MAX)
    return status_make(SHOAL_ERR_ARGUMENT, "`batch-max`: expected 1 to %d rows", BATCH_MAX);
  if (o->body_max < 0) return status_make(SHOAL_ERR_ARGUMENT, "`body-max`: expected a number of bytes");
  return NULL;
}

shoal_status shoal_serving_create(const shoal_serving_options *given, shoal_serving **out) {
  shoal_serving_options o;
  TRY(OPTIONS_TAKE(&o, given));
  TRY(check_options(&o));
  shoal_serving *s = calloc(1, sizeof *s);
  if (!s) return status_no_memory();
  s->options = o;
  s->last = &s->first;
  s->batch_max = 1; /* a power of two */
  while (s->batch_max < (o.batch_max ? o.batch_max : BATCH_STANDARD)) s->batch_max *= 2;
  s->body_max = o.body_max ? o.body_max : BODY_STANDARD;
  s->reload_seconds = o.reload_seconds != 0 ? o.reload_seconds : 1;
  dash_guard_init(&s->guard);
  pthread_mutex_init(&s->lock, NULL);
  pthread_cond_init(&s->work, NULL);
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&s->idle, &attributes);
  pthread_condattr_destroy(&attributes);
  shoal_status status = NULL;
  if ((o.token && !(s->token = strdup(o.token))) || (o.model && !(s->own_model = strdup(o.model))))
    status = status_no_memory();
  if (!status) status = start(s, &o);
  if (status)
    shoal_serving_destroy(s);
  else
    *out = s;
  return status;
}

int shoal_serving_port(const shoal_serving *s) { return s->port; }
const char *shoal_serving_model(const shoal_serving *s) { return serve_model_name(s->model); }

void shoal_serving_count(shoal_serving *s, shoal_serving_counts *out) {
  pthread_mutex_lock(&s->lock);
  *out = s->counts;
  pthread_mutex_unlock(&s->lock);
}

/* Until all that was taken is answered. */
static void wait_for_answers(shoal_serving *s) {
  const double late = clock_seconds() + END_SECONDS;
  for (int open = 1; open && clock_seconds() < late;) {
    pthread_mutex_lock(&s->lock);
    open = s->open;
    pthread_mutex_unlock(&s->lock);
    if (open) usleep(1000);
  }
}

void shoal_serving_destroy(shoal_serving *s) {
  if (!s) return;
  pthread_mutex_lock(&s->lock);
  s->ending = true;
  pthread_cond_signal(&s->work);
  pthread_cond_signal(&s->idle);
  pthread_mutex_unlock(&s->lock);
  if (s->scoring) pthread_join(s->scorer, NULL);
  if (s->loading) pthread_join(s->loader, NULL);
  if (s->server) {
    wait_for_answers(s);
    MHD_stop_daemon(s->server);
  }
  serve_model_destroy(s->model);
  pthread_cond_destroy(&s->idle);
  pthread_cond_destroy(&s->work);
  pthread_mutex_destroy(&s->lock);
  dash_guard_fini(&s->guard);
  free(s->token);
  free(s->own_model);
  free(s);
}
