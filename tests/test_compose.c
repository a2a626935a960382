/* Functions that are made of several operators: their results against plain loops, through a session. */
#include "shoal/shoal.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { NUMBERS = 4096 };

static void ok(shoal_status status) {
  if (!status) return;
  print_error("%s\n", shoal_status_message(status));
  shoal_status_free(status);
  fail();
}

typedef struct {
  shoal_graph *graph;
  shoal_session *session;
  double numbers[NUMBERS]; /* of the constants, one after the other */
  int used;
} setup;

static int start(void **state) {
  static setup s;
  s = (setup){0};
  ok(shoal_graph_create(&s.graph));
  for (int i = 0; i < NUMBERS; i++) s.numbers[i] = sin(1.7 * i + 0.3); /* between -1 and 1, none alike */
  *state = &s;
  return 0;
}

static int stop(void **state) {
  setup *s = *state;
  shoal_session_destroy(s->session);
  shoal_graph_destroy(s->graph);
  return 0;
}

/* A constant of the next numbers; *data: where they are. */
static shoal_value *constant(setup *s, shoal_shape shape, const double **data) {
  shoal_tensor t = shoal_tensor_view(SHOAL_F64, shape, s->numbers + s->used);
  *data = s->numbers + s->used;
  s->used += (int)shoal_shape_count(&shape);
  assert_true(s->used <= NUMBERS);
  return shoal_constant(s->graph, &t);
}

static shoal_tensor run(setup *s, shoal_value *v) {
  shoal_tensor t;
  ok(shoal_graph_status(s->graph));
  shoal_session_destroy(s->session);
  ok(shoal_session_create(s->graph, &(shoal_session_options){.threads = 1}, &s->session));
  ok(shoal_session_run(s->session, NULL, 0, &v, 1, &t));
  return t;
}

static void expect(const shoal_tensor *t, int64_t i, double value) {
  if (fabs(shoal_tensor_get(t, i) - value) > 1e-12 * fmax(1, fabs(value)))
    fail_msg("element %lld is %.17g, not %.17g", (long long)i, shoal_tensor_get(t, i), value);
}

static void expect_shape(const shoal_tensor *t, shoal_shape shape) {
  char a[SHOAL_SHAPE_TEXT], b[SHOAL_SHAPE_TEXT];
  if (!shoal_shape_equal(&t->shape, &shape))
    fail_msg("the shape is %s, not %s", shoal_shape_text(&t->shape, a), shoal_shape_text(&shape, b));
}

/* ---- einsum: every result element is the sum over all indices of the labels that are not in it */

enum { LABELS = 26 };

typedef struct {
  const char *labels[4]; /* of the operands, then of the result */
  int n;
  int64_t size[LABELS];
} sums;

static int64_t place(const sums *e, const char *labels, const int64_t *index) {
  int64_t at = 0;
  for (; *labels; labels++) at = at * e->size[*labels - 'a'] + index[*labels - 'a'];
  return at;
}

static void check_einsum(void **state, const char *equation, const char *labels[], int n, const char *out) {
  setup *s = *state;
  sums e = {.n = n};
  shoal_value *x[3];
  const double *data[3];
  double expected[512] = {0};
  char used[LABELS + 1] = "";
  for (int c = 0; c < LABELS; c++) e.size[c] = 2 + c % 3;
  for (int i = 0; i < n; i++) {
    shoal_shape shape = {0};
    for (const char *c = labels[i]; *c; c++) {
      shape.dim[shape.rank++] = e.size[*c - 'a'];
      if (!strchr(used, *c)) used[strlen(used)] = *c;
    }
    x[i] = constant(s, shape, &data[i]);
  }
  int64_t index[LABELS] = {0};
  for (bool more = true; more;) {
    double product = 1;
    for (int i = 0; i < n; i++) product *= data[i][place(&e, labels[i], index)];
    expected[place(&e, out, index)] += product;
    more = false;
    for (const char *c = used; *c && !more; c++) {
      more = ++index[*c - 'a'] < e.size[*c - 'a'];
      if (!more) index[*c - 'a'] = 0;
    }
  }
  shoal_tensor y = run(s, shoal_einsum(s->graph, equation, x, n));
  shoal_shape shape = {0};
  for (const char *c = out; *c; c++) shape.dim[shape.rank++] = e.size[*c - 'a'];
  expect_shape(&y, shape);
  for (int64_t i = 0; i < shoal_tensor_count(&y); i++) expect(&y, i, expected[i]);
}

