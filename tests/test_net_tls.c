/* TCP and TLS: keys that are missing, wrong, unknown or expired, peers that speak nonsense, other versions, downgrades.
 * The server goes on, and says how much it refused. */
#include "net_case.h"

#include "base/mem.h"
#include "net/wire.h"

#include <fcntl.h>
#include <openssl/ssl.h>
#include <sys/stat.h>
#include <time.h>

enum { LARGEST = 40000, GOOD = 100, SPEED_BYTES = 31400 };

static void good_client(const char *address, int number) {
  net_client *c;
  const net_options o = net_case_options(false, (uint32_t)number, LARGEST);
  CHILD_OK(net_connect(address, &o, 10, &c));
  for (uint32_t i = 0; i < GOOD; i++) net_case_exchange(c, i, i * 131 % LARGEST);
  net_client_close(c);
}

static net_server *listen_at(const char *address) {
  net_server *s;
  const net_options o = net_case_options(true, 0, LARGEST);
  assert_ok(net_listen(address, &o, &s));
  return s;
}

static uint64_t refused(net_server *s) {
  net_stats stats;
  net_server_stats(s, &stats);
  return stats.refused;
}

/* Serves until the child has ended well, and a little longer. Returns how many peers have gone. */
static int serve_child(net_server *s, pid_t pid) {
  int status = -1, gone = 0;
  for (double until = 1e300; clock_seconds() < until;) {
    net_message m;
    bool got;
    assert_ok(net_receive(s, 0.02, &m, &got));
    if (got && m.header.kind == NET_GONE)
      gone++;
    else if (got)
      net_case_echo(s, &m);
    if (until > 1e299 && waitpid(pid, &status, WNOHANG) == pid) until = clock_seconds() + 0.1;
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status)) fail_msg("a child process failed (status %x)", status);
  return gone;
}

/* ---- bytes on the port */

static int raw_connect(const char *address) {
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  a.sin_port = htons((uint16_t)atoi(strrchr(address, ':') + 1));
  for (int i = 0; i < 200; i++) {
    int sock = socket(AF_INET, SOCK_STREAM, 0);
    CHILD_CHECK(sock >= 0);
    if (!connect(sock, (struct sockaddr *)&a, sizeof a)) return sock;
    close(sock);
    usleep(10000);
  }
  CHILD_CHECK(!"connected");
  return -1;
}

static void say(int sock, const void *bytes, size_t n) {
  CHILD_CHECK(send(sock, bytes, n, MSG_NOSIGNAL) == (ssize_t)n);
}

static void await_end(int sock) {
  uint8_t bytes[4096];
  while (recv(sock, bytes, sizeof bytes, 0) > 0) continue;
  close(sock);
}

enum { OPEN = 6, NOISE = 60 };

static void scanner(const char *address, int unused) {
  static const char *const words[OPEN] = {
      "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "\x16\x03\x01\x02", "SSH-2.0-x\r\n", "", "\xff",
      "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"};
  static const size_t lengths[OPEN] = {27, 4, 11, 0, 1, 16};
  int open[OPEN];
  for (size_t i = 0; i < OPEN; i++) {
    open[i] = raw_connect(address);
    if (lengths[i]) say(open[i], words[i], lengths[i]);
  }
  uint32_t x = 1;
  for (int i = 0; i < NOISE; i++) {
    uint8_t noise[4096] = {0x16, 0x03, 0x01, (uint8_t)(i % 16), 0xff}; /* every other one looks like TLS at first */
    for (size_t k = i % 2 ? 5 : 0; k < sizeof noise; k++) noise[k] = (uint8_t)((x = x * 1664525 + 1013904223) >> 24);
    int sock = raw_connect(address);
    say(sock, noise, sizeof noise);
    await_end(sock);
  }
  good_client(address, 1); /* while the half greetings are still open */
  for (size_t i = 0; i < OPEN; i++) close(open[i]);
}

static void scanners(void **state) {
  char address[NET_ADDRESS];
  net_case_address(*state, address);
  pid_t pid = net_case_start(scanner, address, 0);
  net_server *s = listen_at(address);
  assert_int_equal(serve_child(s, pid), 1);
  assert_in_range(refused(s), NOISE, NOISE + OPEN);
  net_server_close(s);
}

