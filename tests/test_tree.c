/* Sums in a fixed order: the same bits however the leaves are spread. */
#include "base/mem.h"
#include "base/random.h"
#include "dist/tree.h"
#include "dist/wire_format.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { COUNT = 301, LEAVES_MOST = 40 };

static float leaves[LEAVES_MOST][COUNT];

static void fill(void) {
  random_stream s = random_stream_make(7, 1);
  for (int i = 0; i < LEAVES_MOST; i++)
    for (int e = 0; e < COUNT; e++) {
      uint32_t block[4];
      random_block(&s, (uint64_t)(i * COUNT + e), block);
      leaves[i][e] = ldexpf((float)block[0] - 2147483648.0f, (int)(block[1] % 40) - 60);
    }
}

/* The sum as one worker after the other would make it, which hand on their nodes. */
static void sum_over(int n, int workers, float *out) {
  static float nodes[LEAVES_MOST * 2][COUNT];
  tree_source all[LEAVES_MOST * 2];
  int count = 0;
  for (int w = 0; w < workers; w++) {
    int64_t first, last;
    tree_share(n, w, workers, &first, &last);
    tree_source own[LEAVES_MOST];
    tree_node remain[TREE_NODES_MAX];
    float *into[TREE_NODES_MAX];
    for (int64_t i = first; i < last; i++)
      own[i - first] = (tree_source){.node = {i, 0}, .data = leaves[i], .scale = 0.5f};
    int k = tree_nodes(first, last, remain);
    for (int j = 0; j < k; j++) into[j] = nodes[count + j];
    if (last > first) tree_sum(own, (int)(last - first), false, into, COUNT);
    for (int j = 0; j < k; j++, count++)
      all[count] = (tree_source){.node = remain[j], .data = nodes[count], .scale = 1};
  }
  tree_sum(all, count, true, &out, COUNT);
}

static void test_same_bits(void **state) {
  fill();
  for (int n = 1; n <= LEAVES_MOST; n++) {
    float one[COUNT], many[COUNT];
    sum_over(n, 1, one);
    for (int e = 0; e < COUNT; e++) {
      double exact = 0, size = 0;
      for (int i = 0; i < n; i++) {
        exact += 0.5 * (double)leaves[i][e];
        size += fabs(0.5 * (double)leaves[i][e]);
      }
      assert_true(fabs(one[e] - exact) <= 1e-6 * size);
    }
    for (int workers = 2; workers <= 9; workers++) {
      sum_over(n, workers, many);
      assert_memory_equal(one, many, sizeof one);
    }
  }
}

static void test_nodes(void **state) {
  tree_node out[TREE_NODES_MAX];
  assert_int_equal(tree_nodes(0, 12, out), 2);
  assert_int_equal(out[0].level, 3);
  assert_int_equal(out[1].start, 8);
  assert_int_equal(tree_nodes(3, 9, out), 3); /* 3, 4-7, 8 */
  assert_int_equal(out[1].level, 2);
  assert_int_equal(tree_nodes(5, 5, out), 0);
}

/* Memory that is summed may be where the sum goes. */
static void test_in_place(void **state) {
  fill();
  static float a[COUNT], b[COUNT], apart[COUNT];
  memcpy(a, leaves[0], sizeof a);
  memcpy(b, leaves[1], sizeof b);
  tree_source sources[] = {{.node = {0, 0}, .data = a, .scale = 1}, {.node = {1, 0}, .data = b, .scale = 3}};
  float *into[] = {apart, NULL};
  tree_sum(sources, 2, true, into, COUNT);
  into[0] = a;
  tree_sum(sources, 2, true, into, COUNT);
  assert_memory_equal(a, apart, sizeof a);
}

static void test_bf16(void **state) {
  const float from[] = {1, -2.5f, 1.00390625f, 1.01171875f, INFINITY, NAN, 3.4e38f, 0};
  const float expected[] = {1, -2.5f, 1, 1.015625f, INFINITY, NAN, INFINITY, 0};
  uint16_t halves[COUNT_OF(from)];
  float back[COUNT_OF(from)];
  tree_to_bf16(from, halves, COUNT_OF(from));
  tree_from_bf16(halves, back, COUNT_OF(from));
  for (size_t i = 0; i < COUNT_OF(from); i++) {
    if (isnan(expected[i]))
      assert_true(isnan(back[i]));
    else
      assert_true(back[i] == expected[i]);
  }
}

