/* Batch normalization under every strategy that a process can start by itself; between ranks: test_ranks.c. */
#include "batch_norm_case.h"

#include "shoal/cluster.h"

/* Trains with the strategy, which it destroys. */
static shoal_model *train(shoal_strategy *s, const char *optimizer, const shoal_dataset *d, shoal_fit_options o) {
  shoal_model *m = model_make_normed(optimizer, 0.05);
  o.strategy = s;
  assert_ok(shoal_model_fit(m, d, &o, NULL));
  shoal_strategy_destroy(s);
  return m;
}

static shoal_strategy *mirrored(int workers, bool deterministic) {
  shoal_strategy *s;
  assert_ok(shoal_strategy_create_mirrored(workers, &(shoal_replica_options){.deterministic = deterministic}, &s));
  return s;
}

static shoal_strategy *servers(int workers, int n, const shoal_ps_options *options) {
  shoal_strategy *s;
  assert_ok(shoal_strategy_create_local_ps(workers, n, options, &s));
  return s;
}

/* Averages are the mean over the workers' own rows, weighted as gradients are. */
static void averages_of_one_step(void **state) {
  shoal_dataset d;
  data_make_columns(&d);
  const struct {
    shoal_strategy *strategy;
    int parts, rows; /* rows: of a worker */
  } ways[] = {{NULL, 1, 96},
              {mirrored(1, false), 1, 96},
              {mirrored(3, false), 3, 32},
              {mirrored(2, true), 6, 48}, /* leaves of 16 rows */
              {servers(1, 1, NULL), 1, 96},
              {servers(2, 2, NULL), 2, 48},
              {servers(3, 1, &(shoal_ps_options){.deterministic = true}), 6, 32},
              {servers(1, 2, &(shoal_ps_options){.mode = "async"}), 1, 96}};
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    shoal_model *m = train(ways[i].strategy, "adam", &d,
                           (shoal_fit_options){.steps = 1, .batch_size = ways[i].rows, .keep_order = true});
    check_one_step(m, &d, ways[i].parts);
    shoal_model_destroy(m);
  }
  data_free(&d);
}

/* One worker of any kind is one process, whatever the optimizer keeps. Not compared: what a bias before a normalization
 * has an effect on. Its gradient is 0, and what rounding leaves of it some optimizers make large. */
static void one_worker_is_one_process(void **state) {
  static const char *const names[] = {"batch_norm/moving_mean", "batch_norm_1/moving_variance", "batch_norm_1/gamma"};
  const char *const optimizers[] = {"sgd", "momentum", "adam", "ftrl"};
  const shoal_fit_options o = {.epochs = 4, .batch_size = 16};
  shoal_dataset d;
  data_make_columns(&d);
  for (int i = 0; i < 4; i++) {
    shoal_model *alone = train(NULL, optimizers[i], &d, o);
    for (int way = 0; way < 3; way++) {
      const shoal_ps_options mode = {.mode = way == 1 ? "sync" : "async"};
      shoal_strategy *s = way == 0 ? mirrored(1, false) : servers(1, 2, &mode);
      shoal_model *m = train(s, optimizers[i], &d, o);
      for (int k = 0; k < 3; k++)
        for (int c = 0; c < NORM_FEATURES; c++)
          if (fabsf(variable_of(m, names[k])[c] - variable_of(alone, names[k])[c]) > 1e-4f)
            fail_msg("%s, way %d: %s[%d] is %g, alone %g", optimizers[i], way, names[k], c,
                     (double)variable_of(m, names[k])[c], (double)variable_of(alone, names[k])[c]);
      shoal_model_destroy(m);
    }
    shoal_model_destroy(alone);
  }
  data_free(&d);
}

/* Several workers learn; the model that is left tells rows apart by its moving averages. */
static void several_workers_learn(void **state) {
  shoal_dataset d;
  data_make_columns(&d);
  shoal_strategy *ways[] = {mirrored(2, false), mirrored(3, true), servers(2, 2, NULL),
                            servers(2, 1, &(shoal_ps_options){.mode = "async"}),
                            servers(2, 1, &(shoal_ps_options){.mode = "async", .staleness = 1})};
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    shoal_evaluation e;
    shoal_model *m = train(ways[i], "adam", &d, (shoal_fit_options){.epochs = 200, .batch_size = 16});
    assert_ok(shoal_model_evaluate(m, &d, &e));
    if (!(e.accuracy > 0.95)) fail_msg("way %zu: accuracy %g", i, e.accuracy);
    shoal_model_destroy(m);
  }
  data_free(&d);
}

static void deterministic_bits(void **state) {
  shoal_dataset d;
  data_make_columns(&d);
  shoal_model *first = NULL;
  for (int workers = 1; workers <= 4; workers++)
    for (int n = 0; n < 3; n++) { /* servers; 0: none */
      shoal_strategy *s = n ? servers(workers, n, &(shoal_ps_options){.deterministic = true}) : mirrored(workers, true);
      shoal_model *m = train(s, "momentum", &d, (shoal_fit_options){.epochs = 2, .global_batch = 80});
      if (first) assert_same_bits(first, m);
      if (first)
        shoal_model_destroy(m);
      else
        first = m;
    }
  shoal_model_destroy(first);
  data_free(&d);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(averages_of_one_step),
      cmocka_unit_test(one_worker_is_one_process),
      cmocka_unit_test(several_workers_learn),
      cmocka_unit_test(deterministic_bits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
