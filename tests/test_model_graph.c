/* Models of graphs that a program has made itself, losses and metrics of its own, several outputs. */
#include "train_data.h"

#include "shoal/cluster.h"
#include "shoal/models.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

enum { ROWS = 240 };

/* 8 x 8 pixels - 16 tanh, with dropout if it is asked for - logits of 4 classes. */
static shoal_value *build_logits(shoal_graph *g, shoal_value *x, double keep) {
  shoal_value *flat = shoal_reshape(g, x, SHOAL_SHAPE(SHOAL_UNKNOWN, 64));
  shoal_value *w = shoal_variable(g, "hidden/w", shoal_random_normal(g, SHOAL_SHAPE(64, 16), 0, 0.1));
  shoal_value *b = shoal_variable(g, "hidden/b", shoal_fill(g, SHOAL_F32, SHOAL_SHAPE(16), 0));
  shoal_value *h = shoal_tanh(g, shoal_add(g, shoal_matmul(g, flat, w, false, false), b));
  if (keep < 1) h = shoal_dropout(g, h, keep);
  shoal_value *u = shoal_variable(g, "logits/w", shoal_random_normal(g, SHOAL_SHAPE(16, 4), 0, 0.1));
  return shoal_matmul(g, h, u, false, false);
}

typedef struct {
  shoal_graph *graph;
  shoal_value *x, *logits, *labels, *loss;
} own_graph;

static own_graph make_graph(bool mean, double keep) {
  own_graph o;
  assert_ok(shoal_graph_create(&o.graph));
  o.x = shoal_placeholder(o.graph, "pixels", SHOAL_F32, SHOAL_SHAPE(SHOAL_UNKNOWN, 8, 8, 1));
  o.labels = shoal_placeholder(o.graph, "corner", SHOAL_I32, SHOAL_SHAPE(SHOAL_UNKNOWN));
  o.logits = build_logits(o.graph, o.x, keep);
  o.loss = shoal_sparse_softmax_cross_entropy(o.graph, o.logits, o.labels);
  if (mean) o.loss = shoal_reduce_mean(o.graph, o.loss, SHOAL_SCALAR, false);
  assert_ok(shoal_graph_status(o.graph));
  return o;
}

static shoal_model *make_model(const own_graph *o, bool own_loss, shoal_strategy *s) {
  shoal_model *m;
  shoal_value *inputs[] = {o->x}, *outputs[] = {o->logits};
  const shoal_graph_parts parts = {.inputs = inputs,
                                   .n_inputs = 1,
                                   .outputs = outputs,
                                   .n_outputs = 1,
                                   .labels = own_loss ? o->labels : NULL,
                                   .loss = own_loss ? o->loss : NULL};
  assert_ok(shoal_model_from_graph(o->graph, &parts, &m));
  assert_ok(shoal_model_compile(
      m, &(shoal_compile_options){.schedule = {.rate = 0.1}, .seed = 3, .threads = 1, .strategy = s}));
  assert_int_equal(shoal_model_parameters(m), 64 * 16 + 16 + 16 * 4);
  return m;
}

static shoal_evaluation fit(shoal_model *m, const shoal_dataset *d, shoal_strategy *s, int64_t batch) {
  shoal_evaluation e;
  assert_ok(shoal_model_fit(m, d, &(shoal_fit_options){.epochs = 4, .batch_size = batch, .strategy = s}, NULL));
  assert_ok(shoal_model_evaluate(m, d, &e));
  shoal_model_destroy(m);
  shoal_strategy_destroy(s);
  return e;
}

