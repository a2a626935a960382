/* All modes for 1 to 4 workers and 1 to 3 servers, as threads of one process over the real transport: made to be run
 * under ThreadSanitizer (make race), quick enough to be run without. Each row of each epoch must be used once. */
#include "ps_tasks.h"

typedef struct {
  const char *name;
  bool sync;
  int64_t staleness;
  int backups, in_flight;
} mode;

static const mode modes[] = {
    {"sync", true, -1, 0, 1},    {"sync with a backup", true, -1, 1, 1}, {"async", false, -1, 0, 1},
    {"bounded", false, 1, 0, 1}, {"async in flight", false, -1, 0, 2},   {"bounded in flight", false, 1, 0, 2}};

static void all_modes_and_sizes(void **state) {
  shoal_dataset data;
  data_make_corners(ROWS, 1, &data);
  for (size_t m = 0; m < COUNT_OF(modes); m++)
    for (int w = 1; w <= 4; w++)
      for (int s = 1; s <= 3; s++) {
        if (modes[m].backups >= w) continue;
        job j = {.workers = w, .servers = s, .sync = modes[m].sync, .staleness = modes[m].staleness};
        j.backups = modes[m].backups;
        j.in_flight = modes[m].in_flight;
        j.compile = compile_for("momentum");
        j.fit = (shoal_fit_options){.epochs = 2, .batch_size = 30};
        task workers[MOST], servers[MOST];
        run(&j, &data, workers, servers);
        int64_t examples = 0;
        for (int v = 0; v < w; v++) examples += servers[0].served.workers[v].examples;
        if (examples != 2 * ROWS)
          fail_msg("%s, %d x %d: %lld rows used, %d expected", modes[m].name, w, s, (long long)examples, 2 * ROWS);
        for (int k = 1; k < s; k++) {
          assert_int_equal(servers[k].served.updates, servers[0].served.updates);
          for (int v = 0; v < w; v++)
            assert_int_equal(servers[k].served.workers[v].examples, servers[0].served.workers[v].examples);
        }
        int64_t own = 0;
        for (int v = 0; v < w; v++) {
          assert_int_equal(workers[v].fit.examples, 2 * ROWS);
          assert_int_equal(workers[v].fit.worker_examples, servers[0].served.workers[v].examples);
          own += workers[v].fit.worker_steps;
        }
        if (!modes[m].sync) assert_int_equal(own, servers[0].served.updates);
        if (modes[m].staleness >= 0) assert_true(servers[0].served.lead <= modes[m].staleness);
        run_fini(&j, workers, servers);
      }
  data_free(&data);
}

/* A gradient that comes after its step is dropped, and its rows are done by somebody. */
static void late_gradients_are_dropped(void **state) {
  shoal_dataset data;
  data_make_corners(ROWS, 1, &data);
  for (int s = 1; s <= 2; s++) {
    job j = {.workers = 3, .servers = s, .sync = true, .staleness = -1, .backups = 1, .slow_us = 3000};
    j.compile = compile_for("sgd");
    j.fit = (shoal_fit_options){.epochs = 2, .batch_size = 10};
    task workers[MOST], servers[MOST];
    run(&j, &data, workers, servers);
    int64_t examples = 0;
    for (int v = 0; v < 3; v++) examples += servers[0].served.workers[v].examples;
    assert_int_equal(examples, 2 * ROWS);
    assert_true(servers[0].served.workers[SLOW_WORKER].late > 0);
    assert_true(servers[0].served.handed_on > 0);
    if (s > 1) assert_int_equal(servers[1].served.updates, servers[0].served.updates);
    run_fini(&j, workers, servers);
  }
  data_free(&data);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(all_modes_and_sizes),
                                     cmocka_unit_test(late_gradients_are_dropped)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
