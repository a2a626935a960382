/* Layers of images and sequences: what they make of shapes, and that models of them learn. */
#include "train_data.h"

#include <math.h>

static const shoal_compile_options options = {
    .optimizer = {.name = "adam"}, .schedule = {.rate = 0.01}, .seed = 5, .threads = 1};

static shoal_model *begin(shoal_shape input) {
  shoal_model *m;
  assert_ok(shoal_model_create(input, &m));
  return m;
}

static void expect_lines(shoal_model *m, const char *const *lines) {
  char *text = shoal_model_describe(m);
  for (; *lines; lines++)
    if (!strstr(text, *lines)) fail_msg("\"%s\" is not in\n%s", *lines, text);
  free(text);
}

/* Trains, and expects almost all of the rows to be told apart. */
static void expect_learned(shoal_model *m, const shoal_dataset *train, const shoal_dataset *test, int epochs) {
  shoal_fit_result r;
  shoal_evaluation e;
  assert_ok(shoal_model_fit(m, train, &(shoal_fit_options){.epochs = epochs, .batch_size = 32}, &r));
  assert_ok(shoal_model_evaluate(m, test, &e));
  if (!(e.accuracy > 0.95)) fail_msg("accuracy %g, loss %g", e.accuracy, e.loss);
  shoal_model_destroy(m);
}

/* ---- images */

static void separable_convolutions_learn(void **state) {
  shoal_dataset train, test;
  data_make_corners(256, 1, &train);
  data_make_corners(200, 2, &test);
  shoal_model *m = begin(SHOAL_SHAPE(8, 8, 1));
  shoal_model_conv(m, 6, &(shoal_window){.size = {3, 3}, .dilation = {2, 1}, .padding = SHOAL_SAME}, "silu");
  shoal_model_group_norm(m, 3, 0);
  shoal_model_depthwise_conv(m, 2, &(shoal_window){.size = {3, 2}, .stride = {2, 1}, .padding = SHOAL_SAME}, "gelu");
  shoal_model_separable_conv(m, 8, &(shoal_window){.size = {2, 2}}, "relu");
  shoal_model_pool(m, SHOAL_POOL_AVG, &(shoal_window){.size = {1, 2}, .stride = {1, 2}});
  shoal_model_flatten(m);
  shoal_model_dense(m, 4, "softmax");
  assert_ok(shoal_model_compile(m, &options));
  expect_lines(m, (const char *const[]){"conv (silu)", "[8,8,6]", "[4,8,12]", "[3,7,8]", "[3,3,8]", NULL});
  expect_learned(m, &train, &test, 30);
  data_free(&train);
  data_free(&test);
}

static void image_layers_change_sizes(void **state) {
  shoal_model *m = begin(SHOAL_SHAPE(8, 6, 2));
  shoal_model_pad(m, &(shoal_window){.before = {1, 0}, .after = {0, 2}});
  shoal_model_crop(m, &(shoal_window){.before = {2, 2}, .after = {1, 0}});
  shoal_model_upsample(m, 2, 1, true);
  shoal_model_transposed_conv(m, 3, &(shoal_window){.size = {2, 3}, .stride = {1, 2}, .padding = SHOAL_SAME}, NULL);
  shoal_model_global_pool(m, SHOAL_POOL_MAX);
  shoal_model_dense(m, 2, "softmax");
  assert_ok(shoal_model_compile(m, &options));
  expect_lines(m, (const char *const[]){"[9,8,2]", "[6,6,2]", "[12,6,2]", "[12,12,3]", NULL});
  shoal_model_destroy(m);
}

/* ---- sequences */

enum { STEPS = 6, WORDS = 5 };

/* Sequences of words; the class says whether word 0 comes before the last word that is 1. Words are numbers or, for
 * layers that take features, one of them is 1. */
static void make_words(int64_t n, uint64_t seed, bool features, shoal_dataset *out) {
  random_stream s = random_stream_make(seed, 3);
  *out = (shoal_dataset){.classes = 2, .scale = 1};
  shoal_shape shape = features ? SHOAL_SHAPE(n, STEPS, WORDS) : SHOAL_SHAPE(n, STEPS);
  assert_ok(shoal_tensor_create(SHOAL_F32, shape, &out->features));
  assert_ok(shoal_tensor_create(SHOAL_I32, SHOAL_SHAPE(n), &out->labels));
  float *x = out->features.data;
  int32_t *y = out->labels.data;
  for (int64_t i = 0; i < n; i++) {
    bool zero = false, answer = false;
    for (int t = 0; t < STEPS; t++) {
      int word = (int)random_below(&s, (uint64_t)(i * STEPS + t), WORDS);
      zero |= word == 0;
      if (word == 1) answer = zero;
      if (features)
        x[(i * STEPS + t) * WORDS + word] = 1;
      else
        x[i * STEPS + t] = (float)word;
    }
    y[i] = answer;
  }
}

