/* Decoders of single image formats, behind image_decode. */
#ifndef SHOAL_DATA_IMAGE_CODECS_H
#define SHOAL_DATA_IMAGE_CODECS_H

#include "data/image.h"

/* INPUT error unless a picture of that size can be held, and can come from n bytes that stand for at most `ratio` pixels
 * each. */
SHOAL_CHECKED shoal_status image_check_size(uint64_t height, uint64_t width, size_t n, int ratio);
static inline uint8_t image_gray(unsigned red, unsigned green, unsigned blue) {
  return (uint8_t)((77 * red + 150 * green + 29 * blue + 128) >> 8);
}

/* Windows bitmaps of 1, 4, 8, 16, 24 or 32 bits a pixel, not run-length encoded; what is transparent shows anyway. */
bool image_is_bmp(const uint8_t *bytes, size_t n);
SHOAL_CHECKED shoal_status image_decode_bmp(const uint8_t *bytes, size_t n, int channels, image *out);

/* WebP, where Shoal was built with it; otherwise an INPUT error that says so. Of an animation, the first picture. */
bool image_is_webp(const uint8_t *bytes, size_t n);
SHOAL_CHECKED shoal_status image_decode_webp(const uint8_t *bytes, size_t n, int channels, image *out);

#endif