static void test_einsum(void **state) {
  check_einsum(state, "ij,jk->ik", (const char *[]){"ij", "jk"}, 2, "ik");
  check_einsum(state, "ij,kj->ki", (const char *[]){"ij", "kj"}, 2, "ki");
  check_einsum(state, "bhqd,bhkd->bhqk", (const char *[]){"bhqd", "bhkd"}, 2, "bhqk");
  check_einsum(state, "bqhd, bkhd -> bhqk", (const char *[]){"bqhd", "bkhd"}, 2, "bhqk");
  check_einsum(state, "abc,cd->da", (const char *[]){"abc", "cd"}, 2, "da"); /* b is summed over, too */
  check_einsum(state, "abcd,cdef->abef", (const char *[]){"abcd", "cdef"}, 2, "abef");
  check_einsum(state, "i,j", (const char *[]){"i", "j"}, 2, "ij");
  check_einsum(state, "ij,ij->", (const char *[]){"ij", "ij"}, 2, "");
  check_einsum(state, "ijk->kj", (const char *[]){"ijk"}, 1, "kj");
  check_einsum(state, "ab,bc,cd->ad", (const char *[]){"ab", "bc", "cd"}, 3, "ad");
  check_einsum(state, "...j,jk->...k", (const char *[]){"abj", "jk"}, 2, "abk");
  check_einsum(state, "a...,ab->b...", (const char *[]){"acd", "ab"}, 2, "bcd");
  check_einsum(state, "...ij,...kj", (const char *[]){"abij", "abkj"}, 2, "abik");
  check_einsum(state, "b,bi,bj->ij", (const char *[]){"b", "bi", "bj"}, 3, "ij");
}

static void expect_refused(const char *equation, int n, const char *message) {
  shoal_graph *g;
  ok(shoal_graph_create(&g));
  shoal_value *x[2] = {shoal_fill(g, SHOAL_F32, SHOAL_SHAPE(2, 3), 1), shoal_fill(g, SHOAL_F32, SHOAL_SHAPE(3, 4), 1)};
  assert_null(shoal_einsum(g, equation, x, n));
  shoal_status status = shoal_graph_status(g);
  assert_non_null(status);
  if (!strstr(shoal_status_message(status), message))
    fail_msg("\"%s\" does not say \"%s\"", shoal_status_message(status), message);
  shoal_status_free(status);
  shoal_graph_destroy(g);
}

static void test_einsum_refuses(void **state) {
  expect_refused("ij,jk->il", 2, "label 'l' of the result is not in any operand");
  expect_refused("ij->ik", 2, "labels for 2 operands");
  expect_refused("ijk,kl->il", 2, "has the labels \"ijk\"");
  expect_refused("ii,ij->j", 2, "label 'i' occurs twice");
  expect_refused("i.,jk->i", 2, "'.' is not a label");
  expect_refused("......,jk->j", 2, "'.' is not a label");
  expect_refused("...ijk,kl->il", 2, "has the labels \"ijk\"");
  expect_refused("ij,ik->jk", 2, "");
}

/* ---- parts and stacks */

static void test_stack_split_index(void **state) {
  setup *s = *state;
  const double *a, *b;
  shoal_value *x[] = {constant(s, SHOAL_SHAPE(2, 3), &a), constant(s, SHOAL_SHAPE(2, 3), &b)}, *part[2];
  shoal_value *stacked = shoal_stack(s->graph, x, 2, 1);
  shoal_tensor t = run(s, stacked);
  expect_shape(&t, SHOAL_SHAPE(2, 2, 3));
  for (int64_t i = 0; i < 12; i++) expect(&t, i, (i / 3 % 2 ? b : a)[i / 6 * 3 + i % 3]);
  t = run(s, shoal_index(s->graph, stacked, 1, -1));
  expect_shape(&t, SHOAL_SHAPE(2, 3));
  for (int64_t i = 0; i < 6; i++) expect(&t, i, b[i]);
  shoal_split_sizes(s->graph, stacked, (const int64_t[]){1, 2}, 2, -1, part);
  t = run(s, part[1]);
  expect_shape(&t, SHOAL_SHAPE(2, 2, 2));
  expect(&t, 3, b[2]);
  t = run(s, shoal_reverse(s->graph, x[0], SHOAL_SHAPE(1)));
  for (int64_t i = 0; i < 6; i++) expect(&t, i, a[i / 3 * 3 + 2 - i % 3]);
}

