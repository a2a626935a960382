/* Losses, and models that predict numbers: gradients, figures, every strategy that a process can start by itself. */
#include "train_data.h"

#include "shoal/cluster.h"

#include <math.h>
#include <stdio.h>

enum { ROWS = 240, FEATURES = 3 };

/* Targets of a linear function of the features and noise; `outputs` of them a row. */
static void data_make_line(int64_t n, int64_t outputs, shoal_dataset *out) {
  random_stream s = random_stream_make(11, 3);
  *out = (shoal_dataset){.scale = 1};
  assert_ok(shoal_tensor_create(SHOAL_F32, SHOAL_SHAPE(n, FEATURES), &out->features));
  assert_ok(shoal_tensor_create(SHOAL_F32, outputs > 1 ? SHOAL_SHAPE(n, outputs) : SHOAL_SHAPE(n), &out->labels));
  float *x = out->features.data, *y = out->labels.data; /* [n, FEATURES], [n, outputs] */
  for (int64_t i = 0; i < n; i++) {
    for (int k = 0; k < FEATURES; k++)
      x[FEATURES * i + k] = (float)(2 * random_uniform_at(&s, (uint64_t)(8 * i + k)) - 1);
    for (int64_t k = 0; k < outputs; k++)
      y[outputs * i + k] = 5 + 3 * x[FEATURES * i] - 2 * x[FEATURES * i + 1] + (float)k * x[FEATURES * i + 2] +
                           (float)random_uniform_at(&s, (uint64_t)(8 * i + 4 + k));
  }
}

static shoal_model *model_make_line(int units, const shoal_compile_options *options) {
  shoal_model *m;
  assert_ok(shoal_model_create(SHOAL_SHAPE(FEATURES), &m));
  shoal_model_dense(m, units, NULL);
  assert_ok(shoal_model_compile(m, options));
  return m;
}

/* ---- gradients */

typedef struct {
  float weights[8][64], gradients[8][64]; /* of each weight, as far as there are numbers */
} looked_at;

static void keep_look(void *context, const shoal_inspection *i) {
  looked_at *l = context;
  assert_true(i->count <= 8);
  for (int k = 0; k < i->count; k++) {
    memcpy(l->weights[k], i->weights[k].data, shoal_tensor_bytes(&i->weights[k]));
    memcpy(l->gradients[k], i->gradients[k].data, shoal_tensor_bytes(&i->gradients[k]));
  }
}

static double loss_of(shoal_model *m, const shoal_dataset *d) {
  shoal_evaluation e;
  assert_ok(shoal_model_evaluate(m, d, &e));
  return e.loss;
}

/* The targets become probabilities that add up to 1 over each row. */
static void make_probabilities(shoal_dataset *d) {
  float *y = d->labels.data; /* [n, 2] */
  for (int64_t i = 0; i < d->labels.shape.dim[0]; i++) {
    y[2 * i] = 1 / (1 + expf(y[2 * i + 1] - y[2 * i]));
    y[2 * i + 1] = 1 - y[2 * i];
  }
}

static bool is_among(const char *name, const char *const *names) {
  while (*names && strcmp(*names, name)) names++;
  return *names;
}

