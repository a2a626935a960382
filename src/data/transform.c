#include "data/transform.h"

#include "base/mem.h"
#include "base/random.h"
#include "base/text.h"
#include "data/image.h"
#include "data/image_resize.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

enum { STEPS_MAX = 16, SIDE_MAX = 16384, FLIP = 1 /* a stream of random numbers of its own */ };

typedef enum {
  STEP_RESIZE,
  STEP_CROP,
  STEP_FIT,
  STEP_GRAY,
  STEP_COLOUR,
  STEP_FLIP,
  STEP_STANDARDISE,
  STEP_MINMAX,
  STEP_SCALE
} step_kind;

static const struct {
  const char *name;
  bool sized;
} words[] = {[STEP_RESIZE] = {"resize", true},
             [STEP_CROP] = {"crop", true},
             [STEP_FIT] = {"fit", true},
             [STEP_GRAY] = {"gray", false},
             [STEP_COLOUR] = {"colour", false},
             [STEP_FLIP] = {"flip", false},
             [STEP_STANDARDISE] = {"standardise", false},
             [STEP_MINMAX] = {"minmax", false},
             [STEP_SCALE] = {"scale", false}};

typedef struct {
  step_kind kind;
  int height, width; /* of resize, crop and fit */
  double factor;     /* of scale */
} step;

/* What one thread works in. */
typedef struct scratch {
  struct scratch *next;
  image_decoder *decoder;
  image_resizer resizer;
  image image[2];
} scratch;

struct transform {
  step steps[STEPS_MAX];
  int count;
  uint64_t seed;
  rows_schema in, out;
  int decoded_channels;          /* ROWS_BYTES */
  int least_height, least_width; /* ROWS_BYTES: what the first step wants at least; 0: all */
  bool numbers;                  /* rows of numbers, of which number i becomes (x - shift[i]) * gain[i]; else images */
  float *gain, *shift;           /* [numbers of a row] */
  pthread_mutex_t lock;          /* of `idle` */
  scratch *idle;
};

/* ---- parsing */

static shoal_status parse_size(const char *value, step *s) {
  char *copy = strdup(value), *rest = copy;
  if (!copy) return status_no_memory();
  const char *height = strsep(&rest, "x");
  int64_t h = 0, w = 0;
  bool right =
      rest && text_to_int(height, &h) && text_to_int(rest, &w) && h > 0 && w > 0 && h <= SIDE_MAX && w <= SIDE_MAX;
  free(copy);
  if (!right)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "transform: %s expects HEIGHTxWIDTH of at most %d each, for example "
                       "%s=28x28; found '%s'",
                       words[s->kind].name, SIDE_MAX, words[s->kind].name, value);
  s->height = (int)h;
  s->width = (int)w;
  return NULL;
}

/* X or X/Y */
static shoal_status parse_factor(const char *value, step *s) {
  char *copy = strdup(value), *below = copy;
  if (!copy) return status_no_memory();
  const char *above = strsep(&below, "/");
  double x = 0, y = 1;
  bool right = text_to_double(above, &x) && (!below || text_to_double(below, &y)) && y != 0;
  free(copy);
  s->factor = right ? x / y : 0;
  if (right && isfinite((float)s->factor) && (float)s->factor != 0) return NULL;
  return status_make(SHOAL_ERR_ARGUMENT,
                     "transform: scale expects a number or a fraction, for example scale=1/255; "
                     "found '%s'",
                     value);
}

