/* Graphs of one's own over graph servers of this machine, looked through, traced and measured. */
#include "public.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void test_a_graph_is_looked_through(void **state) {
  shoal_graph *g;
  assert_ok(shoal_graph_create(&g));
  shoal_value *x = shoal_placeholder(g, "x", SHOAL_F32, SHOAL_SHAPE(SHOAL_UNKNOWN, 2));
  shoal_value *w = shoal_variable(g, "w", shoal_random_block(g, SHOAL_SHAPE(2, 3), 3, 0, 0));
  shoal_value *y = shoal_matmul(g, x, w, false, false), *found;
  assert_ok(shoal_graph_status(g));
  assert_ptr_equal(shoal_graph_next(g, SHOAL_GRAPH_PLACEHOLDERS, NULL), x);
  assert_null(shoal_graph_next(g, SHOAL_GRAPH_PLACEHOLDERS, x));
  assert_ptr_equal(shoal_graph_next(g, SHOAL_GRAPH_VARIABLES, NULL), w);
  assert_ptr_equal(shoal_graph_next(g, SHOAL_GRAPH_RESULTS, NULL), y);
  assert_null(shoal_graph_next(g, SHOAL_GRAPH_RESULTS, y));
  assert_ok(shoal_graph_lookup(g, "w:0", &found));
  assert_ptr_equal(found, w);
  assert_fails(shoal_graph_lookup(g, "w:7", &found), SHOAL_ERR_ARGUMENT, "no value 'w:7'");
  shoal_graph_destroy(g);
}

/* tr(A A) over so many servers; in one block by one worker it is the same number. */
static double trace_over(const shoal_square_trace_options *o, const shoal_local_servers_options *local,
                         const char *timeline) {
  shoal_graph_servers *servers;
  shoal_graph *g;
  shoal_session *s;
  shoal_value *trace;
  shoal_tensor out;
  assert_ok(shoal_graph_servers_start(local, &servers));
  shoal_cluster_options cluster = {.seed = 3};
  shoal_graph_servers_fill(servers, &cluster);
  assert_int_equal(cluster.n_tasks, local->ps + local->workers);
  assert_ok(shoal_graph_create(&g));
  assert_ok(shoal_square_trace_build(g, o, &trace));
  assert_ok(shoal_session_connect(g, &cluster, &s));
  if (timeline) assert_ok(shoal_session_trace_begin(s));
  assert_ok(shoal_graph_servers_explain(servers, shoal_session_run(s, NULL, 0, &trace, 1, &out)));
  if (timeline) assert_ok(shoal_session_trace_end(s, timeline));
  double result = shoal_tensor_get(&out, 0);
  shoal_session_destroy(s);
  shoal_graph_destroy(g);
  shoal_graph_servers_destroy(servers);
  return result;
}

static void test_servers_of_this_machine(void **state) {
  const char *folder = test_folder(), *timeline = test_path(folder, "trace.json");
  shoal_square_trace_options whole = {.n = 60, .blocks = 1, .workers = 1}, cut = {.n = 60, .blocks = 3, .workers = 2};
  double one = trace_over(&whole, &(shoal_local_servers_options){.workers = 1}, NULL);
  double two = trace_over(&cut, &(shoal_local_servers_options){.ps = 1, .workers = 2, .tcp = true}, timeline);
  assert_true(one > 0 && two / one > 1 - 1e-6 && two / one < 1 + 1e-6);
  shoal_square_trace_cost cost = shoal_square_trace_predict(&cut);
  assert_int_equal(cost.pairs, 6);
  assert_true(cost.worker_bytes == 2 * 4 * 20 * 20);
  shoal_trace_summary *t;
  assert_ok(shoal_trace_read(timeline, &t));
  double workers = 0;
  int64_t products = 0;
  for (size_t i = 0; i < t->n_tasks; i++) workers += t->tasks[i].task && strstr(t->tasks[i].task, "worker") != NULL;
  for (size_t i = 0; i < t->n_rows; i++)
    if (t->rows[i].kind == SHOAL_SPAN_OP && strstr(t->rows[i].name, "trace_matmul")) products += t->rows[i].calls;
  assert_true(workers == 2);
  assert_true(products >= 6);
  shoal_trace_summary_destroy(t);
  assert_string_equal(shoal_span_kind_name(SHOAL_SPAN_WAIT), "wait");
  test_write(timeline, "{}");
  assert_fails(shoal_trace_read(timeline, &t), SHOAL_ERR_INPUT, "no traceEvents");
  test_remove(folder);
}

