/* The dense formats and images, one by one: real files, what is accepted, what is said about what is not. */
#include "format_fixtures.h"

#include "base/mem.h"
#include "base/status.h"
#include "data/example.h"
#include "data/sink.h"
#include "data/tfrecord.h"

#include <sys/stat.h>
#include <zlib.h>

typedef struct {
  rows_block rows;
  file_reader *reader;
} loaded;

static shoal_status load(const char *path, const char *name, const format_options *options, loaded *out) {
  const format *f = format_find(name);
  rows_schema schema;
  assert_non_null(f);
  shoal_status status = f->open(path, options, &out->reader);
  if (status) return status;
  f->schema(out->reader, &schema);
  rows_init(&out->rows, &schema);
  int64_t got = 1;
  while (!status && got) status = f->read(out->reader, 64, &out->rows, &got);
  if (!status) return NULL;
  bool go_on = out->reader->can_go_on;
  f->close(out->reader);
  rows_fini(&out->rows);
  return go_on ? status : status_wrap(status, "(cannot go on)");
}

static void unload(loaded *l) {
  l->reader->format->close(l->reader);
  rows_fini(&l->rows);
}

/* ../shared/data beside the source tree; skips the test where it is not. */
static void shared(const char *name, char path[FILES_PATH * 2]) {
  snprintf(path, FILES_PATH * 2, "%s/../shared/data/%s", files_root(), name);
  if (!access(path, R_OK)) return;
  print_message("skipped: %s is not there\n", path);
  skip();
}

static void real_cifar10(void **state) {
  static const int histogram[10] = {396, 366, 420, 384, 422, 393, 414, 385, 407, 413};
  char path[FILES_PATH * 2];
  shared("cifar10-small/data_batch_1.bin", path);
  const format *f;
  loaded l;
  assert_ok(format_detect(path, &f));
  assert_string_equal(f->name, "cifar10");
  assert_ok(load(path, "cifar10", &(format_options){0}, &l));
  assert_int_equal(l.rows.count, 4000);
  int found[10] = {0};
  uint64_t sum = 0;
  const uint8_t *pixels = l.rows.features;
  for (int i = 0; i < 4000; i++) found[l.rows.labels[i]]++;
  for (size_t i = 0; i < 4000 * 3072; i++) sum += pixels[i];
  assert_memory_equal(found, histogram, sizeof found);
  assert_int_equal(sum, 1481085868);
  assert_int_equal(pixels[0], 59);
  assert_int_equal(pixels[1], 62);
  assert_int_equal(pixels[2], 63);
  unload(&l);
}

static void real_mnist(void **state) {
  static const int histogram[10] = {980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009};
  char path[FILES_PATH * 2];
  snprintf(path, sizeof path, "%s/data/mnist/t10k-images-idx3-ubyte.gz", files_root());
  const format *f;
  loaded l;
  assert_ok(format_detect(path, &f));
  assert_string_equal(f->name, "idx");
  assert_ok(load(path, "idx", &(format_options){0}, &l));
  assert_int_equal(l.rows.count, 10000);
  assert_int_equal(l.rows.schema.classes, 10);
  assert_int_equal(l.rows.schema.shape.rank, 3);
  int found[10] = {0};
  for (int i = 0; i < 10000; i++) found[l.rows.labels[i]]++;
  assert_memory_equal(found, histogram, sizeof found);
  unload(&l);
  assert_fails(load(path, "idx", &(format_options){.classes = 9}, &l), SHOAL_ERR_INPUT, "label 9");
}

static void real_flowers(void **state) {
  char path[FILES_PATH * 2];
  shared("flowers-small/train", path);
  const format *f;
  loaded l;
  assert_ok(format_detect(path, &f));
  assert_string_equal(f->name, "image-folder");
  assert_ok(load(path, "image-folder", &(format_options){0}, &l));
  assert_int_equal(l.rows.count, 300);
  assert_int_equal(l.rows.schema.classes, 5);
  for (int i = 0; i < 300; i++) assert_int_equal(l.rows.labels[i], i / 60);
  unload(&l);
  assert_fails(load(path, "image-folder", &(format_options){.classes = 4}, &l), SHOAL_ERR_INPUT, "5 folders");
}

