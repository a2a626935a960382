/* Pipelines: every row exactly once, in an order that is fixed, from any place on. */
#include "base/mem.h"
#include "base/random.h"
#include "data/generate_images.h"
#include "data/pipeline.h"
#include "files.h"

#include <time.h>

/* Files of rows "class,number", the number counting on over all files. */
typedef struct {
  char dir[FILES_PATH];
  int64_t rows;
} set;

static void write_file(const set *s, int file, int64_t first, int64_t rows) {
  char path[FILES_PATH + 64];
  snprintf(path, sizeof path, "%s/part-%02d.csv", s->dir, file);
  FILE *to = fopen(path, "w");
  assert_non_null(to);
  fputs("label,x\n", to);
  for (int64_t i = first; i < first + rows; i++) fprintf(to, "%d,%lld\n", (int)(i % 3), (long long)i);
  fclose(to);
}

static void make_set(set *s, int64_t rows, int files) {
  files_make_folder(s->dir);
  s->rows = rows;
  int64_t first = 0;
  for (int f = 0; f < files; f++) { /* of uneven sizes, some files may be very short */
    int64_t n = f == files - 1 ? rows - first : MIN_OF(rows - first - (files - 1 - f), 1 + (f * 7 + 3) * rows / 40);
    n = MAX_OF(n, 1);
    write_file(s, f, first, n);
    first += n;
  }
}

static void remove_set(set *s) { files_remove_folder(s->dir); }

/* All numbers that come out, batch after batch; ends[] gets the count at the end of each epoch. */
typedef struct {
  int64_t *number;
  size_t count, capacity;
  int64_t ends[16];
  int epochs;
} taken;

static void take_some(shoal_pipeline *p, int64_t batches, taken *out) {
  const rows_block *b;
  int64_t epoch;
  bool last;
  for (int64_t i = 0; i < batches; i++) {
    assert_ok(pipeline_next(p, &b, &epoch, &last));
    if (!b) return;
    assert_ok(mem_grow((void **)&out->number, &out->capacity, out->count + (size_t)b->count, sizeof *out->number));
    for (int64_t k = 0; k < b->count; k++) {
      out->number[out->count] = (int64_t)((const float *)b->features)[k];
      assert_int_equal(b->labels[k], out->number[out->count] % 3);
      out->count++;
    }
    if (last) out->ends[out->epochs++] = (int64_t)out->count;
  }
}

static void take_all(const shoal_pipeline_options *o, taken *out) {
  shoal_pipeline *p;
  assert_ok(shoal_pipeline_create(o, &p));
  take_some(p, INT64_MAX, out);
  shoal_pipeline_destroy(p);
}

static void assert_same(const taken *a, const taken *b) {
  assert_int_equal(a->count, b->count);
  if (a->count) assert_memory_equal(a->number, b->number, a->count * sizeof *a->number);
}

/* ---- exactly once */

static void each_row_once(void **state) {
  static const int64_t sizes[] = {17, 40, 101};
  for (int files = 1; files <= 7; files += 2)
    for (size_t z = 0; z < COUNT_OF(sizes); z++) {
      set s;
      make_set(&s, sizes[z], files);
      for (int workers = 1; workers <= 16; workers++)
        for (int shuffle = 0; shuffle <= 2; shuffle++) {
          shoal_pipeline_options o = {.files = s.dir,
                                      .shards = workers,
                                      .epochs = 2,
                                      .batch_size = 4,
                                      .seed = 5,
                                      .shuffle_rows = shuffle == 0   ? 0
                                                      : shuffle == 1 ? 8
                                                                     : 1000};
          int seen[2][128] = {{0}};
          for (o.shard = 0; o.shard < workers; o.shard++) {
            taken t = {0}, again = {0};
            take_all(&o, &t);
            if (o.shard % 3 == 0) { /* repeatable */
              take_all(&o, &again);
              assert_same(&t, &again);
            }
            for (size_t i = 0; i < t.count; i++) seen[(int64_t)i >= t.ends[0]][t.number[i]]++;
            free(t.number);
            free(again.number);
          }
          for (int e = 0; e < 2; e++)
            for (int64_t i = 0; i < s.rows; i++)
              if (seen[e][i] != 1)
                fail_msg("%d files, %d workers, shuffle %d, epoch %d: row %d came %d times", files, workers, shuffle, e,
                         (int)i, seen[e][i]);
        }
      remove_set(&s);
    }
}

/* ---- the order */

