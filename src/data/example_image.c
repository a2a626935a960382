#include "data/example_image.h"

#include "base/mem.h"

#include <math.h>
#include <string.h>
#include <strings.h>

enum { BYTES_LEAST = 16 /* of an image: shorter ones are names and the like */ };

static const char *const label_words[] = {"label", "class/label", "class", "target", "y", "labels"};
static const char *const image_words[] = {"raw", "encoded", "image", "img", "pixels", "x", "data"};
static const char *const height_words[] = {"height", "rows", "h"};
static const char *const width_words[] = {"width", "cols", "columns", "w"};
static const char *const channel_words[] = {"channels", "depth", "c"};

/* Is the feature called so, alone or behind "image/" or "image_"? */
static bool called(const example_feature *f, const char *const *words, size_t count) {
  const char *name = f->name;
  size_t n = f->name_length;
  if (n > 6 && !strncasecmp(name, "image", 5) && (name[5] == '/' || name[5] == '_')) {
    name += 6;
    n -= 6;
  }
  for (size_t i = 0; i < count; i++)
    if (strlen(words[i]) == n && !strncasecmp(name, words[i], n)) return true;
  return false;
}

#define CALLED(f, words) called(f, words, COUNT_OF(words))

static bool is_image(const example_feature *f) {
  const uint8_t *bytes;
  return f->kind == EXAMPLE_BYTES && example_count(f) == 1 && example_bytes(f, 0, &bytes) >= BYTES_LEAST;
}

bool example_find_image(const uint8_t *record, size_t n, example_feature *image, example_feature *label) {
  example_cursor c;
  example_feature f;
  int images = 0, named = 0, labels = 0;
  *label = (example_feature){0};
  example_begin(&c, record, n);
  while (example_next(&c, &f) == EXAMPLE_FEATURE) {
    bool number = (f.kind == EXAMPLE_INTS || f.kind == EXAMPLE_FLOATS) && example_count(&f) == 1;
    if (number && CALLED(&f, label_words)) {
      *label = f;
      labels++;
    }
    if (!is_image(&f)) continue;
    bool like_one = CALLED(&f, image_words) || memmem(f.name, f.name_length, "raw", 3);
    if (like_one || !named) *image = f;
    images++;
    named += like_one;
  }
  return labels <= 1 && (images == 1 || named == 1);
}

/* The number in the first feature called so; 0: none. */
static int64_t side(const uint8_t *record, size_t n, const char *const *words, size_t count) {
  example_cursor c;
  example_feature f;
  int64_t value;
  example_begin(&c, record, n);
  while (example_next(&c, &f) == EXAMPLE_FEATURE)
    if (f.kind == EXAMPLE_INTS && called(&f, words, count) && example_ints(&f, &value, 1) == 1)
      return value > 0 && value <= INT32_MAX ? value : -1;
  return 0;
}

#define SIDE(record, n, words) side(record, n, words, COUNT_OF(words))

static int64_t root_of(int64_t n) {
  int64_t s = (int64_t)llround(sqrt((double)n));
  return s * s == n ? s : 0;
}

bool example_image_shape(const uint8_t *record, size_t n, int64_t length, shoal_shape *out) {
  int64_t height = SIDE(record, n, height_words), width = SIDE(record, n, width_words);
  int64_t channels = SIDE(record, n, channel_words), all;
  if (height && width) {
    bool overflow = __builtin_mul_overflow(height, width, &all);
    if (!channels && !overflow && all > 0) channels = length / all;
    *out = SHOAL_SHAPE(height, width, channels);
    return !overflow && height > 0 && width > 0 && channels > 0 && !__builtin_mul_overflow(all, channels, &all) &&
           all == length;
  }
  int64_t gray = root_of(length), colour = length % 3 ? 0 : root_of(length / 3);
  *out = gray ? SHOAL_SHAPE(gray, gray, 1) : colour ? SHOAL_SHAPE(colour, colour, 3) : SHOAL_SHAPE(length);
  return true;
}
