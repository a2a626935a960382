/* Parameter servers: the same learning as one process, whatever the number of tasks. Tasks are threads here, over the
 * real transport; tests/cli/test_cluster.py has them as processes. */
#include "ps_tasks.h"

static void assert_close(shoal_model *a, shoal_model *b, double most) {
  shoal_value **weights, **others;
  int n, k;
  assert_ok(model_weights(a, false, &weights, &n));
  assert_ok(model_weights(b, false, &others, &k));
  assert_int_equal(n, k);
  for (int i = 0; i < n; i++) {
    shoal_tensor x, y;
    assert_ok(shoal_session_variable(shoal_model_session(a), weights[i], &x));
    assert_ok(shoal_session_variable(shoal_model_session(b), others[i], &y));
    for (int64_t e = 0; e < shoal_tensor_count(&x); e++) {
      double difference = fabs(shoal_tensor_get(&x, e) - shoal_tensor_get(&y, e));
      if (!(difference <= most))
        fail_msg("%s[%lld] differs by %g", shoal_value_name(weights[i]), (long long)e, difference);
    }
  }
  free(weights);
  free(others);
}

/* 410 rows in batches of 20 a worker: the last round is short, with three workers one of them has nothing in it. */
static void together_equals_one_process(void **state) {
  static const char *const optimizers[] = {"sgd", "momentum", "adagrad", "rmsprop", "adam", "ftrl"};
  shoal_dataset data;
  data_make_corners(ROWS, 1, &data);
  for (int w = 1; w <= 3; w++)
    for (int s = 1; s <= 2; s++)
      for (size_t k = 0; k < COUNT_OF(optimizers); k++) {
        if (k > 1 && (w != 3 || s != 2)) continue;
        job j = {.workers = w, .servers = s, .sync = true, .staleness = -1};
        j.compile = compile_for(optimizers[k]);
        j.fit = (shoal_fit_options){.epochs = 3, .batch_size = 60 / w};
        j.block = w == 2 || k > 1 ? 333 : 0;
        j.threads = w; /* which changes nothing */
        task workers[MOST], servers[MOST];
        run(&j, &data, workers, servers);
        shoal_model *alone;
        shoal_fit_result r;
        model_make(&j.compile, &alone);
        assert_ok(shoal_model_fit(alone, &data, &(shoal_fit_options){.epochs = 3, .batch_size = 60}, &r));
        for (int i = 0; i < w; i++) {
          if (!(fabs(workers[i].fit.final_loss - r.final_loss) < 1e-4))
            fail_msg("%s, %d x %d: loss %g, alone %g", optimizers[k], w, s, workers[i].fit.final_loss, r.final_loss);
          assert_int_equal(workers[i].fit.steps, r.steps);
          assert_int_equal(workers[i].fit.updates, r.updates);
          assert_int_equal(workers[i].fit.examples, r.examples);
          if (i) assert_same_bits(workers[0].model, workers[i].model);
        }
        assert_close(workers[0].model, alone, 2e-3);
        for (int i = 0; i < s; i++) {
          int64_t examples = 0;
          for (int v = 0; v < w; v++) examples += servers[i].served.workers[v].examples;
          assert_int_equal(servers[i].served.updates, r.updates);
          assert_int_equal(examples, 3 * ROWS);
          assert_int_equal(servers[i].served.stalest, 0);
        }
        shoal_model_destroy(alone);
        run_fini(&j, workers, servers);
      }
  data_free(&data);
}

static void together_repeats_bit_by_bit(void **state) {
  shoal_dataset data;
  data_make_corners(ROWS, 1, &data);
  job j = {.workers = 3, .servers = 2, .sync = true, .compile = compile_for("adam")};
  j.fit = (shoal_fit_options){.epochs = 2, .batch_size = 20};
  task first[MOST], second[MOST], servers[MOST], others[MOST];
  run(&j, &data, first, servers);
  run(&j, &data, second, others);
  assert_same_bits(first[0].model, second[2].model);
  run_fini(&j, first, servers);
  run_fini(&j, second, others);
  data_free(&data);
}

