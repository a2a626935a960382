/* The planner and the executor: fused plans against the reference, threads, memory, feeds, guards, pruning. */
#include "base/random.h"
#include "exec/plan.h"
#include "exec/session.h"
#include "graph/graph.h"
#include "shoal/shoal.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_MAX 200
#define VARIABLES_MAX 16

static void ok(shoal_status status) {
  if (!status) return;
  print_error("%s\n", shoal_status_message(status));
  shoal_status_free(status);
  fail();
}

/* Takes a status that must be an error with these words in it. */
static void refused(shoal_status status, shoal_code code, const char *words) {
  assert_non_null(status);
  if (!strstr(shoal_status_message(status), words)) {
    print_error("'%s' is not in: %s\n", words, shoal_status_message(status));
    fail();
  }
  assert_int_equal(shoal_status_code(status), code);
  shoal_status_free(status);
}

/* ---- one model in several shapes */

typedef struct {
  const char *name;
  bool bytes; /* input u8, scaled */
  int convolutions;
  const char *activation;
  const char *pool; /* NULL: none */
  shoal_padding padding;
  int hidden; /* dense layers before the last */
  const char *optimizer;
  int classes;
} design;

typedef struct {
  shoal_graph *graph;
  shoal_value *x, *y, *rate, *loss, *logits, *update, *hits;
  shoal_value *variables[VARIABLES_MAX];
  int n;
} model;

static shoal_value *activate(shoal_graph *g, const char *name, shoal_value *x) {
  if (!strcmp(name, "relu")) return shoal_relu(g, x);
  if (!strcmp(name, "tanh")) return shoal_tanh(g, x);
  if (!strcmp(name, "sigmoid")) return shoal_sigmoid(g, x);
  return x;
}

static shoal_value *weights(model *m, shoal_shape shape) {
  shoal_value *v = shoal_variable(m->graph, "w", shoal_random_truncated(m->graph, shape, 0, 0.2));
  m->variables[m->n++] = v;
  return v;
}

static shoal_value *biases(model *m, int64_t n) {
  shoal_value *v = shoal_variable(m->graph, "b", shoal_random_uniform(m->graph, SHOAL_SHAPE(n), -0.1, 0.1));
  m->variables[m->n++] = v;
  return v;
}

static void build(const design *d, model *m) {
  *m = (model){0};
  ok(shoal_graph_create(&m->graph));
  shoal_graph *g = m->graph;
  m->x = shoal_placeholder(g, "x", d->bytes ? SHOAL_U8 : SHOAL_F32, SHOAL_SHAPE(SHOAL_UNKNOWN, 12, 11, 2));
  m->y = shoal_placeholder(g, "y", SHOAL_U8, SHOAL_SHAPE(SHOAL_UNKNOWN));
  m->rate = shoal_placeholder(g, "rate", SHOAL_F32, SHOAL_SCALAR);
  shoal_value *h = m->x;
  if (d->bytes) h = shoal_scale(g, shoal_cast(g, h, SHOAL_F32), 1.0 / 255);
  for (int i = 0; i < d->convolutions; i++) {
    int64_t in = shoal_value_shape(h).dim[3], out = 3 + 4 * i;
    h = shoal_conv2d(g, h, weights(m, SHOAL_SHAPE(3, 3, in, out)), 1, d->padding);
    h = activate(g, d->activation, shoal_bias_add(g, h, biases(m, out)));
    if (d->pool)
      h = !strcmp(d->pool, "max") ? shoal_max_pool(g, h, 2, 2, SHOAL_VALID) : shoal_avg_pool(g, h, 2, 2, SHOAL_VALID);
  }
  h = shoal_flatten(g, h);
  for (int i = 0; i <= d->hidden; i++) {
    int64_t in = shoal_value_shape(h).dim[1], out = i == d->hidden ? d->classes : 19;
    h = shoal_bias_add(g, shoal_matmul(g, h, weights(m, SHOAL_SHAPE(in, out)), false, false), biases(m, out));
    if (i < d->hidden) h = activate(g, d->activation, h);
  }
  m->logits = h;
  m->loss = shoal_reduce_mean(g, shoal_sparse_softmax_cross_entropy(g, h, m->y), SHOAL_SCALAR, false);
  m->hits = shoal_reduce_mean(g, shoal_in_top_k(g, h, m->y, 1), SHOAL_SCALAR, false);
  ok(shoal_minimize(g, &(shoal_optimizer_options){.name = d->optimizer}, m->loss, m->variables, m->n, m->rate,
                    &m->update));
  ok(shoal_graph_status(g));
}

