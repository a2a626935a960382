/* NumPy's files as they come: every type and order, archives, and rows and labels found by their names. */
#include "read_rows.h"
#include "zip_file.h"

#include "base/mem.h"
#include "data/dataset.h"
#include "data/files.h"
#include "data/npy_names.h"

#include <math.h>

#define ROWS 3

typedef struct {
  uint8_t bytes[4096];
  size_t n;
} array;

/* type: as in the header. data: n bytes. */
static void make_array(array *a, const char *type, const char *shape, bool columns, const void *data, size_t n) {
  int length = snprintf((char *)a->bytes + 10, 1000, "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }\n", type,
                        columns ? "True" : "False", shape);
  memcpy(a->bytes, "\x93NUMPY\1\0", 8);
  zip_put(a->bytes + 8, (uint64_t)length, 2);
  memcpy(a->bytes + 10 + length, data, n);
  a->n = 10 + (size_t)length + n;
}

static void make_labels(array *a, const char *shape) {
  make_array(a, "<i8", shape, false, (const int64_t[ROWS]){2, 0, 1}, ROWS * 8);
}

static void write_array(const char *dir, const char *name, const array *a) {
  char path[FILES_PATH * 2];
  snprintf(path, sizeof path, "%s/%s", dir, name);
  files_write(path, a->bytes, a->n);
}

/* Whole numbers of a type and byte order, or floats. Returns bytes. */
static size_t put_number(uint8_t *at, const char *type, double value) {
  size_t size = (size_t)(type[2] - '0');
  uint64_t bits = (uint64_t)(int64_t)value;
  if (type[1] == 'f' && size == 8) memcpy(&bits, &value, 8);
  if (type[1] == 'f' && size == 4) {
    float f = (float)value;
    bits = 0;
    memcpy(&bits, &f, 4);
  }
  if (type[1] == 'f' && size == 2) {
    float f = (float)value; /* of those below, each has a half of its own */
    uint32_t b;
    memcpy(&b, &f, 4);
    bits = (b >> 16 & 0x8000) | (value == 0 ? 0 : ((b >> 23 & 255) - 112) << 10 | (b >> 13 & 1023));
  }
  for (size_t i = 0; i < size; i++) at[type[0] == '>' ? size - 1 - i : i] = (uint8_t)(bits >> 8 * i);
  return size;
}

/* [3, 2, 4] of every type, in both byte orders, by rows and by columns. */
static void every_type_and_order(void **state) {
  static const char *const types[] = {"|b1", "|u1", "|i1", "<u2", ">u2", "<i2", ">i2", "<u4", ">u4", "<i4", ">i4",
                                      "<u8", ">u8", "<i8", ">i8", "<f2", ">f2", "<f4", ">f4", "<f8", ">f8", "=f4"};
  char dir[FILES_PATH], path[FILES_PATH * 2];
  files_make_folder(dir);
  snprintf(path, sizeof path, "%s/X.npy", dir);
  array labels, x;
  make_labels(&labels, "(3,)");
  write_array(dir, "y.npy", &labels);
  for (size_t t = 0; t < COUNT_OF(types); t++)
    for (int columns = 0; columns < 2; columns++) {
      const char *type = types[t];
      bool negative = type[1] == 'i' || type[1] == 'f';
      uint8_t data[512];
      double expected[24];
      size_t n = 0;
      for (int i = 0; i < 24; i++) expected[i] = type[1] == 'b' ? i % 3 == 0 : negative ? i * 5 - 60 : i * 5;
      if (type[1] == 'f')
        for (int i = 0; i < 24; i++) expected[i] /= 8;
      for (int k = 0; k < 24; k++) /* element (i, j, l) of [3, 2, 4] */
        n += put_number(data + n, type, expected[!columns ? k : k % 3 * 8 + k / 3 % 2 * 4 + k / 6]);
      make_array(&x, type, "(3, 2, 4)", columns, data, n);
      write_array(dir, "X.npy", &x);
      const format *f;
      rows_block b;
      assert_ok(format_detect(path, &f));
      assert_string_equal(f->name, "npy");
      read_file_rows(f, path, &(format_options){0}, &b);
      assert_int_equal(b.count, ROWS);
      assert_int_equal(b.schema.dtype, !strcmp(type, "|u1") ? SHOAL_U8 : SHOAL_F32);
      for (int i = 0; i < 24; i++) {
        double found = b.schema.dtype == SHOAL_U8 ? ((uint8_t *)b.features)[i] : (double)((float *)b.features)[i];
        if (found != expected[i])
          fail_msg("%s, columns %d: element %d is %g, not %g", type, columns, i, found, expected[i]);
      }
      assert_int_equal(b.labels[0], 2);
      rows_fini(&b);
    }
  files_remove_folder(dir);
}