static void apart_learns(void **state) {
  shoal_dataset data, test;
  data_make_corners(ROWS, 1, &data);
  data_make_corners(200, 2, &test);
  job j = {.workers = 3, .servers = 2, .staleness = -1, .compile = compile_for("momentum")};
  j.fit = (shoal_fit_options){.epochs = 8, .batch_size = 10};
  task workers[MOST], servers[MOST];
  run(&j, &data, workers, servers);
  for (int i = 0; i < 3; i++) {
    shoal_evaluation e;
    assert_ok(shoal_model_evaluate(workers[i].model, &test, &e));
    if (!(e.accuracy > 0.9)) fail_msg("worker %d: accuracy %g", i, e.accuracy);
    assert_true(workers[i].fit.worker_steps > 0);
  }
  for (int i = 0; i < 2; i++) {
    int64_t examples = 0, gradients = 0, counted = 0;
    for (int w = 0; w < 3; w++) {
      assert_true(servers[i].served.workers[w].gradients > 0);
      examples += servers[i].served.workers[w].examples;
      gradients += servers[i].served.workers[w].gradients;
    }
    for (int k = 0; k < PS_STALENESS_MAX; k++) counted += servers[i].served.staleness[k];
    assert_int_equal(examples, 8 * ROWS); /* each row of each epoch exactly once */
    assert_int_equal(gradients, 8 * 41);
    assert_int_equal(gradients, servers[i].served.updates);
    assert_int_equal(gradients, counted);
  }
  assert_int_equal(workers[0].fit.updates, 8 * 41);
  run_fini(&j, workers, servers);
  data_free(&data);
  data_free(&test);
}

/* With a bound of S nobody begins with a gradient when it is more than S steps ahead of the slowest, whether its last
 * answers have come or not; so the others make at most 2 S + 1 steps each while the slow one computes one gradient,
 * which with two in flight misses its own last one, too. */
static void staleness_is_bounded(void **state) {
  static const struct {
    int64_t bound;
    int in_flight;
  } cases[] = {{0, 1}, {2, 1}, {0, 2}, {1, 2}, {2, 2}};
  shoal_dataset data;
  data_make_corners(ROWS, 1, &data);
  for (size_t k = 0; k < COUNT_OF(cases); k++) {
    int64_t bound = cases[k].bound;
    job j = {.workers = 3, .servers = 1, .staleness = bound, .compile = compile_for("sgd"), .slow_us = 3000};
    j.in_flight = cases[k].in_flight;
    j.fit = (shoal_fit_options){.epochs = 2, .batch_size = 10};
    task workers[MOST], servers[MOST];
    run(&j, &data, workers, servers);
    const ps_server_result *served = &servers[0].served;
    int64_t most = 2 * (2 * bound + 1) + (bound && j.in_flight > 1);
    if (served->stalest > most)
      fail_msg("bound %lld: a gradient was %lld updates old", (long long)bound, (long long)served->stalest);
    if (served->lead != bound)
      fail_msg("bound %lld, %d in flight: a worker was %lld steps ahead", (long long)bound, j.in_flight,
               (long long)served->lead);
    assert_int_equal(served->updates, 2 * 41);
    run_fini(&j, workers, servers);
  }
  data_free(&data);
}

/* One worker alone: with two in flight each gradient but the first misses the one before it, and nothing else. */
static void own_gradients_in_flight_are_counted(void **state) {
  shoal_dataset data;
  data_make_corners(ROWS, 1, &data);
  for (int flight = 1; flight <= 2; flight++) {
    job j = {.workers = 1, .servers = 2, .staleness = -1, .in_flight = flight, .compile = compile_for("momentum")};
    j.fit = (shoal_fit_options){.epochs = 2, .batch_size = 10};
    task workers[MOST], servers[MOST], again[MOST], others[MOST];
    run(&j, &data, workers, servers);
    for (int s = 0; s < j.servers; s++) {
      const ps_server_result *r = &servers[s].served;
      assert_int_equal(r->updates, 2 * 41);
      assert_int_equal(r->staleness[0], flight == 1 ? 2 * 41 : 1);
      assert_int_equal(r->staleness[1], flight == 1 ? 0 : 2 * 41 - 1);
      assert_int_equal(r->stalest, flight - 1);
    }
    assert_int_equal(workers[0].fit.worker_examples, 2 * ROWS);
    run(&j, &data, again, others);
    assert_same_bits(workers[0].model, again[0].model); /* nothing depends on when answers come */
    run_fini(&j, workers, servers);
    run_fini(&j, again, others);
  }
  data_free(&data);
}

