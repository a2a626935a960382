/* Losses and metrics against straightforward formulas in double; what rows count in training. */
#include "train_data.h"

#include "base/random.h"

#include <math.h>

enum { ROWS = 90, FEATURES = 3, UNITS = 3 };

/* Inputs with a class or targets each, and a linear model of them, whose outputs are known. */
typedef struct {
  shoal_dataset data;
  double z[ROWS][UNITS]; /* what the layer gives */
  double y[ROWS][UNITS]; /* targets */
  int label[ROWS];
  int units;
} example;

static void example_make(int units, bool classes, bool probabilities, example *e) {
  random_stream s = random_stream_make(31, 4);
  uint64_t at = 0;
  *e = (example){.units = units, .data = {.scale = 1}};
  shoal_dataset *d = &e->data;
  assert_ok(shoal_tensor_create(SHOAL_F32, SHOAL_SHAPE(ROWS, FEATURES), &d->features));
  if (classes)
    assert_ok(shoal_tensor_create(SHOAL_I32, SHOAL_SHAPE(ROWS), &d->labels));
  else
    assert_ok(shoal_tensor_create(SHOAL_F32, SHOAL_SHAPE(ROWS, units), &d->labels));
  d->classes = classes ? (units == 1 ? 2 : units) : 0;
  for (int i = 0; i < ROWS; i++) {
    for (int k = 0; k < FEATURES; k++)
      ((float *)d->features.data)[FEATURES * i + k] = (float)(4 * random_uniform_at(&s, at++) - 2);
    e->label[i] = (int)(random_uniform_at(&s, at++) * (units == 1 ? 2 : units)) % 3;
    double sum = 0;
    for (int k = 0; k < units; k++) sum += e->y[i][k] = 0.1 + random_uniform_at(&s, at++);
    for (int k = 0; k < units; k++) {
      if (probabilities) e->y[i][k] /= sum;
      if (classes)
        ((int32_t *)d->labels.data)[i] = e->label[i];
      else
        e->y[i][k] = (double)(((float *)d->labels.data)[units * i + k] = (float)e->y[i][k]);
    }
  }
}

static shoal_model *example_model(example *e, const shoal_compile_options *options, const char *activation) {
  shoal_model *m;
  assert_ok(shoal_model_create(SHOAL_SHAPE(FEATURES), &m));
  shoal_model_dense(m, e->units, activation);
  assert_ok(shoal_model_compile(m, options));
  shoal_tensor kernel;
  shoal_value *v = shoal_graph_find(shoal_model_graph(m), "dense/kernel");
  assert_ok(shoal_session_variable(shoal_model_session(m), v, &kernel));
  const float *x = e->data.features.data; /* [ROWS, FEATURES] */
  for (int i = 0; i < ROWS; i++)
    for (int u = 0; u < e->units; u++) {
      e->z[i][u] = 0;
      for (int k = 0; k < FEATURES; k++)
        e->z[i][u] += (double)x[FEATURES * i + k] * shoal_tensor_get(&kernel, k * e->units + u);
    }
  return m;
}

/* ---- formulas: of a row with outputs z, targets y (of classes: smoothed already) */

static double log_softmax(const double *z, int n, int k) {
  double sum = 0;
  for (int i = 0; i < n; i++) sum += exp(z[i]);
  return z[k] - log(sum);
}

static double cross_entropy(const double *z, const double *y, int n) {
  double loss = 0;
  for (int k = 0; k < n; k++) loss -= y[k] * log_softmax(z, n, k);
  return loss;
}

static double yes_no(const double *z, const double *y, int n) {
  double loss = 0;
  for (int k = 0; k < n; k++) {
    const double p = 1 / (1 + exp(-z[k]));
    loss -= (y[k] * log(p) + (1 - y[k]) * log(1 - p)) / n;
  }
  return loss;
}

static double hinge(const double *z, const double *y, int n) { return fmax(0, 1 - (2 * y[0] - 1) * z[0]); }

static double categorical_hinge(const double *z, const double *y, int n) {
  double own = 0, best = -1e30;
  for (int k = 0; k < n; k++) {
    own += y[k] * z[k];
    best = fmax(best, (1 - y[k]) * z[k]);
  }
  return fmax(0, best - own + 1);
}

static double mse(const double *z, const double *y, int n) {
  double loss = 0;
  for (int k = 0; k < n; k++) loss += (z[k] - y[k]) * (z[k] - y[k]) / n;
  return loss;
}

static double mae(const double *z, const double *y, int n) {
  double loss = 0;
  for (int k = 0; k < n; k++) loss += fabs(z[k] - y[k]) / n;
  return loss;
}

static double huber(const double *z, const double *y, int n) {
  double loss = 0;
  for (int k = 0; k < n; k++) {
    const double e = fabs(z[k] - y[k]);
    loss += (e <= 1 ? e * e / 2 : e - 0.5) / n;
  }
  return loss;
}