/* Gradients of a step against what the loss does when each weight is moved a little. */
static void check_gradients(const char *loss, double smoothing) {
  static const char *const of_classes[] = {"softmax_cross_entropy", "sigmoid_cross_entropy", "hinge",
                                           "categorical_hinge", NULL};
  static const char *const of_one_unit[] = {"sigmoid_cross_entropy", "hinge", NULL};
  static const char *const of_probabilities[] = {"categorical_cross_entropy", "kl_divergence", "binary_cross_entropy",
                                                 NULL};
  const bool targets = !is_among(loss, of_classes);
  const int units = is_among(loss, of_one_unit) ? 1 : 2;
  static const char *const names[] = {"dense/kernel", "dense/bias", "dense_1/kernel", "dense_1/bias"};
  shoal_dataset d;
  if (targets)
    data_make_line(64, 2, &d);
  else
    data_make_xor(64, 5, &d);
  if (is_among(loss, of_probabilities)) make_probabilities(&d);
  shoal_model *m;
  assert_ok(shoal_model_create(SHOAL_SHAPE(d.features.shape.dim[1]), &m));
  shoal_model_dense(m, 4, "tanh");
  shoal_model_dense(m, units, strcmp(loss, "poisson") ? NULL : "softplus");
  assert_ok(shoal_model_compile(
      m, &(shoal_compile_options){.loss = loss, .label_smoothing = smoothing, .seed = 2, .threads = 1}));
  static looked_at seen;
  shoal_fit_options o = {.steps = 1, .batch_size = 64, .keep_order = true};
  o.callbacks = (shoal_callbacks){.context = &seen, .on_inspect = keep_look, .inspect_every = 1};
  assert_ok(shoal_model_fit(m, &d, &o, NULL));
  shoal_tensor weights[4];
  for (int k = 0; k < 4; k++) {
    shoal_value *v = shoal_graph_find(shoal_model_graph(m), names[k]);
    assert_non_null(v);
    assert_ok(shoal_session_variable(shoal_model_session(m), v, &weights[k]));
    memcpy(weights[k].data, seen.weights[k], shoal_tensor_bytes(&weights[k]));
  }
  for (int k = 0; k < 4; k++)
    for (int64_t i = 0; i < shoal_tensor_count(&weights[k]); i++) {
      const float step = strstr(loss, "hinge") ? 0.002f : 0.01f, kept = ((float *)weights[k].data)[i];
      ((float *)weights[k].data)[i] = kept + step;
      const double above = loss_of(m, &d);
      ((float *)weights[k].data)[i] = kept - step;
      const double below = loss_of(m, &d), expected = (above - below) / (2 * (double)step);
      ((float *)weights[k].data)[i] = kept;
      if (fabs(expected - (double)seen.gradients[k][i]) > 2e-3 + 5e-3 * fabs(expected))
        fail_msg("%s: %s[%lld]: %g, but by differences %g", loss, names[k], (long long)i, (double)seen.gradients[k][i],
                 expected);
    }
  shoal_model_destroy(m);
  data_free(&d);
}

static void gradients_of_every_loss(void **state) {
  for (const char *const *name = shoal_loss_names(); *name; name++) {
    check_gradients(*name, 0);
    if (strstr(*name, "cross_entropy")) check_gradients(*name, 0.2);
  }
}

/* ---- figures */

/* By the book, over one output. */
static void figures(const float *y, const float *p, int64_t n, int64_t step, double *mae, double *mse, double *r2) {
  double mean = 0, total = 0;
  *mae = *mse = 0;
  for (int64_t i = 0; i < n; i++) mean += (double)y[i * step] / (double)n;
  for (int64_t i = 0; i < n; i++) {
    const double error = (double)y[i * step] - (double)p[i * step], distance = (double)y[i * step] - mean;
    *mae += fabs(error) / (double)n;
    *mse += error * error / (double)n;
    total += distance * distance / (double)n;
  }
  *r2 = 1 - *mse / total;
}