static void order_is_mixed_anew(void **state) {
  set s;
  make_set(&s, 1000, 1);
  shoal_pipeline_options o = {.files = s.dir, .epochs = 2, .batch_size = 50, .seed = 1};
  taken plain = {0}, mixed = {0}, other = {0};
  take_all(&o, &plain);
  for (size_t i = 0; i < plain.count; i++) assert_int_equal(plain.number[i], i % 1000);
  o.shuffle_rows = 1000;
  take_all(&o, &mixed);
  o.seed = 2;
  take_all(&o, &other);
  int fixed = 0, same_epoch = 0, same_seed = 0;
  for (int i = 0; i < 1000; i++) {
    fixed += mixed.number[i] == i;
    same_epoch += mixed.number[i] == mixed.number[i + 1000];
    same_seed += mixed.number[i] == other.number[i];
  }
  assert_true(fixed < 10 && same_epoch < 10 && same_seed < 10);
  /* Windows smaller than the data: a row stays within its window, and windows begin elsewhere in the second epoch. */
  taken windows = {0};
  o.shuffle_rows = 100;
  take_all(&o, &windows);
  int outside = 0;
  for (int i = 0; i < 1000; i++) {
    assert_int_equal(windows.number[i] / 100, i / 100);
    outside += windows.number[i + 1000] / 100 != i / 100;
  }
  assert_true(outside > 0);
  free(plain.number);
  free(mixed.number);
  free(other.number);
  free(windows.number);
  remove_set(&s);
}

static void order_does_not_depend_on_threads(void **state) {
  set s;
  make_set(&s, 333, 3);
  taken first = {0};
  for (int i = 0; i < 6; i++) {
    shoal_pipeline_options o = {.files = s.dir,
                                .epochs = 3,
                                .batch_size = 7,
                                .seed = 9,
                                .shuffle_rows = 64,
                                .threads = 1 + i,
                                .prefetch = 1 + i * i};
    taken t = {0};
    take_all(&o, i ? &t : &first);
    if (i) assert_same(&first, &t);
    free(t.number);
  }
  free(first.number);
  remove_set(&s);
}

static void short_batches(void **state) {
  set s;
  make_set(&s, 50, 2);
  for (int rows = 49; rows <= 50; rows++) {
    shoal_pipeline_options o = {.files = s.dir, .epochs = 2, .batch_size = rows == 49 ? 7 : 10, .drop_short = true};
    shoal_pipeline *p;
    taken t = {0};
    shoal_pipeline_statistics n;
    assert_ok(shoal_pipeline_create(&o, &p));
    take_some(p, INT64_MAX, &t);
    shoal_pipeline_count(p, &n);
    assert_int_equal(t.count, 2 * rows);
    assert_int_equal(t.epochs, 2);
    assert_int_equal(t.ends[0], rows);
    assert_int_equal(n.dropped_rows, 2 * (50 - rows));
    shoal_pipeline_destroy(p);
    free(t.number);
  }
  shoal_pipeline *p;
  const rows_block *b;
  assert_ok(shoal_pipeline_create(
      &(shoal_pipeline_options){.files = s.dir, .epochs = 2, .batch_size = 51, .drop_short = true}, &p));
  assert_fails(pipeline_next(p, &b, NULL, NULL), SHOAL_ERR_ARGUMENT, "do not fill one batch");
  shoal_pipeline_destroy(p);
  remove_set(&s);
}

/* ---- resuming */

static void resume_from_anywhere(void **state) {
  set s;
  make_set(&s, 101, 5);
  for (int kind = 0; kind < 12; kind++) {
    static const int64_t windows[] = {0, 16, 500};
    shoal_pipeline_options o = {.files = s.dir,
                                .epochs = 3,
                                .batch_size = 6,
                                .seed = 3,
                                .shuffle_rows = windows[kind % 3],
                                .shards = kind < 3   ? 1
                                          : kind < 6 ? 2
                                          : kind < 9 ? 7
                                                     : 16,
                                .drop_short = false};
    o.shard = o.shards / 2;
    taken whole = {0};
    take_all(&o, &whole);
    for (int64_t stop = 0; stop < 60; stop++) {
      shoal_pipeline *p;
      taken t = {0};
      char position[SHOAL_POSITION_TEXT];
      assert_ok(shoal_pipeline_create(&o, &p));
      take_some(p, stop, &t);
      shoal_pipeline_position(p, position);
      shoal_pipeline_destroy(p);
      bool over = t.count == whole.count;
      shoal_pipeline_options rest = o;
      rest.position = position;
      rest.batch_size = stop % 2 ? 6 : 5; /* a position is one of rows, not of batches */
      take_all(&rest, &t);
      assert_same(&whole, &t);
      free(t.number);
      if (over) break;
    }
    free(whole.number);
  }
  remove_set(&s);
}

