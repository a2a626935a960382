#include "data/image_resize.h"

#include "base/mem.h"

#include <math.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

void image_resizer_fini(image_resizer *r) {
  free(r->block);
  *r = (image_resizer){0};
}

/* ---- bilinear: weights of 7 bits, so that everything stays in 16 bits, eight numbers to the smallest vector */

enum { ONE = 128 };

typedef struct {
  int32_t first;  /* the nearer to the origin of the two pixels */
  int32_t weight; /* of the next one, in 128ths; 0 where there is none */
} tap;

/* taps [n] along a side of `from` pixels. */
static void make_taps(int from, int n, tap *taps) {
  double scale = (double)from / n;
  for (int i = 0; i < n; i++) {
    double at = fmin(fmax((i + 0.5) * scale - 0.5, 0), from - 1);
    int first = (int)at, weight = (int)((at - first) * ONE + 0.5);
    if (weight == ONE) {
      weight = 0;
      first++;
    }
    taps[i] = (tap){first, weight};
  }
}

typedef int16_t words8 __attribute__((vector_size(16)));

/* from [from_width, 3] to out [width, 3], times 128. Both pixels are loaded and weighed at once; reads up to 8 bytes
 * and writes one word behind. weights [width]: three times that of the first, three times that of the second, 0, 0. */
static void stretch_colour(const uint8_t *from, const tap *taps, const words8 *weights, int width, int16_t *out) {
#ifdef __SSE2__
  const __m128i zero = _mm_setzero_si128();
  for (int x = 0; x < width; x++, out += 3) {
    __m128i both = _mm_loadl_epi64((const __m128i *)(from + (ptrdiff_t)taps[x].first * 3));
    __m128i parts = _mm_mullo_epi16(_mm_unpacklo_epi8(both, zero), (__m128i)weights[x]);
    _mm_storel_epi64((__m128i *)out, _mm_add_epi16(parts, _mm_srli_si128(parts, 6)));
  }
#else
  for (int x = 0; x < width; x++) {
    const uint8_t *p = from + (ptrdiff_t)taps[x].first * 3;
    for (int c = 0; c < 3; c++) *out++ = (int16_t)(p[c] * weights[x][0] + p[c + 3] * weights[x][3]);
  }
#endif
}

static void stretch_any(const uint8_t *from, const tap *taps, int width, int channels, int16_t *out) {
  for (int x = 0; x < width; x++) {
    const uint8_t *p = from + (ptrdiff_t)taps[x].first * channels;
    int w = taps[x].weight, next = w ? channels : 0;
    for (int c = 0; c < channels; c++) *out++ = (int16_t)(p[c] * (ONE - w) + p[c + next] * w);
  }
}

/* Two rows [n], times 128, to bytes. */
static void blend(const int16_t *restrict a, const int16_t *restrict b, int weight, size_t n, uint8_t *restrict out) {
  size_t i = 0;
#ifdef __SSE2__
  const __m128i part = _mm_set1_epi16((int16_t)(weight << 8)), half = _mm_set1_epi16(ONE / 2);
  for (; i + 16 <= n; i += 16) {
    __m128i sum[2];
    for (size_t k = 0; k < 2; k++) {
      __m128i p = _mm_loadu_si128((const __m128i *)(a + i + 8 * k));
      __m128i q = _mm_loadu_si128((const __m128i *)(b + i + 8 * k));
      __m128i more = _mm_mulhi_epi16(_mm_sub_epi16(q, p), part); /* half of what b's weight adds */
      sum[k] = _mm_srli_epi16(_mm_add_epi16(_mm_add_epi16(p, half), _mm_add_epi16(more, more)), 7);
    }
    _mm_storeu_si128((__m128i *)(out + i), _mm_packus_epi16(sum[0], sum[1]));
  }
#endif
  for (; i < n; i++) {
    int more = ((b[i] - a[i]) * (weight << 8)) >> 16;
    out[i] = (uint8_t)((a[i] + 2 * more + ONE / 2) / ONE);
  }
}

static shoal_status bilinear(image_resizer *r, const uint8_t *from, int from_height, int from_width, int channels,
                             uint8_t *to, int height, int width) {
  size_t stride = (size_t)from_width * (size_t)channels, line = (size_t)width * (size_t)channels;
  size_t taps_bytes = mem_round_up((size_t)(width + height) * sizeof(tap), 64);
  size_t weights_bytes = mem_round_up((size_t)width * sizeof(words8), 64), row_bytes = mem_round_up(2 * line + 16, 64);
  TRY(mem_grow(&r->block, &r->capacity, weights_bytes + taps_bytes + 2 * row_bytes, 1));
  words8 *weights = r->block;
  tap *across = (tap *)((char *)r->block + weights_bytes), *down = across + width;
  int16_t *rows[2];
  int held[2] = {-1, -1}; /* which row of `from` each holds */
  for (int i = 0; i < 2; i++)
    rows[i] = (int16_t *)((char *)r->block + weights_bytes + taps_bytes + (size_t)i * row_bytes);
  make_taps(from_width, width, across);
  make_taps(from_height, height, down);
  for (int x = 0; channels == 3 && x < width; x++) {
    int16_t second = (int16_t)across[x].weight, first = (int16_t)(ONE - second);
    weights[x] = (words8){first, first, first, second, second, second, 0, 0};
  }
  for (int y = 0; y < height; y++) {
    /* Row n is held in rows[n % 2]: the two that are needed never share a place. */
    for (int k = 0; k <= (down[y].weight ? 1 : 0); k++) {
      int row = down[y].first + k;
      if (held[row % 2] == row) continue;
      const uint8_t *source = from + (size_t)row * stride;
      if (channels == 3)
        stretch_colour(source, across, weights, width, rows[row % 2]);
      else
        stretch_any(source, across, width, channels, rows[row % 2]);
      held[row % 2] = row;
    }
    const int16_t *a = rows[down[y].first % 2], *b = down[y].weight ? rows[(down[y].first + 1) % 2] : a;
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