static void figures_by_the_book(void **state) {
  for (int outputs = 1; outputs <= 2; outputs++) {
    shoal_dataset d;
    data_make_line(ROWS, outputs, &d);
    shoal_model *m = model_make_line(outputs, &(shoal_compile_options){.loss = "huber", .seed = 4, .threads = 1});
    assert_int_equal(shoal_model_classes(m), 0);
    assert_int_equal(shoal_model_outputs(m), outputs);
    assert_ok(shoal_model_fit(m, &d, &(shoal_fit_options){.epochs = 2, .batch_size = 16}, NULL));
    shoal_evaluation e;
    shoal_tensor p;
    assert_ok(shoal_tensor_create(SHOAL_F32, SHOAL_SHAPE(ROWS, outputs), &p));
    assert_ok(shoal_model_predict(m, &d.features, &p));
    assert_ok(shoal_model_evaluate(m, &d, &e));
    double mae = 0, mse = 0, r2 = 0;
    for (int k = 0; k < outputs; k++) {
      double one[3];
      figures((const float *)d.labels.data + k, (const float *)p.data + k, ROWS, outputs, &one[0], &one[1], &one[2]);
      mae += one[0] / outputs;
      mse += one[1] / outputs;
      r2 += one[2] / outputs;
    }
    assert_true(isnan(e.accuracy) && isnan(e.top_k) && isnan(e.auc));
    assert_true(fabs(e.mae - mae) < 1e-6 && fabs(e.rmse - sqrt(mse)) < 1e-6 && fabs(e.r2 - r2) < 1e-6);
    assert_true(e.loss < mae); /* Huber's counts less than the error from half a unit on */
    shoal_tensor_fini(&p);
    shoal_model_destroy(m);
    data_free(&d);
  }
}

/* A constant target has no R2; nor do figures of classes mix with those of numbers. */
static void figures_that_are_not_there(void **state) {
  shoal_dataset d;
  shoal_evaluation e;
  data_make_line(20, 1, &d);
  for (int i = 0; i < 20; i++) ((float *)d.labels.data)[i] = 7;
  shoal_model *m = model_make_line(1, &(shoal_compile_options){.loss = "mse", .threads = 1});
  assert_ok(shoal_model_evaluate(m, &d, &e));
  assert_true(isnan(e.r2) && isfinite(e.rmse) && isnan(e.accuracy));
  shoal_model_destroy(m);
  data_free(&d);
  data_make_xor(20, 5, &d);
  m = model_make_xor(&(shoal_compile_options){.threads = 1});
  assert_ok(shoal_model_evaluate(m, &d, &e));
  assert_true(isnan(e.r2) && isnan(e.mae) && isnan(e.rmse) && isfinite(e.accuracy));
  shoal_model_destroy(m);
  data_free(&d);
}

static void refuses(shoal_status status, const char *word) {
  if (!status || !strstr(shoal_status_message(status), word))
    fail_msg("'%s' is not in: %s", word, status ? shoal_status_message(status) : "no error");
  shoal_status_free(status);
}

/* ---- training */

static const shoal_compile_options line_options = {.loss = "mse", .schedule = {.rate = 0.05}, .seed = 3, .threads = 2};

/* Trains with the strategy, which it destroys, on data or a stream; the figures on `d` are in *out. */
static void train_line(shoal_strategy *s, const shoal_dataset *d, const shoal_pipeline_options *stream, int64_t batch,
                       shoal_evaluation *out) {
  shoal_model *m = model_make_line(1, &line_options);
  shoal_fit_result r;
  assert_ok(shoal_model_fit(m, stream ? NULL : d,
                            &(shoal_fit_options){.epochs = 12, .batch_size = batch, .strategy = s, .stream = stream},
                            &r));
  assert_int_equal(r.examples, 12 * ROWS);
  assert_true(isnan(r.train_accuracy) && isfinite(r.final_loss));
  assert_ok(shoal_model_evaluate(m, d, out));
  shoal_model_destroy(m);
  shoal_strategy_destroy(s);
}

static void assert_same_training(const shoal_evaluation *a, const shoal_evaluation *b) {
  assert_true(fabs(a->loss - b->loss) < 1e-4 && fabs(a->mae - b->mae) < 1e-4 && fabs(a->r2 - b->r2) < 1e-4);
}

