/* Weights of rows: what each counts in the loss of training, sum(weight * loss) / rows. Rows that are there twice are rows of
 * weight 2, where as many others have weight 0. */
#include "train_data.h"

#include "shoal/cluster.h"

#include <math.h>
#include <string.h>

enum { ROWS = 48, INPUTS = 3, UNITS = 3 };

static bool is(const char *a, const char *b) { return !strcmp(a, b); }

/* Row i counts 0, 2 or 1. */
static float weight_of(int64_t i) { return i % 3 == 0 ? 0 : i % 3 == 1 ? 2 : 1; }

typedef struct {
  shoal_dataset weighted, doubled;
} pair;

static void copy_row(const shoal_tensor *from, int64_t i, shoal_tensor *to, int64_t at) {
  const size_t row = shoal_tensor_bytes(from) / (size_t)from->shape.dim[0];
  memcpy((char *)to->data + (size_t)at * row, (const char *)from->data + (size_t)i * row, row);
}

/* Rows for a loss, with weights, and the same with rows that are there as often as they count. */
static pair make_pair(const char *loss, bool classes, int units) {
  pair p = {.weighted = {.scale = 1}, .doubled = {.scale = 1}};
  random_stream s = random_stream_make(4, 9);
  shoal_dataset *all[] = {&p.weighted, &p.doubled};
  for (int k = 0; k < 2; k++) {
    assert_ok(shoal_tensor_create(SHOAL_F32, SHOAL_SHAPE(ROWS, INPUTS), &all[k]->features));
    assert_ok(shoal_tensor_create(classes ? SHOAL_I32 : SHOAL_F32,
                                  classes ? SHOAL_SHAPE(ROWS) : SHOAL_SHAPE(ROWS, units), &all[k]->labels));
  }
  assert_ok(shoal_tensor_create(SHOAL_F32, SHOAL_SHAPE(ROWS), &p.weighted.weights));
  float *x = p.weighted.features.data; /* [ROWS, INPUTS] */
  for (int i = 0; i < ROWS * INPUTS; i++) x[i] = (float)(2 * random_uniform_at(&s, (uint64_t)i) - 1);
  const bool share = is(loss, "categorical_cross_entropy") || is(loss, "kl_divergence");
  for (int i = 0; i < ROWS; i++) {
    ((float *)p.weighted.weights.data)[i] = weight_of(i);
    if (classes) ((int32_t *)p.weighted.labels.data)[i] = i / 3 % (units > 1 ? units : 2);
    float *y = (float *)p.weighted.labels.data + i * units, sum = 0; /* of targets */
    for (int k = 0; k < units && !classes; k++)
      sum += y[k] = (float)random_uniform_at(&s, (uint64_t)(1000 + i * units + k)) + 0.05f;
    for (int k = 0; k < units && share; k++) y[k] /= sum;
  }
  int64_t at = 0;
  for (int64_t i = 0; i < ROWS; i++)
    for (int times = 0; times < (int)weight_of(i); times++, at++) {
      copy_row(&p.weighted.features, i, &p.doubled.features, at);
      copy_row(&p.weighted.labels, i, &p.doubled.labels, at);
    }
  assert_int_equal(at, ROWS);
  p.weighted.classes = p.doubled.classes = classes ? (units > 1 ? units : 2) : 0;
  return p;
}

static void pair_free(pair *p) {
  shoal_tensor_fini(&p->weighted.weights);
  data_free(&p->weighted);
  data_free(&p->doubled);
}

static shoal_model *make_model(const char *loss, int units) {
  shoal_model *m;
  assert_ok(shoal_model_create(SHOAL_SHAPE(INPUTS), &m));
  shoal_model_dense(m, 6, "tanh");
  shoal_model_dense(m, units, is(loss, "poisson") ? "softplus" : NULL);
  assert_ok(shoal_model_compile(m, &(shoal_compile_options){.schedule = {.rate = 0.2}, .seed = 7, .loss = loss}));
  return m;
}