static void damaged_cifar10(void **state) {
  char dir[FILES_PATH], path[FILES_PATH * 2];
  uint8_t bytes[2 * 3073 + 100] = {3, [3073] = 10};
  loaded l;
  files_make_folder(dir);
  snprintf(path, sizeof path, "%s/a.bin", dir);
  files_write(path, bytes, sizeof bytes);
  assert_fails(load(path, "cifar10", &(format_options){0}, &l), SHOAL_ERR_INPUT,
               "a.bin: record 1 at byte 3073: label 10");
  bytes[3073] = 9;
  files_write(path, bytes, sizeof bytes);
  assert_fails(load(path, "cifar10", &(format_options){0}, &l), SHOAL_ERR_INPUT,
               "a.bin: record 2 at byte 6146: the file ends after 100 of the record's 3073 bytes");
  /* Passing over rows meets the same. */
  file_reader *r;
  int64_t got;
  assert_ok(format_find("cifar10")->open(path, &(format_options){0}, &r));
  assert_fails((r->format->skip)(r, 5, &got), SHOAL_ERR_INPUT, "record 2 at byte 6146");
  assert_int_equal(got, 2);
  r->format->close(r);
  files_remove_folder(dir);
}

/* ---- CSV */

static char csv_dir[FILES_PATH], csv_path[FILES_PATH + 16];

static int csv_setup(void **state) {
  files_make_folder(csv_dir);
  snprintf(csv_path, sizeof csv_path, "%s/a.csv", csv_dir);
  return 0;
}

static int csv_teardown(void **state) {
  files_remove_folder(csv_dir);
  return 0;
}

static shoal_status csv(const char *content, const char *columns, loaded *out) {
  files_write(csv_path, content, strlen(content));
  return load(csv_path, "csv", &(format_options){.columns = columns}, out);
}

static void csv_values(void **state) {
  loaded l;
  const float *x;
  /* A header by its names, words as labels in their order. */
  assert_ok(csv("a,species,b\n1,dog,2\n3,cat,4\n5,dog,6\n", "label=species", &l));
  assert_int_equal(l.rows.count, 3);
  assert_int_equal(l.rows.schema.classes, 2);
  x = l.rows.features;
  for (int i = 0; i < 6; i++) assert_true(x[i] == (float)(i + 1));
  assert_int_equal(l.rows.labels[0], 1);
  assert_int_equal(l.rows.labels[1], 0);
  assert_int_equal(l.rows.labels[2], 1);
  unload(&l);
  /* The column called y; the others in their order. */
  assert_ok(csv("1st,Y,2nd\n1,7,2\n3,0,4", NULL, &l));
  assert_int_equal(l.rows.labels[0], 7);
  assert_int_equal(l.rows.schema.classes, 0);
  assert_int_equal(l.rows.schema.shape.dim[0], 2);
  unload(&l);
  /* No header; the last column; -1 and +1. */
  assert_ok(csv("0.5,-1\n1.5,+1\n2.5,1\n", NULL, &l));
  assert_int_equal(l.rows.count, 3);
  assert_int_equal(l.rows.labels[0], 0);
  assert_int_equal(l.rows.labels[1], 1);
  unload(&l);
  /* Skipped columns, missing values, numbers to be predicted, UTF-8's mark. */
  assert_ok(csv("\xef\xbb\xbfid,price,size,rooms\nx1,10.5,3,\nx2,20.25,,4\n", "target=price,skip=id,missing=-1", &l));
  assert_true(l.rows.schema.real_labels);
  assert_true(l.rows.targets[0] == 10.5f && l.rows.targets[1] == 20.25f);
  x = l.rows.features;
  assert_true(x[0] == 3 && x[1] == -1 && x[2] == -1 && x[3] == 4);
  unload(&l);
  /* Columns by number, classes in a given order, header said not to be one. */
  assert_ok(csv("b,1\na,2\n", "label=0,classes=a|b|c", &l));
  assert_int_equal(l.rows.labels[0], 1);
  assert_int_equal(l.rows.labels[1], 0);
  assert_int_equal(l.rows.schema.classes, 3);
  unload(&l);
  /* One-hot: the column that has the 1, by name or by number. */
  assert_ok(csv("a,cat,dog,b\n1,0,1,2\n3,1,0,4\n", "label=dog|cat", &l));
  assert_true(l.rows.labels[0] == 1 && l.rows.labels[1] == 0);
  assert_true(l.rows.schema.classes == 2 && l.rows.schema.shape.dim[0] == 2);
  x = l.rows.features;
  assert_true(x[0] == 1 && x[1] == 2 && x[2] == 3 && x[3] == 4);
  unload(&l);
  assert_ok(csv("5,0,0,1\n6,1,0,0\n", "label=1-3", &l));
  assert_true(l.rows.labels[0] == 2 && l.rows.labels[1] == 0 && l.rows.schema.classes == 3);
  unload(&l);
  assert_fails(csv("5,0,1,1\n", "label=1-3", &l), SHOAL_ERR_INPUT,
               "column 3: a column of the label before it is 1, too");
  assert_fails(csv("5,0,0,0\n", "label=1-3", &l), SHOAL_ERR_INPUT, "none of the label's columns is 1");
  assert_fails(csv("5,0,2,0\n", "label=1-3", &l), SHOAL_ERR_INPUT, "expected 0 or 1");
  assert_ok(csv("2020,2021\n1,0\n2,1\n", "header=yes,label=2021", &l));
  assert_int_equal(l.rows.count, 2);
  unload(&l);
}

