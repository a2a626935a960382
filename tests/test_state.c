/* Accumulators and queues: in one process and over the tasks of a cluster. */
#include "placed_case.h"

#include "base/clock.h"

/* A graph, and a session over it in one process or over servers. */
typedef struct {
  shoal_graph *graph;
  shoal_session *session;
} model;

static model begin(void) {
  model m = {0};
  ok(shoal_graph_create(&m.graph));
  return m;
}

static void open_session(model *m, const servers *s, double step_seconds) {
  if (s)
    ok(shoal_session_connect(
        m->graph,
        &(shoal_cluster_options){
            .tasks = s->tasks, .n_tasks = CASE_TASKS, .job = CASE_JOB, .step_seconds = step_seconds},
        &m->session));
  else
    ok(shoal_session_create(m->graph, &(shoal_session_options){.threads = 1}, &m->session));
}

static void end(model *m) {
  shoal_session_destroy(m->session);
  shoal_graph_destroy(m->graph);
}

static double run(model *m, shoal_value *v, int element) {
  shoal_tensor out;
  ok(shoal_session_run(m->session, NULL, 0, &v, 1, &out));
  return shoal_tensor_get(&out, element);
}

static double run_fed(model *m, shoal_value *fed, double number, shoal_value *v) {
  float f = (float)number;
  int64_t i = (int64_t)number;
  shoal_tensor out, in = shoal_tensor_view(shoal_value_dtype(fed), SHOAL_SCALAR,
                                           shoal_value_dtype(fed) == SHOAL_I64 ? (void *)&i : (void *)&f);
  ok(shoal_session_run(m->session, &(shoal_feed){fed, in}, 1, &v, 1, &out));
  return shoal_tensor_get(&out, 0);
}

/* ---- queues */

/* state: servers, or NULL for one process. */
static void queue(void **state) {
  model m = begin();
  shoal_graph *g = m.graph;
  shoal_device_push(g, "/job:worker/task:1");
  shoal_queue q = shoal_queue_make(g, "work", SHOAL_F32, SHOAL_SCALAR, 3);
  shoal_device_pop(g);
  shoal_value *size = shoal_queue_size(g, &q);
  shoal_device_push(g, "/job:worker/task:2"); /* where items are made */
  shoal_value *x = shoal_placeholder(g, "x", SHOAL_F32, SHOAL_SCALAR), *item = shoal_scale(g, x, 2);
  shoal_device_pop(g);
  shoal_name_next(g, "put");
  shoal_value *put = shoal_enqueue(g, &q, item);
  shoal_name_next(g, "get");
  shoal_value *get = shoal_dequeue(g, &q), *close = shoal_queue_close(g, &q);
  open_session(&m, *state, 0);
  /* In order, more often round the ring than it has places. */
  for (int i = 0; i < 8; i++) {
    run_fed(&m, x, i, put);
    run_fed(&m, x, i + 0.5, put);
    assert_float_equal(run(&m, size, 0), 2, 0);
    assert_float_equal(run(&m, get, 0), 2 * i, 0);
    assert_float_equal(run(&m, get, 0), 2 * i + 1, 0);
  }
  const char *task = *state ? "/job:worker/task:1: " : "";
  char words[128];
  shoal_tensor out;
  snprintf(words, sizeof words, "%sdequeue 'get' of i64[3], f32[3]: queue 'work' is empty: 16 items", task);
  refused(shoal_session_run(m.session, NULL, 0, &get, 1, &out), SHOAL_ERR_ARGUMENT, words);
  for (int i = 0; i < 3; i++) run_fed(&m, x, i, put);
  float more = 9;
  shoal_feed feed = {x, shoal_tensor_view(SHOAL_F32, SHOAL_SCALAR, &more)};
  snprintf(words, sizeof words, "%senqueue 'put' of i64[3], f32[3], f32[]: queue 'work' is full: it holds 3 items",
           task);
  refused(shoal_session_run(m.session, &feed, 1, &put, 1, &out), SHOAL_ERR_ARGUMENT, words);
  assert_float_equal(run(&m, get, 0), 0, 0);
  run(&m, close, 0);
  refused(shoal_session_run(m.session, &feed, 1, &put, 1, &out), SHOAL_ERR_ARGUMENT, "queue 'work' is closed");
  assert_float_equal(run(&m, get, 0), 2, 0);
  assert_float_equal(run(&m, get, 0), 4, 0);
  refused(shoal_session_run(m.session, NULL, 0, &get, 1, &out), SHOAL_ERR_ARGUMENT, "'work' is closed and empty");
  end(&m);
}

