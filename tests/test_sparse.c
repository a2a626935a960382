/* Sparse rows in the engine: plans for any number of entries, many steps in one call against one step at a time, no
 * work that grows with the feature space, scores and what they are worth. */
#include "base/clock.h"
#include "base/mem.h"
#include "base/random.h"
#include "exec/packed.h"
#include "exec/plan.h"
#include "exec/session.h"
#include "kernel/cpu.h"
#include "train/model.h"
#include "train/binary_metrics.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void ok(shoal_status status) {
  if (!status) return;
  print_error("%s\n", shoal_status_message(status));
  shoal_status_free(status);
  fail();
}

static void refused(shoal_status status, shoal_code code, const char *words) {
  assert_non_null(status);
  if (!strstr(shoal_status_message(status), words)) fail_msg("'%s' is not in: %s", words, shoal_status_message(status));
  assert_int_equal(shoal_status_code(status), code);
  shoal_status_free(status);
}

/* ---- rows */

typedef struct {
  random_stream stream;
  uint64_t at;
} numbers;

static double next(numbers *n) { return random_uniform_at(&n->stream, n->at++); }

enum { ROWS_MAX = 400, ENTRIES_MAX = 40 * ROWS_MAX };

typedef struct {
  int64_t offsets[ROWS_MAX + 1];
  int32_t indices[ENTRIES_MAX], labels[ROWS_MAX];
  float values[ENTRIES_MAX];
  int64_t rows;
} data;

/* Rows of 0 to 19 entries, each eighth of up to 149, more than kernels take at once; ascending, small indices are frequent. */
static data *make_data(int64_t rows, int64_t features, uint64_t seed) {
  data *d = calloc(1, sizeof *d);
  assert_non_null(d);
  numbers r = {.stream = random_stream_make(seed, 1)};
  d->rows = rows;
  for (int64_t i = 0; i < rows; i++) {
    int64_t n = (int64_t)(next(&r) * (i % 8 == 7 ? 150 : 20)), at = d->offsets[i];
    int32_t index = -1;
    for (int64_t k = 0; k < n; k++) {
      double u = next(&r);
      index += 1 + (int32_t)(u * u * u * (double)(features - 1 - index) / (double)(n - k));
      if (index >= features) break;
      d->indices[at] = index;
      d->values[at++] = (float)(next(&r) * 2 - 0.7);
    }
    d->offsets[i + 1] = at;
    d->labels[i] = next(&r) < 0.4;
  }
  return d;
}

static shoal_batch batch_of(data *d, int64_t first, int64_t n) {
  int64_t from = d->offsets[first], entries = d->offsets[first + n] - from;
  return (shoal_batch){.count = n,
                       .labels = shoal_tensor_view(SHOAL_I32, SHOAL_SHAPE(n), d->labels + first),
                       .offsets = shoal_tensor_view(SHOAL_I64, SHOAL_SHAPE(n + 1), d->offsets + first),
                       .indices = shoal_tensor_view(SHOAL_I32, SHOAL_SHAPE(entries), d->indices + from),
                       .values = shoal_tensor_view(SHOAL_F32, SHOAL_SHAPE(entries), d->values + from)};
}

/* ---- models */

typedef struct {
  const char *optimizer, *kernels;
  bool bias, no_fusion, race;
  double l1, l2;
  int threads;
} design;

static shoal_model *make_model(int64_t features, const design *d) {
  shoal_model *m;
  ok(shoal_model_create_sparse(features, &m));
  shoal_model_sparse_dense(m, 1, d->bias, "sigmoid");
  ok(shoal_model_compile(m, &(shoal_compile_options){.optimizer = {.name = d->optimizer, .l1 = d->l1},
                                                     .schedule = {.rate = 0.1},
                                                     .l2 = d->l2,
                                                     .threads = d->threads ? d->threads : 1,
                                                     .kernels = d->kernels,
                                                     .no_fusion = d->no_fusion,
                                                     .race = d->race}));
  return m;
}

/* Trains on rows [first, first + n) in steps of `step`; returns the mean loss. */
static double train(shoal_model *m, data *d, int64_t first, int64_t n, int64_t step) {
  tower *t;
  ok(model_tower(m, SHOAL_F32, SHOAL_I32, false, &t));
  shoal_batch b = batch_of(d, first, n);
  shoal_feed feeds[TOWER_FEEDS_MAX + 1];
  float rates[ROWS_MAX];
  double means[3];
  for (int64_t i = 0; i < n; i++) rates[i] = 0.1f / (1 + 0.01f * (float)i);
  int n_feeds = tower_feed_sparse(t, &b, feeds);
  feeds[n_feeds++] = (shoal_feed){m->rate, shoal_tensor_view(SHOAL_F32, SHOAL_SHAPE((n + step - 1) / step), rates)};
  ok(session_run_steps(m->session, feeds, n_feeds, (shoal_value *[]){t->loss, t->accuracy, t->update}, 3, step, means));
  return means[0];
}