static double poisson(const double *z, const double *y, int n) {
  double loss = 0;
  for (int k = 0; k < n; k++) {
    const double mean = exp(z[k]);
    loss += (mean - y[k] * log(mean)) / n;
  }
  return loss;
}

static double cosine(const double *z, const double *y, int n) {
  double zz = 0, yy = 0, zy = 0;
  for (int k = 0; k < n; k++) {
    zz += z[k] * z[k];
    yy += y[k] * y[k];
    zy += z[k] * y[k];
  }
  return -zy / sqrt(zz * yy);
}

static double kl(const double *z, const double *y, int n) {
  double loss = 0;
  for (int k = 0; k < n; k++) loss += y[k] * (log(y[k]) - log_softmax(z, n, k));
  return loss;
}

static const struct {
  const char *name;
  double (*row)(const double *z, const double *y, int n);
  int units;
  bool classes, probabilities, smoothed;
  const char *activation;
} losses[] = {
    {"softmax_cross_entropy", cross_entropy, UNITS, .classes = true, .smoothed = true, .activation = "softmax"},
    {"sigmoid_cross_entropy", yes_no, 1, .classes = true, .smoothed = true, .activation = "sigmoid"},
    {"hinge", hinge, 1, .classes = true},
    {"categorical_hinge", categorical_hinge, UNITS, .classes = true},
    {.name = "mse", .row = mse, .units = UNITS},
    {.name = "mae", .row = mae, .units = UNITS},
    {.name = "huber", .row = huber, .units = UNITS},
    {"poisson", poisson, UNITS, .activation = "exponential"},
    {.name = "cosine_similarity", .row = cosine, .units = UNITS},
    {"categorical_cross_entropy", cross_entropy, UNITS, .probabilities = true, .smoothed = true,
     .activation = "softmax"},
    {"binary_cross_entropy", yes_no, UNITS, .smoothed = true, .activation = "sigmoid"},
    {"kl_divergence", kl, UNITS, .probabilities = true, .activation = "softmax"},
};

/* Targets of a row as the formulas take them. */
static void targets_of(const example *e, int i, bool classes, double smoothing, double *out) {
  const int n = e->units;
  for (int k = 0; k < n; k++) {
    out[k] = !classes ? e->y[i][k] : n == 1 ? e->label[i] : e->label[i] == k;
    out[k] = out[k] * (1 - smoothing);
  }
}

static void check_loss(size_t which, double smoothing) {
  example e;
  const bool alone = losses[which].row == yes_no; /* each unit by itself */
  example_make(losses[which].units, losses[which].classes, losses[which].probabilities, &e);
  const shoal_compile_options o = {.loss = losses[which].name, .label_smoothing = smoothing, .seed = 6, .threads = 1};
  shoal_model *m = example_model(&e, &o, losses[which].activation);
  shoal_evaluation got;
  double expected = 0;
  for (int i = 0; i < ROWS; i++) {
    double y[UNITS];
    targets_of(&e, i, losses[which].classes, smoothing, y);
    for (int k = 0; k < e.units; k++) y[k] += smoothing / (alone ? 2 : e.units);
    expected += losses[which].row(e.z[i], y, e.units) / ROWS;
  }
  assert_ok(shoal_model_evaluate(m, &e.data, &got));
  if (!(fabs(got.loss - expected) < 1e-5 * (1 + fabs(expected))))
    fail_msg("%s, smoothing %g: %.9g instead of %.9g", losses[which].name, smoothing, got.loss, expected);
  shoal_model_destroy(m);
  data_free(&e.data);
}

static void losses_by_the_book(void **state) {
  size_t n = 0;
  for (const char *const *name = shoal_loss_names(); *name; name++, n++) {
    size_t i = 0;
    while (i < sizeof losses / sizeof *losses && strcmp(losses[i].name, *name)) i++;
    if (i == sizeof losses / sizeof *losses) fail_msg("%s has no formula here", *name);
    check_loss(i, 0);
    if (losses[i].smoothed) check_loss(i, 0.3);
  }
}

/* ---- metrics of classes */

