/* Messages over both transports, between real processes. Each test runs once a transport; *state is its scheme. */
#include "net_case.h"

#include "base/mem.h"
#include "net/wire.h"

#include <stdatomic.h>
#include <sys/mman.h>

#define LARGEST ((size_t)5 << 20)

static net_client *connect_as(const char *address, uint32_t from, size_t largest) {
  net_client *c;
  const net_options o = net_case_options(false, from, largest);
  CHILD_OK(net_connect(address, &o, 10, &c));
  return c;
}

static net_server *listen_at(const char *address, size_t largest) {
  net_server *s;
  const net_options o = net_case_options(true, 0, largest);
  assert_ok(net_listen(address, &o, &s));
  return s;
}

/* ---- sizes */

static const size_t sizes[] = {0, 1, 63, 64, 65, 1000, 31400, 65536, 1 << 20, (1 << 20) + 1, 3 << 20, (size_t)5 << 20};

static void all_sizes(const char *address, int number) {
  net_client *c = connect_as(address, (uint32_t)number, LARGEST);
  for (uint32_t round = 0; round < 3; round++)
    for (uint32_t i = 0; i < COUNT_OF(sizes); i++) net_case_exchange(c, round * 100 + i, sizes[i]);
  net_stats stats;
  net_client_stats(c, &stats);
  uint64_t bytes = 0;
  for (size_t i = 0; i < COUNT_OF(sizes); i++) bytes += 3 * (sizes[i] + WIRE_HEADER);
  CHILD_CHECK(stats.sent_messages == 3 * COUNT_OF(sizes) && stats.received_messages == stats.sent_messages);
  CHILD_CHECK(stats.sent_bytes == bytes && stats.received_bytes == bytes && !stats.refused);
  net_client_close(c);
}

static void sizes_go_through(void **state) {
  char address[NET_ADDRESS];
  net_case_address(*state, address);
  pid_t pid = net_case_start(all_sizes, address, 3);
  net_server *s = listen_at(address, LARGEST);
  assert_int_equal(net_case_serve(s, 1), 3 * COUNT_OF(sizes));
  net_stats stats;
  net_server_stats(s, &stats);
  assert_int_equal(stats.sent_messages, 3 * COUNT_OF(sizes));
  assert_int_equal(stats.sent_bytes, stats.received_bytes);
  assert_int_equal(stats.refused, 0);
  net_server_close(s);
  net_case_join(pid);
}

/* ---- clients that share a thread for the network, closed in any order; waits that look before they sleep */

static void clients_beside(const char *address, int unused) {
  (void)unused;
  enum { N = 3 };
  net_client *c[N];
  net_options o = net_case_options(false, 0, LARGEST);
  for (uint32_t i = 0; i < N; i++) {
    o.from = i;
    CHILD_OK(net_connect(address, &o, 10, &c[i]));
    net_client_eager(c[i], 50e-6);
    o.beside = c[0];
  }
  static const int closed[N] = {1, 0, 2}; /* the first opened is not the last closed */
  for (uint32_t round = 0; round < N; round++) {
    for (uint32_t i = 0; i < N; i++)
      if (c[i])
        for (uint32_t k = 0; k < 20; k++) net_case_exchange(c[i], 100 * round + k, k % 5 ? 100 * k : (size_t)2 << 20);
    net_client_close(c[closed[round]]);
    c[closed[round]] = NULL;
  }
}

static void shared_thread(void **state) {
  char address[NET_ADDRESS];
  net_case_address(*state, address);
  pid_t pid = net_case_start(clients_beside, address, 0);
  net_server *s = listen_at(address, LARGEST);
  net_server_eager(s, 50e-6, false);
  assert_int_equal(net_case_serve(s, 3), 20 * (3 + 2 + 1));
  net_server_close(s);
  net_case_join(pid);
}

/* ---- several clients, in order */

enum { CLIENTS = 4, EACH = 1500 };

static void many_messages(const char *address, int number) {
  net_client *c = connect_as(address, (uint32_t)number, 4000);
  for (uint32_t i = 0; i < EACH; i++) net_case_exchange(c, i, i * 13 % 4000);
  net_client_close(c);
}

