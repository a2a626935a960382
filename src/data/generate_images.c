#include "data/generate_images.h"

#include "base/mem.h"
#include "base/options.h"
#include "base/random.h"
#include "data/example.h"
#include "data/npy.h"
#include "data/sink.h"
#include "data/tfrecord.h"

#include <errno.h>
#include <math.h>
#include <png.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define TURN 6.283185307179586

/* ---- one image */

/* Is (x, y), in units of the shape's radius from its middle, inside shape number `shape`? */
static bool inside(int shape, double x, double y) {
  double square = x * x + y * y;
  switch (shape) {
    case 0: return square < 1;                                                  /* disc */
    case 1: return fabs(x) < 0.8 && fabs(y) < 0.8;                              /* square */
    case 2: return square < 1 && square > 0.36;                                 /* ring */
    case 3: return y > -0.8 && y < 0.8 && fabs(x) < 0.5 * (y + 0.8);            /* triangle */
    default: return fmin(fabs(x), fabs(y)) < 0.3 && fmax(fabs(x), fabs(y)) < 1; /* cross */
  }
}

void generate_image(const shoal_images_options *s, int64_t i, uint8_t *pixels) {
  enum { SHAPES = 5 };
  int class = (int)(i % s->classes);
  double angle = TURN * class / s->classes; /* of shading and colour */
  random_stream chance = random_stream_make(s->seed, random_mix((uint64_t)i, 0));
  random_stream noise = random_stream_make(s->seed, random_mix((uint64_t)i, 1));
  double radius = 0.2 + 0.15 * random_uniform_at(&chance, 0);
  double middle_x = 0.35 + 0.3 * random_uniform_at(&chance, 1), middle_y = 0.35 + 0.3 * random_uniform_at(&chance, 2);
  double along_x = cos(angle), along_y = sin(angle);
  uint64_t n = 0;
  for (int y = 0; y < s->height; y++)
    for (int x = 0; x < s->width; x++) {
      double u = (x + 0.5) / s->width, v = (y + 0.5) / s->height;
      double shading = 100 + 60 * ((u - 0.5) * along_x + (v - 0.5) * along_y);
      bool in = inside(class % SHAPES, (u - middle_x) / radius, (v - middle_y) / radius);
      for (int c = 0; c < s->channels; c++, n++) {
        double value = in ? 170 + 80 * cos(angle + TURN * c / 3) : shading;
        if (s->noise > 0) value += s->noise * random_normal_at(&noise, n);
        *pixels++ = (uint8_t)fmin(fmax(value + 0.5, 0), 255);
      }
    }
}

/* ---- where they go */

typedef struct {
  const shoal_images_options *settings;
  uint8_t *pixels; /* [height, width, channels] */
  uint8_t *png;
  size_t png_capacity, png_length;
  npy_writer *images, *labels;
  sink *files; /* [settings->files] */
  int file_count;
  example_writer example;
} output;

static shoal_status make_folder(const char *path) {
  if (!mkdir(path, 0777) || errno == EEXIST) return NULL;
  return status_make(SHOAL_ERR_SYSTEM, "%s: cannot create the folder: %s", path, strerror(errno));
}

static shoal_status encode(output *o) {
  const shoal_images_options *s = o->settings;
  png_image png = {.version = PNG_IMAGE_VERSION,
                   .width = (png_uint_32)s->width,
                   .height = (png_uint_32)s->height,
                   .format = s->channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB};
  png_alloc_size_t length = PNG_IMAGE_PNG_SIZE_MAX(png);
  if (length > o->png_capacity) {
    free(o->png);
    o->png_capacity = 0;
    o->png = malloc(length);
    if (!o->png) return status_no_memory();
    o->png_capacity = length;
  }
  length = o->png_capacity;
  if (!png_image_write_to_memory(&png, o->png, &length, 0, o->pixels, 0, NULL))
    return status_make(SHOAL_ERR_INTERNAL, "the image cannot be written as PNG: %s", png.message);
  o->png_length = length;
  return NULL;
}

static shoal_status write_png(output *o, int64_t i) {
  char *path;
  TRY(encode(o));
  if (asprintf(&path, "%s/class-%03d/%08lld.png", o->settings->out, (int)(i % o->settings->classes), (long long)i) < 0)
    return status_no_memory();
  sink file = {0};
  shoal_status status = sink_open(path, &file);
  free(path);
  if (status) return status;
  status = sink_write(&file, o->png, o->png_length);
  if (!status) return sink_close(&file);
  sink_drop(&file);
  return status;
}

static shoal_status write_record(output *o, int64_t i) {
  const shoal_images_options *s = o->settings;
  const uint8_t *record;
  size_t n;
  TRY(encode(o));
  int64_t label = i % s->classes, height = s->height, width = s->width;
  example_clear(&o->example);
  example_add_ints(&o->example, "image/class/label", &label, 1);
  example_add_ints(&o->example, "image/height", &height, 1);
  example_add_ints(&o->example, "image/width", &width, 1);
  example_add_bytes(&o->example, "image/format", "png", 3);
  example_add_bytes(&o->example, "image/encoded", o->png, o->png_length);
  TRY(example_finish(&o->example, &record, &n));
  return tfrecord_append(&o->files[i % o->file_count], record, n);
}

