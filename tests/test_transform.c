/* Decoding, resizing and the other steps of a transform; the images that are made. */
#include "format_fixtures.h"

#include "base/clock.h"
#include "base/mem.h"
#include "data/generate_images.h"
#include "data/image.h"
#include "data/image_resize.h"
#include "data/transform.h"

#include <math.h>
#include <pthread.h>

#include <jpeglib.h>

/* pixels [height, width, components]. The caller frees what it returns. */
static uint8_t *make_jpeg(const uint8_t *pixels, int height, int width, int components, bool progressive, size_t *n) {
  struct jpeg_compress_struct jpeg;
  struct jpeg_error_mgr errors;
  unsigned char *out = NULL;
  unsigned long size = 0;
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  jpeg_mem_dest(&jpeg, &out, &size);
  jpeg.image_width = (JDIMENSION)width;
  jpeg.image_height = (JDIMENSION)height;
  jpeg.input_components = components;
  jpeg.in_color_space = components == 1 ? JCS_GRAYSCALE : components == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_set_defaults(&jpeg);
  jpeg_set_quality(&jpeg, 95, TRUE);
  if (progressive) jpeg_simple_progression(&jpeg);
  jpeg_start_compress(&jpeg, TRUE);
  while (jpeg.next_scanline < jpeg.image_height) {
    JSAMPROW row = (JSAMPROW)(pixels + (size_t)jpeg.next_scanline * (size_t)width * (size_t)components);
    jpeg_write_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_compress(&jpeg);
  jpeg_destroy_compress(&jpeg);
  *n = size;
  return out;
}

/* Smooth, so that JPEG changes it little. */
static void fill_smooth(uint8_t *pixels, int height, int width, int channels) {
  for (int y = 0; y < height; y++)
    for (int x = 0; x < width; x++)
      for (int c = 0; c < channels; c++) *pixels++ = (uint8_t)(40 + 150 * x / width + 40 * y / height + 10 * c);
}

static double mean_difference(const uint8_t *a, const uint8_t *b, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; i++) sum += abs(a[i] - b[i]);
  return sum / (double)n;
}

static void jpegs(void **state) {
  enum { H = 61, W = 83 };
  static uint8_t pixels[H * W * 4];
  image_decoder *d;
  image out = {0};
  assert_ok(image_decoder_create(&d));
  for (int progressive = 0; progressive < 2; progressive++)
    for (int components = 1; components <= 3; components += 2) {
      size_t n;
      fill_smooth(pixels, H, W, components);
      uint8_t *jpeg = make_jpeg(pixels, H, W, components, progressive, &n);
      assert_true(image_is_known(jpeg, n));
      assert_ok(image_decode(d, jpeg, n, components, 0, 0, &out));
      assert_int_equal(out.height, H);
      assert_int_equal(out.width, W);
      assert_int_equal(out.channels, components);
      assert_true(mean_difference(out.pixels, pixels, (size_t)(H * W * components)) < 2);
      assert_ok(image_decode(d, jpeg, n, 4 - components, 0, 0, &out)); /* gray as colour and the reverse */
      assert_int_equal(out.channels, 4 - components);
      /* Smaller, but never smaller than asked for. */
      assert_ok(image_decode(d, jpeg, n, 3, 15, 20, &out));
      assert_int_equal(out.height, 16);
      assert_int_equal(out.width, 21);
      assert_ok(image_decode(d, jpeg, n, 3, 31, 20, &out));
      assert_int_equal(out.height, H);
      /* Half an image is none. */
      for (size_t cut = 0; cut < n; cut += cut < 700 ? 1 : 53)
        assert_fails(image_decode(d, jpeg, cut, 3, 0, 0, &out), SHOAL_ERR_INPUT, "e");
      assert_fails(image_decode(d, jpeg, n / 2, 3, 0, 0, &out), SHOAL_ERR_INPUT, "the JPEG is corrupted or cut short");
      assert_ok(image_decode(d, jpeg, n, 3, 0, 0, &out)); /* the decoder is still good */
      free(jpeg);
    }
  /* Four inks, inverted as Adobe's marker (which libjpeg writes) says: white paper, then nothing but cyan. */
  for (int cyan = 0; cyan < 2; cyan++) {
    size_t n;
    for (int i = 0; i < H * W; i++) memcpy(pixels + 4 * i, (uint8_t[]){cyan ? 0 : 255, 255, 255, 255}, 4);
    uint8_t *jpeg = make_jpeg(pixels, H, W, 4, false, &n);
    assert_ok(image_decode(d, jpeg, n, 3, 0, 0, &out));
    assert_true(cyan ? out.pixels[0] < 5 : out.pixels[0] > 250);
    assert_true(out.pixels[1] > 250 && out.pixels[2] > 250);
    assert_ok(image_decode(d, jpeg, n, 1, 0, 0, &out));
    assert_in_range(out.pixels[0], cyan ? 170 : 250, cyan ? 190 : 255);
    free(jpeg);
  }
  assert_fails(image_decode(d, (const uint8_t *)"GIF89a...", 9, 3, 0, 0, &out), SHOAL_ERR_INPUT, "start with 47");
  assert_fails(image_decode(d, NULL, 0, 3, 0, 0, &out), SHOAL_ERR_INPUT, "no bytes");
  assert_fails(image_decode(d, NULL, 0, 2, 0, 0, &out), SHOAL_ERR_ARGUMENT, "1 or 3 channels");
  image_fini(&out);
  image_decoder_destroy(d);
}