static void recurrent_layers_learn(void **state) {
  shoal_dataset train, test;
  make_words(512, 1, true, &train);
  make_words(300, 2, true, &test);
  for (int kind = 0; kind < 3; kind++) {
    shoal_model *m = begin(SHOAL_SHAPE(STEPS, WORDS));
    if (kind == 0) {
      shoal_model_lstm(m, 12, true, false);
      shoal_model_lstm(m, 8, false, false);
    } else if (kind == 1) {
      shoal_model_gru(m, 16, false, false);
    } else {
      shoal_model_rnn(m, 12, true, true);
      shoal_model_rms_norm(m, 0);
      shoal_model_rnn(m, 12, false, false);
    }
    shoal_model_dense(m, 2, "softmax");
    assert_ok(shoal_model_compile(m, &options));
    if (kind == 0) expect_lines(m, (const char *const[]){"[6,12]", "[8]", NULL});
    expect_learned(m, &train, &test, 30);
  }
  data_free(&train);
  data_free(&test);
}

static void attention_learns(void **state) {
  shoal_dataset train, test;
  make_words(768, 1, false, &train);
  make_words(300, 2, false, &test);
  shoal_model *m = begin(SHOAL_SHAPE(STEPS));
  shoal_model_embedding(m, WORDS, 8);
  shoal_model_conv(m, 16, &(shoal_window){.size = {3}, .padding = SHOAL_SAME}, "relu");
  shoal_model_attention(m, 2, 6, true);
  shoal_model_layer_norm(m, 0);
  shoal_model_dense(m, 16, "gelu"); /* on each step */
  shoal_model_flatten(m);
  shoal_model_dense(m, 2, "softmax");
  assert_ok(shoal_model_compile(m, &options));
  expect_lines(m, (const char *const[]){"embedding", "[6,8]", "[6,16]", "attention", NULL});
  expect_learned(m, &train, &test, 30);
  data_free(&train);
  data_free(&test);
}

/* ---- any wiring */

/* Two inputs, one layer on both, and a sum of parts: class 1 where the first one's sum is the larger. */
static void layers_are_applied_to_each_other(void **state) {
  enum { ROWS = 400, WIDTH = 3 };
  random_stream s = random_stream_make(3, 3);
  shoal_tensor parts[2];
  shoal_dataset d = {.classes = 2, .scale = 1};
  for (int i = 0; i < 2; i++) assert_ok(shoal_tensor_create(SHOAL_F32, SHOAL_SHAPE(ROWS, WIDTH), &parts[i]));
  assert_ok(shoal_tensor_create(SHOAL_I32, SHOAL_SHAPE(ROWS), &d.labels));
  for (int64_t r = 0; r < ROWS; r++) {
    float sums[2] = {0};
    for (int i = 0; i < 2; i++)
      for (int k = 0; k < WIDTH; k++)
        sums[i] += ((float *)parts[i].data)[r * WIDTH + k] =
            (float)random_below(&s, (uint64_t)((r * 2 + i) * WIDTH + k), 1000) / 500 - 1;
    ((int32_t *)d.labels.data)[r] = sums[0] > sums[1];
  }
  assert_ok(shoal_inputs_pack(parts, 2, &d.features));
  shoal_model *m = begin(SHOAL_SHAPE(WIDTH));
  shoal_output *left = shoal_model_input_at(m, 0), *right = shoal_model_add_input(m, "right", SHOAL_SHAPE(WIDTH));
  shoal_output *one = shoal_layer(m, "dense", "{\"name\": \"both\", \"units\": 4}", &left, 1);
  shoal_output *other = shoal_layer_again(one, &right, 1);
  shoal_output *difference = shoal_layer(m, "subtract", NULL, (shoal_output *[]){one, other}, 2);
  shoal_output *end = shoal_layer_dense(difference, 2, "softmax");
  shoal_layer_dense(difference, 5, NULL); /* of no use to anybody */
  shoal_model_set_output(m, end);
  assert_ok(shoal_model_compile(m, &options));
  expect_lines(m, (const char *const[]){"both", "subtract", "[4]", NULL});
  expect_learned(m, &d, &d, 30);
  for (int i = 0; i < 2; i++) shoal_tensor_fini(&parts[i]);
  data_free(&d);
}

/* ---- what does not fit */