static void clients_at_once(void **state) {
  char address[NET_ADDRESS];
  net_case_address(*state, address);
  pid_t pids[CLIENTS];
  for (int i = 0; i < CLIENTS; i++) pids[i] = net_case_start(many_messages, address, i + 10);
  net_server *s = listen_at(address, 4000);
  uint64_t next[CLIENTS] = {0};
  int gone = 0;
  while (gone < CLIENTS) {
    net_message m;
    bool got;
    assert_ok(net_receive(s, 10, &m, &got));
    assert_true(got);
    uint32_t who = m.header.from - 10;
    assert_in_range(who, 0, CLIENTS - 1);
    if (m.header.kind == NET_GONE) {
      assert_int_equal(next[who], EACH);
      gone++;
      continue;
    }
    assert_int_equal(m.header.step, next[who]++);
    net_case_echo(s, &m);
  }
  net_server_close(s);
  for (int i = 0; i < CLIENTS; i++) net_case_join(pids[i]);
}

/* ---- several under way */

enum { AHEAD = 3, ROUNDS = 12 };

static void several_ahead(const char *address, int kilobytes) {
  size_t bytes = (size_t)kilobytes * 1000;
  net_client *c = connect_as(address, 0, bytes);
  uint8_t *data = malloc(bytes);
  CHILD_CHECK(data);
  for (uint32_t i = 0; i < ROUNDS + AHEAD; i++) {
    if (i < ROUNDS) {
      net_case_fill(data, bytes, i);
      CHILD_OK(net_send(c, &(net_header){.kind = 1, .step = i}, &(net_part){data, bytes}, 1, 10));
    }
    if (i < AHEAD) continue;
    net_message m;
    CHILD_OK(net_await(c, 10, &m));
    CHILD_CHECK(m.header.step == i - AHEAD && m.bytes == bytes && !net_case_differs(m.payload, bytes, i - AHEAD));
    net_release_client(c, &m);
  }
  free(data);
  net_client_close(c);
}

static void requests_in_flight(void **state) {
  static const int kilobytes[] = {1, 31, 1000, 3000};
  for (size_t i = 0; i < COUNT_OF(kilobytes); i++) {
    char address[NET_ADDRESS];
    net_case_address(*state, address);
    pid_t pid = net_case_start(several_ahead, address, kilobytes[i]);
    net_server *s = listen_at(address, (size_t)kilobytes[i] * 1000);
    assert_int_equal(net_case_serve(s, 1), ROUNDS);
    net_server_close(s);
    net_case_join(pid);
  }
}

/* The server keeps three messages, answers and releases them in another order. */
static void held_messages(void **state) {
  char address[NET_ADDRESS];
  net_case_address(*state, address);
  pid_t pid = net_case_start(several_ahead, address, 31);
  net_server *s = listen_at(address, 31000);
  for (int round = 0; round < ROUNDS / AHEAD; round++) {
    net_message m[AHEAD];
    for (int i = 0; i < AHEAD; i++) {
      bool got;
      assert_ok(net_receive(s, 10, &m[i], &got));
      assert_true(got);
    }
    for (int i = 0; i < AHEAD; i++) {
      assert_int_equal(net_case_differs(m[i].payload, m[i].bytes, (uint32_t)m[i].header.step), 0);
      net_header h = {.kind = 2, .step = m[i].header.step};
      assert_ok(net_answer(s, m[i].peer, &h, &(net_part){m[i].payload, m[i].bytes}, 1));
    }
    for (int i = AHEAD - 1; i >= 0; i--) net_release_server(s, &m[i]);
  }
  assert_int_equal(net_case_serve(s, 1), 0);
  net_server_close(s);
  net_case_join(pid);
}

/* ---- deadlines, and peers that go */

/* Takes messages, answers none; ends when its client has gone. */
static void mute_server(const char *address, int unused) {
  net_server *s;
  const net_options o = net_case_options(true, 0, 1000);
  CHILD_OK(net_listen(address, &o, &s));
  for (;;) {
    net_message m;
    bool got;
    CHILD_OK(net_receive(s, 10, &m, &got));
    CHILD_CHECK(got);
    if (m.header.kind == NET_GONE) break;
    net_release_server(s, &m);
  }
  net_server_close(s);
}

