/* Serves the page over HTTP, live.
 *
 * 1. What is served is the page and JSON made from the runs below one folder. No path comes from a request: runs are
 *    asked for by number.
 * 2. Who may ask is in http.h. Connections that have not brought a good request make place for new ones.
 * 3. Nothing changes by a request; all but GET and HEAD are refused.
 *
 *   /                      the page
 *   /api/state             version, runs and sweeps
 *   /api/run?id=N          a run; points=N, by=step&from=X&to=Y for a part of it
 *   /api/sweep?id=N        a sweep
 *   /api/trace?id=N        the timeline of a run
 *   /api/events            server-sent events: {"runs": [[id, revision], ...]} whenever something changed */
#include "shoal/observe.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/options.h"
#include "observe/dash_guard.h"
#include "observe/http.h"
#include "observe/report_page.h"
#include "shoal/version.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#define LOOK_SECONDS 0.5       /* between two looks at the folder */
#define QUIET_SECONDS 15.0     /* without news an empty line keeps a connection open */
#define CONNECTIONS_MAX 128    /* half of them may be strangers */
#define CONNECTION_SECONDS 60u /* without traffic */
#define POINTS_STANDARD 1000
#define POINTS_MAX 20000

typedef struct shoal_dashboard dash;

struct shoal_dashboard {
  char *token; /* NULL: none */
  int port;
  struct MHD_Daemon *server;
  pthread_t watcher;
  bool watching;
  dash_guard guard;
  pthread_mutex_t lock;
  pthread_cond_t news;
  /* All below under the lock. */
  report_set set;
  uint64_t edition; /* rises when something changed */
  bool ending;
};

/* ---- answers */

static void add_headers(struct MHD_Response *r, const char *type) {
  http_add_headers(r, type);
  MHD_add_response_header(r, "Content-Security-Policy", report_page_built.policy);
  MHD_add_response_header(r, "X-Frame-Options", "DENY");
  MHD_add_response_header(r, "Referrer-Policy", "no-referrer");
  MHD_add_response_header(r, "Cross-Origin-Resource-Policy", "same-origin");
  MHD_add_response_header(r, "Cross-Origin-Opener-Policy", "same-origin");
}

static enum MHD_Result answer_plain(struct MHD_Connection *c, unsigned code, const char *words) {
  struct MHD_Response *r = MHD_create_response_from_buffer(strlen(words), (void *)words, MHD_RESPMEM_MUST_COPY);
  if (!r) return MHD_NO;
  add_headers(r, "text/plain; charset=utf-8");
  if (code == MHD_HTTP_UNAUTHORIZED) MHD_add_response_header(r, "WWW-Authenticate", "Bearer");
  if (code == MHD_HTTP_METHOD_NOT_ALLOWED) MHD_add_response_header(r, "Allow", "GET, HEAD");
  enum MHD_Result result = MHD_queue_response(c, code, r);
  MHD_destroy_response(r);
  return result;
}

/* Takes `status` and the text. */
static enum MHD_Result answer(struct MHD_Connection *c, shoal_status status, text *body, const char *type) {
  if (!status && body->failed) status = status_no_memory();
  if (status) {
    enum MHD_Result result = answer_plain(c, MHD_HTTP_INTERNAL_SERVER_ERROR, shoal_status_message(status));
    shoal_status_free(status);
    text_fini(body);
    return result;
  }
  struct MHD_Response *r = MHD_create_response_from_buffer(body->length, body->data, MHD_RESPMEM_MUST_FREE);
  if (!r) {
    text_fini(body);
    return MHD_NO;
  }
  add_headers(r, type);
  enum MHD_Result result = MHD_queue_response(c, MHD_HTTP_OK, r);
  MHD_destroy_response(r);
  return result;
}

static enum MHD_Result answer_page(dash *d, struct MHD_Connection *c) {
  text body = {0};
  text_add_bytes(&body, (const char *)report_page_built.head, report_page_built.head_length);
  text_add(&body, "{\"live\":true,\"version\":");
  report_write_string(&body, shoal_version());
  text_add(&body, "}");
  text_add_bytes(&body, (const char *)report_page_built.tail, report_page_built.tail_length);
  return answer(c, NULL, &body, "text/html; charset=utf-8");
}

static enum MHD_Result answer_state(dash *d, struct MHD_Connection *c) {
  text body = {0};
  pthread_mutex_lock(&d->lock);
  text_add(&body, "{\"version\":");
  report_write_string(&body, shoal_version());
  text_add(&body, ",\"runs\":");
  shoal_status status = report_set_write_list(&d->set, &body);
  pthread_mutex_unlock(&d->lock);
  text_add(&body, "}");
  return answer(c, status, &body, "application/json");
}

/* "id=N" names a run or sweep that is there; NULL otherwise. Under the lock. */
static report_run *asked_for(dash *d, struct MHD_Connection *c) {
  int64_t id;
  const char *word = http_argument(c, "id");
  if (!word || !text_to_int(word, &id) || id < 0 || id > INT32_MAX) return NULL;
  return report_set_find(&d->set, (int)id);
}

