#include "data/image.h"

#include "base/mem.h"

#include <errno.h>
#include <math.h>
#include <png.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define BYTES_MAX (256 << 20) /* of a file */

/* from [from_height, from_width] to to [height, width]: each new pixel is the mean of the area it covers, parts of
 * pixels counted as parts. */
static void resize_area(const uint8_t *from, int from_height, int from_width, uint8_t *to, int height, int width) {
  double step_y = (double)from_height / height, step_x = (double)from_width / width;
  for (int y = 0; y < height; y++) {
    double top = y * step_y, bottom = top + step_y;
    for (int x = 0; x < width; x++) {
      double left = x * step_x, right = left + step_x, sum = 0, area = 0;
      for (int i = (int)top; i < from_height && i < bottom; i++) {
        double tall = MIN_OF(bottom, i + 1) - MAX_OF(top, i);
        for (int j = (int)left; j < from_width && j < right; j++) {
          double part = tall * (MIN_OF(right, j + 1) - MAX_OF(left, j));
          sum += part * from[(size_t)i * (size_t)from_width + (size_t)j];
          area += part;
        }
      }
      to[(size_t)y * (size_t)width + (size_t)x] = (uint8_t)lround(area > 0 ? sum / area : 0);
    }
  }
}

/* libpng's simplified interface catches its own jumps: errors come back as a result and a message in `image`. */
static shoal_status read_png(FILE *file, const char *path, int height, int width, uint8_t *out) {
  png_image png = {.version = PNG_IMAGE_VERSION};
  shoal_status status = NULL;
  uint8_t *pixels = NULL;
  if (!png_image_begin_read_from_stdio(&png, file)) {
    status = status_make(SHOAL_ERR_INPUT, "%s: byte %ld: the PNG is corrupted (%s): create it again", path, ftell(file),
                         png.message);
    goto done;
  }
  if (!png.width || !png.height || (uint64_t)png.width * png.height > IMAGE_PIXELS_MAX) {
    status = status_make(SHOAL_ERR_INPUT,
                         "%s: byte 16: the picture is %u x %u, at most %d pixels are read: make it "
                         "smaller",
                         path, png.width, png.height, IMAGE_PIXELS_MAX);
    goto done;
  }
  png.format = PNG_FORMAT_GRAY;
  png.flags |= PNG_IMAGE_FLAG_16BIT_sRGB; /* 16 bits are only finer steps of the same scale */
  pixels = malloc(PNG_IMAGE_SIZE(png));
  if (!pixels) {
    status = status_no_memory();
    goto done;
  }
  png_color black = {0, 0, 0};
  if (!png_image_finish_read(&png, &black, pixels, 0, NULL)) {
    status = status_make(SHOAL_ERR_INPUT, "%s: byte %ld: the PNG is corrupted or cut short (%s): create it again", path,
                         ftell(file), png.message);
    goto done;
  }
  resize_area(pixels, (int)png.height, (int)png.width, out, height, width);
done:
  free(pixels);
  png_image_free(&png);
  return status;
}

static shoal_status read_encoded(FILE *file, const char *path, size_t n, int height, int width, uint8_t *out) {
  if (n > BYTES_MAX)
    return status_make(SHOAL_ERR_INPUT, "%s: has %zu bytes, pictures of at most %d are read: make it smaller", path, n,
                       BYTES_MAX);
  image_decoder *decoder = NULL;
  image whole = {0};
  uint8_t *bytes = malloc(n);
  if (!bytes) return status_no_memory();
  shoal_status status;
  if (fread(bytes, 1, n, file) != n) {
    status = status_make(SHOAL_ERR_INPUT, "cannot read its %zu bytes", n);
    goto done;
  }
  TRY_GOTO(status, image_decoder_create(&decoder), done);
  TRY_GOTO(status, image_decode(decoder, bytes, n, 1, height, width, &whole), done);
  resize_area(whole.pixels, whole.height, whole.width, out, height, width);
done:
  image_decoder_destroy(decoder);
  image_fini(&whole);
  free(bytes);
  return status_wrap(status, "%s", path);
}

static shoal_status read_raw(FILE *file, const char *path, int height, int width, uint8_t *out) {
  size_t want = (size_t)height * (size_t)width;
  struct stat info;
  if (fstat(fileno(file), &info)) return status_errno(errno, "%s: cannot find its size", path);
  if ((uint64_t)info.st_size != want)
    return status_make(SHOAL_ERR_INPUT,
                       "%s: byte 0: expected a PNG, JPEG, BMP or WebP, or exactly %zu raw "
                       "bytes (%d x %d); this is neither and has %lld bytes",
                       path, want, height, width, (long long)info.st_size);
  if (fread(out, 1, want, file) != want)
    return status_make(SHOAL_ERR_INPUT, "%s: cannot read its %zu bytes", path, want);
  return NULL;
}

shoal_status image_read_gray(const char *path, int height, int width, shoal_tensor *out) {
  if (height < 1 || width < 1 || (int64_t)height * width > IMAGE_PIXELS_MAX)
    return status_make(SHOAL_ERR_ARGUMENT, "a picture of %d x %d pixels cannot be made", height, width);
  FILE *file = fopen(path, "rbe");
  if (!file) return status_make(SHOAL_ERR_INPUT, "%s: cannot open: %s", path, strerror(errno));
  shoal_tensor t = {0};
  shoal_status status;
  struct stat info;
  if (fstat(fileno(file), &info) || !S_ISREG(info.st_mode)) {
    status = status_make(SHOAL_ERR_INPUT, "%s: is not a regular file: give the path of a picture", path);
    goto done;
  }
  TRY_GOTO(status, shoal_tensor_create(SHOAL_U8, SHOAL_SHAPE(1, height, width, 1), &t), done);
  png_byte mark[IMAGE_HEAD];
  size_t got = fread(mark, 1, sizeof mark, file);
  rewind(file);
  if (got >= 8 && !png_sig_cmp(mark, 0, 8))
    status = read_png(file, path, height, width, t.data);
  else if (info.st_size != (off_t)height * width && image_is_known(mark, got))
    status = read_encoded(file, path, (size_t)info.st_size, height, width, t.data);
  else
    status = read_raw(file, path, height, width, t.data);
done:
  fclose(file);
  if (status)
    shoal_tensor_fini(&t);
  else
    *out = t;
  return status;
}
