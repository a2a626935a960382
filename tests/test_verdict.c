/* The verdict on made-up measurements: each cause, each warning, and the model of one more worker. */
#include "files.h"
#include "observe/verdict.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define WORKERS 3
#define STEPS 1000

/* Three workers and a server over 10 s; a worker's times are seconds. */
typedef struct {
  verdict_task tasks[WORKERS + 1];
  verdict_facts facts;
} run;

static void set(run *r, int worker, double compute, double network, double barrier, double server, double input) {
  r->tasks[worker].times = (shoal_times){compute, network, barrier, server, input};
}

static void make(run *r) {
  memset(r, 0, sizeof *r);
  for (int w = 0; w < WORKERS; w++) {
    r->tasks[w] = (verdict_task){.seconds = 10, .cpu_percent = 90, .steps = STEPS, .gradients = STEPS};
    snprintf(r->tasks[w].name, sizeof r->tasks[w].name, "worker/%d", w);
    set(r, w, 9, 0.5, 0.3, 0.2, 0);
  }
  r->tasks[WORKERS] = (verdict_task){.name = "ps/0", .server = true, .seconds = 10, .cpu_percent = 5,
                                     .busy_seconds = 0.3, .served = WORKERS * STEPS};
  r->facts = (verdict_facts){.tasks = r->tasks, .n_tasks = WORKERS + 1, .workers = WORKERS, .servers = 1,
                             .together = true, .threads = 1, .batch = 64, .seconds = 10,
                             .examples_per_second = 19200, .rate = 0.6, .usual_rate = 0.2, .one_host = false, .cores = 8};
}

static const verdict_warning *warning(const verdict *v, const char *kind) {
  for (int i = 0; i < v->n_warnings; i++)
    if (!strcmp(v->warnings[i].kind, kind)) return &v->warnings[i];
  return NULL;
}

static void causes(void **state) {
  run r;
  verdict v;
  make(&r);
  verdict_make(&r.facts, &v);
  assert_int_equal(v.cause, VERDICT_COMPUTING);
  assert_non_null(strstr(v.text, "90 %"));
  assert_int_equal(v.n_warnings, 0);
  for (int w = 0; w < WORKERS; w++) set(&r, w, 2, 7, 0.5, 0.5, 0);
  verdict_make(&r.facts, &v);
  assert_int_equal(v.cause, VERDICT_NETWORK);
  assert_non_null(strstr(v.text, "70 %"));
  r.tasks[WORKERS].busy_seconds = 9;
  verdict_make(&r.facts, &v);
  assert_int_equal(v.cause, VERDICT_SERVER);
  assert_non_null(strstr(v.text, "ps/0 works 90 %"));
  make(&r);
  for (int w = 0; w < WORKERS; w++) set(&r, w, 2, 0.2, 0.2, 0.1, 7.5);
  verdict_make(&r.facts, &v);
  assert_int_equal(v.cause, VERDICT_INPUT);
  assert_string_equal(warning(&v, "input_starves")->task, "worker/0");
  make(&r);
  for (int w = 0; w < WORKERS; w++) set(&r, w, 3, 1, 5.5, 0.5, 0);
  verdict_make(&r.facts, &v);
  assert_int_equal(v.cause, VERDICT_BARRIER);
  assert_null(warning(&v, "slow_task"));
}

static void one_slow_worker(void **state) {
  run r;
  verdict v;
  make(&r);
  set(&r, 0, 3, 0.5, 6.3, 0.2, 0);
  set(&r, 2, 3, 0.5, 6.3, 0.2, 0);
  verdict_make(&r.facts, &v); /* most of all workers' time is spent computing, and yet */
  assert_int_equal(v.cause, VERDICT_BARRIER);
  assert_non_null(strstr(v.text, "wait for worker/1: it takes 9 ms"));
  assert_string_equal(warning(&v, "slow_task")->task, "worker/1");
  set(&r, 1, 2, 0.5, 0.3, 0.2, 7);
  verdict_make(&r.facts, &v);
  assert_int_equal(v.cause, VERDICT_BARRIER);
  assert_non_null(strstr(v.text, "reading"));
}

static void warnings(void **state) {
  run r;
  verdict v;
  make(&r);
  r.facts.rate = 0.2;
  verdict_make(&r.facts, &v);
  assert_non_null(strstr(warning(&v, "batch_grew")->text, "3 x 64 = 192"));
  assert_non_null(strstr(warning(&v, "batch_grew")->text, "--scale-lr, which takes 0.6"));
  r.facts.together = false; /* then an update takes one batch */
  verdict_make(&r.facts, &v);
  assert_null(warning(&v, "batch_grew"));
  r.tasks[2].gradients = 0;
  verdict_make(&r.facts, &v);
  assert_string_equal(warning(&v, "silent_worker")->task, "worker/2");
  r.tasks[2].gradients = 300;
  verdict_make(&r.facts, &v);
  assert_string_equal(warning(&v, "slow_task")->task, "worker/2");
  make(&r);
  r.facts.one_host = true;
  r.facts.host_cpu_percent = 99;
  verdict_make(&r.facts, &v);
  assert_non_null(strstr(warning(&v, "busy_host")->text, "other programs"));
  r.facts.cores = 3;
  verdict_make(&r.facts, &v);
  assert_non_null(strstr(warning(&v, "busy_host")->text, "share 3 processors"));
}

static void short_runs(void **state) {
  run r;
  verdict v;
  make(&r);
  r.facts.seconds = 0.1;
  verdict_make(&r.facts, &v);
  assert_int_equal(v.cause, VERDICT_NONE);
  r.facts.seconds = 0.5;
  verdict_make(&r.facts, &v);
  assert_int_equal(v.cause, VERDICT_COMPUTING);
  assert_non_null(warning(&v, "short_run"));
  r.facts.n_tasks = 0;
  verdict_make(&r.facts, &v);
  assert_int_equal(v.cause, VERDICT_NONE);
  assert_false(v.has_next);
}

static void one_more_worker(void **state) {
  run r;
  verdict v;
  make(&r);
  verdict_make(&r.facts, &v); /* a step: 9 ms and 0.7 ms; a gradient more: 0.1 ms */
  assert_true(v.has_next);
  assert_true(fabs(v.speedup - 4.0 / 3 * 9.7 / 9.8) < 1e-9);
  assert_true(fabs(v.next_examples_per_second - 19200 * v.speedup) < 1e-6);
  r.tasks[WORKERS].busy_seconds = 9.7; /* 3.23 ms a gradient: that is all it can take */
  verdict_make(&r.facts, &v);
  assert_true(v.speedup <= 1.01);
  assert_non_null(strstr(v.next_text, "no server can take in more"));
  make(&r);
  r.facts.one_host = true;
  r.facts.cores = 3;
  verdict_make(&r.facts, &v);
  assert_true(v.speedup < 1.1);
  assert_non_null(strstr(v.next_text, "no processor left"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(causes),     cmocka_unit_test(one_slow_worker), cmocka_unit_test(warnings),
      cmocka_unit_test(short_runs), cmocka_unit_test(one_more_worker),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
