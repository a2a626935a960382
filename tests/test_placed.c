/* Sessions over a cluster of real server processes: placement, partitions, traffic, errors and losses. */
#include "placed_case.h"

#include "base/clock.h"
#include "dist/partition.h"

#include <math.h>

static double scalar(shoal_session *s, const shoal_feed *feeds, int n, shoal_value *v) {
  shoal_tensor out;
  ok(shoal_session_run(s, feeds, n, &v, 1, &out));
  return shoal_tensor_get(&out, 0);
}

/* ---- the placer */

static void placement(void **state) {
  (void)state;
  shoal_graph *g;
  ok(shoal_graph_create(&g));
  shoal_device_push(g, "/job:ps");
  shoal_value *w = shoal_variable(g, "w", shoal_fill(g, SHOAL_F32, SHOAL_SHAPE(100, 100), 1));
  shoal_value *b = shoal_variable(g, "b", shoal_fill(g, SHOAL_F32, SHOAL_SHAPE(100), 1));
  shoal_device_pop(g);
  shoal_value *x = shoal_placeholder(g, "x", SHOAL_F32, SHOAL_SHAPE(SHOAL_UNKNOWN, 1000));
  shoal_device_push(g, "/job:worker/task:1");
  shoal_value *z = shoal_reduce_sum(g, x, SHOAL_SHAPE(0), false);
  shoal_device_pop(g);
  shoal_value *small = shoal_slice(g, z, SHOAL_SHAPE(0), SHOAL_SHAPE(100));
  shoal_name_next(g, "grow");
  shoal_value *update = shoal_assign_add(g, b, small);
  ok(shoal_graph_status(g));
  device tasks[3] = {{"ps", 0}, {"ps", 1}, {"worker", 1}};
  placer_choice choices[64];
  ok(placer_place(g, tasks, 3, 0, choices));
  assert_int_equal(choices[w->maker->id].task, 0);
  assert_int_equal(choices[b->maker->id].task, 1);      /* spread by size */
  assert_int_equal(choices[update->maker->id].task, 1); /* with its variable */
  assert_int_equal(choices[x->maker->id].task, 2);      /* beside its consumer */
  assert_int_equal(choices[small->maker->id].task, 2);  /* 400 bytes travel instead of 4,000 */
  char *words = placer_explain(g, tasks, 3, choices);
  assert_non_null(strstr(words, "together with 'b'"));
  assert_non_null(strstr(words, "/job:worker/task:1 to /job:ps/task:1: at most 400 bytes"));
  free(words);
  shoal_device_push(g, "/job:chief");
  shoal_scalar(g, SHOAL_F32, 1);
  refused(placer_place(g, tasks, 3, 0, choices), SHOAL_ERR_ARGUMENT, "/job:ps (2 tasks), /job:worker (1 task)");
  shoal_graph_destroy(g);
  ok(shoal_graph_create(&g));
  shoal_device_set(g, "/job:ps/task:0");
  w = shoal_variable(g, "w", shoal_scalar(g, SHOAL_F32, 1));
  shoal_device_set(g, "/job:worker");
  shoal_name_next(g, "elsewhere");
  shoal_assign(g, w, w);
  refused(placer_place(g, tasks, 3, 0, choices), SHOAL_ERR_ARGUMENT, "'elsewhere' changes the variable 'w'");
  shoal_graph_destroy(g);
}

/* context: two devices. */
static void on_two(shoal_graph *g, shoal_value *const *in, int n_in, shoal_value **out, int n_out, void *context) {
  const char *const *devices = context;
  shoal_device_push(g, devices[0]);
  out[0] = shoal_tanh(g, in[0]);
  shoal_device_pop(g);
  shoal_device_push(g, devices[1]);
  out[0] = shoal_exp(g, out[0]);
  shoal_device_pop(g);
}

