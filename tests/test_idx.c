/* IDX files and the data sets made of them. */
#include "files.h"

#include "data/idx.h"
#include "shoal/data.h"

#include <sys/stat.h>
#include <zlib.h>

static void mnist_counts(void **state) {
  static const struct {
    const char *split;
    int rows, histogram[10];
  } wanted[] = {{"train", 60000, {5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949}},
                {"test", 10000, {980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009}}};
  char path[FILES_PATH];
  snprintf(path, sizeof path, "%s/data/mnist", files_root());
  for (int s = 0; s < 2; s++) {
    shoal_dataset *d;
    assert_ok(shoal_dataset_load(path, wanted[s].split, &d));
    assert_int_equal(shoal_dataset_rows(d), wanted[s].rows);
    shoal_shape shape = SHOAL_SHAPE(wanted[s].rows, 28, 28, 1);
    assert_true(shoal_shape_equal(&d->features.shape, &shape));
    assert_int_equal(d->features.dtype, SHOAL_U8);
    assert_int_equal(d->labels.shape.dim[0], wanted[s].rows);
    assert_int_equal(d->classes, 10);
    assert_true(d->scale > 0.0039f && d->scale < 0.00393f);
    int histogram[10] = {0};
    const uint8_t *labels = d->labels.data, *pixels = d->features.data;
    for (int i = 0; i < wanted[s].rows; i++) histogram[labels[i]]++;
    assert_memory_equal(histogram, wanted[s].histogram, sizeof histogram);
    int64_t zeros = 0, all = shoal_tensor_count(&d->features);
    for (int64_t i = 0; i < all; i++) zeros += !pixels[i];
    assert_true((double)zeros / (double)all > 0.80 && (double)zeros / (double)all < 0.82);
    shoal_dataset_destroy(d);
  }
}

static void named_sets(void **state) {
  char path[FILES_PATH];
  snprintf(path, sizeof path, "%s/data", files_root());
  setenv("SHOAL_DATA", path, 1);
  shoal_dataset *d;
  assert_ok(shoal_dataset_load("mnist", "test", &d));
  shoal_dataset part;
  assert_ok(shoal_dataset_view(d, 9000, 1000, &part));
  assert_int_equal(shoal_dataset_rows(&part), 1000);
  assert_ptr_equal(part.features.data, (char *)d->features.data + 9000 * 784);
  assert_ptr_equal(part.labels.data, (char *)d->labels.data + 9000);
  shoal_dataset inner;
  assert_ok(shoal_dataset_view(&part, 10, 0, &inner));
  assert_int_equal(shoal_dataset_rows(&inner), 0);
  assert_fails(shoal_dataset_view(d, 9000, 1001, &part), SHOAL_ERR_ARGUMENT, "10000");
  assert_fails(shoal_dataset_view(d, -1, 1, &part), SHOAL_ERR_ARGUMENT, "10000");
  assert_fails(shoal_dataset_view(d, INT64_MAX, INT64_MAX, &part), SHOAL_ERR_ARGUMENT, "10000");
  shoal_dataset_destroy(d);
  assert_fails(shoal_dataset_load("mnits", "test", &d), SHOAL_ERR_ARGUMENT, "did you mean 'mnist'");
  assert_fails(shoal_dataset_load("qqqqqqqqqqqq", "test", &d), SHOAL_ERR_ARGUMENT, "fashion-mnist");
  assert_fails(shoal_dataset_load("mnist", "dev", &d), SHOAL_ERR_ARGUMENT, "'train' or 'test'");
  assert_fails(shoal_dataset_load("no/such/folder", "test", &d), SHOAL_ERR_INPUT, "no/such/folder");
  assert_fails(shoal_dataset_load(path, "test", &d), SHOAL_ERR_INPUT, "train-images-idx3-ubyte");
  assert_string_equal(shoal_dataset_names()[0], "mnist");
  unsetenv("SHOAL_DATA");
  shoal_dataset_destroy(NULL);
}

