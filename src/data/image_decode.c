#include "base/mem.h"
#include "data/image_codecs.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jerror.h>
#include <jpeglib.h>
#include <png.h>

enum {
  SCANS_MAX = 200,  /* of a progressive JPEG: encoders write some ten; each further one costs a pass over the image */
  RATIO_MAX = 1024, /* pixels a byte of JPEG can stand for */
  PNG_RATIO = 8300  /* pixels a byte of PNG can stand for: 8 of 1 bit in a byte, times deflate's 1032 */
};

static const uint8_t png_mark[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};

static bool is_jpeg(const uint8_t *bytes, size_t n) {
  return n >= 3 && bytes[0] == 0xff && bytes[1] == 0xd8 && bytes[2] == 0xff;
}

static bool is_png(const uint8_t *bytes, size_t n) { return n >= 8 && !memcmp(bytes, png_mark, 8); }

bool image_is_known(const uint8_t *bytes, size_t n) {
  return is_jpeg(bytes, n) || is_png(bytes, n) || image_is_bmp(bytes, n) || image_is_webp(bytes, n);
}

shoal_status image_reshape(image *i, int height, int width, int channels) {
  size_t need = (size_t)height * (size_t)width * (size_t)channels + IMAGE_SLACK;
  if (need > i->capacity) {
    void *wider;
    TRY(mem_aligned(need, &wider));
    free(i->pixels);
    i->pixels = wider;
    i->capacity = need;
  }
  i->height = height;
  i->width = width;
  i->channels = channels;
  return NULL;
}

void image_fini(image *i) {
  free(i->pixels);
  *i = (image){0};
}

struct image_decoder {
  struct jpeg_decompress_struct jpeg;
  struct jpeg_error_mgr errors;
  struct jpeg_progress_mgr progress;
  jmp_buf leave; /* where the codec's errors go */
  bool too_many_scans;
  uint8_t *row; /* one row in a colour space that the codec does not convert */
  size_t row_capacity;
};

/* ---- JPEG */

static void leave(j_common_ptr info) {
  image_decoder *d = info->client_data;
  longjmp(d->leave, 1);
}

/* The codec goes on after damage and fills in gray; here that is an error. A few of its warnings mean no damage. */
static void on_message(j_common_ptr info, int level) {
  if (level >= 0) return;
  switch (info->err->msg_code) {
    case JWRN_EXTRANEOUS_DATA:
    case JWRN_ADOBE_XFORM:
    case JWRN_JFIF_MAJOR:
    case JWRN_BOGUS_ICC: return;
    default: leave(info);
  }
}

static void no_output(j_common_ptr info) {}

static void on_progress(j_common_ptr info) {
  image_decoder *d = info->client_data;
  if (((j_decompress_ptr)info)->input_scan_number <= SCANS_MAX) return;
  d->too_many_scans = true;
  leave(info);
}

shoal_status image_decoder_create(image_decoder **out) {
  image_decoder *d = calloc(1, sizeof *d);
  if (!d) return status_no_memory();
  d->jpeg.err = jpeg_std_error(&d->errors);
  d->errors.error_exit = leave;
  d->errors.emit_message = on_message;
  d->errors.output_message = no_output;
  d->progress.progress_monitor = on_progress;
  d->jpeg.client_data = d;
  if (setjmp(d->leave)) {
    jpeg_destroy_decompress(&d->jpeg);
    free(d);
    return status_no_memory();
  }
  jpeg_create_decompress(&d->jpeg);
  d->jpeg.client_data = d;
  d->jpeg.progress = &d->progress;
  *out = d;
  return NULL;
}

void image_decoder_destroy(image_decoder *d) {
  if (!d) return;
  jpeg_destroy_decompress(&d->jpeg);
  free(d->row);
  free(d);
}

shoal_status image_check_size(uint64_t height, uint64_t width, size_t n, int ratio) {
  if (!height || !width || height * width > IMAGE_PIXELS_MAX)
    return status_make(SHOAL_ERR_INPUT, "the picture is %llu x %llu, at most %d pixels are read: make it smaller",
                       (unsigned long long)height, (unsigned long long)width, IMAGE_PIXELS_MAX);
  if (height * width / (uint64_t)ratio > n)
    return status_make(SHOAL_ERR_INPUT,
                       "the picture claims to be %llu x %llu, more than %zu bytes can hold: it is "
                       "corrupted or cut short, download it again",
                       (unsigned long long)height, (unsigned long long)width, n);
  return NULL;
}

/* As the image says, or smaller while that is at least what is asked for. Only sizes for which the codec is fast. */
static void choose_scale(struct jpeg_decompress_struct *jpeg, int least_height, int least_width) {
  jpeg->scale_num = 1;
  jpeg->scale_denom = 1;
  if (least_height <= 0 || least_width <= 0) return;
  for (unsigned by = 2; by <= 8; by *= 2)
    if (jpeg->image_height / by >= (unsigned)least_height && jpeg->image_width / by >= (unsigned)least_width)
      jpeg->scale_denom = by;
}

/* Four inks to red, green and blue or gray. Adobe's programs, which write nearly all of these, store them inverted. */
static void from_inks(const uint8_t *inks, int width, bool inverted, int channels, uint8_t *out) {
  for (int x = 0; x < width; x++, inks += 4) {
    int k = inverted ? inks[3] : 255 - inks[3], rgb[3];
    for (int c = 0; c < 3; c++) rgb[c] = (inverted ? inks[c] : 255 - inks[c]) * k / 255;
    if (channels == 1)
      *out++ = (uint8_t)((77 * rgb[0] + 150 * rgb[1] + 29 * rgb[2]) >> 8);
    else
      for (int c = 0; c < 3; c++) *out++ = (uint8_t)rgb[c];
  }
}