/* What is inside a condition decides where all of it runs, its gradient too; two tasks are refused. */
static void placement_inside(void **state) {
  (void)state;
  static const struct {
    const char *outside, *inside[2], *words; /* words NULL: runs on the last task */
  } cases[] = {
      {NULL, {"/job:worker", "/task:1"}, NULL},
      {"/job:worker", {"/task:1", NULL}, NULL},
      {NULL, {"/job:ps/task:0", "/job:worker/task:1"}, "cond 'choice' runs as a whole on one task, but 'exp' inside"},
      {"/job:ps/task:0", {NULL, "/job:ps/task:1"}, "which /job:ps/task:0 does not allow"},
      {NULL, {"/job:chief", NULL}, "inside 'choice': 'tanh' is placed on /job:chief, but the cluster has"}};
  device tasks[3] = {{"ps", 0}, {"ps", 1}, {"worker", 1}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    shoal_graph *g;
    shoal_gradient d;
    placer_choice choices[64];
    ok(shoal_graph_create(&g));
    shoal_value *x = shoal_placeholder(g, "x", SHOAL_F32, SHOAL_SHAPE(4));
    shoal_value *which = shoal_placeholder(g, "which", SHOAL_BOOL, SHOAL_SCALAR);
    shoal_device_push(g, cases[i].outside);
    shoal_name_next(g, "choice");
    shoal_value *y = shoal_cond(g, which, &x, 1, on_two, on_two, 1, (void *)cases[i].inside);
    shoal_device_pop(g);
    ok(shoal_gradients(g, shoal_reduce_sum(g, y, SHOAL_SCALAR, false), &x, 1, &d));
    shoal_status status = placer_place(g, tasks, 3, 0, choices);
    if (cases[i].words) {
      refused(status, SHOAL_ERR_ARGUMENT, cases[i].words);
    } else {
      ok(status);
      assert_int_equal(choices[y->maker->id].task, 2);
      assert_int_equal(choices[d.value->maker->id].task, 2);
    }
    shoal_graph_destroy(g);
  }
}

/* ---- what travels */

static void traffic(void **state) {
  servers *s = *state;
  shoal_graph *g;
  ok(shoal_graph_create(&g));
  shoal_device_push(g, "/job:ps/task:0");
  shoal_value *w = shoal_variable(g, "w", shoal_fill(g, SHOAL_F32, SHOAL_SHAPE(1000), 2));
  shoal_value *v = shoal_variable(g, "v", shoal_fill(g, SHOAL_F32, SHOAL_SHAPE(100), 3));
  shoal_device_pop(g);
  shoal_device_push(g, "/job:worker/task:0");
  /* w is used twice and once more for its shape, v once: one message with 4,400 bytes. */
  shoal_value *a = shoal_add(g, w, shoal_square(g, w)), *shape = shoal_fill_like(g, w, 1);
  shoal_value *sum = shoal_add(g, shoal_reduce_sum(g, shoal_mul(g, a, shape), SHOAL_SCALAR, false),
                               shoal_reduce_sum(g, v, SHOAL_SCALAR, false));
  shoal_device_pop(g);
  shoal_device_push(g, "/job:ps/task:0");
  shoal_value *update = shoal_assign_add(g, v, shoal_mul(g, shoal_fill_like(g, v, 1), sum));
  shoal_device_pop(g);
  shoal_device_push(g, "/job:worker/task:2");
  shoal_value *both[] = {update, sum};
  shoal_value *all = shoal_group(g, both, 2); /* waits for the update, but does not want its 400 bytes */
  shoal_device_pop(g);
  shoal_session *session = session_over(s, g, 1);
  shoal_cluster_stats before, after;
  assert_float_equal(scalar(session, NULL, 0, sum), 6300, 0);
  shoal_session_stats(session, &before);
  assert_float_equal(scalar(session, NULL, 0, sum), 6300, 0);
  shoal_session_stats(session, &after);
  assert_int_equal(after.messages - before.messages, 1);
  assert_int_equal(after.data_bytes - before.data_bytes, 4400);
  assert_true(after.sent_bytes - before.sent_bytes <= 2 * 128 + 4); /* a head and a header for each of two tasks */

  shoal_session_stats(session, &before);
  scalar(session, NULL, 0, all);
  shoal_session_stats(session, &after);
  assert_int_equal(after.messages - before.messages, 4); /* ps to worker, worker to ps, both to the last one */
  assert_int_equal(after.data_bytes - before.data_bytes, 4404);
  shoal_tensor out;
  ok(shoal_session_run(session, NULL, 0, &v, 1, &out));
  assert_float_equal(shoal_tensor_get(&out, 99), 6303, 0);

  /* Feed what another task would have made, fetch what is fed, fetch a variable together with its update. */
  float ones[1000];
  for (int i = 0; i < 1000; i++) ones[i] = 1;
  shoal_feed feed = {a, shoal_tensor_view(SHOAL_F32, SHOAL_SHAPE(1000), ones)};
  shoal_value *fetches[] = {sum, a, v, update};
  shoal_tensor got[4];
  ok(shoal_session_run(session, &feed, 1, fetches, 4, got));
  assert_float_equal(shoal_tensor_get(&got[0], 0), 1000 + 630300, 0);
  assert_ptr_equal(got[1].data, ones);
  assert_float_equal(shoal_tensor_get(&got[2], 7), 6303 + 631300, 0);
  assert_float_equal(shoal_tensor_get(&got[3], 7), 6303 + 631300, 0);

  /* The graph grows. */
  shoal_value *more = shoal_scale(g, sum, 10);
  assert_float_equal(scalar(session, &feed, 1, more), 10 * (1000 + 100 * (6303.0 + 631300)), 640);
  feed.tensor.shape = SHOAL_SHAPE(999);
  refused(shoal_session_run(session, &feed, 1, &sum, 1, got), SHOAL_ERR_ARGUMENT, "f32[1000], but f32[999] is fed");
  shoal_session_destroy(session);
  shoal_graph_destroy(g);
}

