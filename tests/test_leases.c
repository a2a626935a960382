/* Batches are done once each, whoever dies. */
#include "files.h"

#include "base/mem.h"
#include "base/random.h"
#include "dist/tree.h"
#include "dist/leases.h"

static void plan_knows_rows(void **state) {
  lease_plan p = {.batch = 20, .rows = 50, .end = 6};
  assert_int_equal(lease_plan_epoch_batches(&p), 3);
  static const int64_t rows[] = {20, 20, 10, 20, 20, 10};
  for (int64_t b = 0; b < 6; b++) {
    assert_int_equal(lease_plan_rows(&p, b), rows[b]);
    assert_int_equal(lease_plan_epoch(&p, b), b / 3);
  }
}

/* A round's parts are its rows once each, along the leaves of the tree; of a short round some may be empty. */
static void rounds_are_cut_along_leaves(void **state) {
  for (int parts = 1; parts <= 7; parts++) {
    lease_plan p = {.batch = 1, .rows = 530, .end = 1000, .round = 100, .parts = parts};
    int64_t batches = lease_plan_epoch_batches(&p), next = 0;
    assert_int_equal(batches, 6 * parts);
    for (int64_t b = 0; b < batches; b++) {
      lease_span s = lease_plan_span(&p, batches + b); /* of the second epoch */
      assert_int_equal(s.part, b % parts);
      assert_int_equal(s.number, (batches + b) / parts);
      assert_int_equal(s.round, b / parts * 100);
      assert_int_equal(s.round_rows, b / parts < 5 ? 100 : 30);
      assert_int_equal(s.first, next);
      assert_true(s.rows >= 0);
      if (s.rows) assert_int_equal((s.first - s.round) % TREE_LEAF_ROWS, 0);
      assert_int_equal(lease_plan_rows(&p, b), s.rows);
      next += s.rows;
    }
    assert_int_equal(next, 530);
  }
}

static void given_back_goes_first(void **state) {
  leases l;
  assert_ok(leases_init(&l, &(lease_plan){.batch = 10, .rows = 100, .end = 5}, 0, 3, 1));
  for (int w = 0; w < 3; w++) assert_int_equal(leases_take(&l, w), w);
  assert_int_equal(leases_take(&l, 1), LEASE_NONE); /* one at a time */
  assert_int_equal(leases_give_back(&l, 2), 2);
  assert_int_equal(leases_give_back(&l, 2), LEASE_NONE);
  assert_int_equal(leases_give_back(&l, 0), 0);
  assert_int_equal(leases_free(&l), 0);
  assert_int_equal(leases_finish(&l, 1), 1);
  assert_int_equal(leases_take(&l, 1), 0);
  assert_int_equal(leases_take(&l, 0), 2);
  assert_int_equal(leases_take(&l, 2), 3);
  leases_finish(&l, 0);
  assert_int_equal(leases_take(&l, 0), 4);
  assert_int_equal(leases_free(&l), LEASE_NONE);
  for (int w = 0; w < 3; w++) {
    assert_false(leases_over(&l)); /* somebody may still give back */
    leases_finish(&l, w);
  }
  assert_true(leases_over(&l));
  leases_fini(&l);
}

/* Any order of taking, finishing and dying: each batch is finished once. */
static void each_is_done_once(void **state) {
  enum { WORKERS = 5, FIRST = 7, END = 200 };
  for (uint64_t seed = 0; seed < 50; seed++) {
    random_stream random = random_stream_make(seed, 1);
    leases l;
    int done[END] = {0};
    const int depth = 1 + (int)(seed % 3);
    assert_ok(leases_init(&l, &(lease_plan){.batch = 1, .rows = 30, .end = END}, FIRST, WORKERS, depth));
    int turns = 0;
    while (!leases_over(&l)) {
      int w = (int)random_below(&random, 2 * (uint64_t)turns, WORKERS);
      uint64_t what = random_below(&random, 2 * (uint64_t)turns + 1, 4);
      if (leases_held(&l, w) == LEASE_NONE || what == 1)
        leases_take(&l, w);
      else if (what == 0)
        leases_give_back(&l, w);
      else
        done[leases_finish(&l, w)]++;
      assert_true(++turns < 100000);
    }
    for (int b = 0; b < END; b++) assert_int_equal(done[b], b >= FIRST);
    leases_fini(&l);
  }
}

static void wrong_plans_are_refused(void **state) {
  leases l;
  shoal_status status = leases_init(&l, &(lease_plan){.batch = 0, .rows = 1, .end = 1}, 0, 1, 1);
  assert_int_equal(shoal_status_code(status), SHOAL_ERR_ARGUMENT);
  shoal_status_free(status);
}

/* What is not done, whoever has it, is what another leader begins with. */
static void comes_back_from_text(void **state) {
  leases l, other;
  text words = {0};
  const lease_plan plan = {.batch = 10, .rows = 100, .end = 20};
  assert_ok(leases_init(&l, &plan, 3, 3, 2));
  for (int i = 0; i < 2; i++)
    for (int w = 0; w < 3; w++) leases_take(&l, w); /* 0: 3 6, 1: 4 7, 2: 5 8 */
  leases_finish(&l, 1);
  leases_give_back(&l, 2);
  leases_write(&l, &words);
  assert_string_equal(words.data, "next=9 undone=3,5,6,7,8\n");
  assert_ok(leases_init(&other, &plan, 0, 3, 2));
  assert_ok(leases_read(&other, words.data));
  static const int64_t order[] = {3, 5, 6, 7, 8, 9};
  for (int i = 0; i < 6; i++) assert_int_equal(leases_take(&other, i % 3), order[i]);
  static const char *const wrong[] = {"",
                                      "next=",
                                      "next=-1 undone=",
                                      "next=9",
                                      "next=9 undone=9",
                                      "next=9 undone=5,5",
                                      "next=9 undone=-1",
                                      "next=9 undone=3;4",
                                      "next=9 undone=1,2,3,4,5,6,7"};
  for (size_t i = 0; i < COUNT_OF(wrong); i++) {
    shoal_status status = leases_read(&other, wrong[i]);
    assert_int_equal(shoal_status_code(status), SHOAL_ERR_PEER);
    shoal_status_free(status);
  }
  text_fini(&words);
  leases_fini(&l);
  leases_fini(&other);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(plan_knows_rows),
      cmocka_unit_test(given_back_goes_first),
      cmocka_unit_test(each_is_done_once),
      cmocka_unit_test(wrong_plans_are_refused),
      cmocka_unit_test(rounds_are_cut_along_leaves),
      cmocka_unit_test(comes_back_from_text),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
