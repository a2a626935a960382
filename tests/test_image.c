/* Pictures for `predict`: PNG of every kind, raw bytes, and files that are neither. */
#include "files.h"

#include "data/image.h"

#include <math.h>
#include <png.h>
#include <zlib.h>

/* Writes height x width pixels of one libpng simplified format. */
static void write_png(const char *path, int height, int width, png_uint_32 format, const void *pixels) {
  png_image png = {
      .version = PNG_IMAGE_VERSION, .width = (png_uint_32)width, .height = (png_uint_32)height, .format = format};
  if (!png_image_write_to_file(&png, path, 0, pixels, 0, NULL)) fail_msg("cannot write %s: %s", path, png.message);
}

/* Gray of any bit depth, through the full interface: 1, 2, 4, 8 or 16 bits. bytes: packed rows. */
static void write_gray_png(const char *path, int height, int width, int bits, const uint8_t *bytes) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
  png_infop info = png_create_info_struct(png);
  if (setjmp(png_jmpbuf(png))) fail_msg("cannot write %s", path);
  png_init_io(png, file);
  png_set_IHDR(png, info, (png_uint_32)width, (png_uint_32)height, bits, PNG_COLOR_TYPE_GRAY, PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png, info);
  size_t row = ((size_t)width * (size_t)bits + 7) / 8;
  for (int y = 0; y < height; y++) png_write_row(png, bytes + (size_t)y * row);
  png_write_end(png, NULL);
  png_destroy_write_struct(&png, &info);
  fclose(file);
}

static void gray_unchanged(void **state) {
  char dir[FILES_PATH], path[FILES_PATH + 8];
  files_make_folder(dir);
  snprintf(path, sizeof path, "%s/a.png", dir);
  uint8_t pixels[28 * 28], wide[28 * 28 * 2];
  for (int i = 0; i < 28 * 28; i++) {
    pixels[i] = (uint8_t)(i * 31);
    wide[2 * i] = wide[2 * i + 1] = pixels[i];
  }
  shoal_tensor t;
  shoal_shape shape = SHOAL_SHAPE(1, 28, 28, 1);
  write_gray_png(path, 28, 28, 8, pixels);
  assert_ok(image_read_gray(path, 28, 28, &t));
  assert_int_equal(t.dtype, SHOAL_U8);
  assert_true(shoal_shape_equal(&t.shape, &shape));
  assert_memory_equal(t.data, pixels, sizeof pixels);
  shoal_tensor_fini(&t);

  write_gray_png(path, 28, 28, 16, wide);
  assert_ok(image_read_gray(path, 28, 28, &t));
  for (int i = 0; i < 28 * 28; i++) assert_true(abs(((uint8_t *)t.data)[i] - pixels[i]) <= 1);
  shoal_tensor_fini(&t);

  const uint8_t bits[] = {0xa0, 0x40}; /* 1 0 1 / 0 1 0 */
  write_gray_png(path, 2, 3, 1, bits);
  assert_ok(image_read_gray(path, 2, 3, &t));
  assert_memory_equal(t.data, ((uint8_t[]){255, 0, 255, 0, 255, 0}), 6);
  shoal_tensor_fini(&t);
  files_remove_folder(dir);
}

static void colour_and_alpha(void **state) {
  char dir[FILES_PATH], path[FILES_PATH + 8];
  files_make_folder(dir);
  snprintf(path, sizeof path, "%s/a.png", dir);
  shoal_tensor t;
  const uint8_t rgb[] = {0, 0, 0, 255, 255, 255, 100, 100, 100, 0, 255, 0};
  write_png(path, 2, 2, PNG_FORMAT_RGB, rgb);
  assert_ok(image_read_gray(path, 2, 2, &t));
  const uint8_t *gray = t.data;
  assert_int_equal(gray[0], 0);
  assert_int_equal(gray[1], 255);
  assert_true(abs(gray[2] - 100) <= 1);
  assert_true(gray[3] > 130 && gray[3] < 240); /* green is bright to the eye */
  shoal_tensor_fini(&t);

  const uint8_t rgba[] = {255, 255, 255, 0, 255, 255, 255, 255}; /* transparent shows black */
  write_png(path, 1, 2, PNG_FORMAT_RGBA, rgba);
  assert_ok(image_read_gray(path, 1, 2, &t));
  assert_memory_equal(t.data, ((uint8_t[]){0, 255}), 2);
  shoal_tensor_fini(&t);

  png_image png = {
      .version = PNG_IMAGE_VERSION, .width = 2, .height = 1, .format = PNG_FORMAT_RGB_COLORMAP, .colormap_entries = 2};
  const uint8_t indices[] = {1, 0}, map[] = {0, 0, 0, 255, 255, 255};
  assert_true(png_image_write_to_file(&png, path, 0, indices, 0, map));
  assert_ok(image_read_gray(path, 1, 2, &t));
  assert_memory_equal(t.data, ((uint8_t[]){255, 0}), 2);
  shoal_tensor_fini(&t);
  files_remove_folder(dir);
}

