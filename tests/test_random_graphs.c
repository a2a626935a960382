/* Random graphs: whatever the planner makes of one, with any number of threads and rows, must come to what the
 * reference kernels come to, one operator at a time. Fixed seeds; a failing one is printed and can be run alone by
 * SHOAL_TEST_SEED. */
#include "base/random.h"
#include "exec/session.h"
#include "shoal/shoal.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

enum { GRAPHS = 400, VALUES_MAX = 64, VARIABLES_MAX = 24, FETCHES_MAX = 40, ROWS_MAX = 80 };

static void ok(shoal_status status) {
  if (!status) return;
  print_error("%s\n", shoal_status_message(status));
  shoal_status_free(status);
  fail();
}

typedef struct {
  random_stream numbers;
  uint64_t drawn;
  shoal_graph *graph;
  shoal_value *x, *y;
  shoal_value *made[VALUES_MAX]; /* batched f32 values of rank 2 or 4 */
  int n_made;
  shoal_value *variables[VARIABLES_MAX];
  int n_variables;
  shoal_value *fetches[FETCHES_MAX];
  int n_fetches;
} builder;

static int draw(builder *b, int bound) { return (int)random_below(&b->numbers, b->drawn++, (uint64_t)bound); }

static shoal_value *variable(builder *b, shoal_shape shape) {
  shoal_value *v = shoal_variable(b->graph, "v", shoal_random_uniform(b->graph, shape, -0.4, 0.4));
  b->variables[b->n_variables++] = v;
  return v;
}

static shoal_value *some(builder *b) { /* later ones more often: deep rather than wide */
  int i = draw(b, b->n_made), j = draw(b, b->n_made);
  return b->made[i > j ? i : j];
}

/* Another value of the same shape, or the same one. */
static shoal_value *alike(builder *b, shoal_value *v) {
  shoal_shape s = shoal_value_shape(v);
  for (int tries = 0; tries < 8; tries++) {
    shoal_value *w = some(b);
    shoal_shape t = shoal_value_shape(w);
    if (shoal_shape_equal(&s, &t)) return w;
  }
  return v;
}