/* A position after the last epoch is the beginning of the one after it. */
static void resume_for_longer(void **state) {
  set s;
  make_set(&s, 101, 5);
  for (int64_t shuffle = 0; shuffle <= 40; shuffle += 20) {
    shoal_pipeline_options o = {.files = s.dir, .epochs = 3, .batch_size = 6, .seed = 3, .shuffle_rows = shuffle};
    taken whole = {0}, parts = {0};
    take_all(&o, &whole);
    o.epochs = 2;
    shoal_pipeline *p;
    char position[SHOAL_POSITION_TEXT];
    assert_ok(shoal_pipeline_create(&o, &p));
    take_some(p, INT64_MAX, &parts);
    shoal_pipeline_position(p, position);
    shoal_pipeline_destroy(p);
    o.position = position;
    take_all(&o, &parts); /* nothing */
    o.epochs = 3;
    take_all(&o, &parts);
    assert_same(&whole, &parts);
    free(whole.number);
    free(parts.number);
  }
  remove_set(&s);
}

static void wrong_positions(void **state) {
  set s;
  make_set(&s, 40, 2);
  shoal_pipeline_options o = {.files = s.dir, .epochs = 1, .shuffle_rows = 10};
  shoal_pipeline *p;
  char position[SHOAL_POSITION_TEXT], broken[SHOAL_POSITION_TEXT];
  assert_ok(shoal_pipeline_create(&o, &p));
  shoal_pipeline_position(p, position);
  shoal_pipeline_destroy(p);
  o.position = position;
  o.seed = 1;
  assert_fails(shoal_pipeline_create(&o, &p), SHOAL_ERR_ARGUMENT, "the seed was 0 then and is 1 now");
  o.seed = 0;
  o.shards = 2;
  assert_fails(shoal_pipeline_create(&o, &p), SHOAL_ERR_ARGUMENT, "number of shards was 1 then and is 2 now");
  o.shards = 1;
  o.shuffle_rows = 11;
  assert_fails(shoal_pipeline_create(&o, &p), SHOAL_ERR_ARGUMENT, "rows shuffled was 10 then and is 11 now");
  o.position = "epoch=0";
  assert_fails(shoal_pipeline_create(&o, &p), SHOAL_ERR_INPUT, "'file' is missing");
  snprintf(broken, sizeof broken, "%s", position);
  memcpy(strstr(broken, "done=0"), "done=x", 6);
  o.position = broken;
  assert_fails(shoal_pipeline_create(&o, &p), SHOAL_ERR_INPUT, "'done' is missing or no number");
  remove_set(&s);
}

/* ---- trouble */

static void write_bad(const char *dir, int rows, int every) {
  char path[FILES_PATH + 64];
  snprintf(path, sizeof path, "%s/rows.csv", dir);
  FILE *to = fopen(path, "w");
  assert_non_null(to);
  fputs("label,x\n", to);
  for (int i = 0; i < rows; i++)
    if (i % every == every - 1)
      fprintf(to, "%d,what\n", i % 3);
    else
      fprintf(to, "%d,%d\n", i % 3, i);
  fclose(to);
}