/* Each worker puts a token when its part is done; the ps takes as many as there are workers and goes on. All in one
 * run. */
static void barrier(void **state) {
  enum { WORKERS = 3 };
  model m = begin();
  shoal_graph *g = m.graph;
  shoal_device_push(g, "/job:ps/task:0");
  shoal_value *step = shoal_variable(g, "step", shoal_scalar(g, SHOAL_F32, 0));
  shoal_queue tokens = shoal_queue_make(g, "tokens", SHOAL_F32, SHOAL_SHAPE(2), WORKERS);
  shoal_device_pop(g);
  for (int w = 0; w < WORKERS; w++) {
    char device[32];
    snprintf(device, sizeof device, "/job:worker/task:%d", w);
    shoal_device_push(g, device);
    shoal_value *done = shoal_fill(g, SHOAL_F32, SHOAL_SHAPE(2), w + 1);
    /* More changes of task for some than for others: tokens come in the order that was built all the same. */
    for (int k = 0; k < 2 * w; k++) {
      shoal_device_push(g, k % 2 ? device : "/job:ps/task:0");
      done = shoal_scale(g, done, 1);
      shoal_device_pop(g);
    }
    shoal_value *token = shoal_mul(g, done, shoal_add(g, step, shoal_scalar(g, SHOAL_F32, 1)));
    shoal_device_pop(g);
    shoal_enqueue(g, &tokens, token);
  }
  shoal_value *taken[WORKERS], *all = NULL, *puts[WORKERS];
  for (int w = 0; w < WORKERS; w++) taken[w] = shoal_dequeue(g, &tokens);
  all = shoal_add(g, shoal_scale(g, taken[0], 100), shoal_add(g, shoal_scale(g, taken[1], 10), taken[2]));
  shoal_control_push(g, &all, 1);
  shoal_value *next = shoal_assign_add(g, step, shoal_scalar(g, SHOAL_F32, 1));
  shoal_control_pop(g);
  for (int w = 0; w < WORKERS; w++) {
    char name[16];
    snprintf(name, sizeof name, w ? "enqueue_%d" : "enqueue", w);
    puts[w] = shoal_graph_find(g, name);
  }
  shoal_value *wanted[] = {shoal_group(g, puts, WORKERS), all, next};
  open_session(&m, *state, 0);
  for (int i = 1; i <= 4; i++) {
    shoal_tensor out[3];
    ok(shoal_session_run(m.session, NULL, 0, wanted, 3, out));
    assert_float_equal(shoal_tensor_get(&out[1], 1), 123 * i, 0);
    assert_float_equal(shoal_tensor_get(&out[2], 0), i, 0);
  }
  end(&m);
}

/* A dequeue waits for what is to be put in, and a run no longer than it may. */
static void deadline(void **state) {
  model m = begin();
  shoal_graph *g = m.graph;
  shoal_device_push(g, "/job:ps/task:0");
  shoal_queue q = shoal_queue_make(g, "slow", SHOAL_F32, SHOAL_SCALAR, 1);
  shoal_device_pop(g);
  shoal_device_push(g, "/job:worker/task:0");
  shoal_value *x = shoal_random_uniform(g, SHOAL_SHAPE(600, 600), 0, 0.01);
  for (int i = 0; i < 500; i++) x = shoal_tanh(g, shoal_matmul(g, x, x, false, false));
  x = shoal_reduce_sum(g, x, SHOAL_SCALAR, false);
  shoal_device_pop(g);
  shoal_value *both[] = {shoal_enqueue(g, &q, x), shoal_dequeue(g, &q)};
  shoal_value *size = shoal_queue_size(g, &q);
  open_session(&m, *state, 1); /* half of what the products take at best, and enough for the question after them */
  shoal_tensor out[2];
  double start = clock_seconds();
  /* Said by who waits for it first: the queue's task or, on a busy machine, the client. */
  refused(shoal_session_run(m.session, NULL, 0, both, 2, out), SHOAL_ERR_PEER, "/job:worker/task:0");
  assert_true(clock_seconds() - start < 5);
  assert_float_equal(run(&m, size, 0), 0, 0);
  end(&m);
}