/* Every strategy learns what one process does; asynchronous ones about that. */
static void train_by_every_strategy(const shoal_dataset *d, const shoal_pipeline_options *stream) {
  shoal_evaluation alone, e;
  shoal_strategy *s;
  train_line(NULL, d, stream, 24, &alone);
  assert_true(alone.r2 > 0.97 && alone.rmse < 0.35); /* the noise alone is 0.29 */
  assert_ok(shoal_strategy_create_mirrored(2, NULL, &s));
  train_line(s, d, stream, 12, &e);
  assert_same_training(&e, &alone);
  assert_ok(shoal_strategy_create_mirrored(3, &(shoal_replica_options){.deterministic = true}, &s));
  train_line(s, d, stream, 8, &e);
  assert_same_training(&e, &alone);
  const shoal_ps_options modes[] = {{.mode = "sync"}, {.mode = "async"}, {.mode = "async", .staleness = 2}};
  for (int i = 0; i < 3; i++) {
    assert_ok(shoal_strategy_create_local_ps(2, 2, &modes[i], &s));
    train_line(s, d, stream, 12, &e);
    assert_true(e.r2 > 0.97);
    if (!i && !stream) assert_same_training(&e, &alone); /* of a stream each worker has rows of its own */
  }
}

static void strategies_in_memory(void **state) {
  shoal_dataset d;
  data_make_line(ROWS, 1, &d);
  train_by_every_strategy(&d, NULL);
  data_free(&d);
}

static void strategies_on_a_stream(void **state) {
  char folder[FILES_PATH], path[FILES_PATH + 16];
  shoal_dataset d;
  data_make_line(ROWS, 1, &d);
  files_make_folder(folder);
  snprintf(path, sizeof path, "%s/line.csv", folder);
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  const float *x = d.features.data, *y = d.labels.data; /* [ROWS, FEATURES], [ROWS] */
  fprintf(f, "a,b,c,price\n");
  for (int i = 0; i < ROWS; i++)
    fprintf(f, "%.9g,%.9g,%.9g,%.9g\n", (double)x[3 * i], (double)x[3 * i + 1], (double)x[3 * i + 2], (double)y[i]);
  fclose(f);
  const shoal_pipeline_options rows = {.files = path, .format = "csv", .columns = "target=price", .shuffle_rows = 100};
  train_by_every_strategy(&d, &rows);
  shoal_model *m = model_make_line(2, &line_options);
  shoal_status status = shoal_model_fit(m, NULL, &(shoal_fit_options){.epochs = 1, .stream = &rows}, NULL);
  assert_non_null(
      strstr(shoal_status_message(status), "rows of the stream have 1 numbers to be predicted, the model has 2"));
  shoal_status_free(status);
  shoal_model_destroy(m);
  m = model_make_line(1, &line_options);
  shoal_evaluation whole, streamed;
  assert_ok(shoal_model_evaluate(m, &d, &whole));
  assert_ok(shoal_model_evaluate_stream(m, &rows, NULL, NULL, &streamed));
  assert_int_equal(streamed.examples, ROWS);
  assert_true(fabs(streamed.loss - whole.loss) < 1e-4 && fabs(streamed.r2 - whole.r2) < 1e-5);
  shoal_model_destroy(m);
  data_free(&d);
  files_remove_folder(folder);
}

static void deterministic_bits(void **state) {
  shoal_dataset d;
  data_make_line(ROWS, 2, &d);
  shoal_model *first = NULL;
  for (int workers = 1; workers <= 4; workers++)
    for (int servers = 0; servers < 2; servers++) {
      shoal_strategy *s;
      if (servers)
        assert_ok(shoal_strategy_create_local_ps(workers, 1, &(shoal_ps_options){.deterministic = true}, &s));
      else
        assert_ok(shoal_strategy_create_mirrored(workers, &(shoal_replica_options){.deterministic = true}, &s));
      shoal_model *m = model_make_line(2, &line_options);
      assert_ok(shoal_model_fit(m, &d, &(shoal_fit_options){.epochs = 1, .global_batch = 24, .strategy = s}, NULL));
      if (first) assert_same_bits(first, m);
      if (first)
        shoal_model_destroy(m);
      else
        first = m;
      shoal_strategy_destroy(s);
    }
  shoal_model_destroy(first);
  data_free(&d);
}