static shoal_status start_jpeg(image_decoder *d, const uint8_t *bytes, size_t n, int channels, int least_height,
                               int least_width, image *out) {
  struct jpeg_decompress_struct *jpeg = &d->jpeg;
  jpeg_mem_src(jpeg, bytes, n);
  jpeg_read_header(jpeg, TRUE);
  TRY(image_check_size(jpeg->image_height, jpeg->image_width, n, RATIO_MAX));
  bool inks = jpeg->jpeg_color_space == JCS_CMYK || jpeg->jpeg_color_space == JCS_YCCK;
  jpeg->out_color_space = inks ? JCS_CMYK : channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  choose_scale(jpeg, least_height, least_width);
  jpeg_start_decompress(jpeg);
  TRY(image_reshape(out, (int)jpeg->output_height, (int)jpeg->output_width, channels));
  if (!inks) return NULL;
  void *row = d->row;
  shoal_status status = mem_grow(&row, &d->row_capacity, (size_t)jpeg->output_width * 4, 1);
  d->row = row;
  return status;
}

static void read_lines(image_decoder *d, image *out) {
  struct jpeg_decompress_struct *jpeg = &d->jpeg;
  size_t stride = (size_t)out->width * (size_t)out->channels;
  bool inks = jpeg->out_color_space == JCS_CMYK;
  while (jpeg->output_scanline < jpeg->output_height) {
    JSAMPROW rows[4];
    unsigned line = jpeg->output_scanline, count = inks ? 1 : COUNT_OF(rows);
    for (unsigned i = 0; i < count; i++) {
      unsigned y = MIN_OF(line + i, jpeg->output_height - 1);
      rows[i] = inks ? d->row : out->pixels + y * stride;
    }
    jpeg_read_scanlines(jpeg, rows, MIN_OF(count, jpeg->output_height - line));
    if (inks) from_inks(d->row, out->width, jpeg->saw_Adobe_marker, out->channels, out->pixels + line * stride);
  }
}

static shoal_status decode_jpeg(image_decoder *d, const uint8_t *bytes, size_t n, int channels, int least_height,
                                int least_width, image *out) {
  d->too_many_scans = false;
  if (setjmp(d->leave)) {
    size_t left = d->jpeg.src ? d->jpeg.src->bytes_in_buffer : 0;
    char words[JMSG_LENGTH_MAX];
    if (d->too_many_scans)
      snprintf(words, sizeof words, "more than %d scans", SCANS_MAX);
    else
      d->errors.format_message((j_common_ptr)&d->jpeg, words);
    shoal_status status =
        !d->too_many_scans && d->errors.msg_code == JERR_OUT_OF_MEMORY
            ? status_no_memory()
            : status_make(SHOAL_ERR_INPUT,
                          "byte %zu of the image: the JPEG is corrupted or cut short (%s): download it again",
                          left <= n ? n - left : n, words);
    jpeg_abort_decompress(&d->jpeg);
    return status;
  }
  shoal_status status = start_jpeg(d, bytes, n, channels, least_height, least_width, out);
  if (!status) {
    read_lines(d, out);
    jpeg_finish_decompress(&d->jpeg);
  }
  jpeg_abort_decompress(&d->jpeg);
  return status;
}

/* ---- PNG: libpng's simplified interface catches its own jumps, errors come back as a message in `png` */

static shoal_status decode_png(const uint8_t *bytes, size_t n, int channels, image *out) {
  png_image png = {.version = PNG_IMAGE_VERSION};
  shoal_status status = NULL;
  if (!png_image_begin_read_from_memory(&png, bytes, n))
    return status_make(SHOAL_ERR_INPUT, "the PNG is corrupted (%s): create it again", png.message);
  status = image_check_size(png.height, png.width, n, PNG_RATIO);
  if (!status) status = image_reshape(out, (int)png.height, (int)png.width, channels);
  if (!status) {
    png_color black = {0, 0, 0};
    png.format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
    png.flags |= PNG_IMAGE_FLAG_16BIT_sRGB; /* 16 bits are only finer steps of the same scale */
    if (!png_image_finish_read(&png, &black, out->pixels, 0, NULL))
      status = status_make(SHOAL_ERR_INPUT, "the PNG is corrupted or cut short (%s): create it again", png.message);
  }
  png_image_free(&png);
  return status;
}

shoal_status image_decode(image_decoder *d, const uint8_t *bytes, size_t n, int channels, int least_height,
                          int least_width, image *out) {
  if (channels != 1 && channels != 3)
    return status_make(SHOAL_ERR_ARGUMENT, "images are decoded to 1 or 3 channels, not %d", channels);
  if (is_jpeg(bytes, n)) return decode_jpeg(d, bytes, n, channels, least_height, least_width, out);
  if (is_png(bytes, n)) return decode_png(bytes, n, channels, out);
  if (image_is_bmp(bytes, n)) return image_decode_bmp(bytes, n, channels, out);
  if (image_is_webp(bytes, n)) return image_decode_webp(bytes, n, channels, out);
  if (!n) return status_make(SHOAL_ERR_INPUT, "expected a JPEG, PNG, BMP or WebP image, found no bytes at all");
  return status_make(SHOAL_ERR_INPUT, "expected a JPEG, PNG, BMP or WebP image, found %zu bytes that start with %02x",
                     n, bytes[0]);
}