static void csv_errors(void **state) {
  loaded l;
  assert_fails(csv("a,b,y\n1,2,0\n1,two,0\n", NULL, &l), SHOAL_ERR_INPUT,
               "a.csv: record 1 at byte 12: line 3: column 1 ('b'): expected a number, found 'two'");
  assert_fails(csv("1,2,0\n1,2\n", NULL, &l), SHOAL_ERR_INPUT, "record 1 at byte 6: line 2: expected 3 fields");
  assert_fails(csv("1,2,0\n1,2,0,0\n", NULL, &l), SHOAL_ERR_INPUT, "found 4");
  assert_fails(csv("1,,0\n", NULL, &l), SHOAL_ERR_INPUT,
               "column 1: the value is missing: choose with --columns missing=mean");
  assert_fails(csv("1,2,\n", NULL, &l), SHOAL_ERR_INPUT, "column 2: the label is missing");
  assert_fails(csv("1,2,0\n1,nan,0\n", NULL, &l), SHOAL_ERR_INPUT, "the value is missing ('nan')");
  assert_fails(csv("1,2,0\n1,1e99,0\n", NULL, &l), SHOAL_ERR_INPUT, "'1e99'");
  assert_fails(csv("1,2,0.5\n", NULL, &l), SHOAL_ERR_INPUT, "target=");
  assert_fails(csv("1,2,-1\n1,2,0\n", NULL, &l), SHOAL_ERR_INPUT, "-1 as well as 0");
  assert_fails(csv("1,2,-2\n", NULL, &l), SHOAL_ERR_INPUT, "label -2");
  assert_fails(csv("1,2,0\n1,\"2,0\n1,2,0\n", NULL, &l), SHOAL_ERR_INPUT, "record 1 at byte 6: line 2: a quote");
  assert_fails(csv("a,b\n", NULL, &l), SHOAL_ERR_INPUT, "no rows, expected");
  assert_fails(csv("\n\n", NULL, &l), SHOAL_ERR_INPUT, "no rows, expected");
  assert_fails(csv("123\n", NULL, &l), SHOAL_ERR_INPUT, "separated by commas, found 1");
  assert_fails(csv("a,b\n1,2\n", "label=c", &l), SHOAL_ERR_ARGUMENT, "unknown column 'c'");
  assert_fails(csv("1,2\n1,2\n", "label=c", &l), SHOAL_ERR_ARGUMENT, "holds no names");
  assert_fails(csv("1,2\n1,2\n", "label=7", &l), SHOAL_ERR_ARGUMENT, "there are 2, 0 to 1");
  assert_fails(csv("1,2\n1,2\n", "label=1,skip=1", &l), SHOAL_ERR_ARGUMENT, "both the label and skipped");
  assert_fails(csv("1,2\n1,2\n", "label=1,skip=0", &l), SHOAL_ERR_ARGUMENT, "no column is left");
  assert_fails(csv("1,2\n", "lable=1", &l), SHOAL_ERR_ARGUMENT, "did you mean 'label'");
  assert_fails(csv("1,2\n", "label", &l), SHOAL_ERR_ARGUMENT, "'label'");
  assert_fails(csv("1,2\n", "header=maybe", &l), SHOAL_ERR_ARGUMENT, "yes or no");
  assert_fails(csv("1,2\n", "missing=x", &l), SHOAL_ERR_ARGUMENT, "error, mean or a number");
  assert_fails(csv("1,d\n", "classes=a|b", &l), SHOAL_ERR_INPUT, "'d' is not among the 2 classes: a, b");
}

