/* Batches of a stream are done once each, in the order of their shard, whoever dies. */
#include "files.h"

#include "base/random.h"
#include "dist/stream_leases.h"

#include <string.h>

static void finish(stream_leases *l, int shard, int64_t rows, int64_t epochs, int64_t handed_on) {
  stream_batch b = {.shard = shard, .index = l->shards[shard].done, .rows = rows, .epochs = epochs};
  assert_true(stream_leases_is_new(l, &b));
  assert_int_equal(stream_leases_finish(l, &b), handed_on);
  if (rows) assert_false(stream_leases_is_new(l, &b));
}

/* However uneven the shards are. */
static void workers_keep_their_own(void **state) {
  stream_leases l;
  assert_ok(stream_leases_init(&l, 3, 2, ""));
  for (int w = 2; w >= 0; w--) assert_int_equal(stream_leases_take(&l, w), w);
  finish(&l, 0, 10, 1, 0);
  finish(&l, 1, 10, 0, 0);
  for (int w = 0; w < 3; w++) assert_int_equal(stream_leases_take(&l, w), w);
  finish(&l, 0, 10, 2, 0);
  assert_int_equal(stream_leases_take(&l, 0), LEASE_NONE);
  assert_false(stream_leases_has_free(&l));
  finish(&l, 1, 10, 2, 0);
  assert_int_equal(stream_leases_epochs(&l), 0);
  finish(&l, 2, 10, 1, 0);
  assert_int_equal(stream_leases_epochs(&l), 1);
  assert_false(stream_leases_over(&l));
  finish(&l, 2, 0, 2, 0); /* it had no rows left */
  assert_true(stream_leases_over(&l));
  stream_leases_fini(&l);
}

/* What a lost worker had goes to who is without, or who ends an epoch that is later. */
static void a_lost_shard_is_taken_in_turns(void **state) {
  stream_leases l;
  assert_ok(stream_leases_init(&l, 3, 0, ""));
  for (int w = 0; w < 3; w++) stream_leases_take(&l, w);
  finish(&l, 2, 10, 0, 0);
  stream_leases_give_back(&l, 2);
  assert_true(stream_leases_has_free(&l));
  finish(&l, 0, 10, 0, 0);
  assert_int_equal(stream_leases_take(&l, 0), 0); /* in the middle of an epoch */
  finish(&l, 0, 10, 1, 0);
  assert_int_equal(stream_leases_take(&l, 0), 2);
  finish(&l, 1, 10, 1, 0);
  assert_int_equal(stream_leases_take(&l, 1), 1); /* the free one is not behind */
  finish(&l, 2, 10, 0, 10);
  finish(&l, 2, 7, 1, 7);
  assert_int_equal(stream_leases_take(&l, 0), 2);
  finish(&l, 2, 10, 2, 0); /* nobody has had that before */
  assert_int_equal(stream_leases_take(&l, 0), 0);
  assert_int_equal(stream_leases_take(&l, 2), 2); /* it is back */
  stream_leases_give_back(&l, 2);
  assert_int_equal(stream_leases_take(&l, 2), 2);
  finish(&l, 2, 10, 2, 10); /* the one it had; those after it are its own again */
  finish(&l, 2, 10, 2, 0);
  stream_leases_fini(&l);
}

/* Any order of taking, finishing and dying: each batch of each epoch is finished once, in order. */
static void each_is_done_once(void **state) {
  enum { WORKERS = 4, EPOCHS = 3, MOST = 40 };
  for (uint64_t seed = 0; seed < 100; seed++) {
    random_stream random = random_stream_make(seed, 2);
    stream_leases l;
    assert_ok(stream_leases_init(&l, WORKERS, EPOCHS, ""));
    int64_t batches[WORKERS], next[WORKERS] = {0}; /* of an epoch; that comes next */
    for (int i = 0; i < WORKERS; i++) batches[i] = (int64_t)random_below(&random, (uint64_t)i, 12);
    uint64_t turn = WORKERS;
    while (!stream_leases_over(&l)) {
      int w = (int)random_below(&random, turn++, WORKERS), shard = stream_leases_held(&l, w);
      uint64_t what = random_below(&random, turn++, 6);
      if (shard == LEASE_NONE || what == 0) {
        if (shard != LEASE_NONE) stream_leases_give_back(&l, w);
        shard = stream_leases_take(&l, w);
        for (int i = 0; i < WORKERS; i++)
          if (i != w && shard != LEASE_NONE) assert_int_not_equal(stream_leases_held(&l, i), shard);
        continue;
      }
      int64_t rows = batches[shard] * EPOCHS > next[shard], done = next[shard] + rows;
      stream_batch b = {.shard = shard, .index = next[shard], .rows = rows};
      b.epochs = done >= batches[shard] * EPOCHS ? EPOCHS : done / batches[shard];
      assert_int_equal(l.shards[shard].done, next[shard]);
      stream_leases_finish(&l, &b);
      next[shard] = done;
      stream_leases_take(&l, w);
      assert_true(turn < 100000);
    }
    for (int i = 0; i < WORKERS; i++) assert_int_equal(next[i], batches[i] * EPOCHS);
    assert_int_equal(stream_leases_epochs(&l), EPOCHS);
    stream_leases_fini(&l);
  }
}