/* By itself, with its own loss or one by name, a number a row or their mean, and under every strategy: the same. */
static void trains_like_any_other(void **state) {
  shoal_dataset d;
  shoal_strategy *s;
  data_make_corners(ROWS, 7, &d);
  own_graph rows = make_graph(false, 1), mean = make_graph(true, 1);
  const shoal_evaluation alone = fit(make_model(&rows, true, NULL), &d, NULL, 24);
  assert_true(alone.accuracy > 0.9);
  shoal_evaluation e[5];
  e[0] = fit(make_model(&mean, true, NULL), &d, NULL, 24);
  e[1] = fit(make_model(&rows, false, NULL), &d, NULL, 24);
  assert_ok(shoal_strategy_create_mirrored(2, NULL, &s));
  e[2] = fit(make_model(&rows, true, s), &d, s, 12);
  assert_ok(shoal_strategy_create_local_ps(2, 1, NULL, &s));
  e[3] = fit(make_model(&mean, true, s), &d, s, 12);
  assert_ok(shoal_strategy_create_local_ps(2, 2, &(shoal_ps_options){.mode = "async"}, &s));
  e[4] = fit(make_model(&rows, true, s), &d, s, 24);
  for (int i = 0; i < 4; i++) assert_true(fabs(e[i].loss - alone.loss) < 1e-4);
  assert_true(e[4].accuracy > 0.5);
  shoal_graph_destroy(rows.graph);
  shoal_graph_destroy(mean.graph);
  data_free(&d);
}

/* A dropout of the graph is there while it trains alone; weights are saved and come back. */
static void predicts_without_dropout(void **state) {
  shoal_dataset d;
  data_make_corners(ROWS, 7, &d);
  own_graph o = make_graph(false, 0.5);
  shoal_model *m = make_model(&o, true, NULL), *again = make_model(&o, true, NULL);
  shoal_tensor first, second;
  assert_ok(shoal_tensor_create(SHOAL_F32, SHOAL_SHAPE(ROWS, 4), &first));
  assert_ok(shoal_tensor_create(SHOAL_F32, SHOAL_SHAPE(ROWS, 4), &second));
  assert_ok(shoal_model_fit(m, &d, &(shoal_fit_options){.epochs = 1}, NULL));
  char path[] = "/tmp/shoal-graph-XXXXXX";
  close(mkstemp(path));
  assert_ok(shoal_model_save(m, path));
  assert_ok(shoal_model_load(again, path));
  assert_ok(shoal_model_predict(m, &d.features, &first));
  assert_ok(shoal_model_predict(again, &d.features, &second));
  assert_memory_equal(first.data, second.data, shoal_tensor_bytes(&first));
  unlink(path);
  shoal_tensor_fini(&first);
  shoal_tensor_fini(&second);
  shoal_model_destroy(m);
  shoal_model_destroy(again);
  shoal_graph_destroy(o.graph);
  data_free(&d);
}

static void refuse(const own_graph *o, const shoal_graph_parts *parts, const char *words) {
  shoal_model *m = NULL;
  shoal_status status = shoal_model_from_graph(o->graph, parts, &m);
  if (!status) status = shoal_model_compile(m, NULL);
  assert_int_equal(shoal_status_code(status), SHOAL_ERR_ARGUMENT);
  if (!strstr(shoal_status_message(status), words)) fail_msg("%s", shoal_status_message(status));
  shoal_status_free(status);
  shoal_model_destroy(m);
}

static void what_does_not_fit_is_named(void **state) {
  own_graph o = make_graph(false, 1);
  shoal_value *x[] = {o.x}, *y[] = {o.logits}, *wrong[] = {o.logits}, *loss[] = {o.loss};
  refuse(&o, &(shoal_graph_parts){.inputs = x, .n_inputs = 1}, "at least one output");
  refuse(&o, &(shoal_graph_parts){.inputs = wrong, .n_inputs = 1, .outputs = y, .n_outputs = 1}, "no placeholder");
  refuse(&o, &(shoal_graph_parts){.inputs = x, .n_inputs = 1, .outputs = y, .n_outputs = 1, .loss = o.loss}, "labels");
  refuse(&o, &(shoal_graph_parts){.inputs = x, .n_inputs = 1, .outputs = loss, .n_outputs = 1}, "'corner'");
  shoal_value *changed[] = {shoal_assign_add(o.graph, shoal_graph_find(o.graph, "hidden/b"),
                                             shoal_fill(o.graph, SHOAL_F32, SHOAL_SHAPE(16), 1))};
  refuse(&o, &(shoal_graph_parts){.inputs = x, .n_inputs = 1, .outputs = changed, .n_outputs = 1}, "optimizer");
  shoal_graph_destroy(o.graph);
}