static shoal_status parse_word(char *word, step *out) {
  char *value = word, *name = strsep(&value, "=");
  if (!strcmp(name, "standardize")) name = (char *)words[STEP_STANDARDISE].name;
  const char *names[COUNT_OF(words)];
  for (size_t i = 0; i < COUNT_OF(words); i++) {
    names[i] = words[i].name;
    if (strcmp(name, names[i])) continue;
    *out = (step){.kind = (step_kind)i};
    if (words[i].sized) return parse_size(value ? value : "", out);
    if (i == STEP_SCALE) return parse_factor(value ? value : "", out);
    if (value) return status_make(SHOAL_ERR_ARGUMENT, "transform: %s takes no value, found '%s'", name, value);
    return NULL;
  }
  const char *nearest = text_nearest(name, names, COUNT_OF(names));
  return status_make(SHOAL_ERR_ARGUMENT,
                     "transform: unknown step '%s'; known are resize=HxW, crop=HxW, fit=HxW, gray, "
                     "colour, flip, standardise, minmax and scale=X%s%s%s",
                     name, nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
}

static shoal_status parse(const char *description, transform *t) {
  char *copy = strdup(description), *rest = copy;
  if (!copy) return status_no_memory();
  shoal_status status = NULL;
  for (char *word; !status && (word = strsep(&rest, ","));) {
    if (t->count == STEPS_MAX)
      status = status_make(SHOAL_ERR_ARGUMENT, "transform: at most %d steps are possible", STEPS_MAX);
    else
      status = parse_word(word, &t->steps[t->count++]);
  }
  free(copy);
  return status;
}

/* ---- shapes */

static shoal_status unknown_size(const step *s) {
  return status_make(SHOAL_ERR_ARGUMENT,
                     "transform: encoded images differ in size: put resize=HxW or "
                     "fit=HxW before %s",
                     words[s->kind].name);
}

/* Follows the shape through the steps. height 0: not known yet. */
static shoal_status follow(transform *t, int64_t height, int64_t width, int64_t channels) {
  bool numbers = false; /* f32 from here on */
  for (int i = 0; i < t->count; i++) {
    const step *s = &t->steps[i];
    if (numbers)
      return status_make(SHOAL_ERR_ARGUMENT, "transform: standardise must be the last step, found %s after it",
                         words[s->kind].name);
    switch (s->kind) {
      case STEP_CROP:
        if (!height) return unknown_size(s);
        if (height < s->height || width < s->width)
          return status_make(SHOAL_ERR_ARGUMENT,
                             "transform: crop=%dx%d is larger than the images, %lld x %lld: use "
                             "fit",
                             s->height, s->width, (long long)height, (long long)width);
        /* fall through */
      case STEP_RESIZE:
      case STEP_FIT:
        height = s->height;
        width = s->width;
        break;
      case STEP_GRAY:
        if (channels != 1 && channels != 3)
          return status_make(SHOAL_ERR_ARGUMENT, "transform: gray needs 1 or 3 channels, the images have %lld",
                             (long long)channels);
        channels = 1;
        break;
      case STEP_COLOUR:
        if (channels != 1 && channels != 3)
          return status_make(SHOAL_ERR_ARGUMENT, "transform: colour needs 1 or 3 channels, the images have %lld",
                             (long long)channels);
        channels = 3;
        break;
      case STEP_STANDARDISE: numbers = true; break;
      case STEP_FLIP: break;
      case STEP_MINMAX:
      case STEP_SCALE:
        return status_make(SHOAL_ERR_ARGUMENT,
                           "transform: %s is for rows of numbers; pixels count as value / 255 "
                           "already",
                           words[s->kind].name);
    }
  }
  if (!height)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "transform: encoded images differ in size: add resize=HxW or "
                       "fit=HxW");
  t->out = t->in;
  t->out.kind = ROWS_DENSE;
  t->out.dtype = numbers ? SHOAL_F32 : SHOAL_U8;
  t->out.scale = numbers ? 1 : 1.0f / 255;
  t->out.shape = SHOAL_SHAPE(height, width, channels);
  return NULL;
}

static bool is_numbers(const rows_schema *s) {
  return s->kind == ROWS_DENSE && (s->dtype == SHOAL_F32 || s->shape.rank == 1);
}

/* One multiplication and one addition a number. */
static shoal_status plan_numbers(transform *t, const feature_scaling *learned) {
  char shape[SHOAL_SHAPE_TEXT];
  const step *s = &t->steps[0];
  int64_t n = shoal_shape_count(&t->in.shape);
  bool scales = s->kind == STEP_SCALE, known = scales || s->kind == STEP_STANDARDISE || s->kind == STEP_MINMAX;
  if (t->count != 1 || !known)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "transform: the rows are numbers, %s%s, which take one of "
                       "standardise, minmax "
                       "and scale=X, not %s",
                       shoal_dtype_name(t->in.dtype), shoal_shape_text(&t->in.shape, shape),
                       known ? "several" : words[s->kind].name);
  if (!scales && (!learned || !learned->step || strcmp(learned->step, words[s->kind].name) || learned->count != n))
    return status_make(SHOAL_ERR_INPUT,
                       "transform: %s of %lld numbers needs statistics of the training rows, "
                       "but those "
                       "that are kept are of %s: use the run's own data and settings",
                       words[s->kind].name, (long long)n, learned && learned->step ? learned->step : "none");
  t->gain = malloc((size_t)n * sizeof *t->gain);
  t->shift = malloc((size_t)n * sizeof *t->shift);
  if (!t->gain || !t->shift) return status_no_memory();
  for (int64_t i = 0; i < n; i++) {
    t->gain[i] = (float)(scales ? s->factor : learned->scale[i]);
    t->shift[i] = scales ? 0 : (float)learned->shift[i];
  }
  t->numbers = true;
  t->out = t->in;
  t->out.dtype = SHOAL_F32;
  t->out.scale = 1;
  return NULL;
}