/* Bilinear between the middles of pixels, in double. */
static double bilinear_at(const uint8_t *from, int h, int w, int channels, int c, int y, int x, int height, int width) {
  double v = fmin(fmax((y + 0.5) * h / height - 0.5, 0), h - 1), u = fmin(fmax((x + 0.5) * w / width - 0.5, 0), w - 1);
  int y0 = (int)v, x0 = (int)u, y1 = MIN_OF(y0 + 1, h - 1), x1 = MIN_OF(x0 + 1, w - 1);
  double fy = v - y0, fx = u - x0;
#define AT(yy, xx) from[((yy)*w + (xx)) * channels + c]
  return (1 - fy) * ((1 - fx) * AT(y0, x0) + fx * AT(y0, x1)) + fy * ((1 - fx) * AT(y1, x0) + fx * AT(y1, x1));
#undef AT
}

static void resizing(void **state) {
  static const int sizes[][4] = {{10, 10, 10, 10}, {10, 12, 20, 31},     {31, 29, 16, 15}, {1, 1, 5, 7},
                                 {7, 3, 4, 3},     {240, 320, 256, 256}, {5, 9, 5, 8},     {2, 2, 3, 3}};
  image_resizer r = {0};
  for (size_t i = 0; i < COUNT_OF(sizes); i++)
    for (int channels = 1; channels <= 4; channels++) {
      int h = sizes[i][0], w = sizes[i][1], height = sizes[i][2], width = sizes[i][3];
      uint8_t *from = malloc((size_t)(h * w * channels) + IMAGE_SLACK);
      uint8_t *to = malloc((size_t)(height * width * channels));
      assert_true(from && to);
      for (int k = 0; k < h * w * channels; k++) from[k] = (uint8_t)(k * 37 + k / 7);
      assert_ok(image_resize(&r, from, h, w, channels, to, height, width));
      for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++)
          for (int c = 0; c < channels; c++) {
            double want = bilinear_at(from, h, w, channels, c, y, x, height, width);
            assert_true(fabs(want - to[(y * width + x) * channels + c]) < 2);
          }
      free(from);
      free(to);
    }
  /* Shrunk by 4, each pixel is the mean of 16. */
  uint8_t big[16 * 16 * 3 + IMAGE_SLACK], small[4 * 4 * 3];
  for (int k = 0; k < 16 * 16 * 3; k++) big[k] = (uint8_t)(k * 101);
  assert_ok(image_resize(&r, big, 16, 16, 3, small, 4, 4));
  for (int y = 0; y < 4; y++)
    for (int x = 0; x < 4; x++)
      for (int c = 0; c < 3; c++) {
        double sum = 0;
        for (int k = 0; k < 16; k++) sum += big[((4 * y + k / 4) * 16 + 4 * x + k % 4) * 3 + c];
        assert_true(fabs(sum / 16 - small[(y * 4 + x) * 3 + c]) <= 0.51);
      }
  assert_fails(image_resize(&r, big, 16, 16, 3, small, 0, 4), SHOAL_ERR_ARGUMENT, "0 x 4");
  image_resizer_fini(&r);
}

