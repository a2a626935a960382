/* LIBSVM text. */
#include "read_rows.h"

#include "data/number.h"
#include "data/sparse.h"

#include <math.h>

static const format_options plain = {0};

/* Figures of the data sets' own pages, and counted with other programs. */
static void real_files(void **state) {
  static const struct {
    const char *name;
    int64_t rows, entries;
    int largest, classes, ones;
    double sum; /* of values */
  } wanted[] = {{"a9a", 32561, 451592, 123, 2, 7841, 451592},
                {"a9a.t", 16281, 225731, 122, 2, 3846, 225731},
                {"agaricus.txt.train", 6513, 143286, 126, 2, 3140, 143286},
                {"agaricus.txt.test", 1611, 35442, 126, 2, 776, 35442},
                {"heart_scale", 270, 3378, 13, 2, 120, -666.401},
                {"rcv1_1000.libsvm", 1000, 77739, 47117, 2, 459, 7115.03},
                {"dna.scale", 2000, 91233, 180, 0, 464, 91233}};
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
    char path[FILES_PATH], name[64];
    snprintf(name, sizeof name, "libsvm/%s", wanted[i].name);
    shared_path(name, path);
    rows_block b;
    read_file_rows(&format_libsvm, path, &plain, &b);
    assert_int_equal(b.count, wanted[i].rows);
    assert_int_equal(b.offsets[b.count], wanted[i].entries);
    assert_int_equal(b.schema.classes, wanted[i].classes);
    int largest = 0, ones = 0;
    double sum = 0;
    for (int64_t e = 0; e < b.offsets[b.count]; e++) {
      if (b.indices[e] > largest) largest = b.indices[e];
      sum += b.values[e];
    }
    for (int64_t r = 0; r < b.count; r++) ones += b.labels[r] == 1;
    assert_int_equal(largest, wanted[i].largest);
    assert_int_equal(ones, wanted[i].ones);
    assert_true(fabs(sum - wanted[i].sum) < 1e-5 * fabs(wanted[i].sum));
    rows_fini(&b);
  }
}

static void dna_classes(void **state) {
  char path[FILES_PATH];
  shared_path("libsvm/dna.scale", path);
  rows_block b;
  int histogram[4] = {0};
  read_file_rows(&format_libsvm, path, &(format_options){.classes = 4}, &b);
  for (int64_t r = 0; r < b.count; r++) histogram[b.labels[r]]++;
  assert_int_equal(histogram[0], 0);
  assert_int_equal(histogram[1] + histogram[2] + histogram[3], 2000);
  assert_true(histogram[1] > 400 && histogram[2] > 400 && histogram[3] > 900);
  rows_fini(&b);
  check_positions(&format_libsvm, path, &plain);
}

static shoal_status read_text(const char *words, const format_options *options, rows_block *b, int64_t *got) {
  file_reader *r;
  rows_schema schema;
  assert_ok(libsvm_open_memory((const uint8_t *)words, strlen(words), "text", options, &r));
  format_libsvm.schema(r, &schema);
  rows_init(b, &schema);
  shoal_status status = format_libsvm.read(r, 100, b, got);
  if (status) assert_true(r->can_go_on);
  format_libsvm.close(r);
  return status;
}

static void odd_lines(void **state) {
  rows_block b;
  int64_t got;
  assert_ok(
      read_text("# a file\r\n\r\n+1 qid:3 1:0.5\t7:-2.5e1   # end\r\n\n  -1\n1 0:+.25 2:3. 9:1e-3", &plain, &b, &got));
  assert_int_equal(got, 3);
  static const int32_t indices[] = {1, 7, 0, 2, 9};
  static const float values[] = {0.5f, -25, 0.25f, 3, 1e-3f};
  static const int64_t offsets[] = {0, 2, 2, 5};
  static const int32_t labels[] = {1, 0, 1};
  assert_memory_equal(b.indices, indices, sizeof indices);
  assert_memory_equal(b.values, values, sizeof values);
  assert_memory_equal(b.offsets, offsets, sizeof offsets);
  assert_memory_equal(b.labels, labels, sizeof labels);
  assert_int_equal(b.schema.classes, 2);
  rows_fini(&b);
  assert_ok(read_text("0.5 1:1\n-3 2:1\n", &plain, &b, &got));
  assert_true(b.schema.real_labels);
  assert_true(b.targets[0] == 0.5f && b.targets[1] == -3);
  rows_fini(&b);
  assert_ok(read_text("", &plain, &b, &got));
  assert_int_equal(got, 0);
  rows_fini(&b);
}