static void deadlines(void **state) {
  char address[NET_ADDRESS];
  net_case_address(*state, address);
  net_client *c;
  double start = clock_seconds();
  assert_fails(net_connect(address, &(net_options){.job = NET_JOB}, 0.2, &c), SHOAL_ERR_PEER, "no server listens");
  assert_true(clock_seconds() - start < 2);
  pid_t pid = net_case_start(mute_server, address, 0);
  c = connect_as(address, 0, 1000);
  net_message m;
  assert_fails(net_await(c, 0, &m), SHOAL_ERR_PEER, "no message");
  assert_ok(net_send(c, &(net_header){.kind = 1}, NULL, 0, 1));
  start = clock_seconds();
  assert_fails(net_await(c, 0.2, &m), SHOAL_ERR_PEER, address);
  assert_true(clock_seconds() - start > 0.19 && clock_seconds() - start < 1);
  net_part large = {address, 1001};
  assert_fails(net_send(c, &(net_header){.kind = 1}, &large, 1, 1), SHOAL_ERR_ARGUMENT, "1000");
  assert_fails(net_send(c, &(net_header){.kind = NET_GONE}, NULL, 0, 1), SHOAL_ERR_ARGUMENT, "kind");
  net_client_close(c);
  net_case_join(pid);
}

static void quiet_server(void **state) {
  char address[NET_ADDRESS];
  net_case_address(*state, address);
  net_server *s = listen_at(address, 1000);
  net_message m;
  bool got = true;
  assert_ok(net_receive(s, 0, &m, &got));
  assert_false(got);
  double start = clock_seconds();
  assert_ok(net_receive(s, 0.1, &m, &got));
  assert_false(got);
  assert_true(clock_seconds() - start > 0.09 && clock_seconds() - start < 1);
  assert_ok(net_answer(s, 12345, &(net_header){.kind = 1}, NULL, 0)); /* nobody: no error */
  net_server *second;
  assert_fails(net_listen(address, &(net_options){.job = NET_JOB}, &second), SHOAL_ERR_SYSTEM, "another process");
  net_server_close(s);
}

static void server_killed(void **state) {
  char address[NET_ADDRESS];
  net_case_address(*state, address);
  pid_t pid = net_case_start(mute_server, address, 0);
  net_client *c = connect_as(address, 0, 1000);
  assert_ok(net_send(c, &(net_header){.kind = 1}, NULL, 0, 1));
  net_case_kill(pid);
  net_message m;
  double start = clock_seconds();
  assert_fails(net_await(c, 10, &m), SHOAL_ERR_PEER, address);
  assert_true(clock_seconds() - start < 1);
  assert_fails(net_send(c, &(net_header){.kind = 1}, NULL, 0, 1), SHOAL_ERR_PEER, address);
  net_client_close(c);
  /* The next life of the same server is not troubled by the last one. */
  pid = net_case_start(mute_server, address, 0);
  c = connect_as(address, 0, 1000);
  net_client_close(c);
  net_case_join(pid);
}

/* Asks for large answers and does not take them before it is woken by SIGUSR1. */
static void sleepy_client(const char *address, int number) {
  sigset_t wake;
  sigemptyset(&wake);
  sigaddset(&wake, SIGUSR1);
  CHILD_CHECK(!sigprocmask(SIG_BLOCK, &wake, NULL));
  net_client *c = connect_as(address, (uint32_t)number, LARGEST);
  for (uint32_t i = 0; i < 3; i++) CHILD_OK(net_send(c, &(net_header){.kind = 1, .step = i}, NULL, 0, 10));
  int signal;
  CHILD_CHECK(!sigwait(&wake, &signal));
  for (uint32_t i = 0; i < 3; i++) {
    net_message m;
    CHILD_OK(net_await(c, 10, &m));
    CHILD_CHECK(m.header.step == i && m.bytes == LARGEST - i && !net_case_differs(m.payload, m.bytes, i));
    net_release_client(c, &m);
  }
  net_client_close(c);
}

/* The sleeper wakes when the other client is through: an answer that waited for it would never come back. */
static void sleepers_hold_nobody_up(void **state) {
  char address[NET_ADDRESS];
  net_case_address(*state, address);
  pid_t sleepy = net_case_start(sleepy_client, address, 1), other = net_case_start(many_messages, address, 2);
  net_server *s = listen_at(address, LARGEST);
  uint8_t *data = malloc(LARGEST);
  assert_non_null(data);
  int answered = 0;
  bool woken = false, gone[3] = {false};
  while (!gone[1]) {
    net_message m;
    bool got;
    assert_ok(net_receive(s, 10, &m, &got));
    assert_true(got);
    if (m.header.kind == NET_GONE) {
      assert_true(m.header.from == 2 || gone[2]);
      gone[m.header.from] = true;
    } else if (m.header.from == 2) {
      net_case_echo(s, &m);
    } else {
      uint32_t step = (uint32_t)m.header.step;
      net_case_fill(data, LARGEST, step);
      net_part parts[2] = {{data, 1000}, {data + 1000, LARGEST - 1000 - step}};
      assert_ok(net_answer(s, m.peer, &(net_header){.kind = 2, .step = step}, parts, 2));
      memset(data, 0, LARGEST);
      net_release_server(s, &m);
      answered++;
    }
    if (gone[2] && answered == 3 && !woken) woken = !kill(sleepy, SIGUSR1);
  }
  free(data);
  net_server_close(s);
  net_case_join(sleepy);
  net_case_join(other);
}

