/* Conditions and loops: values, gradients against differences, errors, and the way through a GraphDef. */
#include "graph/graphdef.h"
#include "shoal/shoal.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void ok(shoal_status status) {
  if (!status) return;
  print_error("%s\n", shoal_status_message(status));
  shoal_status_free(status);
  fail();
}

static void refused(shoal_status status, const char *words) {
  assert_non_null(status);
  if (!strstr(shoal_status_message(status), words)) {
    print_error("expected '%s', got: %s\n", words, shoal_status_message(status));
    fail();
  }
  shoal_status_free(status);
}

/* ---- a condition: tanh(x w) or x^2 + b */

static void first_branch(shoal_graph *g, shoal_value *const *in, int n_in, shoal_value **out, int n_out,
                         void *context) {
  out[0] = shoal_tanh(g, shoal_matmul(g, in[0], in[1], false, false));
  out[1] = shoal_reduce_sum(g, out[0], SHOAL_SCALAR, false);
}

static void second_branch(shoal_graph *g, shoal_value *const *in, int n_in, shoal_value **out, int n_out,
                          void *context) {
  out[0] = shoal_bias_add(g, shoal_square(g, in[0]), in[2]);
  out[1] = shoal_reduce_sum(g, in[2], SHOAL_SCALAR, false);
}

/* ---- a loop: while i < count: x = tanh(x w) + b, i = i + 1 */

static void more_rounds(shoal_graph *g, shoal_value *const *in, int n_in, shoal_value **out, int n_out, void *context) {
  out[0] = shoal_less(g, in[0], in[2]);
}

static void one_round(shoal_graph *g, shoal_value *const *in, int n_in, shoal_value **out, int n_out, void *context) {
  out[0] = shoal_add(g, in[0], shoal_scalar(g, SHOAL_I32, 1));
  out[1] = shoal_bias_add(g, shoal_tanh(g, shoal_matmul(g, in[1], in[3], false, false)), in[4]);
}

enum { ROWS = 3, WIDTH = 2 };

typedef struct {
  shoal_graph *graph;
  shoal_value *which, *count, *x, *w, *b, *y, *loss;
  shoal_gradient d[3];
  double xs[ROWS * WIDTH], ws[WIDTH * WIDTH], bs[WIDTH];
} model;

static void make_model(model *m, bool loop) {
  *m = (model){.xs = {0.3, -0.2, 0.5, 0.9, -0.7, 0.1}, .ws = {0.8, -0.3, 0.4, 0.6}, .bs = {0.1, -0.2}};
  ok(shoal_graph_create(&m->graph));
  shoal_graph *g = m->graph;
  m->which = shoal_placeholder(g, "which", SHOAL_BOOL, SHOAL_SCALAR);
  m->count = shoal_placeholder(g, "count", SHOAL_I32, SHOAL_SCALAR);
  m->x = shoal_placeholder(g, "x", SHOAL_F64, SHOAL_SHAPE(SHOAL_UNKNOWN, WIDTH));
  m->w = shoal_placeholder(g, "w", SHOAL_F64, SHOAL_SHAPE(WIDTH, WIDTH));
  m->b = shoal_placeholder(g, "b", SHOAL_F64, SHOAL_SHAPE(WIDTH));
  if (loop) {
    shoal_value *vars[] = {shoal_scalar(g, SHOAL_I32, 0), m->x}, *fixed[] = {m->count, m->w, m->b};
    shoal_value *end = shoal_while(g, vars, 2, fixed, 3, more_rounds, one_round, 50, NULL);
    m->y = shoal_value_output(end, 1);
    m->loss = shoal_reduce_sum(g, shoal_square(g, m->y), SHOAL_SCALAR, false);
  } else {
    shoal_value *in[] = {m->x, m->w, m->b};
    m->y = shoal_cond(g, m->which, in, 3, first_branch, second_branch, 2, NULL);
    m->loss = shoal_add(g, shoal_reduce_sum(g, shoal_square(g, m->y), SHOAL_SCALAR, false),
                        shoal_square(g, shoal_value_output(m->y, 1)));
  }
  shoal_name_next(g, "loss");
  m->loss = shoal_identity(g, m->loss);
  ok(shoal_gradients(g, m->loss, (shoal_value *[]){m->x, m->w, m->b}, 3, m->d));
}