/* Stopped while gradients are on their way: what the servers used is what the workers count. */
static void stopping_settles_what_is_in_flight(void **state) {
  shoal_dataset data;
  data_make_corners(ROWS, 1, &data);
  for (int64_t bound = -1; bound <= 1; bound += 2) {
    job j = {.workers = 3, .servers = 2, .staleness = bound, .in_flight = 2, .compile = compile_for("sgd")};
    j.stop_after = 25;
    j.slow_us = 2000;
    j.fit = (shoal_fit_options){.epochs = 50, .batch_size = 10};
    task workers[MOST], servers[MOST];
    run(&j, &data, workers, servers);
    int64_t updates = 0;
    for (int w = 0; w < j.workers; w++) {
      assert_true(workers[w].fit.stopped);
      assert_int_equal(workers[w].fit.worker_steps, servers[0].served.workers[w].gradients);
      updates += workers[w].fit.worker_steps;
    }
    assert_int_equal(updates, servers[0].served.updates);
    run_fini(&j, workers, servers);
  }
  data_free(&data);
}

static void stopping_stops_all_at_one_step(void **state) {
  shoal_dataset data;
  data_make_corners(ROWS, 1, &data);
  job j = {.workers = 3, .servers = 2, .sync = true, .compile = compile_for("sgd"), .stop_after = 11};
  j.fit = (shoal_fit_options){.epochs = 50, .batch_size = 10};
  task workers[MOST], servers[MOST];
  run(&j, &data, workers, servers);
  for (int i = 0; i < 3; i++) {
    assert_true(workers[i].fit.stopped);
    assert_int_equal(workers[i].fit.steps, 11);
    if (i) assert_same_bits(workers[0].model, workers[i].model);
  }
  run_fini(&j, workers, servers);
  data_free(&data);
}

/* Stopped in the middle and resumed: as if nothing had happened, slots included. */
static void resuming_continues(void **state) {
  shoal_dataset data;
  data_make_corners(ROWS, 1, &data);
  char dir[FILES_PATH];
  files_make_folder(dir);
  job j = {.workers = 2, .servers = 2, .sync = true, .compile = compile_for("adam"), .block = 500};
  j.fit = (shoal_fit_options){.epochs = 3, .batch_size = 20};
  task whole[MOST], half[MOST], rest[MOST], servers[MOST];
  run(&j, &data, whole, servers);
  servers_fini(&j, servers);
  job first = j, second = j;
  first.stop_after = 14;
  first.fit.checkpoint_dir = second.fit.checkpoint_dir = dir;
  second.fit.resume = true;
  second.threads = 3; /* of the servers: the bits do not depend on it */
  run(&first, &data, half, servers);
  servers_fini(&j, servers);
  run(&second, &data, rest, servers);
  assert_int_equal(rest[0].fit.resumed_from, 14);
  assert_int_equal(rest[1].fit.steps, whole[1].fit.steps);
  assert_same_bits(whole[0].model, rest[0].model);
  assert_same_bits(whole[1].model, rest[1].model);
  run_fini(&j, rest, servers);
  for (int i = 0; i < j.workers; i++) {
    shoal_model_destroy(whole[i].model);
    shoal_model_destroy(half[i].model);
  }
  files_remove_folder(dir);
  data_free(&data);
}

