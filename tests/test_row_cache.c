/* Rows that a worker keeps: which stay, and for how long. */
#include "files.h"

#include "dist/row_cache.h"

enum { WIDTH = 3 };

/* A batch of these keys: those that are not fresh come as (key, number, number). Returns how many were. */
static int ask(row_cache *c, const uint64_t *keys, int n, float number) {
  int fresh = 0;
  bool have[64];
  int32_t places[64];
  row_cache_next_batch(c);
  for (int i = 0; i < n; i++) places[i] = row_cache_find(c, keys[i], &have[i]);
  for (int i = 0; i < n; i++) {
    const float row[WIDTH] = {(float)keys[i], number, number};
    fresh += have[i];
    if (have[i]) assert_true(row_cache_row(c, places[i])[0] == (float)keys[i]);
    if (!have[i] && places[i] >= 0) row_cache_put(c, places[i], row);
  }
  return fresh;
}

/* Of one row, that each batch asks for: as old as allowed, and then it comes anew. */
static void rows_grow_old(void **state) {
  const uint64_t key = 77;
  for (int64_t staleness = 1; staleness < 4; staleness++) {
    row_cache *c;
    assert_ok(row_cache_create(1, WIDTH, staleness, &c));
    for (int batch = 0; batch < 20; batch++)
      assert_int_equal(ask(c, &key, 1, (float)batch), batch % (staleness + 1) != 0);
    row_cache_clear(c);
    assert_int_equal(ask(c, &key, 1, 0), 0);
    row_cache_destroy(c);
  }
}

/* Beside rows that come once, those that come each time stay; two that a batch asks for never share a place. */
static void hot_rows_stay(void **state) {
  enum { HOT = 16, COLD = 48, BATCHES = 200 };
  row_cache *c;
  uint64_t keys[HOT + COLD], next = 1000;
  int fresh = 0;
  assert_ok(row_cache_create(64, WIDTH, 1000, &c));
  for (int batch = 0; batch < BATCHES; batch++) {
    for (int i = 0; i < HOT + COLD; i++) keys[i] = i % 4 ? next++ : (uint64_t)i;
    const int now = ask(c, keys, HOT + COLD, (float)batch);
    if (batch >= BATCHES / 2) fresh += now;
  }
  if (fresh < HOT * BATCHES / 2 * 95 / 100) fail_msg("%d of %d", fresh, HOT * BATCHES / 2);
  row_cache_destroy(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(rows_grow_old), cmocka_unit_test(hot_rows_stay)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