static shoal_value *grow(builder *b) {
  shoal_graph *g = b->graph;
  shoal_value *v = some(b);
  shoal_shape s = shoal_value_shape(v);
  int64_t last = s.dim[s.rank - 1];
  bool room = b->n_variables + 2 <= VARIABLES_MAX;
  switch (draw(b, 26)) {
    case 0: return shoal_relu(g, v);
    case 1: return shoal_tanh(g, v);
    case 2: return shoal_sigmoid(g, v);
    case 3: return shoal_add(g, v, alike(b, v));
    case 4: return shoal_mul(g, v, alike(b, v));
    case 5: return shoal_sub(g, shoal_scale(g, v, 0.5), alike(b, v));
    case 6: return room ? shoal_bias_add(g, v, variable(b, SHOAL_SHAPE(last))) : v;
    case 7: return shoal_flatten(g, v);
    case 8: return s.rank == 2 ? shoal_softmax(g, v) : shoal_abs(g, v);
    case 9: return shoal_stop_gradient(g, v);
    case 10: return shoal_clip(g, v, -0.7, 0.7);
    case 11: return shoal_dropout(g, v, 0.8);
    case 12: /* the mean over rows, and back: needs the whole batch in between */
      return shoal_sub(g, v, shoal_reduce_mean(g, v, SHOAL_SHAPE(0), true));
    case 13:
    case 14:
      if (s.rank == 2 && room) {
        v = shoal_matmul(g, v, variable(b, SHOAL_SHAPE(last, 3 + draw(b, 20))), false, false);
        return draw(b, 2) ? shoal_bias_add(g, v, variable(b, SHOAL_SHAPE(shoal_value_shape(v).dim[1]))) : v;
      }
      return shoal_square(g, v);
    case 15: return draw(b, 2) ? shoal_gelu(g, v) : shoal_silu(g, v);
    case 16: { /* continuous, so that rounding cannot decide much */
      shoal_value *other = alike(b, v);
      return shoal_where(g, shoal_less(g, v, other), v, other);
    }
    case 17: return shoal_layer_norm(g, v, 1, room ? variable(b, SHOAL_SHAPE(last)) : NULL, NULL, 0.01);
    case 18: return shoal_sub(g, v, shoal_reduce_max(g, v, SHOAL_SHAPE(-1), true));
    case 19: /* channels in the opposite order */
      return shoal_index(g, shoal_stack(g, (shoal_value *[]){v, shoal_reverse(g, v, SHOAL_SHAPE(-1))}, 2, 1), 1, 1);
    case 20: return s.rank == 2 ? shoal_cumsum(g, shoal_scale(g, v, 0.3), 1, false, draw(b, 2)) : shoal_softsign(g, v);
    case 21: /* a dense layer on each place */
      return room && s.rank == 4 ? shoal_matmul(g, v, variable(b, SHOAL_SHAPE(last, last)), false, false) : v;
    default:
      if (s.rank == 4 && room && s.dim[1] >= 3 && s.dim[2] >= 3) {
        int size = 1 + draw(b, 3), stride = 1 + (draw(b, 4) == 0);
        int64_t groups = draw(b, 4) == 0 ? last : 1, outputs = groups * (1 + draw(b, groups > 1 ? 2 : 8));
        shoal_window how = {.stride = {stride, stride},
                            .groups = groups,
                            .dilation = {1 + (draw(b, 6) == 0), 1},
                            .padding = draw(b, 2) || size == 3 ? SHOAL_SAME : SHOAL_VALID};
        v = shoal_convolution(g, v, variable(b, SHOAL_SHAPE(size, size, last / groups, outputs)), &how);
        if (draw(b, 4)) v = shoal_bias_add(g, v, variable(b, SHOAL_SHAPE(shoal_value_shape(v).dim[3])));
        if (draw(b, 4)) v = draw(b, 2) ? shoal_relu(g, v) : shoal_tanh(g, v);
        s = shoal_value_shape(v);
        if (draw(b, 2) && s.dim[1] >= 3 && s.dim[2] >= 3) {
          int window = 2 + (draw(b, 4) == 0);
          v = draw(b, 2) ? shoal_max_pool(g, v, window, 2, SHOAL_VALID) : shoal_avg_pool(g, v, window, 2, SHOAL_VALID);
        }
        return v;
      }
      return shoal_tanh(g, v);
  }
}

static void build(uint64_t seed, builder *b) {
  *b = (builder){.numbers = random_stream_make(seed, 77)};
  ok(shoal_graph_create(&b->graph));
  shoal_graph *g = b->graph;
  bool bytes = draw(b, 2);
  b->x = shoal_placeholder(g, "x", bytes ? SHOAL_U8 : SHOAL_F32, SHOAL_SHAPE(SHOAL_UNKNOWN, 8, 7, 2));
  b->y = shoal_placeholder(g, "y", SHOAL_I32, SHOAL_SHAPE(SHOAL_UNKNOWN));
  b->made[b->n_made++] = bytes ? shoal_scale(g, shoal_cast(g, b->x, SHOAL_F32), 1.0 / 255) : b->x;
  int nodes = 3 + draw(b, 14);
  for (int i = 0; i < nodes; i++) {
    shoal_value *v = grow(b);
    ok(shoal_graph_status(g));
    b->made[b->n_made++] = v;
  }
  shoal_value *logits = shoal_flatten(g, b->made[b->n_made - 1]);
  logits = shoal_matmul(g, logits, variable(b, SHOAL_SHAPE(shoal_value_shape(logits).dim[1], 5)), false, false);
  logits = shoal_bias_add(g, logits, variable(b, SHOAL_SHAPE(5)));
  shoal_value *loss = shoal_reduce_mean(g, shoal_sparse_softmax_cross_entropy(g, logits, b->y), SHOAL_SCALAR, false);
  ok(shoal_graph_status(g));
  b->fetches[b->n_fetches++] = loss;
  if (draw(b, 2)) b->fetches[b->n_fetches++] = logits;
  for (int i = 0; i < 3; i++)
    if (draw(b, 2)) b->fetches[b->n_fetches++] = some(b); /* what is looked at cannot be fused away */
  shoal_gradient gradients[VARIABLES_MAX];
  ok(shoal_gradients(g, loss, b->variables, b->n_variables, gradients));
  for (int i = 0; i < b->n_variables; i++)
    if (gradients[i].value) b->fetches[b->n_fetches++] = gradients[i].value;
}

