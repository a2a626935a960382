/* Sessions at a graph server whose messages were changed at random: whatever they say, and however long what they start
 * would run, the server goes on and serves others. SHOAL_SESSIONS says how many (a few, unless told otherwise), SHOAL_SEED
 * where the numbers begin; a server under ASan ends at the first error of memory. */
#include "placed_case.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/proto.h"
#include "base/random.h"
#include "dist/graph_protocol.h"
#include "graph/graph.h"
#include "graph/graphdef.h"
#include "net/transport.h"

#include <time.h>

enum { SESSIONS = 200, MEMORY = 48 << 20, MESSAGES = 5, CHANGES_MAX = 6, CHECK_EVERY = 200 };
#define SERVED_SECONDS 1.0 /* for a good client */
#define RUN_SECONDS 0.05   /* for what a bad one starts */
#define ROUNDS (INT64_C(1) << 40)

typedef struct {
  uint16_t kind;
  uint64_t step, number;
  unsigned char *bytes;
  size_t n;
} message;

typedef struct {
  char address[64];
  pid_t pid;
  net_client *link;
  message good[MESSAGES]; /* of a session without changes */
  uint64_t seed, drawn;
} trial;

static uint64_t draw(trial *t, uint64_t below) { return random_mix(t->seed, ++t->drawn) % below; }

static void start(trial *t) {
  pid_t parent = getpid();
  snprintf(t->address, sizeof t->address, "shm:/graph-sessions-%d", (int)parent);
  t->pid = fork();
  assert_true(t->pid >= 0);
  if (!t->pid) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    _exit(shoal_server_run(&(shoal_server_options){.address = t->address,
                                                   .job = CASE_JOB,
                                                   .threads = 1,
                                                   .client_memory = MEMORY,
                                                   .client_seconds = RUN_SECONDS}) != NULL);
  }
  net_options net = {.largest = GRAPH_LARGEST, .from = GRAPH_CLIENT, .job = CASE_JOB};
  ok(net_connect(t->address, &net, 10, &t->link));
}

/* ---- a session as it should be: numbers through some operators and a loop */

static void fewer(shoal_graph *g, shoal_value *const *in, int n_in, shoal_value **out, int n_out, void *context) {
  out[0] = shoal_less(g, in[0], in[2]);
}

static void one_round(shoal_graph *g, shoal_value *const *in, int n_in, shoal_value **out, int n_out, void *context) {
  out[0] = shoal_add(g, in[0], shoal_scalar(g, SHOAL_I32, 1));
  out[1] = shoal_tanh(g, in[1]);
}

static void keep(message *m, uint16_t kind, uint64_t number, const void *bytes, size_t n) {
  *m = (message){.kind = kind, .step = kind == GRAPH_RUN, .number = number, .bytes = malloc(n + 1), .n = n};
  assert_non_null(m->bytes);
  if (n) memcpy(m->bytes, bytes, n);
}

static void put_feed(proto *p, const shoal_value *v, int64_t n) {
  size_t inside = proto_begin(p, PROGRAM_FEED);
  proto_int(p, VALUE_ID, value_id(v));
  if (n) proto_int(p, VALUE_DIM, n);
  proto_end(p, inside);
}

static void record(trial *t) {
  shoal_graph *g;
  ok(shoal_graph_create(&g));
  shoal_value *x = shoal_placeholder(g, "x", SHOAL_F32, SHOAL_SHAPE(SHOAL_UNKNOWN));
  shoal_value *w = shoal_variable(g, "w", shoal_fill(g, SHOAL_F32, SHOAL_SHAPE(16), 0.5));
  shoal_value *vars[] = {shoal_scalar(g, SHOAL_I32, 0), shoal_mul(g, x, w)}, *most = shoal_scalar(g, SHOAL_I32, 3);
  shoal_value *end = shoal_while(g, vars, 2, &most, 1, fewer, one_round, ROUNDS, NULL);
  shoal_value *y = shoal_exp(g, shoal_value_output(end, 1));
  ok(shoal_graph_status(g));
  proto p = {0}, nodes = {0};
  ok(graphdef_write(g, 0, &nodes));
  proto_bytes(&p, OPEN_GRAPH, nodes.bytes, nodes.length);
  for (size_t i = 0; i < g->count; i++) proto_int(&p, OPEN_TASKS, 0);
  proto_int(&p, OPEN_OWN, 0);
  proto_text(&p, OPEN_NAME, "/job:worker/task:0");
  proto_text(&p, OPEN_ADDRESS, t->address);
  proto_int(&p, OPEN_THREADS, 1);
  keep(&t->good[0], GRAPH_OPEN, 0, p.bytes, p.length);
  proto_clear(&p);
  put_feed(&p, x, 16);
  size_t result = proto_begin(&p, PROGRAM_RESULT);
  proto_int(&p, VALUE_ID, value_id(y));
  proto_int(&p, VALUE_DIM, 16);
  proto_end(&p, result);
  size_t segment = proto_begin(&p, PROGRAM_SEGMENT);
  proto_int(&p, SEGMENT_FEED, value_id(x));
  proto_int(&p, SEGMENT_FETCH, value_id(y));
  proto_end(&p, segment);
  keep(&t->good[1], GRAPH_PREPARE, 1, p.bytes, p.length);
  struct {
    graph_run_head head;
    float numbers[16];
    char filling[64];
  } run = {.head = {.step = 1, .seconds = 60, .tasks = 1}, .numbers = {1, 2, 3}};
  keep(&t->good[2], GRAPH_RUN, 1, &run, sizeof run);
  keep(&t->good[3], GRAPH_FORGET, 1, NULL, 0);
  keep(&t->good[4], GRAPH_EXTEND, 0, nodes.bytes, nodes.length);
  proto_fini(&p);
  proto_fini(&nodes);
  shoal_graph_destroy(g);
}