static const float *weights(shoal_model *m, const char *name) {
  shoal_tensor w;
  ok(shoal_session_variable(m->session, shoal_graph_find(m->graph, name), &w));
  return w.data;
}

/* ---- many steps in one call are as many runs of the operators */

static void check_same(const design *d, int64_t step) {
  enum { FEATURES = 300, ROWS = 173 };
  data *rows = make_data(ROWS, FEATURES, 5);
  design plain = *d;
  plain.no_fusion = true;
  shoal_model *fused = make_model(FEATURES, d), *reference = make_model(FEATURES, &plain);
  double a = 0, b = 0;
  for (int pass = 0; pass < 2; pass++) {
    a = train(fused, rows, 0, ROWS, step);
    b = train(reference, rows, 0, ROWS, step);
  }
  const float *x = weights(fused, "sparse_dense/kernel"), *y = weights(reference, "sparse_dense/kernel");
  bool exact = d->kernels && !strcmp(d->kernels, "generic");
  if (exact && !d->bias) {
    if (memcmp(x, y, FEATURES * sizeof *x)) fail_msg("%s, %d rows a step: other bits", d->optimizer, (int)step);
  }
  for (int i = 0; i < FEATURES; i++)
    if (!(fabsf(x[i] - y[i]) <= 2e-5f * (1 + fabsf(y[i]))))
      fail_msg("%s, %d rows a step: weight %d is %g, not %g", d->optimizer, (int)step, i, (double)x[i], (double)y[i]);
  assert_true(fabs(a - b) < 1e-5 * (1 + fabs(b)));
  if (d->bias) {
    float p = *weights(fused, "sparse_dense/bias"), q = *weights(reference, "sparse_dense/bias");
    assert_true(p != 0 && fabsf(p - q) < 1e-5f * (1 + fabsf(q)));
  }
  shoal_model_destroy(fused);
  shoal_model_destroy(reference);
  free(rows);
}

static void steps_are_runs(void **state) {
  static const char *const optimizers[] = {"sgd", "adagrad", "ftrl"};
  static const int64_t steps[] = {1, 7, 100, 173};
  for (size_t o = 0; o < COUNT_OF(optimizers); o++)
    for (cpu_level level = CPU_GENERIC; level <= cpu_best(); level++)
      for (size_t s = 0; s < COUNT_OF(steps); s++) {
        const char *kernels = cpu_level_name(level);
        check_same(&(design){.optimizer = optimizers[o], .kernels = kernels}, steps[s]);
        check_same(&(design){.optimizer = optimizers[o], .kernels = kernels, .l2 = 0.02, .bias = true}, steps[s]);
      }
}

/* The step is one operator, whatever the optimizer; otherwise it would be slow and nobody would see it. */
static void step_is_one_operator(void **state) {
  static const char *const optimizers[] = {"sgd", "adagrad", "ftrl"};
  data *rows = make_data(40, 100, 1);
  for (int i = 0; i < 6; i++) {
    design d = {.optimizer = optimizers[i / 2], .bias = i % 2, .l2 = i % 2 * 0.1};
    shoal_model *m = make_model(100, &d);
    train(m, rows, 0, 40, 8);
    assert_int_equal(m->session->n_plans, 1);
    assert_true(plan_makes_steps(m->session->plans[0]));
    shoal_model_destroy(m);
  }
  free(rows);
}

/* ---- tables packed with their slots */

static double loss_of(shoal_model *m, data *d, int64_t rows) {
  tower *t;
  ok(model_tower(m, SHOAL_F32, SHOAL_I32, false, &t));
  shoal_batch b = batch_of(d, 0, rows);
  shoal_feed feeds[TOWER_FEEDS_MAX];
  const int n = tower_feed_sparse(t, &b, feeds);
  shoal_tensor loss;
  ok(shoal_session_run(m->session, feeds, n, &t->loss, 1, &loss));
  return shoal_tensor_get(&loss, 0);
}

/* Each variable of the two models has the same bits. */
static void same_variables(shoal_model *a, shoal_model *b) {
  for (size_t i = 0; i < a->graph->count; i++) {
    shoal_tensor x, y;
    if (!a->graph->nodes[i]->initial) continue;
    ok(session_variable_now(a->session, &a->graph->nodes[i]->out[0], &x));
    ok(session_variable_now(b->session, &b->graph->nodes[i]->out[0], &y));
    if (memcmp(x.data, y.data, shoal_tensor_bytes(&x))) fail_msg("'%s' has other bits", a->graph->nodes[i]->name);
  }
}