static void endless_client(const char *address, int number) {
  net_client *c = connect_as(address, (uint32_t)number, LARGEST);
  for (uint32_t i = 0;; i++) net_case_exchange(c, i, i % 3 == 0 ? 1000 : LARGEST);
}

static void client_killed_while_sending(void **state) {
  for (int round = 0; round < 6; round++) {
    char address[NET_ADDRESS];
    net_case_address(*state, address);
    pid_t doomed = net_case_start(endless_client, address, 1), other = net_case_start(all_sizes, address, 2);
    net_server *s = listen_at(address, LARGEST);
    double killed = 0;
    bool gone[3] = {false};
    int kill_at = 5 + 3 * round;
    for (int n = 0; !gone[1] || !gone[2]; n++) {
      net_message m;
      bool got;
      assert_ok(net_receive(s, 10, &m, &got));
      assert_true(got);
      if (m.header.kind == NET_GONE) {
        assert_false(gone[m.header.from]);
        gone[m.header.from] = true;
        if (m.header.from == 1) assert_true(clock_seconds() - killed < 2);
        continue;
      }
      if (!killed && n >= kill_at && m.header.from == 1) {
        if (round % 2) usleep(2000); /* it may be half-way through its next message */
        net_case_kill(doomed);
        killed = clock_seconds();
      }
      net_case_echo(s, &m);
    }
    net_server_close(s);
    net_case_join(other);
  }
}

/* ---- who may come in */

static void strangers(const char *address, int unused) {
  net_client *c;
  net_options o = net_case_options(false, 0, 10);
  o.job++;
  shoal_status status = net_connect(address, &o, 5, &c);
  CHILD_CHECK(status && strstr(shoal_status_message(status), "another job"));
  shoal_status_free(status);
  o = net_case_options(false, 0, 4001);
  status = net_connect(address, &o, 5, &c);
  CHILD_CHECK(status && strstr(shoal_status_message(status), "at most 4000"));
  shoal_status_free(status);
  many_messages(address, 1);
}

static void strangers_are_refused(void **state) {
  char address[NET_ADDRESS];
  net_case_address(*state, address);
  pid_t pid = net_case_start(strangers, address, 0);
  net_server *s = listen_at(address, 4000);
  assert_int_equal(net_case_serve(s, 1), EACH);
  net_stats stats;
  net_server_stats(s, &stats);
  assert_in_range(stats.refused, 2, 4);
  net_server_close(s);
  net_case_join(pid);
}

static void addresses(void **state) {
  static const char *const wrong[] = {"",
                                      "shm",
                                      "shm:",
                                      "shm:/",
                                      "shm:x",
                                      "tcp://",
                                      "tcp://127.0.0.1",
                                      "http://a:1",
                                      "tcp://127.0.0.1:0",
                                      "tcp://127.0.0.1:70000",
                                      "tcp://127.0.0.1:12x"};
  net_server *s;
  net_client *c;
  for (size_t i = 0; i < COUNT_OF(wrong); i++) {
    assert_fails(net_listen(wrong[i], &(net_options){0}, &s), SHOAL_ERR_ARGUMENT, "expected");
    assert_fails(net_connect(wrong[i], &(net_options){0}, 1, &c), SHOAL_ERR_ARGUMENT, "expected");
  }
  char name[300] = "shm:/";
  memset(name + 5, 'x', 200);
  assert_fails(net_listen(name, &(net_options){0}, &s), SHOAL_ERR_ARGUMENT, "80");
}

/* ---- what is handed over stays when the client dies, and is the last when the server has closed the connection */

enum { HANDED_BYTES = 5000, HANDED_LAST = 20 };
static _Atomic uint64_t *handed; /* the last step whose net_send returned, in memory that the child shares */