/* Messages larger than all buffers, both ways at once: nobody may wait for the other. */
static void large_messages(void **state) {
  servers *s = *state;
  enum { N = 3 << 20 };
  shoal_graph *g;
  ok(shoal_graph_create(&g));
  shoal_value *made[CASE_TASKS], *crossed[CASE_TASKS];
  for (int t = 0; t < CASE_TASKS; t++) {
    shoal_device_set(g, s->names[t]);
    made[t] = shoal_random_uniform(g, SHOAL_SHAPE(N), 0, 1);
  }
  for (int t = 0; t < CASE_TASKS; t++) {
    shoal_device_set(g, s->names[t]);
    shoal_value *sum = made[t];
    for (int k = 1; k < CASE_TASKS; k++) sum = shoal_add(g, sum, made[(t + k) % CASE_TASKS]);
    crossed[t] = shoal_reduce_mean(g, sum, SHOAL_SCALAR, false);
  }
  shoal_session *session = session_over(s, g, 3);
  shoal_tensor got[CASE_TASKS];
  for (int round = 0; round < 3; round++) {
    ok(shoal_session_run(session, NULL, 0, crossed, CASE_TASKS, got));
    for (int t = 0; t < CASE_TASKS; t++) {
      assert_float_equal(shoal_tensor_get(&got[t], 0), 2, 0.01);
      assert_float_equal(shoal_tensor_get(&got[t], 0), shoal_tensor_get(&got[0], 0), 1e-5);
    }
  }
  shoal_session_destroy(session);
  shoal_graph_destroy(g);
}

/* Resident bytes; 0 under a sanitizer, which keeps what was freed. */
static size_t memory_of(pid_t pid) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return 0;
#endif
  char path[64], line[256];
  unsigned long pages = 0;
  snprintf(path, sizeof path, "/proc/%d/statm", (int)pid);
  FILE *f = fopen(path, "r");
  if (!f || !fgets(line, sizeof line, f) || sscanf(line, "%*u %lu", &pages) != 1) fail();
  fclose(f);
  return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* A session that is fed a hundred different shapes does not keep memory for each of them at the servers. */