static shoal_status write_arrays(output *o, int64_t i) {
  int32_t label = (int32_t)(i % o->settings->classes);
  TRY(npy_write(o->images, o->pixels, 1));
  return npy_write(o->labels, &label, 1);
}

static shoal_status open_npy(const char *folder, const char *name, shoal_dtype dtype, shoal_shape row,
                             npy_writer **out) {
  char *path;
  if (asprintf(&path, "%s/%s", folder, name) < 0) return status_no_memory();
  shoal_status status = npy_writer_open(path, dtype, &row, out);
  free(path);
  return status;
}

static shoal_status open_records(output *o) {
  int count = MAX_OF(o->settings->files, 1);
  o->files = calloc((size_t)count, sizeof *o->files);
  if (!o->files) return status_no_memory();
  for (; o->file_count < count; o->file_count++) {
    char *path;
    if (asprintf(&path, "%s/images-%05d-of-%05d.tfrecord", o->settings->out, o->file_count, count) < 0)
      return status_no_memory();
    shoal_status status = sink_open(path, &o->files[o->file_count]);
    free(path);
    if (status) return status;
  }
  return NULL;
}

static shoal_status open_output(output *o) {
  const shoal_images_options *s = o->settings;
  o->pixels = malloc((size_t)s->height * (size_t)s->width * (size_t)s->channels);
  if (!o->pixels) return status_no_memory();
  TRY(make_folder(s->out));
  if (s->form == SHOAL_IMAGES_TFRECORD) return open_records(o);
  if (s->form == SHOAL_IMAGES_NPY) {
    TRY(open_npy(s->out, "images.npy", SHOAL_U8, SHOAL_SHAPE(s->height, s->width, s->channels), &o->images));
    return open_npy(s->out, "images-labels.npy", SHOAL_I32, SHOAL_SCALAR, &o->labels);
  }
  for (int class = 0; class < s->classes; class ++) {
    char *path;
    if (asprintf(&path, "%s/class-%03d", s->out, class) < 0) return status_no_memory();
    shoal_status status = make_folder(path);
    free(path);
    if (status) return status;
  }
  return NULL;
}

/* Completes the files; when `status` is an error already, gives them up and passes it on. */
static shoal_status close_output(output *o, shoal_status status) {
  npy_writer *arrays[] = {o->images, o->labels};
  for (size_t i = 0; i < COUNT_OF(arrays); i++) {
    if (!status && arrays[i])
      status = npy_writer_close(arrays[i]);
    else
      npy_writer_abandon(arrays[i]);
  }
  for (int i = 0; i < o->file_count; i++) {
    if (!status)
      status = sink_close(&o->files[i]);
    else
      sink_drop(&o->files[i]);
  }
  free(o->files);
  free(o->pixels);
  free(o->png);
  example_writer_fini(&o->example);
  return status;
}

static shoal_status make_all(output *o) {
  const shoal_images_options *s = o->settings;
  for (int64_t i = 0; i < s->rows; i++) {
    generate_image(s, i, o->pixels);
    switch (s->form) {
      case SHOAL_IMAGES_FOLDER: TRY(write_png(o, i)); break;
      case SHOAL_IMAGES_TFRECORD: TRY(write_record(o, i)); break;
      case SHOAL_IMAGES_NPY: TRY(write_arrays(o, i)); break;
    }
    if (s->progress && ((i + 1) % 16 == 0 || i + 1 == s->rows) && !s->progress(s->context, i + 1, s->rows))
      return status_make(SHOAL_ERR_CANCELLED, "%s: stopped after %lld of %lld images", s->out, (long long)i + 1,
                         (long long)s->rows);
  }
  return NULL;
}

static shoal_status check(const shoal_images_options *s) {
  if (s->rows < 1)
    return status_make(SHOAL_ERR_ARGUMENT, "%lld images were requested, expected at least 1", (long long)s->rows);
  if (s->classes < 1 || s->classes > 1000)
    return status_make(SHOAL_ERR_ARGUMENT, "%d classes were requested, expected 1 to 1000", s->classes);
  if (s->height < 1 || s->width < 1 || s->height > 4096 || s->width > 4096)
    return status_make(SHOAL_ERR_ARGUMENT, "images of %d x %d were requested, expected sides of 1 to 4096", s->height,
                       s->width);
  if (s->channels != 1 && s->channels != 3)
    return status_make(SHOAL_ERR_ARGUMENT, "%d channels were requested, expected 1 (gray) or 3 (colour)", s->channels);
  if (s->files < 0 || s->files > 1000)
    return status_make(SHOAL_ERR_ARGUMENT, "%d files were requested, expected 1 to 1000", s->files);
  if (!(s->noise >= 0 && s->noise <= 255))
    return status_make(SHOAL_ERR_ARGUMENT, "noise of %g was requested, expected 0 to 255", s->noise);
  return NULL;
}

shoal_status shoal_generate_images(const shoal_images_options *options) {
  shoal_images_options own;
  const shoal_images_options *settings = &own;
  TRY(OPTIONS_TAKE(&own, options));
  TRY(check(settings));
  output o = {.settings = settings};
  shoal_status status = open_output(&o);
  if (!status) status = make_all(&o);
  return close_output(&o, status);
}