/* number 0: dies after HANDED_LAST messages; 1: sends until it is refused. */
static void handing_client(const char *address, int number) {
  net_client *c = connect_as(address, 0, (size_t)HANDED_BYTES * 8);
  static uint8_t data[HANDED_BYTES];
  net_case_exchange(c, 0, 100);
  const bool can = net_client_hand_over(c);
  CHILD_CHECK(can == !strncmp(address, "shm", 3));
  for (uint32_t step = 1; can && (number || step <= HANDED_LAST); step++) {
    net_case_fill(data, sizeof data, step);
    shoal_status status =
        net_send(c, &(net_header){.kind = 1, .step = step}, &(net_part){data, sizeof data}, 1, number ? 5 : 0);
    if (status) {
      CHILD_CHECK(number);
      shoal_status_free(status);
      break;
    }
    *handed = step;
  }
  if (number)
    net_client_close(c);
  else
    raise(SIGKILL);
}

static void handed_over(void **state) {
  handed = mmap(NULL, sizeof *handed, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(handed != MAP_FAILED);
  const bool can = !strcmp(*state, "shm");
  for (int number = 0; number < 2; number++)
    for (int before = 0; before < (can ? 8 : 1); before++) { /* messages that are received as usual */
      char address[NET_ADDRESS];
      net_message m;
      bool got = true;
      uint64_t peer = 0, next = 0;
      net_case_address(*state, address);
      pid_t pid = net_case_start(handing_client, address, number);
      net_server *s = listen_at(address, (size_t)HANDED_BYTES * 8);
      *handed = 0;
      while (next <= (uint64_t)before) {
        assert_ok(net_receive(s, 10, &m, &got));
        assert_true(got && m.header.kind == 1 && m.header.step == next);
        peer = m.peer;
        if (next++ == 0) net_case_echo(s, &m);
        net_release_server(s, &m);
      }
      if (!number) waitpid(pid, NULL, 0);
      for (;;) {
        assert_ok(net_take_rest(s, peer, &m, &got));
        if (!got) break;
        assert_true(m.header.step == next++ && m.bytes == HANDED_BYTES);
        assert_int_equal(net_case_differs(m.payload, m.bytes, (uint32_t)m.header.step), 0);
        net_release_server(s, &m);
      }
      if (number) net_case_join(pid);
      if (can) assert_int_equal(next - 1, number ? *handed : HANDED_LAST);
      net_server_close(s);
    }
  munmap((void *)handed, sizeof *handed);
}

/* ---- how fast: SHOAL_NET_SPEED=1 prints it */

enum { SPEED_BYTES = 31400 };

static void fast_client(const char *address, int number) {
  net_client *c = connect_as(address, (uint32_t)number, SPEED_BYTES);
  uint8_t *data = calloc(1, SPEED_BYTES);
  CHILD_CHECK(data);
  for (double until = clock_seconds() + 1; clock_seconds() < until;) {
    net_message m;
    CHILD_OK(net_send(c, &(net_header){.kind = 1}, &(net_part){data, SPEED_BYTES}, 1, 10));
    CHILD_OK(net_await(c, 10, &m));
    net_release_client(c, &m);
  }
  free(data);
  net_client_close(c);
}

static void speed(void **state) {
  if (!getenv("SHOAL_NET_SPEED")) skip();
  for (int clients = 1; clients <= 3; clients++) {
    char address[NET_ADDRESS];
    net_case_address(*state, address);
    pid_t pids[3];
    for (int i = 0; i < clients; i++) pids[i] = net_case_start(fast_client, address, i);
    net_server *s = listen_at(address, SPEED_BYTES);
    long n = net_case_serve(s, clients);
    print_message("%s, %d clients: %ld requests and answers of %d bytes a second\n", (const char *)*state, clients, n,
                  SPEED_BYTES);
    net_server_close(s);
    for (int i = 0; i < clients; i++) net_case_join(pids[i]);
  }
}

#define EACH_WAY(test)                                                                          \
  {#test " over shm", test, NULL, NULL, "shm"}, {#test " over tcp", test, NULL, NULL, "tcp"}, { \
#test " over tls", test, NULL, NULL, "tls"                                                  \
  }

int main(void) {
  alarm(110); /* nothing here may hang */
  const struct CMUnitTest tests[] = {
      EACH_WAY(sizes_go_through),
      EACH_WAY(clients_at_once),
      EACH_WAY(shared_thread),
      EACH_WAY(requests_in_flight),
      EACH_WAY(held_messages),
      EACH_WAY(deadlines),
      EACH_WAY(quiet_server),
      EACH_WAY(server_killed),
      EACH_WAY(client_killed_while_sending),
      EACH_WAY(sleepers_hold_nobody_up),
      EACH_WAY(strangers_are_refused),
      EACH_WAY(handed_over),
      cmocka_unit_test(addresses),
      EACH_WAY(speed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
