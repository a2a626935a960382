/* The Criteo click log. */
#include "read_rows.h"

#include "base/status.h"
#include "data/sparse.h"

#include <math.h>

static const format_options plain = {0};

/* Counted with another program. */
static void real_file(void **state) {
  char path[FILES_PATH];
  shared_path("criteo/sample-1000.tsv", path);
  rows_block b;
  read_file_rows(&format_criteo, path, &plain, &b);
  assert_int_equal(b.count, 1000);
  assert_int_equal(b.schema.features, CRITEO_FEATURES);
  assert_int_equal(b.schema.classes, 2);
  assert_int_equal(b.offsets[1000], 33107);
  int64_t positive = 0;
  double numbers = 0;
  for (int64_t i = 0; i < b.count; i++) {
    positive += b.labels[i];
    for (int64_t e = b.offsets[i]; e < b.offsets[i + 1]; e++) {
      if (e > b.offsets[i]) assert_true(b.indices[e] > b.indices[e - 1]);
      assert_true(b.indices[e] > 0 && b.indices[e] < CRITEO_FEATURES);
      if (b.indices[e] <= CRITEO_NUMBERS)
        numbers += b.values[e];
      else
        assert_true(b.values[e] == 1);
    }
  }
  assert_int_equal(positive, 209);
  assert_true(numbers == 14217734);
  /* The first row: 12 numbers (the 12th is missing), 25 words. */
  static const float first[] = {1, 1, 5, 0, 1382, 4, 15, 2, 181, 1, 2, 2};
  assert_memory_equal(b.values, first, sizeof first);
  assert_int_equal(b.indices[11], 13);
  assert_int_equal(b.offsets[1], 37);
  rows_fini(&b);
  check_positions(&format_criteo, path, &plain);
}

/* In a small feature space words meet; entries stay ascending, and nothing is lost. */
static void few_features(void **state) {
  char path[FILES_PATH];
  shared_path("criteo/sample-1000.tsv", path);
  rows_block b;
  read_file_rows(&format_criteo, path, &(format_options){.features = 40}, &b);
  double words = 0;
  for (int64_t i = 0; i < b.count; i++)
    for (int64_t e = b.offsets[i]; e < b.offsets[i + 1]; e++) {
      if (e > b.offsets[i]) assert_true(b.indices[e] > b.indices[e - 1]);
      assert_true(b.indices[e] < 40);
      if (b.indices[e] > CRITEO_NUMBERS) words += b.values[e];
    }
  int64_t all = 33107;
  for (int64_t e = 0; e < b.offsets[b.count]; e++) all -= b.indices[e] <= CRITEO_NUMBERS;
  assert_true(words == (double)all);
  rows_fini(&b);
}

/* label, 13 numbers, 26 words */
#define NUMBERS "\t1\t-2\t\t\t5\t\t\t\t\t\t\t\t13"
#define WORDS  \
  "\t68fd1e64" \
  "\t\t\t\t\t" \
  "\t\t\t\t\t" \
  "\t\t\t\t\t" \
  "\t\t\t\t\t" \
  "\t\t\t\t"   \
  "\tFFFFFFFF"

static shoal_status read_text(const char *words, const format_options *options, rows_block *b, int64_t *got) {
  file_reader *r;
  rows_schema schema = {0};
  rows_init(b, &schema);
  TRY(criteo_open_memory((const uint8_t *)words, strlen(words), "text", options, &r));
  format_criteo.schema(r, &schema);
  rows_init(b, &schema);
  shoal_status status = format_criteo.read(r, 100, b, got);
  if (status) assert_true(r->can_go_on);
  format_criteo.close(r);
  return status;
}

static void made_lines(void **state) {
  rows_block b;
  int64_t got;
  assert_ok(read_text("1" NUMBERS WORDS "\r\n\n-1" NUMBERS WORDS, &plain, &b, &got));
  assert_int_equal(got, 2);
  assert_int_equal(b.labels[0], 1);
  assert_int_equal(b.labels[1], 0);
  assert_int_equal(b.offsets[1], 6);
  static const int32_t numbers[] = {1, 2, 5, 13};
  static const float values[] = {1, -2, 5, 13, 1, 1};
  assert_memory_equal(b.indices, numbers, sizeof numbers);
  assert_memory_equal(b.values, values, sizeof values);
  int32_t a = criteo_index(1, 0x68fd1e64, CRITEO_FEATURES), z = criteo_index(26, 0xffffffff, CRITEO_FEATURES);
  assert_int_equal(b.indices[4], a < z ? a : z);
  assert_int_equal(b.indices[5], a < z ? z : a);
  rows_fini(&b);
}

static void bad_lines(void **state) {
  static const struct {
    const char *words, *message;
  } cases[] = {{NUMBERS WORDS "\n", "line 1 at byte 0: column 1 of 40: expected a label"},
               {"2" NUMBERS WORDS "\n", "expected a label of 0 or 1"},
               {"1" NUMBERS "\n", "expected 40 columns"},
               {"1" NUMBERS WORDS "\t\n", "expected the end of the line after 40 columns"},
               {"1\tx" NUMBERS WORDS "\n", "column 2 of 40: expected a whole number"},
               {"1\t1.5" NUMBERS WORDS "\n", "expected a tab after the column"},
               {"1" NUMBERS "\txyz\n", "column 15 of 40: expected a hexadecimal word"},
               {"1" NUMBERS "\t12345678123456781\n", "expected a hexadecimal word"},
               {"1" NUMBERS WORDS "\n1\n", "line 2 at byte 64: column 1 of 40: expected 40 columns"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    rows_block b;
    int64_t got;
    assert_fails(read_text(cases[i].words, &plain, &b, &got), SHOAL_ERR_INPUT, cases[i].message);
    rows_fini(&b);
  }
  rows_block b;
  int64_t got;
  assert_fails(read_text("", &(format_options){.features = 10}, &b, &got), SHOAL_ERR_ARGUMENT, "features");
  assert_fails(read_text("", &(format_options){.classes = 3}, &b, &got), SHOAL_ERR_ARGUMENT, "2 classes");
}

/* Words spread evenly. */
static void hashing(void **state) {
  int counts[100] = {0};
  for (uint64_t w = 0; w < 100000; w++) {
    int32_t index = criteo_index((int)(w % 26) + 1, w * 977, 114);
    assert_true(index >= 14 && index < 114);
    counts[index - 14]++;
  }
  for (int i = 0; i < 100; i++) assert_true(counts[i] > 850 && counts[i] < 1150);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(real_file), cmocka_unit_test(few_features),
                                     cmocka_unit_test(made_lines), cmocka_unit_test(bad_lines),
                                     cmocka_unit_test(hashing)};
  return cmocka_run_group_tests_name("criteo", tests, NULL, NULL);
}