/* Every optimizer, and gradients that are clipped: the same bits of one to four workers, with servers where they can. */
static void check_optimizer_bits(const shoal_optimizer_options *o, const shoal_dataset *d, bool servers) {
  shoal_model *first = NULL;
  const shoal_compile_options options = {
      .loss = "mse", .optimizer = *o, .schedule = {.rate = 0.01}, .seed = 3, .threads = 2};
  for (int workers = 1; workers <= 4; workers++)
    for (int served = 0; served <= servers; served++) {
      if (served && workers != 3) continue;
      shoal_strategy *s;
      if (served)
        assert_ok(shoal_strategy_create_local_ps(workers, 1, &(shoal_ps_options){.deterministic = true}, &s));
      else
        assert_ok(shoal_strategy_create_mirrored(workers, &(shoal_replica_options){.deterministic = true}, &s));
      shoal_model *m = model_make_line(2, &options);
      assert_ok(shoal_model_fit(m, d, &(shoal_fit_options){.steps = 6, .global_batch = 24, .strategy = s}, NULL));
      if (first) assert_same_bits(first, m);
      if (first)
        shoal_model_destroy(m);
      else
        first = m;
      shoal_strategy_destroy(s);
    }
  shoal_model_destroy(first);
}

static void optimizers_of_several_workers(void **state) {
  shoal_dataset d;
  data_make_line(ROWS, 2, &d);
  const shoal_optimizer_options served[] = {{.name = "adamw"},
                                            {.name = "nadam"},
                                            {.name = "lion", .weight_decay = 0.1},
                                            {.name = "sgd", .clip_value = 0.2, .average = 0.8},
                                            {.name = "momentum", .clip_global_norm = 0.5}};
  const shoal_optimizer_options whole[] = {{.name = "lamb"}, {.name = "lars"}, {.name = "sgd", .clip_norm = 0.5}};
  for (size_t i = 0; i < sizeof served / sizeof *served; i++) check_optimizer_bits(&served[i], &d, true);
  for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
    check_optimizer_bits(&whole[i], &d, false);
    shoal_strategy *s;
    shoal_model *m = model_make_line(2, &(shoal_compile_options){.loss = "mse", .optimizer = whole[i], .threads = 1});
    assert_ok(shoal_strategy_create_local_ps(2, 1, NULL, &s));
    refuses(shoal_model_fit(m, &d, &(shoal_fit_options){.steps = 1, .strategy = s}, NULL),
            "the norm of whole variables");
    shoal_model_destroy(m);
    shoal_strategy_destroy(s);
  }
  data_free(&d);
}

/* The weights at the end are the averages over all updates: of plain gradient descent known from its path. */
static void averages_of_weights(void **state) {
  shoal_dataset d;
  data_make_line(24, 1, &d);
  double average[FEATURES + 1] = {0};
  for (int steps = 1; steps <= 4; steps++)
    for (int averaged = 0; averaged < 2; averaged++) {
      const shoal_compile_options o = {.loss = "mse",
                                       .optimizer = {.average = averaged ? 0.75 : 0},
                                       .schedule = {.rate = 0.1},
                                       .seed = 3,
                                       .threads = 1};
      shoal_model *m = model_make_line(1, &o);
      assert_ok(
          shoal_model_fit(m, &d, &(shoal_fit_options){.steps = steps, .batch_size = 24, .keep_order = true}, NULL));
      for (int i = 0; i <= FEATURES; i++) {
        shoal_tensor t;
        shoal_value *v = shoal_graph_find(shoal_model_graph(m), i < FEATURES ? "dense/kernel" : "dense/bias");
        assert_ok(shoal_session_variable(shoal_model_session(m), v, &t));
        const double w = shoal_tensor_get(&t, i < FEATURES ? i : 0);
        if (!averaged)
          average[i] = steps == 1 ? w : 0.75 * average[i] + 0.25 * w;
        else
          assert_true(fabs(w - average[i]) < 1e-5);
      }
      shoal_model_destroy(m);
    }
  shoal_model *m = model_make_line(1, &(shoal_compile_options){.loss = "mse", .optimizer = {.average = 0.5}});
  refuses(
      shoal_model_fit(m, &d, &(shoal_fit_options){.epochs = 1, .validation_split = 0.2, .restore_best = true}, NULL),
      "leave out restore_best");
  shoal_model_destroy(m);
  data_free(&d);
}