/* Big-endian, `rank` dimensions, `n` bytes of data; returns the length. */
static size_t make_idx(uint8_t *out, uint8_t type, int rank, const uint32_t *dims, const void *data, size_t n) {
  out[0] = out[1] = 0;
  out[2] = type;
  out[3] = (uint8_t)rank;
  for (int i = 0; i < rank; i++)
    for (int b = 0; b < 4; b++) out[4 + 4 * i + b] = (uint8_t)(dims[i] >> (24 - 8 * b));
  if (n) memcpy(out + 4 + 4 * rank, data, n);
  return 4 + 4 * (size_t)rank + n;
}

static size_t gzip(const uint8_t *bytes, size_t n, uint8_t *out, size_t room) {
  z_stream z = {0};
  assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  z.next_in = (Bytef *)bytes;
  z.avail_in = (uInt)n;
  z.next_out = out;
  z.avail_out = (uInt)room;
  assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
  size_t made = z.total_out;
  deflateEnd(&z);
  return made;
}

static void every_type(void **state) {
  static const struct {
    uint8_t code;
    int n;
    uint8_t bytes[24];
    size_t size;
    shoal_dtype dtype;
    double values[3];
  } cases[] = {
      {0x08, 3, {0, 128, 255}, 3, SHOAL_U8, {0, 128, 255}},
      {0x09, 3, {0, 128, 255}, 3, SHOAL_I32, {0, -128, -1}},
      {0x0b, 3, {0, 1, 0xff, 0xfe, 0x80, 0}, 6, SHOAL_I32, {1, -2, -32768}},
      {0x0c, 3, {0, 0, 1, 0, 0xff, 0xff, 0xff, 0xff, 0x80, 0, 0, 0}, 12, SHOAL_I32, {256, -1, -2147483648.0}},
      {0x0d, 3, {0x3f, 0xc0, 0, 0, 0xc0, 0, 0, 0, 0, 0, 0, 0}, 12, SHOAL_F32, {1.5, -2, 0}},
      {0x0e, 3, {0x3f, 0xf8, 0, 0, 0, 0, 0, 0, 0xc0, [17] = 0}, 24, SHOAL_F64, {1.5, -2, 0}},
  };
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
    for (int zipped = 0; zipped < 2; zipped++) {
      uint8_t plain[64], packed[256];
      size_t n = make_idx(plain, cases[c].code, 2, (uint32_t[]){3, 1}, cases[c].bytes, cases[c].size);
      size_t packed_n = gzip(plain, n, packed, sizeof packed);
      shoal_tensor t;
      assert_ok(zipped ? idx_read_memory(packed, packed_n, "x", &t) : idx_read_memory(plain, n, "x", &t));
      assert_int_equal(t.dtype, cases[c].dtype);
      assert_int_equal(t.shape.rank, 2);
      for (int i = 0; i < 3; i++) assert_true(shoal_tensor_get(&t, i) == cases[c].values[i]);
      shoal_tensor_fini(&t);
    }
}

/* Cut anywhere, or with one byte more, neither form is read. */
static void cut_anywhere(void **state) {
  uint8_t data[300], plain[400], packed[600];
  for (size_t i = 0; i < sizeof data; i++) data[i] = (uint8_t)(i * i * 7 + i / 3);
  size_t n = make_idx(plain, 0x08, 3, (uint32_t[]){3, 10, 10}, data, sizeof data);
  size_t packed_n = gzip(plain, n, packed, sizeof packed - 1);
  shoal_tensor t;
  for (size_t cut = 0; cut < n; cut++)
    assert_fails(idx_read_memory(plain, cut, "cut.idx", &t), SHOAL_ERR_INPUT, "cut.idx: byte ");
  for (size_t cut = 0; cut < packed_n; cut++)
    assert_fails(idx_read_memory(packed, cut, "cut.gz", &t), SHOAL_ERR_INPUT, "cut.gz: byte ");
  plain[n] = 0;
  assert_fails(idx_read_memory(plain, n + 1, "long.idx", &t), SHOAL_ERR_INPUT, "long.idx: byte 316: ");
  packed[packed_n] = 7;
  assert_fails(idx_read_memory(packed, packed_n + 1, "long.gz", &t), SHOAL_ERR_INPUT, "the file goes on");
  size_t longer_n = gzip(plain, n + 1, packed, sizeof packed);
  assert_fails(idx_read_memory(packed, longer_n, "long.gz", &t), SHOAL_ERR_INPUT, "the data goes on");
}

