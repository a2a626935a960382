/* Models: learning, repeatability, evaluation, early stopping, errors. */
#include "train/split.h"
#include "train_data.h"

#include "shoal/models.h"

#include <math.h>

static const shoal_compile_options xor_options = {
    .optimizer = {.name = "momentum"}, .schedule = {.rate = 0.1}, .seed = 3, .threads = 1};
static const shoal_compile_options corner_options = {
    .optimizer = {.name = "adam"}, .schedule = {.rate = 0.01}, .seed = 5, .threads = 2, .top_k = 2, .l2 = 1e-4};

static void learns_xor(void **state) {
  shoal_dataset train, test;
  data_make_xor(400, 1, &train);
  data_make_xor(200, 2, &test);
  shoal_model *m = model_make_xor(&xor_options);
  assert_int_equal(shoal_model_parameters(m), 2 * 16 + 16 + 16 * 2 + 2);
  assert_int_equal(shoal_model_threads(m), 1);
  shoal_evaluation before, after;
  assert_ok(shoal_model_evaluate(m, &test, &before));
  shoal_fit_result r;
  assert_ok(shoal_model_fit(m, &train, &(shoal_fit_options){.epochs = 40, .batch_size = 30}, &r));
  assert_ok(shoal_model_evaluate(m, &test, &after));
  if (!(after.accuracy > 0.93)) fail_msg("accuracy %g, was %g", after.accuracy, before.accuracy);
  assert_true(after.loss < before.loss);
  assert_true(isnan(after.top_k));
  assert_int_equal(r.epochs, 40);
  assert_int_equal(r.steps, 40 * 14); /* the last batch of an epoch has 10 examples */
  assert_int_equal(r.examples, 40 * 400);
  assert_int_equal(r.run_examples, 40 * 400);
  assert_int_equal(r.dropped_examples, 0);
  assert_int_equal(r.resumed_from, -1);
  assert_true(r.train_accuracy > 0.93 && r.final_loss < 0.3 && r.seconds > 0);
  assert_true(isnan(r.validation_loss) && !r.stopped && !r.stopped_early);
  shoal_model_destroy(m);
  data_free(&train);
  data_free(&test);
}

/* No rate is the optimizer's usual one. */
static void has_a_usual_rate(void **state) {
  for (const char *const *name = shoal_optimizer_names(); *name; name++) {
    shoal_compile_options none = {.optimizer = {.name = *name}, .seed = 3, .threads = 1}, usual = none;
    usual.schedule.rate = shoal_optimizer_rate(*name);
    assert_true(usual.schedule.rate >= 0.001 && usual.schedule.rate <= 1);
    shoal_dataset data;
    data_make_xor(64, 1, &data);
    shoal_model *before = model_make_xor(&none), *a = model_make_xor(&none), *b = model_make_xor(&usual);
    assert_ok(shoal_model_fit(a, &data, &(shoal_fit_options){.epochs = 1}, NULL));
    assert_ok(shoal_model_fit(b, &data, &(shoal_fit_options){.epochs = 1}, NULL));
    assert_same_bits(a, b);
    size_t n, k;
    uint8_t *old = model_bits(before, &n), *new = model_bits(a, &k);
    if (!memcmp(old, new, n)) fail_msg("%s has learned nothing", *name);
    free(old);
    free(new);
    shoal_model_destroy(before);
    shoal_model_destroy(a);
    shoal_model_destroy(b);
    data_free(&data);
  }
  assert_true(isnan(shoal_optimizer_rate("sdg")));
}

/* A model of zeros says class 0 of every row. */
static void zeros_are_no_hits(void **state) {
  shoal_dataset data;
  data_make_corners(100, 1, &data);
  shoal_model *m;
  assert_ok(shoal_model_create(SHOAL_SHAPE(8, 8, 1), &m));
  shoal_model_kind_find("softmax")->build(m, &(shoal_model_options){.classes = 4});
  assert_ok(shoal_model_compile(m, &(shoal_compile_options){.top_k = 3, .threads = 1}));
  shoal_evaluation e;
  assert_ok(shoal_model_evaluate(m, &data, &e));
  assert_true(e.accuracy == 0.25 && e.top_k == 0.75);
  shoal_model_destroy(m);
  data_free(&data);
}