/* ---- accumulators */

static void accumulator(void **state) {
  model m = begin();
  shoal_graph *g = m.graph;
  shoal_device_push(g, "/job:ps/task:0");
  shoal_accumulator a = shoal_accumulator_make(g, "mean", SHOAL_F64, SHOAL_SHAPE(2));
  shoal_device_pop(g);
  shoal_value *step = shoal_placeholder(g, "step", SHOAL_I64, SHOAL_SCALAR);
  shoal_device_push(g, "/job:worker/task:0");
  shoal_value *gradient = shoal_add(g, shoal_fill(g, SHOAL_F64, SHOAL_SHAPE(2), 1), shoal_cast(g, step, SHOAL_F64));
  shoal_device_pop(g);
  shoal_value *add = shoal_accumulate(g, &a, gradient, step), *now = shoal_accumulator_step(g, &a);
  shoal_name_next(g, "taken");
  shoal_value *take = shoal_accumulator_take(g, &a, 2);
  open_session(&m, *state, 0);
  shoal_tensor out;
  assert_float_equal(run_fed(&m, step, 0, add), 1, 0);
  refused(shoal_session_run(m.session, NULL, 0, &take, 1, &out), SHOAL_ERR_ARGUMENT,
          "accumulator_take 'taken' of i64[3], f64[2]: accumulator 'mean' holds 1 gradients of step 0 or later, 2 are "
          "needed");
  run_fed(&m, step, 4, add); /* of a later step: counts */
  assert_float_equal(run(&m, take, 1), (1 + 5) / 2.0, 0);
  assert_float_equal(run(&m, now, 0), 1, 0);
  assert_float_equal(run_fed(&m, step, 0, add), 0, 0); /* too old */
  refused(shoal_session_run(m.session, NULL, 0, &take, 1, &out), SHOAL_ERR_ARGUMENT, "(1 older ones were dropped)");
  for (int i = 0; i < 3; i++) run_fed(&m, step, 1, add);
  assert_float_equal(run(&m, take, 0), 2, 0); /* what was dropped is in no sum, what was taken neither */
  end(&m);
}

/* Synchronous descent on (w - target)^2 over three workers, whose gradients meet in an accumulator: one run for the
 * gradients, one for the update, as when several runs make up a step. */
static void descent(void **state) {
  enum { WORKERS = 3 };
  model m = begin();
  shoal_graph *g = m.graph;
  shoal_device_push(g, "/job:ps/task:0");
  shoal_value *w = shoal_variable(g, "w", shoal_scalar(g, SHOAL_F32, 10));
  shoal_accumulator a = shoal_accumulator_make(g, "gradients", SHOAL_F32, SHOAL_SCALAR);
  shoal_value *step = shoal_accumulator_step(g, &a);
  shoal_device_pop(g);
  shoal_value *adds[WORKERS];
  for (int i = 0; i < WORKERS; i++) {
    char device[32];
    snprintf(device, sizeof device, "/job:worker/task:%d", i);
    shoal_device_push(g, device);
    shoal_gradient d;
    shoal_value *loss = shoal_square(g, shoal_sub(g, w, shoal_scalar(g, SHOAL_F32, i)));
    ok(shoal_gradients(g, loss, &w, 1, &d));
    shoal_device_pop(g);
    adds[i] = shoal_accumulate(g, &a, d.value, step);
  }
  shoal_value *collect = shoal_group(g, adds, WORKERS);
  shoal_value *update = shoal_assign_add(g, w, shoal_scale(g, shoal_accumulator_take(g, &a, WORKERS), -0.25));
  open_session(&m, *state, 0);
  double expected = 10;
  for (int i = 0; i < 6; i++) {
    run(&m, collect, 0);
    expected -= 0.25 * 2 * (expected - 1); /* the mean of the targets is 1 */
    assert_float_equal(run(&m, update, 0), expected, 1e-6);
  }
  end(&m);
}