static void missing_numbers(void **state) {
  char dir[FILES_PATH], path[FILES_PATH * 2];
  files_make_folder(dir);
  snprintf(path, sizeof path, "%s/X.npy", dir);
  array labels, x;
  make_labels(&labels, "(3, 1)");
  write_array(dir, "y.npy", &labels);
  make_array(&x, "<f4", "(3, 2)", false, (const float[]){1, 2, 3, NAN, 5, 6}, 24);
  write_array(dir, "X.npy", &x);
  file_reader *r;
  rows_schema schema;
  rows_block b;
  int64_t got;
  const format *f = format_find("npy");
  assert_ok(f->open(path, &(format_options){0}, &r));
  f->schema(r, &schema);
  rows_init(&b, &schema);
  assert_fails(f->read(r, 9, &b, &got), SHOAL_ERR_INPUT, "X.npy: record 1 at byte 78: number 1 of the row is nan");
  assert_true(r->can_go_on);
  assert_ok(f->read(r, 9, &b, &got));
  assert_int_equal(b.count, 2);
  f->close(r);
  rows_fini(&b);
  files_remove_folder(dir);
}

/* ---- names */

static bool in_list(void *context, const char *name) {
  for (const char *const *n = context; *n; n++)
    if (!strcmp(*n, name)) return true;
  return false;
}

static void names_of_labels(void **state) {
  static const char *const pairs[][2] = {{"X", "y"},           {"x", "y"},
                                         {"X", "Y"},           {"X_train", "y_train"},
                                         {"x-test", "y-test"}, {"train_X", "train_y"},
                                         {"data", "labels"},   {"data", "target"},
                                         {"Images", "Labels"}, {"train_images", "train_labels"},
                                         {"x_data", "y_data"}, {"part0", "part0-labels"},
                                         {"day.1", "day.1_y"}, {"features", "targets"}};
  for (size_t i = 0; i < COUNT_OF(pairs); i++) {
    const char *there[] = {"other", pairs[i][0], pairs[i][1], "y_other", NULL};
    char found[NPY_NAME];
    if (!npy_labels_of(pairs[i][0], in_list, there, found)) fail_msg("no labels of %s", pairs[i][0]);
    assert_string_equal(found, pairs[i][1]);
    assert_true(npy_is_labels(pairs[i][1]));
    assert_false(npy_is_labels(pairs[i][0]));
  }
  const char *none[] = {"xy", "train", NULL};
  char found[NPY_NAME];
  assert_false(npy_labels_of("train", in_list, none, found));
}

static void pairs_of_files(void **state) {
  char dir[FILES_PATH];
  files_make_folder(dir);
  array labels, train, test;
  make_labels(&labels, "(3,)");
  make_array(&train, "<f4", "(3, 2)", false, (const float[]){1, 2, 3, 4, 5, 6}, 24);
  make_array(&test, "<f4", "(3, 2)", false, (const float[]){7, 8, 9, 10, 11, 12}, 24);
  write_array(dir, "X_train.npy", &train);
  write_array(dir, "y_train.npy", &labels);
  write_array(dir, "X_test.npy", &test);
  write_array(dir, "y_test.npy", &labels);
  static const char *const splits[] = {"train", "test"};
  for (int i = 0; i < 2; i++) {
    text files = {0};
    files_list list;
    rows_block b;
    assert_ok(dataset_files(dir, splits[i], &files));
    assert_ok(files_find(files.data, NULL, &list));
    assert_int_equal(list.count, 1);
    read_file_rows(format_find("npy"), list.paths[0], &(format_options){0}, &b);
    assert_true(((float *)b.features)[0] == (i ? 7 : 1));
    assert_int_equal(b.labels[0], 2);
    rows_fini(&b);
    files_fini(&list);
    text_fini(&files);
  }
  files_remove_folder(dir);
}

/* ---- archives */

static shoal_status open_archive(const char *path, file_reader **out) {
  return format_find("npz")->open(path, &(format_options){0}, out);
}

static void archives(void **state) {
  char dir[FILES_PATH], path[FILES_PATH * 2];
  files_make_folder(dir);
  snprintf(path, sizeof path, "%s/digits.npz", dir);
  static const char *const names[][2] = {
      {"X.npy", "y.npy"}, {"x_train.npy", "y_train.npy"}, {"data.npy", "labels.npy"}, {"arr_0.npy", "arr_1.npy"}};
  array labels, x;
  make_labels(&labels, "(3,)");
  for (size_t i = 0; i < COUNT_OF(names); i++)
    for (int form = 0; form < 8; form++) {
      bool columns = form & 4;
      float data[] = {1, 2, 3, 4, 5, 6}, turned[] = {1, 3, 5, 2, 4, 6};
      make_array(&x, "<f4", "(3, 2)", columns, columns ? turned : data, 24);
      const zip_input members[] = {{names[i][1], labels.bytes, labels.n}, {names[i][0], x.bytes, x.n}};
      zip_write(path, members, 2, form & 1, form & 2);
      const format *f;
      rows_block b;
      assert_ok(format_detect(path, &f));
      assert_string_equal(f->name, "npz");
      read_file_rows(f, path, &(format_options){0}, &b);
      assert_int_equal(b.count, ROWS);
      assert_memory_equal(b.features, data, sizeof data);
      assert_int_equal(b.labels[0], 2);
      assert_int_equal(b.labels[2], 1);
      rows_fini(&b);
    }
  files_remove_folder(dir);
}

