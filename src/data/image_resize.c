#include "data/image_resize.h"

#include "base/mem.h"

#include <math.h>
#include <string.h>

void image_resizer_fini(image_resizer *r) {
  free(r->block);
  *r = (image_resizer){0};
}

/* ---- bilinear: weights of 8 bits, so that a sum of two pixels fits 16 and of four fits 32 */

typedef struct {
  int32_t first;   /* the nearer to the origin of the two pixels; the other is the next one, or itself at the border */
  uint16_t weight; /* of the other, in 256ths */
  uint16_t step;   /* 1, or 0 at the border */
} tap;

/* taps [n] along a side of `from` pixels. */
static void make_taps(int from, int n, tap *taps) {
  double scale = (double)from / n;
  for (int i = 0; i < n; i++) {
    double at = (i + 0.5) * scale - 0.5;
    if (at < 0) at = 0;
    int first = (int)at, weight = (int)((at - first) * 256 + 0.5);
    if (weight == 256) {
      weight = 0;
      first++;
    }
    if (first >= from - 1) {
      first = from - 1;
      weight = 0;
    }
    taps[i] = (tap){first, (uint16_t)weight, first + 1 < from};
  }
}

/* The bytes of a word as four lanes of 16 bits: one multiplication then weighs a whole pixel. */
static inline uint64_t spread(uint32_t word) {
  uint64_t w = (word | (uint64_t)word << 16) & 0x0000ffff0000ffffu;
  return (w | w << 8) & 0x00ff00ff00ff00ffu;
}

static inline uint64_t load_pixel(const uint8_t *p) {
  uint32_t word;
  memcpy(&word, p, sizeof word);
  return spread(word);
}

/* from [from_width, 3] to out [width, 3], times 256. Reads one byte and writes one lane behind. */
static void stretch_colour(const uint8_t *from, const tap *taps, int width, uint16_t *out) {
  for (int x = 0; x < width; x++, out += 3) {
    const uint8_t *p = from + taps[x].first * 3;
    uint64_t w = taps[x].weight;
    uint64_t sum = load_pixel(p) * (256 - w) + load_pixel(p + taps[x].step * 3) * w;
    memcpy(out, &sum, sizeof sum);
  }
}

static void stretch_any(const uint8_t *from, const tap *taps, int width, int channels, uint16_t *out) {
  for (int x = 0; x < width; x++) {
    const uint8_t *p = from + (ptrdiff_t)taps[x].first * channels, *q = p + taps[x].step * channels;
    unsigned w = taps[x].weight;
    for (int c = 0; c < channels; c++) *out++ = (uint16_t)(p[c] * (256 - w) + q[c] * w);
  }
}

/* Two rows [n], times 256, to bytes. */
static void blend(const uint16_t *restrict a, const uint16_t *restrict b, unsigned weight, size_t n,
                  uint8_t *restrict out) {
  uint32_t wa = 256 - weight, wb = weight;
  for (size_t i = 0; i < n; i++) out[i] = (uint8_t)((a[i] * wa + b[i] * wb + 32768) >> 16);
}

static shoal_status bilinear(image_resizer *r, const uint8_t *from, int from_height, int from_width, int channels,
                             uint8_t *to, int height, int width) {
  size_t stride = (size_t)from_width * (size_t)channels, line = (size_t)width * (size_t)channels;
  size_t taps_bytes = mem_round_up((size_t)width * sizeof(tap), 64), row_bytes = mem_round_up(2 * line + 16, 64);
  size_t down_bytes = (size_t)height * sizeof(tap);
  TRY(mem_grow(&r->block, &r->capacity, taps_bytes + 2 * row_bytes + down_bytes, 1));
  tap *across = r->block, *down = (tap *)((char *)r->block + taps_bytes + 2 * row_bytes);
  uint16_t *rows[2];
  int held[2] = {-1, -1}; /* which row of `from` each holds */
  for (int i = 0; i < 2; i++) rows[i] = (uint16_t *)((char *)r->block + taps_bytes + (size_t)i * row_bytes);
  make_taps(from_width, width, across);
  make_taps(from_height, height, down);
  for (int y = 0; y < height; y++) {
    /* Row n is held in rows[n % 2]: the two that are needed never share a place. */
    for (int k = 0; k <= (down[y].weight ? 1 : 0); k++) {
      int row = down[y].first + k;
      if (held[row % 2] == row) continue;
      const uint8_t *source = from + (size_t)row * stride;
      if (channels == 3) stretch_colour(source, across, width, rows[row % 2]);
      else stretch_any(source, across, width, channels, rows[row % 2]);
      held[row % 2] = row;
    }
    const uint16_t *a = rows[down[y].first % 2], *b = down[y].weight ? rows[(down[y].first + 1) % 2] : a;
    blend(a, b, down[y].weight, line, to + (size_t)y * line);
  }
  return NULL;
}

/* ---- areas */

/* sums [n] += weight * row [n] */
static void add_row(const uint8_t *restrict row, float weight, size_t n, float *restrict sums) {
  for (size_t i = 0; i < n; i++) sums[i] += weight * (float)row[i];
}

static shoal_status areas(image_resizer *r, const uint8_t *from, int from_height, int from_width, int channels,
                          uint8_t *to, int height, int width) {
  size_t stride = (size_t)from_width * (size_t)channels;
  TRY(mem_grow(&r->block, &r->capacity, stride * sizeof(float), 1));
  float *sums = r->block; /* [from_width, channels]: the mean of the rows that a new row covers */
  double tall = (double)from_height / height, wide = (double)from_width / width;
  for (int y = 0; y < height; y++) {
    double top = y * tall, bottom = top + tall;
    memset(sums, 0, stride * sizeof *sums);
    for (int i = (int)top; i < from_height && i < bottom; i++)
      add_row(from + (size_t)i * stride, (float)((MIN_OF(bottom, i + 1) - MAX_OF(top, i)) / tall), stride, sums);
    for (int x = 0; x < width; x++) {
      double left = x * wide, right = left + wide;
      for (int c = 0; c < channels; c++) {
        float sum = 0;
        for (int j = (int)left; j < from_width && j < right; j++)
          sum += (float)(MIN_OF(right, j + 1) - MAX_OF(left, j)) * sums[(size_t)j * (size_t)channels + (size_t)c];
        *to++ = (uint8_t)MIN_OF(sum / (float)wide + 0.5f, 255.0f);
      }
    }
  }
  return NULL;
}

shoal_status image_resize(image_resizer *r, const uint8_t *from, int from_height, int from_width, int channels,
                          uint8_t *to, int height, int width) {
  if (from_height < 1 || from_width < 1 || channels < 1 || height < 1 || width < 1)
    return status_make(SHOAL_ERR_ARGUMENT, "a picture of %d x %d cannot be made from one of %d x %d", height, width,
                       from_height, from_width);
  if (from_height == height && from_width == width) {
    memcpy(to, from, (size_t)height * (size_t)width * (size_t)channels);
    return NULL;
  }
  bool shrinks = (int64_t)from_height > 2 * (int64_t)height || (int64_t)from_width > 2 * (int64_t)width;
  return shrinks ? areas(r, from, from_height, from_width, channels, to, height, width)
                 : bilinear(r, from, from_height, from_width, channels, to, height, width);
}