/* Rows held out are a share of all; training ends when their error falls no further, and the best weights are taken. */
static void stops_early(void **state) {
  shoal_dataset d;
  data_make_line(ROWS, 1, &d);
  shoal_model *m = model_make_line(1, &line_options);
  shoal_fit_result r;
  assert_ok(shoal_model_fit(
      m, &d,
      &(shoal_fit_options){
          .epochs = 500, .batch_size = 10, .validation_split = 0.25, .patience = 3, .restore_best = true},
      &r));
  assert_true(r.stopped_early && r.epochs < 500 && r.best_epoch == r.epochs - 3 && r.restored);
  assert_true(r.validation_loss < 0.12 && isnan(r.validation_accuracy));
  assert_int_equal(r.examples, r.epochs * ROWS * 3 / 4);
  shoal_model_destroy(m);
  data_free(&d);
}

/* ---- refusals */

static shoal_status compile(bool sparse, int units, const char *loss) {
  shoal_model *m;
  if (sparse) {
    assert_ok(shoal_model_create_sparse(10, &m));
    shoal_model_sparse_dense(m, units, true, NULL);
  } else {
    assert_ok(shoal_model_create(SHOAL_SHAPE(2), &m));
    shoal_model_dense(m, units, NULL);
  }
  shoal_status status = shoal_model_compile(m, &(shoal_compile_options){.loss = loss, .threads = 1});
  shoal_model_destroy(m);
  return status;
}

static void wrong_data_is_refused(void **state) {
  const shoal_fit_options once = {.epochs = 1};
  shoal_dataset numbers, classes, several;
  data_make_line(20, 1, &numbers);
  data_make_line(20, 2, &several);
  data_make_xor(20, 5, &classes);
  shoal_model *line = model_make_line(1, &line_options), *xor = model_make_xor(&(shoal_compile_options){.threads = 1});
  shoal_dataset wrong = classes;
  wrong.labels = numbers.labels;
  refuses(shoal_model_fit(xor, &wrong, &once, NULL), "compile it with the loss mse");
  wrong = numbers;
  wrong.labels = classes.labels;
  refuses(shoal_model_fit(line, &wrong, &once, NULL), "give them as f32");
  refuses(shoal_model_fit(line, &several, &once, NULL), "1 for each of the 20 examples is expected");
  ((float *)numbers.labels.data)[4] = NAN;
  refuses(shoal_model_fit(line, &numbers, &once, NULL), "row 4: the target is nan");
  refuses(compile(false, 1, "msee"), "did you mean 'mse'");
  refuses(compile(false, 3, "sigmoid_cross_entropy"), "softmax_cross_entropy");
  refuses(compile(true, 1, "mse"), "make the rows dense");
  shoal_model_destroy(line);
  shoal_model_destroy(xor);
  data_free(&numbers);
  data_free(&several);
  data_free(&classes);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gradients_of_every_loss),
      cmocka_unit_test(figures_by_the_book),
      cmocka_unit_test(figures_that_are_not_there),
      cmocka_unit_test(strategies_in_memory),
      cmocka_unit_test(strategies_on_a_stream),
      cmocka_unit_test(deterministic_bits),
      cmocka_unit_test(optimizers_of_several_workers),
      cmocka_unit_test(averages_of_weights),
      cmocka_unit_test(stops_early),
      cmocka_unit_test(wrong_data_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