/* Which part of the run; NULL, or what is wrong with the request. */
static const char *read_range(struct MHD_Connection *c, report_range *out) {
  *out = (report_range){.points = POINTS_STANDARD};
  const char *points = http_argument(c, "points"), *from = http_argument(c, "from"), *to = http_argument(c, "to");
  int64_t n;
  if (points && (!text_to_int(points, &n) || n < 2 || n > POINTS_MAX))
    return "points: expected a number from 2 to 20000\n";
  if (points) out->points = (int)n;
  out->by = http_argument(c, "by");
  if (out->by && (!from || !to || !text_to_double(from, &out->from) || !text_to_double(to, &out->to)))
    return "by: expected from=X and to=Y too\n";
  return NULL;
}

static enum MHD_Result answer_run(dash *d, struct MHD_Connection *c) {
  report_range range;
  const char *wrong = read_range(c, &range);
  if (wrong) return answer_plain(c, MHD_HTTP_BAD_REQUEST, wrong);
  text body = {0};
  pthread_mutex_lock(&d->lock);
  report_run *run = asked_for(d, c);
  shoal_status status = run ? report_run_write(&d->set, run, &range, &body) : NULL;
  pthread_mutex_unlock(&d->lock);
  if (!run) return answer_plain(c, MHD_HTTP_NOT_FOUND, "no run has this id\n");
  return answer(c, status, &body, "application/json");
}

static enum MHD_Result answer_part(dash *d, struct MHD_Connection *c,
                                   shoal_status (*write)(const report_run *, text *)) {
  text body = {0};
  pthread_mutex_lock(&d->lock);
  report_run *run = asked_for(d, c);
  shoal_status status = run ? write(run, &body) : NULL;
  pthread_mutex_unlock(&d->lock);
  if (!run) return answer_plain(c, MHD_HTTP_NOT_FOUND, "nothing has this id\n");
  return answer(c, status, &body, "application/json");
}

/* ---- events: each connection has its own thread, which waits for news here */

typedef struct {
  dash *dash;
  uint64_t told; /* the edition last sent */
  text pending;
  size_t sent; /* of it */
} listener;

static struct timespec later(double seconds) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  int64_t nanoseconds = t.tv_nsec + (int64_t)(seconds * 1e9);
  t.tv_sec += nanoseconds / 1000000000;
  t.tv_nsec = nanoseconds % 1000000000;
  return t;
}

/* Fills `pending` with the next news. False: the server ends. */
static bool wait_for_news(listener *l) {
  dash *d = l->dash;
  struct timespec until = later(QUIET_SECONDS);
  pthread_mutex_lock(&d->lock);
  int timed_out = 0;
  while (!d->ending && d->edition == l->told && !timed_out)
    timed_out = pthread_cond_timedwait(&d->news, &d->lock, &until);
  bool going = !d->ending;
  l->pending.length = l->sent = 0;
  if (going && d->edition == l->told) {
    text_add(&l->pending, ":\n\n");
  } else if (going) {
    text_add(&l->pending, "data: {\"runs\":[");
    for (size_t i = 0; i < d->set.count; i++)
      text_add(&l->pending, "%s[%d,%llu]", i ? "," : "", d->set.runs[i]->id,
               (unsigned long long)d->set.runs[i]->revision);
    text_add(&l->pending, "]}\n\n");
    l->told = d->edition;
  }
  pthread_mutex_unlock(&d->lock);
  return going && !l->pending.failed;
}

static ssize_t send_events(void *context, uint64_t position, char *buffer, size_t most) {
  listener *l = context;
  if (l->sent == l->pending.length && !wait_for_news(l)) return MHD_CONTENT_READER_END_OF_STREAM;
  size_t n = MIN_OF(most, l->pending.length - l->sent);
  memcpy(buffer, l->pending.data + l->sent, n);
  l->sent += n;
  return (ssize_t)n;
}

static void forget_listener(void *context) {
  listener *l = context;
  text_fini(&l->pending);
  free(l);
}

static enum MHD_Result answer_events(dash *d, struct MHD_Connection *c) {
  listener *l = calloc(1, sizeof *l);
  if (!l) return MHD_NO;
  l->dash = d;
  struct MHD_Response *r = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 4096, send_events, l, forget_listener);
  if (!r) {
    forget_listener(l);
    return MHD_NO;
  }
  add_headers(r, "text/event-stream");
  enum MHD_Result result = MHD_queue_response(c, MHD_HTTP_OK, r);
  MHD_destroy_response(r);
  return result;
}

/* ---- who may ask */

static int socket_of(struct MHD_Connection *c) {
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
  return info ? info->connect_fd : -1;
}