/* Behind a bad row, reading goes on with the next; the rows before it are there. */
static void csv_goes_on(void **state) {
  files_write(csv_path, "1,0\nx,0\n2,1\n\"3,0\n4,1\n", 21);
  file_reader *r;
  rows_schema schema;
  rows_block b;
  int64_t got;
  const format *f = format_find("csv");
  assert_ok(f->open(csv_path, &(format_options){.columns = "header=no"}, &r));
  f->schema(r, &schema);
  rows_init(&b, &schema);
  assert_fails(f->read(r, 10, &b, &got), SHOAL_ERR_INPUT, "record 1 at byte 4");
  assert_int_equal(got, 1);
  assert_true(r->can_go_on);
  assert_fails(f->read(r, 10, &b, &got), SHOAL_ERR_INPUT, "record 3 at byte 12");
  assert_int_equal(got, 1);
  assert_true(r->can_go_on);
  assert_ok(f->read(r, 10, &b, &got));
  assert_int_equal(got, 1);
  assert_int_equal(b.count, 3);
  assert_true(((float *)b.features)[2] == 4);
  f->close(r);
  rows_fini(&b);
}

static void csv_gzipped(void **state) {
  char path[FILES_PATH + 32];
  snprintf(path, sizeof path, "%s/b.csv.gz", csv_dir);
  gzFile file = gzopen(path, "wb");
  for (int i = 0; i < 50000; i++) gzprintf(file, "%d,%d.5,%d\n", i, i, i % 3);
  gzclose(file);
  const format *f;
  loaded l;
  assert_ok(format_detect(path, &f));
  assert_string_equal(f->name, "csv");
  assert_ok(load(path, "csv", &(format_options){0}, &l));
  assert_int_equal(l.rows.count, 50000);
  assert_true(((float *)l.rows.features)[2 * 49999 + 1] == 49999.5f);
  unload(&l);
}

/* ---- npy */

static void write_npy(const char *path, int version, const char *header, const void *data, size_t n) {
  uint8_t bytes[2048] = "\x93NUMPY";
  size_t length = strlen(header), start = version == 1 ? 10 : 12;
  bytes[6] = (uint8_t)version;
  bytes[8] = (uint8_t)length;
  bytes[9] = (uint8_t)(length >> 8);
  memcpy(bytes + start, header, length);
  if (n) memcpy(bytes + start + length, data, n);
  files_write(path, bytes, start + length + n);
}

