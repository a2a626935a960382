#include "observe/http_client.h"

#include "base/clock.h"
#include "base/mem.h"
#include "net/tcp_address.h"
#include "observe/http_tls.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define ANSWER_MAX (1 << 20) /* bytes */

shoal_status http_url_read(const char *words, http_url *out) {
  static const char expected[] = "expected an address like http://HOST:PORT";
  const bool https = !strncmp(words, "https://", 8);
  if (!https && strncmp(words, "http://", 7)) return status_make(SHOAL_ERR_ARGUMENT, "%s, not '%s'", expected, words);
  http_url u = {.https = https};
  const char *host = strstr(words, "//") + 2;
  const size_t length = strcspn(host, "/"), name = *host == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":/");
  const char *prefix = host + length;
  int64_t port = https ? 443 : 80;
  char number[8] = "";
  if (name < length) snprintf(number, sizeof number, "%.*s", (int)(length - name - 1), host + name + 1);
  const bool good = name && name <= length && name < sizeof u.host && strlen(prefix) < sizeof u.prefix &&
                    !strpbrk(words, " \r\n?#@") && (name == length || text_to_int(number, &port)) && port > 0 &&
                    port < 65536;
  if (!good) return status_make(SHOAL_ERR_ARGUMENT, "%s, not '%s'", expected, words);
  snprintf(u.host, sizeof u.host, "%.*s", (int)name, host);
  snprintf(u.prefix, sizeof u.prefix, "%s", prefix);
  while (*u.prefix && u.prefix[strlen(u.prefix) - 1] == '/') u.prefix[strlen(u.prefix) - 1] = 0;
  u.port = (int)port;
  *out = u;
  return NULL;
}

/* ---- one request */

typedef struct {
  const http_url *url;
  int sock;
  http_tls *tls; /* NULL: http */
  double until;  /* clock */
  bool cut;      /* the other side closed without the end that TLS knows */
} connection;

static shoal_status no_answer(const connection *c, const char *why) {
  return status_make(SHOAL_ERR_PEER, "%s://%s:%d: %s", c->url->https ? "https" : "http", c->url->host, c->url->port,
                     why);
}

static shoal_status await_ready(const connection *c, short events) {
  struct pollfd p = {.fd = c->sock, .events = events};
  const double left = c->until - clock_seconds();
  if (left <= 0 || poll(&p, 1, (int)(1000 * left) + 1) <= 0) return no_answer(c, "no answer in time");
  return NULL;
}

static shoal_status dial(connection *c) {
  char address[320];
  tcp_address where;
  int error = 0;
  snprintf(address, sizeof address, "tcp://%s:%d", c->url->host, c->url->port);
  TRY(tcp_resolve(address, &where));
  return tcp_dial(&where, c->until, &c->sock, &error) ? NULL : no_answer(c, strerror(error));
}

static shoal_status push(const connection *c, const char *bytes, size_t count) {
  for (size_t sent = 0; sent < count;) {
    TRY(await_ready(c, POLLOUT));
    const ssize_t n = send(c->sock, bytes + sent, count - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno != EAGAIN && errno != EINTR) return no_answer(c, strerror(errno));
    if (n > 0) sent += (size_t)n;
  }
  return NULL;
}

/* *n: 0 when the other side has closed. */
static shoal_status pull(const connection *c, char *bytes, size_t max, size_t *n) {
  for (;;) {
    TRY(await_ready(c, POLLIN));
    const ssize_t got = recv(c->sock, bytes, max, MSG_DONTWAIT);
    if (got < 0 && errno != EAGAIN && errno != EINTR) return no_answer(c, strerror(errno));
    *n = (size_t)MAX_OF(got, 0);
    if (got >= 0) return NULL;
  }
}

/* ---- through TLS */