typedef struct {
  uint8_t bytes[ROWS_MAX * 264];
  float numbers[ROWS_MAX * 264];
  uint8_t labels[ROWS_MAX];
  int32_t order[ROWS_MAX];
  float rate;
} batch;

static void fill(batch *b, int classes) {
  random_stream s = random_stream_make(7, 1);
  for (int i = 0; i < ROWS_MAX * 264; i++) {
    double u = random_uniform_at(&s, (uint64_t)i);
    b->bytes[i] = u < 0.7 ? 0 : (uint8_t)(u * 255);
    b->numbers[i] = (float)(u - 0.5);
  }
  for (int i = 0; i < ROWS_MAX; i++) b->labels[i] = (uint8_t)random_below(&s, (uint64_t)i, (uint64_t)classes);
  random_permutation(&s, b->order, ROWS_MAX);
  b->rate = 0.1f;
}

static void feed(const design *d, const model *m, batch *b, int64_t n, bool indexed, shoal_feed feeds[3]) {
  feeds[0] = (shoal_feed){m->x, shoal_tensor_view(d->bytes ? SHOAL_U8 : SHOAL_F32, SHOAL_SHAPE(n, 12, 11, 2),
                                                  d->bytes ? (void *)b->bytes : b->numbers)};
  feeds[1] = (shoal_feed){m->y, shoal_tensor_view(SHOAL_U8, SHOAL_SHAPE(n), b->labels)};
  feeds[2] = (shoal_feed){m->rate, shoal_tensor_view(SHOAL_F32, SHOAL_SCALAR, &b->rate)};
  if (indexed) feeds[0].tensor.rows = feeds[1].tensor.rows = b->order;
}

/* Three steps; every loss and all weights end up in `out`. Returns how many numbers that is. */
static size_t train(const design *d, batch *b, int64_t n, bool indexed, const shoal_session_options *options,
                    float *out) {
  model m;
  build(d, &m);
  shoal_session *s;
  ok(shoal_session_create(m.graph, options, &s));
  shoal_feed feeds[3];
  feed(d, &m, b, n, indexed, feeds);
  size_t count = 0;
  for (int step = 0; step < 3; step++) {
    shoal_tensor got[4];
    ok(shoal_session_run(s, feeds, 3, (shoal_value *[]){m.loss, m.update, m.hits, m.logits}, 4, got));
    out[count++] = *(float *)got[0].data;
    out[count++] = *(float *)got[2].data;
    for (int64_t i = 0; i < n * d->classes; i++) out[count++] = ((float *)got[3].data)[i];
  }
  for (int i = 0; i < m.n; i++) {
    shoal_tensor v;
    ok(shoal_session_variable(s, m.variables[i], &v));
    memcpy(out + count, v.data, shoal_tensor_bytes(&v));
    count += (size_t)shoal_tensor_count(&v);
  }
  shoal_session_destroy(s);
  shoal_graph_destroy(m.graph);
  return count;
}