/* ---- losses and metrics of one's own */

static shoal_value *squares(void *context, shoal_graph *g, shoal_value *outputs, shoal_value *labels) {
  ++*(int *)context;
  return shoal_reduce_mean(g, shoal_square(g, shoal_sub(g, outputs, labels)), SHOAL_SHAPE(1), false);
}

static shoal_value *distances(void *context, shoal_graph *g, shoal_value *outputs, shoal_value *labels) {
  return shoal_reduce_mean(g, shoal_abs(g, shoal_sub(g, outputs, labels)), SHOAL_SHAPE(1), false);
}

static shoal_value *all_rows(void *context, shoal_graph *g, shoal_value *outputs, shoal_value *labels) {
  return outputs;
}

static void make_line(shoal_dataset *d, int64_t targets) {
  random_stream s = random_stream_make(5, 1);
  *d = (shoal_dataset){.scale = 1};
  assert_ok(shoal_tensor_create(SHOAL_F32, SHOAL_SHAPE(ROWS, 3), &d->features));
  assert_ok(shoal_tensor_create(SHOAL_F32, SHOAL_SHAPE(ROWS, targets), &d->labels));
  float *x = d->features.data, *y = d->labels.data; /* [ROWS, 3], [ROWS, targets] */
  for (int64_t i = 0; i < ROWS; i++) {
    for (int k = 0; k < 3; k++) x[3 * i + k] = (float)(2 * random_uniform_at(&s, (uint64_t)(3 * i + k)) - 1);
    y[targets * i] = x[3 * i] - 2 * x[3 * i + 1];
    if (targets > 1) y[targets * i + 1] = (float)(x[3 * i + 2] > 0);
  }
}

static void own_losses_and_metrics(void **state) {
  shoal_dataset d;
  make_line(&d, 1);
  double losses[3], distance = 0;
  int calls = 0;
  for (int kind = 0; kind < 3; kind++) { /* by name; its own; its own with servers */
    const shoal_own_metric metric = {"distance", distances, NULL};
    shoal_strategy *s = NULL;
    shoal_model *m;
    shoal_evaluation e;
    const char *name;
    if (kind == 2) assert_ok(shoal_strategy_create_local_ps(2, 1, NULL, &s));
    assert_ok(shoal_model_create(SHOAL_SHAPE(3), &m));
    shoal_model_dense(m, 1, NULL);
    shoal_compile_options o = {
        .schedule = {.rate = 0.1}, .threads = 1, .strategy = s, .own_metrics = &metric, .own_metric_count = 1};
    if (kind) {
      o.own_loss = squares;
      o.own_context = &calls;
      o.own_targets = true;
    } else {
      o.loss = "mse";
    }
    assert_ok(shoal_model_compile(m, &o));
    assert_ok(shoal_model_fit(m, &d, &(shoal_fit_options){.epochs = 3, .batch_size = s ? 6 : 12, .strategy = s}, NULL));
    assert_ok(shoal_model_evaluate(m, &d, &e));
    losses[kind] = e.loss;
    assert_true(shoal_model_figure(m, 0, &name, &distance));
    assert_string_equal(name, "distance");
    assert_true(fabs(distance - e.mae) < 1e-5);
    assert_false(shoal_model_figure(m, 1, &name, &distance));
    shoal_model_destroy(m);
    shoal_strategy_destroy(s);
  }
  assert_true(calls > 0);
  assert_true(fabs(losses[1] - losses[0]) < 1e-6);
  assert_true(fabs(losses[2] - losses[0]) < 1e-5);
  shoal_model *m;
  assert_ok(shoal_model_create(SHOAL_SHAPE(3), &m));
  shoal_model_dense(m, 1, NULL);
  shoal_status status = shoal_model_compile(m, &(shoal_compile_options){.own_loss = all_rows, .own_targets = true});
  assert_non_null(strstr(shoal_status_message(status), "a number for each row"));
  shoal_status_free(status);
  shoal_model_destroy(m);
  data_free(&d);
}