static void assert_close(shoal_model *a, shoal_model *b, float most, const char *what) {
  const char *name;
  shoal_tensor x, y;
  for (int i = 0; shoal_model_weight(a, i, &name, &x); i++) {
    assert_true(shoal_model_weight(b, i, &name, &y));
    for (int64_t k = 0; k < shoal_tensor_count(&x); k++)
      if (!(fabsf(((float *)x.data)[k] - ((float *)y.data)[k]) <= most))
        fail_msg("%s: %s[%lld] is %g, expected %g", what, name, (long long)k, (double)((float *)x.data)[k],
                 (double)((float *)y.data)[k]);
  }
}

static bool moved(shoal_model *m, shoal_model *from) {
  const char *name;
  shoal_tensor x, y;
  shoal_model_weight(m, 0, &name, &x);
  shoal_model_weight(from, 0, &name, &y);
  return memcmp(x.data, y.data, shoal_tensor_bytes(&x)) != 0;
}

/* All rows in each step, so that it does not matter which of the doubled ones stand together. */
static void every_loss(void **state) {
  for (const char *const *loss = shoal_loss_names(); *loss; loss++) {
    const bool one = is(*loss, "sigmoid_cross_entropy") || is(*loss, "hinge");
    const bool classes = one || is(*loss, "softmax_cross_entropy") || is(*loss, "categorical_hinge");
    const int units = one ? 1 : UNITS;
    pair p = make_pair(*loss, classes, units);
    const shoal_fit_options o = {.epochs = 5, .batch_size = ROWS};
    shoal_model *weighted = make_model(*loss, units), *doubled = make_model(*loss, units),
                *plain = make_model(*loss, units);
    assert_ok(shoal_model_fit(weighted, &p.weighted, &o, NULL));
    assert_ok(shoal_model_fit(doubled, &p.doubled, &o, NULL));
    assert_close(weighted, doubled, 1e-5f, *loss);
    shoal_dataset without = p.weighted;
    without.weights = (shoal_tensor){0};
    assert_ok(shoal_model_fit(plain, &without, &o, NULL));
    assert_true(moved(plain, weighted)); /* weights do something */
    shoal_model_destroy(weighted);
    shoal_model_destroy(doubled);
    shoal_model_destroy(plain);
    pair_free(&p);
  }
}

static void every_strategy(void **state) {
  pair p = make_pair("softmax_cross_entropy", true, UNITS);
  shoal_strategy *ways[6];
  assert_ok(shoal_strategy_create_mirrored(2, NULL, &ways[0]));
  assert_ok(shoal_strategy_create_mirrored(3, &(shoal_replica_options){.deterministic = true}, &ways[1]));
  assert_ok(shoal_strategy_create_local_ps(2, 1, NULL, &ways[2]));
  assert_ok(shoal_strategy_create_local_ps(2, 2, &(shoal_ps_options){.deterministic = true}, &ways[3]));
  assert_ok(shoal_strategy_create_local_ps(1, 1, &(shoal_ps_options){.mode = "async"}, &ways[4]));
  ways[5] = NULL; /* with accumulated gradients */
  const int batches[] = {6, 4, 6, 6, 12, 4};
  shoal_model *alone = make_model("softmax_cross_entropy", UNITS);
  assert_ok(shoal_model_fit(alone, &p.weighted, &(shoal_fit_options){.epochs = 4, .batch_size = 12}, NULL));
  for (int i = 0; i < 6; i++) {
    shoal_model *m = make_model("softmax_cross_entropy", UNITS);
    char name[16];
    snprintf(name, sizeof name, "way %d", i);
    assert_ok(shoal_model_fit(
        m, &p.weighted,
        &(shoal_fit_options){.epochs = 4, .batch_size = batches[i], .strategy = ways[i], .accumulate = ways[i] ? 1 : 3},
        NULL));
    assert_close(m, alone, 1e-4f, name);
    shoal_strategy_destroy(ways[i]);
    shoal_model_destroy(m);
  }
  shoal_model_destroy(alone);
  pair_free(&p);
}