static shoal_status plan(transform *t, const feature_scaling *learned) {
  if (is_numbers(&t->in)) return plan_numbers(t, learned);
  const shoal_shape *shape = &t->in.shape;
  if (t->in.kind == ROWS_BYTES) {
    bool gray = false;
    for (int i = 0; i < t->count; i++) gray |= t->steps[i].kind == STEP_GRAY;
    t->decoded_channels = gray ? 1 : 3; /* the decoders do it on the way */
    if (t->count && t->steps[0].kind == STEP_RESIZE) {
      t->least_height = t->steps[0].height;
      t->least_width = t->steps[0].width;
    }
    return follow(t, 0, 0, t->decoded_channels);
  }
  char shape_text[SHOAL_SHAPE_TEXT];
  if (t->in.kind != ROWS_DENSE || t->in.dtype != SHOAL_U8 || (shape->rank != 2 && shape->rank != 3))
    return status_make(SHOAL_ERR_ARGUMENT,
                       "transform: expected images, u8 [height,width,channels], or numbers, "
                       "but the "
                       "rows are %s %s: leave the transform out",
                       t->in.kind == ROWS_SPARSE ? "sparse" : shoal_dtype_name(t->in.dtype),
                       shoal_shape_text(shape, shape_text));
  int64_t channels = shape->rank == 3 ? shape->dim[2] : 1;
  if (shape->dim[0] > SIDE_MAX || shape->dim[1] > SIDE_MAX || channels > SIDE_MAX || shoal_shape_count(shape) < 1)
    return status_make(SHOAL_ERR_ARGUMENT, "transform: images of %s cannot be transformed",
                       shoal_shape_text(shape, shape_text));
  return follow(t, shape->dim[0], shape->dim[1], channels);
}

const char *transform_statistics(const char *description, const rows_schema *in) {
  transform t = {0};
  shoal_status status = is_numbers(in) ? parse(description, &t) : NULL;
  step_kind kind = t.steps[0].kind;
  bool needed = !status && t.count == 1 && (kind == STEP_STANDARDISE || kind == STEP_MINMAX);
  shoal_status_free(status); /* transform_create says so */
  return needed ? words[kind].name : NULL;
}

shoal_status transform_create(const char *description, const rows_schema *in, uint64_t seed,
                              const feature_scaling *learned, transform **out) {
  transform *t = calloc(1, sizeof *t);
  if (!t) return status_no_memory();
  pthread_mutex_init(&t->lock, NULL);
  t->in = *in;
  t->seed = seed;
  shoal_status status = parse(description, t);
  if (!status) status = plan(t, learned);
  if (status)
    transform_destroy(t);
  else
    *out = t;
  return status;
}

static void scratch_destroy(scratch *s) {
  image_decoder_destroy(s->decoder);
  image_resizer_fini(&s->resizer);
  for (int i = 0; i < 2; i++) image_fini(&s->image[i]);
  free(s);
}

void transform_destroy(transform *t) {
  if (!t) return;
  for (scratch *s = t->idle, *next; s; s = next) {
    next = s->next;
    scratch_destroy(s);
  }
  pthread_mutex_destroy(&t->lock);
  free(t->gain);
  free(t->shift);
  free(t);
}

void transform_schema(const transform *t, rows_schema *out) { *out = t->out; }

/* ---- steps: from [height, width, channels], each to its own place */

