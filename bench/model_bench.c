/* Training steps of models people use, built as graphs: forward, backward and SGD on one batch of random numbers.
 *
 *   model_bench MODEL THREADS SECONDS
 *
 * MODEL: resnet18 (64x64x3, batch 32), lstm (28 features, 28 steps, 128 units, batch 64), transformer (one block: 128
 * features, 4 heads, length 64, batch 32), mlp (784-512-512-10, batch 128). Prints one line:
 * MODEL BATCH THREADS examples_per_second=N, of the best of many pieces. */
#include "base/clock.h"
#include "shoal/shoal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VARIABLES_MAX = 128, CLASSES = 10 };

/* A model under construction. */
typedef struct {
  shoal_graph *g;
  shoal_value *variables[VARIABLES_MAX];
  int n;
} build;

static void check(shoal_status status) {
  if (!status) return;
  fprintf(stderr, "model_bench: %s\n", shoal_status_message(status));
  exit(1);
}

static shoal_value *keep(build *b, shoal_value *v) { return b->variables[b->n++] = v; }

static shoal_value *weights(build *b, shoal_shape shape, double deviation) {
  return keep(b, shoal_variable(b->g, "w", shoal_random_normal(b->g, shape, 0, deviation)));
}

static shoal_value *filled(build *b, int64_t n, double value) {
  return keep(b, shoal_variable(b->g, "b", shoal_fill(b->g, SHOAL_F32, SHOAL_SHAPE(n), value)));
}

static shoal_value *dense(build *b, shoal_value *x, int64_t in, int64_t out) {
  return shoal_bias_add(b->g, shoal_matmul(b->g, x, weights(b, SHOAL_SHAPE(in, out), 0.05), false, false),
                        filled(b, out, 0));
}

/* ---- the models: logits [batch, CLASSES] of x */

static shoal_value *mlp(build *b, shoal_value *x) {
  x = shoal_relu(b->g, dense(b, x, 784, 512));
  x = shoal_relu(b->g, dense(b, x, 512, 512));
  return dense(b, x, 512, CLASSES);
}

static shoal_value *lstm(build *b, shoal_value *x) {
  enum { FEATURES = 28, STEPS = 28, UNITS = 128 };
  const shoal_recurrent r = {.w = weights(b, SHOAL_SHAPE(FEATURES, 4 * UNITS), 0.1),
                             .u = weights(b, SHOAL_SHAPE(UNITS, 4 * UNITS), 0.1),
                             .bias = filled(b, 4 * UNITS, 0)};
  return dense(b, shoal_index(b->g, shoal_lstm(b->g, x, &r), 1, STEPS - 1), UNITS, CLASSES);
}

/* Attention and two dense layers, each added to what goes in, which is normalised first. */
static shoal_value *transformer(build *b, shoal_value *x) {
  enum { WIDTH = 128, INNER = 512, HEADS = 4 };
  shoal_graph *g = b->g;
  const shoal_shape square = SHOAL_SHAPE(WIDTH, WIDTH);
  const shoal_attention_weights w = {.q = weights(b, square, 0.05),
                                     .k = weights(b, square, 0.05),
                                     .v = weights(b, square, 0.05),
                                     .out = weights(b, square, 0.05),
                                     .q_bias = filled(b, WIDTH, 0),
                                     .k_bias = filled(b, WIDTH, 0),
                                     .v_bias = filled(b, WIDTH, 0),
                                     .out_bias = filled(b, WIDTH, 0)};
  shoal_value *n = shoal_layer_norm(g, x, 1, filled(b, WIDTH, 1), filled(b, WIDTH, 0), 1e-5);
  x = shoal_add(g, x, shoal_multi_head_attention(g, n, n, n, HEADS, &w, NULL, false));
  n = shoal_layer_norm(g, x, 1, filled(b, WIDTH, 1), filled(b, WIDTH, 0), 1e-5);
  n = shoal_gelu(g, dense(b, n, WIDTH, INNER));
  x = shoal_add(g, x, dense(b, n, INNER, WIDTH));
  return dense(b, shoal_reduce_mean(g, x, SHOAL_SHAPE(1), false), WIDTH, CLASSES);
}

/* A convolution, padded as PyTorch does, and a batch norm. */
static shoal_value *conv_norm(build *b, shoal_value *x, int64_t in, int64_t out, int64_t size, int64_t stride) {
  const shoal_window o = {.stride = {stride, stride},
                          .before = {size / 2, size / 2},
                          .after = {size / 2, size / 2},
                          .padding = SHOAL_VALID};
  x = shoal_convolution(b->g, x, weights(b, SHOAL_SHAPE(size, size, in, out), 0.03), &o);
  return shoal_batch_norm(b->g, x, filled(b, out, 1), filled(b, out, 0), 1e-5);
}

