/* Blocks of rows: growing, appending, being used again. */
#include "files.h"

#include "data/rows.h"

static void dense(void **state) {
  rows_schema schema = {.kind = ROWS_DENSE, .dtype = SHOAL_F32, .shape = SHOAL_SHAPE(2, 3), .scale = 1, .classes = 4};
  rows_block a, b;
  rows_init(&a, &schema);
  rows_init(&b, &schema);
  assert_int_equal(rows_dense_bytes(&schema), 24);
  for (int i = 0; i < 1000; i++) {
    assert_ok(rows_reserve(&a, 1, 0));
    for (int k = 0; k < 6; k++) ((float *)a.features)[i * 6 + k] = (float)(i * 10 + k);
    a.labels[a.count++] = i % 4;
  }
  for (int i = 999; i >= 0; i--) assert_ok(rows_append(&b, &a, i));
  assert_int_equal(b.count, 1000);
  for (int i = 0; i < 1000; i++) {
    assert_int_equal(b.labels[i], (999 - i) % 4);
    for (int k = 0; k < 6; k++) assert_true(((float *)b.features)[i * 6 + k] == (float)((999 - i) * 10 + k));
  }
  assert_int_equal((uintptr_t)b.features % 64, 0);
  assert_fails(rows_append(&b, &a, 1000), SHOAL_ERR_INTERNAL, "row 1000");
  schema.shape = SHOAL_SHAPE(6);
  rows_block c;
  rows_init(&c, &schema);
  assert_fails(rows_append(&c, &a, 0), SHOAL_ERR_INTERNAL, "does not fit");
  rows_fini(&a);
  rows_fini(&b);
  rows_fini(&c);
}

static void sparse_and_used_again(void **state) {
  rows_schema schema = {.kind = ROWS_SPARSE, .scale = 1, .features = 100, .real_labels = true};
  rows_block a, b;
  rows_init(&a, &schema);
  rows_init(&b, &schema);
  assert_ok(rows_reserve(&a, 0, 0));
  assert_int_equal(a.offsets[0], 0);
  for (int i = 0; i < 100; i++) {
    int n = i % 7;
    assert_ok(rows_reserve(&a, 1, n));
    int64_t at = a.offsets[a.count];
    for (int k = 0; k < n; k++) {
      a.indices[at + k] = i + k;
      a.values[at + k] = (float)k;
    }
    a.labels[a.count] = 0;
    a.targets[a.count] = (float)i / 2;
    a.offsets[++a.count] = at + n;
  }
  const void *held = NULL;
  for (int round = 0; round < 3; round++) {
    rows_clear(&b);
    for (int i = 0; i < 100; i++) assert_ok(rows_append(&b, &a, i));
    assert_int_equal(b.offsets[100], a.offsets[100]);
    assert_memory_equal(b.indices, a.indices, (size_t)a.offsets[100] * sizeof *a.indices);
    assert_memory_equal(b.values, a.values, (size_t)a.offsets[100] * sizeof *a.values);
    assert_memory_equal(b.targets, a.targets, 100 * sizeof *a.targets);
    if (round) assert_ptr_equal(held, b.indices); /* nothing was allocated anew */
    held = b.indices;
  }
  rows_fini(&a);
  rows_fini(&b);
}

static void bytes_and_bounds(void **state) {
  rows_schema schema = {.kind = ROWS_BYTES, .scale = 1};
  rows_block a, b;
  rows_init(&a, &schema);
  rows_init(&b, &schema);
  for (int i = 0; i < 300; i++) {
    assert_ok(rows_reserve(&a, 1, i));
    if (i) memset(a.bytes + a.offsets[i], i, (size_t)i);
    a.labels[i] = i;
    a.offsets[i + 1] = a.offsets[i] + i;
    a.count++;
    assert_ok(rows_append(&b, &a, i));
  }
  assert_memory_equal(a.bytes, b.bytes, (size_t)a.offsets[300]);
  assert_fails(rows_reserve(&a, -1, 0), SHOAL_ERR_INTERNAL, "-1 rows");
  assert_fails(rows_reserve(&a, INT64_MAX, 0), SHOAL_ERR_SYSTEM, "memory");
  assert_fails(rows_reserve(&a, 1, INT64_MAX), SHOAL_ERR_SYSTEM, "memory");
  assert_memory_equal(a.bytes, b.bytes, (size_t)a.offsets[300]); /* a failure changes nothing */
  rows_fini(&a);
  rows_fini(&b);
  rows_fini(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(dense), cmocka_unit_test(sparse_and_used_again),
                                     cmocka_unit_test(bytes_and_bounds)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