static void placement_is_even_and_whole(void **state) {
  static const int64_t counts[] = {7840, 10, 1, 400000, 120, 33};
  for (int servers = 1; servers <= 5; servers++) {
    placement p;
    assert_ok(placement_make(counts, COUNT_OF(counts), servers, &p));
    int64_t total = 0, seen[COUNT_OF(counts)] = {0}, most = 0, least = INT64_MAX;
    for (int i = 0; i < p.n_slices; i++) seen[p.slices[i].variable] += p.slices[i].count;
    for (size_t i = 0; i < COUNT_OF(counts); i++) {
      assert_int_equal(seen[i], counts[i]);
      total += counts[i];
    }
    for (int s = 0; s < servers; s++) {
      most = MAX_OF(most, p.elements[s]);
      least = MIN_OF(least, p.elements[s]);
      int64_t offset = 0;
      for (int i = p.begin[s]; i < p.begin[s + 1]; i++) {
        assert_int_equal(p.slices[i].server, s);
        assert_int_equal(p.slices[i].offset, offset);
        offset += p.slices[i].count;
      }
      assert_int_equal(offset, p.elements[s]);
    }
    assert_true((double)most <= 1.1 * (double)total / servers + 1024);
    assert_true(least > 0);
    placement_fini(&p);
  }
  static const int64_t tiny[] = {10, 10};
  placement p;
  shoal_status status = placement_make(tiny, 2, 3, &p);
  assert_int_equal(shoal_status_code(status), SHOAL_ERR_ARGUMENT);
  assert_non_null(strstr(shoal_status_message(status), "use 2 or fewer"));
  shoal_status_free(status);
}

/* A worker that was told other settings than worker 0 is refused, and says which; the others train. */
static void other_settings_are_refused(void **state) {
  shoal_dataset data;
  data_make_corners(ROWS, 1, &data);
  char name[64];
  snprintf(name, sizeof name, "shm:/shoal-test-%d-refused", (int)getpid());
  const char *address = name;
  job j = {.workers = 2, .servers = 1, .staleness = -1, .compile = compile_for("sgd")}, other = j;
  other.compile.schedule.rate = 0.5;
  j.fit = other.fit = (shoal_fit_options){.epochs = 1, .batch_size = 100};
  task server = {.of = &j, .addresses = &address}, wrong = {.of = &other, .data = &data, .addresses = &address};
  task right = {.of = &j, .data = &data, .addresses = &address};
  wrong.index = 1; /* it comes first, and waits until the server knows what is right */
  model_make(&j.compile, &right.model);
  model_make(&other.compile, &wrong.model);
  assert_int_equal(pthread_create(&server.thread, NULL, run_server, &server), 0);
  assert_int_equal(pthread_create(&wrong.thread, NULL, run_worker, &wrong), 0);
  run_worker(&right); /* the server is unharmed */
  pthread_join(wrong.thread, NULL);
  assert_int_equal(shoal_status_code(wrong.status), SHOAL_ERR_PEER);
  assert_non_null(strstr(shoal_status_message(wrong.status), "lr is 0.5 there, 0.02 here"));
  assert_non_null(strstr(shoal_status_message(wrong.status), "ps/0"));
  shoal_status_free(wrong.status);
  assert_ok(right.status);
  pthread_join(server.thread, NULL);
  assert_ok(server.status);
  free(server.served.workers);
  shoal_model_destroy(right.model);
  shoal_model_destroy(wrong.model);
  data_free(&data);
}

/* Bytes on the wire: a gradient out and parameters back a step, little else. */
static void bytes_are_as_few_as_can_be(void **state) {
  shoal_dataset data;
  data_make_corners(ROWS, 1, &data);
  job j = {.workers = 2, .servers = 1, .sync = true, .compile = compile_for("sgd")};
  j.fit = (shoal_fit_options){.steps = 200, .batch_size = 10};
  task workers[MOST], servers[MOST];
  run(&j, &data, workers, servers);
  double vector = 4.0 * (double)shoal_model_parameters(workers[0].model);
  assert_true((double)workers[0].net.sent_bytes / 200 < 1.03 * vector);
  assert_true((double)workers[0].net.received_bytes / 200 < 1.03 * vector);
  assert_true((double)workers[0].net.sent_bytes / 200 > 0.98 * vector);
  run_fini(&j, workers, servers);
  data_free(&data);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(placement_is_even_and_whole),
      cmocka_unit_test(together_equals_one_process),
      cmocka_unit_test(together_repeats_bit_by_bit),
      cmocka_unit_test(apart_learns),
      cmocka_unit_test(staleness_is_bounded),
      cmocka_unit_test(own_gradients_in_flight_are_counted),
      cmocka_unit_test(stopping_settles_what_is_in_flight),
      cmocka_unit_test(stopping_stops_all_at_one_step),
      cmocka_unit_test(resuming_continues),
      cmocka_unit_test(other_settings_are_refused),
      cmocka_unit_test(bytes_are_as_few_as_can_be),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