static void bad_lines(void **state) {
  static const struct {
    const char *words, *message;
    int64_t features;
    int classes;
  } cases[] = {{"1 1:1\n1 3:1 2:1\n", "line 2 at byte 12: expected ascending indices without duplicates", 0, 0},
               {"1 3:1 3:1\n", "found 3 after 3", 0, 0},
               {"1 -3:1\n", "expected an index from 0 on, found '-3:1'", 0, 0},
               {"1 10:1\n", "expected indices from 0 to 9, found 10", 10, 0},
               {"1 99999999999999999999:1\n", "expected index:value", 0, 0},
               {"1 3000000000:1\n", "expected indices from 0 to", 0, 0},
               {"1 3:nan\n", "expected a finite number as value, found 'nan'", 0, 0},
               {"1 3:inf\n", "found 'inf'", 0, 0},
               {"1 3:1e99\n", "found '1e99'", 0, 0},
               {"1 3:1x\n", "found '1x'", 0, 0},
               {"1 3:\n", "expected a finite number as value", 0, 0},
               {"1 3\n", "expected index:value, found '3'", 0, 0},
               {"1 a:1\n", "expected index:value, found 'a:1'", 0, 0},
               {"1 3:1 \x01\n", "found '?'", 0, 0},
               {"x 3:1\n", "expected a number as label, found 'x'", 0, 0},
               {"5 3:1\n", "expected a label from 0 to 4", 0, 5},
               {"-1 3:1\n", "expected a label from 0 to 4", 0, 5},
               {"0.5 3:1\n", "expected a whole number as label", 0, 5}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    rows_block b;
    int64_t got;
    format_options options = {.features = cases[i].features, .classes = cases[i].classes};
    assert_fails(read_text(cases[i].words, &options, &b, &got), SHOAL_ERR_INPUT, cases[i].message);
    assert_int_equal(got, b.count);
    rows_fini(&b);
  }
  file_reader *r;
  assert_fails(format_libsvm.open("no/such/file", &plain, &r), SHOAL_ERR_INPUT, "no/such/file: cannot open");
  assert_fails(format_libsvm.open("/", &plain, &r), SHOAL_ERR_INPUT, "is a folder");
  assert_fails(format_libsvm.open("x", &(format_options){.features = 1ll << 40}, &r), SHOAL_ERR_ARGUMENT, "features");
}

/* After a bad line reading goes on, and lines are counted right after a seek. */
static void going_on(void **state) {
  const char *words = "1 1:1\n\nbad\n1 2:1\nworse\n0 3:1\n";
  file_reader *r;
  rows_block b;
  rows_schema schema;
  int64_t got;
  assert_ok(libsvm_open_memory((const uint8_t *)words, strlen(words), "text", &plain, &r));
  format_libsvm.schema(r, &schema);
  rows_init(&b, &schema);
  assert_fails(format_libsvm.read(r, 10, &b, &got), SHOAL_ERR_INPUT, "text: line 3 at byte 7");
  assert_int_equal(got, 1);
  file_position position;
  format_libsvm.tell(r, &position);
  assert_int_equal(position.record, 2);
  assert_fails(format_libsvm.read(r, 10, &b, &got), SHOAL_ERR_INPUT, "text: line 5 at byte 17");
  assert_int_equal(got, 1);
  assert_ok(format_libsvm.read(r, 10, &b, &got));
  assert_int_equal(b.count, 3);
  assert_ok(format_libsvm.seek(r, &position));
  assert_fails(format_libsvm.read(r, 10, &b, &got), SHOAL_ERR_INPUT, "text: line 5 at byte 17");
  assert_ok(format_libsvm.read(r, 10, &b, &got));
  assert_int_equal(b.count, 5);
  assert_int_equal(b.indices[4], 3);
  rows_fini(&b);
  format_libsvm.close(r);
}