/* Carries bytes after a call that said `result`. *again: the same call has to be made once more. */
static shoal_status carry(connection *c, tls_result result, bool *again) {
  char bytes[4096], words[TLS_TROUBLE];
  shoal_status failed = result == TLS_FAILED ? no_answer(c, http_tls_trouble(c->tls, words)) : NULL;
  shoal_status status = NULL;
  for (size_t n; !status && (n = http_tls_outgoing(c->tls, bytes, sizeof bytes));) status = push(c, bytes, n);
  if (failed) { /* the other side was told, if it can be */
    shoal_status_free(status);
    return failed;
  }
  *again = result == TLS_MORE;
  size_t n = 0;
  if (status || !*again) return status;
  TRY(pull(c, bytes, sizeof bytes, &n));
  if (!n) c->cut = true;
  return !n || http_tls_incoming(c->tls, bytes, n) ? NULL : status_no_memory();
}

static shoal_status greet(connection *c, const char *ca) {
  if (!c->url->https) return NULL;
  TRY(http_tls_create(c->url->host, ca, &c->tls));
  for (bool again = true; again;) {
    TRY(carry(c, http_tls_greet(c->tls), &again));
    if (c->cut) return no_answer(c, "it closed the connection in place of an answer by TLS");
  }
  return NULL;
}

static shoal_status send_all(connection *c, const text *request) {
  if (!c->tls) return push(c, request->data, request->length);
  bool again;
  do TRY(carry(c, http_tls_write(c->tls, request->data, request->length), &again));
  while (again && !c->cut);
  return c->cut ? no_answer(c, "it closed the connection") : NULL;
}

/* *n: 0 at the end. */
static shoal_status receive(connection *c, char *bytes, size_t max, size_t *n) {
  if (!c->tls) return pull(c, bytes, max, n);
  for (bool again = true; again && !c->cut;) {
    *n = 0;
    TRY(carry(c, http_tls_read(c->tls, bytes, max, n), &again));
  }
  return NULL;
}

/* ---- answers */

/* Until the other side closes: that is what HTTP/1.0 asks for. */
static shoal_status receive_all(connection *c, text *answer) {
  char bytes[4096];
  for (size_t n;;) {
    TRY(receive(c, bytes, sizeof bytes, &n));
    if (!n) return NULL;
    text_add_bytes(answer, bytes, n);
    if (answer->length > ANSWER_MAX) return no_answer(c, "the answer is too long");
  }
}

/* Whether the body of this length is all that the head announces. */
static bool is_whole(const connection *c, const char *head, const char *body, size_t length) {
  static const char field[] = "\r\ncontent-length:";
  for (const char *p = head; p < body; p++)
    if (!strncasecmp(p, field, strlen(field))) return length >= strtoull(p + strlen(field), NULL, 10);
  return !c->cut;
}

static shoal_status read_answer(const connection *c, const text *answer, int *code, text *body) {
  int major, minor, found = 0;
  const char *end = answer->data ? strstr(answer->data, "\r\n\r\n") : NULL;
  if (!end || sscanf(answer->data, "HTTP/%d.%d %d", &major, &minor, &found) != 3)
    return no_answer(c, "the answer is not HTTP");
  end += 4;
  const size_t length = answer->length - (size_t)(end - answer->data);
  if (!is_whole(c, answer->data, end, length)) return no_answer(c, "the answer breaks off");
  *code = found;
  text_add_bytes(body, end, length);
  return NULL;
}

shoal_status http_request(const http_url *url, const http_call *call, int *code, text *body) {
  connection c = {.url = url, .sock = -1, .until = clock_seconds() + call->seconds};
  text request = {0}, answer = {0};
  text_add(&request, "%s %s%s HTTP/1.0\r\nHost: %s:%d\r\nConnection: close\r\nAccept: application/json\r\n%s",
           call->method, url->prefix, call->path, url->host, url->port, call->headers ? call->headers : "");
  if (call->body) text_add(&request, "Content-Type: application/json\r\nContent-Length: %zu\r\n", strlen(call->body));
  text_add(&request, "\r\n%s", call->body ? call->body : "");
  shoal_status status = request.failed ? status_no_memory() : dial(&c);
  if (!status) status = greet(&c, call->ca);
  if (!status) status = send_all(&c, &request);
  if (!status) status = receive_all(&c, &answer);
  if (!status) status = answer.failed ? status_no_memory() : read_answer(&c, &answer, code, body);
  http_tls_destroy(c.tls);
  if (c.sock >= 0) close(c.sock);
  text_fini(&request);
  text_fini(&answer);
  return status;
}
