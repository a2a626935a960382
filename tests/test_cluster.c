/* Descriptions of clusters: what is understood, what is refused and how. */
#include "files.h"

#include "cluster/cluster.h"
#include "cluster/slurm.h"

static void parse(const char *text, const char *task, cluster *out) {
  assert_ok(cluster_parse(text, "TF_CONFIG", task, out));
}

static void with_a_chief(void **state) {
  cluster c;
  parse(
      "{\"cluster\": {\"worker\": [\"b:2\", \"c:2\"], \"chief\": [\"a:2\"], \"ps\": [\"tcp://d:2\", \"shm:/x\"]}, "
      "\"task\": {\"type\": \"worker\", \"index\": 1}}",
      NULL, &c);
  assert_int_equal(cluster_workers(&c), 3);
  assert_int_equal(cluster_worker(&c), 2);
  assert_int_equal(c.counts[SHOAL_PS], 2);
  assert_string_equal(c.addresses[SHOAL_PS][0], "tcp://d:2");
  assert_string_equal(c.addresses[SHOAL_PS][1], "shm:/x");
  assert_string_equal(c.addresses[SHOAL_CHIEF][0], "tcp://a:2");
  cluster_fini(&c);
}

static void without_a_chief(void **state) {
  cluster c, d;
  parse("{\"worker\": [\"a:1\", \"b:1\"], \"ps\": [\"c:1\"]}", "worker:0", &c);
  assert_int_equal(cluster_workers(&c), 2);
  assert_int_equal(cluster_worker(&c), 0);
  parse("{\"cluster\": {\"ps\": [\"c:1\"], \"worker\": [\"a:1\", \"b:1\"]}}", "ps:0", &d);
  assert_int_equal(cluster_worker(&d), -1);
  assert_int_equal(d.role, SHOAL_PS);
  assert_true(c.id == d.id); /* the order in which it is written down does not count */
  cluster_fini(&d);
  parse("{\"worker\": [\"b:1\", \"a:1\"], \"ps\": [\"c:1\"]}", "worker:0", &d);
  assert_true(c.id != d.id);
  cluster_fini(&c);
  cluster_fini(&d);
}

static void evaluator_inside_and_outside(void **state) {
  cluster c;
  parse("{\"worker\": [\"a:1\"], \"evaluator\": [\"e:1\"]}", "evaluator:0", &c);
  assert_int_equal(c.role, SHOAL_EVALUATOR);
  cluster_fini(&c);
  parse("{\"cluster\": {\"worker\": [\"a:1\"]}, \"task\": {\"type\": \"evaluator\", \"index\": 0}}", NULL, &c);
  assert_int_equal(c.role, SHOAL_EVALUATOR);
  assert_int_equal(cluster_worker(&c), -1);
  cluster_fini(&c);
}

