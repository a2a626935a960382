/* Simulated jobs: against what can be worked out by hand, and against themselves. */
#include "files.h"

#include "shoal/simulate.h"

#include <math.h>
#include <string.h>

/* A network of 1 Gb/s and 100 us, and tasks that take no time for messages. */
#define RATE 125e6
#define DELAY 100e-6
static const shoal_simulate_options ideal = {
    .rate = "1gbit", .delay = "100us", .compute = "10ms", .message = "0", .megabyte = "0", .update = "0", .steps = 50};

/* Bytes on the wire: our header of 64, then 66 for each packet of 1448. */
static double frame(double payload) { return payload + 64 + 66 * ceil((payload + 64) / 1448); }

static shoal_simulate_result simulate(const shoal_simulate_options *o) {
  shoal_simulate_result r;
  assert_ok(shoal_simulate(o, &r));
  return r;
}

static void assert_near(double value, double expected, double share) {
  if (fabs(value - expected) > share * expected)
    fail_msg("%.9g, but %.9g (within %g %%) was expected", value, expected, 100 * share);
}

static void test_one_worker(void **state) {
  const double sizes[] = {1, 1000, 1e6};
  for (int i = 0; i < 3; i++) {
    shoal_simulate_options o = ideal;
    o.parameters = sizes[i];
    const double expected = 0.01 + 2 * DELAY + 2 * frame(128 + 4 * sizes[i]) / RATE;
    shoal_simulate_result r = simulate(&o);
    assert_near(r.step_mean, expected, 1e-9);
    assert_near(r.steps_per_second, 1 / expected, 1e-9);
    assert_int_equal(r.updates, 50);
    o.mode = "async";
    assert_near(simulate(&o).step_mean, expected, 1e-9);
    o.message = "20us"; /* two messages, each sent and received */
    o.update = "1ms";
    assert_near(simulate(&o).step_mean, expected + 4 * 20e-6 + 1e-9 * sizes[i], 1e-9);
  }
}

/* Messages that go whole come one after the other, so their workers compute one after the other: only one of the two ways
 * is waited for. Large ones take turns, so all workers have theirs at about the same time: both are. */
static void test_sync_shares_a_link(void **state) {
  const double sizes[] = {1e4, 1e6};
  for (int i = 0; i < 2; i++)
    for (int64_t workers = 2; workers <= 32; workers *= 4) {
      shoal_simulate_options o = ideal;
      o.parameters = sizes[i];
      o.workers = workers;
      const double message = frame(128 + 4 * sizes[i]) / RATE, fixed = 0.01 + 2 * DELAY, n = (double)workers;
      double step = simulate(&o).step_mean;
      if (!i || n < 3) assert_near(step, fixed + (i ? 2 * n : n + 1) * message, i ? 0.05 : 0.01);
      assert_true(step > 0.99 * (fixed + (n + 1) * message) && step < 1.01 * (fixed + 2 * n * message));
      o.ps = 4; /* each has a quarter of it, on a link of its own */
      step = simulate(&o).step_mean;
      assert_true(step > fixed + (n + 1) * message / 4 && step < fixed + 2.2 * (n + 4) * message / 4);
    }
}

/* The link is full: as many updates as gradients go through it. */
static void test_async_fills_a_link(void **state) {
  shoal_simulate_options o = ideal;
  o.parameters = 1e6;
  o.mode = "async";
  o.workers = 16;
  shoal_simulate_result r = simulate(&o);
  assert_near(r.steps_per_second, RATE / frame(128 + 4e6), 0.02);
  assert_near(r.staleness_mean, 15, 0.05);
  o.staleness = 1;
  assert_true(simulate(&o).stalest <= 2 * 16);
}

static void test_allreduce(void **state) {
  shoal_simulate_options o = ideal;
  o.mode = "allreduce";
  for (o.workers = 2; o.workers <= 8; o.workers *= 2) {
    const double others = (double)(o.workers - 1), head = frame(40) / RATE;
    o.parameters = 1000; /* one round: everything to everybody */
    assert_near(simulate(&o).step_mean, 0.01 + DELAY + others * (frame(4000) / RATE + head), 0.01);
    o.parameters = 8e6; /* two rounds: a piece to each, and its sum to all */
    const double piece = frame(4 * 8e6 / (double)o.workers) / RATE;
    assert_near(simulate(&o).step_mean, 0.01 + 2 * DELAY + others * (2 * piece + head), 0.03); /* turns are by chance */
    o.wire = "bf16";
    assert_near(simulate(&o).step_mean, 0.01 + 2 * DELAY + others * (piece + head), 0.03);
    o.wire = NULL;
  }
}