/* ---- several outputs */

static shoal_model *make_two(void) {
  static const char *const file =
      "{\"shoal_model\": 1, \"inputs\": [{\"shape\": [3]}], \"layers\": ["
      "{\"name\": \"h\", \"type\": \"dense\", \"units\": 8, \"activation\": \"tanh\"},"
      "{\"name\": \"price\", \"type\": \"dense\", \"units\": 1, \"inputs\": \"h\"},"
      "{\"name\": \"kind\", \"type\": \"dense\", \"units\": 2, \"activation\": \"softmax\", "
      "\"inputs\": \"h\"}], \"outputs\": [{\"layer\": \"price\", \"loss\": \"mse\"},"
      "{\"layer\": \"kind\", \"weight\": 0.5}]}";
  char path[] = "/tmp/shoal-two-XXXXXX.json";
  shoal_model_kind *kind;
  shoal_model *m;
  const int fd = mkstemps(path, 5);
  assert_true(write(fd, file, strlen(file)) == (ssize_t)strlen(file));
  close(fd);
  assert_ok(shoal_model_kind_load(path, &kind));
  assert_int_equal(kind->outputs, 2);
  assert_ok(shoal_model_kind_build(kind, NULL, NULL, &m));
  assert_ok(shoal_model_compile(
      m, &(shoal_compile_options){.optimizer = {.name = "adam"}, .schedule = {.rate = 0.02}, .threads = 1}));
  shoal_model_kind_destroy(kind);
  unlink(path);
  return m;
}

static double figure(const shoal_model *m, const char *wanted) {
  const char *name;
  double value;
  for (int i = 0; shoal_model_figure(m, i, &name, &value); i++)
    if (!strcmp(name, wanted)) return value;
  fail_msg("no figure is called %s", wanted);
  return NAN;
}

static void several_outputs(void **state) {
  shoal_dataset d;
  shoal_evaluation e;
  make_line(&d, 2);
  shoal_model *m = make_two();
  assert_int_equal(shoal_model_outputs(m), 3);
  assert_int_equal(shoal_model_classes(m), 0);
  assert_ok(shoal_model_fit(m, &d, &(shoal_fit_options){.epochs = 30, .batch_size = 8}, NULL));
  assert_ok(shoal_model_evaluate(m, &d, &e));
  assert_true(figure(m, "price_mae") < 0.2);
  assert_true(figure(m, "kind_accuracy") > 0.9);
  assert_true(fabs(e.loss - figure(m, "price_loss") - 0.5 * figure(m, "kind_loss")) < 1e-4);
  shoal_tensor out;
  assert_ok(shoal_tensor_create(SHOAL_F32, SHOAL_SHAPE(ROWS, 3), &out));
  assert_ok(shoal_model_predict(m, &d.features, &out));
  const float *p = out.data; /* [ROWS, 3]: price, then probabilities */
  assert_true(fabs((double)(p[1] + p[2]) - 1) < 1e-5);
  ((float *)d.labels.data)[1] = 2; /* not one of two classes */
  shoal_status status = shoal_model_evaluate(m, &d, &e);
  assert_int_equal(shoal_status_code(status), SHOAL_ERR_INPUT);
  assert_non_null(strstr(shoal_status_message(status), "class of output kind"));
  shoal_status_free(status);
  shoal_tensor_fini(&out);
  shoal_model_destroy(m);
  data_free(&d);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(trains_like_any_other),
      cmocka_unit_test(predicts_without_dropout),
      cmocka_unit_test(what_does_not_fit_is_named),
      cmocka_unit_test(own_losses_and_metrics),
      cmocka_unit_test(several_outputs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