/* The middle of `from`, with black around it where it is smaller. */
static void fit(const image *from, uint8_t *to, int height, int width) {
  size_t channels = (size_t)from->channels, stride = (size_t)from->width * channels, line = (size_t)width * channels;
  int rows = MIN_OF(height, from->height), columns = MIN_OF(width, from->width);
  int from_y = (from->height - rows) / 2, from_x = (from->width - columns) / 2;
  int to_y = (height - rows) / 2, to_x = (width - columns) / 2;
  if (rows < height || columns < width) memset(to, 0, (size_t)height * line);
  for (int y = 0; y < rows; y++)
    memcpy(to + (size_t)(to_y + y) * line + (size_t)to_x * channels,
           from->pixels + (size_t)(from_y + y) * stride + (size_t)from_x * channels, (size_t)columns * channels);
}

static void flip(const image *from, uint8_t *to) {
  size_t channels = (size_t)from->channels, stride = (size_t)from->width * channels;
  for (int y = 0; y < from->height; y++) {
    const uint8_t *p = from->pixels + (size_t)y * stride;
    uint8_t *q = to + (size_t)(y + 1) * stride;
    for (int x = 0; x < from->width; x++, p += channels) {
      q -= channels;
      for (size_t c = 0; c < channels; c++) q[c] = p[c];
    }
  }
}

static void gray(const image *from, uint8_t *to) {
  size_t n = (size_t)from->height * (size_t)from->width;
  const uint8_t *p = from->pixels;
  for (size_t i = 0; i < n; i++, p += 3) to[i] = (uint8_t)((77 * p[0] + 150 * p[1] + 29 * p[2] + 128) >> 8);
}

static void colour(const image *from, uint8_t *to) {
  size_t n = (size_t)from->height * (size_t)from->width;
  for (size_t i = 0; i < n; i++) to[3 * i] = to[3 * i + 1] = to[3 * i + 2] = from->pixels[i];
}

/* Sums of bytes and of their squares are exact in 64 bits. */
static void standardise(const image *from, float *to) {
  size_t n = (size_t)from->height * (size_t)from->width * (size_t)from->channels;
  uint64_t sum = 0, squares = 0;
  for (size_t i = 0; i < n; i++) {
    uint32_t x = from->pixels[i];
    sum += x;
    squares += x * x;
  }
  double mean = (double)sum / (double)n, variance = (double)squares / (double)n - mean * mean;
  double deviation = fmax(sqrt(fmax(variance, 0)), 1 / sqrt((double)n));
  float scale = (float)(1 / deviation), shift = (float)(-mean / deviation);
  for (size_t i = 0; i < n; i++) to[i] = (float)from->pixels[i] * scale + shift;
}

/* Is there nothing to do in this step for this image? */
static bool nothing_to_do(const transform *t, const step *s, const image *from, uint64_t epoch, uint64_t row) {
  switch (s->kind) {
    case STEP_RESIZE:
    case STEP_CROP:
    case STEP_FIT: return from->height == s->height && from->width == s->width;
    case STEP_GRAY: return from->channels == 1;
    case STEP_COLOUR: return from->channels == 3;
    case STEP_STANDARDISE:
    case STEP_MINMAX:
    case STEP_SCALE: return false;
    case STEP_FLIP: break;
  }
  uint32_t chance[4];
  random_stream stream = random_stream_make(t->seed, random_mix(epoch, FLIP));
  random_block(&stream, row, chance);
  return chance[0] & 1;
}

/* One step from *from to `to`. */
static shoal_status apply(const step *s, scratch *work, const image *from, void *to) {
  switch (s->kind) {
    case STEP_RESIZE:
      return image_resize(&work->resizer, from->pixels, from->height, from->width, from->channels, to, s->height,
                          s->width);
    case STEP_CROP:
    case STEP_FIT: fit(from, to, s->height, s->width); return NULL;
    case STEP_FLIP: flip(from, to); return NULL;
    case STEP_GRAY: gray(from, to); return NULL;
    case STEP_COLOUR: colour(from, to); return NULL;
    case STEP_STANDARDISE: standardise(from, to); return NULL;
    case STEP_MINMAX: /* of numbers, not of images */
    case STEP_SCALE: break;
  }
  return NULL;
}

static void shape_after(const step *s, const image *from, image *out) {
  bool sized = words[s->kind].sized;
  out->height = sized ? s->height : from->height;
  out->width = sized ? s->width : from->width;
  out->channels = s->kind == STEP_GRAY ? 1 : s->kind == STEP_COLOUR ? 3 : from->channels;
}

