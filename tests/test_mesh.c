/* Ranks that are all connected: messages of every size in any order, over shared memory, TCP and TLS; ranks that die,
 * fail or do not come; strangers at the port. */
#include "net_case.h"

#include "base/mem.h"
#include "net/mesh.h"
#include "net/wire.h"

#include <netinet/tcp.h>

enum { RANKS = 3, ROUNDS = 3, PATIENCE = 60 };
static const size_t sizes[] = {0, 1, 63, 64, 65, 4096, 100001, 5000000};
enum { SIZES = COUNT_OF(sizes) };

static const char *const schemes[] = {"shm", "tcp", "tls"};

typedef struct {
  char text[RANKS][NET_ADDRESS];
  const char *addresses[RANKS];
} ring_of_ranks;

static void make_addresses(const char *scheme, ring_of_ranks *out) {
  for (int r = 0; r < RANKS; r++) {
    net_case_address(r + 1 < RANKS && !strcmp(scheme, "tls") ? "tcp" : scheme, out->text[r]); /* keys once */
    out->addresses[r] = out->text[r];
  }
}

static mesh_options options_of(const ring_of_ranks *a, int rank) {
  return (mesh_options){.rank = rank,
                        .ranks = RANKS,
                        .addresses = a->addresses,
                        .listening = net_case_options(true, 0, 0),
                        .connecting = net_case_options(false, 0, 0),
                        .patience = PATIENCE};
}

static mesh *join(const ring_of_ranks *a, int rank) {
  const mesh_options o = options_of(a, rank);
  mesh *m;
  CHILD_OK(mesh_create(&o, &m));
  return m;
}

typedef void (*rank_work)(const ring_of_ranks *a, int rank);

static void start_ranks(const char *scheme, rank_work work, pid_t pids[RANKS]) {
  ring_of_ranks a;
  make_addresses(scheme, &a);
  for (int r = 0; r < RANKS; r++) {
    pids[r] = fork();
    if (pids[r]) continue;
    work(&a, r);
    _exit(0);
  }
}

/* Runs each rank in a process of its own; `dies`: the one that does not end well, or -1. */
static void run_ranks(const char *scheme, rank_work work, int dies) {
  pid_t pids[RANKS];
  start_ranks(scheme, work, pids);
  for (int r = 0; r < RANKS; r++) {
    int status;
    assert_int_equal(waitpid(pids[r], &status, 0), pids[r]);
    if (r != dies && status) fail_msg("%s: rank %d failed (status %x)", scheme, r, status);
  }
}

static uint8_t byte_of(int from, int to, size_t size, int round, size_t i) {
  return (uint8_t)((size_t)(from * 31 + to * 7 + round * 13) + size + i * 11);
}

static bool is_through(const mesh_message *messages, int n) {
  for (int i = 0; i < n; i++)
    if (messages[i].under_way) return false;
  return true;
}

/* ---- messages */

typedef struct {
  mesh_message sends[RANKS * SIZES], receives[RANKS * SIZES];
  int n;
} mail;

static void prepare(mail *b, int rank) {
  b->n = 0;
  for (int peer = 0; peer < RANKS; peer++)
    for (int k = 0; k < SIZES && peer != rank; k++, b->n++) {
      b->sends[b->n] = (mesh_message){
          .bytes = malloc(sizes[k] + 1), .count = sizes[k], .peer = peer, .tag = (uint64_t)k, .send = true};
      b->receives[b->n] =
          (mesh_message){.bytes = malloc(sizes[k] + 1), .count = sizes[k], .peer = peer, .tag = (uint64_t)k};
      CHILD_CHECK(b->sends[b->n].bytes && b->receives[b->n].bytes);
    }
}