static void check_metrics(int units) {
  example e;
  example_make(units, true, false, &e);
  shoal_model *m =
      example_model(&e, &(shoal_compile_options){.seed = 5, .threads = 1}, units == 1 ? "sigmoid" : "softmax");
  const int classes = units == 1 ? 2 : units;
  int labelled[UNITS] = {0}, taken[UNITS] = {0}, right[UNITS] = {0};
  for (int i = 0; i < ROWS; i++) {
    int best = units == 1 ? e.z[i][0] > 0 : 0;
    for (int k = 1; k < units; k++)
      if (e.z[i][k] > e.z[i][best]) best = k;
    labelled[e.label[i]]++;
    taken[best]++;
    right[best] += best == e.label[i];
  }
  double precision = 0, recall = 0, f1 = 0, n = 0;
  for (int k = classes == 2 ? 1 : 0; k < classes; k++, n++) {
    const double p = (double)right[k] / taken[k], r = (double)right[k] / labelled[k];
    precision += p;
    recall += r;
    f1 += 2 * p * r / (p + r);
  }
  double pairs = 0, area = 0; /* the share of pairs, one of each class, that stand the right way round */
  for (int i = 0; i < ROWS; i++)
    for (int k = 0; k < ROWS; k++) {
      if (e.label[i] != 1 || e.label[k] != 0) continue;
      const double a = e.z[i][units - 1] - (units == 2 ? e.z[i][0] : 0),
                   b = e.z[k][units - 1] - (units == 2 ? e.z[k][0] : 0);
      pairs++;
      area += a > b;
    }
  shoal_evaluation got;
  assert_ok(shoal_model_evaluate(m, &e.data, &got));
  assert_true(fabs(got.precision - precision / n) < 1e-9);
  assert_true(fabs(got.recall - recall / n) < 1e-9);
  assert_true(fabs(got.f1 - f1 / n) < 1e-9);
  if (classes == 2)
    assert_true(fabs(got.auc - area / pairs) < 1e-9);
  else
    assert_true(isnan(got.auc));
  shoal_model_destroy(m);
  data_free(&e.data);
}

static void metrics_by_the_book(void **state) {
  for (int units = 1; units <= 3; units++) check_metrics(units);
}

/* ---- weights of classes */

static void bias_after_a_step(const example *e, const shoal_compile_options *options, double *out) {
  shoal_model *m;
  assert_ok(shoal_model_create(SHOAL_SHAPE(FEATURES), &m));
  shoal_model_initializer(m, "zeros");
  shoal_model_dense(m, e->units, "softmax");
  assert_ok(shoal_model_compile(m, options));
  assert_ok(shoal_model_fit(m, &e->data, &(shoal_fit_options){.steps = 1, .batch_size = ROWS}, NULL));
  shoal_tensor bias;
  shoal_value *v = shoal_graph_find(shoal_model_graph(m), "dense/bias");
  assert_ok(shoal_session_variable(shoal_model_session(m), v, &bias));
  for (int k = 0; k < e->units; k++) out[k] = shoal_tensor_get(&bias, k);
  shoal_model_destroy(m);
}

/* All outputs are 0 at first, so every class has the probability 1 / UNITS. */
static void classes_are_weighed(void **state) {
  example e;
  example_make(UNITS, true, false, &e);
  const double weights[UNITS] = {1, 5, 0.5};
  shoal_compile_options o = {.schedule = {.rate = 1}, .class_weights = weights, .class_weight_count = UNITS};
  double got[UNITS], expected[UNITS] = {0};
  bias_after_a_step(&e, &o, got);
  for (int i = 0; i < ROWS; i++)
    for (int k = 0; k < UNITS; k++) expected[k] -= weights[e.label[i]] * (1.0 / UNITS - (e.label[i] == k)) / ROWS;
  for (int k = 0; k < UNITS; k++) assert_true(fabs(got[k] - expected[k]) < 1e-6);
  data_free(&e.data);
}

static void refuses(const shoal_compile_options *o, const char *words) {
  shoal_model *m;
  assert_ok(shoal_model_create(SHOAL_SHAPE(FEATURES), &m));
  shoal_model_dense(m, UNITS, "softmax");
  shoal_status status = shoal_model_compile(m, o);
  if (!status || !strstr(shoal_status_message(status), words))
    fail_msg("'%s' is not in: %s", words, status ? shoal_status_message(status) : "no error");
  shoal_status_free(status);
  shoal_model_destroy(m);
}

static void nonsense_is_refused(void **state) {
  const double weights[UNITS] = {1, 1, -1};
  refuses(&(shoal_compile_options){.label_smoothing = 1.5}, "label_smoothing is 1.5");
  refuses(&(shoal_compile_options){.label_smoothing = 0.1, .loss = "mse"}, "not for the loss mse");
  refuses(&(shoal_compile_options){.class_weights = weights, .class_weight_count = 2}, "2 class_weights for 3 classes");
  refuses(&(shoal_compile_options){.class_weights = weights, .class_weight_count = 3}, "class_weights[2] is -1");
  refuses(&(shoal_compile_options){.class_weights = weights, .class_weight_count = 3, .loss = "mse"}, "has no classes");
  refuses(&(shoal_compile_options){.loss = "hinge"}, "for two classes and one unit");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(losses_by_the_book),
      cmocka_unit_test(metrics_by_the_book),
      cmocka_unit_test(classes_are_weighed),
      cmocka_unit_test(nonsense_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