static void test_log_sum_exp(void **state) {
  setup *s = *state;
  const double *a;
  shoal_value *x = shoal_scale(s->graph, constant(s, SHOAL_SHAPE(3, 4), &a), 1000);
  shoal_tensor t = run(s, shoal_reduce_log_sum_exp(s->graph, x, SHOAL_SHAPE(1), false));
  expect_shape(&t, SHOAL_SHAPE(3));
  for (int i = 0; i < 3; i++) {
    double top = -INFINITY, sum = 0;
    for (int k = 0; k < 4; k++) top = fmax(top, 1000 * a[4 * i + k]);
    for (int k = 0; k < 4; k++) sum += exp(1000 * a[4 * i + k] - top);
    expect(&t, i, top + log(sum));
  }
}

/* ---- norms */

static void test_group_norm(void **state) {
  setup *s = *state;
  const double *x, *scale, *offset;
  shoal_value *in = constant(s, SHOAL_SHAPE(2, 3, 2, 6), &x);
  shoal_value *by = constant(s, SHOAL_SHAPE(6), &scale), *plus = constant(s, SHOAL_SHAPE(6), &offset);
  shoal_tensor t = run(s, shoal_group_norm(s->graph, in, 3, by, plus, 0.01));
  expect_shape(&t, SHOAL_SHAPE(2, 3, 2, 6));
  for (int e = 0; e < 72; e++) {
    double sum = 0, squares = 0;
    for (int k = e / 36 * 36; k < e / 36 * 36 + 36; k++)
      if (k % 6 / 2 == e % 6 / 2) {
        sum += x[k] / 12;
        squares += x[k] * x[k] / 12;
      }
    expect(&t, e, (x[e] - sum) / sqrt(squares - sum * sum + 0.01) * scale[e % 6] + offset[e % 6]);
  }
  t = run(s, shoal_rms_norm(s->graph, in, by, 0.01));
  double mean = 0;
  for (int k = 6; k < 12; k++) mean += x[k] * x[k] / 6;
  expect(&t, 7, x[7] / sqrt(mean + 0.01) * scale[1]);
}

/* ---- recurrent layers */

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

/* One unit, two features, no first state: all of it by hand. */
static void test_lstm(void **state) {
  setup *s = *state;
  const double *x, *w, *u, *bias;
  shoal_value *in = constant(s, SHOAL_SHAPE(1, 3, 2), &x);
  shoal_recurrent r = {.w = constant(s, SHOAL_SHAPE(2, 4), &w),
                       .u = constant(s, SHOAL_SHAPE(1, 4), &u),
                       .bias = constant(s, SHOAL_SHAPE(4), &bias)};
  shoal_tensor t = run(s, shoal_lstm(s->graph, in, &r));
  expect_shape(&t, SHOAL_SHAPE(1, 3, 1));
  double h = 0, c = 0;
  for (int i = 0; i < 3; i++) {
    double a[4];
    for (int k = 0; k < 4; k++) a[k] = x[2 * i] * w[k] + x[2 * i + 1] * w[4 + k] + h * u[k] + bias[k];
    c = sigmoid(a[1]) * c + sigmoid(a[0]) * tanh(a[2]);
    h = sigmoid(a[3]) * tanh(c);
    expect(&t, i, h);
  }
}

static void test_gru(void **state) {
  setup *s = *state;
  const double *x, *w, *u, *inner;
  shoal_value *in = constant(s, SHOAL_SHAPE(1, 3, 1), &x);
  shoal_recurrent r = {.w = constant(s, SHOAL_SHAPE(1, 3), &w),
                       .u = constant(s, SHOAL_SHAPE(1, 3), &u),
                       .inner_bias = constant(s, SHOAL_SHAPE(3), &inner),
                       .reverse = true};
  shoal_tensor t = run(s, shoal_gru(s->graph, in, &r));
  double h = 0;
  for (int i = 2; i >= 0; i--) {
    double z = sigmoid(x[i] * w[0] + h * u[0] + inner[0]), q = sigmoid(x[i] * w[1] + h * u[1] + inner[1]);
    h = (1 - z) * tanh(x[i] * w[2] + q * (h * u[2] + inner[2])) + z * h;
    expect(&t, i, h);
  }
}