/* Any bit flipped in gzip data is noticed, unless it is one that carries nothing (padding): then the data is right. */
static void flipped_bits(void **state) {
  uint8_t data[300], plain[400], packed[600];
  for (size_t i = 0; i < sizeof data; i++) data[i] = (uint8_t)(i * i * 7 + i / 3);
  size_t n = make_idx(plain, 0x08, 3, (uint32_t[]){3, 10, 10}, data, sizeof data);
  size_t packed_n = gzip(plain, n, packed, sizeof packed);
  int noticed = 0;
  for (size_t at = 10; at < packed_n; at++)
    for (int bit = 0; bit < 8; bit++) {
      shoal_tensor t;
      packed[at] ^= (uint8_t)(1 << bit);
      shoal_status status = idx_read_memory(packed, packed_n, "flip.gz", &t);
      if (status) {
        assert_int_equal(shoal_status_code(status), SHOAL_ERR_INPUT);
        assert_non_null(strstr(shoal_status_message(status), "flip.gz: byte "));
        shoal_status_free(status);
        noticed++;
      } else {
        assert_memory_equal(t.data, data, sizeof data);
        shoal_tensor_fini(&t);
      }
      packed[at] ^= (uint8_t)(1 << bit);
    }
  assert_true(noticed >= 8 * ((int)packed_n - 10) - 7);
}

static void absurd_headers(void **state) {
  uint8_t bytes[128], packed[256];
  const uint32_t most[] = {UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX, 1};
  shoal_tensor t;
  size_t n = make_idx(bytes, 0x0e, 6, most, NULL, 0);
  assert_fails(idx_read_memory(bytes, n, "x", &t), SHOAL_ERR_INPUT, "x: byte 4: ");
  n = make_idx(bytes, 0x08, 4, (uint32_t[]){852224, 575, 0xffffffff, 0}, NULL, 0);
  assert_fails(idx_read_memory(bytes, n, "x", &t), SHOAL_ERR_INPUT, "x: byte 4: ");
  n = make_idx(bytes, 0x08, 7, most, NULL, 0);
  assert_fails(idx_read_memory(bytes, n, "x", &t), SHOAL_ERR_INPUT, "x: byte 3: ");
  n = make_idx(bytes, 0x0a, 1, most, NULL, 0);
  assert_fails(idx_read_memory(bytes, n, "x", &t), SHOAL_ERR_INPUT, "x: byte 2: ");
  n = make_idx(bytes, 0x08, 2, (uint32_t[]){UINT32_MAX, 1000}, "abc", 3); /* 4 TB: nothing is allocated for it */
  assert_fails(idx_read_memory(bytes, n, "x", &t), SHOAL_ERR_INPUT, "cut short");
  size_t packed_n = gzip(bytes, n, packed, sizeof packed);
  assert_fails(idx_read_memory(packed, packed_n, "x", &t), SHOAL_ERR_INPUT, "compressed bytes can hold");
  assert_fails(idx_read_memory((const uint8_t *)"\x89PNG....", 8, "x", &t), SHOAL_ERR_INPUT, "89 50");
  assert_fails(idx_read("/nonexistent/file", &t), SHOAL_ERR_INPUT, "/nonexistent/file");
  assert_fails(idx_read("/", &t), SHOAL_ERR_INPUT, "regular file");
}