/* One dense row [h, w, c] through a transform. */
static void one(const char *words, const rows_schema *in, const rows_block *from, uint64_t epoch, rows_block *out) {
  transform *t;
  rows_schema schema;
  assert_ok(transform_create(words, in, 5, NULL, &t));
  transform_schema(t, &schema);
  rows_init(out, &schema);
  assert_ok(transform_row(t, from, 0, epoch, 0, out));
  transform_destroy(t);
}

static void steps(void **state) {
  rows_schema in = {
      .kind = ROWS_DENSE, .dtype = SHOAL_U8, .shape = SHOAL_SHAPE(4, 6, 3), .scale = 1.0f / 255, .classes = 9};
  rows_block from, out;
  rows_init(&from, &in);
  assert_ok(rows_reserve(&from, 1, 0));
  uint8_t *p = from.features, *q;
  for (int i = 0; i < 72; i++) p[i] = (uint8_t)(3 * i);
  from.labels[0] = 8;
  from.count = 1;

  one("crop=2x2", &in, &from, 0, &out);
  assert_int_equal(out.labels[0], 8);
  assert_int_equal(out.schema.classes, 9);
  q = out.features;
  assert_memory_equal(q, p + (1 * 6 + 2) * 3, 6);
  assert_memory_equal(q + 6, p + (2 * 6 + 2) * 3, 6);
  rows_fini(&out);

  one("fit=6x4", &in, &from, 0, &out); /* two rows of black, two columns cut */
  q = out.features;
  for (int i = 0; i < 12; i++) assert_true(!q[i] && !q[60 + i]);
  assert_memory_equal(q + 12, p + 3, 12);
  rows_fini(&out);

  one("gray", &in, &from, 0, &out);
  assert_int_equal(out.schema.shape.dim[2], 1);
  assert_in_range(((uint8_t *)out.features)[10], p[30], p[32]);
  rows_fini(&out);

  one("gray,colour,resize=8x12,crop=8x12", &in, &from, 0, &out);
  assert_int_equal(rows_dense_bytes(&out.schema), 8 * 12 * 3);
  rows_fini(&out);

  one("standardise", &in, &from, 0, &out);
  assert_int_equal(out.schema.dtype, SHOAL_F32);
  double sum = 0, squares = 0;
  for (int i = 0; i < 72; i++) {
    double x = ((float *)out.features)[i];
    sum += x;
    squares += x * x;
  }
  assert_true(fabs(sum / 72) < 1e-5 && fabs(squares / 72 - 1) < 1e-4);
  rows_fini(&out);
  memset(p, 7, 72); /* all the same: no division by zero */
  one("standardise", &in, &from, 0, &out);
  for (int i = 0; i < 72; i++) assert_true(fabs(((float *)out.features)[i]) < 1e-4);
  rows_fini(&out);
  rows_fini(&from);
}

static void flips(void **state) {
  rows_schema in = {.kind = ROWS_DENSE, .dtype = SHOAL_U8, .shape = SHOAL_SHAPE(1, 2, 1), .scale = 1};
  rows_block from, out, again;
  transform *t;
  rows_init(&from, &in);
  assert_ok(rows_reserve(&from, 1, 0));
  memcpy(from.features, "\1\2", 2);
  from.count = 1;
  assert_ok(transform_create("flip", &in, 3, NULL, &t));
  int turned = 0, differ = 0;
  rows_init(&out, &in);
  rows_init(&again, &in);
  for (uint64_t row = 0; row < 2000; row++) assert_ok(transform_row(t, &from, 0, 0, row, &out));
  for (uint64_t row = 2000; row-- > 0;) assert_ok(transform_row(t, &from, 0, 0, row, &again)); /* in any order */
  uint8_t *a = out.features, *b = again.features;
  for (int i = 0; i < 2000; i++) {
    turned += a[2 * i] == 2;
    assert_int_equal(a[2 * i], b[2 * (1999 - i)]);
    assert_int_equal(a[2 * i] + a[2 * i + 1], 3);
  }
  assert_in_range(turned, 900, 1100);
  rows_clear(&again);
  for (uint64_t row = 0; row < 2000; row++) assert_ok(transform_row(t, &from, 0, 1, row, &again));
  b = again.features;
  for (int i = 0; i < 2000; i++) differ += a[2 * i] != b[2 * i];
  assert_in_range(differ, 900, 1100); /* another epoch, other choices */
  transform_destroy(t);
  rows_fini(&from);
  rows_fini(&out);
  rows_fini(&again);
}