/* Keras' layout: both splits in one file. */
static void splits_in_an_archive(void **state) {
  char dir[FILES_PATH], path[FILES_PATH * 2];
  files_make_folder(dir);
  snprintf(path, sizeof path, "%s/mnist.npz", dir);
  array labels, train, test;
  make_labels(&labels, "(3,)");
  make_array(&train, "|u1", "(3, 2)", false, (const uint8_t[]){1, 2, 3, 4, 5, 6}, 6);
  make_array(&test, "|u1", "(3, 2)", false, (const uint8_t[]){7, 8, 9, 10, 11, 12}, 6);
  const zip_input members[] = {{"x_test.npy", test.bytes, test.n},
                               {"x_train.npy", train.bytes, train.n},
                               {"y_train.npy", labels.bytes, labels.n},
                               {"y_test.npy", labels.bytes, labels.n}};
  zip_write(path, members, 4, true, false);
  static const char *const splits[] = {"train", "test"};
  for (int i = 0; i < 2; i++) {
    text files = {0};
    files_list list;
    const format *f;
    rows_block b;
    assert_ok(dataset_files(path, splits[i], &files));
    assert_ok(files_find(files.data, NULL, &list));
    assert_ok(format_detect(list.paths[0], &f));
    read_file_rows(f, list.paths[0], &(format_options){0}, &b);
    assert_int_equal(((uint8_t *)b.features)[0], i ? 7 : 1);
    rows_fini(&b);
    files_fini(&list);
    text_fini(&files);
  }
  /* The name alone is the train split, for whoever opens it without asking. */
  rows_block b;
  read_file_rows(format_find("npz"), path, &(format_options){0}, &b);
  assert_int_equal(((uint8_t *)b.features)[0], 1);
  rows_fini(&b);
  files_remove_folder(dir);
}

static void bad_archives(void **state) {
  char dir[FILES_PATH], path[FILES_PATH * 2];
  files_make_folder(dir);
  snprintf(path, sizeof path, "%s/a.npz", dir);
  array labels, x;
  make_labels(&labels, "(3,)");
  make_array(&x, "<f4", "(3, 2)", false, (const float[]){1, 2, 3, 4, 5, 6}, 24);
  const zip_input members[] = {{"X.npy", x.bytes, x.n}, {"y.npy", labels.bytes, labels.n}};
  const zip_input lonely[] = {{"weights.npy", x.bytes, x.n}, {"y.npy", labels.bytes, labels.n}};
  const zip_input twice[] = {{"X.npy", x.bytes, x.n},
                             {"y.npy", labels.bytes, labels.n},
                             {"data.npy", x.bytes, x.n},
                             {"target.npy", labels.bytes, labels.n}};
  file_reader *r;
  zip_write(path, lonely, 2, false, false);
  assert_fails(open_archive(path, &r), SHOAL_ERR_INPUT, "found none in weights.npy, y.npy");
  zip_write(path, twice, 4, false, false);
  assert_fails(open_archive(path, &r), SHOAL_ERR_INPUT, "found several in X.npy");
  files_write(path, "PK\3\4 and nothing more", 21);
  assert_fails(open_archive(path, &r), SHOAL_ERR_INPUT, "no end of a directory");
  /* Cut anywhere, or with any byte turned around, it is read or refused, never trusted. */
  for (int deflated = 0; deflated < 2; deflated++) {
    zip_write(path, members, 2, deflated, !deflated);
    size_t n;
    uint8_t *bytes = files_read(path, &n);
    for (size_t i = 0; i < 2 * n; i++) {
      uint8_t kept = bytes[i % n];
      if (i >= n) bytes[i - n] ^= 0xff;
      files_write(path, bytes, i < n ? i : n);
      bytes[i % n] = kept;
      shoal_status status = open_archive(path, &r);
      if (!status) {
        rows_schema schema;
        rows_block b;
        int64_t got;
        r->format->schema(r, &schema);
        rows_init(&b, &schema);
        status = r->format->read(r, 9, &b, &got);
        rows_fini(&b);
        r->format->close(r);
      } else {
        assert_int_equal(shoal_status_code(status), SHOAL_ERR_INPUT);
      }
      shoal_status_free(status);
    }
    free(bytes);
  }
  files_remove_folder(dir);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_type_and_order), cmocka_unit_test(missing_numbers), cmocka_unit_test(names_of_labels),
      cmocka_unit_test(pairs_of_files),       cmocka_unit_test(archives),        cmocka_unit_test(splits_in_an_archive),
      cmocka_unit_test(bad_archives)};
  return cmocka_run_group_tests_name("numpy", tests, NULL, NULL);
}