static void resized(void **state) {
  char dir[FILES_PATH], path[FILES_PATH + 8];
  files_make_folder(dir);
  snprintf(path, sizeof path, "%s/a.png", dir);
  shoal_tensor t;
  const uint8_t squares[] = {0, 100, 200, 0, 20, 40, 0, 0};
  write_gray_png(path, 2, 4, 8, squares);
  assert_ok(image_read_gray(path, 1, 2, &t)); /* means of 2 x 2 */
  assert_memory_equal(t.data, ((uint8_t[]){40, 50}), 2);
  shoal_tensor_fini(&t);
  const uint8_t three[] = {0, 90, 240};
  write_gray_png(path, 1, 3, 8, three);
  assert_ok(image_read_gray(path, 1, 2, &t)); /* (0 + 90/2) / 1.5, (90/2 + 240) / 1.5 */
  assert_memory_equal(t.data, ((uint8_t[]){30, 190}), 2);
  shoal_tensor_fini(&t);
  assert_ok(image_read_gray(path, 2, 6, &t)); /* larger: each pixel again and again */
  assert_memory_equal(t.data, ((uint8_t[]){0, 0, 90, 90, 240, 240, 0, 0, 90, 90, 240, 240}), 12);
  shoal_tensor_fini(&t);
  /* A mean stays a mean at an odd ratio. */
  uint8_t even[35 * 41];
  memset(even, 77, sizeof even);
  write_gray_png(path, 35, 41, 8, even);
  assert_ok(image_read_gray(path, 28, 28, &t));
  for (int i = 0; i < 784; i++) assert_int_equal(((uint8_t *)t.data)[i], 77);
  shoal_tensor_fini(&t);
  files_remove_folder(dir);
}

static void raw_bytes(void **state) {
  char dir[FILES_PATH], path[FILES_PATH + 8];
  files_make_folder(dir);
  snprintf(path, sizeof path, "%s/a.raw", dir);
  uint8_t pixels[785];
  for (int i = 0; i < 785; i++) pixels[i] = (uint8_t)(i * 7);
  shoal_tensor t;
  files_write(path, pixels, 784);
  assert_ok(image_read_gray(path, 28, 28, &t));
  assert_memory_equal(t.data, pixels, 784);
  shoal_tensor_fini(&t);
  for (size_t n = 0; n <= 785; n += n == 1 ? 782 : n == 783 ? 2 : 1) {
    files_write(path, pixels, n);
    assert_fails(image_read_gray(path, 28, 28, &t), SHOAL_ERR_INPUT, "exactly 784 raw bytes");
  }
  assert_fails(image_read_gray(dir, 28, 28, &t), SHOAL_ERR_INPUT, "regular file");
  assert_fails(image_read_gray("/nonexistent.png", 28, 28, &t), SHOAL_ERR_INPUT, "/nonexistent.png");
  assert_fails(image_read_gray(path, 0, 28, &t), SHOAL_ERR_ARGUMENT, "0 x 28");
  files_remove_folder(dir);
}

/* Cut anywhere and with any byte spoilt: an error or a picture, never a crash. */
static void damaged(void **state) {
  char dir[FILES_PATH], path[FILES_PATH + 8];
  files_make_folder(dir);
  snprintf(path, sizeof path, "%s/a.png", dir);
  uint8_t pixels[30 * 30];
  for (int i = 0; i < 900; i++) pixels[i] = (uint8_t)(i * i * 13);
  write_gray_png(path, 30, 30, 8, pixels);
  size_t n;
  uint8_t *bytes = files_read(path, &n);
  shoal_tensor t;
  for (size_t cut = 8; cut + 16 < n; cut += 1 + cut / 16) {
    files_write(path, bytes, cut);
    assert_fails(image_read_gray(path, 28, 28, &t), SHOAL_ERR_INPUT, "a.png: byte ");
  }
  int noticed = 0;
  for (size_t at = 8; at < n; at += 1 + at / 24) {
    bytes[at] ^= 0x55;
    files_write(path, bytes, n);
    shoal_status status = image_read_gray(path, 28, 28, &t);
    if (status)
      noticed++;
    else
      shoal_tensor_fini(&t);
    shoal_status_free(status);
    bytes[at] ^= 0x55;
  }
  assert_true(noticed > 20);
  /* A header that promises 2^31 x 2^31 pixels. */
  memcpy(bytes + 16, "\x7f\xff\xff\xff\x7f\xff\xff\xff", 8);
  uint32_t crc = (uint32_t)crc32(0, bytes + 12, 17);
  for (int i = 0; i < 4; i++) bytes[29 + i] = (uint8_t)(crc >> (24 - 8 * i));
  files_write(path, bytes, n);
  assert_fails(image_read_gray(path, 28, 28, &t), SHOAL_ERR_INPUT, "a.png: byte ");
  free(bytes);
  files_remove_folder(dir);
}

/* A JPEG is made gray and brought to size like a PNG; half of one is none. */
static void jpeg(void **state) {
  char path[FILES_PATH], dir[FILES_PATH], copy[FILES_PATH + 8];
  shoal_tensor t;
  size_t n;
  snprintf(path, sizeof path, "%s/tests/fuzz/seeds/jpeg/rgb", files_root());
  assert_ok(image_read_gray(path, 28, 28, &t));
  assert_int_equal(t.shape.dim[1], 28);
  shoal_tensor_fini(&t);
  uint8_t *bytes = files_read(path, &n);
  files_make_folder(dir);
  snprintf(copy, sizeof copy, "%s/a.jpg", dir);
  for (size_t cut = 3; cut < n; cut += 11) {
    files_write(copy, bytes, cut);
    assert_fails(image_read_gray(copy, 28, 28, &t), SHOAL_ERR_INPUT, "a.jpg: ");
  }
  free(bytes);
  files_remove_folder(dir);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gray_unchanged), cmocka_unit_test(colour_and_alpha), cmocka_unit_test(resized),
      cmocka_unit_test(raw_bytes),      cmocka_unit_test(damaged),          cmocka_unit_test(jpeg),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