static const design designs[] = {
    {"dense on bytes", true, 0, "relu", NULL, SHOAL_VALID, 0, "sgd", 10},
    {"dense on bytes, 7 classes", true, 0, "relu", NULL, SHOAL_VALID, 0, "sgd", 7},
    {"dense on bytes, momentum", true, 0, "relu", NULL, SHOAL_VALID, 0, "momentum", 10},
    {"dense on numbers", false, 0, "tanh", NULL, SHOAL_VALID, 2, "sgd", 10},
    {"max pool", true, 2, "relu", "max", SHOAL_SAME, 1, "sgd", 10},
    {"average pool", true, 2, "tanh", "avg", SHOAL_SAME, 1, "adam", 10},
    {"max pool, sigmoid", false, 1, "sigmoid", "max", SHOAL_VALID, 0, "momentum", 20},
    {"average pool, linear", false, 1, "linear", "avg", SHOAL_VALID, 1, "sgd", 10},
    {"max pool, linear", true, 1, "linear", "max", SHOAL_SAME, 0, "sgd", 10},
    {"no pool", true, 2, "relu", NULL, SHOAL_VALID, 1, "rmsprop", 10},
    {"no pool, tanh", false, 1, "tanh", NULL, SHOAL_SAME, 0, "adagrad", 3},
};

#define NUMBERS_MAX 40000

static void fused_equals_reference(void **state) {
  (void)state;
  static batch b;
  static float reference[NUMBERS_MAX], fused[NUMBERS_MAX];
  for (size_t i = 0; i < sizeof designs / sizeof *designs; i++) {
    const design *d = &designs[i];
    fill(&b, d->classes);
    for (int64_t n = 1; n <= 70; n = n == 1 ? 16 : n + 27) {
      size_t count = train(d, &b, n, n % 2, &(shoal_session_options){.threads = 1, .no_fusion = true}, reference);
      assert_true(count <= NUMBERS_MAX);
      for (int k = 0; k <= (int)cpu_best(); k++) {
        assert_int_equal(
            count, train(d, &b, n, n % 2, &(shoal_session_options){.threads = 2, .kernels = cpu_level_name(k)}, fused));
        for (size_t e = 0; e < count; e++)
          if (!(fabsf(fused[e] - reference[e]) <= 2e-4f * (1 + fabsf(reference[e])))) {
            print_error("%s, %s, %lld rows: number %zu is %g, not %g\n", d->name, cpu_level_name(k), (long long)n, e,
                        (double)fused[e], (double)reference[e]);
            fail();
          }
      }
    }
  }
}

static void same_threads_same_bits(void **state) {
  (void)state;
  static batch b;
  static float once[NUMBERS_MAX], again[NUMBERS_MAX];
  for (size_t i = 0; i < sizeof designs / sizeof *designs; i++)
    for (int threads = 1; threads <= 3; threads++) {
      fill(&b, designs[i].classes);
      const shoal_session_options options = {.threads = threads};
      size_t count = train(&designs[i], &b, ROWS_MAX / 4 * 3, true, &options, once);
      train(&designs[i], &b, ROWS_MAX / 4 * 3, true, &options, again);
      assert_memory_equal(once, again, count * sizeof *once);
    }
}

/* ---- memory: glibc's own count of bytes in use does not move, nor does the number of calls, during a step */

/* Volatile, since a compiler knows that malloc itself looks at no variable. */
static volatile long allocations;
static volatile bool counting;
extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
#if !defined(__SANITIZE_ADDRESS__)
void *malloc(size_t n) {
  allocations += counting;
  return __libc_malloc(n);
}
void *calloc(size_t n, size_t size) {
  allocations += counting;
  return __libc_calloc(n, size);
}
void *realloc(void *p, size_t n) {
  allocations += counting;
  return __libc_realloc(p, n);
}
void *aligned_alloc(size_t align, size_t n) {
  allocations += counting;
  return __libc_memalign(align, n);
}
#endif

