/* Images as they come: BMP of every depth, WebP, and images in TFRecord files under whatever names. */
#include "read_rows.h"

#include "base/build_config.h"
#include "base/mem.h"
#include "data/example.h"
#include "data/image.h"
#include "data/sink.h"
#include "data/tfrecord.h"

#ifdef SHOAL_WEBP
#include <webp/encode.h>
#endif

enum { HEIGHT = 3, WIDTH = 5 };

/* Colours that all depths hold: each channel is 0 or 255, so that 1 bit each is enough. */
static void colour_at(int y, int x, uint8_t rgb[3]) {
  for (int c = 0; c < 3; c++) rgb[c] = (y * WIDTH + x) >> c & 1 ? 255 : 0;
}

static size_t put(uint8_t *at, uint32_t value, size_t n) {
  for (size_t i = 0; i < n; i++) at[i] = (uint8_t)(value >> 8 * i);
  return n;
}

/* A bitmap of so many bits a pixel. core: with the oldest header. fields: with masks. Returns its length. */
static size_t make_bmp(uint8_t out[2048], int bits, bool core, bool fields, bool from_top) {
  memset(out, 0, 2048);
  size_t at = 14, header = core ? 12 : 40, stride = ((size_t)bits * WIDTH + 31) / 32 * 4;
  static const uint32_t masks16[] = {0xf800, 0x7e0, 0x1f}, masks32[] = {0xff, 0xff00, 0xff0000};
  const uint32_t *masks = bits == 16 ? masks16 : masks32;
  memcpy(out, "BM", 2);
  at += put(out + at, (uint32_t)header, 4);
  at += put(out + at, WIDTH, core ? 2 : 4);
  at += put(out + at, from_top ? 0u - HEIGHT : HEIGHT, core ? 2 : 4);
  at += put(out + at, 1, 2);
  at += put(out + at, (uint32_t)bits, 2);
  if (!core) put(out + at, fields ? 3 : 0, 4);
  at = 14 + header;
  for (int i = 0; fields && i < 3; i++) at += put(out + at, masks[i], 4);
  for (int i = 0; bits <= 8 && i < 1 << bits; i++, at += core ? 3 : 4) /* entry i: its bits are its colours */
    for (int c = 0; c < 3; c++) out[at + (size_t)(2 - c)] = bits == 1 ? (i ? 255 : 0) : i >> c & 1 ? 255 : 0;
  put(out + 10, (uint32_t)at, 4);
  for (int line = 0; line < HEIGHT; line++, at += stride)
    for (int x = 0; x < WIDTH; x++) {
      uint8_t rgb[3];
      colour_at(from_top ? line : HEIGHT - 1 - line, x, rgb);
      uint32_t index = bits == 1 ? rgb[0] & 1u : (rgb[0] & 1u) | (rgb[1] & 2u) | (rgb[2] & 4u), word = 0;
      for (int c = 0; c < 3; c++)
        if (rgb[c]) word |= fields ? masks[c] : bits == 16 ? 0x1fu << 5 * (2 - c) : 0xffu << 8 * (2 - c);
      if (bits <= 8)
        out[at + (size_t)(x * bits / 8)] |= (uint8_t)(index << (8 - bits - x * bits % 8));
      else
        put(out + at + (size_t)(x * bits / 8), word, (size_t)bits / 8);
    }
  return put(out + 2, (uint32_t)at, 4) ? at : 0;
}

static void check_pixels(image_decoder *d, const uint8_t *bytes, size_t n, bool black_and_white) {
  image out = {0};
  for (int channels = 1; channels <= 3; channels += 2) {
    assert_ok(image_decode(d, bytes, n, channels, 0, 0, &out));
    assert_int_equal(out.height, HEIGHT);
    assert_int_equal(out.width, WIDTH);
    for (int i = 0; i < HEIGHT * WIDTH; i++) {
      uint8_t rgb[3];
      colour_at(i / WIDTH, i % WIDTH, rgb);
      if (black_and_white) rgb[1] = rgb[2] = rgb[0];
      int gray = (77 * rgb[0] + 150 * rgb[1] + 29 * rgb[2] + 128) >> 8;
      if (channels == 1)
        assert_int_equal(out.pixels[i], gray);
      else
        assert_memory_equal(out.pixels + 3 * i, rgb, 3);
    }
  }
  image_fini(&out);
}