/* More half-open connections than are let in: the next client is served all the same. */
static void crowd(const char *address, int unused) {
  enum { MANY = 300 };
  int open[MANY];
  for (int i = 0; i < MANY; i++) open[i] = raw_connect(address);
  good_client(address, 1);
  for (int i = 0; i < MANY; i++) close(open[i]);
}

static void crowds(void **state) {
  char address[NET_ADDRESS];
  net_case_address(*state, address);
  pid_t pid = net_case_start(crowd, address, 0);
  net_server *s = listen_at(address);
  assert_int_equal(serve_child(s, pid), 1);
  assert_true(refused(s) >= 44);
  net_server_close(s);
}

/* ---- messages of somebody who speaks the protocol */

enum {
  FLIPS = 512 + 100 /* of the header, and one of each byte of the payload */,
  DAMAGED = 100,
  NOT_OURS = 3,
  SKIPPED = 20000
};

static void take_welcome(int sock) {
  uint8_t answer[WIRE_HEADER];
  net_header h;
  uint64_t job, bytes;
  CHILD_CHECK(recv(sock, answer, sizeof answer, MSG_WAITALL) == WIRE_HEADER);
  CHILD_CHECK(!wire_decode(answer, WIRE_HEADER, LARGEST, &h, &job, &bytes) && h.kind == WIRE_WELCOME);
}

static int greeted(const char *address) {
  uint8_t hello[WIRE_HEADER];
  int sock = raw_connect(address);
  net_case_encode(&(net_header){.kind = WIRE_HELLO, .from = 9, .number = LARGEST}, NET_JOB, 0, hello);
  say(sock, hello, sizeof hello);
  take_welcome(sock);
  return sock;
}

static void liar(const char *address, int unused) {
  uint8_t frame[WIRE_HEADER + 100] = {0}, answer[sizeof frame];
  const net_header request = {.kind = 1, .from = 9};
  net_case_encode(&request, NET_JOB, 100, frame);
  int sock = raw_connect(address); /* before the hello: 1 */
  say(sock, frame, sizeof frame);
  await_end(sock);
  for (int bit = 0; bit < FLIPS; bit++) {
    sock = greeted(address);
    uint8_t *byte = bit < 512 ? &frame[bit / 8] : &frame[WIRE_HEADER + bit - 512];
    *byte ^= (uint8_t)(1 << bit % 8);
    say(sock, frame, sizeof frame);
    *byte ^= (uint8_t)(1 << bit % 8);
    await_end(sock);
  }
  sock = greeted(address); /* cut off: the peer has gone, nothing is counted */
  say(sock, frame, sizeof frame - 1);
  close(sock);
  sock = greeted(address); /* larger than agreed: 1 */
  net_case_encode(&request, NET_JOB, LARGEST + 1, frame);
  say(sock, frame, WIRE_HEADER);
  await_end(sock);
  sock = greeted(address); /* well-formed, but another's: passed over, and the connection goes on */
  for (int i = 0; i < SKIPPED + NOT_OURS; i++) {
    const net_header wrong = {.kind = i % 3 == 2 ? NET_GONE : 1, .from = i % 3 == 1 ? 8 : 9};
    net_case_encode(&wrong, i % 3 ? NET_JOB : NET_JOB + 1, 100, frame);
    say(sock, frame, sizeof frame);
  }
  net_case_encode(&request, NET_JOB, 100, frame);
  for (size_t i = 0; i < sizeof frame; i++) say(sock, frame + i, 1); /* after all that, one that is right, bit by bit */
  CHILD_CHECK(recv(sock, answer, sizeof answer, MSG_WAITALL) == (ssize_t)sizeof answer);
  CHILD_CHECK(!memcmp(answer + WIRE_HEADER, frame + WIRE_HEADER, 100));
  close(sock);
}

static void liars(void **state) {
  char address[NET_ADDRESS];
  net_case_address("tcp", address);
  pid_t pid = net_case_start(liar, address, 0), good = net_case_start(good_client, address, 1);
  net_server *s = listen_at(address);
  int gone = serve_child(s, pid);
  gone += serve_child(s, good);
  assert_int_equal(gone, FLIPS + 3 + 1);
  assert_int_equal(refused(s), 1 + FLIPS + 1 + SKIPPED + NOT_OURS);
  net_stats stats;
  net_server_stats(s, &stats);
  assert_int_equal(stats.damaged, DAMAGED);
  net_server_close(s);
}