/* Layers that are there while training alone, and those of whole numbers. */
static void noise_and_numbers(void **state) {
  shoal_dataset train, test;
  data_make_corners(256, 1, &train);
  data_make_corners(200, 2, &test);
  shoal_model *m = begin(SHOAL_SHAPE(8, 8, 1));
  shoal_output *x = shoal_model_input_at(m, 0);
  x = shoal_layer(m, "gaussian_noise", "{\"stddev\": 0.02}", &x, 1);
  x = shoal_layer(m, "flatten", NULL, &x, 1);
  x = shoal_layer(m, "dense", "{\"units\": 24, \"activation\": \"selu\"}", &x, 1);
  x = shoal_layer(m, "alpha_dropout", "{\"rate\": 0.1}", &x, 1);
  x = shoal_layer(m, "gaussian_dropout", "{\"rate\": 0.1}", &x, 1);
  shoal_layer(m, "dense", "{\"units\": 4, \"activation\": \"softmax\"}", &x, 1);
  assert_ok(shoal_model_compile(m, &options));
  expect_lines(m, (const char *const[]){"flops/example", "gaussian_noise", NULL});
  shoal_tensor first, second;
  assert_ok(shoal_tensor_create(SHOAL_F32, SHOAL_SHAPE(200, 4), &first));
  assert_ok(shoal_tensor_create(SHOAL_F32, SHOAL_SHAPE(200, 4), &second));
  assert_ok(shoal_model_predict(m, &test.features, &first));
  assert_ok(shoal_model_predict(m, &test.features, &second));
  assert_memory_equal(first.data, second.data, shoal_tensor_bytes(&first));
  expect_learned(m, &train, &test, 30);
  shoal_tensor_fini(&first);
  shoal_tensor_fini(&second);
  data_free(&train);
  data_free(&test);

  /* numbers 10, 20, 30 as 1, 2, 3; others as 0; then as vectors: 0 where the first is 0, 7 elsewhere */
  m = begin(SHOAL_SHAPE(4));
  x = shoal_model_input_at(m, 0);
  shoal_output *found = shoal_layer(m, "integer_lookup", "{\"vocabulary\": [10, 20, 30]}", &x, 1);
  shoal_output *hot = shoal_layer(m, "one_hot", "{\"num_classes\": 4}", &found, 1);
  shoal_output *sevens = shoal_layer(m, "rescaling", "{\"scale\": 0, \"offset\": 7}", &hot, 1);
  shoal_output *chosen = shoal_layer(m, "where", NULL, (shoal_output *[]){hot, sevens, hot}, 3);
  x = shoal_layer(m, "flatten", NULL, &chosen, 1);
  shoal_layer(m, "dense", "{\"units\": 1, \"kernel_initializer\": \"ones\"}", &x, 1);
  assert_ok(shoal_model_compile(m, &(shoal_compile_options){.loss = "mse", .threads = 1}));
  float row[] = {20, 5, 30, 10}, sum;
  shoal_tensor in = shoal_tensor_view(SHOAL_F32, SHOAL_SHAPE(1, 4), row),
               out = shoal_tensor_view(SHOAL_F32, SHOAL_SHAPE(1, 1), &sum);
  assert_ok(shoal_model_predict(m, &in, &out));
  assert_true(fabsf(sum - 28) < 1e-4f); /* one of each four is 7 */
  shoal_model_destroy(m);
}

static void expect_refused(shoal_model *m, const char *words) {
  shoal_status status = shoal_model_compile(m, &options);
  assert_non_null(status);
  if (!strstr(shoal_status_message(status), words))
    fail_msg("\"%s\" does not say \"%s\"", shoal_status_message(status), words);
  shoal_status_free(status);
  shoal_model_destroy(m);
}

static void refuses_what_does_not_fit(void **state) {
  shoal_model *m = begin(SHOAL_SHAPE(4));
  shoal_model_lstm(m, 3, false, false);
  expect_refused(m, "expected [batch, steps, features]");
  m = begin(SHOAL_SHAPE(8, 8, 3));
  shoal_model_conv(m, 4, &(shoal_window){.size = {3, 3}, .groups = 2}, NULL);
  expect_refused(m, "conv");
  m = begin(SHOAL_SHAPE(8, 8, 3));
  shoal_model_flatten(m);
  shoal_model_conv2d(m, 4, 3, 1, SHOAL_SAME, NULL);
  expect_refused(m, "layer conv2d, applied to flatten [192]: its input is [?,192]");
  m = begin(SHOAL_SHAPE(6, 2));
  shoal_model_gru(m, 0, false, false);
  expect_refused(m, "units is 0; expected at least 1");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(separable_convolutions_learn),
      cmocka_unit_test(image_layers_change_sizes),
      cmocka_unit_test(recurrent_layers_learn),
      cmocka_unit_test(attention_learns),
      cmocka_unit_test(layers_are_applied_to_each_other),
      cmocka_unit_test(refuses_what_does_not_fit),
      cmocka_unit_test(noise_and_numbers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