static void bad_rows(void **state) {
  char dir[FILES_PATH];
  files_make_folder(dir);
  write_bad(dir, 400, 150); /* 2 of 400: below 1 % */
  for (int shuffle = 0; shuffle < 2; shuffle++) {
    shoal_pipeline_options o = {.files = dir, .epochs = 1, .batch_size = 64, .shuffle_rows = shuffle ? 128 : 0};
    shoal_pipeline *p;
    const rows_block *b;
    shoal_status status = NULL;
    int64_t rows = 0;
    assert_ok(shoal_pipeline_create(&o, &p));
    while (!(status = pipeline_next(p, &b, NULL, NULL)) && b) rows += b->count;
    assert_int_equal(rows, 149); /* all before it, then the error */
    assert_int_equal(shoal_status_code(status), SHOAL_ERR_INPUT);
    assert_non_null(strstr(shoal_status_message(status), "rows.csv: record 149 at byte"));
    shoal_status_free(status);
    assert_ok(pipeline_next(p, &b, NULL, NULL));
    assert_null(b);
    shoal_pipeline_destroy(p);

    o.skip_bad_rows = true;
    int counts[400] = {0};
    shoal_pipeline_statistics n;
    for (o.shard = 0, o.shards = 4; o.shard < 4; o.shard++) {
      taken t = {0};
      assert_ok(shoal_pipeline_create(&o, &p));
      take_some(p, INT64_MAX, &t);
      shoal_pipeline_count(p, &n);
      for (size_t i = 0; i < t.count; i++) counts[t.number[i]]++;
      shoal_pipeline_destroy(p);
      free(t.number);
    }
    for (int i = 0; i < 400; i++) assert_int_equal(counts[i], i % 150 != 149);
    o.shard = o.shards = 0;
    taken t = {0};
    assert_ok(shoal_pipeline_create(&o, &p));
    take_some(p, INT64_MAX, &t);
    shoal_pipeline_count(p, &n);
    assert_int_equal(t.count, 398);
    assert_int_equal(n.bad_rows, 2);
    assert_int_equal(n.seen, 400);
    shoal_pipeline_destroy(p);
    free(t.number);
  }
  /* More than 1 %: at the end of a short file, after 1000 rows of a long one. */
  for (int rows = 300; rows <= 3000; rows *= 10) {
    write_bad(dir, rows, 50);
    shoal_pipeline *p;
    const rows_block *b;
    shoal_status status = NULL;
    assert_ok(shoal_pipeline_create(&(shoal_pipeline_options){.files = dir, .epochs = 1, .skip_bad_rows = true}, &p));
    while (!(status = pipeline_next(p, &b, NULL, NULL)) && b) {}
    assert_int_equal(shoal_status_code(status), SHOAL_ERR_INPUT);
    assert_non_null(strstr(shoal_status_message(status),
                           rows == 300 ? "6 of 300 rows are bad, more than 1 %" : "20 of 1000 rows are bad"));
    shoal_status_free(status);
    shoal_pipeline_destroy(p);
  }
  files_remove_folder(dir);
}

static void files_that_do_not_fit(void **state) {
  set s;
  make_set(&s, 30, 1);
  char path[FILES_PATH + 64];
  snprintf(path, sizeof path, "%s/wide.csv", s.dir);
  files_write(path, "label,x,y\n1,2,3\n", 16);
  shoal_pipeline *p;
  shoal_pipeline_options both = {.files = s.dir, .epochs = 1, .batch_size = 30};
  assert_fails(shoal_pipeline_create(&both, &p), SHOAL_ERR_INPUT,
               "wide.csv: column 2 ('y') is none of the 2 columns of the training rows");
  shoal_pipeline_options o = {.files = s.dir, .format = "cvs"};
  assert_fails(shoal_pipeline_create(&o, &p), SHOAL_ERR_ARGUMENT, "did you mean 'csv'?");
  o = (shoal_pipeline_options){.files = s.dir, .shard = 3, .shards = 3};
  assert_fails(shoal_pipeline_create(&o, &p), SHOAL_ERR_ARGUMENT, "shard 3 of 3");
  remove_set(&s);
}

/* Endless pipelines, closed at any moment; workers without rows. */
static void endless_and_empty(void **state) {
  set s;
  make_set(&s, 5, 1);
  for (int i = 0; i < 20; i++) {
    shoal_pipeline *p;
    taken t = {0};
    assert_ok(shoal_pipeline_create(
        &(shoal_pipeline_options){.files = s.dir, .batch_size = 2, .shuffle_rows = i % 2 * 3, .prefetch = 3}, &p));
    take_some(p, i % 10, &t);
    shoal_pipeline_destroy(p);
    free(t.number);
  }
  shoal_pipeline_options o = {.files = s.dir, .shard = 6, .shards = 7, .epochs = 2};
  taken none = {0};
  take_all(&o, &none);
  assert_int_equal(none.count, 0);
  o.epochs = 0;
  shoal_pipeline *p;
  const rows_block *b;
  assert_ok(shoal_pipeline_create(&o, &p));
  assert_fails(pipeline_next(p, &b, NULL, NULL), SHOAL_ERR_INPUT, "no rows for worker 6 of 7");
  shoal_pipeline_destroy(p);
  remove_set(&s);
}

/* ---- transforms */