/* A large table is packed while it is trained, and nobody sees a difference: not whoever asks for variables in between,
 * nor whoever was given one for good. */
static void check_packed(const char *kernels) {
  enum { FEATURES = (1 << 20) + 77, ROWS = 400 };
  static const char *const optimizers[] = {"adagrad", "ftrl"};
  data *rows = make_data(ROWS, FEATURES, 11);
  for (int i = 0; i < 4; i++) {
    const design d = {.optimizer = optimizers[i / 2], .kernels = kernels, .threads = 1 + i % 2};
    const int64_t step = i % 2 ? 1 : 50;
    shoal_model *packed = make_model(FEATURES, &d), *fixed = make_model(FEATURES, &d);
    const float *own = weights(fixed, "sparse_dense/kernel"); /* for good: never packed */
    for (int pass = 0; pass < 4; pass++) {
      const double a = train(packed, rows, 0, ROWS, step), b = train(fixed, rows, 0, ROWS, step);
      assert_true(a == b);
      assert_int_equal(packed->session->n_packed, 1);
      assert_int_equal(packed->session->packed[0].row, i / 2 ? 4 : 2);
      assert_true(packed->session->packed[0].packed == (pass < 3));
      assert_false(fixed->session->n_packed && fixed->session->packed[0].packed);
      assert_true(loss_of(packed, rows, ROWS) == loss_of(fixed, rows, ROWS));
      assert_true(packed->session->packed[0].packed == (pass < 3)); /* a score reads it where it is */
      if (pass == 0) continue;
      same_variables(packed, fixed);
      assert_false(packed->session->packed[0].packed);
      if (pass == 2) own = weights(packed, "sparse_dense/kernel");
    }
    assert_memory_equal(own, weights(fixed, "sparse_dense/kernel"), FEATURES * sizeof *own);
    shoal_model_destroy(packed);
    shoal_model_destroy(fixed);
  }
  free(rows);
}

static void packed_tables(void **state) {
  for (cpu_level level = CPU_GENERIC; level <= cpu_best(); level++) check_packed(cpu_level_name(level));
}

/* ---- plans */