static void wrong_words(void **state) {
  static const struct {
    const char *text, *words;
  } cases[] = {{"resize", "expects HEIGHTxWIDTH"},
               {"resize=", "expects HEIGHTxWIDTH"},
               {"resize=28", "found '28'"},
               {"resize=0x3", "found '0x3'"},
               {"resize=3x3x3", "found '3x3x3'"},
               {"crop=99999x3", "at most 16384"},
               {"rezise=2x2", "did you mean 'resize'"},
               {"flip=1", "takes no value"},
               {"", "unknown step"},
               {"flip,,gray", "unknown step"},
               {"standardise,flip", "must be the last"},
               {"crop=9x9", "larger than the images"},
               {"flip,flip,flip,flip,flip,flip,flip,flip,flip,flip,flip,flip,flip,flip,flip,flip,flip", "at most 16"}};
  rows_schema dense = {.kind = ROWS_DENSE, .dtype = SHOAL_U8, .shape = SHOAL_SHAPE(4, 6, 3), .scale = 1};
  rows_schema bytes = {.kind = ROWS_BYTES}, numbers = dense, sparse = {.kind = ROWS_SPARSE}, odd = dense;
  transform *t;
  for (size_t i = 0; i < COUNT_OF(cases); i++)
    assert_fails(transform_create(cases[i].text, &dense, 0, NULL, &t), SHOAL_ERR_ARGUMENT, cases[i].words);
  numbers.dtype = SHOAL_F32;
  odd.shape.dim[2] = 2;
  assert_fails(transform_create("flip", &bytes, 0, NULL, &t), SHOAL_ERR_ARGUMENT, "add resize=HxW");
  assert_fails(transform_create("crop=3x3,resize=3x3", &bytes, 0, NULL, &t), SHOAL_ERR_ARGUMENT, "before crop");
  assert_fails(transform_create("flip", &numbers, 0, NULL, &t), SHOAL_ERR_ARGUMENT, "the rows are numbers, f32[4,6,3]");
  assert_fails(transform_create("flip", &sparse, 0, NULL, &t), SHOAL_ERR_ARGUMENT, "sparse");
  assert_fails(transform_create("gray", &odd, 0, NULL, &t), SHOAL_ERR_ARGUMENT, "1 or 3 channels");
  transform_destroy(NULL);
}

/* ---- images from files */

static void load_images(const char *path, rows_block *out) {
  const format *f;
  file_reader *r;
  rows_schema schema;
  int64_t got = 1;
  assert_ok(format_detect(path, &f));
  assert_ok(f->open(path, &(format_options){0}, &r));
  f->schema(r, &schema);
  rows_init(out, &schema);
  while (got) assert_ok(f->read(r, 100, out, &got));
  f->close(r);
}

typedef struct {
  transform *t;
  const rows_block *from;
  rows_block out;
} job;

static void *run_job(void *context) {
  job *j = context;
  for (int64_t i = 0; i < j->from->count; i++) {
    shoal_status status = transform_row(j->t, j->from, i, 2, (uint64_t)i, &j->out);
    if (status) return status;
  }
  return NULL;
}