static void npy_types(void **state) {
  const struct {
    const char *type;
    size_t size;
    const void *data;
  } cases[] = {{"|u1", 1, (const uint8_t[]){1, 2, 3, 4}}, {"|i1", 1, (const int8_t[]){1, 2, 3, 4}},
               {"<i4", 4, (const int32_t[]){1, 2, 3, 4}}, {"<i8", 8, (const int64_t[]){1, 2, 3, 4}},
               {"<f4", 4, (const float[]){1, 2, 3, 4}},   {"<f8", 8, (const double[]){1, 2, 3, 4}}};
  char dir[FILES_PATH], path[FILES_PATH * 2], labels[FILES_PATH * 2];
  files_make_folder(dir);
  snprintf(path, sizeof path, "%s/X.npy", dir);
  snprintf(labels, sizeof labels, "%s/y.npy", dir);
  write_npy(labels, 1, "{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }\n", (int64_t[]){4, 1}, 16);
  for (size_t c = 0; c < COUNT_OF(cases); c++)
    for (int version = 1; version <= 3; version++) {
      char header[256];
      loaded l;
      snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (2, 2), }   \n", cases[c].type);
      write_npy(path, version, header, cases[c].data, 4 * cases[c].size);
      assert_ok(load(path, "npy", &(format_options){0}, &l));
      assert_int_equal(l.rows.count, 2);
      assert_int_equal(l.rows.labels[0], 4);
      for (int i = 0; i < 4; i++)
        assert_true((c ? ((float *)l.rows.features)[i] : ((uint8_t *)l.rows.features)[i]) == (float)(i + 1));
      unload(&l);
    }
  /* Labels that are numbers. */
  write_npy(labels, 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n", (float[]){0.5f, -3}, 8);
  loaded l;
  assert_ok(load(path, "npy", &(format_options){0}, &l));
  assert_true(l.rows.schema.real_labels && l.rows.targets[1] == -3);
  unload(&l);
  files_remove_folder(dir);
}

static void npy_errors(void **state) {
  static const struct {
    const char *header, *words;
    size_t bytes;
  } cases[] = {
      {"{'descr': '<f4', 'fortran_order': Maybe, 'shape': (2, 2), }", "True or False", 16},
      {"{'descr': '<c8', 'fortran_order': False, 'shape': (2, 2), }", "numbers or bools", 32},
      {"{'descr': '<f3', 'fortran_order': False, 'shape': (2, 2), }", "numbers or bools", 12},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }", "cut short", 15},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }", "the file goes on", 17},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (), }", "single number", 4},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, -2), }", "'shape'", 16},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2 2), }", "'shape'", 16},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1), }", "'shape'", 4},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 0), }", "without numbers", 0},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 4611686018427387904), }", "more than", 16},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775808,), }", "'shape'", 16},
      {"{'descr': '<f4', 'fortran_order': False, }", "each of", 16},
      {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }", "each of", 16},
      {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2, 2), }", "records", 16},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), } x", "behind the closing brace", 16},
      {"['descr']", "expected a header", 16},
      {"", "expected a header", 16},
  };
  char dir[FILES_PATH], path[FILES_PATH * 2], labels[FILES_PATH * 2];
  loaded l;
  files_make_folder(dir);
  snprintf(path, sizeof path, "%s/a.npy", dir);
  snprintf(labels, sizeof labels, "%s/a-labels.npy", dir);
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    write_npy(path, 1, cases[i].header, (uint8_t[32]){0}, cases[i].bytes);
    assert_fails(load(path, "npy", &(format_options){0}, &l), SHOAL_ERR_INPUT, cases[i].words);
  }
  const char *right = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }";
  write_npy(path, 4, right, (uint8_t[16]){0}, 16);
  assert_fails(load(path, "npy", &(format_options){0}, &l), SHOAL_ERR_INPUT, "version");
  write_npy(path, 1, right, (uint8_t[16]){0}, 16);
  assert_fails(load(path, "npy", &(format_options){0}, &l), SHOAL_ERR_INPUT, "not beside it: expected a-labels.npy");
  write_npy(labels, 1, "{'descr': '<i4', 'fortran_order': False, 'shape': (3,), }", (int32_t[3]){0}, 12);
  assert_fails(load(path, "npy", &(format_options){0}, &l), SHOAL_ERR_INPUT, "do not belong together");
  write_npy(labels, 1, "{'descr': '<i4', 'fortran_order': False, 'shape': (2,2,1), }", (int32_t[4]){0}, 16);
  assert_fails(load(path, "npy", &(format_options){0}, &l), SHOAL_ERR_INPUT, "one label per row");
  const char *one_hot = "{'descr': '<i4', 'fortran_order': False, 'shape': (2,2), }";
  write_npy(labels, 1, one_hot, (int32_t[4]){0, 1, 1, 1}, 16);
  assert_fails(load(path, "npy", &(format_options){0}, &l), SHOAL_ERR_INPUT,
               "a-labels.npy: record 1 at byte 76: expected one 1 and else 0 among its 2 numbers");
  write_npy(labels, 1, one_hot, (int32_t[4]){0, 1, 1, 0}, 16);
  assert_ok(load(path, "npy", &(format_options){0}, &l));
  assert_int_equal(l.rows.schema.classes, 2);
  assert_true(l.rows.labels[0] == 1 && l.rows.labels[1] == 0);
  unload(&l);
  write_npy(labels, 1, "{'descr': '<f8', 'fortran_order': False, 'shape': (2,2), }", (double[4]){1, 0, 0, 1}, 32);
  assert_ok(load(path, "npy", &(format_options){0}, &l));
  assert_false(l.rows.schema.real_labels);
  assert_true(l.rows.labels[0] == 0 && l.rows.labels[1] == 1);
  unload(&l);
  write_npy(labels, 1, "{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }", (int32_t[]){0, -4}, 8);
  assert_fails(load(path, "npy", &(format_options){0}, &l), SHOAL_ERR_INPUT,
               "a-labels.npy: record 1 at byte 71: label -4");
  write_npy(labels, 1, "{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }", (int32_t[]){0, 3}, 8);
  assert_fails(load(path, "npy", &(format_options){.classes = 3}, &l), SHOAL_ERR_INPUT, "0 to 2");
  files_remove_folder(dir);
}

