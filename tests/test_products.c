/* Products of whole matrices: every instruction set against sums in f64, all transpositions, sizes around the edges of
 * tiles, panels and parts, any number of threads with the same bits. Outputs and scratch are allocated to the byte. */
#include "base/pool.h"
#include "base/random.h"
#include "kernel/gemm.h"
#include "kernel/lanes.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

static const kernel_fn product_of[CPU_LEVELS] = BY_LEVEL(rows_matmul);
static const kernel_fn dense_of[CPU_LEVELS] = BY_LEVEL(wide_dense);

static float *numbers(int64_t n, uint64_t stream) {
  random_stream s = random_stream_make(7, stream);
  float *x = malloc((size_t)(n ? n : 1) * sizeof *x);
  assert_non_null(x);
  for (int64_t i = 0; i < n; i++) x[i] = (float)random_uniform_at(&s, (uint64_t)i) - 0.5f;
  return x;
}

static void *scratch_for(int64_t m, int64_t n, int64_t k) {
  void *scratch = malloc(gemm_scratch(m, n, k) + 1);
  assert_non_null(scratch);
  memset(scratch, 0xff, gemm_scratch(m, n, k)); /* not numbers */
  return scratch;
}

static shoal_tensor matrix(float *data, int64_t rows, int64_t columns) {
  return (shoal_tensor){.dtype = SHOAL_F32, .shape = SHOAL_SHAPE(rows, columns), .data = data};
}

/* want[i][j] += a(i, .) b(., j) */
static void add_naive(const float *a, const float *b, int64_t m, int64_t n, int64_t k, bool ta, bool tb, double *want) {
  for (int64_t i = 0; i < m; i++)
    for (int64_t l = 0; l < k; l++) {
      const double x = a[ta ? l * m + i : i * k + l];
      for (int64_t j = 0; j < n; j++) want[i * n + j] += x * b[tb ? j * k + l : l * n + j];
    }
}

static void check_close(const float *got, const double *want, int64_t n, int64_t k) {
  /* Terms are below 1/4: the rounding of sums of k of them. */
  const double most = 1e-6 + 2e-8 * (double)k;
  for (int64_t i = 0; i < n; i++)
    if (!(fabs(got[i] - want[i]) <= most)) fail_msg("element %lld is %.9g, not %.9g", (long long)i, got[i], want[i]);
}

static void check_product(int64_t m, int64_t n, int64_t k, pool *const *pools, int n_pools) {
  float *a = numbers(m * k, 1), *b = numbers(k * n, 2), *first = numbers(m * n, 3), *c = numbers(m * n, 4);
  double *want = malloc((size_t)(m * n + 1) * sizeof *want);
  void *scratch = scratch_for(m, n, k);
  assert_non_null(want);
  for (int form = 0; form < 8; form++) {
    const bool ta = form & 1, tb = form & 2, add = form & 4;
    for (int64_t i = 0; i < m * n; i++) want[i] = add ? 0.25 : 0;
    add_naive(a, b, m, n, k, ta, tb, want);
    shoal_tensor in[2] = {ta ? matrix(a, k, m) : matrix(a, m, k), tb ? matrix(b, n, k) : matrix(b, k, n)};
    for (int level = 0; level <= (int)cpu_best(); level++)
      for (int p = 0; p < n_pools; p++) {
        shoal_tensor out = matrix(p ? c : first, m, n);
        for (int64_t i = 0; i < m * n; i++) ((float *)out.data)[i] = add ? 0.25f : NAN;
        attr_value attr[2] = {{.i = ta}, {.i = tb}};
        assert_null(product_of[level](&(kernel_call){.in = in,
                                                     .out = &out,
                                                     .ins = 2,
                                                     .outs = 1,
                                                     .attr = attr,
                                                     .scratch = scratch,
                                                     .threads = pools[p],
                                                     .accumulate = add}));
        check_close(out.data, want, m * n, k);
        if (p) assert_memory_equal(first, c, (size_t)(m * n) * sizeof *c);
      }
  }
  free(a);
  free(b);
  free(c);
  free(first);
  free(want);
  free(scratch);
}

static void test_all_forms(void **state) {
  (void)state;
  enum { D = GEMM_DEPTH, S = GEMM_SPAN };
  static const int64_t sizes[][3] = {
      /* m, n, k */
      {1, 1, 1},       {1, 37, 5},        {3, 9, 0},           {0, 4, 3},      {13, 31, 17},   {14, 32, D},
      {15, 33, D + 1}, {28, 64, 2 * D},   {29, 65, 2 * D + 7}, {6, 16, 40},    {7, 17, 41},    {100, 100, 100},
      {337, 45, 61},   {5, S + 3, D + 9}, {S + 3, 5, D + 9},   {S + 1, 40, 3}, {2, S + 33, 2}, {101, 203, 307}};
  pool *pools[3] = {NULL};
  assert_null(pool_create(2, &pools[1]));
  assert_null(pool_create(5, &pools[2]));
  for (size_t i = 0; i < COUNT_OF(sizes); i++) check_product(sizes[i][0], sizes[i][1], sizes[i][2], pools, 3);
  for (int i = 1; i < 3; i++) pool_destroy(pools[i]);
}

static void test_random_sizes(void **state) {
  (void)state;
  random_stream s = random_stream_make(11, 5);
  pool *pools[2] = {NULL};
  assert_null(pool_create(3, &pools[1]));
  for (uint64_t i = 0; i < 60; i++)
    check_product((int64_t)random_below(&s, 3 * i, 120), (int64_t)random_below(&s, 3 * i + 1, 120),
                  (int64_t)random_below(&s, 3 * i + 2, 90), pools, 2);
  pool_destroy(pools[1]);
}

/* Rows times weights, bias, relu. */
static void test_wide_dense(void **state) {
  (void)state;
  static const int64_t sizes[][3] = {{1, 70, 33}, {9, 601, 50}, {128, 33, 600}};
  pool *threads;
  assert_null(pool_create(2, &threads));
  for (size_t s = 0; s < COUNT_OF(sizes); s++) {
    const int64_t m = sizes[s][0], n = sizes[s][1], k = sizes[s][2];
    float *x = numbers(m * k, 1), *w = numbers(k * n, 2), *bias = numbers(n, 3), *y = numbers(m * n, 4);
    double *want = malloc((size_t)(m * n) * sizeof *want);
    void *scratch = scratch_for(m, n, k);
    assert_non_null(want);
    for (int64_t i = 0; i < m * n; i++) want[i] = bias[i % n];
    add_naive(x, w, m, n, k, false, false, want);
    for (int64_t i = 0; i < m * n; i++) want[i] = want[i] > 0 ? want[i] : 0;
    shoal_tensor in[3] = {matrix(x, m, k),
                          matrix(w, k, n),
                          {.dtype = SHOAL_F32, .shape = SHOAL_SHAPE(n), .data = bias}},
                 out = matrix(y, m, n);
    attr_value attr = {.i = ACT_RELU};
    for (int level = 0; level <= (int)cpu_best(); level++) {
      assert_null(dense_of[level](&(kernel_call){
          .in = in, .out = &out, .ins = 3, .outs = 1, .attr = &attr, .scratch = scratch, .threads = threads}));
      check_close(y, want, m * n, k);
    }
    free(x);
    free(w);
    free(bias);
    free(y);
    free(want);
    free(scratch);
  }
  pool_destroy(threads);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_forms), cmocka_unit_test(test_random_sizes),
                                     cmocka_unit_test(test_wide_dense)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