static void steps_allocate_nothing(void **state) {
  (void)state;
#if defined(__SANITIZE_ADDRESS__)
  print_message("skipped: the sanitizer has its own malloc\n");
  skip();
#endif
  static batch b;
  for (size_t i = 0; i < sizeof designs / sizeof *designs; i++) {
    const design *d = &designs[i];
    fill(&b, d->classes);
    model m;
    build(d, &m);
    shoal_session *s;
    ok(shoal_session_create(m.graph, &(shoal_session_options){.threads = 2}, &s));
    shoal_feed feeds[3];
    feed(d, &m, &b, ROWS_MAX, true, feeds);
    shoal_value *fetches[] = {m.loss, m.update};
    shoal_tensor got[2];
    ok(shoal_session_run(s, feeds, 3, fetches, 2, got)); /* makes the plan */
    allocations = 0;
    counting = true;
    for (int step = 0; step < 5; step++) ok(shoal_session_run(s, feeds, 3, fetches, 2, got));
    counting = false;
    assert_int_equal(allocations, 0);
    free(malloc(1)); /* and the counter does count */
    counting = true;
    void *volatile p = malloc(1);
    counting = false;
    free(p);
    assert_int_equal(allocations, 1);
    shoal_session_destroy(s);
    shoal_graph_destroy(m.graph);
  }
}

/* ---- what a plan leaves out */

static const plan *only_plan(const shoal_session *s) {
  assert_true(s->n_plans >= 1);
  return s->plans[s->n_plans - 1];
}

static void plans_prune_and_fold(void **state) {
  (void)state;
  shoal_graph *g;
  ok(shoal_graph_create(&g));
  shoal_value *x = shoal_placeholder(g, "x", SHOAL_F32, SHOAL_SHAPE(3));
  shoal_value *unfed = shoal_placeholder(g, "unfed", SHOAL_F32, SHOAL_SHAPE(3));
  shoal_value *constant = shoal_mul(g, shoal_fill(g, SHOAL_F32, SHOAL_SHAPE(3), 2), shoal_scalar(g, SHOAL_F32, 3));
  shoal_value *y = shoal_add(g, shoal_exp(g, x), constant);
  shoal_value *aside = shoal_add(g, y, unfed);
  ok(shoal_graph_status(g));
  shoal_session *s;
  ok(shoal_session_create(g, &(shoal_session_options){.threads = 1}, &s));
  float numbers[3] = {0, 1, 2};
  shoal_feed feeds[] = {{x, shoal_tensor_view(SHOAL_F32, SHOAL_SHAPE(3), numbers)}};
  shoal_tensor got;
  ok(shoal_session_run(s, feeds, 1, &y, 1, &got));
  for (int i = 0; i < 3; i++) assert_true(fabs(((float *)got.data)[i] - (exp(numbers[i]) + 6)) < 1e-5);
  assert_int_equal(only_plan(s)->n_order, 2); /* exp and add: the constant is folded, the rest not asked for */
  refused(shoal_session_run(s, feeds, 1, &aside, 1, &got), SHOAL_ERR_ARGUMENT, "'unfed' is needed but not fed");
  shoal_session_destroy(s);
  shoal_graph_destroy(g);
}

static void shapes_that_do_not_fit(void **state) {
  (void)state;
  shoal_graph *g;
  ok(shoal_graph_create(&g));
  shoal_value *x = shoal_placeholder(g, "x", SHOAL_F32, SHOAL_SHAPE(SHOAL_UNKNOWN, 3));
  shoal_value *y = shoal_relu(g, x);
  shoal_session *s;
  ok(shoal_session_create(g, NULL, &s));
  float numbers[8] = {0};
  shoal_tensor got;
  shoal_feed wide = {x, shoal_tensor_view(SHOAL_F32, SHOAL_SHAPE(2, 4), numbers)};
  refused(shoal_session_run(s, &wide, 1, &y, 1, &got), SHOAL_ERR_ARGUMENT, "'x' is f32[?,3], but f32[2,4] is fed");
  shoal_feed typed = {x, shoal_tensor_view(SHOAL_U8, SHOAL_SHAPE(2, 3), numbers)};
  refused(shoal_session_run(s, &typed, 1, &y, 1, &got), SHOAL_ERR_ARGUMENT, "but u8[2,3] is fed");
  refused(shoal_session_run(s, NULL, 0, &y, 1, &got), SHOAL_ERR_ARGUMENT, "not fed");
  refused(shoal_session_run(s, NULL, 0, (shoal_value *[]){NULL}, 1, &got), SHOAL_ERR_ARGUMENT, "NULL");
  shoal_feed empty = {x, shoal_tensor_view(SHOAL_F32, SHOAL_SHAPE(0, 3), numbers)};
  ok(shoal_session_run(s, &empty, 1, &y, 1, &got));
  assert_int_equal(shoal_tensor_count(&got), 0);
  shoal_session_destroy(s);
  shoal_graph_destroy(g);
}