/* image[0] holds the picture; `to` gets what comes out. The last step that does something writes there itself. */
static shoal_status run_steps(const transform *t, scratch *work, uint64_t epoch, uint64_t row, void *to) {
  const step *todo[STEPS_MAX];
  int count = 0, at = 0;
  image shape = work->image[0]; /* followed through the steps; its pixels are not used */
  for (int i = 0; i < t->count; i++) {
    if (nothing_to_do(t, &t->steps[i], &shape, epoch, row)) continue;
    todo[count++] = &t->steps[i];
    shape_after(&t->steps[i], &shape, &shape);
  }
  for (int i = 0; i < count; i++, at ^= 1) {
    const image *from = &work->image[at];
    image *next = &work->image[at ^ 1], after;
    shape_after(todo[i], from, &after);
    void *place = to;
    if (i + 1 < count) {
      TRY(image_reshape(next, after.height, after.width, after.channels));
      place = next->pixels;
    }
    TRY(apply(todo[i], work, from, place));
  }
  if (!count) memcpy(to, work->image[0].pixels, rows_dense_bytes(&t->out));
  return NULL;
}

static shoal_status take_scratch(transform *t, scratch **out) {
  pthread_mutex_lock(&t->lock);
  scratch *s = t->idle;
  if (s) t->idle = s->next;
  pthread_mutex_unlock(&t->lock);
  if (!s) {
    s = calloc(1, sizeof *s);
    if (!s) return status_no_memory();
    shoal_status status = image_decoder_create(&s->decoder);
    if (status) {
      free(s);
      return status;
    }
  }
  *out = s;
  return NULL;
}

static void give_back(transform *t, scratch *s) {
  pthread_mutex_lock(&t->lock);
  s->next = t->idle;
  t->idle = s;
  pthread_mutex_unlock(&t->lock);
}

/* The picture of row i into image[0]. */
static shoal_status load(const transform *t, scratch *work, const rows_block *from, int64_t i) {
  image *first = &work->image[0];
  if (t->in.kind == ROWS_BYTES)
    return image_decode(work->decoder, from->bytes + from->offsets[i],
                        (size_t)(from->offsets[i + 1] - from->offsets[i]), t->decoded_channels, t->least_height,
                        t->least_width, first);
  const shoal_shape *shape = &t->in.shape;
  size_t bytes = rows_dense_bytes(&t->in);
  TRY(image_reshape(first, (int)shape->dim[0], (int)shape->dim[1], shape->rank == 3 ? (int)shape->dim[2] : 1));
  memcpy(first->pixels, (const uint8_t *)from->features + (size_t)i * bytes, bytes);
  return NULL;
}

static void scale_numbers(const transform *t, const rows_block *from, int64_t row, float *to) {
  int64_t n = shoal_shape_count(&t->in.shape);
  if (t->in.dtype == SHOAL_U8) {
    const uint8_t *x = (const uint8_t *)from->features + row * n;
    for (int64_t i = 0; i < n; i++) to[i] = ((float)x[i] * t->in.scale - t->shift[i]) * t->gain[i];
  } else {
    const float *x = (const float *)from->features + row * n;
    for (int64_t i = 0; i < n; i++) to[i] = (x[i] - t->shift[i]) * t->gain[i];
  }
}

static shoal_status transform_image(transform *t, const rows_block *from, int64_t i, uint64_t epoch, uint64_t row,
                                    void *place) {
  scratch *work;
  TRY(take_scratch(t, &work));
  shoal_status status = load(t, work, from, i);
  if (!status) status = run_steps(t, work, epoch, row, place);
  give_back(t, work);
  return status;
}

shoal_status transform_row(transform *t, const rows_block *from, int64_t i, uint64_t epoch, uint64_t row,
                           rows_block *into) {
  TRY(rows_reserve(into, 1, 0));
  char *place = (char *)into->features + (size_t)into->count * rows_dense_bytes(&t->out);
  if (t->numbers)
    scale_numbers(t, from, i, (float *)(void *)place);
  else
    TRY(transform_image(t, from, i, epoch, row, place));
  into->labels[into->count] = from->labels[i];
  const int64_t n = rows_targets(&into->schema);
  if (into->targets) memcpy(into->targets + into->count * n, from->targets + i * n, (size_t)n * sizeof *into->targets);
  if (into->weights) into->weights[into->count] = from->weights[i];
  into->count++;
  return NULL;
}