/* Gates are kept for the gradient rule; a gradient through them is refused, not wrong. */
static void test_saved_outputs(void **state) {
  setup *s = *state;
  const double *x;
  shoal_recurrent r = {.w = constant(s, SHOAL_SHAPE(2, 4), &x), .u = constant(s, SHOAL_SHAPE(1, 4), &x)};
  shoal_value *y = shoal_lstm(s->graph, constant(s, SHOAL_SHAPE(1, 3, 2), &x), &r);
  shoal_gradient gradient;
  shoal_status status = shoal_gradients(s->graph, shoal_value_output(y, 2), &r.u, 1, &gradient);
  assert_non_null(status);
  assert_non_null(strstr(shoal_status_message(status), "no gradient flows through output 2 of lstm"));
  shoal_status_free(status);
}

/* ---- windows on images and sequences */

static void test_sequences(void **state) {
  setup *s = *state;
  const double *x, *w;
  shoal_value *in = constant(s, SHOAL_SHAPE(2, 7, 3), &x), *filter = constant(s, SHOAL_SHAPE(2, 3, 4), &w);
  /* Causal: the last tap is on the step itself. */
  shoal_window o = {.dilation = {2}, .before = {2}};
  shoal_tensor t = run(s, shoal_convolution(s->graph, in, filter, &o));
  expect_shape(&t, SHOAL_SHAPE(2, 7, 4));
  for (int e = 0; e < 56; e++) {
    int n = e / 28, i = e / 4 % 7, c = e % 4;
    double sum = 0;
    for (int p = 0; p < 2; p++)
      for (int k = 0; k < 3 && i + 2 * p - 2 >= 0; k++)
        sum += x[(n * 7 + i + 2 * p - 2) * 3 + k] * w[(p * 3 + k) * 4 + c];
    expect(&t, e, sum);
  }
  t = run(s, shoal_pool(s->graph, in, SHOAL_POOL_MAX, &(shoal_window){.size = {3}, .stride = {2}}));
  expect_shape(&t, SHOAL_SHAPE(2, 3, 3));
  expect(&t, 0, fmax(x[0], fmax(x[3], x[6])));
  t = run(s, shoal_global_pool(s->graph, in, SHOAL_POOL_AVG, false));
  expect_shape(&t, SHOAL_SHAPE(2, 3));
  expect(&t, 0, (x[0] + x[3] + x[6] + x[9] + x[12] + x[15] + x[18]) / 7);
  t = run(s, shoal_crop(s->graph, in, &(shoal_window){.before = {2}, .after = {1}}));
  expect_shape(&t, SHOAL_SHAPE(2, 4, 3));
  expect(&t, 0, x[6]);
}

static void test_images(void **state) {
  setup *s = *state;
  const double *x, *w, *point;
  shoal_value *in = constant(s, SHOAL_SHAPE(1, 4, 6, 2), &x), *filter = constant(s, SHOAL_SHAPE(3, 2, 2, 2), &w);
  shoal_window o = {.stride = {2, 3}, .padding = SHOAL_SAME};
  shoal_tensor t = run(s, shoal_depthwise_convolution(s->graph, in, filter, &o));
  expect_shape(&t, SHOAL_SHAPE(1, 2, 2, 4));
  /* Place (1, 1), channel 1, its second filter: rows 2 to 4, of which 4 is outside, columns 3 and 4. */
  double sum = 0;
  for (int p = 0; p < 2; p++)
    for (int q = 0; q < 2; q++) sum += x[((2 + p) * 6 + 3 + q) * 2 + 1] * w[((p * 2 + q) * 2 + 1) * 2 + 1];
  expect(&t, 15, sum);
  shoal_value *to_one = constant(s, SHOAL_SHAPE(1, 1, 4, 1), &point);
  shoal_tensor u = run(s, shoal_separable_convolution(s->graph, in, filter, to_one, &o));
  expect_shape(&u, SHOAL_SHAPE(1, 2, 2, 1));
  t = run(s, shoal_transposed_convolution(s->graph, in, filter, &o));
  expect_shape(&t, SHOAL_SHAPE(1, 8, 18, 2));
  t = run(s, shoal_transposed_convolution(s->graph, in, filter, &(shoal_window){.stride = {2, 3}}));
  expect_shape(&t, SHOAL_SHAPE(1, 9, 17, 2));
  t = run(s, shoal_pool(s->graph, in, SHOAL_POOL_AVG, &(shoal_window){.size = {1, 3}}));
  expect_shape(&t, SHOAL_SHAPE(1, 4, 2, 2));
  expect(&t, 3, (x[7] + x[9] + x[11]) / 3);
  t = run(s, shoal_upsample(s->graph, in, 2, 1, false));
  expect_shape(&t, SHOAL_SHAPE(1, 8, 6, 2));
  expect(&t, 12, x[0]);
  t = run(s, shoal_upsample(s->graph, in, 2, 2, true));
  expect_shape(&t, SHOAL_SHAPE(1, 8, 12, 2));
  expect(&t, 2, 0.75 * x[0] + 0.25 * x[2]);
}