static void exchange(mesh *m, mail *b, int rank, int round) {
  const double until = clock_seconds() + PATIENCE;
  for (int i = 0; i < b->n; i++) {
    uint8_t *bytes = b->sends[i].bytes;
    for (size_t k = 0; k < b->sends[i].count; k++)
      bytes[k] = byte_of(rank, b->sends[i].peer, b->sends[i].count, round, k);
    mesh_start(m, &b->sends[i]);
  }
  /* Expected one by one and from the last to the first in every other round: most come before they are. */
  for (int i = 0; i < b->n; i++) {
    mesh_start(m, &b->receives[round % 2 ? i : b->n - 1 - i]);
    CHILD_CHECK(mesh_move(m));
  }
  while (!is_through(b->sends, b->n) || !is_through(b->receives, b->n)) {
    CHILD_CHECK(mesh_move(m));
    CHILD_CHECK(clock_seconds() < until);
    mesh_wait(m, 0.01);
  }
  for (int i = 0; i < b->n; i++)
    for (size_t k = 0; k < b->receives[i].count; k++)
      CHILD_CHECK(((uint8_t *)b->receives[i].bytes)[k] ==
                  byte_of(b->receives[i].peer, rank, b->receives[i].count, round, k));
}

static void send_all(const ring_of_ranks *a, int rank) {
  mesh *m = join(a, rank);
  mail b;
  prepare(&b, rank);
  for (int round = 0; round < ROUNDS; round++) exchange(m, &b, rank, round);
  mesh_destroy(m);
  for (int i = 0; i < b.n; i++) {
    free(b.sends[i].bytes);
    free(b.receives[i].bytes);
  }
}

static void test_messages(void **state) {
  for (size_t i = 0; i < COUNT_OF(schemes); i++) run_ranks(schemes[i], send_all, -1);
}

/* ---- ranks that end */

static void expect_gone(mesh *m, int rank) {
  const double until = clock_seconds() + PATIENCE;
  while (!mesh_gone(m, rank)) {
    CHILD_CHECK(mesh_move(m));
    CHILD_CHECK(clock_seconds() < until);
    mesh_wait(m, 0.01);
  }
}

/* Rank 2 says a last word and is killed. */
static void die(const ring_of_ranks *a, int rank) {
  mesh *m = join(a, rank);
  uint32_t word = rank == 2 ? 77 : 0;
  mesh_message message = {.bytes = &word, .count = sizeof word, .peer = rank == 2 ? 0 : 2, .tag = 5, .send = rank == 2};
  if (rank == 2) {
    mesh_start(m, &message);
    while (message.under_way) CHILD_CHECK(mesh_move(m));
    raise(SIGKILL);
  }
  if (!rank) mesh_start(m, &message);
  expect_gone(m, 2);
  CHILD_CHECK(rank || word == 77);
  mesh_destroy(m);
}

static void test_a_rank_dies(void **state) {
  for (size_t i = 0; i < COUNT_OF(schemes); i++) run_ranks(schemes[i], die, 2);
}

static void fail_loudly(const ring_of_ranks *a, int rank) {
  mesh *m = join(a, rank);
  int who = -1;
  if (rank == 1) {
    mesh_abort(m);
  } else {
    expect_gone(m, 1);
    CHILD_CHECK(mesh_aborted(m, &who) && who == 1);
    char words[MESH_WORDS];
    CHILD_CHECK(strstr(mesh_why_gone(m, 1, words), ") has failed"));
  }
  mesh_destroy(m);
}

static void test_a_rank_fails(void **state) {
  for (size_t i = 0; i < COUNT_OF(schemes); i++) run_ranks(schemes[i], fail_loudly, -1);
}

/* ---- what does not fit */

static void send_too_much(const ring_of_ranks *a, int rank) {
  mesh *m = join(a, rank);
  char bytes[8] = "";
  mesh_message message = {.bytes = bytes, .count = rank ? 8 : 4, .peer = !rank, .tag = 1, .send = rank != 0};
  const double until = clock_seconds() + PATIENCE;
  if (rank < 2) mesh_start(m, &message);
  while (rank < 2 && message.under_way && mesh_move(m)) {
    CHILD_CHECK(clock_seconds() < until);
    mesh_wait(m, 0.01);
  }
  if (!rank) CHILD_CHECK(!mesh_move(m) && strstr(mesh_reason(m), "8 bytes where 4 are expected"));
  if (!rank) mesh_cancel(m, &message);
  mesh_destroy(m);
}

static void test_another_size(void **state) { run_ranks("shm", send_too_much, -1); }

