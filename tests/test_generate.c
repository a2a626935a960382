/* Generated click logs: the shape, repeatability, and that they can be learnt from. */
#include "read_rows.h"

#include "shoal/data.h"
#include "data/sparse.h"

#include <math.h>

static void read_form(const char *dir, shoal_criteo_form form, int file, int64_t features, rows_block *out) {
  static const format *const formats[] = {&format_tfrecord, &format_libsvm, &format_criteo};
  char path[FILES_PATH + 32];
  if (form == SHOAL_CRITEO_TFRECORD)
    snprintf(path, sizeof path, "%s/tfrecords%02d", dir, file);
  else
    snprintf(path, sizeof path, "%s/clicks%02d.%s", dir, file, form == SHOAL_CRITEO_LIBSVM ? "libsvm" : "tsv");
  const format *found;
  assert_ok(format_detect(path, &found));
  assert_ptr_equal(found, formats[form]);
  read_file_rows(found, path, &(format_options){.features = features}, out);
}

static void shape_of_rows(void **state) {
  char dir[FILES_PATH];
  files_make_folder(dir);
  shoal_criteo_options s = {.out = dir, .rows = 20005, .files = 3, .seed = 7};
  shoal_criteo_truth truth;
  assert_ok(shoal_generate_criteo(&s, &truth));
  assert_int_equal(files_count(dir), 4);
  int64_t rows = 0, positive = 0, entries = 0;
  int32_t largest = 0;
  for (int file = 0; file < 3; file++) {
    rows_block b;
    read_form(dir, SHOAL_CRITEO_TFRECORD, file, CRITEO_FEATURES, &b);
    assert_int_equal(b.count, file == 0 ? 6669 : 6668);
    for (int64_t i = 0; i < b.count; i++) {
      int64_t n = b.offsets[i + 1] - b.offsets[i];
      assert_true(n >= 24 && n <= 39);
      positive += b.labels[i];
      assert_true(b.indices[b.offsets[i]] >= 1);
      if (b.indices[b.offsets[i + 1] - 1] > largest) largest = b.indices[b.offsets[i + 1] - 1];
    }
    rows += b.count;
    entries += b.offsets[b.count];
    rows_fini(&b);
  }
  assert_int_equal(rows, 20005);
  assert_true(largest > 33000000);
  assert_true(entries > rows * 32 && entries < rows * 35);
  assert_true(fabs(truth.positive_share - (double)positive / 20005) < 1e-9);
  assert_true(truth.positive_share > 0.24 && truth.positive_share < 0.28);
  assert_int_equal(truth.test_rows, 6668);
  assert_true(truth.test_log_loss < 0.8 * truth.constant_log_loss);
  files_remove_folder(dir);
}

/* Interactions count for much, three fields' for less; sums and pairs of features know nothing of what they leave out. */
static void levels_of_truth(void **state) {
  for (uint64_t seed = 1; seed <= 3; seed++) {
    char dir[FILES_PATH];
    files_make_folder(dir);
    shoal_criteo_options s = {.out = dir, .rows = 20000, .files = 2, .seed = seed, .interactions = true};
    shoal_criteo_truth t;
    assert_ok(shoal_generate_criteo(&s, &t));
    assert_true(t.constant_log_loss > t.additive_log_loss + 0.05);
    assert_true(t.additive_log_loss > t.pairwise_log_loss + 0.03);
    assert_true(t.pairwise_log_loss > t.test_log_loss + 0.005);
    files_remove_folder(dir);
  }
  char dir[FILES_PATH];
  files_make_folder(dir);
  shoal_criteo_options s = {.out = dir, .rows = 1000, .files = 2, .seed = 1};
  shoal_criteo_truth t;
  assert_ok(shoal_generate_criteo(&s, &t));
  assert_true(t.additive_log_loss == t.test_log_loss && t.pairwise_log_loss == t.test_log_loss);
  files_remove_folder(dir);
}

/* The same seed gives the same files; another gives others; the three forms hold the same rows. */
static void repeatable(void **state) {
  char dirs[4][FILES_PATH];
  shoal_criteo_options s = {.rows = 500, .features = 5000, .files = 2, .seed = 3};
  for (int i = 0; i < 4; i++) {
    files_make_folder(dirs[i]);
    s.out = dirs[i];
    s.form = i == 2 ? SHOAL_CRITEO_LIBSVM : SHOAL_CRITEO_TFRECORD;
    s.seed = i == 3 ? 4 : 3;
    assert_ok(shoal_generate_criteo(&s, NULL));
  }
  for (int file = 0; file < 2; file++) {
    rows_block b[4];
    for (int i = 0; i < 4; i++)
      read_form(dirs[i], i == 2 ? SHOAL_CRITEO_LIBSVM : SHOAL_CRITEO_TFRECORD, file, 5000, &b[i]);
    assert_same_rows(&b[0], 0, &b[1]);
    assert_same_rows(&b[0], 0, &b[2]);
    assert_true(memcmp(b[0].indices, b[3].indices, 100 * sizeof *b[0].indices) != 0);
    for (int i = 0; i < 4; i++) rows_fini(&b[i]);
  }
  for (int i = 0; i < 4; i++) files_remove_folder(dirs[i]);
}

