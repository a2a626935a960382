/* Peers that speak nonsense, wrong keys, files of keys. The server goes on, and says how much it refused. */
#include "net_case.h"

#include "base/mem.h"
#include "net/keys.h"
#include "net/shm_greet.h"
#include "net/wire.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <zmq.h>

enum { LARGEST = 40000, GOOD = 300 };

static void good_client(const char *address, int number) {
  net_client *c;
  CHILD_OK(net_connect(address, &(net_options){.largest = LARGEST, .job = NET_JOB, .from = (uint32_t)number}, 10, &c));
  for (uint32_t i = 0; i < GOOD; i++) net_case_exchange(c, i, i * 131 % LARGEST);
  net_client_close(c);
}

static net_server *listen_at(const char *address) {
  net_server *s;
  assert_ok(net_listen(address, &(net_options){.largest = LARGEST, .job = NET_JOB}, &s));
  return s;
}

/* Echoes for a while without caring who comes and goes. Returns how many have gone. */
static int serve_for(net_server *s, double seconds) {
  int gone = 0;
  for (double until = clock_seconds() + seconds; clock_seconds() < until;) {
    net_message m;
    bool got;
    assert_ok(net_receive(s, 0.02, &m, &got));
    if (!got) continue;
    if (m.header.kind == NET_GONE)
      gone++;
    else
      net_case_echo(s, &m);
  }
  return gone;
}

static uint64_t refused(net_server *s) {
  net_stats stats;
  net_server_stats(s, &stats);
  return stats.refused;
}