/* ---- the others */

static void fake_names(void **state) {
  loaded l;
  const format *f;
  assert_ok(format_detect("fake:8x6x3:10", &f));
  assert_string_equal(f->name, "fake");
  assert_ok(load("fake:8x6x3:10:100", "fake", &(format_options){0}, &l));
  assert_int_equal(l.rows.count, 100);
  assert_memory_equal(l.rows.features, (char *)l.rows.features + 144 * 99, 144);
  unload(&l);
  static const char *const wrong[] = {"fake:",
                                      "fake:8x6:10",
                                      "fake:0x6x3:10",
                                      "fake:8x6x3",
                                      "fake:8x6x3:10:x",
                                      "fake:8x6x3:10 ",
                                      "fake:99999999x99999999x3:1",
                                      "fake:8x6x3:0"};
  for (size_t i = 0; i < COUNT_OF(wrong); i++)
    assert_fails(load(wrong[i], "fake", &(format_options){0}, &l), SHOAL_ERR_ARGUMENT, "expected fake:HEIGHT");
}

static void folder_errors(void **state) {
  char dir[FILES_PATH], path[FILES_PATH * 2];
  loaded l;
  files_make_folder(dir);
  assert_fails(load(dir, "image-folder", &(format_options){0}, &l), SHOAL_ERR_INPUT, "no images found");
  snprintf(path, sizeof path, "%s/cats", dir);
  mkdir(path, 0700);
  snprintf(path, sizeof path, "%s/cats/a.jpg", dir);
  files_write(path, "\xff\xd8\xff\xe0 enough", 10);
  snprintf(path, sizeof path, "%s/cats/notes.txt", dir);
  files_write(path, "no image", 8);
  snprintf(path, sizeof path, "%s/readme.txt", dir); /* beside the classes: nobody minds */
  files_write(path, "read me", 7);
  assert_fails(load(dir, "image-folder", &(format_options){0}, &l), SHOAL_ERR_INPUT, "cats/notes.txt: record 1");
  snprintf(path, sizeof path, "%s/cats/notes.txt", dir);
  files_write(path, "", 0);
  assert_fails(load(dir, "image-folder", &(format_options){0}, &l), SHOAL_ERR_INPUT, "the file is empty");
  unlink(path);
  assert_ok(load(dir, "image-folder", &(format_options){0}, &l));
  assert_int_equal(l.rows.count, 1);
  unload(&l);
  snprintf(path, sizeof path, "%s/cats/.hidden", dir);
  files_write(path, "no image", 8);
  assert_ok(load(dir, "image-folder", &(format_options){0}, &l));
  assert_int_equal(l.rows.count, 1);
  unload(&l);
  snprintf(path, sizeof path, "%s/cats/more", dir);
  mkdir(path, 0700);
  assert_fails(load(dir, "image-folder", &(format_options){0}, &l), SHOAL_ERR_INPUT, "found a folder");
  fixture_remove(dir);
}

