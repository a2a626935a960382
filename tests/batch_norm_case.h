/* A model with batch normalization, and what its moving averages must be, for the tests of all strategies. */
#ifndef SHOAL_TESTS_BATCH_NORM_CASE_H
#define SHOAL_TESTS_BATCH_NORM_CASE_H

#include "train_data.h"

#include <math.h>

enum { NORM_ROWS = 96, NORM_FEATURES = 5 };

/* Columns of different means and spreads; the class hangs on two of them. */
static inline void data_make_columns(shoal_dataset *out) {
  random_stream s = random_stream_make(3, 9);
  *out = (shoal_dataset){.classes = 2, .scale = 1};
  assert_ok(shoal_tensor_create(SHOAL_F32, SHOAL_SHAPE(NORM_ROWS, NORM_FEATURES), &out->features));
  assert_ok(shoal_tensor_create(SHOAL_I32, SHOAL_SHAPE(NORM_ROWS), &out->labels));
  float *x = out->features.data; /* [NORM_ROWS, NORM_FEATURES] */
  int32_t *y = out->labels.data; /* [NORM_ROWS] */
  for (int i = 0; i < NORM_ROWS; i++, x += NORM_FEATURES) {
    for (int k = 0; k < NORM_FEATURES; k++)
      x[k] = (float)(k * k) * (float)(random_uniform_at(&s, (uint64_t)(NORM_FEATURES * i + k)) + 1);
    y[i] = x[1] - 1.5f > (x[2] - 6) / 4;
  }
}

static inline shoal_model *model_make_normed(const char *optimizer, double rate) {
  shoal_model *m;
  assert_ok(shoal_model_create(SHOAL_SHAPE(NORM_FEATURES), &m));
  shoal_model_batch_norm(m);
  shoal_model_dense(m, 8, NULL);
  shoal_model_batch_norm(m);
  shoal_model_activation(m, "tanh");
  shoal_model_dense(m, 2, "softmax");
  assert_ok(shoal_model_compile(
      m,
      &(shoal_compile_options){.optimizer = {.name = optimizer}, .schedule = {.rate = rate}, .seed = 6, .threads = 1}));
  return m;
}

static inline const float *variable_of(shoal_model *m, const char *name) {
  shoal_tensor t;
  shoal_value *v = shoal_graph_find(shoal_model_graph(m), name);
  assert_non_null(v);
  assert_ok(shoal_session_variable(shoal_model_session(m), v, &t));
  return t.data;
}

/* After one step over all rows, in their order, normalized in `parts` equal parts: the averages of the first layer have
 * moved by a hundredth towards the mean over the parts of each one's own statistics. */
static inline void check_one_step(shoal_model *m, const shoal_dataset *d, int parts) {
  const float *mean = variable_of(m, "batch_norm/moving_mean"),
              *variance = variable_of(m, "batch_norm/moving_variance");
  const int rows = NORM_ROWS / parts;
  for (int k = 0; k < NORM_FEATURES; k++) {
    double means = 0, variances = 0;
    for (int p = 0; p < parts; p++) {
      const float *x = (const float *)d->features.data + p * rows * NORM_FEATURES + k;
      double sum = 0, squares = 0;
      for (int i = 0; i < rows; i++) sum += (double)x[i * NORM_FEATURES];
      for (int i = 0; i < rows; i++) squares += pow((double)x[i * NORM_FEATURES] - sum / rows, 2);
      means += sum / rows / parts;
      variances += squares / rows / parts;
    }
    if (fabs((double)mean[k] - 0.01 * means) > 1e-5 || fabs((double)variance[k] - 0.99 - 0.01 * variances) > 1e-5)
      fail_msg("column %d in %d parts: mean %g, not %g; variance %g, not %g", k, parts, (double)mean[k], 0.01 * means,
               (double)variance[k], 0.99 + 0.01 * variances);
  }
}

#endif