/* Serves until the child has ended, and a little longer; the child must have ended well. */
static int serve_child(net_server *s, pid_t pid) {
  int status, gone = 0;
  while (!waitpid(pid, &status, WNOHANG)) gone += serve_for(s, 0.02);
  if (!WIFEXITED(status) || WEXITSTATUS(status)) fail_msg("a child process failed (status %x)", status);
  return gone + serve_for(s, 0.2);
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

static void scanner(const char *address, int unused) {
  static const char *const words[] = {"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
                                      "\x16\x03\x01\x02",
                                      "SSH-2.0-x\r\n",
                                      "",
                                      "\xff",
                                      "\xff\0\0\0\0\0\0\0\x01\x7f",
                                      "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"};
  static const size_t lengths[] = {27, 4, 11, 0, 1, 10, 16};
  int open[COUNT_OF(words)];
  for (size_t i = 0; i < COUNT_OF(words); i++) {
    open[i] = raw_connect(address);
    send(open[i], words[i], lengths[i], MSG_NOSIGNAL);
  }
  uint32_t x = 1;
  for (int i = 0; i < 30; i++) {
    uint8_t noise[4096];
    for (size_t k = 0; k < sizeof noise; k++) noise[k] = (uint8_t)((x = x * 1664525 + 1013904223) >> 24);
    int sock = raw_connect(address);
    send(sock, noise, sizeof noise, MSG_NOSIGNAL);
    close(sock);
  }
  good_client(address, 1); /* while the half greetings are still open */
  for (size_t i = 0; i < COUNT_OF(words); i++) close(open[i]);
}

static void scanners(void **state) {
  char address[NET_ADDRESS];
  net_case_address("zmq", address);
  pid_t pid = net_case_start(scanner, address, 0);
  net_server *s = listen_at(address);
  assert_int_equal(serve_child(s, pid), 1);
  assert_true(refused(s) > 0);
  net_server_close(s);
}

/* ---- messages of somebody who speaks ZeroMQ */

/* The address as libzmq takes it. */
static const char *wire_address(const char *address) {
  static char text[NET_ADDRESS + 8];
  snprintf(text, sizeof text, "tcp%s", address + 3);
  return text;
}

enum { FLIPS = 512 };

static void say(void *socket, const uint8_t *header, size_t n, const void *payload, size_t bytes) {
  CHILD_CHECK(zmq_send(socket, header, n, payload ? ZMQ_SNDMORE : 0) >= 0);
  if (payload) CHILD_CHECK(zmq_send(socket, payload, bytes, 0) >= 0);
}

/* A socket that was welcomed. */
static void *greeted(void *context, const char *address) {
  void *socket = zmq_socket(context, ZMQ_DEALER);
  int linger = 2000;
  uint8_t header[WIRE_HEADER];
  zmq_setsockopt(socket, ZMQ_LINGER, &linger, sizeof linger);
  CHILD_CHECK(!zmq_connect(socket, wire_address(address)));
  net_case_encode(&(net_header){.kind = 1, .from = 9}, NET_JOB, 0, header);
  say(socket, header, sizeof header, NULL, 0); /* before the hello: 1 */
  net_case_encode(&(net_header){.kind = WIRE_HELLO, .from = 9, .number = LARGEST}, NET_JOB, 0, header);
  say(socket, header, sizeof header, NULL, 0);
  CHILD_CHECK(zmq_recv(socket, header, sizeof header, 0) == WIRE_HEADER);
  return socket;
}

/* The first that does not check ends a connection; those behind it are refused, too. */
static void liar(const char *address, int unused) {
  void *context = zmq_ctx_new(), *socket = greeted(context, address);
  uint8_t header[WIRE_HEADER], payload[100] = {0}, answer[WIRE_HEADER + sizeof payload];
  const net_header request = {.kind = 1, .from = 9};
  net_case_encode(&request, NET_JOB + 1, sizeof payload,
                  header); /* another job, another name, the transport's kinds: 3 */
  say(socket, header, sizeof header, payload, sizeof payload);
  net_case_encode(&(net_header){.kind = 1, .from = 8}, NET_JOB, sizeof payload, header);
  say(socket, header, sizeof header, payload, sizeof payload);
  net_case_encode(&(net_header){.kind = NET_GONE, .from = 9}, NET_JOB, sizeof payload, header);
  say(socket, header, sizeof header, payload, sizeof payload);
  net_case_encode(&request, NET_JOB, sizeof payload, header); /* after all that, one that is right */
  say(socket, header, sizeof header, payload, sizeof payload);
  CHILD_CHECK(zmq_recv(socket, answer, sizeof answer, 0) == sizeof answer);
  memcpy(answer, header, sizeof header); /* the same as one frame */
  memcpy(answer + sizeof header, payload, sizeof payload);
  say(socket, answer, sizeof answer, NULL, 0);
  CHILD_CHECK(zmq_recv(socket, answer, sizeof answer, 0) == sizeof answer);
  for (int bit = 0; bit < FLIPS; bit++) { /* 512 */
    header[bit / 8] ^= (uint8_t)(1 << bit % 8);
    say(socket, header, sizeof header, payload, sizeof payload);
    header[bit / 8] ^= (uint8_t)(1 << bit % 8);
  }
  zmq_close(socket);
  socket = greeted(context, address);
  say(socket, header, sizeof header, payload, sizeof payload - 1); /* five that are cut off or too long */
  say(socket, header, sizeof header, NULL, 0);
  say(socket, header, sizeof header - 1, payload, sizeof payload);
  say(socket, header, 0, NULL, 0);
  CHILD_CHECK(zmq_send(socket, payload, 3, ZMQ_SNDMORE) >= 0);
  say(socket, header, sizeof header, payload, sizeof payload);
  zmq_close(socket);
  socket = greeted(context, address);
  memcpy(answer, header, sizeof header); /* and wrong as one: cut off, too long, a frame too many, a flipped bit: 4 */
  say(socket, answer, sizeof answer - 1, NULL, 0);
  net_case_encode(&request, NET_JOB, sizeof payload - 1, answer);
  say(socket, answer, sizeof answer, NULL, 0);
  net_case_encode(&request, NET_JOB, sizeof payload, answer);
  say(socket, answer, sizeof answer, payload, sizeof payload);
  answer[50] ^= 4;
  say(socket, answer, sizeof answer, NULL, 0);
  /* Larger than agreed: the connection ends at that. */
  uint8_t *huge = calloc(1, LARGEST + 1000);
  CHILD_CHECK(huge);
  net_case_encode(&request, NET_JOB, LARGEST + 1000, header);
  say(socket, header, sizeof header, huge, LARGEST + 1000);
  free(huge);
  zmq_close(socket);
  zmq_ctx_term(context);
}

static void liars(void **state) {
  char address[NET_ADDRESS];
  net_case_address("zmq", address);
  pid_t pid = net_case_start(liar, address, 0), good = net_case_start(good_client, address, 1);
  net_server *s = listen_at(address);
  int gone = serve_child(s, pid);
  gone += serve_child(s, good);
  enum { WRONG = 3 + FLIPS + 5 + 3 + 4 };
  const double end = clock_seconds() + 20; /* a busy machine is behind with what a child had sent before it ended */
  while ((refused(s) < WRONG || gone < 4) && clock_seconds() < end) gone += serve_for(s, 0.05);
  assert_int_equal(gone, 4);
  assert_in_range(refused(s), WRONG, WRONG + 2); /* the oversized one shows in several ways */
  net_server_close(s);
}

/* ---- another version of Shoal */

enum { VERSION_AT = 4 }; /* in the header */

static void newer_client(const char *address, int unused) {
  void *context = zmq_ctx_new(), *socket = zmq_socket(context, ZMQ_DEALER);
  uint8_t frame[WIRE_HEADER + 200];
  CHILD_CHECK(!zmq_connect(socket, wire_address(address)));
  net_case_encode(&(net_header){.kind = WIRE_HELLO, .number = LARGEST}, NET_JOB, 0, frame);
  frame[VERSION_AT]++;
  say(socket, frame, WIRE_HEADER, NULL, 0);
  int n = zmq_recv(socket, frame, sizeof frame, 0);
  net_header h;
  uint64_t job, bytes;
  CHILD_CHECK(n > WIRE_HEADER && !wire_decode(frame, WIRE_HEADER, LARGEST, &h, &job, &bytes));
  CHILD_CHECK(h.kind == WIRE_REFUSED);
  CHILD_CHECK(memmem(frame + WIRE_HEADER, (size_t)n - WIRE_HEADER, "version", 7));
  zmq_close(socket);
  zmq_ctx_term(context);
}

static void newer_server(const char *address, int unused) {
  void *context = zmq_ctx_new(), *socket = zmq_socket(context, ZMQ_ROUTER);
  uint8_t id[16], frame[WIRE_HEADER];
  CHILD_CHECK(!zmq_bind(socket, wire_address(address)));
  int n = zmq_recv(socket, id, sizeof id, 0);
  CHILD_CHECK(n > 0 && zmq_recv(socket, frame, sizeof frame, 0) == WIRE_HEADER);
  frame[VERSION_AT]++;
  CHILD_CHECK(zmq_send(socket, id, (size_t)n, ZMQ_SNDMORE) >= 0 && zmq_send(socket, frame, sizeof frame, 0) >= 0);
  /* A connection closed with something unread is reset, and the answer lost with it. */
  int patience = 300;
  zmq_setsockopt(socket, ZMQ_RCVTIMEO, &patience, sizeof patience);
  while (zmq_recv(socket, frame, sizeof frame, 0) >= 0) continue;
  zmq_close(socket);
  zmq_ctx_term(context);
}

static void versions(void **state) {
  char address[NET_ADDRESS];
  net_case_address("zmq", address);
  pid_t pid = net_case_start(newer_client, address, 0);
  net_server *s = listen_at(address);
  serve_child(s, pid);
  assert_int_equal(refused(s), 1);
  net_server_close(s);
  net_case_address("zmq", address);
  pid = net_case_start(newer_server, address, 0);
  net_client *c;
  assert_fails(net_connect(address, &(net_options){.largest = LARGEST, .job = NET_JOB}, 5, &c), SHOAL_ERR_REFUSED,
               "version 3 of the protocol, the other version 2");
  net_case_join(pid);
}

static void newer_client_here(const char *address, int unused) {
  shm_hello h;
  shm_welcome w;
  int sock, fds[2];
  CHILD_OK(greet_connect(address, clock_seconds() + 5, &sock));
  greet_fill_hello(&h, 9, NET_JOB, LARGEST);
  h.magic++;
  h.version++;
  CHILD_CHECK(greet_send_hello(sock, &h));
  shoal_status status = greet_await_welcome(sock, clock_seconds() + 5, &w, fds);
  CHILD_CHECK(status && strstr(shoal_status_message(status), "version 2 of the protocol, the client version 3"));
  shoal_status_free(status);
  close(sock);
}

/* Its welcome may be longer than ours. */
static void newer_server_here(const char *address, int unused) {
  int door, sock = -1;
  CHILD_OK(greet_listen(address, &door));
  for (int i = 0; i < 500 && sock < 0; i++) {
    sock = accept(door, NULL, NULL);
    if (sock < 0) usleep(10000);
  }
  CHILD_CHECK(sock >= 0);
  shm_hello h = {0};
  uint8_t welcome[400] = {0};
  while (recv(sock, &h, sizeof h, 0) < 0 && errno == EAGAIN) usleep(1000);
  h.magic++;
  memcpy(welcome, &h.magic, sizeof h.magic);
  CHILD_CHECK(send(sock, welcome, sizeof welcome, 0) == (ssize_t)sizeof welcome);
  CHILD_CHECK(recv(sock, &h, sizeof h, 0) <= 0);
}

static void versions_on_one_host(void **state) {
  char address[NET_ADDRESS];
  net_case_address("shm", address);
  pid_t pid = net_case_start(newer_client_here, address, 0);
  net_server *s = listen_at(address);
  serve_child(s, pid);
  assert_int_equal(refused(s), 1);
  net_server_close(s);
  net_case_address("shm", address);
  pid = net_case_start(newer_server_here, address, 0);
  net_client *c;
  assert_fails(net_connect(address, &(net_options){.largest = LARGEST, .job = NET_JOB}, 5, &c), SHOAL_ERR_REFUSED,
               "the server speaks version 3 of the protocol, this program version 2");
  net_case_join(pid);
}

/* ---- shared memory written by somebody who means harm */

typedef struct {
  int sock;
  shm_segment segment;
  shm_bell *door;
} intruder;

static void intrude(const char *address, intruder *in) {
  shm_hello h;
  shm_welcome w;
  int fds[2];
  CHILD_OK(greet_connect(address, clock_seconds() + 5, &in->sock));
  greet_fill_hello(&h, 9, NET_JOB, LARGEST);
  CHILD_CHECK(greet_send_hello(in->sock, &h));
  CHILD_OK(greet_await_welcome(in->sock, clock_seconds() + 5, &w, fds));
  CHILD_CHECK(ftruncate(fds[1], 0) && ftruncate(fds[0], 0)); /* sealed: the server's memory cannot be taken away */
  in->door = mmap(NULL, shm_page_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
  CHILD_CHECK(in->door != MAP_FAILED);
  CHILD_OK(shm_segment_map(fds[1], (size_t)w.capacity, &in->segment));
  close(fds[0]);
  close(fds[1]);
}

/* The server hangs up. */
static void expect_end(intruder *in) {
  char byte;
  bell_ring(in->door);
  for (int i = 0; i < 200; i++) {
    ssize_t n = recv(in->sock, &byte, 1, MSG_DONTWAIT);
    if (!n || (n < 0 && errno != EAGAIN)) {
      close(in->sock);
      munmap(in->door, shm_page_bytes());
      shm_segment_unmap(&in->segment);
      return;
    }
    usleep(10000);
  }
  CHILD_CHECK(!"hung up");
}

enum { INTRUSIONS = 9 + 64 + 100, DAMAGED = 100 }; /* the last ones: a bit of the payload */

static void intruders_body(const char *address, int unused) {
  for (int kind = 0; kind < INTRUSIONS; kind++) {
    intruder in;
    intrude(address, &in);
    ring *r = &in.segment.requests;
    net_header request = {.kind = 1, .from = 9};
    net_case_encode(&request, NET_JOB, 100, r->data);
    uint64_t head = WIRE_HEADER + 128;
    switch (kind) {
      case 0: head = r->capacity + 64; break; /* more than fits */
      case 1: head = UINT64_MAX - 63; break;
      case 2: head = 65; break;          /* not on the grain */
      case 3: head = WIRE_HEADER; break; /* published before it was written */
      case 4: net_case_encode(&request, NET_JOB, LARGEST + 1, r->data); break;
      case 5: net_case_encode(&request, NET_JOB, UINT64_MAX, r->data); break;
      case 6: net_case_encode(&request, NET_JOB + 1, 100, r->data); break;
      case 7: net_case_encode(&(net_header){.kind = 1, .from = 8}, NET_JOB, 100, r->data); break;
      case 8: /* a position of the answers that was never reached: seen when it is answered */
        atomic_store(&in.segment.page->answers.tail, 1 << 20);
        break;
      default: r->data[kind - 9] ^= (uint8_t)(1 << kind % 8); break;
    }
    atomic_store(&r->positions->head, head);
    expect_end(&in);
  }
  struct sockaddr_un name = {.sun_family = AF_UNIX};
  int n = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "shoal-%u%s", (unsigned)geteuid(), address + 4);
  for (size_t length = 1; length < 100; length += 7) { /* nonsense instead of a hello: 15 */
    int sock = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    CHILD_CHECK(!connect(sock, (struct sockaddr *)&name,
                         (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1) + (socklen_t)n));
    CHILD_CHECK(send(sock, address, length < strlen(address) ? length : strlen(address), 0) > 0);
    usleep(1000);
    close(sock);
  }
  good_client(address, 1);
}

static void intruders(void **state) {
  char address[NET_ADDRESS];
  net_case_address("shm", address);
  pid_t pid = net_case_start(intruders_body, address, 0), good = net_case_start(good_client, address, 2);
  net_server *s = listen_at(address);
  int gone = serve_child(s, pid);
  gone += serve_child(s, good);
  assert_int_equal(gone, INTRUSIONS + 2);
  assert_int_equal(refused(s), INTRUSIONS + 15);
  net_stats stats;
  net_server_stats(s, &stats);
  assert_int_equal(stats.damaged, DAMAGED);
  net_server_close(s);
}

/* ---- keys */

static keys_pair server_keys, client_keys, other_keys;

static net_options curve_client(const keys_pair *own, const char *server_key) {
  return (net_options){.largest = LARGEST,
                       .job = NET_JOB,
                       .from = 1,
                       .public_key = own->public_key,
                       .secret_key = own->secret_key,
                       .server_key = server_key};
}

static void expect_refusal(const char *address, const net_options *o, shoal_code code, const char *words) {
  net_client *c;
  shoal_status status = net_connect(address, o, 1, &c);
  if (!status || shoal_status_code(status) != code || !strstr(shoal_status_message(status), words))
    fprintf(stderr, "child: expected '%s', got %s\n", words, shoal_status_message(status));
  CHILD_CHECK(status && shoal_status_code(status) == code && strstr(shoal_status_message(status), words));
  shoal_status_free(status);
}

static void key_clients(const char *address, int unused) {
  net_options right = curve_client(&client_keys, server_keys.public_key), o;
  net_client *c;
  CHILD_OK(net_connect(address, &right, 10, &c));
  for (uint32_t i = 0; i < 20; i++) net_case_exchange(c, i, i * 1999);
  net_client_close(c);
  o = curve_client(&other_keys, server_keys.public_key);
  expect_refusal(address, &o, SHOAL_ERR_REFUSED, "does not allow our key");
  o = curve_client(&client_keys, other_keys.public_key);
  expect_refusal(address, &o, SHOAL_ERR_PEER, "no answer");
  o = (net_options){.largest = LARGEST, .job = NET_JOB};
  expect_refusal(address, &o, SHOAL_ERR_PEER, " in 1 s");
  CHILD_OK(net_connect(address, &right, 10, &c));
  net_case_exchange(c, 1, LARGEST);
  net_client_close(c);
}

static void make_keys(void) {
  assert_ok(keys_make(0, &server_keys));
  assert_ok(keys_make(0, &client_keys));
  assert_ok(keys_make(0, &other_keys));
}

static net_server *listen_with_keys(const char *address) {
  const char *allowed[] = {client_keys.public_key, NULL};
  net_server *s;
  net_options o = {.largest = LARGEST,
                   .job = NET_JOB,
                   .public_key = server_keys.public_key,
                   .secret_key = server_keys.secret_key,
                   .allowed = allowed};
  assert_ok(net_listen(address, &o, &s));
  return s;
}

static void fast_client(const char *address, int number) {
  static uint8_t data[31400];
  net_options right = curve_client(&client_keys, server_keys.public_key);
  right.from = (uint32_t)number;
  net_client *c;
  CHILD_OK(net_connect(address, &right, 10, &c));
  for (double until = clock_seconds() + 1; clock_seconds() < until;) {
    net_message m;
    CHILD_OK(net_send(c, &(net_header){.kind = 1}, &(net_part){data, sizeof data}, 1, 10));
    CHILD_OK(net_await(c, 10, &m));
    net_release_client(c, &m);
  }
  net_client_close(c);
}

static void curve_speed(void **state) {
  if (!getenv("SHOAL_NET_SPEED")) skip();
  for (int clients = 1; clients <= 3; clients++) {
    char address[NET_ADDRESS];
    net_case_address("zmq", address);
    make_keys();
    pid_t pids[3];
    for (int i = 0; i < clients; i++) pids[i] = net_case_start(fast_client, address, i);
    net_server *s = listen_with_keys(address);
    long n = net_case_serve(s, clients);
    print_message("tcp with CURVE, %d clients: %ld requests and answers of 31400 bytes a second\n", clients, n);
    net_server_close(s);
    for (int i = 0; i < clients; i++) net_case_join(pids[i]);
  }
}

static void curve(void **state) {
  char address[NET_ADDRESS];
  net_case_address("zmq", address);
  make_keys();
  pid_t pid = net_case_start(key_clients, address, 0);
  net_server *s = listen_with_keys(address);
  assert_int_equal(serve_child(s, pid), 2);
  assert_true(refused(s) >= 3);
  net_server_close(s);
}

static void beyond_loopback(void **state) {
  net_server *s;
  net_client *c;
  char address[NET_ADDRESS];
  net_options none = {.job = NET_JOB};
  int port = net_case_port();
  snprintf(address, sizeof address, "zmq://0.0.0.0:%d", port);
  assert_fails(net_listen(address, &none, &s), SHOAL_ERR_ARGUMENT, "shoal keygen");
  snprintf(address, sizeof address, "zmq://*:%d", port);
  assert_fails(net_listen(address, &none, &s), SHOAL_ERR_ARGUMENT, "--insecure");
  assert_fails(net_connect("zmq://192.0.2.1:4000", &none, 0.1, &c), SHOAL_ERR_ARGUMENT, "--insecure");
  none.insecure = true;
  assert_ok(net_listen(address, &none, &s));
  net_server_close(s);
  assert_fails(net_listen("zmq://192.0.2.1:4000", &none, &s), SHOAL_ERR_SYSTEM, "no address of this host");
  net_options half = {.job = NET_JOB, .secret_key = "too short"};
  assert_fails(net_listen(address, &half, &s), SHOAL_ERR_ARGUMENT, "40 characters");
  keys_pair pair;
  assert_ok(keys_make(0, &pair));
  net_options unlisted = {.job = NET_JOB, .public_key = pair.public_key, .secret_key = pair.secret_key};
  assert_fails(net_listen(address, &unlisted, &s), SHOAL_ERR_ARGUMENT, "clients' public keys");
  assert_fails(net_connect(address, &unlisted, 0.1, &c), SHOAL_ERR_ARGUMENT, "server's public key");
}

static void key_files(void **state) {
  char dir[FILES_PATH], path[FILES_PATH + 32];
  files_make_folder(dir);
  keys_pair pair, back;
  char key[KEYS_TEXT];
  struct stat about;
  assert_ok(keys_make(0, &pair));
  assert_ok(keys_write(dir, "a", &pair));
  assert_fails(keys_write(dir, "a", &pair), SHOAL_ERR_ARGUMENT, "not overwritten");
  assert_fails(keys_write(dir, "../a", &pair), SHOAL_ERR_ARGUMENT, "plain file name");
  snprintf(path, sizeof path, "%s/a.key", dir);
  assert_int_equal(stat(path, &about), 0);
  assert_int_equal(about.st_mode & 0777, 0600);
  assert_ok(keys_read_pair(path, &back));
  assert_string_equal(back.public_key, pair.public_key);
  assert_string_equal(back.secret_key, pair.secret_key);
  assert_int_equal(chmod(path, 0644), 0);
  assert_fails(keys_read_pair(path, &back), SHOAL_ERR_INPUT, "chmod 600");
  snprintf(path, sizeof path, "%s/a.pub", dir);
  assert_ok(keys_read_public(path, key));
  assert_string_equal(key, pair.public_key);
  keys_list list;
  assert_ok(keys_make(0, &back));
  assert_ok(keys_write(dir, "b", &back));
  assert_ok(keys_read_folder(dir, &list));
  assert_int_equal(list.count, 2);
  assert_string_equal(list.keys[1], back.public_key);
  assert_null(list.keys[2]);
  keys_list_fini(&list);
  files_write(path, "short\n", 6);
  assert_fails(keys_read_public(path, key), SHOAL_ERR_INPUT, "40 characters");
  assert_fails(keys_read_folder(dir, &list), SHOAL_ERR_INPUT, "a.pub");
  files_write(path, "                                                                 ", 60);
  assert_fails(keys_read_public(path, key), SHOAL_ERR_INPUT, "40 characters");
  assert_fails(keys_read_public("no/such.pub", key), SHOAL_ERR_INPUT, "shoal keygen");
  assert_fails(keys_read_folder("no/such", &list), SHOAL_ERR_INPUT, "folder of keys");
  files_remove_folder(dir);
}

/* ---- a client that gives up while the server computes */

static void flooder(const char *address, int unused) {
  void *context = zmq_ctx_new(), *socket = zmq_socket(context, ZMQ_DEALER);
  CHILD_CHECK(!zmq_connect(socket, wire_address(address)));
  uint8_t header[WIRE_HEADER];
  net_case_encode(&(net_header){.kind = WIRE_HELLO, .from = 9, .number = LARGEST}, NET_JOB, 0, header);
  for (int i = 0; i < 600; i++) say(socket, header, sizeof header, NULL, 0);
  usleep(300000);
  _exit(0);
}

/* Its messages fill the server's queue, it goes, and heartbeats are due before the server looks at any of that. */
static void overfull(void **state) {
  char address[NET_ADDRESS];
  net_server *s;
  net_case_address("zmq", address);
  pid_t bad = net_case_start(flooder, address, 0), good = net_case_start(good_client, address, 1);
  assert_ok(net_listen(address, &(net_options){.largest = LARGEST, .job = NET_JOB, .heartbeat = 0.6}, &s));
  net_case_join(bad);
  usleep(600000);
  serve_child(s, good);
  net_server_close(s);
}

/* Has room for a few connections only, and knows so. */
static void poor_server(const char *address, int unused) {
  net_server *s;
  CHILD_OK(net_listen(address, &(net_options){.largest = LARGEST, .job = NET_JOB}, &s));
  const int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
  struct rlimit limit;
  close(next);
  CHILD_CHECK(!getrlimit(RLIMIT_NOFILE, &limit));
  limit.rlim_cur = (rlim_t)next + 5;
  CHILD_CHECK(!setrlimit(RLIMIT_NOFILE, &limit));
  net_stats stats = {0};
  for (double until = clock_seconds() + 10; clock_seconds() < until && !stats.accept_error;) {
    net_message m;
    bool got;
    CHILD_OK(net_receive(s, 0.05, &m, &got));
    if (got) net_release_server(s, &m);
    net_server_stats(s, &stats);
  }
  CHILD_CHECK(stats.accept_error == EMFILE);
  _exit(0);
}

static void too_many_connections(void **state) {
  enum { CLIENTS = 10 };
  const char *const schemes[] = {"shm", "tcp", "zmq"};
  for (size_t i = 0; i < COUNT_OF(schemes); i++) {
    char address[NET_ADDRESS];
    net_client *clients[CLIENTS] = {0};
    net_case_address(schemes[i], address);
    pid_t pid = net_case_start(poor_server, address, 0);
    for (int k = 0; k < CLIENTS; k++) {
      net_options o = {.largest = LARGEST, .job = NET_JOB, .from = (uint32_t)k};
      shoal_status status = net_connect(address, &o, k ? 0.3 : 5, &clients[k]);
      if (status) clients[k] = NULL;
      shoal_status_free(status);
    }
    assert_non_null(clients[0]);
    net_case_join(pid);
    for (int k = 0; k < CLIENTS; k++)
      if (clients[k]) net_client_close(clients[k]);
  }
}

int main(void) {
  alarm(110);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(scanners),
      cmocka_unit_test(liars),
      cmocka_unit_test(intruders),
      cmocka_unit_test(overfull),
      cmocka_unit_test(too_many_connections),
      cmocka_unit_test(curve),
      cmocka_unit_test(beyond_loopback),
      cmocka_unit_test(key_files),
      cmocka_unit_test(versions),
      cmocka_unit_test(versions_on_one_host),
      cmocka_unit_test(curve_speed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