/* ---- attention */

static double softmax_of(const double *scores, int n, int i) {
  double sum = 0;
  for (int k = 0; k < n; k++) sum += exp(scores[k]);
  return exp(scores[i]) / sum;
}

static void test_attention(void **state) {
  setup *s = *state;
  const double *q, *k, *v;
  enum { QUERIES = 3, KEYS = 4, DEPTH = 2, WIDTH = 5 };
  shoal_value *queries = constant(s, SHOAL_SHAPE(2, QUERIES, DEPTH), &q);
  shoal_value *keys = constant(s, SHOAL_SHAPE(2, KEYS, DEPTH), &k),
              *values = constant(s, SHOAL_SHAPE(2, KEYS, WIDTH), &v);
  for (int causal = 0; causal < 2; causal++) {
    shoal_tensor t = run(s, shoal_attention(s->graph, queries, keys, values, NULL, causal));
    expect_shape(&t, SHOAL_SHAPE(2, QUERIES, WIDTH));
    for (int e = 0; e < 2 * QUERIES * WIDTH; e++) {
      int n = e / WIDTH / QUERIES, i = e / WIDTH % QUERIES, seen = causal ? i + 2 : KEYS;
      double scores[KEYS], sum = 0;
      for (int j = 0; j < seen; j++) {
        scores[j] = 0;
        for (int d = 0; d < DEPTH; d++) scores[j] += q[(n * QUERIES + i) * DEPTH + d] * k[(n * KEYS + j) * DEPTH + d];
        scores[j] /= sqrt(DEPTH);
      }
      for (int j = 0; j < seen; j++) sum += softmax_of(scores, seen, j) * v[(n * KEYS + j) * WIDTH + e % WIDTH];
      expect(&t, e, sum);
    }
  }
}

/* Two heads whose projections pick parts of the features are two attentions side by side. */
static void test_heads(void **state) {
  setup *s = *state;
  const double *x;
  double unit[16] = {0};
  for (int i = 0; i < 4; i++) unit[5 * i] = 1;
  shoal_tensor identity = shoal_tensor_view(SHOAL_F64, SHOAL_SHAPE(4, 4), unit);
  shoal_value *in = constant(s, SHOAL_SHAPE(2, 3, 4), &x), *eye = shoal_constant(s->graph, &identity), *half[2];
  shoal_attention_weights w = {.q = eye, .k = eye, .v = eye, .out = eye};
  shoal_value *both = shoal_multi_head_attention(s->graph, in, in, in, 2, &w, NULL, true);
  shoal_split_sizes(s->graph, in, (const int64_t[]){2, 2}, 2, 2, half);
  for (int h = 0; h < 2; h++) half[h] = shoal_attention(s->graph, half[h], half[h], half[h], NULL, true);
  shoal_tensor t = run(s, shoal_sub(s->graph, both, shoal_concat(s->graph, half, 2, 2)));
  expect_shape(&t, SHOAL_SHAPE(2, 3, 4));
  for (int i = 0; i < 24; i++) expect(&t, i, 0);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)
  const struct CMUnitTest tests[] = {
      TEST(test_einsum),      TEST(test_einsum_refuses), TEST(test_stack_split_index),
      TEST(test_log_sum_exp), TEST(test_group_norm),     TEST(test_lstm),
      TEST(test_gru),         TEST(test_saved_outputs),  TEST(test_sequences),
      TEST(test_images),      TEST(test_attention),      TEST(test_heads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