/* Rank 2 does not come. */
static void wait_in_vain(const ring_of_ranks *a, int rank) {
  mesh_options o = options_of(a, rank);
  mesh *m;
  if (rank == 2) return;
  o.patience = 1;
  shoal_status status = mesh_create(&o, &m);
  CHILD_CHECK(status && strstr(shoal_status_message(status), "rank ")); /* on a slow machine the other one, too */
  CHILD_CHECK(shoal_status_code(status) == SHOAL_ERR_PEER);
  shoal_status_free(status);
}

static void test_a_rank_is_missing(void **state) {
  run_ranks("shm", wait_in_vain, -1);
  run_ranks("tcp", wait_in_vain, -1);
}

/* ---- strangers */

static int dial(const char *address) {
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  to.sin_port = htons((uint16_t)atoi(strrchr(address, ':') + 1));
  for (const double until = clock_seconds() + PATIENCE; clock_seconds() < until;) {
    int sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHILD_CHECK(sock >= 0);
    if (!connect(sock, (struct sockaddr *)&to, sizeof to)) return sock;
    close(sock);
    usleep(2000);
  }
  CHILD_CHECK(!"connected");
  return -1;
}

/* Says something and waits until it is thrown out. */
static void speak(const char *address, const void *words, size_t n) {
  char answer[4096];
  int sock = dial(address);
  CHILD_CHECK(send(sock, words, n, MSG_NOSIGNAL) == (ssize_t)n);
  while (recv(sock, answer, sizeof answer, 0) > 0) continue;
  close(sock);
}

enum { STRANGERS = 70 };

/* Before rank 2 comes others are at rank 0's port: nonsense, another job, a rank that is not possible, one that says
 * nothing. */
static void meet_strangers(const ring_of_ranks *a, int rank) {
  if (rank == 2) {
    uint8_t hello[WIRE_HEADER], nonsense[WIRE_HEADER];
    memset(nonsense, 0xa5, sizeof nonsense);
    int silent = dial(a->addresses[0]);
    for (int i = 0; i < STRANGERS; i++) speak(a->addresses[0], nonsense, sizeof nonsense);
    wire_encode(&(net_header){.kind = NET_GONE + 1, .from = 2}, NET_JOB + 1, 0, hello);
    speak(a->addresses[0], hello, sizeof hello);
    wire_encode(&(net_header){.kind = NET_GONE + 1, .from = 9}, NET_JOB, 0, hello);
    speak(a->addresses[0], hello, sizeof hello);
    mesh *m = join(a, rank);
    mesh_destroy(m);
    close(silent);
    return;
  }
  mesh *m = join(a, rank);
  if (!rank) CHILD_CHECK(mesh_refused(m) >= STRANGERS + 2);
  expect_gone(m, 2);
  mesh_destroy(m);
}

static void test_strangers(void **state) {
  run_ranks("tcp", meet_strangers, -1);
  run_ranks("tls", meet_strangers, -1);
}

/* Rank 2 has a key that nobody knows, then none. */
static void come_without_a_key(const ring_of_ranks *a, int rank) {
  mesh_options o = options_of(a, rank);
  mesh *m;
  if (rank != 2) {
    shoal_status status = mesh_create(&o, &m); /* waits until it is killed */
    CHILD_CHECK(!status);
  }
  keys_pair other;
  CHILD_OK(keys_make(0, &other));
  o.connecting.public_key = other.public_key;
  o.connecting.secret_key = other.secret_key;
  shoal_status status = mesh_create(&o, &m);
  CHILD_CHECK(status && strstr(shoal_status_message(status), "does not allow our key"));
  shoal_status_free(status);
  o.connecting.public_key = o.connecting.secret_key = o.connecting.server_key = NULL;
  status = mesh_create(&o, &m);
  CHILD_CHECK(status && strstr(shoal_status_message(status), "uses keys"));
  shoal_status_free(status);
}

static void test_keys(void **state) {
  pid_t pids[RANKS];
  start_ranks("tls", come_without_a_key, pids);
  net_case_join(pids[2]);
  net_case_kill(pids[0]);
  net_case_kill(pids[1]);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_messages),
                                     cmocka_unit_test(test_a_rank_dies),
                                     cmocka_unit_test(test_a_rank_fails),
                                     cmocka_unit_test(test_another_size),
                                     cmocka_unit_test(test_a_rank_is_missing),
                                     cmocka_unit_test(test_strangers),
                                     cmocka_unit_test(test_keys)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