/* PowerSGD: of 1,000 x 1,000 numbers two exchanges of 4 x 1,000, each in one round. */
static void test_compress(void **state) {
  shoal_simulate_options o = ideal;
  o.mode = "allreduce";
  o.workers = 4;
  o.parameters = 1e6;
  const double one = DELAY + 3 * (frame(16000) + frame(40)) / RATE, whole = simulate(&o).step_mean;
  o.compress = "powersgd";
  o.coding = "0";
  assert_near(simulate(&o).step_mean, 0.01 + 2 * one, 0.01);
  o.coding = "2ms";
  assert_near(simulate(&o).step_mean, 0.012 + 2 * one, 0.01);
  o.compress_rank = 8;
  assert_true(simulate(&o).step_mean > 0.0125 + 2 * one);
  o.compress_rank = 0;
  o.compress = "auto";
  shoal_simulate_result r = simulate(&o);
  assert_near(r.way_seconds[0], whole, 1e-9);
  assert_string_equal(r.way, "powersgd");
  for (int i = 0; i < 5; i++) assert_true(r.step_mean <= r.way_seconds[i]);
  o.coding = "1s"; /* nothing pays */
  r = simulate(&o);
  assert_string_equal(r.way, "f32");
  assert_near(r.step_mean, whole, 1e-9);
  o.coding = NULL; /* as it takes here */
  assert_true(simulate(&o).way_seconds[4] > 0.01 + 2 * one);
}

static void test_same_seed_same_result(void **state) {
  const char *const modes[] = {"sync", "async", "allreduce"};
  for (int i = 0; i < 3; i++) {
    shoal_simulate_options o = ideal;
    o.mode = modes[i];
    o.workers = 20;
    o.ps = i == 2 ? 0 : 3;
    o.sigma = 0.5;
    o.slow_share = 0.05;
    o.failures = i == 2 ? NULL : "2s";
    shoal_simulate_result a = simulate(&o), b = simulate(&o);
    a.real_seconds = b.real_seconds = 0;
    assert_memory_equal(&a, &b, sizeof a);
    o.seed = 1;
    assert_true(simulate(&o).seconds != a.seconds);
  }
}

static void test_stragglers(void **state) {
  shoal_simulate_options o = ideal;
  o.workers = 10;
  o.parameters = 100;
  o.slow_workers = 1;
  assert_true(simulate(&o).step_mean > 0.1);
  o.backup_workers = 1;
  shoal_simulate_result r = simulate(&o);
  assert_near(r.steps_per_second, 1 / 0.0103, 0.05);
  assert_true(r.late > 0);
  o.backup_workers = 0;
  o.mode = "async";
  assert_near(simulate(&o).steps_per_second, 9 / 0.0103, 0.15); /* the slow one holds up the end */
}

static void test_failures(void **state) {
  shoal_simulate_options o = ideal;
  o.workers = 10;
  o.ps = 2;
  o.steps = 400;
  o.failures = "1s";
  o.restart = "100ms";
  o.parameters = 100;
  shoal_simulate_result r = simulate(&o);
  assert_true(r.failures > 10);
  assert_int_equal(r.updates, 400);
  o.mode = "async";
  r = simulate(&o);
  assert_true(r.failures > 10);
  assert_int_equal(r.updates, 4000);
}

static void test_many(void **state) {
  shoal_simulate_options o = {
      .workers = 1000, .ps = 10, .rate = "10gbit", .delay = "50us", .compute = "20ms", .steps = 3};
  assert_int_equal(simulate(&o).updates, 3);
  o.mode = "allreduce";
  o.ps = 0;
  o.workers = 200;
  assert_int_equal(simulate(&o).updates, 3);
}

static void refuses(const shoal_simulate_options *o, const char *why) {
  shoal_simulate_result r;
  shoal_status status = shoal_simulate(o, &r);
  assert_int_equal(shoal_status_code(status), SHOAL_ERR_ARGUMENT);
  if (!strstr(shoal_status_message(status), why)) fail_msg("%s", shoal_status_message(status));
  shoal_status_free(status);
}

static void test_refusals(void **state) {
  refuses(&(shoal_simulate_options){.mode = "ring"}, "sync, async or allreduce");
  refuses(&(shoal_simulate_options){.rate = "fast"}, "10gbit");
  refuses(&(shoal_simulate_options){.compute = "20"}, "20ms");
  refuses(&(shoal_simulate_options){.mode = "allreduce", .ps = 2}, "no servers");
  refuses(&(shoal_simulate_options){.workers = 3, .backup_workers = 3}, "backup_workers");
  refuses(&(shoal_simulate_options){.model = "sparse-lr"}, "parameters");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_one_worker),
      cmocka_unit_test(test_sync_shares_a_link),
      cmocka_unit_test(test_async_fills_a_link),
      cmocka_unit_test(test_allreduce),
      cmocka_unit_test(test_compress),
      cmocka_unit_test(test_same_seed_same_result),
      cmocka_unit_test(test_stragglers),
      cmocka_unit_test(test_failures),
      cmocka_unit_test(test_many),
      cmocka_unit_test(test_refusals),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