static void learns_images(void **state) {
  shoal_dataset train, test;
  data_make_corners(256, 1, &train);
  data_make_corners(1100, 2, &test); /* two batches of evaluation */
  shoal_model *m = model_make_corners(&corner_options);
  shoal_fit_result r;
  assert_ok(shoal_model_fit(m, &train, &(shoal_fit_options){.epochs = 40, .batch_size = 32}, &r));
  shoal_evaluation e;
  assert_ok(shoal_model_evaluate(m, &test, &e));
  if (!(e.accuracy > 0.95)) fail_msg("accuracy %g, loss %g", e.accuracy, e.loss);
  assert_true(e.top_k >= e.accuracy);
  assert_int_equal(e.examples, 1100);
  char *text = shoal_model_describe(m);
  assert_non_null(strstr(text, "conv2d_1 (tanh)"));
  assert_non_null(strstr(text, "[4,4,4]"));
  free(text);

  /* predict and evaluate agree; u8 and the same as f32 agree. */
  shoal_tensor u8_out, f32_out;
  assert_ok(shoal_tensor_create(SHOAL_F32, SHOAL_SHAPE(1100, 4), &u8_out));
  assert_ok(shoal_tensor_create(SHOAL_F32, SHOAL_SHAPE(1100, 4), &f32_out));
  assert_ok(shoal_model_predict(m, &test.features, &u8_out));
  shoal_tensor scaled;
  assert_ok(shoal_tensor_create(SHOAL_F32, test.features.shape, &scaled));
  for (int64_t i = 0; i < 1100 * 64; i++)
    ((float *)scaled.data)[i] = (float)((const uint8_t *)test.features.data)[i] * (1 / 255.0f);
  assert_ok(shoal_model_predict(m, &scaled, &f32_out));
  const float *p = u8_out.data, *q = f32_out.data; /* [1100, 4] */
  int right = 0;
  double loss = 0;
  for (int i = 0; i < 1100; i++) {
    int best = 0;
    double sum = 0;
    for (int k = 0; k < 4; k++) {
      if (p[4 * i + k] > p[4 * i + best]) best = k;
      sum += p[4 * i + k];
      assert_true(fabsf(p[4 * i + k] - q[4 * i + k]) < 1e-4f);
    }
    assert_true(fabs(sum - 1) < 1e-5);
    int label = ((const uint8_t *)test.labels.data)[i];
    right += best == label;
    loss -= log(p[4 * i + label]);
  }
  assert_int_equal(right, (int)lround(e.accuracy * 1100));
  assert_true(fabs(loss / 1100 - e.loss) < 1e-4);
  shoal_tensor_fini(&u8_out);
  shoal_tensor_fini(&f32_out);
  shoal_tensor_fini(&scaled);
  shoal_model_destroy(m);
  data_free(&train);
  data_free(&test);
}

static void same_seed_same_bits(void **state) {
  shoal_dataset train;
  data_make_corners(100, 1, &train);
  shoal_compile_options other = corner_options;
  other.seed++;
  shoal_model *a = model_make_corners(&corner_options), *b = model_make_corners(&corner_options);
  shoal_model *c = model_make_corners(&other);
  shoal_fit_options fit = {.epochs = 2, .batch_size = 16};
  shoal_fit_result ra, rb, rc;
  shoal_evaluation e;
  assert_ok(shoal_model_fit(a, &train, &fit, &ra));
  assert_ok(shoal_model_evaluate(b, &train, &e)); /* looking does not change what is to come */
  assert_ok(shoal_model_fit(b, &train, &fit, &rb));
  assert_ok(shoal_model_fit(c, &train, &fit, &rc));
  assert_same_bits(a, b);
  assert_true(ra.final_loss == rb.final_loss && ra.final_loss != rc.final_loss);
  shoal_model_destroy(a);
  shoal_model_destroy(b);
  shoal_model_destroy(c);
  data_free(&train);
}

/* What callbacks saw. */
typedef struct {
  int steps, epochs, notes;
  int64_t stop_step, stop_epoch; /* -1: never */
  int *flag;                     /* set at stop_step instead of returning true */
  shoal_progress last;
  char note[1024];
} seen;

static bool on_step(void *context, const shoal_progress *p) {
  seen *s = context;
  s->steps++;
  s->last = *p;
  bool stop = p->step == s->stop_step;
  if (stop && s->flag) *s->flag = 1;
  return stop && !s->flag;
}