/* One pass of plain logistic regression (AdaGrad) over the first files; the log loss on the last. */
static double learn(const char *dir, shoal_criteo_form form, int files, int64_t features) {
  float *w = calloc((size_t)features, sizeof *w), *g2 = calloc((size_t)features, sizeof *g2);
  double loss = 0;
  int64_t rows = 0;
  for (int file = 0; file < files; file++) {
    rows_block b;
    read_form(dir, form, file, features, &b);
    for (int64_t i = 0; i < b.count; i++) {
      double x = 0;
      for (int64_t e = b.offsets[i]; e < b.offsets[i + 1]; e++) x += (double)w[b.indices[e]] * b.values[e];
      double p = 1 / (1 + exp(-x));
      if (file == files - 1) {
        loss -= log(b.labels[i] ? p : 1 - p);
        rows++;
        continue;
      }
      for (int64_t e = b.offsets[i]; e < b.offsets[i + 1]; e++) {
        float g = (float)(p - b.labels[i]) * b.values[e];
        int32_t k = b.indices[e];
        g2[k] += g * g;
        if (g != 0) w[k] -= 0.05f * g / (sqrtf(g2[k]) + 1e-6f);
      }
    }
    rows_fini(&b);
  }
  free(w);
  free(g2);
  return loss / (double)rows;
}

static void learnable(void **state) {
  for (int form = SHOAL_CRITEO_TFRECORD; form <= SHOAL_CRITEO_TSV; form += SHOAL_CRITEO_TSV - SHOAL_CRITEO_TFRECORD) {
    char dir[FILES_PATH];
    files_make_folder(dir);
    shoal_criteo_options s = {
        .out = dir, .rows = 60000, .features = 20000, .files = 6, .form = (shoal_criteo_form)form};
    shoal_criteo_truth truth;
    assert_ok(shoal_generate_criteo(&s, &truth));
    double loss = learn(dir, (shoal_criteo_form)form, 6, 20000);
    /* At least half of the way from knowing nothing to knowing the model. */
    if (loss > (truth.constant_log_loss + truth.test_log_loss) / 2 || loss < truth.test_log_loss * 0.98)
      fail_msg("form %d: learnt %g, at best %g, knowing nothing %g", form, loss, truth.test_log_loss,
               truth.constant_log_loss);
    files_remove_folder(dir);
  }
}

static bool stop_soon(void *context, int64_t done, int64_t rows) {
  *(int *)context += 1;
  return done < 8000;
}

static void refusals(void **state) {
  char dir[FILES_PATH], inner[FILES_PATH + 16];
  files_make_folder(dir);
  int calls = 0;
  shoal_criteo_options s = {.out = dir, .rows = 100000, .files = 1};
  s.progress = stop_soon;
  s.context = &calls;
  assert_fails(shoal_generate_criteo(&s, NULL), SHOAL_ERR_CANCELLED, "8192 of 100000");
  assert_int_equal(calls, 2);
  assert_int_equal(files_count(dir), 0); /* nothing half-made is left */
  s.rows = 0;
  assert_fails(shoal_generate_criteo(&s, NULL), SHOAL_ERR_ARGUMENT, "row");
  s.rows = 10;
  s.features = 39;
  assert_fails(shoal_generate_criteo(&s, NULL), SHOAL_ERR_ARGUMENT, "features");
  s.features = 40;
  s.files = 11;
  assert_fails(shoal_generate_criteo(&s, NULL), SHOAL_ERR_ARGUMENT, "files");
  s.files = 10;
  assert_ok(shoal_generate_criteo(&s, NULL));
  assert_int_equal(files_count(dir), 11);
  snprintf(inner, sizeof inner, "%s/no/such", dir);
  s.out = inner;
  assert_fails(shoal_generate_criteo(&s, NULL), SHOAL_ERR_SYSTEM, "cannot create the folder");
  files_remove_folder(dir);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(shape_of_rows), cmocka_unit_test(levels_of_truth),
                                     cmocka_unit_test(repeatable), cmocka_unit_test(learnable),
                                     cmocka_unit_test(refusals)};
  return cmocka_run_group_tests_name("generate", tests, NULL, NULL);
}
