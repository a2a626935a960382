/* Decoding and resizing pictures beside what libjpeg-turbo needs for decoding alone, on one thread.
 *
 *   jpeg_bench     prints one line of JSON
 *
 * The pictures are made here: 500 x 375, smooth shapes and grain, quality 90, about the size of a photograph on the
 * web. */
#include "base/clock.h"
#include "base/random.h"
#include "data/transform.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

enum { PICTURES = 60, WIDTH = 500, HEIGHT = 375, ROUNDS = 8 };

static void stop_on(shoal_status status) {
  if (!status) return;
  fprintf(stderr, "jpeg_bench: %s\n", shoal_status_message(status));
  exit(1);
}

static void paint(int picture, uint8_t *pixels /* [HEIGHT][WIDTH][3] */) {
  random_stream s = random_stream_make(11, (uint64_t)picture);
  for (int y = 0; y < HEIGHT; y++)
    for (int x = 0; x < WIDTH; x++)
      for (int c = 0; c < 3; c++) {
        double wave = sin(x * 0.02 * (1 + picture % 5) + c) + cos(y * 0.03 + picture);
        double grain = random_uniform_at(&s, (uint64_t)((y * WIDTH + x) * 3 + c)) - 0.5;
        pixels[(y * WIDTH + x) * 3 + c] = (uint8_t)(128 + 50 * wave + 24 * grain);
      }
}

static void encode(const uint8_t *pixels, unsigned char **bytes, unsigned long *n) {
  struct jpeg_compress_struct jpeg;
  struct jpeg_error_mgr errors;
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  jpeg_mem_dest(&jpeg, bytes, n);
  jpeg.image_width = WIDTH;
  jpeg.image_height = HEIGHT;
  jpeg.input_components = 3;
  jpeg.in_color_space = JCS_RGB;
  jpeg_set_defaults(&jpeg);
  jpeg_set_quality(&jpeg, 90, TRUE);
  jpeg_start_compress(&jpeg, TRUE);
  while (jpeg.next_scanline < HEIGHT) {
    JSAMPROW row = (JSAMPROW)pixels + (size_t)jpeg.next_scanline * WIDTH * 3;
    jpeg_write_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_compress(&jpeg);
  jpeg_destroy_compress(&jpeg);
}

static void decode_alone(const uint8_t *bytes, size_t n, uint8_t *pixels) {
  struct jpeg_decompress_struct jpeg;
  struct jpeg_error_mgr errors;
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&jpeg);
  jpeg_mem_src(&jpeg, bytes, n);
  jpeg_read_header(&jpeg, TRUE);
  jpeg_start_decompress(&jpeg);
  while (jpeg.output_scanline < jpeg.output_height) {
    JSAMPROW row = pixels + (size_t)jpeg.output_scanline * WIDTH * 3;
    jpeg_read_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_decompress(&jpeg);
  jpeg_destroy_decompress(&jpeg);
}

int main(void) {
  uint8_t *pixels = malloc((size_t)WIDTH * HEIGHT * 3);
  rows_block from, out;
  rows_schema schema = {.kind = ROWS_BYTES, .classes = 1}, resized;
  transform *t;
  if (!pixels) return 1;
  rows_init(&from, &schema);
  for (int i = 0; i < PICTURES; i++) {
    unsigned char *bytes = NULL;
    unsigned long n = 0;
    paint(i, pixels);
    encode(pixels, &bytes, &n);
    stop_on(rows_reserve(&from, 1, (int64_t)n));
    memcpy(from.bytes + from.offsets[from.count], bytes, n);
    from.offsets[from.count + 1] = from.offsets[from.count] + (int64_t)n;
    from.labels[from.count++] = 0;
    free(bytes);
  }
  stop_on(transform_create("resize=256x256", &from.schema, 0, NULL, &t));
  transform_schema(t, &resized);
  rows_init(&out, &resized);
  double ours = INFINITY, alone = INFINITY;
  for (int round = 0; round < ROUNDS; round++) {
    double start = clock_seconds();
    rows_clear(&out);
    for (int64_t i = 0; i < from.count; i++) stop_on(transform_row(t, &from, i, 0, 0, &out));
    ours = fmin(ours, clock_seconds() - start);
    start = clock_seconds();
    for (int64_t i = 0; i < from.count; i++)
      decode_alone(from.bytes + from.offsets[i], (size_t)(from.offsets[i + 1] - from.offsets[i]), pixels);
    alone = fmin(alone, clock_seconds() - start);
  }
  printf("{\"pictures\": %d, \"decode_and_resize_ms\": %.3f, \"decode_alone_ms\": %.3f, \"ratio\": %.3f}\n", PICTURES,
         ours / PICTURES * 1e3, alone / PICTURES * 1e3, ours / alone);
  transform_destroy(t);
  rows_fini(&from);
  rows_fini(&out);
  free(pixels);
  return 0;
}