static bool on_epoch(void *context, const shoal_progress *p) {
  seen *s = context;
  s->epochs++;
  s->last = *p;
  return p->epoch == s->stop_epoch;
}

static void on_note(void *context, const char *line) {
  seen *s = context;
  s->notes++;
  snprintf(s->note, sizeof s->note, "%s", line);
}

#define SEEN(s) \
  { .context = (s), .on_step = on_step, .every_steps = 1, .on_epoch = on_epoch, .on_note = on_note }

static void stops_when_asked(void **state) {
  shoal_dataset train;
  data_make_xor(100, 1, &train);
  int flag = 0;
  seen cases[] = {{.stop_step = 7, .stop_epoch = -1},
                  {.stop_step = 7, .stop_epoch = -1, .flag = &flag},
                  {.stop_step = -1, .stop_epoch = 1}};
  int64_t steps[] = {7, 7, 20};
  for (int i = 0; i < 3; i++) {
    shoal_model *m = model_make_xor(&xor_options);
    shoal_fit_result r;
    flag = 0;
    assert_ok(shoal_model_fit(
        m, &train, &(shoal_fit_options){.epochs = 5, .batch_size = 10, .stop = &flag, .callbacks = SEEN(&cases[i])},
        &r));
    assert_true(r.stopped);
    assert_int_equal(r.steps, steps[i]);
    assert_int_equal(cases[i].steps, steps[i]);
    shoal_model_destroy(m);
  }
  assert_int_equal(cases[0].last.steps, 50);
  assert_true(cases[2].last.examples == 200 && cases[2].last.loss > 0 && cases[2].last.rate == 0.1);
  data_free(&train);
}