/* Feeds of ever new sizes do not pile up plans, and old sizes still work. */
static void plans_are_forgotten(void **state) {
  (void)state;
  shoal_graph *g;
  ok(shoal_graph_create(&g));
  shoal_value *x = shoal_placeholder(g, "x", SHOAL_F32, SHOAL_SHAPE(SHOAL_UNKNOWN));
  shoal_value *y = shoal_reduce_sum(g, x, SHOAL_SCALAR, false);
  shoal_session *s;
  ok(shoal_session_create(g, &(shoal_session_options){.threads = 1}, &s));
  float ones[100];
  for (int i = 0; i < 100; i++) ones[i] = 1;
  for (int round = 0; round < 2; round++)
    for (int n = 1; n <= 100; n++) {
      shoal_tensor got;
      shoal_feed f = {x, shoal_tensor_view(SHOAL_F32, SHOAL_SHAPE(n), ones)};
      ok(shoal_session_run(s, &f, 1, &y, 1, &got));
      assert_true(*(float *)got.data == (float)n);
      assert_true(s->n_plans <= SESSION_PLANS);
    }
  shoal_session_destroy(s);
  shoal_graph_destroy(g);
}

/* Reads see a variable as it was before the step, whatever the order in which the graph was built. */
static void reads_come_before_updates(void **state) {
  (void)state;
  shoal_graph *g;
  ok(shoal_graph_create(&g));
  shoal_value *v = shoal_variable(g, "v", shoal_fill(g, SHOAL_F32, SHOAL_SHAPE(2), 1));
  shoal_value *added = shoal_assign_add(g, v, shoal_fill(g, SHOAL_F32, SHOAL_SHAPE(2), 10));
  shoal_value *before = shoal_scale(g, v, 2), *after = shoal_scale(g, added, 2);
  ok(shoal_graph_status(g));
  shoal_session *s;
  ok(shoal_session_create(g, NULL, &s));
  for (int step = 0; step < 3; step++) {
    shoal_tensor got[3];
    ok(shoal_session_run(s, NULL, 0, (shoal_value *[]){added, before, after}, 3, got));
    assert_true(((float *)got[1].data)[0] == (float)(2 + 20 * step));
    assert_true(((float *)got[2].data)[1] == (float)(22 + 20 * step));
  }
  shoal_session_destroy(s);
  shoal_graph_destroy(g);
}

static void guard_stops_before_updates(void **state) {
  (void)state;
  static batch b;
  const design *d = &designs[4];
  fill(&b, d->classes);
  model m;
  build(d, &m);
  shoal_session *s;
  ok(shoal_session_create(m.graph, &(shoal_session_options){.threads = 2}, &s));
  session_guard(s, m.loss);
  shoal_tensor w, last;
  ok(shoal_session_variable(s, m.variables[0], &w));
  ok(shoal_session_variable(s, m.variables[m.n - 1], &last));
  ((float *)w.data)[5] = NAN;
  float kept[10];
  memcpy(kept, last.data, sizeof kept);
  shoal_feed feeds[3];
  feed(d, &m, &b, 32, false, feeds);
  refused(shoal_session_run(s, feeds, 3, (shoal_value *[]){m.loss, m.update}, 2, NULL), SHOAL_ERR_NUMERIC, "loss is");
  assert_memory_equal(kept, last.data, sizeof kept);
  char *bad = NULL;
  ok(session_find_bad(s, feeds, 3, m.loss, &bad));
  assert_non_null(bad);
  assert_non_null(strstr(bad, "conv2d"));
  free(bad);
  ((float *)w.data)[5] = 0;
  ok(session_find_bad(s, feeds, 3, m.loss, &bad));
  assert_null(bad);
  ok(shoal_session_run(s, feeds, 3, (shoal_value *[]){m.loss, m.update}, 2, NULL)); /* and the session goes on */
  shoal_session_destroy(s);
  shoal_graph_destroy(m.graph);
}