/* The same rows come out of each of several threads that share a transform; a damaged one harms no other. */
static void threads(void **state) {
  char dir[FILES_PATH];
  rows_block from;
  rows_schema schema;
  job jobs[4];
  pthread_t ids[4];
  files_make_folder(dir);
  assert_ok(shoal_generate_images(&(shoal_images_options){.out = dir,
                                                          .form = SHOAL_IMAGES_TFRECORD,
                                                          .rows = 40,
                                                          .classes = 4,
                                                          .height = 50,
                                                          .width = 60,
                                                          .channels = 3,
                                                          .noise = 8,
                                                          .seed = 1,
                                                          .files = 1}));
  char path[FILES_PATH * 2];
  snprintf(path, sizeof path, "%s/images-00000-of-00001.tfrecord", dir);
  load_images(path, &from);
  assert_int_equal(from.count, 40);
  transform *t;
  assert_ok(transform_create("resize=32x24,flip,standardise", &from.schema, 9, NULL, &t));
  transform_schema(t, &schema);
  for (int i = 0; i < 4; i++) {
    jobs[i] = (job){.t = t, .from = &from};
    rows_init(&jobs[i].out, &schema);
    pthread_create(&ids[i], NULL, run_job, &jobs[i]);
  }
  for (int i = 0; i < 4; i++) {
    void *status;
    pthread_join(ids[i], &status);
    assert_null(status);
    assert_int_equal(jobs[i].out.count, 40);
    assert_memory_equal(jobs[0].out.features, jobs[i].out.features, 40 * rows_dense_bytes(&schema));
  }
  /* One damaged row: an error, nothing is appended, and the next is fine. */
  memset(from.bytes + from.offsets[3] + 60, 0x55, 200);
  assert_fails(transform_row(t, &from, 3, 0, 3, &jobs[0].out), SHOAL_ERR_INPUT, "the PNG is corrupted");
  assert_int_equal(jobs[0].out.count, 40);
  assert_ok(transform_row(t, &from, 4, 2, 4, &jobs[0].out));
  assert_memory_equal((char *)jobs[0].out.features + 40 * rows_dense_bytes(&schema),
                      (char *)jobs[0].out.features + 4 * rows_dense_bytes(&schema), rows_dense_bytes(&schema));
  for (int i = 0; i < 4; i++) rows_fini(&jobs[i].out);
  rows_fini(&from);
  transform_destroy(t);
  fixture_remove(dir);
}

/* The nearest of the classes' mean images is the right one far more often than by chance, and the seed decides all. */
static void made_images_can_be_learnt(void **state) {
  enum { CLASSES = 10, SIDE = 24, N = SIDE * SIDE * 3, ROWS = 400 };
  shoal_images_options s = {
      .rows = ROWS, .classes = CLASSES, .height = SIDE, .width = SIDE, .channels = 3, .noise = 20, .seed = 3};
  static double means[CLASSES][N];
  uint8_t pixels[N], again[N];
  for (int i = 0; i < ROWS / 2; i++) {
    generate_image(&s, i, pixels);
    for (int k = 0; k < N; k++) means[i % CLASSES][k] += pixels[k] / (ROWS / 2.0 / CLASSES);
  }
  int right = 0;
  for (int i = ROWS / 2; i < ROWS; i++) {
    double least = INFINITY;
    int nearest = -1;
    generate_image(&s, i, pixels);
    for (int class = 0; class < CLASSES; class ++) {
      double distance = 0;
      for (int k = 0; k < N; k++) distance += (pixels[k] - means[class][k]) * (pixels[k] - means[class][k]);
      if (distance < least) {
        least = distance;
        nearest = class;
      }
    }
    right += nearest == i % CLASSES;
  }
  assert_true(right > ROWS / 2 * 0.6);
  generate_image(&s, ROWS - 1, again);
  assert_memory_equal(pixels, again, N);
  s.seed++;
  generate_image(&s, ROWS - 1, again);
  assert_memory_not_equal(pixels, again, N);
}

static bool stop_early(void *context, int64_t done, int64_t total) {
  *(int64_t *)context = done;
  return done < 32;
}