static void plans_take_any_number_of_entries(void **state) {
  enum { FEATURES = 50, ROWS = 300 };
  data *d = make_data(ROWS, FEATURES, 3);
  shoal_graph *g;
  ok(shoal_graph_create(&g));
  shoal_value *offsets = shoal_placeholder(g, "offsets", SHOAL_I64, SHOAL_SHAPE(SHOAL_UNKNOWN));
  shoal_value *indices = shoal_placeholder_ragged(g, "indices", SHOAL_I32, offsets);
  shoal_value *values = shoal_placeholder_ragged(g, "values", SHOAL_F32, offsets);
  shoal_value *w = shoal_variable(g, "w", shoal_random_uniform(g, SHOAL_SHAPE(FEATURES, 3), -1, 1));
  shoal_value *y = shoal_sparse_matmul(g, offsets, indices, values, w);
  shoal_value *twice = shoal_scale(g, values, 2), *picked = shoal_gather(g, w, indices);
  shoal_value *sum = shoal_reduce_sum(g, picked, SHOAL_SHAPE(0), false);
  shoal_gradient grad;
  ok(shoal_gradients(g, shoal_reduce_sum(g, shoal_square(g, y), SHOAL_SCALAR, false), &w, 1, &grad));
  shoal_session *s;
  ok(shoal_session_create(g, &(shoal_session_options){.threads = 2}, &s));
  shoal_tensor table;
  ok(shoal_session_variable(s, w, &table));
  const float *rows = table.data;
  for (int64_t first = 0; first + 20 <= ROWS; first += 20) {
    shoal_batch b = batch_of(d, first, 20);
    shoal_feed feeds[] = {{offsets, b.offsets}, {indices, b.indices}, {values, b.values}};
    shoal_tensor got[5];
    shoal_value *fetches[] = {y, twice, sum, grad.value, grad.indices};
    ok(shoal_session_run(s, feeds, 3, fetches, 5, got));
    int64_t entries = b.indices.shape.dim[0];
    assert_int_equal(got[1].shape.dim[0], entries);
    assert_int_equal(got[3].shape.dim[0], entries);
    assert_int_equal(got[4].shape.dim[0], entries);
    double sums[3] = {0};
    for (int64_t r = 0, e = 0; r < 20; r++) {
      double z[3] = {0};
      for (; e < d->offsets[first + r + 1] - d->offsets[first]; e++)
        for (int k = 0; k < 3; k++) {
          double x = (double)rows[3 * ((const int32_t *)b.indices.data)[e] + k];
          z[k] += x * (double)((const float *)b.values.data)[e];
          sums[k] += x;
        }
      for (int k = 0; k < 3; k++) assert_true(fabs(z[k] - (double)((const float *)got[0].data)[3 * r + k]) < 1e-4);
    }
    for (int k = 0; k < 3; k++) assert_true(fabs(sums[k] - (double)((const float *)got[2].data)[k]) < 1e-3);
    for (int64_t e = 0; e < entries; e++)
      assert_true(((const float *)got[1].data)[e] == 2 * ((const float *)b.values.data)[e]);
  }
  assert_int_equal(s->n_plans, 1);
  /* More entries than there is room for: one more plan, which then serves both. */
  shoal_batch b = batch_of(d, 0, 20);
  int64_t many = 3000, some[] = {0, many};
  float *ones = calloc((size_t)many, sizeof *ones);
  int32_t *zeros = calloc((size_t)many, sizeof *zeros);
  shoal_feed large[] = {{offsets, shoal_tensor_view(SHOAL_I64, SHOAL_SHAPE(2), some)},
                        {indices, shoal_tensor_view(SHOAL_I32, SHOAL_SHAPE(many), zeros)},
                        {values, shoal_tensor_view(SHOAL_F32, SHOAL_SHAPE(many), ones)}};
  shoal_tensor got;
  ok(shoal_session_run(s, large, 3, &y, 1, &got));
  some[1] = 2500;
  large[1].tensor.shape.dim[0] = large[2].tensor.shape.dim[0] = 2500;
  ok(shoal_session_run(s, large, 3, &y, 1, &got));
  assert_int_equal(s->n_plans, 2);
  large[1].tensor.shape.dim[0] = 2400;
  refused(shoal_session_run(s, large, 3, &y, 1, &got), SHOAL_ERR_INPUT, "2400 entries, but its offsets say 2500");
  shoal_feed without[] = {{indices, b.indices}, {values, b.values}};
  refused(shoal_session_run(s, without, 2, &twice, 1, &got), SHOAL_ERR_ARGUMENT, "offsets");
  free(ones);
  free(zeros);
  shoal_session_destroy(s);
  shoal_graph_destroy(g);
  free(d);
}

static void ragged_placeholders_need_offsets(void **state) {
  shoal_graph *g;
  ok(shoal_graph_create(&g));
  assert_null(shoal_placeholder_ragged(g, "x", SHOAL_F32, shoal_placeholder(g, "y", SHOAL_I32, SHOAL_SHAPE(3))));
  refused(shoal_graph_status(g), SHOAL_ERR_ARGUMENT, "i64 [rows + 1]");
  shoal_graph_destroy(g);
}

/* ---- no work grows with the feature space */

static double seconds_a_step(int64_t features, const char *optimizer, int64_t step) {
  data *d = make_data(ROWS_MAX, 10000, 9);
  shoal_model *m = make_model(features, &(design){.optimizer = optimizer});
  double best = 1e9;
  for (int i = 0; i < 5; i++) {
    double start = clock_seconds();
    train(m, d, 0, ROWS_MAX, step);
    double each = (clock_seconds() - start) / (double)((ROWS_MAX + step - 1) / step);
    if (i) best = MIN_OF(best, each); /* the first makes the plan */
  }
  shoal_model_destroy(m);
  free(d);
  return best;
}

static void steps_do_not_grow_with_features(void **state) {
  static const char *const optimizers[] = {"sgd", "adagrad"};
  for (int i = 0; i < 2; i++) {
    double small = seconds_a_step(10000, optimizers[i], 20), large = seconds_a_step(33762578, optimizers[i], 20);
    /* Touching 33.7 million floats takes more than 3 ms. */
    if (large > 5 * small + 1e-3)
      fail_msg("%s: %.3g s a step at 10,000 features, %.3g s at 33,762,578", optimizers[i], small, large);
  }
}

/* ---- bad rows */