/* Within one unit in the last place of what strtof gives. */
static void numbers(void **state) {
  static const char *const words[] = {"0",
                                      "-0",
                                      "1",
                                      "+1",
                                      "12345678901234567890",
                                      "0.1",
                                      "-.5",
                                      "3.",
                                      "1e5",
                                      "1E-5",
                                      "9.999999999999999999",
                                      "0.00000000000000000000000123",
                                      "3.4028234e38",
                                      "1e-45",
                                      "1e-60",
                                      "123456789e-9",
                                      "16777217",
                                      "0.30000000000000004",
                                      "1e22",
                                      "1e-22"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    char text[64];
    snprintf(text, sizeof text, "%s ", words[i]);
    const uint8_t *at = (const uint8_t *)text;
    float value;
    assert_true(number_float(&at, &value));
    assert_int_equal(*at, ' ');
    float nearest = strtof(words[i], NULL);
    assert_true(value >= nextafterf(nearest, -INFINITY) && value <= nextafterf(nearest, INFINITY));
  }
  uint64_t seed = 1;
  for (int i = 0; i < 100000; i++) {
    char text[64];
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    uint32_t bits = (uint32_t)(seed >> 32);
    float wanted, value;
    memcpy(&wanted, &bits, 4);
    if (!isfinite(wanted)) continue;
    snprintf(text, sizeof text, i % 2 ? "%.9g\n" : "%.7e\n", (double)wanted);
    const uint8_t *at = (const uint8_t *)text;
    assert_true(number_float(&at, &value));
    float nearest = strtof(text, NULL);
    if (value < nextafterf(nearest, -INFINITY) || value > nextafterf(nearest, INFINITY)) fail_msg("%s", text);
  }
  static const char *const none[] = {"", "-", ".", "e5", "nan", "inf", "0x", "--1", "1e400", "4e38"};
  for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
    char text[64];
    float value;
    snprintf(text, sizeof text, "%s\n", none[i]);
    const uint8_t *at = (const uint8_t *)text;
    assert_true(!number_float(&at, &value) || *at != '\n');
  }
}

static void generated_positions(void **state) {
  char dir[FILES_PATH], path[FILES_PATH + 16];
  files_make_folder(dir);
  snprintf(path, sizeof path, "%s/rows", dir);
  FILE *file = fopen(path, "w");
  for (int i = 0; i < 50000; i++) { /* more than one buffer */
    if (i % 100 == 0) fprintf(file, "# a remark\n");
    fprintf(file, "%d %d:%g %d:1\n", i % 2 ? 1 : -1, i % 1000, i / 8.0, 1000 + i % 77);
  }
  assert_int_equal(fclose(file), 0);
  check_positions(&format_libsvm, path, &plain);
  files_remove_folder(dir);
}

static shoal_status read_ffm(const char *words, const format_options *options, rows_block *b) {
  file_reader *r;
  rows_schema schema;
  int64_t got;
  assert_ok(libffm_open_memory((const uint8_t *)words, strlen(words), "text", options, &r));
  format_libffm.schema(r, &schema);
  assert_true(schema.fields);
  rows_init(b, &schema);
  shoal_status status = format_libffm.read(r, 100, b, &got);
  format_libffm.close(r);
  return status;
}

/* LIBFFM: each entry keeps its field, whatever the order in the file. */
static void entries_with_fields(void **state) {
  rows_block b;
  assert_ok(read_ffm("1 0:7:1 2:3:0.5 1:5:2\n-1 3:9:1\n0\n", &plain, &b));
  const int32_t indices[] = {3, 5, 7, 9}, fields[] = {2, 1, 0, 3};
  const float values[] = {0.5f, 2, 1, 1};
  assert_int_equal(b.count, 3);
  assert_int_equal(b.offsets[1], 3);
  assert_int_equal(b.offsets[3], 4);
  assert_memory_equal(b.indices, indices, sizeof indices);
  assert_memory_equal(b.fields, fields, sizeof fields);
  assert_memory_equal(b.values, values, sizeof values);
  rows_fini(&b);
  static const char *const wrong[][2] = {{"1 1:2\n", "field:index:value"},     {"1 x:1:1\n", "field:index:value"},
                                         {"1 0:1:x\n", "finite number"},       {"1 0:5:1 1:5:1\n", "twice"},
                                         {"1 0:2000:1\n", "expected indices"}, {"1 9999999:1:1\n", "fields from 0"}};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    shoal_status status = read_ffm(wrong[i][0], &(format_options){.features = 1000}, &b);
    assert_non_null(status);
    if (!strstr(shoal_status_message(status), wrong[i][1])) fail_msg("%s", shoal_status_message(status));
    shoal_status_free(status);
    rows_fini(&b);
  }
  /* Many entries, last first. */
  char *line = malloc(64 * 5000);
  size_t at = (size_t)sprintf(line, "1");
  for (int i = 5000; i-- > 0;) at += (size_t)sprintf(line + at, " %d:%d:%d", i % 7, i, i % 3);
  assert_ok(read_ffm(line, &plain, &b));
  for (int i = 0; i < 5000; i++) {
    assert_int_equal(b.indices[i], i);
    assert_int_equal(b.fields[i], i % 7);
    assert_true(b.values[i] == (float)(i % 3));
  }
  rows_fini(&b);
  free(line);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(real_files),  cmocka_unit_test(entries_with_fields),
                                     cmocka_unit_test(dna_classes), cmocka_unit_test(odd_lines),
                                     cmocka_unit_test(bad_lines),   cmocka_unit_test(going_on),
                                     cmocka_unit_test(numbers),     cmocka_unit_test(generated_positions)};
  return cmocka_run_group_tests_name("libsvm", tests, NULL, NULL);
}