static void many_shapes(void **state) {
  servers *s = *state;
  enum { ROWS = 100, WIDTH = 4096 };
  shoal_graph *g;
  ok(shoal_graph_create(&g));
  shoal_device_set(g, "/job:worker/task:0");
  shoal_value *x = shoal_placeholder(g, "x", SHOAL_F32, SHOAL_SHAPE(SHOAL_UNKNOWN, WIDTH)), *y = shoal_square(g, x);
  shoal_device_set(g, "/job:worker/task:1");
  y = shoal_reduce_sum(g, y, SHOAL_SCALAR, false);
  shoal_session *session = session_over(s, g, 1);
  float *numbers = malloc(sizeof(float) * ROWS * WIDTH);
  for (int i = 0; i < ROWS * WIDTH; i++) numbers[i] = 1;
  size_t before = 0;
  for (int round = 0; round < 2; round++)
    for (int rows = ROWS; rows > 0; rows--) { /* about a megabyte each at both tasks */
      shoal_feed feed = {x, shoal_tensor_view(SHOAL_F32, SHOAL_SHAPE(rows, WIDTH), numbers)};
      assert_float_equal(scalar(session, &feed, 1, y), rows * WIDTH, 0);
      if (!round && rows == ROWS - 20) before = memory_of(s->pids[2]);
    }
  size_t after = memory_of(s->pids[2]);
  if (after > before + (32 << 20)) print_error("%zu MB became %zu MB\n", before >> 20, after >> 20);
  assert_true(after <= before + (32 << 20));
  free(numbers);
  shoal_session_destroy(session);
  shoal_graph_destroy(g);
}

/* ---- errors */

static void failing_operator(void **state) {
  servers *s = *state;
  shoal_graph *g;
  ok(shoal_graph_create(&g));
  shoal_value *x = shoal_placeholder(g, "x", SHOAL_F32, SHOAL_SHAPE(SHOAL_UNKNOWN));
  shoal_device_set(g, "/job:worker/task:1");
  shoal_value *logarithm = shoal_log(g, x);
  shoal_name_next(g, "watched");
  shoal_value *checked = shoal_check_numerics(g, logarithm, "the logarithm");
  shoal_device_set(g, "/job:worker/task:0");
  shoal_value *after = shoal_reduce_sum(g, checked, SHOAL_SCALAR, false);
  /* Long enough to notice when it is not stopped. */
  shoal_device_set(g, "/job:worker/task:2");
  shoal_value *long_work = shoal_random_uniform(g, SHOAL_SHAPE(600, 600), 0, 0.01);
  for (int i = 0; i < 500; i++) long_work = shoal_tanh(g, shoal_matmul(g, long_work, long_work, false, false));
  shoal_value *both[] = {after, shoal_reduce_sum(g, long_work, SHOAL_SCALAR, false)};
  shoal_session *session = session_over(s, g, 1);
  float good[] = {1, 2}, bad[] = {1, -1};
  shoal_feed feed = {x, shoal_tensor_view(SHOAL_F32, SHOAL_SHAPE(2), bad)};
  shoal_tensor got[2];
  for (int round = 0; round < 2; round++) {
    feed.tensor.data = bad;
    refused(shoal_session_run(session, &feed, 1, &after, 1, got), SHOAL_ERR_NUMERIC,
            "/job:worker/task:1: check_numerics 'watched' of f32[2]: the logarithm: 1 of 2 elements are not finite");
    feed.tensor.data = good;
    assert_float_equal(scalar(session, &feed, 1, after), log(2), 1e-6);
  }
  feed.tensor.data = bad;
  shoal_status status = shoal_session_run(session, &feed, 1, both, 2, got); /* makes the plan */
  shoal_status_free(status);
  double start = clock_seconds();
  refused(shoal_session_run(session, &feed, 1, both, 2, got), SHOAL_ERR_NUMERIC, "watched");
  double seconds = clock_seconds() - start;
  if (seconds > 1) print_error("the others stopped after %.2f s\n", seconds);
  assert_true(seconds < 1);
  feed.tensor.data = good;
  assert_float_equal(scalar(session, &feed, 1, after), log(2), 1e-6);
  refused(shoal_session_run(session, NULL, 0, &after, 1, got), SHOAL_ERR_ARGUMENT, "placeholder 'x' is needed");
  shoal_session_destroy(session);
  shoal_graph_destroy(g);
}