static void on_connection(void *context, struct MHD_Connection *c, void **state,
                          enum MHD_ConnectionNotificationCode what) {
  dash *d = context;
  if (what == MHD_CONNECTION_NOTIFY_STARTED)
    dash_guard_begins(&d->guard, socket_of(c));
  else
    dash_guard_leaves(&d->guard, socket_of(c));
}

static enum MHD_Result on_request(void *context, struct MHD_Connection *c, const char *path, const char *method,
                                  const char *version, const char *upload, size_t *upload_size, void **state) {
  dash *d = context;
  if (strcmp(method, "GET") && strcmp(method, "HEAD"))
    return answer_plain(c, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET\n");
  unsigned refusal;
  const char *why = http_refusal(c, d->token, &refusal);
  if (why) return answer_plain(c, refusal, why);
  dash_guard_leaves(&d->guard, socket_of(c));
  if (!strcmp(path, "/")) return answer_page(d, c);
  if (!strcmp(path, "/api/state")) return answer_state(d, c);
  if (!strcmp(path, "/api/run")) return answer_run(d, c);
  if (!strcmp(path, "/api/sweep")) return answer_part(d, c, report_sweep_write);
  if (!strcmp(path, "/api/trace")) return answer_part(d, c, report_trace_write);
  if (!strcmp(path, "/api/events")) return answer_events(d, c);
  return answer_plain(c, MHD_HTTP_NOT_FOUND, "nothing is here\n");
}

/* ---- the server's life */

static void *watch(void *context) {
  dash *d = context;
  pthread_mutex_lock(&d->lock);
  while (!d->ending) {
    bool changed;
    shoal_status status = report_set_search(&d->set, &changed);
    shoal_status_free(status); /* the next look may find memory again */
    if (!status && changed) {
      d->edition++;
      pthread_cond_broadcast(&d->news);
    }
    struct timespec until = later(LOOK_SECONDS);
    while (!d->ending && pthread_cond_timedwait(&d->news, &d->lock, &until) == 0) continue;
  }
  pthread_mutex_unlock(&d->lock);
  return NULL;
}

shoal_status shoal_dashboard_create(const shoal_dashboard_options *given, shoal_dashboard **out) {
  shoal_dashboard_options own;
  const shoal_dashboard_options *options = &own;
  TRY(OPTIONS_TAKE(&own, given));
  TRY(report_page_check());
  struct sockaddr_storage address;
  const char *where = options->address ? options->address : "127.0.0.1";
  TRY(http_read_address(where, options->port, options->token, &address));
  dash *d = calloc(1, sizeof *d);
  if (!d) return status_no_memory();
  dash_guard_init(&d->guard);
  pthread_mutex_init(&d->lock, NULL);
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&d->news, &attributes);
  pthread_condattr_destroy(&attributes);
  shoal_status status = NULL;
  d->set.root = strdup(options->folder);
  if (options->token) d->token = strdup(options->token);
  if (!d->set.root || (options->token && !d->token)) TRY_GOTO(status, status_no_memory(), failed);
  bool found; /* before anybody can ask, so that nobody is told that nothing is there */
  TRY_GOTO(status, report_set_search(&d->set, &found), failed);
  unsigned flags = MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD |
                   (address.ss_family == AF_INET6 ? MHD_USE_IPv6 : 0);
  errno = 0;
  d->server = MHD_start_daemon(flags, (uint16_t)options->port, NULL, NULL, on_request, d, MHD_OPTION_SOCK_ADDR,
                               &address, MHD_OPTION_NOTIFY_CONNECTION, on_connection, d, MHD_OPTION_CONNECTION_LIMIT,
                               (unsigned)CONNECTIONS_MAX, MHD_OPTION_CONNECTION_TIMEOUT, CONNECTION_SECONDS,
                               MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)32768, MHD_OPTION_END);
  if (!d->server) {
    status = status_errno(errno ? errno : EADDRINUSE, "cannot listen on %s port %d", where, options->port);
    goto failed;
  }
  int error = pthread_create(&d->watcher, NULL, watch, d);
  if (error) TRY_GOTO(status, status_errno(error, "cannot start a thread"), failed);
  d->watching = true;
  d->port = http_port(d->server, options->port);
  *out = d;
  return NULL;
failed:
  shoal_dashboard_destroy(d);
  return status;
}

int shoal_dashboard_port(const shoal_dashboard *d) { return d->port; }

void shoal_dashboard_destroy(shoal_dashboard *d) {
  if (!d) return;
  pthread_mutex_lock(&d->lock);
  d->ending = true;
  pthread_cond_broadcast(&d->news);
  pthread_mutex_unlock(&d->lock);
  if (d->watching) pthread_join(d->watcher, NULL);
  if (d->server) MHD_stop_daemon(d->server);
  report_set_fini(&d->set);
  pthread_cond_destroy(&d->news);
  pthread_mutex_destroy(&d->lock);
  dash_guard_fini(&d->guard);
  free(d->token);
  free(d);
}