static int feeds_of(model *m, uint8_t *which, int32_t *count, shoal_feed *f) {
  f[0] = (shoal_feed){m->x, shoal_tensor_view(SHOAL_F64, SHOAL_SHAPE(ROWS, WIDTH), m->xs)};
  f[1] = (shoal_feed){m->w, shoal_tensor_view(SHOAL_F64, SHOAL_SHAPE(WIDTH, WIDTH), m->ws)};
  f[2] = (shoal_feed){m->b, shoal_tensor_view(SHOAL_F64, SHOAL_SHAPE(WIDTH), m->bs)};
  f[3] = (shoal_feed){m->which, shoal_tensor_view(SHOAL_BOOL, SHOAL_SCALAR, which)};
  f[4] = (shoal_feed){m->count, shoal_tensor_view(SHOAL_I32, SHOAL_SCALAR, count)};
  return 5;
}

static void check_gradients(model *m, shoal_session *s, uint8_t which, int32_t count) {
  shoal_feed f[5];
  int n = feeds_of(m, &which, &count, f);
  shoal_value *grads[] = {m->d[0].value, m->d[1].value, m->d[2].value};
  shoal_tensor got[3];
  ok(shoal_session_run(s, f, n, grads, 3, got));
  double kept[3][ROWS * WIDTH];
  for (int i = 0; i < 3; i++) memcpy(kept[i], got[i].data, shoal_tensor_bytes(&got[i]));
  for (int i = 0; i < 3; i++)
    for (int64_t k = 0; k < shoal_tensor_count(&f[i].tensor); k++) {
      double *at = (double *)f[i].tensor.data + k, old = *at, step = 1e-5, loss[2];
      for (int side = 0; side < 2; side++) {
        shoal_tensor out;
        *at = old + (side ? step : -step);
        ok(shoal_session_run(s, f, n, &m->loss, 1, &out));
        loss[side] = shoal_tensor_get(&out, 0);
      }
      *at = old;
      assert_float_equal(kept[i][k], (loss[1] - loss[0]) / (2 * step), 1e-7);
    }
}

static void gradients(void **state) {
  (void)state;
  for (int reference = 0; reference < 2; reference++) {
    model m;
    shoal_session *s;
    make_model(&m, false);
    ok(shoal_session_create(m.graph, &(shoal_session_options){.threads = 2, .no_fusion = reference}, &s));
    check_gradients(&m, s, 1, 0);
    check_gradients(&m, s, 0, 0);
    shoal_session_destroy(s);
    shoal_graph_destroy(m.graph);
    make_model(&m, true);
    ok(shoal_session_create(m.graph, &(shoal_session_options){.threads = 2, .no_fusion = reference}, &s));
    static const int32_t rounds[] = {0, 1, 2, 7, 40};
    for (int i = 0; i < 5; i++) check_gradients(&m, s, 0, rounds[i]);
    shoal_session_destroy(s);
    shoal_graph_destroy(m.graph);
  }
}

static void values(void **state) {
  (void)state;
  model m;
  shoal_session *s;
  shoal_tensor out;
  make_model(&m, true);
  ok(shoal_session_create(m.graph, NULL, &s));
  uint8_t which = 0;
  int32_t count = 3;
  shoal_feed f[5];
  int n = feeds_of(&m, &which, &count, f);
  double x[ROWS * WIDTH];
  memcpy(x, m.xs, sizeof x);
  for (int round = 0; round < count; round++)
    for (int r = 0; r < ROWS; r++) {
      double a = x[2 * r], c = x[2 * r + 1];
      x[2 * r] = tanh(a * m.ws[0] + c * m.ws[2]) + m.bs[0];
      x[2 * r + 1] = tanh(a * m.ws[1] + c * m.ws[3]) + m.bs[1];
    }
  ok(shoal_session_run(s, f, n, &m.y, 1, &out));
  for (int i = 0; i < ROWS * WIDTH; i++) assert_float_equal(shoal_tensor_get(&out, i), x[i], 1e-12);
  count = 51;
  refused(shoal_session_run(s, f, n, &m.y, 1, &out),
          "while 'while' of i32[], f64[3,2], i32[]: the loop has not ended after 50 iterations");
  count = 50;
  ok(shoal_session_run(s, f, n, &m.y, 1, &out));
  shoal_session_destroy(s);
  shoal_graph_destroy(m.graph);
}

/* ---- a loop that exchanges its variables: while i < count: x, y, z = y, x + w, x */

