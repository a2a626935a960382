#include "observe/http_client.h"

#include "base/clock.h"
#include "base/mem.h"
#include "net/tcp_address.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ANSWER_MAX (1 << 20) /* bytes */
#define PORT 80

shoal_status http_url_read(const char *words, http_url *out) {
  static const char expected[] = "expected an address like http://HOST:PORT";
  http_url u = {.port = PORT};
  if (!strncmp(words, "https://", 8))
    return status_make(SHOAL_ERR_ARGUMENT, "%s: https is not supported; send to an agent on this machine that does",
                       words);
  if (strncmp(words, "http://", 7)) return status_make(SHOAL_ERR_ARGUMENT, "%s, not '%s'", expected, words);
  const char *host = words + 7;
  const size_t length = strcspn(host, "/"), name = *host == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":/");
  const char *prefix = host + length;
  int64_t port = PORT;
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
  double until; /* clock */
} connection;

static shoal_status no_answer(const connection *c, const char *why) {
  return status_make(SHOAL_ERR_PEER, "http://%s:%d: %s", c->url->host, c->url->port, why);
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

static shoal_status send_all(const connection *c, const text *request) {
  for (size_t sent = 0; sent < request->length;) {
    TRY(await_ready(c, POLLOUT));
    const ssize_t n = send(c->sock, request->data + sent, request->length - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno != EAGAIN && errno != EINTR) return no_answer(c, strerror(errno));
    if (n > 0) sent += (size_t)n;
  }
  return NULL;
}

/* Until the other side closes: that is what HTTP/1.0 asks for. */
static shoal_status receive_all(const connection *c, text *answer) {
  char bytes[4096];
  for (;;) {
    TRY(await_ready(c, POLLIN));
    const ssize_t n = recv(c->sock, bytes, sizeof bytes, MSG_DONTWAIT);
    if (!n) return NULL;
    if (n < 0 && errno != EAGAIN && errno != EINTR) return no_answer(c, strerror(errno));
    if (n > 0) text_add_bytes(answer, bytes, (size_t)n);
    if (answer->length > ANSWER_MAX) return no_answer(c, "the answer is too long");
  }
}

static shoal_status read_answer(const connection *c, const text *answer, int *code, text *body) {
  int major, minor, found = 0;
  const char *end = answer->data ? strstr(answer->data, "\r\n\r\n") : NULL;
  if (!end || sscanf(answer->data, "HTTP/%d.%d %d", &major, &minor, &found) != 3)
    return status_make(SHOAL_ERR_PEER, "http://%s:%d: the answer is not HTTP", c->url->host, c->url->port);
  *code = found;
  end += 4;
  text_add_bytes(body, end, answer->length - (size_t)(end - answer->data));
  return NULL;
}

shoal_status http_request(const http_url *url, const http_call *call, int *code, text *body) {
  connection c = {.url = url, .sock = -1, .until = clock_seconds() + call->seconds};
  text request = {0}, answer = {0};
  text_add(&request, "%s %s%s HTTP/1.0\r\nHost: %s:%d\r\nAccept: application/json\r\n%s", call->method, url->prefix,
           call->path, url->host, url->port, call->headers ? call->headers : "");
  if (call->body) text_add(&request, "Content-Type: application/json\r\nContent-Length: %zu\r\n", strlen(call->body));
  text_add(&request, "\r\n%s", call->body ? call->body : "");
  shoal_status status = request.failed ? status_no_memory() : dial(&c);
  if (!status) status = send_all(&c, &request);
  if (!status) status = receive_all(&c, &answer);
  if (!status) status = answer.failed ? status_no_memory() : read_answer(&c, &answer, code, body);
  if (c.sock >= 0) close(c.sock);
  text_fini(&request);
  text_fini(&answer);
  return status;
}