/* A mark counts when its batch is reached; of a worker that dies before, it does not. */
static void marks_wait_for_their_batch(void **state) {
  stream_leases l;
  assert_ok(stream_leases_init(&l, 1, 1, ""));
  stream_leases_take(&l, 0);
  stream_leases_mark(&l, 0, 1, "one", 3);
  assert_int_equal(l.shards[0].mark.index, 0);
  stream_leases_give_back(&l, 0);
  stream_leases_take(&l, 0);
  finish(&l, 0, 5, 0, 5);
  assert_int_equal(l.shards[0].mark.index, 0);
  stream_leases_mark(&l, 0, 2, "two", 3);
  finish(&l, 0, 5, 0, 0);
  assert_int_equal(l.shards[0].mark.index, 2);
  assert_string_equal(l.shards[0].mark.text, "two");
  stream_leases_mark(&l, 0, 4, "beyond", 6);
  stream_leases_mark(&l, 1, 3, "nobody's", 8);
  stream_leases_mark(&l, 0, 3, "two\nlines", 9);
  finish(&l, 0, 5, 0, 0);
  assert_string_equal(l.shards[0].mark.text, "two");
  assert_null(stream_leases_find(&l, 0, 1));
  stream_leases_mark(&l, 0, 4, "four", 4);
  finish(&l, 0, 5, 0, 0);
  assert_int_equal(stream_leases_find(&l, 0, 4)->index, 4);
  assert_int_equal(stream_leases_find(&l, 0, 3)->index, 2); /* a batch before the mark may be wanted once more */
  stream_leases_fini(&l);
}

static void comes_back_from_text(void **state) {
  stream_leases l, back;
  text words = {0};
  assert_ok(stream_leases_init(&l, 2, 1, ""));
  stream_leases_take(&l, 1);
  stream_leases_mark(&l, 1, 1, "epoch=0 file=3 record=7", 23);
  finish(&l, 1, 5, 0, 0);
  finish(&l, 1, 5, 1, 0);
  stream_leases_write(&l, &words);
  assert_ok(stream_leases_init(&back, 2, 2, words.data)); /* one more epoch than before */
  assert_int_equal(back.shards[0].done, 0);
  assert_int_equal(back.shards[1].done, 2);
  assert_int_equal(back.shards[1].epochs, 1);
  assert_int_equal(back.shards[1].mark.index, 1);
  assert_string_equal(back.shards[1].mark.text, "epoch=0 file=3 record=7");
  assert_int_equal(stream_leases_take(&back, 1), 1);
  stream_leases_fini(&back);
  const char *const wrong[] = {"done=1 epochs=0 mark=0 \n", "done=-1 epochs=0 mark=0 \ndone=1 epochs=0 mark=0 \n",
                               "done=1 epochs=0 mark=2 x\ndone=1 epochs=0 mark=0 \n", "\n\n", "x"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    shoal_status status = stream_leases_init(&back, 2, 2, wrong[i]);
    assert_int_equal(shoal_status_code(status), SHOAL_ERR_INPUT);
    shoal_status_free(status);
  }
  text_fini(&words);
  stream_leases_fini(&l);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(workers_keep_their_own), cmocka_unit_test(a_lost_shard_is_taken_in_turns),
      cmocka_unit_test(each_is_done_once),      cmocka_unit_test(marks_wait_for_their_batch),
      cmocka_unit_test(comes_back_from_text),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