static shoal_value *resnet18(build *b, shoal_value *x) {
  shoal_graph *g = b->g;
  x = shoal_relu(g, conv_norm(b, x, 3, 64, 7, 2));
  x = shoal_pool(
      g, x, SHOAL_POOL_MAX,
      &(shoal_window){.size = {3, 3}, .stride = {2, 2}, .before = {1, 1}, .after = {1, 1}, .padding = SHOAL_VALID});
  int64_t in = 64;
  for (int stage = 0; stage < 4; stage++)
    for (int block = 0; block < 2; block++) {
      const int64_t out = 64 << stage, stride = stage && !block ? 2 : 1;
      shoal_value *y = shoal_relu(g, conv_norm(b, x, in, out, 3, stride));
      y = conv_norm(b, y, out, out, 3, 1);
      if (in != out) x = conv_norm(b, x, in, out, 1, stride);
      x = shoal_relu(g, shoal_add(g, x, y));
      in = out;
    }
  return dense(b, shoal_global_pool(g, x, SHOAL_POOL_AVG, false), in, CLASSES);
}

static const struct {
  const char *name;
  int64_t batch;
  shoal_shape input; /* of one example */
  shoal_value *(*build)(build *b, shoal_value *x);
} models[] = {{"resnet18", 32, {3, {64, 64, 3}}, resnet18},
              {"lstm", 64, {2, {28, 28}}, lstm},
              {"transformer", 32, {2, {64, 128}}, transformer},
              {"mlp", 128, {1, {784}}, mlp}};

/* Pieces of a twentieth of the time; the best one counts. */
static double measure(shoal_session *s, const shoal_feed *feeds, shoal_value *const *fetches, double seconds,
                      int64_t batch) {
  shoal_tensor got[2];
  double best = 0;
  for (int i = 0; i < 3; i++) check(shoal_session_run(s, feeds, 2, fetches, 2, got));
  const double start = clock_seconds();
  while (clock_seconds() - start < seconds) {
    const double begun = clock_seconds();
    double took;
    int64_t runs = 0;
    do {
      check(shoal_session_run(s, feeds, 2, fetches, 2, got));
      runs++;
      took = clock_seconds() - begun;
    } while (took < seconds / 20);
    if ((double)(runs * batch) / took > best) best = (double)(runs * batch) / took;
  }
  return best;
}

static void run(size_t which, int threads, double seconds) {
  build b = {0};
  shoal_session *s;
  shoal_value *update;
  shoal_shape rows = {models[which].input.rank + 1, {SHOAL_UNKNOWN}}, whole;
  memcpy(rows.dim + 1, models[which].input.dim, sizeof(int64_t) * (size_t)models[which].input.rank);
  check(shoal_graph_create(&b.g));
  shoal_value *x = shoal_placeholder(b.g, "x", SHOAL_F32, rows);
  shoal_value *y = shoal_placeholder(b.g, "y", SHOAL_I32, SHOAL_SHAPE(SHOAL_UNKNOWN));
  shoal_value *losses = shoal_sparse_softmax_cross_entropy(b.g, models[which].build(&b, x), y);
  shoal_value *loss = shoal_reduce_mean(b.g, losses, SHOAL_SCALAR, false);
  check(shoal_minimize(b.g, NULL, loss, b.variables, b.n, shoal_scalar(b.g, SHOAL_F32, 1e-4), &update));
  check(shoal_session_create(b.g, &(shoal_session_options){.threads = threads}, &s));
  whole = rows;
  whole.dim[0] = models[which].batch;
  shoal_tensor features, labels;
  check(shoal_tensor_create(SHOAL_F32, whole, &features));
  check(shoal_tensor_create(SHOAL_I32, SHOAL_SHAPE(whole.dim[0]), &labels));
  srand(1);
  for (int64_t i = 0; i < shoal_tensor_count(&features); i++)
    ((float *)features.data)[i] = (float)rand() / (float)RAND_MAX;
  for (int64_t i = 0; i < whole.dim[0]; i++) ((int32_t *)labels.data)[i] = rand() % CLASSES;
  const shoal_feed feeds[] = {{x, features}, {y, labels}};
  shoal_value *fetches[] = {loss, update};
  printf("%s %lld %d examples_per_second=%.1f\n", models[which].name, (long long)models[which].batch, threads,
         measure(s, feeds, fetches, seconds, models[which].batch));
  shoal_session_destroy(s);
  shoal_graph_destroy(b.g);
  shoal_tensor_fini(&features);
  shoal_tensor_fini(&labels);
}

int main(int argc, char **argv) {
  for (size_t i = 0; argc == 4 && i < sizeof models / sizeof *models; i++)
    if (!strcmp(models[i].name, argv[1])) {
      run(i, atoi(argv[2]), atof(argv[3]));
      return 0;
    }
  fprintf(stderr, "usage: model_bench resnet18|lstm|transformer|mlp THREADS SECONDS\n");
  return 2;
}