/* Of no run of at most so many leaves more remain, and of some as many. */
static void test_most_nodes(void **state) {
  int most = 0;
  for (int64_t count = 1; count <= 40; count++) {
    for (int64_t first = 0; first < 128; first++) {
      tree_node nodes[TREE_NODES_MAX];
      int n = tree_nodes(first, first + count, nodes);
      if (n > most) most = n;
    }
    assert_int_equal(tree_nodes_max(count), most);
  }
}

/* ---- as numbers travel */

/* A number is off by half a step of its block at most; blocks that are short, all zero or have no number in them. */
static void test_int8(void **state) {
  enum { N = 3 * WIRE_GRAIN + 17 };
  const wire_format *f = wire_format_find("int8");
  float from[N], back[N];
  uint8_t wire[N + 4 * sizeof(float)];
  for (int i = 0; i < N; i++) from[i] = i / WIRE_GRAIN == 1 ? 0 : sinf((float)i) * (i < WIRE_GRAIN ? 1e-6F : 1e4F);
  assert_int_equal(f->bytes(N), sizeof wire);
  assert_int_equal(f->bytes(2 * WIRE_GRAIN), 2 * (WIRE_GRAIN + sizeof(float)));
  f->encode(from, wire, N);
  f->decode(wire, back, N);
  for (int i = 0; i < N; i++) assert_true(fabsf(back[i] - from[i]) <= (i < WIRE_GRAIN ? 1e-6F : 1e4F) / 127 * 0.501F);
  from[5] = NAN;
  f->encode(from, wire, N);
  f->decode(wire, back, N);
  assert_true(isnan(back[5]) && back[WIRE_GRAIN] == 0);
  assert_null(wire_format_find("int4"));
}

/* The largest of each block arrive, rounded to bf16, and nothing else; as many as there are in a short block. */
static void test_topk(void **state) {
  enum { N = 2 * WIRE_GRAIN + 3 };
  const wire_format *f = wire_format_find("topk");
  float from[N], back[N];
  uint8_t wire[(2 * WIRE_KEPT + 3) * 3];
  for (int i = 0; i < N; i++) from[i] = (float)((i * 37) % 101 - 50) * 1e-3F;
  for (int k = 0; k < WIRE_KEPT; k++) from[k * 31 + 5] = (float)(k % 2 ? 1 << k : -(1 << k));
  for (int i = WIRE_GRAIN; i < 2 * WIRE_GRAIN; i++) from[i] = 0;
  assert_int_equal(f->bytes(N), sizeof wire);
  f->encode(from, wire, N);
  f->decode(wire, back, N);
  for (int i = 0; i < WIRE_GRAIN; i++) assert_true(back[i] == (i % 31 == 5 && i / 31 < WIRE_KEPT ? from[i] : 0));
  for (int i = WIRE_GRAIN; i < 2 * WIRE_GRAIN; i++) assert_true(back[i] == 0);
  for (int i = 2 * WIRE_GRAIN; i < N; i++) assert_true(fabsf(back[i] - from[i]) <= fabsf(from[i]) / 256);
  from[7] = NAN;
  from[9] = INFINITY;
  f->encode(from, wire, N);
  f->decode(wire, back, N);
  assert_true(isnan(back[7]) && isinf(back[9]));
  memset(wire, 255, sizeof wire); /* what no rank sends */
  f->decode(wire, back, 3);
}