/* Sums of the pixels, which tell the images apart, and flips by what is left of the middle. */
static void take_images(const shoal_pipeline_options *o, taken *out) {
  shoal_pipeline *p;
  const shoal_batch *b;
  shoal_status status;
  assert_ok(shoal_pipeline_create(o, &p));
  while (!(status = shoal_pipeline_next(p, &b)) && b) {
    assert_ok(mem_grow((void **)&out->number, &out->capacity, out->count + (size_t)b->count, sizeof *out->number));
    for (int64_t k = 0; k < b->count; k++) {
      const uint8_t *pixel = (const uint8_t *)b->features.data + k * 16 * 16;
      int64_t sum = 0;
      for (int i = 0; i < 16 * 16; i++) sum += (i + 1) * pixel[i];
      out->number[out->count++] = sum;
    }
  }
  if (status) fail_msg("%s", shoal_status_message(status));
  shoal_pipeline_destroy(p);
}

static void remove_images(const char *dir, int classes) {
  char path[FILES_PATH + 64];
  for (int c = 0; c < classes; c++) {
    snprintf(path, sizeof path, "%s/class-%03d", dir, c);
    files_remove_folder(path);
  }
  files_remove_folder(dir);
}

static void transforms_in_parallel(void **state) {
  char dir[FILES_PATH], path[FILES_PATH + 64];
  files_make_folder(dir);
  assert_ok(shoal_generate_images(&(shoal_images_options){
      .out = dir, .rows = 120, .classes = 3, .height = 20, .width = 24, .channels = 3, .noise = 10, .seed = 4}));
  taken first = {0};
  shoal_pipeline_options o = {
      .files = dir, .epochs = 2, .batch_size = 7, .seed = 9, .shuffle_rows = 50, .transform = "resize=16x16,gray,flip"};
  for (int i = 0; i < 5; i++) {
    taken t = {0};
    o.threads = 1 + i;
    o.prefetch = 1 + 2 * i;
    take_images(&o, i ? &t : &first);
    if (i) assert_same(&first, &t);
    free(t.number);
  }
  assert_int_equal(first.count, 240);
  int same = 0; /* flips are drawn anew each epoch, so that the sums of one differ from the other's */
  for (int a = 0; a < 120; a++)
    for (int b = 120; b < 240; b++) same += first.number[a] == first.number[b];
  assert_true(same > 20 && same < 110);
  free(first.number);

  /* One that is no image: an error, or one row less. 1 of 120 is below 1 %. */
  snprintf(path, sizeof path, "%s/class-001/00000004.png", dir);
  files_write(path, "\x89PNG\r\n\x1a\n and nothing more", 24);
  shoal_pipeline *p;
  const shoal_batch *b;
  shoal_status status;
  o.epochs = 1;
  assert_ok(shoal_pipeline_create(&o, &p));
  while (!(status = shoal_pipeline_next(p, &b)) && b) {}
  assert_int_equal(shoal_status_code(status), SHOAL_ERR_INPUT);
  assert_non_null(strstr(shoal_status_message(status), "class-001/00000004.png: record 41 at byte 0"));
  shoal_status_free(status);
  shoal_pipeline_destroy(p);
  o.skip_bad_rows = true;
  taken t = {0};
  take_images(&o, &t);
  assert_int_equal(t.count, 119);
  free(t.number);
  remove_images(dir, 3);
}

/* ---- prefetching */

static void reads_ahead(void **state) {
  set s;
  make_set(&s, 600, 1);
  shoal_pipeline *p;
  const shoal_batch *b;
  assert_ok(shoal_pipeline_create(
      &(shoal_pipeline_options){.files = s.dir, .epochs = 1, .batch_size = 100, .prefetch = 8}, &p));
  nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL); /* all six are ready by now */
  double before = pipeline_wait_seconds(p);
  int batches = 0;
  const void *last = NULL;
  while (shoal_pipeline_next(p, &b) == NULL && b) {
    batches++;
    assert_int_equal(b->features.shape.dim[0], 100);
    assert_int_equal(b->labels.shape.dim[0], 100);
    assert_true(b->features.data != last);
    last = b->features.data;
    assert_int_equal(b->last, batches == 6);
  }
  assert_int_equal(batches, 6);
  assert_true(pipeline_wait_seconds(p) - before < 0.1);
  shoal_pipeline_destroy(p);
  remove_set(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_row_once),
      cmocka_unit_test(order_is_mixed_anew),
      cmocka_unit_test(order_does_not_depend_on_threads),
      cmocka_unit_test(short_batches),
      cmocka_unit_test(resume_from_anywhere),
      cmocka_unit_test(resume_for_longer),
      cmocka_unit_test(wrong_positions),
      cmocka_unit_test(bad_rows),
      cmocka_unit_test(files_that_do_not_fit),
      cmocka_unit_test(endless_and_empty),
      cmocka_unit_test(transforms_in_parallel),
      cmocka_unit_test(reads_ahead),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