/* One record with the features that are given; label -1: without. */
static void write_record(const char *path, const char *image, size_t n, int64_t label) {
  sink file;
  example_writer w = {0};
  const uint8_t *record;
  size_t length;
  assert_ok(sink_open(path, &file));
  example_clear(&w);
  if (image) example_add_bytes(&w, "image/encoded", image, n);
  if (label != -1) example_add_ints(&w, "image/class/label", &label, 1);
  example_add_bytes(&w, "image/filename", "a.jpg", 5);
  assert_ok(example_finish(&w, &record, &length));
  assert_ok(tfrecord_append(&file, record, length));
  assert_ok(sink_close(&file));
  example_writer_fini(&w);
}

static void image_records(void **state) {
  char dir[FILES_PATH], path[FILES_PATH * 2];
  loaded l;
  const format_options any = {0};
  files_make_folder(dir);
  snprintf(path, sizeof path, "%s/a.tfrecord", dir);
  write_record(path, "\xff\xd8\xff\xe0 more", 9, 1000);
  assert_ok(load(path, "image-tfrecord", &any, &l));
  assert_int_equal(l.rows.labels[0], 1000);
  assert_int_equal(l.rows.schema.kind, ROWS_BYTES);
  assert_memory_equal(l.rows.bytes, "\xff\xd8\xff\xe0 more", 9);
  unload(&l);
  assert_fails(load(path, "image-tfrecord", &(format_options){.classes = 1000}, &l), SHOAL_ERR_INPUT,
               "a.tfrecord: record 0 at byte 0: label 1000 is outside of the classes, 0 to 999");
  write_record(path, "\xff\xd8\xff\xe0 more", 9, -5);
  assert_fails(load(path, "image-tfrecord", &any, &l), SHOAL_ERR_INPUT, "label -5");
  write_record(path, "\xff\xd8\xff\xe0 more", 9, -1);
  assert_fails(load(path, "image-tfrecord", &any, &l), SHOAL_ERR_INPUT, "'image/class/label' is missing");
  write_record(path, NULL, 0, 1);
  assert_fails(load(path, "image-tfrecord", &any, &l), SHOAL_ERR_INPUT, "'image/encoded' is missing");
  write_record(path, "GIF89a", 6, 1);
  assert_fails(load(path, "image-tfrecord", &any, &l), SHOAL_ERR_INPUT, "is no JPEG, PNG, BMP or WebP");
  size_t n;
  uint8_t *bytes = files_read(path, &n);
  bytes[n - 6] ^= 1;
  files_write(path, bytes, n);
  assert_fails(load(path, "image-tfrecord", &any, &l), SHOAL_ERR_INPUT, "record 0 at byte 0");
  free(bytes);
  files_remove_folder(dir);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(real_cifar10),
      cmocka_unit_test(real_mnist),
      cmocka_unit_test(real_flowers),
      cmocka_unit_test(damaged_cifar10),
      cmocka_unit_test_setup_teardown(csv_values, csv_setup, csv_teardown),
      cmocka_unit_test_setup_teardown(csv_errors, csv_setup, csv_teardown),
      cmocka_unit_test_setup_teardown(csv_goes_on, csv_setup, csv_teardown),
      cmocka_unit_test_setup_teardown(csv_gzipped, csv_setup, csv_teardown),
      cmocka_unit_test(npy_types),
      cmocka_unit_test(npy_errors),
      cmocka_unit_test(fake_names),
      cmocka_unit_test(folder_errors),
      cmocka_unit_test(image_records),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