static void compare(uint64_t seed, const shoal_tensor *want, const shoal_tensor *got, int fetch, const char *how) {
  int64_t n = shoal_tensor_count(want);
  assert_int_equal(n, shoal_tensor_count(got));
  double most = 1e-3;
  for (int64_t i = 0; i < n; i++) most = fmax(most, fabs(shoal_tensor_get(want, i)));
  for (int64_t i = 0; i < n; i++) {
    double a = shoal_tensor_get(want, i), b = shoal_tensor_get(got, i);
    if (fabs(a - b) <= 2e-3 * most || (isnan(a) && isnan(b))) continue;
    print_error("seed %llu, %s: fetch %d, element %lld is %g, not %g\n", (unsigned long long)seed, how, fetch,
                (long long)i, b, a);
    fail();
  }
}

static void run_graph(uint64_t seed) {
  builder b;
  build(seed, &b);
  static uint8_t bytes[ROWS_MAX * 112];
  static float floats[ROWS_MAX * 112];
  static int32_t labels[ROWS_MAX], order[ROWS_MAX];
  for (int i = 0; i < ROWS_MAX * 112; i++) {
    bytes[i] = (uint8_t)draw(&b, 256);
    floats[i] = (float)bytes[i] / 128 - 1;
  }
  for (int i = 0; i < ROWS_MAX; i++) {
    labels[i] = draw(&b, 5);
    order[i] = draw(&b, ROWS_MAX);
  }
  int64_t rows = 1 + draw(&b, ROWS_MAX);
  bool is_bytes = shoal_value_dtype(b.x) == SHOAL_U8;
  shoal_feed feeds[] = {
      {b.x, shoal_tensor_view(shoal_value_dtype(b.x), SHOAL_SHAPE(rows, 8, 7, 2), is_bytes ? (void *)bytes : floats)},
      {b.y, shoal_tensor_view(SHOAL_I32, SHOAL_SHAPE(rows), labels)}};
  if (draw(&b, 2)) feeds[0].tensor.rows = feeds[1].tensor.rows = order;

  shoal_session *reference;
  shoal_tensor want[FETCHES_MAX], got[FETCHES_MAX];
  ok(shoal_session_create(b.graph, &(shoal_session_options){.threads = 1, .seed = 5, .no_fusion = true}, &reference));
  ok(shoal_session_run(reference, feeds, 2, b.fetches, b.n_fetches, want));
  static const char *const kernels[] = {"generic", "avx2", "avx512"};
  for (int threads = 1; threads <= 3; threads++) {
    const char *level = kernels[threads == 1 ? (int)cpu_best() : draw(&b, (int)cpu_best() + 1)];
    shoal_session *s;
    ok(shoal_session_create(b.graph, &(shoal_session_options){.threads = threads, .seed = 5, .kernels = level}, &s));
    ok(shoal_session_run(s, feeds, 2, b.fetches, b.n_fetches, got));
    for (int i = 0; i < b.n_fetches; i++) compare(seed, &want[i], &got[i], i, level);
    shoal_session_destroy(s);
  }
  shoal_session_destroy(reference);
  shoal_graph_destroy(b.graph);
}

static void plans_equal_reference(void **state) {
  (void)state;
  const char *only = getenv("SHOAL_TEST_SEED");
  if (only) {
    run_graph(strtoull(only, NULL, 10));
    return;
  }
  for (uint64_t seed = 1; seed <= GRAPHS; seed++) run_graph(seed);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(plans_equal_reference)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