/* ---- what is refused when it is built; and the way through a file */

static void wrong_shapes(void **state) {
  (void)state;
  static const char *const words[] = {
      "the queue holds items of f32[2], not f32[3]",
      "the queue holds items of f32[2], not i64[]",
      "queue 'q': room for 0 items",
      "the accumulator holds f32[2]; a gradient of f32[3] cannot be added",
      "the step must be one i64, not f32[3]",
      "a mean is of 1 gradient at least, not of 0",
      "would change 'fill_1' f32[2], which is made by fill: only a variable can be changed"};
  for (int i = 0; i < 7; i++) {
    model m = begin();
    shoal_graph *g = m.graph;
    shoal_value *three = shoal_fill(g, SHOAL_F32, SHOAL_SHAPE(3), 1), *whole = shoal_scalar(g, SHOAL_I64, 1);
    shoal_queue q = shoal_queue_make(g, "q", SHOAL_F32, SHOAL_SHAPE(2), i == 2 ? 0 : 4);
    shoal_accumulator a = shoal_accumulator_make(g, "a", SHOAL_F32, SHOAL_SHAPE(2));
    switch (i) {
      case 0: shoal_enqueue(g, &q, three); break;
      case 1: shoal_enqueue(g, &q, whole); break;
      case 3: shoal_accumulate(g, &a, three, whole); break;
      case 4: shoal_accumulate(g, &a, a.sum, three); break;
      case 5: shoal_accumulator_take(g, &a, 0); break;
      case 6: shoal_assign(g, shoal_fill(g, SHOAL_F32, SHOAL_SHAPE(2), 0), a.sum); break;
      default: break;
    }
    refused(shoal_graph_status(g), SHOAL_ERR_ARGUMENT, words[i]);
    shoal_graph_destroy(g);
  }
}

static void saved(void **state) {
  (void)state;
  model m = begin(), again = {0};
  shoal_queue q = shoal_queue_make(m.graph, "q", SHOAL_I32, SHOAL_SHAPE(2), 2);
  shoal_value *sevens = shoal_fill(m.graph, SHOAL_I32, SHOAL_SHAPE(2), 7);
  shoal_name_next(m.graph, "put");
  shoal_enqueue(m.graph, &q, sevens);
  shoal_name_next(m.graph, "get");
  shoal_dequeue(m.graph, &q);
  char path[64];
  snprintf(path, sizeof path, "/tmp/shoal-state-%d.pb", (int)getpid());
  ok(shoal_graph_save(m.graph, path));
  shoal_status status = shoal_graph_load(path, &again.graph);
  unlink(path);
  ok(status);
  open_session(&again, NULL, 0);
  shoal_value *get = shoal_value_output(shoal_graph_find(again.graph, "get"), 1);
  run(&again, shoal_graph_find(again.graph, "put"), 0);
  assert_float_equal(run(&again, get, 1), 7, 0);
  end(&again);
  shoal_graph_destroy(m.graph);
}

static int start(void **state, bool tcp) {
  static servers s[2];
  servers_start(&s[tcp], tcp);
  *state = &s[tcp];
  return 0;
}

static int start_shm(void **state) { return start(state, false); }
static int start_tcp(void **state) { return start(state, true); }

static int stop(void **state) {
  servers_stop(*state);
  return 0;
}

int main(void) {
  const struct CMUnitTest here[] = {cmocka_unit_test(queue),        cmocka_unit_test(barrier),
                                    cmocka_unit_test(accumulator),  cmocka_unit_test(descent),
                                    cmocka_unit_test(wrong_shapes), cmocka_unit_test(saved)};
  const struct CMUnitTest over[] = {cmocka_unit_test(queue), cmocka_unit_test(barrier), cmocka_unit_test(accumulator),
                                    cmocka_unit_test(descent), cmocka_unit_test(deadline)};
  int failed = cmocka_run_group_tests_name("state in one process", here, NULL, NULL);
  failed += cmocka_run_group_tests_name("state over shared memory", over, start_shm, stop);
  return failed + cmocka_run_group_tests_name("state over tcp", over, start_tcp, stop);
}