static shoal_graph *relay(shoal_value **x, shoal_value **y) {
  shoal_graph *g;
  ok(shoal_graph_create(&g));
  *x = shoal_placeholder(g, "x", SHOAL_F32, SHOAL_SHAPE(1000));
  shoal_value *v = *x;
  for (int i = 0; i < 12; i++) {
    char name[32];
    snprintf(name, sizeof name, "/job:worker/task:%d", i % 3);
    shoal_device_set(g, name);
    v = shoal_tanh(g, v);
  }
  *y = shoal_reduce_sum(g, v, SHOAL_SCALAR, false);
  return g;
}

/* kill -9 of a task while runs follow each other: the client learns who, soon; others and a new session go on. */
static void lost_task(bool tcp) {
  servers s;
  servers_start(&s, tcp);
  shoal_value *x, *y;
  shoal_graph *g = relay(&x, &y);
  shoal_session *session = session_over(&s, g, 1);
  static float numbers[1000];
  for (int i = 0; i < 1000; i++) numbers[i] = (float)i / 1000;
  shoal_feed feed = {x, shoal_tensor_view(SHOAL_F32, SHOAL_SHAPE(1000), numbers)};
  double expected = scalar(session, &feed, 1, y);
  pid_t killer = fork();
  if (!killer) {
    usleep(100000);
    kill(s.pids[2], SIGKILL);
    _exit(0);
  }
  shoal_status status = NULL;
  shoal_tensor out;
  double start = clock_seconds(), last = start;
  while (!status && clock_seconds() - start < 20) {
    last = clock_seconds();
    status = shoal_session_run(session, &feed, 1, &y, 1, &out);
  }
  double seconds = clock_seconds() - last;
  refused(status, SHOAL_ERR_PEER, "/job:worker/task:1");
  if (seconds > 5) print_error("noticed after %.2f s\n", seconds);
  assert_true(seconds < 5);
  waitpid(killer, NULL, 0);
  waitpid(s.pids[2], NULL, 0);
  s.pids[2] = 0;
  refused(shoal_session_run(session, &feed, 1, &y, 1, &out), SHOAL_ERR_PEER, "/job:worker/task:1");
  shoal_session_destroy(session);
  server_start(&s, 2);
  session = session_over(&s, g, 1);
  assert_float_equal(scalar(session, &feed, 1, y), expected, 0);
  shoal_session_destroy(session);
  shoal_graph_destroy(g);
  servers_stop(&s);
}

static void lost_task_shm(void **state) {
  (void)state;
  lost_task(false);
}

static void lost_task_tcp(void **state) {
  (void)state;
  lost_task(true);
}

/* Two clients of the same servers, whose tasks stand in opposite order, run at the same time. */
static void two_clients(void **state) {
  servers *s = *state;
  pid_t child = fork();
  shoal_value *x, *y;
  shoal_graph *g = relay(&x, &y);
  static float numbers[1000];
  for (int i = 0; i < 1000; i++) numbers[i] = (float)i / 1000;
  shoal_feed feed = {x, shoal_tensor_view(SHOAL_F32, SHOAL_SHAPE(1000), numbers)};
  shoal_task order[CASE_TASKS];
  for (int i = 0; i < CASE_TASKS; i++) order[i] = s->tasks[child ? i : CASE_TASKS - 1 - i];
  shoal_session *session;
  shoal_cluster_options o = {.tasks = order, .n_tasks = CASE_TASKS, .job = CASE_JOB};
  ok(shoal_session_connect(g, &o, &session));
  double expected = scalar(session, &feed, 1, y);
  for (int i = 0; i < 300; i++) assert_float_equal(scalar(session, &feed, 1, y), expected, 0);
  shoal_session_destroy(session);
  shoal_graph_destroy(g);
  if (!child) _exit(0);
  int status;
  waitpid(child, &status, 0);
  assert_int_equal(status, 0);
}

