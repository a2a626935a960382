/* For tests of src/net: addresses nobody uses, clients and servers in processes of their own. */
#ifndef SHOAL_TESTS_NET_CASE_H
#define SHOAL_TESTS_NET_CASE_H

#include "files.h"

#include "base/clock.h"
#include "net/keys.h"
#include "net/wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define NET_JOB 0x1234567890abcdefull
#define NET_ADDRESS 64

/* In child processes, where cmocka's assertions cannot jump. */
#define CHILD_CHECK(condition)                                                       \
  do {                                                                               \
    if (!(condition)) {                                                              \
      fprintf(stderr, "child: %s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      _exit(1);                                                                      \
    }                                                                                \
  } while (0)
#define CHILD_OK(call)                                                                                           \
  do {                                                                                                           \
    shoal_status child_status_ = (call);                                                                         \
    if (child_status_) {                                                                                         \
      fprintf(stderr, "child: %s:%d: %s: %s\n", __FILE__, __LINE__, #call, shoal_status_message(child_status_)); \
      _exit(1);                                                                                                  \
    }                                                                                                            \
  } while (0)

static inline int net_case_port(void) {
  int sock = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t n = sizeof a;
  if (sock < 0 || bind(sock, (struct sockaddr *)&a, n) || getsockname(sock, (struct sockaddr *)&a, &n))
    fail_msg("no free port");
  close(sock);
  return ntohs(a.sin_port);
}

/* Options for the last address that was made: with keys, if its scheme is "tls". */
typedef struct {
  keys_pair server, client;
  const char *allowed[2];
  bool secure;
} net_case_keys;

static inline net_case_keys *net_case_keys_now(void) {
  static net_case_keys keys;
  return &keys;
}

static inline net_options net_case_options(bool server, uint32_t from, size_t largest) {
  const net_case_keys *k = net_case_keys_now();
  net_options o = {.largest = largest, .job = NET_JOB, .from = from};
  if (!k->secure) return o;
  const keys_pair *own = server ? &k->server : &k->client;
  o.public_key = own->public_key;
  o.secret_key = own->secret_key;
  if (server)
    o.allowed = k->allowed;
  else
    o.server_key = k->server.public_key;
  return o;
}

/* scheme: "shm", "tcp", "tls": TCP with keys, or "zmq". */
static inline void net_case_address(const char *scheme, char out[NET_ADDRESS]) {
  static int count;
  net_case_keys *k = net_case_keys_now();
  k->secure = !strcmp(scheme, "tls");
  if (k->secure) {
    assert_ok(keys_make(0, &k->server));
    assert_ok(keys_make(0, &k->client));
    k->allowed[0] = k->client.public_key;
  }
  if (!strcmp(scheme, "shm"))
    snprintf(out, NET_ADDRESS, "shm:/test-%d-%d", (int)getpid(), count++);
  else
    snprintf(out, NET_ADDRESS, "%s://127.0.0.1:%d", strcmp(scheme, "zmq") ? "tcp" : "zmq", net_case_port());
}

/* Runs `body` in a process of its own. Start children before the parent opens an endpoint of its own. */
typedef void (*net_case_body)(const char *address, int number);
static inline pid_t net_case_start(net_case_body body, const char *address, int number) {
  fflush(NULL);
  pid_t pid = fork();
  if (pid < 0) fail_msg("fork: %s", strerror(errno));
  if (!pid) {
    alarm(60);
    body(address, number);
    _exit(0);
  }
  return pid;
}

static inline void net_case_join(pid_t pid) {
  int status;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
  if (!WIFEXITED(status) || WEXITSTATUS(status)) fail_msg("a child process failed (status %x)", status);
}

static inline void net_case_kill(pid_t pid) {
  kill(pid, SIGKILL);
  waitpid(pid, NULL, 0);
}

/* A header before `bytes` zeros; of more than NET_CASE_ZEROS: without their checksum. */
enum { NET_CASE_ZEROS = 100 };
static inline void net_case_encode(const net_header *h, uint64_t job, uint64_t bytes, uint8_t out[WIRE_HEADER]) {
  static const uint8_t zeros[NET_CASE_ZEROS];
  wire_encode(h, job, bytes, out);
  if (bytes <= NET_CASE_ZEROS) wire_seal(out, wire_checksum_of(&(net_part){zeros, bytes}, 1));
}

static inline void net_case_fill(uint8_t *bytes, size_t n, uint32_t seed) {
  for (size_t i = 0; i < n; i++) bytes[i] = (uint8_t)(seed * 31 + i * 7 + (i >> 8));
}

static inline size_t net_case_differs(const uint8_t *bytes, size_t n, uint32_t seed) {
  size_t wrong = 0;
  for (size_t i = 0; i < n; i++) wrong += bytes[i] != (uint8_t)(seed * 31 + i * 7 + (i >> 8));
  return wrong;
}

/* One request of `bytes` with step `step`, and its answer: the same back. */
static inline void net_case_exchange(net_client *c, uint32_t step, size_t bytes) {
  uint8_t *data = malloc(bytes + 1);
  CHILD_CHECK(data);
  net_case_fill(data, bytes, step);
  net_message m;
  CHILD_OK(net_send(c, &(net_header){.kind = 1, .step = step}, &(net_part){data, bytes}, 1, 10));
  CHILD_OK(net_await(c, 10, &m));
  CHILD_CHECK(m.header.kind == 2 && m.header.step == step && m.bytes == bytes);
  CHILD_CHECK((uintptr_t)m.payload % 64 == 0 && !net_case_differs(m.payload, bytes, step));
  net_release_client(c, &m);
  free(data);
}

/* Sends a request back as its answer. */
static inline void net_case_echo(net_server *s, net_message *m) {
  net_header h = m->header;
  h.kind = 2;
  net_part parts[3] = {{m->payload, m->bytes / 3}, {NULL, 0}, {m->payload + m->bytes / 3, m->bytes - m->bytes / 3}};
  assert_ok(net_answer(s, m->peer, &h, parts, 3));
  net_release_server(s, m);
}

/* Echoes until `gone` peers have gone; returns how many messages came. */
static inline long net_case_serve(net_server *s, int gone) {
  long n = 0;
  while (gone) {
    net_message m;
    bool got;
    assert_ok(net_receive(s, 10, &m, &got));
    if (!got) fail_msg("nothing came for 10 s");
    if (m.header.kind == NET_GONE) {
      gone--;
      continue;
    }
    n++;
    net_case_echo(s, &m);
  }
  return n;
}

#endif