static void bitmaps(void **state) {
  static const struct {
    int bits;
    bool core, fields;
  } kinds[] = {{1, false, false},  {4, false, false}, {8, false, false}, {16, false, false}, {24, false, false},
               {32, false, false}, {16, false, true}, {32, false, true}, {8, true, false},   {24, true, false}};
  image_decoder *d;
  assert_ok(image_decoder_create(&d));
  for (size_t k = 0; k < COUNT_OF(kinds); k++)
    for (int from_top = 0; from_top < (kinds[k].core ? 1 : 2); from_top++) {
      uint8_t bytes[2048];
      size_t n = make_bmp(bytes, kinds[k].bits, kinds[k].core, kinds[k].fields, from_top);
      assert_true(image_is_known(bytes, IMAGE_HEAD));
      check_pixels(d, bytes, n, kinds[k].bits == 1);
      /* Cut anywhere, or with any byte turned around, it is read or refused, never trusted. */
      for (size_t i = 0; i < 2 * n; i++) {
        uint8_t *copy = malloc(n);
        image out = {0};
        memcpy(copy, bytes, n);
        if (i >= n) copy[i - n] ^= 0xff;
        shoal_status status = image_decode(d, copy, i < n ? i : n, 3, 0, 0, &out);
        if (i < n) assert_non_null(status);
        if (status) assert_int_equal(shoal_status_code(status), SHOAL_ERR_INPUT);
        shoal_status_free(status);
        image_fini(&out);
        free(copy);
      }
    }
  uint8_t bytes[2048];
  image out = {0};
  size_t n = make_bmp(bytes, 8, false, false, false);
  bytes[30] = 1; /* run-length encoded */
  assert_fails(image_decode(d, bytes, n, 3, 0, 0, &out), SHOAL_ERR_INPUT, "save it as 24 bits or as PNG");
  image_fini(&out);
  image_decoder_destroy(d);
}

static void webp(void **state) {
#ifdef SHOAL_WEBP
  uint8_t rgb[HEIGHT * WIDTH * 3], rgba[HEIGHT * WIDTH * 4], *packed;
  image_decoder *d;
  image out = {0};
  assert_ok(image_decoder_create(&d));
  for (int i = 0; i < HEIGHT * WIDTH; i++) {
    colour_at(i / WIDTH, i % WIDTH, rgb + 3 * i);
    memcpy(rgba + 4 * i, rgb + 3 * i, 3);
    rgba[4 * i + 3] = i % 2 ? 255 : 0;
  }
  size_t n = WebPEncodeLosslessRGB(rgb, WIDTH, HEIGHT, WIDTH * 3, &packed);
  assert_true(n > 0 && image_is_known(packed, IMAGE_HEAD));
  check_pixels(d, packed, n, false);
  assert_fails(image_decode(d, packed, n / 2, 3, 0, 0, &out), SHOAL_ERR_INPUT, "the WebP is corrupted or cut short");
  WebPFree(packed);
  n = WebPEncodeLosslessRGBA(rgba, WIDTH, HEIGHT, WIDTH * 4, &packed); /* what is transparent shows black */
  assert_ok(image_decode(d, packed, n, 3, 0, 0, &out));
  for (int i = 0; i < HEIGHT * WIDTH; i++)
    for (int c = 0; c < 3; c++) assert_int_equal(out.pixels[3 * i + c], i % 2 ? rgb[3 * i + c] : 0);
  WebPFree(packed);
  image_fini(&out);
  image_decoder_destroy(d);
#else
  image out = {0};
  image_decoder *d;
  assert_ok(image_decoder_create(&d));
  assert_fails(image_decode(d, (const uint8_t *)"RIFF\0\0\0\0WEBPVP8 ", 16, 3, 0, 0, &out), SHOAL_ERR_INPUT,
               "build it with libwebp");
  image_decoder_destroy(d);
#endif
}

/* ---- in TFRecord files */

typedef struct {
  const char *image, *label;
  const char *sizes[3]; /* names of height, width and channels; NULL: not there */
} naming;

static void write_records(const char *path, const naming *names, int rows, const uint8_t *bytes, size_t n,
                          const int64_t size[3]) {
  sink to;
  example_writer w = {0};
  assert_ok(sink_open(path, &to));
  for (int i = 0; i < rows; i++) {
    int64_t label = i % 3;
    const uint8_t *record;
    size_t length;
    example_clear(&w);
    for (int s = 0; s < 3; s++)
      if (names->sizes[s]) example_add_ints(&w, names->sizes[s], &size[s], 1);
    example_add_bytes(&w, names->image, bytes, n);
    example_add_bytes(&w, "file", "a.png", 5);
    example_add_ints(&w, names->label, &label, 1);
    assert_ok(example_finish(&w, &record, &length));
    assert_ok(tfrecord_append(&to, record, length));
  }
  assert_ok(sink_close(&to));
  example_writer_fini(&w);
}