/* Sparse rows, and dense ones, as a pipeline hands them on. */
static void streams(void **state) {
  for (int sparse = 0; sparse < 2; sparse++) {
    shoal_model *models[2];
    for (int doubled = 0; doubled < 2; doubled++) {
      float x[ROWS * 2], w[ROWS];
      int32_t index[ROWS * 2], label[ROWS];
      int64_t offsets[ROWS + 1] = {0};
      int n = 0;
      for (int i = 0; i < ROWS; i++)
        for (int times = 0; times < (doubled ? (int)weight_of(i) : 1); times++, n++) {
          for (int k = 0; k < 2; k++) {
            x[2 * n + k] = (float)((i * 7 + k * 3) % 5) - 2;
            index[2 * n + k] = (i + 3 * k) % 4 + 4 * k;
          }
          offsets[n + 1] = 2 * (n + 1);
          label[n] = i / 3 % 2;
          w[n] = weight_of(i);
        }
      shoal_batch rows = {.count = n, .labels = shoal_tensor_view(SHOAL_I32, SHOAL_SHAPE(n), label), .scale = 1};
      if (!doubled) rows.weights = shoal_tensor_view(SHOAL_F32, SHOAL_SHAPE(n), w);
      if (sparse) {
        rows.offsets = shoal_tensor_view(SHOAL_I64, SHOAL_SHAPE(n + 1), offsets);
        rows.indices = shoal_tensor_view(SHOAL_I32, SHOAL_SHAPE(2 * n), index);
        rows.values = shoal_tensor_view(SHOAL_F32, SHOAL_SHAPE(2 * n), x);
        assert_ok(shoal_model_create_sparse(8, &models[doubled]));
        shoal_model_sparse_dense(models[doubled], 1, true, "sigmoid");
      } else {
        rows.features = shoal_tensor_view(SHOAL_F32, SHOAL_SHAPE(n, 2), x);
        assert_ok(shoal_model_create(SHOAL_SHAPE(2), &models[doubled]));
        shoal_model_dense(models[doubled], 1, "sigmoid");
      }
      assert_ok(shoal_model_compile(models[doubled], &(shoal_compile_options){.schedule = {.rate = 0.1}, .seed = 2}));
      const shoal_row_source source = {.rows = &rows};
      const shoal_pipeline_options stream = {.source = &source, .features = sparse ? 8 : 0};
      assert_ok(shoal_model_fit(models[doubled], NULL,
                                &(shoal_fit_options){.epochs = 5, .batch_size = ROWS, .stream = &stream}, NULL));
    }
    assert_close(models[0], models[1], 1e-5f, sparse ? "sparse" : "dense");
    shoal_model_destroy(models[0]);
    shoal_model_destroy(models[1]);
  }
}

static void refused(void **state) {
  pair p = make_pair("mse", false, UNITS);
  shoal_model *m = make_model("mse", UNITS);
  float *w = p.weighted.weights.data;
  const shoal_fit_options o = {.epochs = 1};
  w[5] = -1;
  assert_fails(shoal_model_fit(m, &p.weighted, &o, NULL), SHOAL_ERR_INPUT, "row 5 has the weight -1");
  w[5] = NAN;
  assert_fails(shoal_model_fit(m, &p.weighted, &o, NULL), SHOAL_ERR_INPUT, "row 5 has the weight");
  w[5] = 1;
  p.weighted.weights.shape = SHOAL_SHAPE(ROWS - 1);
  assert_fails(shoal_model_fit(m, &p.weighted, &o, NULL), SHOAL_ERR_ARGUMENT, "one for each row");
  shoal_model_destroy(m);
  pair_free(&p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_loss),
      cmocka_unit_test(every_strategy),
      cmocka_unit_test(streams),
      cmocka_unit_test(refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