/* ---- another version of Shoal */

enum { VERSION_AT = 4 }; /* in the header */

static void newer_client(const char *address, int unused) {
  uint8_t hello[WIRE_HEADER], answer[WIRE_HEADER + 200];
  int sock = raw_connect(address);
  net_case_encode(&(net_header){.kind = WIRE_HELLO, .number = LARGEST}, NET_JOB, 0, hello);
  hello[VERSION_AT]++;
  say(sock, hello, sizeof hello);
  ssize_t n = recv(sock, answer, sizeof answer, MSG_WAITALL);
  CHILD_CHECK(n > WIRE_HEADER && memmem(answer + WIRE_HEADER, (size_t)n - WIRE_HEADER, "version", 7));
}

static void newer_server(const char *address, int unused) {
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  const int yes = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
  a.sin_port = htons((uint16_t)atoi(strrchr(address, ':') + 1));
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  CHILD_CHECK(!bind(listener, (struct sockaddr *)&a, sizeof a) && !listen(listener, 1));
  uint8_t hello[WIRE_HEADER];
  int sock = accept(listener, NULL, NULL);
  CHILD_CHECK(recv(sock, hello, sizeof hello, MSG_WAITALL) == WIRE_HEADER);
  hello[VERSION_AT]++;
  say(sock, hello, sizeof hello);
  await_end(sock);
}

static void versions(void **state) {
  char address[NET_ADDRESS];
  net_case_address("tcp", address);
  pid_t pid = net_case_start(newer_client, address, 0);
  net_server *s = listen_at(address);
  serve_child(s, pid);
  assert_int_equal(refused(s), 1);
  net_server_close(s);
  net_case_address("tcp", address);
  pid = net_case_start(newer_server, address, 0);
  net_client *c;
  assert_fails(net_connect(address, &(net_options){.largest = LARGEST, .job = NET_JOB}, 5, &c), SHOAL_ERR_REFUSED,
               "version 3 of the protocol, the other version 2");
  net_case_join(pid);
}

/* ---- keys */

static void expect_refusal(const char *address, const net_options *o, shoal_code code, const char *words) {
  net_client *c = NULL;
  shoal_status status = net_connect(address, o, 1, &c);
  if (!status || shoal_status_code(status) != code || !strstr(shoal_status_message(status), words))
    fprintf(stderr, "child: expected '%s', got '%s'\n", words, status ? shoal_status_message(status) : "success");
  CHILD_CHECK(status && shoal_status_code(status) == code && strstr(shoal_status_message(status), words));
  CHILD_CHECK(strstr(shoal_status_message(status), address));
  shoal_status_free(status);
}

static void key_clients(const char *address, int unused) {
  const net_options right = net_case_options(false, 1, LARGEST);
  net_options o = right;
  keys_pair other, late;
  CHILD_OK(keys_make(0, &other));
  good_client(address, 1);
  o.public_key = other.public_key; /* a key that nobody knows */
  o.secret_key = other.secret_key;
  expect_refusal(address, &o, SHOAL_ERR_REFUSED, "does not allow our key");
  o.public_key = right.public_key; /* a name that is known, without its secret */
  expect_refusal(address, &o, SHOAL_ERR_REFUSED, "another key than the one we trust");
  o = right; /* we expect somebody else */
  o.server_key = other.public_key;
  expect_refusal(address, &o, SHOAL_ERR_REFUSED, "another key than the one we trust");
  o = (net_options){.largest = LARGEST, .job = NET_JOB}; /* no key */
  expect_refusal(address, &o, SHOAL_ERR_REFUSED, "this server requires keys");
  CHILD_OK(keys_make((int64_t)time(NULL) - 5, &late));
  o = right;
  o.public_key = late.public_key;
  expect_refusal(address, &o, SHOAL_ERR_REFUSED, "our own key has expired");
  o = right;
  o.server_key = late.public_key;
  expect_refusal(address, &o, SHOAL_ERR_REFUSED, "the server's key has expired");
  good_client(address, 1);
}

static void keys(void **state) {
  char address[NET_ADDRESS];
  net_case_address("tls", address);
  pid_t pid = net_case_start(key_clients, address, 0);
  net_server *s = listen_at(address);
  assert_int_equal(serve_child(s, pid), 2);
  assert_int_equal(refused(s), 4);
  net_server_close(s);
}