/* The real file, cut in the middle; as a file, so that the chunked reading is what is tested. */
static void cut_mnist(void **state) {
  char path[FILES_PATH], dir[FILES_PATH], copy[FILES_PATH + 8];
  snprintf(path, sizeof path, "%s/data/mnist/t10k-images-idx3-ubyte.gz", files_root());
  size_t n;
  uint8_t *bytes = files_read(path, &n);
  files_make_folder(dir);
  snprintf(copy, sizeof copy, "%s/cut.gz", dir);
  shoal_tensor t;
  const size_t cuts[] = {1, 2, 9, 10, 30, 65535, 65536, 65537, 131072, n / 2, n - 9, n - 8, n - 4, n - 1};
  for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
    files_write(copy, bytes, cuts[i]);
    assert_fails(idx_read(copy, &t), SHOAL_ERR_INPUT, "cut.gz: byte ");
  }
  bytes[n / 2] ^= 0x10;
  files_write(copy, bytes, n);
  assert_fails(idx_read(copy, &t), SHOAL_ERR_INPUT, "corrupted");
  free(bytes);
  files_remove_folder(dir);
}

static void folder_of_own(void **state) {
  char dir[FILES_PATH], path[FILES_PATH * 2];
  files_make_folder(dir);
  uint8_t bytes[256], pixels[24] = {1, 2, 3};
  shoal_dataset *d;
  snprintf(path, sizeof path, "%s/train-images-idx3-ubyte", dir);
  files_write(path, bytes, make_idx(bytes, 0x08, 3, (uint32_t[]){4, 2, 3}, pixels, 24));
  assert_fails(shoal_dataset_load(dir, "train", &d), SHOAL_ERR_INPUT, "train-labels-idx1-ubyte");
  snprintf(path, sizeof path, "%s/train-labels-idx1-ubyte", dir);
  files_write(path, bytes, make_idx(bytes, 0x08, 1, (uint32_t[]){3}, "\0\1\2", 3));
  assert_fails(shoal_dataset_load(dir, "train", &d), SHOAL_ERR_INPUT, "4 images");
  files_write(path, bytes, make_idx(bytes, 0x08, 1, (uint32_t[]){4}, "\0\1\2\1", 4));
  assert_ok(shoal_dataset_load(dir, "train", &d));
  assert_int_equal(d->classes, 3);
  assert_int_equal(d->features.shape.rank, 4);
  shoal_dataset_destroy(d);
  assert_fails(shoal_dataset_load(dir, "test", &d), SHOAL_ERR_INPUT, "t10k-labels-idx1-ubyte");
  /* The other split knows a class more. */
  snprintf(path, sizeof path, "%s/t10k-labels-idx1-ubyte", dir);
  files_write(path, bytes, make_idx(bytes, 0x08, 1, (uint32_t[]){1}, "\6", 1));
  assert_ok(shoal_dataset_load(dir, "train", &d));
  assert_int_equal(d->classes, 7);
  shoal_dataset_destroy(d);
  /* Labels below zero. */
  files_write(path, bytes, make_idx(bytes, 0x09, 1, (uint32_t[]){1}, "\xff", 1));
  assert_fails(shoal_dataset_load(dir, "train", &d), SHOAL_ERR_INPUT, "negative");
  files_remove_folder(dir);

  /* MNIST by name has ten classes, whatever a file says. */
  char named[FILES_PATH + 8];
  files_make_folder(dir);
  snprintf(named, sizeof named, "%s/mnist", dir);
  assert_int_equal(mkdir(named, 0700), 0);
  snprintf(path, sizeof path, "%s/train-images-idx3-ubyte", named);
  files_write(path, bytes, make_idx(bytes, 0x08, 3, (uint32_t[]){1, 2, 2}, pixels, 4));
  snprintf(path, sizeof path, "%s/train-labels-idx1-ubyte", named);
  files_write(path, bytes, make_idx(bytes, 0x08, 1, (uint32_t[]){1}, "\x0a", 1));
  setenv("SHOAL_DATA", dir, 1);
  assert_fails(shoal_dataset_load("mnist", "train", &d), SHOAL_ERR_INPUT, "label 10");
  unsetenv("SHOAL_DATA");
  files_remove_folder(named);
  files_remove_folder(dir);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(mnist_counts), cmocka_unit_test(named_sets),    cmocka_unit_test(every_type),
      cmocka_unit_test(cut_anywhere), cmocka_unit_test(flipped_bits),  cmocka_unit_test(absurd_headers),
      cmocka_unit_test(cut_mnist),    cmocka_unit_test(folder_of_own),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