/* ---- changing it */

static void change_bytes(trial *t, message *m) {
  if (!m->n) return;
  const size_t at = draw(t, m->n);
  const size_t rest = m->n - at, some = 1 + draw(t, MIN_OF(rest, (size_t)16));
  switch (draw(t, 5)) {
    case 0: m->bytes[at] ^= (unsigned char)(1u << draw(t, 8)); break;
    case 1: m->bytes[at] = (unsigned char)draw(t, 256); break;
    case 2: memset(m->bytes + at, draw(t, 2) ? 0xff : 0x7f, some); break;
    case 3: /* some are left out */
      memmove(m->bytes + at, m->bytes + at + some, rest - some);
      m->n -= some;
      break;
    default: m->n = at; /* the rest is missing */
  }
}

static void send_changed(trial *t, uint64_t session, const message *good) {
  message m = *good;
  m.bytes = malloc(m.n + 1);
  assert_non_null(m.bytes);
  memcpy(m.bytes, good->bytes, m.n);
  for (uint64_t changes = draw(t, CHANGES_MAX); changes > 0; changes--) change_bytes(t, &m);
  if (draw(t, 20) == 0) m.kind = (uint16_t)(GRAPH_OPEN + draw(t, 16));
  if (draw(t, 20) == 0) m.number = draw(t, 2) ? UINT64_MAX - draw(t, 3) : draw(t, 5);
  if (draw(t, 20) == 0) m.step = draw(t, 3);
  net_header h = {.kind = m.kind, .generation = session, .step = m.step, .number = m.number};
  ok(net_send(t->link, &h, &(net_part){m.bytes, m.n}, 1, 10));
  free(m.bytes);
}

/* All that was said before is answered, or will not be. */
static void settle(trial *t, uint64_t session) {
  ok(net_send(t->link, &(net_header){.kind = GRAPH_CLOSE, .generation = session}, NULL, 0, 10));
  ok(net_send(t->link, &(net_header){.kind = GRAPH_CLOCK, .step = session}, NULL, 0, 10));
  for (bool done = false; !done;) {
    net_message m;
    ok(net_await(t->link, 20, &m));
    done = m.header.kind == GRAPH_CLOCK && m.header.step == session;
    net_release_client(t->link, &m);
  }
}

/* A client that says what it should is served soon. */
static double serve_good(const trial *t) {
  shoal_graph *g;
  shoal_session *session;
  const shoal_task task = {"/job:worker/task:0", t->address};
  const double begun = clock_seconds();
  ok(shoal_graph_create(&g));
  shoal_value *sum = shoal_reduce_sum(g, shoal_fill(g, SHOAL_F32, SHOAL_SHAPE(100), 2), SHOAL_SCALAR, false);
  ok(shoal_session_connect(g, &(shoal_cluster_options){.tasks = &task, .n_tasks = 1, .job = CASE_JOB}, &session));
  shoal_tensor out = {0};
  ok(shoal_session_run(session, NULL, 0, &sum, 1, &out));
  assert_true(shoal_tensor_get(&out, 0) == 200);
  shoal_session_destroy(session);
  shoal_graph_destroy(g);
  return clock_seconds() - begun;
}

static void changed_sessions(void **state) {
  (void)state;
  const char *many = getenv("SHOAL_SESSIONS"), *seed = getenv("SHOAL_SEED");
  const uint64_t sessions = many ? strtoull(many, NULL, 10) : SESSIONS;
  trial t = {.seed = seed ? strtoull(seed, NULL, 10) : 1};
  double slowest = 0;
  start(&t);
  record(&t);
  for (uint64_t i = 1; i <= sessions; i++) {
    for (int k = 0; k < MESSAGES; k++)
      if (draw(&t, 12)) send_changed(&t, i, &t.good[k]);
    if (i % CHECK_EVERY == 0) { /* while it may still run */
      const double seconds = serve_good(&t);
      slowest = seconds > slowest ? seconds : slowest;
    }
    settle(&t, i);
    int status;
    if (waitpid(t.pid, &status, WNOHANG)) fail_msg("the server ended in session %llu", (unsigned long long)i);
  }
  if (slowest > SERVED_SECONDS) fail_msg("a good client was served after %.2f s", slowest);
  print_message("%llu sessions; good clients were served within %.3f s\n", (unsigned long long)sessions, slowest);
  kill(t.pid, SIGKILL);
  waitpid(t.pid, NULL, 0);
  net_client_close(t.link);
  for (int i = 0; i < MESSAGES; i++) free(t.good[i].bytes);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(changed_sessions)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
