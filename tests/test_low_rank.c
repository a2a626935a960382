/* PowerSGD: factors of gradients, summed over ranks by hand. */
#include "base/mem.h"
#include "dist/low_rank.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define assert_ok(call) assert_null(call)

enum { RANKS = 3, FACTORS = 2, ROWS = 40, COLUMNS = 30, SMALL = 7, ALL = ROWS * COLUMNS + SMALL, ROOM = ALL };

typedef struct {
  low_rank *of[RANKS];
} group;

static group group_make(void) {
  const low_rank_shape shapes[] = {{SMALL, 1}, {ROWS, COLUMNS}};
  group g;
  for (int r = 0; r < RANKS; r++) assert_ok(low_rank_create(shapes, 2, FACTORS, 11, &g.of[r]));
  assert_int_equal(low_rank_first_count(g.of[0], 0), SMALL);
  assert_int_equal(low_rank_second_count(g.of[0], 0), 0);
  assert_int_equal(low_rank_first_count(g.of[0], 1), ROWS * FACTORS);
  assert_int_equal(low_rank_second_count(g.of[0], 1), COLUMNS * FACTORS);
  return g;
}

static void group_free(group *g) {
  for (int r = 0; r < RANKS; r++) low_rank_destroy(g->of[r]);
}

static void sum(float (*of)[ROOM], int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    for (int r = 1; r < RANKS; r++) of[0][i] += of[r][i];
    for (int r = 1; r < RANKS; r++) of[r][i] = of[0][i];
  }
}

/* One step; all ranks come out with the same bits. */
static void step(group *g, float (*gradients)[ROOM], float *out) {
  static float first[RANKS][ROOM], second[RANKS][ROOM];
  for (int r = 0; r < RANKS; r++) low_rank_first(g->of[r], gradients[r], first[r]);
  sum(first, SMALL + ROWS * FACTORS);
  for (int r = 0; r < RANKS; r++) low_rank_second(g->of[r], first[r], second[r]);
  sum(second, COLUMNS * FACTORS);
  for (int r = 0; r < RANKS; r++) {
    float own[ROOM];
    low_rank_finish(g->of[r], first[r], second[r], own);
    if (r)
      assert_memory_equal(own, out, sizeof own);
    else
      memcpy(out, own, sizeof own);
  }
}

/* Numbers of rank r; `ranks_of` terms of rank one. */
static void make(int r, int terms, int at, float *to) {
  for (int i = 0; i < SMALL; i++) to[i] = (float)(r + i);
  for (int i = 0; i < ROWS; i++)
    for (int j = 0; j < COLUMNS; j++) {
      float x = 0;
      for (int k = 0; k < terms; k++)
        x += sinf((float)(i * (k + 1) + at)) * cosf((float)(j * (2 * k + 1))) * (float)(1 + r % 2) / (float)(k + 1);
      to[SMALL + i * COLUMNS + j] = x;
    }
}

/* A matrix of no higher rank than the factors arrives whole, and so do small tensors. */
static void test_low_ranks_are_exact(void **state) {
  static float gradients[RANKS][ROOM], out[ROOM];
  group g = group_make();
  for (int at = 0; at < 5; at++) {
    for (int r = 0; r < RANKS; r++) make(r, FACTORS, at, gradients[r]);
    step(&g, gradients, out);
    for (int i = 0; i < ALL; i++) {
      float expected = 0;
      for (int r = 0; r < RANKS; r++) expected += gradients[r][i];
      assert_true(fabsf(out[i] - expected) < 1e-4F * (1 + fabsf(expected)));
    }
  }
  group_free(&g);
}

/* Of others a part is late, not lost: what has arrived after many steps is what was given, but for a bounded rest. */
static void test_what_is_left_out_comes_later(void **state) {
  enum { STEPS = 60 };
  static float gradients[RANKS][ROOM], out[ROOM];
  static double given[ALL], arrived[ALL];
  double off = 0, size = 0;
  group g = group_make();
  for (int at = 0; at < STEPS; at++) {
    for (int r = 0; r < RANKS; r++) make(r, 6, 0, gradients[r]);
    for (int i = 0; i < ALL; i++)
      for (int r = 0; r < RANKS; r++) given[i] += (double)gradients[r][i];
    step(&g, gradients, out);
    for (int i = 0; i < ALL; i++) arrived[i] += (double)out[i];
  }
  for (int i = SMALL; i < ALL; i++) {
    off += (given[i] - arrived[i]) * (given[i] - arrived[i]);
    size += given[i] * given[i];
  }
  assert_true(sqrt(off / size) < 0.1);
  static float left[ROOM]; /* that rest is what the ranks still have */
  for (int r = 0; r < RANKS; r++) low_rank_add_left(g.of[r], left);
  for (int i = 0; i < ALL; i++)
    assert_true(fabs(given[i] - arrived[i] - (double)left[i]) < 1e-3 * (1 + fabs(given[i])));
  group_free(&g);
}

/* Steps without any gradient do not make it blind for those that follow. */
static void test_zeros(void **state) {
  static float gradients[RANKS][ROOM], out[ROOM];
  group g = group_make();
  for (int at = 0; at < 3; at++) {
    step(&g, gradients, out);
    for (int i = 0; i < ALL; i++) assert_true(out[i] == 0);
  }
  for (int r = 0; r < RANKS; r++) make(r, FACTORS, 0, gradients[r]);
  step(&g, gradients, out);
  for (int i = 0; i < ALL; i++) {
    float expected = 0;
    for (int r = 0; r < RANKS; r++) expected += gradients[r][i];
    assert_true(fabsf(out[i] - expected) < 1e-4F * (1 + fabsf(expected)));
  }
  group_free(&g);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_low_ranks_are_exact),
                                     cmocka_unit_test(test_what_is_left_out_comes_later), cmocka_unit_test(test_zeros)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