/* An error from a kernel names the operator and the row, and leaves the session usable. */
static void bad_labels(void **state) {
  (void)state;
  static batch b;
  for (size_t i = 0; i < 5; i++) {
    const design *d = &designs[i];
    fill(&b, d->classes);
    model m;
    build(d, &m);
    shoal_session *s;
    ok(shoal_session_create(m.graph, &(shoal_session_options){.threads = 2}, &s));
    shoal_feed feeds[3];
    feed(d, &m, &b, 150, false, feeds);
    uint8_t right = b.labels[140];
    b.labels[140] = 99;
    refused(shoal_session_run(s, feeds, 3, &m.loss, 1, NULL), SHOAL_ERR_INPUT, "label 99 in row 140");
    refused(shoal_session_run(s, feeds, 3, (shoal_value *[]){m.loss, m.update}, 2, NULL), SHOAL_ERR_INPUT,
            "label 99 in row 140");
    b.labels[140] = right;
    ok(shoal_session_run(s, feeds, 3, (shoal_value *[]){m.loss, m.update}, 2, NULL));
    shoal_session_destroy(s);
    shoal_graph_destroy(m.graph);
  }
}

/* Gather's gradient stays row-sparse all the way into the update. */
/* A step of a sequence is a row of its own between two reshapes: products of more rows than the batch has, and strips of them. */
static void views_with_other_rows(void **state) {
  enum { B = 150, T = 6, IN = 8, OUT = 5 };
  static float x[B * T * IN], w[IN * OUT], v[T * OUT * 2];
  static int32_t order[B];
  for (int i = 0; i < B * T * IN; i++) x[i] = (float)sin(1.3 * i);
  for (int i = 0; i < IN * OUT; i++) w[i] = (float)cos(0.7 * i);
  for (int i = 0; i < T * OUT * 2; i++) v[i] = (float)sin(0.9 * i + 1);
  for (int i = 0; i < B; i++) order[i] = (i * 7 + 3) % B;
  const shoal_tensor kernel = shoal_tensor_view(SHOAL_F32, SHOAL_SHAPE(IN, OUT), w),
                     last = shoal_tensor_view(SHOAL_F32, SHOAL_SHAPE(T * OUT, 2), v);
  for (int way = 0; way < 8; way++) {
    const bool indexed = way & 1, first = way & 2; /* first: the placeholder itself is seen otherwise */
    shoal_graph *g;
    shoal_session *s;
    ok(shoal_graph_create(&g));
    shoal_value *in = shoal_placeholder(g, "x", SHOAL_F32, SHOAL_SHAPE(SHOAL_UNKNOWN, T, IN));
    shoal_value *from = first ? in : shoal_tanh(g, in);
    shoal_value *steps =
        shoal_matmul(g, shoal_reshape(g, from, SHOAL_SHAPE(-1, IN)), shoal_constant(g, &kernel), false, false);
    shoal_value *y = shoal_matmul(g, shoal_reshape(g, shoal_tanh(g, steps), SHOAL_SHAPE(-1, T * OUT)),
                                  shoal_constant(g, &last), false, false);
    ok(shoal_session_create(g, &(shoal_session_options){.threads = way & 4 ? 2 : 1}, &s));
    shoal_feed feed = {in, shoal_tensor_view(SHOAL_F32, SHOAL_SHAPE(B, T, IN), x)};
    if (indexed) feed.tensor.rows = order;
    shoal_tensor out;
    ok(shoal_session_run(s, &feed, 1, &y, 1, &out));
    for (int b = 0; b < B; b++) {
      double want[2] = {0};
      for (int t = 0; t < T; t++)
        for (int k = 0; k < OUT; k++) {
          double sum = 0;
          for (int i = 0; i < IN; i++) {
            const double one = x[((indexed ? order[b] : b) * T + t) * IN + i];
            sum += (first ? one : tanh(one)) * w[i * OUT + k];
          }
          for (int c = 0; c < 2; c++) want[c] += tanh(sum) * v[(t * OUT + k) * 2 + c];
        }
      for (int c = 0; c < 2; c++) {
        const double got = ((const float *)out.data)[b * 2 + c];
        if (!(fabs(got - want[c]) < 1e-4)) fail_msg("way %d, row %d: %g, not %g", way, b, got, want[c]);
      }
    }
    shoal_session_destroy(s);
    shoal_graph_destroy(g);
  }
}

