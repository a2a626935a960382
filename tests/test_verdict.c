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
  verdict_host hosts[2];
  verdict_facts facts;
} run;

static void set(run *r, int worker, double compute, double network, double barrier, double server, double input) {
  r->tasks[worker].times =
      (shoal_times){.compute = compute, .network = network, .barrier = barrier, .server = server, .input = input};
}

static void make(run *r) {
  memset(r, 0, sizeof *r);
  for (int w = 0; w < WORKERS; w++) {
    r->tasks[w] = (verdict_task){.seconds = 10, .cpu_percent = 90, .threads = 1, .steps = STEPS, .gradients = STEPS};
    snprintf(r->tasks[w].name, sizeof r->tasks[w].name, "worker/%d", w);
    set(r, w, 9, 0.5, 0.3, 0.2, 0);
  }
  r->tasks[WORKERS] = (verdict_task){
      .name = "ps/0", .server = true, .seconds = 10, .cpu_percent = 5, .busy_seconds = 0.3, .served = WORKERS * STEPS};
  r->hosts[0] = (verdict_host){.name = "a", .cores = 8, .own = 2.75};
  r->hosts[1] = (verdict_host){.name = "b", .cores = 8};
  r->facts = (verdict_facts){.tasks = r->tasks,
                             .n_tasks = WORKERS + 1,
                             .hosts = r->hosts,
                             .n_hosts = 1,
                             .workers = WORKERS,
                             .servers = 1,
                             .sync = true,
                             .next_threads = 1,
                             .batch = 64,
                             .seconds = 10,
                             .examples_per_second = 19200,
                             .rate = 0.6,
                             .usual_rate = 0.2};
}

static const shoal_verdict_warning *warning(const shoal_verdict *v, const char *kind) {
  for (int i = 0; i < v->n_warnings; i++)
    if (!strcmp(v->warnings[i].kind, kind)) return &v->warnings[i];
  return NULL;
}

static void causes(void **state) {
  run r;
  shoal_verdict v;
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
  assert_non_null(strstr(v.text, "ps/0 is busy 90 %"));
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
  shoal_verdict v;
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
  shoal_verdict v;
  make(&r);
  r.facts.rate = 0.2;
  verdict_make(&r.facts, &v);
  assert_non_null(strstr(warning(&v, "batch_grew")->text, "3 x 64 = 192"));
  assert_non_null(strstr(warning(&v, "batch_grew")->text, "--scale-lr: a rate of 0.6"));
  r.facts.sync = false; /* then an update takes one batch */
  verdict_make(&r.facts, &v);
  assert_null(warning(&v, "batch_grew"));
  r.tasks[2].gradients = 0;
  verdict_make(&r.facts, &v);
  assert_string_equal(warning(&v, "silent_worker")->task, "worker/2");
  r.tasks[2].gradients = 300;
  verdict_make(&r.facts, &v);
  assert_string_equal(warning(&v, "slow_task")->task, "worker/2");
  make(&r);
  r.hosts[0].others = 5.2;
  verdict_make(&r.facts, &v);
  assert_non_null(strstr(warning(&v, "busy_host")->text, "Other programs used 5.2 of the 8 processors, this run 2.8"));
  r.facts.n_hosts = 2;
  verdict_make(&r.facts, &v);
  assert_non_null(strstr(warning(&v, "busy_host")->text, "of the 8 processors on a"));
  r.hosts[0].others = 0;
  r.hosts[0].cores = 3;
  verdict_make(&r.facts, &v);
  assert_non_null(strstr(warning(&v, "busy_host")->text, "4 in all, share 3 processors on a"));
}

static void short_runs(void **state) {
  run r;
  shoal_verdict v;
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
  shoal_verdict v;
  make(&r);
  verdict_make(&r.facts, &v); /* a step: 10 ms; a gradient more: 0.1 ms */
  assert_true(v.has_next);
  assert_true(fabs(v.speedup - 4.0 / 3 * 10 / 10.1) < 1e-9);
  assert_true(fabs(v.next_examples_per_second - 19200 * v.speedup) < 1e-6);
  assert_null(strstr(v.next_text, "since"));
  r.tasks[WORKERS].busy_seconds = 9.7; /* 3.23 ms a gradient: that is all it can take */
  verdict_make(&r.facts, &v);
  assert_true(v.speedup <= 1.04);
  assert_non_null(strstr(v.next_text, "about as many as with 3, since ps/0 cannot take in more"));
  make(&r);
  r.facts.n_hosts = 2;
  r.hosts[0].cores = r.hosts[1].cores = 1; /* the new one has a machine of its own */
  verdict_make(&r.facts, &v);
  assert_true(v.has_next);
  assert_non_null(strstr(v.next_text, "on a machine of its own"));
}