/* The child of this process that was started last. */
static pid_t newest_child(void) {
  char path[64];
  int pid = 0, last = 0;
  snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)getpid(), (int)getpid());
  FILE *f = fopen(path, "r");
  while (f && fscanf(f, "%d", &pid) == 1) last = pid;
  if (f) fclose(f);
  return last;
}

static void test_a_lost_server_is_named(void **state) {
  shoal_graph_servers *servers;
  shoal_graph *g;
  shoal_session *s;
  shoal_value *trace;
  assert_ok(shoal_graph_servers_start(&(shoal_local_servers_options){.workers = 2}, &servers));
  shoal_cluster_options cluster = {.step_seconds = 20};
  shoal_graph_servers_fill(servers, &cluster);
  assert_ok(shoal_graph_create(&g));
  assert_ok(shoal_square_trace_build(g, &(shoal_square_trace_options){.n = 40, .blocks = 2, .workers = 2}, &trace));
  assert_ok(shoal_session_connect(g, &cluster, &s));
  kill(newest_child(), SIGKILL);
  assert_fails(shoal_graph_servers_explain(servers, shoal_session_run(s, NULL, 0, &trace, 1, NULL)), SHOAL_ERR_PEER,
               "/job:worker/task:1");
  shoal_session_destroy(s);
  shoal_graph_destroy(g);
  shoal_graph_servers_destroy(servers);
  assert_fails(shoal_graph_servers_start(&(shoal_local_servers_options){0}, &servers), SHOAL_ERR_ARGUMENT, "1 to 64");
}

static void test_servers_that_are_described(void **state) {
  const char *folder = test_folder(), *path = test_path(folder, "cluster.json");
  test_write(path,
             "{\"cluster\": {\"worker\": [\"127.0.0.1:2222\", \"127.0.0.1:2223\"],"
             " \"ps\": [\"127.0.0.1:2224\"]}}");
  shoal_graph_servers *servers;
  shoal_cluster *c;
  assert_ok(shoal_graph_servers_read(path, &servers));
  shoal_cluster_options o = {0};
  shoal_graph_servers_fill(servers, &o);
  assert_int_equal(o.n_tasks, 3);
  assert_string_equal(o.tasks[1].name, "/job:worker/task:1");
  assert_string_equal(o.tasks[2].address, "tcp://127.0.0.1:2224");
  assert_ok(shoal_cluster_find(path, "worker:1", 0, &c));
  assert_true(o.job == shoal_cluster_id(c)); /* so that servers and sessions find each other */
  char name[SHOAL_TASK_NAME];
  assert_int_equal(shoal_cluster_tasks(c), 3);
  assert_int_equal(shoal_cluster_task(c), 1);
  assert_string_equal(shoal_cluster_task_name(c, 2, name), "ps:0");
  assert_string_equal(shoal_cluster_task_address(c, 0), "tcp://127.0.0.1:2222");
  shoal_cluster_destroy(c);
  shoal_graph_servers_destroy(servers);
  unsetenv("TF_CONFIG");
  assert_fails(shoal_cluster_find(NULL, "worker:1", 0, &c), SHOAL_ERR_ARGUMENT, "needs `cluster`");
  test_remove(folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_graph_is_looked_through),
      cmocka_unit_test(test_servers_of_this_machine),
      cmocka_unit_test(test_a_lost_server_is_named),
      cmocka_unit_test(test_servers_that_are_described),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
