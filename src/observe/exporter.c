#include "observe/exporter.h"

#include "base/mem.h"
#include "observe/dash_guard.h"
#include "observe/http.h"
#include "observe/proc.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define CONNECTIONS_MAX (DASH_STRANGERS_MAX + 16)
#define CONNECTION_SECONDS 15u

struct exporter {
  char *token; /* NULL: none */
  char task[32];
  struct MHD_Daemon *server;
  int port;
  dash_guard guard;
  pthread_mutex_t lock;
  openmetrics_values values; /* under the lock */
  bool ready;                /* atomic */
};

static enum MHD_Result answer_metrics(exporter *e, struct MHD_Connection *c) {
  const char *accepts = MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Accept");
  const bool open = accepts && strstr(accepts, "application/openmetrics-text");
  pthread_mutex_lock(&e->lock);
  openmetrics_values values = e->values;
  pthread_mutex_unlock(&e->lock);
  proc_self process;
  proc_read_self(&process);
  values.memory = (double)process.rss_bytes;
  values.cpu_seconds = process.user_seconds + process.system_seconds;
  text body = {0};
  openmetrics_write(&values, e->task, open ? OPENMETRICS_1_0 : PROMETHEUS_0_0_4, &body);
  return http_answer_text(
      c, MHD_HTTP_OK, &body,
      open ? "application/openmetrics-text; version=1.0.0; charset=utf-8" : "text/plain; version=0.0.4; charset=utf-8");
}

static enum MHD_Result answer(exporter *e, struct MHD_Connection *c, const char *path) {
  unsigned code;
  if (!strcmp(path, "/healthz")) return http_answer_words(c, MHD_HTTP_OK, "ok\n");
  if (!strcmp(path, "/readyz")) {
    const bool ready = __atomic_load_n(&e->ready, __ATOMIC_ACQUIRE);
    return http_answer_words(c, ready ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE, ready ? "ready\n" : "not ready\n");
  }
  const char *refused = http_refusal(c, e->token, &code);
  if (refused) return http_answer_words(c, code, refused);
  if (!strcmp(path, "/metrics")) return answer_metrics(e, c);
  return http_answer_words(c, MHD_HTTP_NOT_FOUND, "/metrics, /healthz and /readyz are here\n");
}

static enum MHD_Result on_request(void *context, struct MHD_Connection *c, const char *path, const char *method,
                                  const char *version, const char *upload, size_t *uploaded, void **request) {
  static int seen; /* its address alone is used */
  if (!*request) {
    *request = &seen;
    return MHD_YES;
  }
  exporter *e = context;
  const union MHD_ConnectionInfo *socket = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
  if (socket) dash_guard_leaves(&e->guard, socket->connect_fd);
  if (*uploaded) {
    *uploaded = 0; /* nobody reads it */
    return MHD_YES;
  }
  if (strcmp(method, "GET") && strcmp(method, "HEAD"))
    return http_answer_words(c, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD are answered\n");
  return answer(e, c, path);
}

static void on_connection(void *context, struct MHD_Connection *c, void **own,
                          enum MHD_ConnectionNotificationCode what) {
  exporter *e = context;
  const union MHD_ConnectionInfo *socket = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
  if (!socket) return;
  if (what == MHD_CONNECTION_NOTIFY_STARTED)
    dash_guard_begins(&e->guard, socket->connect_fd);
  else
    dash_guard_leaves(&e->guard, socket->connect_fd);
}

shoal_status exporter_create(const exporter_options *options, exporter **out) {
  struct sockaddr_storage address;
  const char *where = options->address ? options->address : "127.0.0.1";
  TRY(status_wrap(http_read_address(where, options->port, options->token, &address), "`metrics_address`"));
  exporter *e = calloc(1, sizeof *e);
  if (!e) return status_no_memory();
  dash_guard_init(&e->guard);
  pthread_mutex_init(&e->lock, NULL);
  e->values = openmetrics_none();
  snprintf(e->task, sizeof e->task, "%s", options->task);
  if (options->token) e->token = strdup(options->token);
  errno = 0;
  const unsigned flags =
      MHD_USE_AUTO | MHD_USE_INTERNAL_POLLING_THREAD | (address.ss_family == AF_INET6 ? MHD_USE_IPv6 : 0);
  if (!options->token || e->token)
    e->server = MHD_start_daemon(flags, (uint16_t)options->port, NULL, NULL, on_request, e, MHD_OPTION_SOCK_ADDR,
                                 &address, MHD_OPTION_NOTIFY_CONNECTION, on_connection, e, MHD_OPTION_CONNECTION_LIMIT,
                                 (unsigned)CONNECTIONS_MAX, MHD_OPTION_CONNECTION_TIMEOUT, CONNECTION_SECONDS,
                                 MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)16384, MHD_OPTION_END);
  if (!e->server) {
    const int error = errno ? errno : EADDRINUSE;
    exporter_destroy(e);
    return status_errno(error, "`metrics_port`: %s cannot listen on %s port %d", options->task, where, options->port);
  }
  e->port = http_port(e->server, options->port);
  *out = e;
  return NULL;
}

int exporter_port(const exporter *e) { return e->port; }

openmetrics_values *exporter_lock(exporter *e) {
  if (!e) return NULL;
  pthread_mutex_lock(&e->lock);
  return &e->values;
}

void exporter_unlock(exporter *e) { pthread_mutex_unlock(&e->lock); }

void exporter_set_ready(exporter *e, bool ready) {
  if (e) __atomic_store_n(&e->ready, ready, __ATOMIC_RELEASE);
}

void exporter_destroy(exporter *e) {
  if (!e) return;
  if (e->server) MHD_stop_daemon(e->server);
  pthread_mutex_destroy(&e->lock);
  dash_guard_fini(&e->guard);
  free(e->token);
  free(e);
}
