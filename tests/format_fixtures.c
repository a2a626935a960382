#include "format_fixtures.h"
#include "zip_file.h"

#include "data/example.h"
#include "data/generate_images.h"
#include "data/npy.h"
#include "data/sink.h"
#include "data/tfrecord.h"

#include <ftw.h>
#include <sys/stat.h>

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *where) { return remove(path); }

void fixture_remove(const char *dir) { nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS); }

static void place(const char *dir, const char *name, char path[FILES_PATH * 2]) {
  snprintf(path, FILES_PATH * 2, "%s/%s", dir, name);
}

static void make_idx(const char *dir, char path[FILES_PATH * 2]) {
  uint8_t images[16 + FIXTURE_ROWS * 6] = {0, 0, 8, 3, 0, 0, 0, FIXTURE_ROWS, 0, 0, 0, 2, 0, 0, 0, 3};
  uint8_t labels[8 + FIXTURE_ROWS] = {0, 0, 8, 1, 0, 0, 0, FIXTURE_ROWS};
  for (int i = 0; i < FIXTURE_ROWS * 6; i++) images[16 + i] = (uint8_t)(i * 5);
  for (int i = 0; i < FIXTURE_ROWS; i++) labels[8 + i] = (uint8_t)(i % 3);
  place(dir, "t-labels-idx1-ubyte", path);
  files_write(path, labels, sizeof labels);
  place(dir, "t-images-idx3-ubyte", path);
  files_write(path, images, sizeof images);
}

static void make_cifar10(const char *dir, char path[FILES_PATH * 2]) {
  static uint8_t bytes[FIXTURE_ROWS * 3073];
  for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = i % 3073 ? (uint8_t)(i * i >> 5) : (uint8_t)(i / 3073);
  place(dir, "data_batch_1.bin", path);
  files_write(path, bytes, sizeof bytes);
}

static void make_text(const char *dir, const char *name, const char *content, char path[FILES_PATH * 2]) {
  place(dir, name, path);
  files_write(path, content, strlen(content));
}

static void make_csv(const char *dir, char path[FILES_PATH * 2]) {
  make_text(dir, "iris.csv",
            "length,width,species\r\n5.1,3.5,setosa\r\n4.9,3,setosa\r\n\r\n7,3.2,\"versi\"\"color\"\"\"\n6.4,\"3.2\","
            "\"virgin,\nica\"\n1e-3,-2.5E2,setosa\n0.333333333333333333333,.5,setosa\n+6, 1.5 ,\"virgin,\nica\"",
            path);
}

static void make_tsv(const char *dir, char path[FILES_PATH * 2]) {
  make_text(dir, "rows.tsv", "1.5\t2\t0\n2.5\t3\t1\n3.5\t4\t2\n4.5\t5\t0\n5.5\t6\t1\n6.5\t7\t2\n7.5\t8\t0\n", path);
}

/* Written by pyarrow: the rows of make_tsv, three to a group. */
static void make_parquet(const char *dir, char path[FILES_PATH * 2]) {
  char from[FILES_PATH * 2];
  size_t n;
  snprintf(from, sizeof from, "%s/tests/fuzz/seeds/parquet/numbers", files_root());
  uint8_t *bytes = files_read(from, &n);
  place(dir, "rows.parquet", path);
  files_write(path, bytes, n);
  free(bytes);
}

static void make_libsvm(const char *dir, char path[FILES_PATH * 2]) {
  make_text(dir, "rows.libsvm", "+1 1:1 3:0.5\n-1 2:1\n+1 1:2 2:3 3:4\n-1 3:1e-2\n+1 1:1\n-1 2:7 3:8\n+1 3:9\n", path);
}

static void make_libffm(const char *dir, char path[FILES_PATH * 2]) {
  make_text(dir, "rows.ffm",
            "1 0:1:1 1:3:0.5\n0 1:2:1\n1 0:1:2 2:2:3 1:3:4\n0 1:3:1e-2\n1 0:1:1\n0 2:2:7 1:3:8\n1 1:3:9\n", path);
}

static void make_criteo(const char *dir, char path[FILES_PATH * 2]) {
  FILE *file = NULL;
  place(dir, "clicks.tsv", path);
  file = fopen(path, "w");
  assert_non_null(file);
  for (int i = 0; i < FIXTURE_ROWS; i++) {
    fprintf(file, "%d", i % 2);
    for (int c = 0; c < 13; c++) fprintf(file, c % 5 == i % 5 ? "\t" : "\t%d", i * c);
    for (int c = 0; c < 26; c++) {
      if (c % 7 == i % 7)
        fputc('\t', file);
      else
        fprintf(file, "\t%08x", (unsigned)(i * 1000003 + c * 7919));
    }
    fputc('\n', file);
  }
  fclose(file);
}