static void counts_steps(void **state) {
  shoal_dataset train;
  data_make_xor(105, 1, &train);
  static const struct {
    shoal_fit_options fit;
    int64_t steps, epochs, examples, dropped;
  } cases[] = {
      {{.steps = 5, .batch_size = 10}, 5, 0, 50, 0},
      {{.epochs = 2, .batch_size = 10}, 22, 2, 210, 0},
      {{.epochs = 2, .batch_size = 10, .drop_short = true}, 20, 2, 200, 5},
      {{.epochs = 9, .steps = 23, .batch_size = 10, .keep_order = true}, 23, 2, 220, 0},
      {{.epochs = 1, .batch_size = 1000}, 1, 1, 105, 0},
      {{.epochs = 1}, 4, 1, 105, 0},
      {{.epochs = 2, .batch_size = 10, .validation_split = 0.2}, 18, 2, 168, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    shoal_model *m = model_make_xor(&xor_options);
    shoal_fit_result r;
    assert_ok(shoal_model_fit(m, &train, &cases[i].fit, &r));
    assert_int_equal(r.steps, cases[i].steps);
    assert_int_equal(r.epochs, cases[i].epochs);
    assert_int_equal(r.examples, cases[i].examples);
    assert_int_equal(r.dropped_examples, cases[i].dropped);
    shoal_model_destroy(m);
  }
  data_free(&train);
}

/* The rows of a data set that an index names, not copied. */
static shoal_dataset view_rows(const shoal_dataset *d, const int32_t *rows, int64_t n) {
  shoal_dataset view = *d;
  view.features.rows = view.labels.rows = rows;
  view.features.shape.dim[0] = view.labels.shape.dim[0] = n;
  return view;
}

/* A split holds out the same share of each class, drawn by the seed: also where the rows are sorted by class. */
static void split_by_class(void **state) {
  enum { ROWS = 103 };
  static const int64_t counts[] = {60, 0, 41, 1, 1};
  int64_t labels[ROWS], kept, again;
  int32_t rows[ROWS], other[ROWS];
  for (int c = 0, i = 0; c < 5; c++)
    for (int64_t k = 0; k < counts[c]; k++) labels[i++] = c;
  shoal_dataset d = {.features = shoal_tensor_view(SHOAL_I64, SHOAL_SHAPE(ROWS), labels),
                     .labels = shoal_tensor_view(SHOAL_I64, SHOAL_SHAPE(ROWS), labels)};
  int64_t held[5] = {0};
  bool met[ROWS] = {false};
  assert_ok(split_rows(&d, 5, 0.25, 7, rows, &kept));
  assert_int_equal(kept, ROWS - 25);
  for (int i = 0; i < ROWS; i++) {
    assert_false(met[rows[i]]);
    met[rows[i]] = true;
    if (i && i != kept) assert_true(rows[i] > rows[i - 1]);
    if (i >= kept) held[labels[rows[i]]]++;
  }
  assert_true(held[0] == 15 && held[2] == 10 && !held[3] && !held[4]);
  assert_ok(split_rows(&d, 5, 0.25, 7, other, &again));
  assert_memory_equal(rows, other, sizeof rows);
  assert_ok(split_rows(&d, 5, 0.25, 8, other, &again));
  assert_true(memcmp(rows, other, sizeof rows));
  assert_fails(split_rows(&d, 5, 0.001, 7, rows, &kept), SHOAL_ERR_ARGUMENT, "leaves none on one side");
}

/* The same as training on the rows that are kept and validating on the others. */
static void validation_split(void **state) {
  enum { ROWS = 200 };
  shoal_dataset all;
  int32_t rows[ROWS];
  int64_t kept;
  data_make_xor(ROWS, 1, &all);
  assert_ok(split_rows(&all, 2, 0.25, xor_options.seed, rows, &kept));
  shoal_dataset first = view_rows(&all, rows, kept), last = view_rows(&all, rows + kept, ROWS - kept);
  for (int ordered = 0; ordered < 2; ordered++) {
    shoal_model *a = model_make_xor(&xor_options), *b = model_make_xor(&xor_options);
    shoal_fit_result ra, rb;
    seen sa = {.stop_epoch = -1, .stop_step = -1};
    assert_ok(shoal_model_fit(
        a, &all,
        &(shoal_fit_options){.epochs = 3, .validation_split = 0.25, .keep_order = ordered, .callbacks = SEEN(&sa)},
        &ra));
    assert_ok(
        shoal_model_fit(b, &first, &(shoal_fit_options){.epochs = 3, .validation = &last, .keep_order = ordered}, &rb));
    assert_same_bits(a, b);
    assert_true(ra.validation_loss == rb.validation_loss && ra.validation_accuracy == rb.validation_accuracy);
    assert_true(sa.epochs == 3 && sa.last.validation_loss == ra.validation_loss);
    shoal_evaluation e;
    assert_ok(shoal_model_evaluate(a, &last, &e));
    assert_true(e.loss == ra.validation_loss && e.accuracy == ra.validation_accuracy);
    shoal_model_destroy(a);
    shoal_model_destroy(b);
  }
  data_free(&all);
}

/* Validation data with the labels turned round: the better the training, the worse its loss. */
static void stops_early(void **state) {
  shoal_dataset train, wrong;
  data_make_xor(200, 1, &train);
  data_make_xor(200, 1, &wrong);
  for (int i = 0; i < 200; i++) ((int32_t *)wrong.labels.data)[i] ^= 1;
  char dir[FILES_PATH], path[FILES_PATH + 32];
  files_make_folder(dir);
  shoal_model *m = model_make_xor(&xor_options);
  shoal_fit_result r;
  shoal_fit_options fit = {.epochs = 60, .validation = &wrong, .patience = 4, .checkpoint_dir = dir, .keep_best = true};
  assert_ok(shoal_model_fit(m, &train, &fit, &r));
  assert_true(r.stopped_early && !r.stopped);
  assert_true(r.epochs >= 4 && r.epochs < 60);
  assert_int_equal(r.resumed_from, -1);

  /* A run that ended so does not go on when resumed. */
  shoal_fit_result again;
  fit.resume = true;
  assert_ok(shoal_model_fit(m, &train, &fit, &again));
  assert_true(again.stopped_early && again.steps == r.steps && again.run_examples == 0);
  assert_true(again.final_loss == r.final_loss && again.validation_loss == r.validation_loss);

  /* best.safetensors holds the weights of the best validation loss. */
  shoal_evaluation end, best, taken;
  assert_ok(shoal_model_evaluate(m, &wrong, &end));
  assert_true(end.loss == r.validation_loss && !r.restored && r.best_epoch == r.epochs - 4);
  snprintf(path, sizeof path, "%s/best.safetensors", dir);
  assert_ok(shoal_model_load(m, path));
  assert_ok(shoal_model_evaluate(m, &wrong, &best));
  assert_true(best.loss < end.loss);

  /* Asked for, they are those left at the end: kept in memory, or found in the folder of a run that is resumed. */
  fit.restore_best = true;
  for (int i = 0; i < 2; i++) {
    shoal_model *other = model_make_xor(&xor_options);
    shoal_fit_options now = fit;
    if (!i) now = (shoal_fit_options){.epochs = 60, .validation = &wrong, .patience = 4, .restore_best = true};
    assert_ok(shoal_model_fit(other, &train, &now, &again));
    assert_ok(shoal_model_evaluate(other, &wrong, &taken));
    assert_true(again.stopped_early && again.restored && again.best_epoch == r.best_epoch && again.epochs == r.epochs);
    assert_true(taken.loss == best.loss && again.validation_loss == best.loss);
    shoal_model_destroy(other);
  }
  shoal_model_destroy(m);
  files_remove_folder(dir);
  data_free(&train);
  data_free(&wrong);
}

typedef struct {
  double loss[64], accuracy[64];
  int steps;
  int64_t tested, epochs;
} points_seen;

static bool see_step(void *context, const shoal_progress *p) {
  points_seen *points = context;
  points->loss[points->steps] = p->loss;
  points->accuracy[points->steps++] = p->accuracy;
  return false;
}

static bool see_epoch(void *context, const shoal_progress *p) {
  points_seen *points = context;
  points->tested += p->test.examples;
  points->epochs++;
  return false;
}

/* A point of a curve is the mean of all steps since the last one; test rows are tested once an epoch. */
static void points_are_means(void **state) {
  enum { STEPS = 24, EVERY = 4 };
  shoal_dataset data, test;
  data_make_xor(160, 1, &data);
  data_make_xor(50, 2, &test);
  points_seen one = {0}, means = {0};
  points_seen *both[] = {&one, &means};
  for (int i = 0; i < 2; i++) {
    shoal_model *m = model_make_xor(&xor_options);
    shoal_fit_options fit = {.epochs = 3, .batch_size = 20, .test = i ? &test : NULL};
    fit.callbacks =
        (shoal_callbacks){.context = both[i], .on_step = see_step, .every_steps = i ? EVERY : 1, .on_epoch = see_epoch};
    assert_ok(shoal_model_fit(m, &data, &fit, NULL));
    shoal_model_destroy(m);
  }
  assert_true(one.steps == STEPS && means.steps == STEPS / EVERY);
  for (int k = 0; k < means.steps; k++) {
    double loss = 0, accuracy = 0;
    for (int i = 0; i < EVERY; i++) {
      loss += one.loss[k * EVERY + i] / EVERY;
      accuracy += one.accuracy[k * EVERY + i] / EVERY;
    }
    assert_true(fabs(means.loss[k] - loss) < 1e-9 && fabs(means.accuracy[k] - accuracy) < 1e-9);
  }
  assert_true(one.tested == 0 && means.epochs == 3 && means.tested == 3 * 50);
  data_free(&data);
  data_free(&test);
}

static void saves_and_loads(void **state) {
  shoal_dataset train;
  data_make_corners(64, 1, &train);
  char dir[FILES_PATH], path[FILES_PATH + 64];
  files_make_folder(dir);
  shoal_model *a = model_make_corners(&corner_options), *b = model_make_corners(&corner_options);
  assert_ok(
      shoal_model_fit(a, &train, &(shoal_fit_options){.epochs = 1, .batch_size = 16, .checkpoint_dir = dir}, NULL));
  snprintf(path, sizeof path, "%s/weights.safetensors", dir);
  assert_ok(shoal_model_save(a, path));
  assert_ok(shoal_model_load(b, path));
  assert_same_bits(a, b);
  shoal_model_destroy(b);
  b = model_make_corners(&corner_options);
  snprintf(path, sizeof path, "%s/step-000000000004.safetensors", dir); /* more in it than the weights */
  assert_ok(shoal_model_load(b, path));
  assert_same_bits(a, b);
  shoal_model_destroy(b);
  b = model_make_xor(&xor_options);
  assert_fails(shoal_model_load(b, path), SHOAL_ERR_INPUT, "dense");
  shoal_model_destroy(a);
  shoal_model_destroy(b);
  files_remove_folder(dir);
  data_free(&train);
}

static void bad_loss(void **state) {
  shoal_dataset train;
  data_make_xor(64, 1, &train);
  ((float *)train.features.data)[60] = NAN;
  shoal_model *m = model_make_xor(&xor_options), *fresh = model_make_xor(&xor_options);
  shoal_fit_result r;
  shoal_status status = shoal_model_fit(m, &train, &(shoal_fit_options){.epochs = 1, .batch_size = 64}, &r);
  assert_int_equal(shoal_status_code(status), SHOAL_ERR_NUMERIC);
  const char *message = shoal_status_message(status);
  const char *const words[] = {"step 0", "nan", "first bad operator: ", "f32_i32/train/dense/", "learning rate", "0.1"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (!strstr(message, words[i])) fail_msg("'%s' is not in: %s", words[i], message);
  shoal_status_free(status);
  assert_same_bits(m, fresh); /* nothing was updated with it */
  shoal_model_destroy(m);
  shoal_model_destroy(fresh);
  data_free(&train);
}

static void diverging_rate(void **state) {
  shoal_dataset train;
  data_make_corners(64, 1, &train);
  shoal_compile_options wild = {.schedule = {.rate = 1e20}, .threads = 1};
  shoal_model *m;
  assert_ok(shoal_model_create(SHOAL_SHAPE(8, 8, 1), &m));
  shoal_model_flatten(m);
  shoal_model_dense(m, 8, "relu");
  shoal_model_dense(m, 4, "softmax");
  assert_ok(shoal_model_compile(m, &wild));
  assert_fails(shoal_model_fit(m, &train, &(shoal_fit_options){.epochs = 50, .batch_size = 16}, NULL),
               SHOAL_ERR_NUMERIC, "smaller learning rate (now 1e+20)");
  shoal_model_destroy(m);
  data_free(&train);
}

static shoal_model *empty(void) {
  shoal_model *m;
  assert_ok(shoal_model_create(SHOAL_SHAPE(8, 8, 1), &m));
  return m;
}

static void layer_errors(void **state) {
  shoal_model *m = empty();
  assert_fails(shoal_model_compile(m, NULL), SHOAL_ERR_ARGUMENT, "no layers");
  shoal_model_destroy(m);
  m = empty();
  shoal_model_dense(m, 4, "softmax");
  assert_fails(shoal_model_compile(m, NULL), SHOAL_ERR_ARGUMENT, "add a flatten layer");
  shoal_model_destroy(m);
  m = empty();
  shoal_model_conv2d(m, 4, 3, 1, SHOAL_SAME, "rellu");
  shoal_model_dense(m, -4, "softmax");
  assert_fails(shoal_model_compile(m, NULL), SHOAL_ERR_ARGUMENT, "did you mean relu"); /* the first error counts */
  assert_fails(shoal_model_fit(m, NULL, NULL, NULL), SHOAL_ERR_ARGUMENT, "did you mean relu");
  shoal_model_destroy(m);
  m = empty();
  shoal_model_conv2d(m, 4, 3, 1, SHOAL_SAME, "relu");
  assert_fails(shoal_model_compile(m, NULL), SHOAL_ERR_ARGUMENT, "[batch, classes]");
  shoal_model_destroy(m);
  m = empty();
  shoal_model_initializer(m, "glorot");
  assert_fails(shoal_model_compile(m, NULL), SHOAL_ERR_ARGUMENT, "unknown initializer");
  shoal_model_destroy(m);
  m = empty();
  shoal_model_flatten(m);
  shoal_model_dense(m, 4, "softmax");
  assert_fails(shoal_model_compile(m, &(shoal_compile_options){.optimizer = {.name = "sdg"}}), SHOAL_ERR_ARGUMENT,
               "did you mean 'sgd'");
  shoal_model_destroy(m);
  assert_fails(shoal_model_create(SHOAL_SHAPE(8, 0), &m), SHOAL_ERR_ARGUMENT, "[8,0]");
}

static void fit_errors(void **state) {
  shoal_dataset train, images;
  data_make_xor(40, 1, &train);
  data_make_corners(8, 1, &images);
  shoal_model *m = model_make_xor(&xor_options);
  assert_fails(shoal_model_fit(m, &train, &(shoal_fit_options){0}, NULL), SHOAL_ERR_ARGUMENT, "epochs");
  assert_fails(shoal_model_fit(m, &images, NULL, NULL), SHOAL_ERR_ARGUMENT, "examples of [2]");
  assert_fails(shoal_model_fit(m, &train, &(shoal_fit_options){.epochs = 1, .patience = 2}, NULL), SHOAL_ERR_ARGUMENT,
               "patience needs validation data");
  assert_fails(shoal_model_fit(m, &train, &(shoal_fit_options){.epochs = 1, .resume = true}, NULL), SHOAL_ERR_ARGUMENT,
               "folder");
  assert_fails(
      shoal_model_fit(m, &train, &(shoal_fit_options){.epochs = 1, .batch_size = 50, .drop_short = true}, NULL),
      SHOAL_ERR_ARGUMENT, "do not fill one batch");
  ((int32_t *)train.labels.data)[3] = 2;
  assert_fails(shoal_model_fit(m, &train, NULL, NULL), SHOAL_ERR_INPUT, "label is 2");
  ((int32_t *)train.labels.data)[3] = -1;
  assert_fails(shoal_model_fit(m, &train, NULL, NULL), SHOAL_ERR_INPUT, "-1");
  shoal_tensor out = shoal_tensor_view(SHOAL_F32, SHOAL_SHAPE(40, 3), NULL);
  assert_fails(shoal_model_predict(m, &train.features, &out), SHOAL_ERR_ARGUMENT, "expected f32[40,2]");
  shoal_model_dense(m, 3, NULL);
  assert_fails(shoal_model_fit(m, &train, NULL, NULL), SHOAL_ERR_ARGUMENT, "once the model is compiled");
  shoal_model_destroy(m);
  data_free(&train);
  data_free(&images);
}

/* Probability of class 0 over that of class 1 for the origin, where the biases alone count, after one step. */
static double odds_after_a_step(const shoal_dataset *data, const char *optimizer, double bias_rate) {
  shoal_model *m;
  assert_ok(shoal_model_create(SHOAL_SHAPE(2), &m));
  shoal_model_initializer(m, "zeros");
  shoal_model_dense(m, 2, "softmax");
  assert_ok(shoal_model_compile(
      m,
      &(shoal_compile_options){.optimizer = {.name = optimizer}, .schedule = {.rate = 0.5}, .bias_rate = bias_rate}));
  assert_ok(shoal_model_fit(m, data, &(shoal_fit_options){.steps = 1, .batch_size = 17, .keep_order = true}, NULL));
  float origin[2] = {0}, out[2];
  shoal_tensor x = shoal_tensor_view(SHOAL_F32, SHOAL_SHAPE(1, 2), origin);
  shoal_tensor y = shoal_tensor_view(SHOAL_F32, SHOAL_SHAPE(1, 2), out);
  assert_ok(shoal_model_predict(m, &x, &y));
  shoal_model_destroy(m);
  return log(out[0] / out[1]);
}

static void biases_have_a_rate(void **state) {
  shoal_dataset data;
  data_make_xor(17, 1, &data);
  for (int i = 0; i < 2; i++) {
    const char *name = i ? "momentum" : "sgd";
    double once = odds_after_a_step(&data, name, 0), thrice = odds_after_a_step(&data, name, 3);
    assert_true(fabs(once) > 0.01);
    assert_true(fabs(thrice - 3 * once) < 1e-5);
  }
  shoal_model *m;
  assert_ok(shoal_model_create(SHOAL_SHAPE(2), &m));
  shoal_model_dense(m, 2, "softmax");
  assert_fails(shoal_model_compile(m, &(shoal_compile_options){.optimizer = {.name = "adam"}, .bias_rate = 2}),
               SHOAL_ERR_ARGUMENT, "has a single rate");
  shoal_model_destroy(m);
  data_free(&data);
}

/* The L2 term is added inside of the update; run operator by operator it is a product and a sum. */
static void l2_in_the_update(void **state) {
  shoal_dataset data;
  data_make_xor(64, 1, &data);
  double losses[2][2];
  for (int momentum = 0; momentum < 2; momentum++)
    for (int plain = 0; plain < 2; plain++) {
      shoal_model *m = model_make_xor(&(shoal_compile_options){.optimizer = {.name = momentum ? "momentum" : "sgd"},
                                                               .schedule = {.rate = 0.1},
                                                               .l2 = 0.05,
                                                               .no_fusion = plain});
      assert_ok(shoal_model_fit(m, &data, &(shoal_fit_options){.steps = 12, .batch_size = 32}, NULL));
      shoal_evaluation e;
      assert_ok(shoal_model_evaluate(m, &data, &e));
      losses[momentum][plain] = e.loss;
      shoal_model_destroy(m);
    }
  for (int i = 0; i < 2; i++) assert_true(fabs(losses[i][0] - losses[i][1]) < 1e-5);
  data_free(&data);
}

/* What lists show of a model is what reading its file gives. */
static void expect_as_read(const shoal_model_kind *listed) {
  shoal_model_kind *read;
  assert_ok(shoal_model_kind_load(listed->name, &read));
  const char *const texts[][2] = {
      {listed->name, read->name},         {listed->summary, read->summary},     {listed->data, read->data},
      {listed->schedule, read->schedule}, {listed->optimizer, read->optimizer}, {listed->transform, read->transform},
      {listed->loss, read->loss}};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    assert_string_equal(texts[i][0] ? texts[i][0] : "", texts[i][1] ? texts[i][1] : "");
  assert_true(listed->batch_size == read->batch_size && listed->epochs == read->epochs && listed->rate == read->rate);
  assert_true(listed->final_share == read->final_share && listed->decay_factor == read->decay_factor);
  assert_true(listed->l2 == read->l2 && listed->bias_rate == read->bias_rate && listed->top_k == read->top_k);
  assert_true(listed->classes == read->classes && listed->sparse == read->sparse);
  assert_true(listed->input_rule == read->input_rule && listed->input_min == read->input_min);
  assert_true(shoal_shape_equal(&listed->input, &read->input));
  shoal_model_kind_destroy(read);
}

static void known_models(void **state) {
  static const struct {
    const char *name;
    int64_t parameters;
  } wanted[] = {{"softmax", 7850}, {"lenet", 61706}, {"alexnet", 61100840}, {"sparse-lr", 500}, {"linear", 2}};
  for (int i = 0; i < 5; i++) {
    const shoal_model_kind *kind = shoal_model_kind_find(wanted[i].name);
    assert_non_null(kind);
    assert_ptr_equal(kind, shoal_model_kind_at(i));
    shoal_model *m;
    assert_ok(kind->sparse ? shoal_model_create_sparse(500, &m) : shoal_model_create(kind->input, &m));
    kind->build(m, NULL);
    assert_ok(shoal_model_compile(m, &(shoal_compile_options){.threads = 1, .loss = kind->loss}));
    assert_int_equal(shoal_model_parameters(m), wanted[i].parameters);
    shoal_model_destroy(m);
  }
  for (int i = 0; shoal_model_kind_at(i); i++) expect_as_read(shoal_model_kind_at(i));
  assert_null(shoal_model_kind_find("lenet-5"));
  shoal_model *m;
  assert_ok(shoal_model_create(SHOAL_SHAPE(28, 28, 1), &m));
  shoal_model_kind_find("lenet")->build(m, &(shoal_model_options){.activation = "relu", .pool = "mean"});
  assert_fails(shoal_model_compile(m, NULL), SHOAL_ERR_ARGUMENT, "'mean'");
  shoal_model_destroy(m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(has_a_usual_rate), cmocka_unit_test(zeros_are_no_hits),   cmocka_unit_test(learns_xor),
      cmocka_unit_test(learns_images),    cmocka_unit_test(same_seed_same_bits), cmocka_unit_test(stops_when_asked),
      cmocka_unit_test(counts_steps),     cmocka_unit_test(validation_split),    cmocka_unit_test(split_by_class),
      cmocka_unit_test(points_are_means), cmocka_unit_test(stops_early),         cmocka_unit_test(saves_and_loads),
      cmocka_unit_test(bad_loss),         cmocka_unit_test(diverging_rate),      cmocka_unit_test(layer_errors),
      cmocka_unit_test(fit_errors),       cmocka_unit_test(biases_have_a_rate),  cmocka_unit_test(l2_in_the_update),
      cmocka_unit_test(known_models),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