static void wrong_ones_are_refused(void **state) {
  static const struct {
    const char *text, *task, *says;
  } cases[] = {
      {"{\"worker\": [\"a:1\"", "worker:0", "line 1"},
      {"[]", "worker:0", "an object"},
      {"{\"wroker\": [\"a:1\"]}", "worker:0", "did you mean worker?"},
      {"{\"ps\": [\"a:1\"]}", "ps:0", "no worker"},
      {"{\"worker\": \"a:1\"}", "worker:0", "a list"},
      {"{\"worker\": [1]}", "worker:0", "not a string"},
      {"{\"worker\": [\"a\"]}", "worker:0", "HOST:PORT"},
      {"{\"worker\": [\"a:0\"]}", "worker:0", "from 1 to 65535"},
      {"{\"worker\": [\"a:70000\"]}", "worker:0", "from 1 to 65535"},
      {"{\"worker\": [\"http://a:1\"]}", "worker:0", "HOST:PORT"},
      {"{\"worker\": [\"a:1\", \"a:1\"]}", "worker:0", "both worker:0 and worker:1"},
      {"{\"worker\": [\"a:1\"], \"ps\": [\"tcp://a:1\"]}", "worker:0", "both worker:0 and ps:0"},
      {"{\"worker\": [\"a:1\"], \"chief\": [\"b:1\", \"c:1\"]}", "worker:0", "2 chiefs"},
      {"{\"worker\": [\"a:1\"]}", "worker:1", "worker:0 to worker:0"},
      {"{\"worker\": [\"a:1\"]}", "ps:0", "has no ps"},
      {"{\"worker\": [\"a:1\"]}", "pss:0", "did you mean ps?"},
      {"{\"worker\": [\"a:1\"]}", "worker", "ROLE:INDEX"},
      {"{\"worker\": [\"a:1\"]}", "worker:-1", "worker:0 to"},
      {"{\"worker\": [\"a:1\"]}", NULL, "which task"},
      {"{\"cluster\": {\"worker\": [\"a:1\"]}, \"task\": {\"type\": \"worker\"}}", NULL, "which task"},
      {"{\"worker\": [\"a:1\"], \"worker\": [\"b:1\"]}", "worker:0", "duplicate"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    cluster c;
    shoal_status status = cluster_parse(cases[i].text, "TF_CONFIG", cases[i].task, &c);
    assert_int_equal(shoal_status_code(status), SHOAL_ERR_ARGUMENT);
    if (!strstr(shoal_status_message(status), cases[i].says))
      fail_msg("case %zu: '%s' does not say '%s'", i, shoal_status_message(status), cases[i].says);
    shoal_status_free(status);
  }
}

/* What srun tells its tasks; NULL ends the list of names and values. */
static void be_task(const char *const *words) {
  for (; *words; words += 2) setenv(words[0], words[1], 1);
}

static void slurm_steps(void **state) {
  static const char *const step[] = {"SLURM_JOB_ID",
                                     "12",
                                     "SLURM_STEP_ID",
                                     "0",
                                     "SLURM_STEP_NUM_TASKS",
                                     "6",
                                     "SLURM_STEP_NODELIST",
                                     "n[08-10],login",
                                     "SLURM_STEP_TASKS_PER_NODE",
                                     "2(x2),1(x2)",
                                     "SLURM_PROCID",
                                     "4",
                                     "SLURMD_NODENAME",
                                     "n10",
                                     NULL};
  be_task(step);
  char *words;
  cluster c, first;
  assert_true(slurm_step());
  assert_ok(slurm_describe(2, &words));
  parse(words, NULL, &c);
  free(words);
  assert_int_equal(c.counts[SHOAL_PS], 2);
  assert_int_equal(cluster_workers(&c), 4);
  assert_int_equal(cluster_worker(&c), 2);
  assert_true(!strncmp(c.addresses[SHOAL_PS][1], "tcp://n08:", 10));
  assert_true(!strncmp(c.addresses[SHOAL_WORKER][0], "tcp://n09:", 10));
  assert_true(!strncmp(c.addresses[SHOAL_WORKER][3], "tcp://login:", 12));
  be_task((const char *const[]){"SLURM_PROCID", "0", "SLURMD_NODENAME", "n08", NULL});
  assert_ok(slurm_describe(2, &words));
  parse(words, NULL, &first);
  free(words);
  assert_int_equal(first.role, SHOAL_PS);
  assert_true(first.id == c.id);
  cluster_fini(&c);
  cluster_fini(&first);
  be_task((const char *const[]){"SLURMD_NODENAME", "n09", NULL});
  assert_fails(slurm_describe(2, &words), SHOAL_ERR_INPUT, "--distribution=block");
  assert_fails(slurm_describe(6, &words), SHOAL_ERR_ARGUMENT, "at least one must be a worker");
  be_task((const char *const[]){"SLURM_STEP_NODELIST", "n[1-", NULL});
  assert_fails(slurm_describe(2, &words), SHOAL_ERR_INPUT, "SLURM_STEP_NODELIST");
  be_task((const char *const[]){"SLURM_STEP_NODELIST", "n1", "SLURMD_NODENAME", "n1", "SLURM_STEP_TASKS_PER_NODE", "6",
                                NULL});
  assert_ok(slurm_describe(1, &words));
  assert_non_null(strstr(words, "127.0.0.1:")); /* one node: nothing leaves it */
  free(words);
  unsetenv("SLURM_PROCID");
  assert_false(slurm_step());
}

static void names(void **state) {
  char name[CLUSTER_NAME];
  cluster c;
  assert_string_equal(cluster_worker_name(false, 1, name), "worker/1");
  assert_string_equal(cluster_worker_name(true, 0, name), "chief/0");
  assert_string_equal(cluster_worker_name(true, 2, name), "worker/1");
  parse("{\"chief\": [\"a:1\"], \"worker\": [\"b:2\", \"c:3\"], \"ps\": [\"d:4\"]}", "chief:0", &c);
  assert_string_equal(cluster_worker_address(&c, 0), "a:1");
  assert_string_equal(cluster_worker_address(&c, 2), "c:3");
  assert_null(cluster_worker_address(&c, 3));
  cluster_fini(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(with_a_chief),
      cmocka_unit_test(without_a_chief),
      cmocka_unit_test(evaluator_inside_and_outside),
      cmocka_unit_test(wrong_ones_are_refused),
      cmocka_unit_test(slurm_steps),
      cmocka_unit_test(names),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
