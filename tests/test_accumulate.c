/* Gradient accumulation: N batches of B rows make the update that one batch of N * B rows makes. */
#include "train_data.h"

#include "shoal/cluster.h"

#include <math.h>
#include <string.h>

enum { ROWS = 110 }; /* the last update of an epoch has fewer rows, and its last batch, too */

static shoal_strategy *mirrored(int workers, bool deterministic) {
  shoal_strategy *s;
  assert_ok(shoal_strategy_create_mirrored(workers, &(shoal_replica_options){.deterministic = deterministic}, &s));
  return s;
}

static shoal_strategy *servers(int workers, const char *mode, bool deterministic) {
  shoal_strategy *s;
  assert_ok(shoal_strategy_create_local_ps(workers, 2,
                                           &(shoal_ps_options){.mode = mode, .deterministic = deterministic}, &s));
  return s;
}

/* Trains with the strategy, which it destroys. */
static shoal_model *train(shoal_strategy *s, const char *optimizer, const shoal_dataset *d, shoal_fit_options o) {
  shoal_model *m = model_make_xor(
      &(shoal_compile_options){.optimizer = {.name = optimizer}, .schedule = {.rate = 0.05}, .l2 = 1e-3, .seed = 5});
  o.strategy = s;
  assert_ok(shoal_model_fit(m, d, &o, NULL));
  shoal_strategy_destroy(s);
  return m;
}

static void assert_close(shoal_model *a, shoal_model *b, float most, const char *what) {
  const char *name;
  shoal_tensor x, y;
  for (int i = 0; shoal_model_weight(a, i, &name, &x); i++) {
    assert_true(shoal_model_weight(b, i, &name, &y));
    for (int64_t k = 0; k < shoal_tensor_count(&x); k++)
      if (fabsf(((float *)x.data)[k] - ((float *)y.data)[k]) > most)
        fail_msg("%s: %s[%lld] is %g, in one batch %g", what, name, (long long)k, (double)((float *)x.data)[k],
                 (double)((float *)y.data)[k]);
  }
}

static void every_optimizer(void **state) {
  shoal_dataset d;
  data_make_xor(ROWS, 3, &d);
  for (const char *const *o = shoal_optimizer_names(); *o; o++) {
    shoal_model *whole = train(NULL, *o, &d, (shoal_fit_options){.epochs = 2, .batch_size = 28});
    shoal_model *parts = train(NULL, *o, &d, (shoal_fit_options){.epochs = 2, .batch_size = 7, .accumulate = 4});
    assert_close(parts, whole, 1e-4f, *o);
    shoal_model_destroy(whole);
    shoal_model_destroy(parts);
  }
  data_free(&d);
}

static void every_strategy(void **state) {
  shoal_dataset d;
  data_make_xor(ROWS, 3, &d);
  shoal_model *whole = train(NULL, "momentum", &d, (shoal_fit_options){.epochs = 3, .batch_size = 24});
  const struct {
    shoal_strategy *strategy;
    int batch, accumulate;
    const char *name;
  } ways[] = {{mirrored(1, false), 6, 4, "mirrored"},       {mirrored(2, false), 4, 3, "mirrored on 2"},
              {mirrored(2, true), 6, 2, "deterministic"},   {servers(1, "sync", false), 8, 3, "ps"},
              {servers(2, "sync", false), 6, 2, "ps on 2"}, {servers(1, "async", false), 12, 2, "async"}};
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    shoal_model *m =
        train(ways[i].strategy, "momentum", &d,
              (shoal_fit_options){.epochs = 3, .batch_size = ways[i].batch, .accumulate = ways[i].accumulate});
    assert_close(m, whole, 1e-4f, ways[i].name);
    shoal_model_destroy(m);
  }
  shoal_model_destroy(whole);
  data_free(&d);
}

static void deterministic_bits(void **state) {
  shoal_dataset d;
  data_make_xor(ROWS, 3, &d);
  const shoal_fit_options whole = {.epochs = 2, .global_batch = 48};
  const shoal_fit_options parts = {.epochs = 2, .global_batch = 16, .accumulate = 3};
  shoal_model *first = train(mirrored(1, true), "adam", &d, whole);
  for (int workers = 1; workers <= 3; workers++)
    for (int ps = 0; ps < 2; ps++) {
      shoal_model *m = train(ps ? servers(workers, "sync", true) : mirrored(workers, true), "adam", &d, parts);
      assert_same_bits(m, first);
      shoal_model_destroy(m);
    }
  shoal_model_destroy(first);
  data_free(&d);
}

static bool stop_after(void *context, const shoal_progress *p) { return p->step >= *(int64_t *)context; }

/* Stopped in the middle of an epoch and resumed: the bits of a run that was not. */
static void resume(void **state) {
  shoal_dataset d;
  char dir[FILES_PATH];
  files_make_folder(dir);
  data_make_corners(60, 3, &d);
  shoal_fit_options o = {.epochs = 3, .batch_size = 4, .accumulate = 3};
  const shoal_compile_options compile = {.optimizer = {.name = "adam"}, .schedule = {.rate = 0.01}, .seed = 2};
  shoal_model *whole = model_make_corners(&compile), *half = model_make_corners(&compile),
              *again = model_make_corners(&compile);
  shoal_fit_result r;
  assert_ok(shoal_model_fit(whole, &d, &o, &r));
  assert_int_equal(r.steps, 15); /* updates */
  int64_t last = 7;
  o.checkpoint_dir = dir;
  o.callbacks = (shoal_callbacks){.context = &last, .on_step = stop_after, .every_steps = 1};
  assert_ok(shoal_model_fit(half, &d, &o, &r));
  assert_int_equal(r.steps, last);
  o.callbacks = (shoal_callbacks){0};
  o.resume = true;
  assert_ok(shoal_model_fit(again, &d, &o, &r));
  assert_int_equal(r.resumed_from, last);
  assert_same_bits(whole, again);
  o.accumulate = 2; /* other updates */
  assert_fails(shoal_model_fit(half, &d, &o, &r), SHOAL_ERR_ARGUMENT, "resum");
  shoal_model_destroy(whole);
  shoal_model_destroy(half);
  shoal_model_destroy(again);
  files_remove_folder(dir);
  data_free(&d);
}

static void refused(void **state) {
  shoal_dataset d;
  data_make_xor(ROWS, 3, &d);
  shoal_model *m = model_make_xor(&(shoal_compile_options){.seed = 1}), *sparse;
  assert_fails(shoal_model_fit(m, &d, &(shoal_fit_options){.epochs = 1, .accumulate = -1}, NULL), SHOAL_ERR_ARGUMENT,
               "accumulate is from 1 to");
  assert_fails(shoal_model_fit(m, &d, &(shoal_fit_options){.epochs = 1, .accumulate = 1 << 20}, NULL),
               SHOAL_ERR_ARGUMENT, "accumulate is from 1 to");
  assert_ok(shoal_model_create_sparse(10, &sparse));
  shoal_model_sparse_dense(sparse, 1, true, "sigmoid");
  assert_ok(shoal_model_compile(sparse, NULL));
  const shoal_pipeline_options rows = {.files = "none.libsvm"};
  assert_fails(shoal_model_fit(sparse, NULL, &(shoal_fit_options){.epochs = 1, .accumulate = 2, .stream = &rows}, NULL),
               SHOAL_ERR_ARGUMENT, "dense rows");
  shoal_model_destroy(sparse);
  shoal_model_destroy(m);
  data_free(&d);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_optimizer), cmocka_unit_test(every_strategy), cmocka_unit_test(deterministic_bits),
      cmocka_unit_test(resume),          cmocka_unit_test(refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