/* The server's list says when a key ends; its owner does not know. */
static void late_client(const char *address, int unused) {
  const net_options o = net_case_options(false, 1, LARGEST);
  expect_refusal(address, &o, SHOAL_ERR_REFUSED, "your key has expired");
}

static void expired_keys(void **state) {
  char address[NET_ADDRESS], line[KEYS_TEXT];
  net_case_address("tls", address);
  net_case_keys *k = net_case_keys_now();
  snprintf(line, sizeof line, "%.40s expires 2026-01-01T00:00:00Z", k->client.public_key);
  assert_true(keys_valid(line));
  k->allowed[0] = line;
  pid_t pid = net_case_start(late_client, address, 0);
  net_server *s = listen_at(address);
  assert_int_equal(serve_child(s, pid), 0);
  assert_int_equal(refused(s), 1);
  net_server_close(s);
}

/* A client with keys at a server without. */
static void sealed_client(const char *address, int unused) {
  keys_pair own, other;
  CHILD_OK(keys_make(0, &own));
  CHILD_OK(keys_make(0, &other));
  net_options o = {.largest = LARGEST, .job = NET_JOB, .public_key = own.public_key, .secret_key = own.secret_key};
  o.server_key = other.public_key;
  expect_refusal(address, &o, SHOAL_ERR_PEER, "does it use keys?");
}

static void plain_server(void **state) {
  char address[NET_ADDRESS];
  net_case_address("tcp", address);
  pid_t pid = net_case_start(sealed_client, address, 0);
  net_server *s = listen_at(address);
  assert_int_equal(serve_child(s, pid), 0);
  assert_true(refused(s) > 0);
  net_server_close(s);
}

/* ---- TLS, but not as we want it */

static void expect_no_handshake(const char *address, int version, const char *suites, const char *groups) {
  SSL_CTX *context = SSL_CTX_new(TLS_client_method());
  CHILD_CHECK(context && SSL_CTX_set_min_proto_version(context, TLS1_VERSION) &&
              SSL_CTX_set_max_proto_version(context, version));
  SSL_CTX_set_security_level(context, 0);
  if (suites) CHILD_CHECK(SSL_CTX_set_ciphersuites(context, suites));
  if (groups) CHILD_CHECK(SSL_CTX_set1_groups_list(context, groups));
  SSL *ssl = SSL_new(context);
  int sock = raw_connect(address);
  CHILD_CHECK(ssl && SSL_set_fd(ssl, sock));
  CHILD_CHECK(SSL_connect(ssl) != 1);
  SSL_free(ssl);
  SSL_CTX_free(context);
  close(sock);
}

static void downgrader(const char *address, int unused) {
  expect_no_handshake(address, TLS1_VERSION, NULL, NULL);
  expect_no_handshake(address, TLS1_2_VERSION, NULL, NULL);
  expect_no_handshake(address, TLS1_3_VERSION, NULL, NULL);
  expect_no_handshake(address, TLS1_3_VERSION, "TLS_CHACHA20_POLY1305_SHA256", NULL);
  expect_no_handshake(address, TLS1_3_VERSION, NULL, "P-256");
  good_client(address, 1);
}

static void downgrades(void **state) {
  char address[NET_ADDRESS];
  net_case_address("tls", address);
  pid_t pid = net_case_start(downgrader, address, 0);
  net_server *s = listen_at(address);
  assert_int_equal(serve_child(s, pid), 1);
  assert_int_equal(refused(s), 5);
  net_server_close(s);
}