static void wrong_job(void **state) {
  servers *s = *state;
  shoal_value *x, *y;
  shoal_graph *g = relay(&x, &y);
  shoal_session *session;
  shoal_cluster_options o = {.tasks = s->tasks, .n_tasks = CASE_TASKS, .job = CASE_JOB + 1, .connect_seconds = 2};
  refused(shoal_session_connect(g, &o, &session), SHOAL_ERR_PEER, "/job:ps/task:0");
  o.tasks = &(shoal_task){"/job:worker", s->addresses[0]};
  o.n_tasks = 1;
  refused(shoal_session_connect(g, &o, &session), SHOAL_ERR_ARGUMENT, "/job:worker/task:0");
  shoal_graph_destroy(g);
}

/* How long a run takes: printed, since the machine decides. */
static void overhead(void **state) {
  servers *s = *state;
  shoal_graph *g;
  ok(shoal_graph_create(&g));
  shoal_value *each[CASE_TASKS];
  for (int t = 0; t < CASE_TASKS; t++) {
    shoal_device_set(g, s->names[t]);
    each[t] = shoal_variable(g, "v", shoal_scalar(g, SHOAL_F32, t));
  }
  shoal_session *session = session_over(s, g, 1);
  shoal_tensor got[CASE_TASKS];
  for (int n = 1; n <= CASE_TASKS; n += CASE_TASKS - 1) {
    enum { RUNS = 2000 };
    static double times[RUNS];
    for (int i = -100; i < RUNS; i++) {
      double start = clock_seconds();
      ok(shoal_session_run(session, NULL, 0, each, n, got));
      if (i >= 0) times[i] = clock_seconds() - start;
    }
    for (int i = 1; i < RUNS; i++) /* insertion sort: nearly sorted enough, and small */
      for (int k = i; k && times[k] < times[k - 1]; k--) {
        double t = times[k];
        times[k] = times[k - 1];
        times[k - 1] = t;
      }
    print_message("a scalar of each of %d tasks: best %.1f, median %.1f, 90 %% %.1f, 99 %% %.1f microseconds\n", n,
                  1e6 * times[0], 1e6 * times[RUNS / 2], 1e6 * times[RUNS * 9 / 10], 1e6 * times[RUNS * 99 / 100]);
    assert_float_equal(shoal_tensor_get(&got[n - 1], 0), n - 1, 0);
  }
  shoal_session_destroy(session);
  shoal_graph_destroy(g);
}

static int start_shm(void **state) {
  static servers s;
  servers_start(&s, false);
  *state = &s;
  return 0;
}

static int start_tcp(void **state) {
  static servers s;
  servers_start(&s, true);
  *state = &s;
  return 0;
}

static int stop(void **state) {
  servers_stop(*state);
  return 0;
}

int main(void) {
  const struct CMUnitTest alone[] = {cmocka_unit_test(placement), cmocka_unit_test(placement_inside),
                                     cmocka_unit_test(lost_task_shm), cmocka_unit_test(lost_task_tcp)};
  const struct CMUnitTest over[] = {
      cmocka_unit_test(traffic),     cmocka_unit_test(large_messages), cmocka_unit_test(failing_operator),
      cmocka_unit_test(many_shapes), cmocka_unit_test(two_clients),    cmocka_unit_test(wrong_job),
      cmocka_unit_test(overhead),
  };
  int failed = cmocka_run_group_tests_name("placed", alone, NULL, NULL);
  failed += cmocka_run_group_tests_name("placed over shared memory", over, start_shm, stop);
  return failed + cmocka_run_group_tests_name("placed over tcp", over, start_tcp, stop);
}