/* What is taken is never smaller than three quarters of what is not. */
static void test_topk_takes_the_largest(void **state) {
  const wire_format *f = wire_format_find("topk");
  for (int round = 0; round < 200; round++) {
    float from[WIRE_GRAIN], back[WIRE_GRAIN], least = INFINITY, most = 0;
    uint8_t wire[3 * WIRE_KEPT];
    int taken = 0;
    for (int i = 0; i < WIRE_GRAIN; i++) from[i] = expf(6 * sinf((float)(i * i + 77 * round))) * (i % 3 ? 1 : -1);
    f->encode(from, wire, WIRE_GRAIN);
    f->decode(wire, back, WIRE_GRAIN);
    for (int i = 0; i < WIRE_GRAIN; i++) {
      taken += back[i] != 0;
      if (back[i] != 0)
        least = fminf(least, fabsf(from[i]));
      else
        most = fmaxf(most, fabsf(from[i]));
    }
    assert_int_equal(taken, WIRE_KEPT);
    assert_true(least >= 0.75F * most);
  }
}

/* What a step leaves out comes with later ones: sums over many steps are off by what one or few of them leave out. */
static void feed_back(const char *name, double bound) {
  enum { N = 300, STEPS = 200 };
  const wire_format *f = wire_format_find(name);
  float left[N] = {0}, scratch[N], back[N];
  double given[N] = {0}, arrived[N] = {0};
  uint8_t wire[N * sizeof(float)];
  for (int step = 0; step < STEPS; step++) {
    float from[N];
    for (int i = 0; i < N; i++) from[i] = (i % 50 == 0 ? 1.0F : 0.001F) * (float)((i * 7 + step * 3) % 11 - 4);
    for (int i = 0; i < N; i++) given[i] += from[i];
    wire_format_feed(f, from, left, wire, N, scratch);
    f->decode(wire, back, N);
    for (int i = 0; i < N; i++) arrived[i] += back[i];
  }
  for (int i = 0; i < N; i++) assert_true(fabs(given[i] - arrived[i]) < bound);
}

static void test_feedback(void **state) {
  feed_back("int8", 6.1 / 127);
  feed_back("topk", 7);
  feed_back("fp16", 0.005);
}

/* Every half there is comes back as it was; between two, the nearer one is taken, the even one in the middle. */
static void test_fp16(void **state) {
  const wire_format *f = wire_format_find("fp16");
  assert_int_equal(f->bytes(5), 10);
  for (int bits = 0; bits < 1 << 16; bits++) {
    const uint16_t half = (uint16_t)bits;
    const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    const double size = exponent ? ldexp(1024 + mantissa, exponent - 25) : ldexp(mantissa, -24);
    float x;
    uint16_t back;
    f->decode(&half, &x, 1);
    f->encode(&x, &back, 1);
    if (exponent == 31 && mantissa) {
      assert_true(isnan(x) && (back & 0x7c00) == 0x7c00 && back & 1023);
      continue;
    }
    assert_int_equal(back, half);
    if (exponent == 31) continue; /* infinite */
    assert_true(x == (float)(bits >> 15 ? -size : size));
    if (exponent >= 30) continue;
    const uint16_t next = (uint16_t)(half + 1);
    float y;
    f->decode(&next, &y, 1);
    const float middle = x / 2 + y / 2, near_x = nextafterf(middle, x), near_y = nextafterf(middle, y);
    f->encode(&middle, &back, 1);
    assert_int_equal(back, bits & 1 ? next : half);
    f->encode(&near_x, &back, 1);
    assert_int_equal(back, half);
    f->encode(&near_y, &back, 1);
    assert_int_equal(back, next);
  }
  const float large[] = {65519, 65520, 1e30F, -1e30F, INFINITY};
  static const float expected[] = {65504, 65504, 65504, -65504, INFINITY};
  uint16_t halves[5];
  float got[5];
  f->encode(large, halves, 5);
  f->decode(halves, got, 5);
  for (int i = 0; i < 5; i++) assert_true(got[i] == expected[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_bits),  cmocka_unit_test(test_nodes),
                                     cmocka_unit_test(test_in_place),   cmocka_unit_test(test_bf16),
                                     cmocka_unit_test(test_most_nodes), cmocka_unit_test(test_int8),
                                     cmocka_unit_test(test_feedback),   cmocka_unit_test(test_fp16),
                                     cmocka_unit_test(test_topk),       cmocka_unit_test(test_topk_takes_the_largest)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