static void bad_rows_are_refused(void **state) {
  enum { FEATURES = 60, ROWS = 10 };
  data *d = make_data(ROWS, FEATURES, 4);
  shoal_model *m = make_model(FEATURES, &(design){.optimizer = "sgd"});
  tower *t;
  ok(model_tower(m, SHOAL_F32, SHOAL_I32, false, &t));
  shoal_batch b = batch_of(d, 0, ROWS);
  shoal_feed feeds[TOWER_FEEDS_MAX + 1];
  float rate = 0.1f;
  double means[3];
  int n = tower_feed_sparse(t, &b, feeds);
  feeds[n++] = (shoal_feed){m->rate, shoal_tensor_view(SHOAL_F32, SHOAL_SCALAR, &rate)};
  shoal_value *fetches[] = {t->loss, t->accuracy, t->update};
  int32_t good = d->indices[8];
  d->indices[8] = FEATURES;
  refused(session_run_steps(m->session, feeds, n, fetches, 3, 2, means), SHOAL_ERR_INPUT, "there are 60 rows");
  d->indices[8] = -1;
  refused(session_run_steps(m->session, feeds, n, fetches, 3, 2, means), SHOAL_ERR_INPUT, "index -1 at position 8");
  d->indices[8] = good;
  int64_t offset = d->offsets[3];
  d->offsets[3] = d->offsets[4] + 1;
  refused(session_run_steps(m->session, feeds, n, fetches, 3, ROWS, means), SHOAL_ERR_INPUT, "offsets must ascend");
  d->offsets[3] = offset;
  const float *w = weights(m, "sparse_dense/kernel");
  for (int i = 0; i < FEATURES; i++) assert_true(w[i] == 0); /* nothing has changed */
  d->values[2] = NAN;
  refused(session_run_steps(m->session, feeds, n, fetches, 3, ROWS, means), SHOAL_ERR_NUMERIC, "not finite");
  for (int i = 0; i < FEATURES; i++) assert_true(w[i] == 0);
  shoal_model_destroy(m);
  free(d);
}

/* ---- several threads without locks learn about the same */

static void racing_threads_learn(void **state) {
  enum { FEATURES = 500 };
  data *d = make_data(ROWS_MAX, FEATURES, 11);
  double loss[2];
  for (int race = 0; race < 2; race++) {
    shoal_model *m = make_model(FEATURES, &(design){.optimizer = "adagrad", .race = race, .threads = race ? 3 : 1});
    for (int pass = 0; pass < 30; pass++) loss[race] = train(m, d, 0, ROWS_MAX, 4);
    shoal_model_destroy(m);
  }
  assert_true(loss[0] < 0.6); /* from 0.69 */
  if (fabs(loss[1] - loss[0]) > 0.05) fail_msg("loss %g alone, %g with three threads", loss[0], loss[1]);
  free(d);
}

/* ---- scores */

static void binary_metrics_is_right(void **state) {
  enum { N = 700 };
  float scores[N];
  int32_t labels[N];
  double loss = 0, above = 0, pairs = 0;
  int64_t hits = 0;
  numbers r = {.stream = random_stream_make(2, 2)};
  for (int i = 0; i < N; i++) {
    scores[i] = (float)((int)(next(&r) * 40) - 20) / 4; /* many are equal, some 0 and -0 */
    if (i % 50 == 0) scores[i] = -0.0f;
    labels[i] = next(&r) < 1 / (1 + exp(-(double)scores[i]));
    double p = 1 / (1 + exp(-(double)scores[i]));
    loss -= log(labels[i] ? p : 1 - p);
    hits += (scores[i] > 0) == labels[i];
  }
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++)
      if (labels[i] && !labels[j]) {
        pairs++;
        above += scores[i] > scores[j] ? 1 : scores[i] == scores[j] ? 0.5 : 0;
      }
  binary_metrics t = {0};
  double auc;
  ok(binary_metrics_add(&t, scores, labels, 300));
  ok(binary_metrics_add(&t, scores + 300, labels + 300, N - 300));
  ok(binary_metrics_auc(&t, &auc));
  assert_true(fabs(auc - above / pairs) < 1e-12);
  assert_true(fabs(t.loss - loss) < 1e-9 * loss);
  assert_int_equal(t.hits, hits);
  binary_metrics_fini(&t);
  ok(binary_metrics_add(&t, scores, labels, 0));
  ok(binary_metrics_auc(&t, &auc));
  assert_true(isnan(auc));
  binary_metrics_fini(&t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(steps_are_runs),
      cmocka_unit_test(packed_tables),
      cmocka_unit_test(step_is_one_operator),
      cmocka_unit_test(plans_take_any_number_of_entries),
      cmocka_unit_test(ragged_placeholders_need_offsets),
      cmocka_unit_test(steps_do_not_grow_with_features),
      cmocka_unit_test(bad_rows_are_refused),
      cmocka_unit_test(racing_threads_learn),
      cmocka_unit_test(binary_metrics_is_right),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