/* Bits of the encrypted stream flipped on the way: the connection ends, the message is not seen. */
static void tamperer(const char *address, int unused) {
  int listener = socket(AF_INET, SOCK_STREAM, 0), ends[2];
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t n = sizeof a;
  CHILD_CHECK(!bind(listener, (struct sockaddr *)&a, n) && !listen(listener, 1) &&
              !getsockname(listener, (struct sockaddr *)&a, &n));
  char relay[NET_ADDRESS];
  snprintf(relay, sizeof relay, "tcp://127.0.0.1:%d", ntohs(a.sin_port));
  pid_t pid = fork();
  if (!pid) {
    ends[0] = accept(listener, NULL, NULL);
    ends[1] = raw_connect(address);
    uint8_t bytes[65536];
    for (size_t passed = 0;;) {
      fd_set set;
      FD_ZERO(&set);
      for (int i = 0; i < 2; i++) FD_SET(ends[i], &set);
      if (select(MAX_OF(ends[0], ends[1]) + 1, &set, NULL, NULL, NULL) < 0) _exit(1);
      for (int i = 0; i < 2; i++) {
        if (!FD_ISSET(ends[i], &set)) continue;
        ssize_t got = recv(ends[i], bytes, sizeof bytes, 0);
        if (got <= 0) _exit(0);
        passed += i ? 0 : (size_t)got;
        if (!i && passed > 8000) bytes[got / 2] ^= 1;
        if (send(ends[1 - i], bytes, (size_t)got, MSG_NOSIGNAL) != got) _exit(0);
      }
    }
  }
  close(listener);
  net_client *c;
  net_message m;
  const net_options o = net_case_options(false, 1, LARGEST);
  static uint8_t data[LARGEST];
  CHILD_OK(net_connect(relay, &o, 10, &c));
  net_case_exchange(c, 1, 100);
  CHILD_OK(net_send(c, &(net_header){.kind = 1}, &(net_part){data, LARGEST}, 1, 10));
  shoal_status status = net_await(c, 10, &m);
  CHILD_CHECK(status && shoal_status_code(status) == SHOAL_ERR_PEER);
  shoal_status_free(status);
  net_client_close(c);
  kill(pid, SIGKILL);
  waitpid(pid, NULL, 0);
}

static void tampering(void **state) {
  char address[NET_ADDRESS];
  net_case_address("tls", address);
  pid_t pid = net_case_start(tamperer, address, 0);
  net_server *s = listen_at(address);
  assert_int_equal(serve_child(s, pid), 1);
  assert_int_equal(refused(s), 1);
  net_server_close(s);
}

/* Keys are changed on the way, many times. */
static void rekeying_client(const char *address, int unused) {
  net_client *c;
  net_options o = net_case_options(false, 1, LARGEST);
  o.rekey = 1;
  CHILD_OK(net_connect(address, &o, 10, &c));
  for (uint32_t i = 0; i < 50; i++) net_case_exchange(c, i, i * 799);
  net_client_close(c);
}

static void rekeying(void **state) {
  char address[NET_ADDRESS];
  net_case_address("tls", address);
  pid_t pid = net_case_start(rekeying_client, address, 0);
  net_server *s;
  net_options o = net_case_options(true, 0, LARGEST);
  o.rekey = 100000;
  assert_ok(net_listen(address, &o, &s));
  assert_int_equal(net_case_serve(s, 1), 50);
  net_server_close(s);
  net_case_join(pid);
}

/* ---- addresses and files */

static void beyond_loopback(void **state) {
  net_server *s;
  net_client *c;
  char address[NET_ADDRESS];
  net_options none = {.job = NET_JOB};
  int port = net_case_port();
  snprintf(address, sizeof address, "tcp://0.0.0.0:%d", port);
  assert_fails(net_listen(address, &none, &s), SHOAL_ERR_ARGUMENT, "shoal keygen");
  snprintf(address, sizeof address, "tcp://*:%d", port);
  assert_fails(net_listen(address, &none, &s), SHOAL_ERR_ARGUMENT, "--insecure");
  assert_fails(net_connect("tcp://192.0.2.1:4000", &none, 0.1, &c), SHOAL_ERR_ARGUMENT, "--insecure");
  assert_fails(net_connect("tcp://[2001:db8::1]:4000", &none, 0.1, &c), SHOAL_ERR_ARGUMENT, "--insecure");
  none.insecure = true;
  assert_ok(net_listen(address, &none, &s));
  net_server_close(s);
  assert_fails(net_listen("tcp://192.0.2.1:4000", &none, &s), SHOAL_ERR_SYSTEM, "no address of this host");
  net_options half = {.job = NET_JOB, .secret_key = "too short"};
  assert_fails(net_listen(address, &half, &s), SHOAL_ERR_ARGUMENT, "40 characters");
  keys_pair pair;
  assert_ok(keys_make(0, &pair));
  net_options unlisted = {.job = NET_JOB, .public_key = pair.public_key, .secret_key = pair.secret_key};
  assert_fails(net_listen(address, &unlisted, &s), SHOAL_ERR_ARGUMENT, "clients' public keys");
  assert_fails(net_connect(address, &unlisted, 0.1, &c), SHOAL_ERR_ARGUMENT, "server's public key");
}

