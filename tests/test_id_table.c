/* Tables of growing ids against a plain list: admission, eviction by age and by size, the limit of memory, counts; saved
 * and restored in the middle they go on as they would have. */
#include "base/id_table.h"
#include "base/random.h"
#include "files.h"

enum { WIDTH = 3, BATCH = 64, PARTS = 32, MOST = 1 << 16 };

static void begin_row(void *context, uint64_t id, float *row) {
  for (int k = 0; k < WIDTH; k++) row[k] = (float)(id % 1000) + (float)k;
}

/* The reference: every id that ever came. */
typedef struct {
  uint64_t id;
  int64_t seen, used; /* used 0: has no row */
  float number;       /* the first of its row */
} entry;

typedef struct {
  entry *all; /* [n] */
  int64_t n, ids, admitted, evicted;
} reference;

static entry *find(reference *r, uint64_t id) {
  for (int64_t i = 0; i < r->n; i++)
    if (r->all[i].id == id) return &r->all[i];
  assert_true(r->n < MOST);
  r->all[r->n] = (entry){.id = id};
  return &r->all[r->n++];
}

static int by_number(const void *a, const void *b) {
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

static void drop(reference *r, int64_t up_to) {
  for (int64_t i = 0; i < r->n; i++)
    if (r->all[i].used && r->all[i].used <= up_to) {
      r->all[i].used = r->all[i].seen = 0;
      r->ids--;
      r->evicted++;
    }
}

/* A full table loses its oldest rows, a 32nd of them or as many as are of the same step. */
static void drop_oldest(reference *r, int64_t limit, int64_t step) {
  int64_t *used = calloc((size_t)r->n, sizeof *used), n = 0;
  for (int64_t i = 0; i < r->n; i++)
    if (r->all[i].used && r->all[i].used < step) used[n++] = r->all[i].used;
  qsort(used, (size_t)n, sizeof *used, by_number);
  const int64_t want = limit / PARTS;
  drop(r, used[(want < n ? want : n) - 1]);
  free(used);
}

static void reference_use(reference *r, const id_table_options *o, int64_t limit, int64_t before, int64_t step,
                          const uint64_t *ids, int n) {
  const int64_t period = o->evict_after / 8 > 1 ? o->evict_after / 8 : 1;
  if (o->evict_after && before / period != step / period) drop(r, step - o->evict_after - 1);
  for (int i = 0; i < n; i++) {
    entry *e = find(r, ids[i]);
    if (e->used) e->used = step;
  }
  for (int i = 0; i < n; i++) {
    entry *e = find(r, ids[i]);
    if (e->used || ++e->seen < o->admit) continue;
    if (r->ids == limit) drop_oldest(r, limit, step);
    e->used = step;
    e->number = (float)(e->id % 1000);
    r->ids++;
    r->admitted++;
  }
}

/* Frequent ids, and some that come once. */
static int make_batch(int64_t step, uint64_t *ids) {
  int n = 0;
  for (int i = 0; i < BATCH; i++) {
    const uint64_t x = random_mix(7, (uint64_t)step * BATCH + (uint64_t)i);
    const uint64_t id = x % 3 ? random_mix(1, x % 300 * (x >> 20 & 3)) : x;
    bool known = false;
    for (int k = 0; k < n; k++) known |= ids[k] == id;
    if (!known) ids[n++] = id;
  }
  return n;
}

static void compare(const id_table *t, reference *r) {
  id_table_counts c;
  id_table_count(t, &c);
  assert_int_equal(c.ids, r->ids);
  assert_int_equal(c.admitted, r->admitted);
  assert_int_equal(c.evicted, r->evicted);
  for (int64_t i = 0; i < r->n; i++) {
    int32_t row;
    id_table_find(t, &r->all[i].id, 1, &row);
    assert_int_equal(row >= 0, r->all[i].used > 0);
    if (row >= 0) assert_true(id_table_row(t, row)[0] == r->all[i].number);
  }
}

/* A copy by way of what is saved. */
static id_table *copy(const id_table *t, const id_table_options *o) {
  id_table *to;
  id_table_state s;
  float *numbers;
  assert_ok(id_table_create(o, &to));
  id_table_state_of(t, &s);
  for (int64_t i = s.rows - 1; i >= 0; i--) {
    assert_ok(id_table_put(to, i, id_table_at(t, i), &numbers));
    memcpy(numbers, id_table_row(t, i), WIDTH * sizeof *numbers);
  }
  const int64_t n = id_table_waiting(t, NULL, NULL);
  int64_t *ids = calloc((size_t)n + 1, sizeof *ids);
  int32_t *seen = calloc((size_t)n + 1, sizeof *seen);
  id_table_waiting(t, ids, seen);
  for (int64_t i = 0; i < n; i++) assert_ok(id_table_put_waiting(to, ids[i], seen[i]));
  free(ids);
  free(seen);
  assert_ok(id_table_finish(to, &s));
  return to;
}

static void check(const id_table_options *given, int steps) {
  id_table_options o = *given;
  o.width = WIDTH;
  o.begin = begin_row;
  id_table *t, *saved = NULL;
  assert_ok(id_table_create(&o, &t));
  reference r = {.all = calloc(MOST, sizeof(entry))};
  const int64_t limit = id_table_capacity(t);
  uint64_t ids[BATCH];
  int32_t rows[BATCH], same[BATCH];
  for (int64_t step = 1; step <= steps; step++) {
    const int n = make_batch(step, ids);
    reference_use(&r, &o, limit, step - 1, step, ids, n);
    assert_ok(id_table_use(t, step, ids, n, rows));
    for (int i = 0; i < n; i++) {
      entry *e = find(&r, ids[i]);
      assert_int_equal(rows[i] >= 0, e->used > 0);
      if (rows[i] >= 0) id_table_row(t, rows[i])[0] = e->number += 0.5f;
    }
    if (saved) { /* the same numbers of rows, and the same numbers in them */
      assert_ok(id_table_use(saved, step, ids, n, same));
      assert_memory_equal(rows, same, (size_t)n * sizeof *rows);
      for (int i = 0; i < n; i++)
        if (rows[i] >= 0) id_table_row(saved, rows[i])[0] += 0.5f;
    }
    if (step == steps / 2) saved = copy(t, &o);
    id_table_counts c;
    id_table_count(t, &c);
    assert_true(!o.memory || c.bytes <= o.memory);
    if (step % 50 == 0) compare(t, &r);
  }
  compare(t, &r);
  compare(saved, &r);
  if (o.memory) assert_true(r.evicted > limit);
  free(r.all);
  id_table_destroy(t);
  id_table_destroy(saved);
}

static void test_grows(void **state) { check(&(id_table_options){0}, 400); }
static void test_admits(void **state) { check(&(id_table_options){.admit = 3}, 400); }
static void test_evicts_by_age(void **state) { check(&(id_table_options){.evict_after = 20}, 400); }
static void test_evicts_by_size(void **state) { check(&(id_table_options){.memory = 40000}, 600); }
static void test_evicts_by_both(void **state) { check(&(id_table_options){.memory = 40000, .evict_after = 50}, 600); }

/* Ids that differ in one bit, ids 0 and -1, and many that belong to the same place: none is taken for another. */
static void test_collisions(void **state) {
  enum { N = 20000 };
  id_table *t;
  assert_ok(id_table_create(&(id_table_options){.width = WIDTH, .begin = begin_row}, &t));
  uint64_t *ids = calloc(N, sizeof *ids);
  int32_t *rows = calloc(N, sizeof *rows), *again = calloc(N, sizeof *again);
  for (int i = 0; i < N; i++)
    ids[i] = i < 64 ? (uint64_t)1 << i : i < 10000 ? (uint64_t)i * 4096 + 3 : ~(uint64_t)(i - 10000);
  ids[64] = 0;
  assert_ok(id_table_use(t, 1, ids, N, rows));
  uint8_t *taken = calloc(N, 1);
  for (int i = 0; i < N; i++) assert_true(rows[i] >= 0 && rows[i] < N && !taken[rows[i]]++);
  id_table_find(t, ids, N, again);
  assert_memory_equal(rows, again, N * sizeof *rows);
  id_table_counts c;
  id_table_count(t, &c);
  assert_int_equal(c.ids, N);
  free(ids);
  free(rows);
  free(again);
  free(taken);
  id_table_destroy(t);
}

/* With a limit of memory, sightings are remembered of the last ids alone: what is seen again soon is admitted. */
static void test_waiting_is_bounded(void **state) {
  id_table *t;
  id_table_options o = {.width = WIDTH, .memory = 60000, .admit = 2, .begin = begin_row};
  assert_ok(id_table_create(&o, &t));
  for (int64_t step = 1; step <= 20000; step++) {
    uint64_t ids[2] = {random_mix(1, (uint64_t)step), random_mix(1, (uint64_t)step - 5)};
    int32_t rows[2];
    assert_ok(id_table_use(t, step, ids, 2, rows));
    assert_int_equal(rows[0], -1);
    if (step > 5) assert_true(rows[1] >= 0);
  }
  id_table_counts c;
  id_table_count(t, &c);
  assert_true(c.bytes <= o.memory && c.evicted > 0 && c.admitted == 19995 && c.ids == c.admitted - c.evicted);
  assert_true(id_table_waiting(t, NULL, NULL) < 1000);
  id_table_destroy(t);
}

static void test_refusals(void **state) {
  id_table *t;
  const id_table_options o = {.width = WIDTH, .memory = 8000, .begin = begin_row};
  assert_fails(id_table_create(&(id_table_options){.width = 100, .memory = 1000, .begin = begin_row}, &t),
               SHOAL_ERR_ARGUMENT, "give it more");
  assert_fails(id_table_create(&(id_table_options){.width = 1, .admit = 256, .begin = begin_row}, &t),
               SHOAL_ERR_ARGUMENT, "admit 256");
  assert_ok(id_table_create(&o, &t));
  uint64_t ids[1000];
  int32_t rows[1000];
  for (int i = 0; i < 1000; i++) ids[i] = (uint64_t)i;
  assert_fails(id_table_use(t, 1, ids, 1000, rows), SHOAL_ERR_ARGUMENT, "smaller batches");
  assert_fails(id_table_use(t, 0, ids, 1, rows), SHOAL_ERR_ARGUMENT, "steps from 1");
  id_table_destroy(t);
  float *numbers;
  const id_table_state state_of[] = {{.rows = 2, .free_row = -1, .ids = 2, .step = 5},
                                     {.rows = 3, .free_row = -1, .ids = 3, .step = 5},
                                     {.rows = 2, .free_row = 1, .ids = 1, .step = 5},
                                     {.rows = 2, .free_row = -1, .ids = 2, .step = 1}};
  static const char *const why[] = {"twice", "missing", "no list", "after the last"};
  for (int i = 0; i < 4; i++) {
    assert_ok(id_table_create(&o, &t));
    assert_ok(id_table_put(t, 0, (id_table_place){9, 2}, &numbers));
    assert_ok(id_table_put(t, 1, (id_table_place){i == 0 ? 9 : 8, 3}, &numbers));
    assert_fails(id_table_finish(t, &state_of[i]), SHOAL_ERR_INPUT, why[i]);
    id_table_destroy(t);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_grows),
      cmocka_unit_test(test_admits),
      cmocka_unit_test(test_evicts_by_age),
      cmocka_unit_test(test_evicts_by_size),
      cmocka_unit_test(test_evicts_by_both),
      cmocka_unit_test(test_collisions),
      cmocka_unit_test(test_waiting_is_bounded),
      cmocka_unit_test(test_refusals),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