static void make_npy(const char *dir, char path[FILES_PATH * 2]) {
  npy_writer *w;
  float rows[FIXTURE_ROWS * 4];
  int32_t labels[FIXTURE_ROWS];
  for (int i = 0; i < FIXTURE_ROWS * 4; i++) rows[i] = (float)i / 8;
  for (int i = 0; i < FIXTURE_ROWS; i++) labels[i] = i % 4;
  place(dir, "a-labels.npy", path);
  assert_ok(npy_writer_open(path, SHOAL_I32, &SHOAL_SCALAR, &w));
  assert_ok(npy_write(w, labels, FIXTURE_ROWS));
  assert_ok(npy_writer_close(w));
  place(dir, "a.npy", path);
  shoal_shape row = SHOAL_SHAPE(2, 2);
  assert_ok(npy_writer_open(path, SHOAL_F32, &row, &w));
  assert_ok(npy_write(w, rows, 3));
  assert_ok(npy_write(w, rows + 12, FIXTURE_ROWS - 3));
  assert_ok(npy_writer_close(w));
}

static void make_npz(const char *dir, char path[FILES_PATH * 2]) {
  size_t n[2];
  uint8_t *bytes[2];
  make_npy(dir, path);
  bytes[0] = files_read(path, &n[0]);
  place(dir, "a-labels.npy", path);
  bytes[1] = files_read(path, &n[1]);
  place(dir, "a.npz", path);
  zip_write(path, (const zip_input[]){{"X.npy", bytes[0], n[0]}, {"y.npy", bytes[1], n[1]}}, 2, true, false);
  for (int i = 0; i < 2; i++) free(bytes[i]);
}

static void make_images(const char *dir, shoal_images_form form) {
  shoal_images_options s = {.out = dir,
                            .form = form,
                            .rows = FIXTURE_ROWS,
                            .classes = 3,
                            .height = 12,
                            .width = 10,
                            .channels = 3,
                            .noise = 10,
                            .seed = 7};
  assert_ok(shoal_generate_images(&s));
}

static void make_image_folder(const char *dir, char path[FILES_PATH * 2]) {
  snprintf(path, FILES_PATH * 2, "%s", dir);
  make_images(dir, SHOAL_IMAGES_FOLDER);
}

static void make_image_tfrecord(const char *dir, char path[FILES_PATH * 2]) {
  make_images(dir, SHOAL_IMAGES_TFRECORD);
  place(dir, "images-00000-of-00001.tfrecord", path);
}

static void make_tfrecord(const char *dir, char path[FILES_PATH * 2]) {
  sink file;
  example_writer w = {0};
  place(dir, "rows.tfrecord", path);
  assert_ok(sink_open(path, &file));
  for (int i = 0; i < FIXTURE_ROWS; i++) {
    const uint8_t *record;
    size_t n;
    int64_t label = i % 2 ? 1 : -1, index[3] = {i + 1, i + 200, i + 70000};
    float value[3] = {1, 0.5f, (float)i};
    example_clear(&w);
    example_add_ints(&w, "label", &label, 1);
    example_add_ints(&w, "index", index, 3);
    example_add_floats(&w, "value", value, 3);
    assert_ok(example_finish(&w, &record, &n));
    assert_ok(tfrecord_append(&file, record, n));
  }
  assert_ok(sink_close(&file));
  example_writer_fini(&w);
}

static void make_fake(const char *dir, char path[FILES_PATH * 2]) {
  snprintf(path, FILES_PATH * 2, "fake:5x4x3:10:%d", FIXTURE_ROWS);
}

const format_fixture format_fixtures[] = {
    {"idx", make_idx},
    {"cifar10", make_cifar10},
    {"csv", make_csv},
    {"tsv", make_tsv},
    {"npy", make_npy},
    {"npz", make_npz},
    {"image-folder", make_image_folder},
    {"image-tfrecord", make_image_tfrecord},
    {"tfrecord", make_tfrecord},
    {"libsvm", make_libsvm},
    {"libffm", make_libffm},
    {"parquet", make_parquet},
    {"criteo", make_criteo},
    {"fake", make_fake},
};
const size_t format_fixture_count = sizeof format_fixtures / sizeof *format_fixtures;