/* A server at all addresses is reached by name, by IPv4 and, where this host has it, by IPv6. */
static void every_family(const char *address, int unused) {
  static const char *const hosts[] = {"localhost", "127.0.0.1", "[::1]"};
  const bool six = !access("/proc/net/if_inet6", F_OK);
  for (size_t i = 0; i < 2 + (six ? 1 : 0); i++) {
    char there[NET_ADDRESS];
    snprintf(there, sizeof there, "tcp://%s%s", hosts[i], strrchr(address, ':'));
    good_client(there, 1);
  }
}

static void families(void **state) {
  char address[NET_ADDRESS];
  net_case_address("tls", address);
  pid_t pid = net_case_start(every_family, address, 0);
  char any[NET_ADDRESS];
  snprintf(any, sizeof any, "tcp://*%s", strrchr(address, ':'));
  net_server *s = listen_at(any);
  assert_true(serve_child(s, pid) >= 2);
  net_server_close(s);
}

static void key_lines(void **state) {
  keys_pair pair;
  char line[KEYS_TEXT + 40];
  assert_ok(keys_make(1798761600, &pair)); /* 2027-01-01 */
  assert_true(keys_valid(pair.public_key) && keys_valid(pair.secret_key));
  assert_string_equal(pair.public_key + KEYS_CHARS, " expires 2027-01-01T00:00:00Z");
  assert_int_equal(keys_expiry(pair.public_key), 1798761600);
  static const char *const wrong[] = {" expires", " expires 2027", " expires 2027-01-01T00:00:00Zx", " until never",
                                      "x"};
  for (size_t i = 0; i < COUNT_OF(wrong); i++) {
    snprintf(line, sizeof line, "%.40s%s", pair.public_key, wrong[i]);
    assert_false(keys_valid(line));
  }
  assert_false(keys_valid("#####################################0##")); /* more than 32 bytes hold */
}

/* ---- how fast: SHOAL_NET_SPEED=1 prints it */

static void large_client(const char *address, int megabytes) {
  const size_t bytes = (size_t)megabytes * 1000000;
  net_client *c;
  const net_options o = net_case_options(false, 0, bytes);
  CHILD_OK(net_connect(address, &o, 10, &c));
  uint8_t *data = malloc(bytes);
  CHILD_CHECK(data);
  memset(data, 1, bytes);
  double best = 1e9;
  for (int i = 0; i < 8; i++) {
    net_message m;
    double start = clock_seconds();
    CHILD_OK(net_send(c, &(net_header){.kind = 1}, &(net_part){data, bytes}, 1, 60));
    CHILD_OK(net_await(c, 60, &m));
    best = MIN_OF(best, clock_seconds() - start);
    net_release_client(c, &m);
  }
  printf("%s: %d MB there and back in %.0f ms, %.2f GB/s\n", address, megabytes, best * 1e3,
         2e-9 * (double)bytes / best);
  fflush(stdout);
  net_client_close(c);
}

static void large(void **state) {
  if (!getenv("SHOAL_NET_SPEED")) skip();
  char address[NET_ADDRESS];
  net_case_address(*state, address);
  pid_t pid = net_case_start(large_client, address, 244);
  net_server *s;
  const net_options o = net_case_options(true, 0, 244000000);
  assert_ok(net_listen(address, &o, &s));
  net_case_serve(s, 1);
  net_server_close(s);
  net_case_join(pid);
}

#define WITH(test, scheme) \
  { #test " over " scheme, test, NULL, NULL, scheme }

int main(void) {
  alarm(110);
  const struct CMUnitTest tests[] = {
      WITH(scanners, "tcp"),
      WITH(scanners, "tls"),
      WITH(crowds, "tls"),
      cmocka_unit_test(liars),
      cmocka_unit_test(versions),
      cmocka_unit_test(keys),
      cmocka_unit_test(expired_keys),
      cmocka_unit_test(plain_server),
      cmocka_unit_test(downgrades),
      cmocka_unit_test(tampering),
      cmocka_unit_test(rekeying),
      cmocka_unit_test(beyond_loopback),
      cmocka_unit_test(families),
      cmocka_unit_test(key_lines),
      WITH(large, "shm"),
      WITH(large, "tcp"),
      WITH(large, "tls"),
      WITH(large, "zmq"),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