static void exchange(shoal_graph *g, shoal_value *const *in, int n_in, shoal_value **out, int n_out, void *context) {
  out[0] = shoal_add(g, in[0], shoal_scalar(g, SHOAL_I32, 1));
  out[1] = in[2];
  out[2] = shoal_add(g, in[1], in[4]);
  out[3] = in[1];
}

static void fewer(shoal_graph *g, shoal_value *const *in, int n_in, shoal_value **out, int n_out, void *context) {
  out[0] = shoal_less(g, in[0], in[5]);
}

static void exchanged(void **state) {
  (void)state;
  shoal_graph *g;
  shoal_session *s;
  ok(shoal_graph_create(&g));
  shoal_value *count = shoal_placeholder(g, "count", SHOAL_I32, SHOAL_SCALAR), *in[4];
  for (int i = 0; i < 4; i++) in[i] = shoal_placeholder(g, NULL, SHOAL_F64, SHOAL_SHAPE(2));
  shoal_value *vars[] = {shoal_scalar(g, SHOAL_I32, 0), in[0], in[1], in[2]}, *fixed[] = {in[3], count};
  shoal_value *end = shoal_while(g, vars, 4, fixed, 2, fewer, exchange, 20, NULL), *loss = NULL, *fetches[8];
  for (int i = 0; i < 3; i++) {
    shoal_value *weighed = shoal_scale(g, shoal_square(g, shoal_value_output(end, i + 1)), i + 1);
    loss = loss ? shoal_add(g, loss, weighed) : weighed;
    fetches[i] = shoal_value_output(end, i + 1);
  }
  loss = shoal_reduce_sum(g, loss, SHOAL_SCALAR, false);
  shoal_gradient d[4];
  ok(shoal_gradients(g, loss, in, 4, d));
  for (int i = 0; i < 4; i++) fetches[3 + i] = d[i].value;
  fetches[7] = loss;
  ok(shoal_session_create(g, NULL, &s));
  for (int32_t rounds = 0; rounds < 6; rounds++) {
    double numbers[4][2] = {{0.3, -1}, {2, 0.7}, {-0.4, 5}, {0.25, -0.5}}, now[3][2], kept[4][2];
    memcpy(now, numbers, sizeof now);
    for (int r = 0; r < rounds; r++)
      for (int k = 0; k < 2; k++) {
        double x = now[0][k], y = now[1][k];
        now[0][k] = y;
        now[1][k] = x + numbers[3][k];
        now[2][k] = x;
      }
    shoal_feed feeds[5] = {{count, shoal_tensor_view(SHOAL_I32, SHOAL_SCALAR, &rounds)}};
    for (int i = 0; i < 4; i++)
      feeds[1 + i] = (shoal_feed){in[i], shoal_tensor_view(SHOAL_F64, SHOAL_SHAPE(2), numbers[i])};
    shoal_tensor out[8];
    ok(shoal_session_run(s, feeds, 5, fetches, 8, out));
    for (int i = 0; i < 3; i++)
      for (int k = 0; k < 2; k++) assert_float_equal(shoal_tensor_get(&out[i], k), now[i][k], 1e-12);
    for (int i = 0; i < 4; i++) memcpy(kept[i], out[3 + i].data, sizeof kept[i]);
    for (int i = 0; i < 4; i++)
      for (int k = 0; k < 2; k++) {
        double old = numbers[i][k], losses[2];
        for (int side = 0; side < 2; side++) {
          numbers[i][k] = old + (side ? 1e-5 : -1e-5);
          ok(shoal_session_run(s, feeds, 5, &loss, 1, out));
          losses[side] = shoal_tensor_get(&out[0], 0);
        }
        numbers[i][k] = old;
        assert_float_equal(kept[i][k], (losses[1] - losses[0]) / 2e-5, 1e-6);
      }
  }
  shoal_session_destroy(s);
  shoal_graph_destroy(g);
}

/* Loops and conditions inside each other, written down and read again. */
static void inner(shoal_graph *g, shoal_value *const *in, int n_in, shoal_value **out, int n_out, void *context) {
  shoal_value *vars[] = {shoal_scalar(g, SHOAL_I32, 0), in[0]}, *fixed[] = {in[1], in[2], in[3]};
  out[0] = shoal_value_output(shoal_while(g, vars, 2, fixed, 3, more_rounds, one_round, 10, NULL), 1);
}