static void no_forecast(void **state) {
  run r;
  shoal_verdict v;
  make(&r);
  r.hosts[0].cores = 3; /* sync: a fourth would have to take turns */
  verdict_make(&r.facts, &v);
  assert_false(v.has_next);
  assert_non_null(strstr(v.next_text, "No forecast for 4 workers: with 1 thread each they would have to share 3"));
  r.facts.sync = false;
  verdict_make(&r.facts, &v);
  assert_true(v.has_next);
  r.hosts[0].cores = 1; /* four workers on it: what they lose by taking turns is not known */
  verdict_make(&r.facts, &v);
  assert_false(v.has_next);
  r.hosts[0].cores = 3;
  r.facts.next_threads = r.tasks[0].threads = 2;
  verdict_make(&r.facts, &v);
  assert_false(v.has_next);
  make(&r);
  r.hosts[0].others = 2;
  verdict_make(&r.facts, &v);
  assert_false(v.has_next);
  assert_non_null(strstr(v.next_text, "other programs were using 2.0 of the 8 processors."));
  make(&r);
  r.facts.n_hosts = 0;
  verdict_make(&r.facts, &v);
  assert_false(v.has_next);
  assert_string_equal(v.next_text, "");
  make(&r);
  r.facts.seconds = 0.9;
  verdict_make(&r.facts, &v);
  assert_false(v.has_next);
}

/* Runs of LeNet on MNIST, batch 64, one server, on a machine of two processors: what was measured with one worker more.
 * Times are seconds of a worker's steps, summed over the workers; so is its processor time. */
typedef struct {
  bool sync;
  int workers, threads, next_threads;
  double compute, network, barrier, server, seconds;
  int64_t steps;
  double worker_cpu, server_cpu, busy; /* cpu: % of one processor, of each worker */
  double speed, next_speed;            /* examples a second */
} measured_run;

static const measured_run measured_runs[] = {
    {true, 1, 2, 1, 2.138, 0.429, 0, 0.038, 2.61, 938, 147, 5, 0.089, 23028, 25053},
    {false, 1, 2, 1, 2.135, 0.165, 0, 0.031, 2.33, 938, 158, 3, 0.071, 25746, 31594},
    {false, 2, 1, 1, 3.406, 0.349, 0.008, 0.033, 1.90, 938, 88, 6, 0.100, 31594, 30160},
    {false, 3, 1, 1, 5.059, 0.832, 0.002, 0.051, 1.99, 938, 60, 6, 0.123, 30160, 29201},
};

static void against_runs(void **state) {
  for (size_t i = 0; i < sizeof measured_runs / sizeof *measured_runs; i++) {
    const measured_run *m = &measured_runs[i];
    run r;
    shoal_verdict v;
    make(&r);
    double n = m->workers;
    for (int w = 0; w < m->workers; w++) {
      r.tasks[w].steps = m->steps / m->workers;
      r.tasks[w].seconds = m->seconds;
      r.tasks[w].cpu_percent = m->worker_cpu;
      r.tasks[w].threads = m->threads;
      set(&r, w, m->compute / n, m->network / n, m->barrier / n, m->server / n, 0);
    }
    r.tasks[m->workers] = (verdict_task){.name = "ps/0",
                                         .server = true,
                                         .seconds = m->seconds,
                                         .cpu_percent = m->server_cpu,
                                         .busy_seconds = m->busy,
                                         .served = m->steps};
    r.hosts[0] = (verdict_host){.name = "a", .cores = 2, .own = (n * m->worker_cpu + m->server_cpu) / 100};
    r.facts.n_tasks = m->workers + 1;
    r.facts.workers = m->workers;
    r.facts.sync = m->sync;
    r.facts.next_threads = m->next_threads;
    r.facts.seconds = m->seconds;
    r.facts.examples_per_second = m->speed;
    verdict_make(&r.facts, &v);
    assert_true(v.has_next);
    if (fabs(v.next_examples_per_second / m->next_speed - 1) > 0.2)
      fail_msg("run %zu: %.0f examples/s foretold, %.0f measured", i, v.next_examples_per_second, m->next_speed);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(causes),       cmocka_unit_test(one_slow_worker), cmocka_unit_test(warnings),
      cmocka_unit_test(short_runs),   cmocka_unit_test(one_more_worker), cmocka_unit_test(no_forecast),
      cmocka_unit_test(against_runs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
