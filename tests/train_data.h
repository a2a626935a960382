/* Small made-up data sets and models for the training tests. */
#ifndef SHOAL_TESTS_TRAIN_DATA_H
#define SHOAL_TESTS_TRAIN_DATA_H

#include "base/random.h"
#include "shoal/train.h"
#include "files.h"

/* Points of the unit square; the class says in which pair of opposite quarters they lie: no line parts them. */
static inline void data_make_xor(int64_t n, uint64_t seed, shoal_dataset *out) {
  random_stream s = random_stream_make(seed, 1);
  *out = (shoal_dataset){.classes = 2, .scale = 1};
  assert_ok(shoal_tensor_create(SHOAL_F32, SHOAL_SHAPE(n, 2), &out->features));
  assert_ok(shoal_tensor_create(SHOAL_I32, SHOAL_SHAPE(n), &out->labels));
  float *x = out->features.data; /* [n, 2] */
  int32_t *y = out->labels.data; /* [n] */
  for (int64_t i = 0; i < n; i++) {
    for (int k = 0; k < 2; k++) x[2 * i + k] = (float)(2 * random_uniform_at(&s, (uint64_t)(2 * i + k)) - 1);
    y[i] = (x[2 * i] > 0) != (x[2 * i + 1] > 0);
  }
}

/* Images of 8 x 8 u8 pixels with a bright spot in one of four corners, and noise. */
static inline void data_make_corners(int64_t n, uint64_t seed, shoal_dataset *out) {
  random_stream s = random_stream_make(seed, 2);
  *out = (shoal_dataset){.classes = 4, .scale = 1 / 255.0f};
  assert_ok(shoal_tensor_create(SHOAL_U8, SHOAL_SHAPE(n, 8, 8, 1), &out->features));
  assert_ok(shoal_tensor_create(SHOAL_U8, SHOAL_SHAPE(n), &out->labels));
  uint8_t *x = out->features.data, *y = out->labels.data; /* [n, 8, 8, 1], [n] */
  for (int64_t i = 0; i < n; i++) {
    uint8_t *image = x + 64 * i;
    for (int k = 0; k < 64; k++) image[k] = (uint8_t)(120 * random_uniform_at(&s, (uint64_t)(64 * i + k)));
    y[i] = (uint8_t)(i % 4);
    int row = y[i] / 2 * 4 + 1, column = y[i] % 2 * 4 + 1;
    for (int r = 0; r < 2; r++)
      for (int c = 0; c < 2; c++) image[8 * (row + r) + column + c] = 220;
  }
}

static inline void data_free(shoal_dataset *d) {
  shoal_tensor_fini(&d->features);
  shoal_tensor_fini(&d->labels);
}

/* 2 - 16 tanh - 2 */
static inline shoal_model *model_make_xor(const shoal_compile_options *options) {
  shoal_model *m;
  assert_ok(shoal_model_create(SHOAL_SHAPE(2), &m));
  shoal_model_dense(m, 16, "tanh");
  shoal_model_dense(m, 2, "softmax");
  assert_ok(shoal_model_compile(m, options));
  return m;
}

/* A little of every layer. */
static inline shoal_model *model_make_corners(const shoal_compile_options *options) {
  shoal_model *m;
  assert_ok(shoal_model_create(SHOAL_SHAPE(8, 8, 1), &m));
  shoal_model_initializer(m, "he_normal");
  shoal_model_conv2d(m, 4, 3, 1, SHOAL_SAME, NULL);
  shoal_model_batch_norm(m);
  shoal_model_activation(m, "relu");
  shoal_model_max_pool(m, 2, 2, SHOAL_VALID);
  shoal_model_conv2d(m, 6, 3, 1, SHOAL_VALID, "tanh");
  shoal_model_avg_pool(m, 2, 2, SHOAL_VALID);
  shoal_model_flatten(m);
  shoal_model_dropout(m, 0.2);
  shoal_model_dense(m, 4, "softmax");
  assert_ok(shoal_model_compile(m, options));
  return m;
}

/* All weights of the model, one after the other: the bits to compare. The caller frees it. */
static inline uint8_t *model_bits(shoal_model *m, size_t *n) {
  char dir[FILES_PATH], path[FILES_PATH + 32];
  files_make_folder(dir);
  snprintf(path, sizeof path, "%s/weights.safetensors", dir);
  assert_ok(shoal_model_save(m, path));
  uint8_t *bits = files_read(path, n);
  files_remove_folder(dir);
  return bits;
}

static inline void assert_same_bits(shoal_model *a, shoal_model *b) {
  size_t n, k;
  uint8_t *x = model_bits(a, &n), *y = model_bits(b, &k);
  assert_int_equal(n, k);
  assert_memory_equal(x, y, n);
  free(x);
  free(y);
}

#endif
