/* HDF5: what is written is read, files of h5py are read, what is damaged is refused. */
#include "files.h"

#include "data/hdf5.h"

enum { ITEMS = 6 };

typedef struct {
  float f32[6];
  double f64[2];
  int32_t i32[3];
  int64_t i64[1];
  uint8_t u8[2];
  hdf5_item items[ITEMS];
} sample;

static void sample_init(sample *s) {
  *s = (sample){.f32 = {1.5f, -2, 3e38f, 1e-45f, 0, -0.0f},
                .f64 = {1e30, -1e-30},
                .i32 = {-2147483647, 0, 5},
                .i64 = {INT64_MIN},
                .u8 = {0, 255}};
  s->items[0] = (hdf5_item){"layers/dense_1/vars/0", shoal_tensor_view(SHOAL_F32, SHOAL_SHAPE(2, 3), s->f32)};
  s->items[1] = (hdf5_item){"layers/dense/vars/0", shoal_tensor_view(SHOAL_F64, SHOAL_SHAPE(2), s->f64)};
  s->items[2] = (hdf5_item){"layers/dense/vars/1", shoal_tensor_view(SHOAL_I32, SHOAL_SHAPE(1, 3, 1), s->i32)};
  s->items[3] = (hdf5_item){"count", shoal_tensor_view(SHOAL_I64, SHOAL_SCALAR, s->i64)};
  s->items[4] = (hdf5_item){"layers/dense-x/vars/0", shoal_tensor_view(SHOAL_U8, SHOAL_SHAPE(2), s->u8)};
  s->items[5] = (hdf5_item){"layers/flatten/vars", {0}};
}

static void round_trip(void **state) {
  sample s;
  sample_init(&s);
  uint8_t *bytes;
  size_t n;
  assert_ok(hdf5_write(s.items, ITEMS, &bytes, &n));
  hdf5_file *f;
  assert_ok(hdf5_open(bytes, n, "a.h5", &f));
  assert_int_equal(hdf5_count(f), ITEMS - 1);
  for (int i = 0; i < ITEMS - 1; i++) {
    const hdf5_dataset *d = hdf5_find(f, s.items[i].path);
    assert_non_null(d);
    shoal_tensor t;
    assert_ok(hdf5_read(f, d, &t));
    assert_true(shoal_shape_equal(&t.shape, &s.items[i].tensor.shape));
    for (int64_t k = 0; k < shoal_tensor_count(&t); k++)
      assert_true((float)shoal_tensor_get(&t, k) == (float)shoal_tensor_get(&s.items[i].tensor, k));
    shoal_tensor_fini(&t);
  }
  assert_null(hdf5_find(f, "layers/flatten/vars"));
  hdf5_close(f);
  free(bytes);
}

/* Each beginning of the file, and each with one byte changed: refused or read, never more. */
static void damaged_files(void **state) {
  sample s;
  sample_init(&s);
  uint8_t *bytes;
  size_t n;
  assert_ok(hdf5_write(s.items, ITEMS, &bytes, &n));
  for (size_t cut = 0; cut < 2 * n; cut++) {
    size_t length = cut < n ? cut : n;
    uint8_t *copy = malloc(length + 1);
    memcpy(copy, bytes, length);
    if (cut >= n) copy[cut - n] ^= 0x41;
    hdf5_file *f = NULL;
    shoal_status status = hdf5_open(copy, length, "a.h5", &f);
    for (size_t i = 0; !status && i < hdf5_count(f); i++) {
      shoal_tensor t;
      shoal_status read = hdf5_read(f, hdf5_at(f, i), &t);
      if (!read) shoal_tensor_fini(&t);
      shoal_status_free(read);
    }
    if (cut < n) assert_int_equal(shoal_status_code(status), SHOAL_ERR_INPUT);
    shoal_status_free(status);
    if (f) hdf5_close(f);
    free(copy);
  }
  free(bytes);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(round_trip), cmocka_unit_test(damaged_files)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
