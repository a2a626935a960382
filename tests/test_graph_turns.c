/* A graph server whose clients run what never ends: the others are served, the dead are noticed, the server ends when it
 * is told to. */
#include "placed_case.h"

#include <time.h>

enum { RUNS = 20 };
#define ROUNDS (INT64_C(1) << 45) /* of a loop: for years */
#define SERVED_SECONDS 1.0

static volatile int stop;
static void on_term(int number) { stop = number; }

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct {
  char address[64];
  shoal_task task;
  pid_t pid;
} one_server;

static void start(one_server *s, double client_seconds) {
  static int used;
  pid_t parent = getpid();
  snprintf(s->address, sizeof s->address, "shm:/graph-turns-%d-%d", (int)parent, used++);
  s->task = (shoal_task){"/job:worker/task:0", s->address};
  s->pid = fork();
  assert_true(s->pid >= 0);
  if (s->pid) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  signal(SIGTERM, on_term);
  _exit(shoal_server_run(&(shoal_server_options){.address = s->address,
                                                 .job = CASE_JOB,
                                                 .threads = 1,
                                                 .stop = (const int *)&stop,
                                                 .client_seconds = client_seconds}) != NULL);
}

static shoal_session *connect_to(one_server *s, shoal_graph *g) {
  shoal_session *session = NULL;
  ok(shoal_session_connect(
      g, &(shoal_cluster_options){.tasks = &s->task, .n_tasks = 1, .job = CASE_JOB, .step_seconds = 100}, &session));
  return session;
}

/* Loop variables: numbers, and whether to go on. */
static void always(shoal_graph *g, shoal_value *const *in, int n_in, shoal_value **out, int n_out, void *context) {
  (void)g;
  out[0] = in[1];
}

static void one_round(shoal_graph *g, shoal_value *const *in, int n_in, shoal_value **out, int n_out, void *context) {
  out[0] = context ? shoal_mul(g, in[0], in[0]) : in[0];
  out[1] = in[1];
}

/* Never returns, if the server is as it should be. computes: its body does something. */
static shoal_status run_endless(one_server *s, bool computes) {
  shoal_graph *g;
  ok(shoal_graph_create(&g));
  shoal_value *one = shoal_scalar(g, SHOAL_F32, 1);
  shoal_value *vars[] = {shoal_fill(g, SHOAL_F32, SHOAL_SHAPE(64), 1), shoal_greater_equal(g, one, one)};
  shoal_value *end = shoal_while(g, vars, 2, NULL, 0, always, one_round, ROUNDS, computes ? g : NULL);
  shoal_session *session = connect_to(s, g);
  shoal_tensor out = {0};
  shoal_status status = shoal_session_run(session, NULL, 0, &end, 1, &out);
  shoal_session_destroy(session);
  shoal_graph_destroy(g);
  return status;
}

static pid_t begin_endless(one_server *s, bool computes) {
  pid_t parent = getpid(), child = fork();
  assert_true(child >= 0);
  if (child) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  shoal_status_free(run_endless(s, computes));
  _exit(0);
}

/* A client that wants little. Returns the longest it had to wait. */
static double ask_little(one_server *s) {
  shoal_graph *g;
  double worst = 0;
  ok(shoal_graph_create(&g));
  shoal_value *sum = shoal_reduce_sum(g, shoal_fill(g, SHOAL_F32, SHOAL_SHAPE(100), 2), SHOAL_SCALAR, false);
  const double begun = now();
  shoal_session *session = connect_to(s, g);
  for (int i = 0; i < RUNS; i++) {
    const double asked = i ? now() : begun;
    shoal_tensor out = {0};
    ok(shoal_session_run(session, NULL, 0, &sum, 1, &out));
    assert_true(shoal_tensor_get(&out, 0) == 200);
    if (now() - asked > worst) worst = now() - asked;
  }
  shoal_session_destroy(session);
  shoal_graph_destroy(g);
  return worst;
}

static void end_child(pid_t pid) {
  kill(pid, SIGKILL);
  waitpid(pid, NULL, 0);
}

static void others_are_served(void **state) {
  (void)state;
  one_server s;
  start(&s, 0);
  ask_little(&s); /* it is there */
  pid_t endless[] = {begin_endless(&s, true), begin_endless(&s, false), begin_endless(&s, true)};
  for (int i = 0; i < 3; i++) {
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
    const double waited = ask_little(&s);
    if (waited > SERVED_SECONDS) fail_msg("a client waited %.2f s", waited);
    end_child(endless[i]);
  }
  end_child(s.pid);
}

static void it_ends_when_told(void **state) {
  (void)state;
  for (int clients = 1; clients <= 2; clients++) {
    one_server s;
    start(&s, 0);
    ask_little(&s);
    pid_t endless[] = {begin_endless(&s, true), clients > 1 ? begin_endless(&s, false) : -1};
    nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
    kill(s.pid, SIGTERM);
    const double told = now();
    int status = -1;
    while (waitpid(s.pid, &status, WNOHANG) == 0 && now() - told < 5)
      nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    if (status) {
      end_child(s.pid);
      fail_msg("a server with %d clients did not end in 5 s", clients);
    }
    for (int i = 0; i < clients; i++) end_child(endless[i]);
  }
}

static void runs_have_a_limit(void **state) {
  (void)state;
  one_server s;
  start(&s, 0.3);
  for (int computes = 0; computes < 2; computes++) refused(run_endless(&s, computes), SHOAL_ERR_PEER, "0.3 s");
  ask_little(&s);
  end_child(s.pid);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(others_are_served), cmocka_unit_test(it_ends_when_told),
                                     cmocka_unit_test(runs_have_a_limit)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