static void raw_images_in_records(void **state) {
  static const naming names[] = {{"image_raw", "label", {"height", "width", "depth"}},
                                 {"image", "class", {"image/height", "image/width", NULL}},
                                 {"img_raw", "image/label", {"rows", "cols", "channels"}},
                                 {"x", "y", {NULL, NULL, NULL}}};
  char dir[FILES_PATH], path[FILES_PATH + 16];
  uint8_t bytes[48];
  files_make_folder(dir);
  snprintf(path, sizeof path, "%s/a.tfrecord", dir);
  for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(i * 5);
  for (size_t i = 0; i < COUNT_OF(names); i++) {
    rows_block b;
    const format *f;
    bool said = names[i].sizes[0];
    write_records(path, &names[i], 4, bytes, sizeof bytes, (const int64_t[]){2, 8, 3});
    assert_ok(format_detect(path, &f));
    assert_string_equal(f->name, "tfrecord");
    read_file_rows(f, path, &(format_options){0}, &b);
    assert_int_equal(b.count, 4);
    assert_int_equal(b.schema.dtype, SHOAL_U8);
    shoal_shape expected = said ? SHOAL_SHAPE(2, 8, 3) : SHOAL_SHAPE(4, 4, 3);
    assert_true(shoal_shape_equal(&b.schema.shape, &expected));
    assert_memory_equal((uint8_t *)b.features + sizeof bytes, bytes, sizeof bytes);
    assert_int_equal(b.labels[2], 2);
    rows_fini(&b);
  }
  file_reader *r;
  write_records(path, &names[0], 1, bytes, 40, (const int64_t[]){2, 8, 3});
  assert_fails(format_find("tfrecord")->open(path, &(format_options){0}, &r), SHOAL_ERR_INPUT,
               "a.tfrecord: record 0 at byte 0: 'image_raw' holds 40 bytes, but other features say that the image is "
               "[2,8,3]");
  files_remove_folder(dir);
}

static void encoded_images_in_records(void **state) {
  char dir[FILES_PATH], path[FILES_PATH + 16];
  uint8_t bytes[2048];
  files_make_folder(dir);
  snprintf(path, sizeof path, "%s/a.tfrecord", dir);
  size_t n = make_bmp(bytes, 24, false, false, false);
  write_records(path, &(naming){"image", "label", {NULL, NULL, NULL}}, 4, bytes, n, NULL);
  rows_block b;
  read_file_rows(format_find("tfrecord"), path, &(format_options){0}, &b);
  assert_int_equal(b.schema.kind, ROWS_BYTES);
  assert_int_equal(b.count, 4);
  assert_int_equal(b.offsets[4], 4 * n);
  assert_memory_equal(b.bytes + n, bytes, n);
  rows_fini(&b);
  files_remove_folder(dir);
}

/* Lists of ids become sparse rows: the same id of another feature has another place. */
static void ids_in_records(void **state) {
  char dir[FILES_PATH], path[FILES_PATH + 16];
  files_make_folder(dir);
  snprintf(path, sizeof path, "%s/a.tfrecord", dir);
  sink to;
  example_writer w = {0};
  assert_ok(sink_open(path, &to));
  for (int64_t i = 0; i < 3; i++) {
    const uint8_t *record;
    size_t n;
    float click = i == 1;
    example_clear(&w);
    example_add_floats(&w, "clk", &click, 1);
    example_add_ints(&w, "user", (const int64_t[]){7, 7, i}, i ? 3 : 1);
    example_add_ints(&w, "brand", (const int64_t[]){7}, 1);
    assert_ok(example_finish(&w, &record, &n));
    assert_ok(tfrecord_append(&to, record, n));
  }
  assert_ok(sink_close(&to));
  example_writer_fini(&w);
  rows_block b;
  read_file_rows(format_find("tfrecord"), path,
                 &(format_options){.fields = "label=clk,ids=user,brand,none", .features = 1000}, &b);
  assert_int_equal(b.count, 3);
  assert_int_equal(b.schema.kind, ROWS_SPARSE);
  assert_int_equal(b.offsets[1], 2); /* user 7, brand 7 */
  assert_int_equal(b.offsets[2], 5); /* user 7 twice, user 1, brand 7 */
  assert_int_equal(b.labels[1], 1);
  float most = 0;
  for (int64_t e = b.offsets[1]; e < b.offsets[2]; e++) {
    assert_in_range(b.indices[e], 0, 999);
    if (e > b.offsets[1]) assert_true(b.indices[e] > b.indices[e - 1]);
    most = b.values[e] > most ? b.values[e] : most;
  }
  assert_true(most == 2);
  rows_fini(&b);
  files_remove_folder(dir);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(bitmaps), cmocka_unit_test(webp),
                                     cmocka_unit_test(raw_images_in_records),
                                     cmocka_unit_test(encoded_images_in_records), cmocka_unit_test(ids_in_records)};
  return cmocka_run_group_tests_name("codecs", tests, NULL, NULL);
}