static void same(shoal_graph *g, shoal_value *const *in, int n_in, shoal_value **out, int n_out, void *context) {
  out[0] = shoal_dropout(g, in[0], 0.5);
}

static void nested(void **state) {
  (void)state;
  model m;
  make_model(&m, true);
  shoal_graph *g = m.graph, *again;
  shoal_value *in[] = {m.x, m.count, m.w, m.b};
  shoal_name_next(g, "outer");
  shoal_value *y = shoal_cond(g, m.which, in, 4, inner, same, 1, NULL);
  shoal_gradient d;
  ok(shoal_gradients(g, shoal_reduce_sum(g, y, SHOAL_SCALAR, false), &m.x, 1, &d));
  shoal_name_next(g, "dx");
  shoal_identity(g, d.value);
  proto bytes = {0};
  ok(graphdef_write(g, 0, &bytes));
  ok(shoal_graph_create(&again));
  ok(graphdef_read(again, bytes.bytes, bytes.length));
  for (uint8_t which = 0; which < 2; which++) {
    double got[2][2][ROWS * WIDTH];
    for (int k = 0; k < 2; k++) {
      shoal_graph *graph = k ? again : g;
      shoal_session *s;
      shoal_feed f[5];
      int32_t count = 4;
      int n = feeds_of(&m, &which, &count, f);
      static const char *const names[] = {"x", "w", "b", "which", "count"};
      for (int i = 0; i < n; i++) f[i].value = shoal_graph_find(graph, names[i]);
      shoal_value *fetches[] = {shoal_graph_find(graph, "outer"), shoal_graph_find(graph, "dx")};
      shoal_tensor out[2];
      ok(shoal_session_create(graph, &(shoal_session_options){.threads = 1, .seed = 4}, &s));
      ok(shoal_session_run(s, f, n, fetches, 2, out));
      for (int i = 0; i < 2; i++) memcpy(got[k][i], out[i].data, sizeof got[k][i]);
      shoal_session_destroy(s);
    }
    assert_memory_equal(got[0], got[1], sizeof got[0]);
    if (!which) /* dropout: the gradient must have met the same mask */
      for (int i = 0; i < ROWS * WIDTH; i++) assert_float_equal(got[0][0][i], got[0][1][i] * m.xs[i], 1e-12);
  }
  proto_fini(&bytes);
  shoal_graph_destroy(again);
  shoal_graph_destroy(g);
}

static void narrow(shoal_graph *g, shoal_value *const *in, int n_in, shoal_value **out, int n_out, void *context) {
  out[0] = shoal_reduce_sum(g, in[0], SHOAL_SHAPE(1), false);
}

static void with_variable(shoal_graph *g, shoal_value *const *in, int n_in, shoal_value **out, int n_out,
                          void *context) {
  out[0] = shoal_bias_add(g, in[0], shoal_variable(g, "v", shoal_fill(g, SHOAL_F32, SHOAL_SHAPE(2), 0)));
}

static void errors(void **state) {
  (void)state;
  static const struct {
    shoal_function yes, no;
    const char *words;
  } cases[] = {{same, narrow, "result 0 is f32[?,2] in the first branch and f32[?] in the second"},
               {same, with_variable, "the second branch: 'v': variables cannot be made or changed inside"}};
  for (size_t i = 0; i < 2; i++) {
    shoal_graph *g;
    ok(shoal_graph_create(&g));
    shoal_value *which = shoal_placeholder(g, "which", SHOAL_BOOL, SHOAL_SCALAR);
    shoal_value *x = shoal_placeholder(g, "x", SHOAL_F32, SHOAL_SHAPE(SHOAL_UNKNOWN, 2));
    assert_null(shoal_cond(g, which, &x, 1, cases[i].yes, cases[i].no, 1, NULL));
    refused(shoal_graph_status(g), cases[i].words);
    shoal_graph_destroy(g);
  }
  shoal_graph *g;
  ok(shoal_graph_create(&g));
  shoal_value *x = shoal_placeholder(g, "x", SHOAL_F32, SHOAL_SHAPE(4, 2));
  assert_null(shoal_while(g, &x, 1, NULL, 0, same, narrow, 5, NULL));
  refused(shoal_graph_status(g), "the condition must be one bool, not f32[4,2]");
  shoal_graph_destroy(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(values), cmocka_unit_test(gradients), cmocka_unit_test(nested),
                                     cmocka_unit_test(exchanged), cmocka_unit_test(errors)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