static void making_images(void **state) {
  char dir[FILES_PATH], out[FILES_PATH * 2];
  int64_t done = 0;
  rows_block folder, arrays;
  files_make_folder(dir);
  shoal_images_options s = {.out = out,
                            .form = SHOAL_IMAGES_FOLDER,
                            .rows = 30,
                            .classes = 3,
                            .height = 9,
                            .width = 11,
                            .channels = 1,
                            .seed = 4};
  snprintf(out, sizeof out, "%s/folder", dir);
  assert_ok(shoal_generate_images(&s));
  load_images(out, &folder);
  assert_int_equal(folder.count, 30);
  snprintf(out, sizeof out, "%s/arrays", dir);
  s.form = SHOAL_IMAGES_NPY;
  assert_ok(shoal_generate_images(&s));
  snprintf(out, sizeof out, "%s/arrays/images.npy", dir);
  load_images(out, &arrays);
  assert_int_equal(arrays.count, 30);
  /* The folder is sorted by class: its second image of class 0 is row 3. */
  image_decoder *d;
  image picture = {0};
  assert_ok(image_decoder_create(&d));
  assert_ok(image_decode(d, folder.bytes + folder.offsets[1], (size_t)(folder.offsets[2] - folder.offsets[1]), 1, 0, 0,
                         &picture));
  assert_memory_equal(picture.pixels, (uint8_t *)arrays.features + 3 * 99, 99);
  image_fini(&picture);
  image_decoder_destroy(d);
  rows_fini(&folder);
  rows_fini(&arrays);
  s.rows = 100;
  s.progress = stop_early;
  s.context = &done;
  snprintf(out, sizeof out, "%s/stopped", dir);
  assert_fails(shoal_generate_images(&s), SHOAL_ERR_CANCELLED, "32 of 100");
  assert_int_equal(done, 32);
  s.channels = 2;
  assert_fails(shoal_generate_images(&s), SHOAL_ERR_ARGUMENT, "channels");
  s.channels = 1;
  snprintf(out, sizeof out, "%s/no/such", dir);
  assert_fails(shoal_generate_images(&s), SHOAL_ERR_SYSTEM, "cannot create the folder");
  fixture_remove(dir);
}

/* What libjpeg-turbo itself needs for a whole image. */
static void plain_decode(const uint8_t *bytes, size_t n, uint8_t *pixels) {
  struct jpeg_decompress_struct jpeg;
  struct jpeg_error_mgr errors;
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&jpeg);
  jpeg_mem_src(&jpeg, bytes, n);
  jpeg_read_header(&jpeg, TRUE);
  jpeg_start_decompress(&jpeg);
  while (jpeg.output_scanline < jpeg.output_height) {
    JSAMPROW row = pixels + (size_t)jpeg.output_scanline * jpeg.output_width * 3;
    jpeg_read_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_decompress(&jpeg);
  jpeg_destroy_decompress(&jpeg);
}

/* All 300 photographs decode; with SHOAL_TEST_TIMING set, also how long that takes. */
static void photographs(void **state) {
  char path[FILES_PATH * 2];
  snprintf(path, sizeof path, "%s/../shared/data/flowers-small/train", files_root());
  if (access(path, R_OK)) {
    print_message("skipped: %s is not there\n", path);
    skip();
  }
  rows_block from, out;
  rows_schema schema;
  transform *t;
  load_images(path, &from);
  assert_ok(transform_create("resize=256x256", &from.schema, 0, NULL, &t));
  transform_schema(t, &schema);
  rows_init(&out, &schema);
  for (int64_t i = 0; i < from.count; i++) assert_ok(transform_row(t, &from, i, 0, 0, &out));
  assert_int_equal(out.count, 300);
  if (getenv("SHOAL_TEST_TIMING")) {
    uint8_t *pixels = malloc(64 << 20);
    double best = INFINITY, plain = INFINITY;
    assert_non_null(pixels);
    for (int round = 0; round < 5; round++) {
      double start = clock_seconds();
      rows_clear(&out);
      for (int64_t i = 0; i < from.count; i++) assert_ok(transform_row(t, &from, i, 0, 0, &out));
      best = fmin(best, clock_seconds() - start);
      start = clock_seconds();
      for (int64_t i = 0; i < from.count; i++)
        plain_decode(from.bytes + from.offsets[i], (size_t)(from.offsets[i + 1] - from.offsets[i]), pixels);
      plain = fmin(plain, clock_seconds() - start);
    }
    print_message("decode and resize: %.3f ms an image; libjpeg-turbo's decode: %.3f ms; ratio %.3f\n", best / 0.3,
                  plain / 0.3, best / plain);
    assert_true(best < 1.2 * plain);
    free(pixels);
  }
  transform_destroy(t);
  rows_fini(&out);
  rows_fini(&from);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(jpegs),
      cmocka_unit_test(resizing),
      cmocka_unit_test(steps),
      cmocka_unit_test(flips),
      cmocka_unit_test(wrong_words),
      cmocka_unit_test(threads),
      cmocka_unit_test(made_images_can_be_learnt),
      cmocka_unit_test(making_images),
      cmocka_unit_test(photographs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