static void sparse_updates_touch_named_rows(void **state) {
  (void)state;
  shoal_graph *g;
  ok(shoal_graph_create(&g));
  shoal_value *table = shoal_variable(g, "table", shoal_fill(g, SHOAL_F32, SHOAL_SHAPE(1000, 4), 1));
  shoal_value *ids = shoal_placeholder(g, "ids", SHOAL_I64, SHOAL_SHAPE(SHOAL_UNKNOWN));
  shoal_value *rate = shoal_placeholder(g, "rate", SHOAL_F32, SHOAL_SCALAR);
  shoal_value *loss = shoal_reduce_sum(g, shoal_square(g, shoal_gather(g, table, ids)), SHOAL_SCALAR, false);
  shoal_value *update;
  ok(shoal_minimize(g, &(shoal_optimizer_options){.name = "sgd"}, loss, &table, 1, rate, &update));
  shoal_session *s;
  ok(shoal_session_create(g, NULL, &s));
  int64_t rows[3] = {7, 999, 7};
  float r = 0.25f;
  shoal_feed feeds[] = {{ids, shoal_tensor_view(SHOAL_I64, SHOAL_SHAPE(3), rows)},
                        {rate, shoal_tensor_view(SHOAL_F32, SHOAL_SCALAR, &r)}};
  ok(shoal_session_run(s, feeds, 2, (shoal_value *[]){loss, update}, 2, NULL));
  const plan *p = only_plan(s);
  for (int at = 0; at < p->n_order; at++) {
    const plan_node *n = &p->nodes[p->order[at]];
    for (int k = 0; k < n->outs; k++) {
      const plan_value *v = &p->values[n->out[k]];
      if (p->values[v->root].store != STORE_VARIABLE) assert_true(shoal_shape_count(&v->shape) < 1000);
    }
  }
  shoal_tensor t;
  ok(shoal_session_variable(s, table, &t));
  const float *w = t.data;
  for (int i = 0; i < 1000; i++) assert_true(w[i * 4] == (i == 7 ? 0.0f : i == 999 ? 0.5f : 1.0f));
  shoal_session_destroy(s);
  shoal_graph_destroy(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(fused_equals_reference),
      cmocka_unit_test(same_threads_same_bits),
      cmocka_unit_test(steps_allocate_nothing),
      cmocka_unit_test(plans_prune_and_fold),
      cmocka_unit_test(shapes_that_do_not_fit),
      cmocka_unit_test(reads_come_before_updates),
      cmocka_unit_test(plans_are_forgotten),
      cmocka_unit_test(guard_stops_before_updates),
      cmocka_unit_test(bad_labels),
      cmocka_unit_test(views_with_other_rows),
      cmocka_unit_test(sparse_updates_touch_named_rows),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
