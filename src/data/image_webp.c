#include "base/build_config.h" /* made by Meson */
#include "base/mem.h"
#include "data/image_codecs.h"

#include <string.h>

bool image_is_webp(const uint8_t *bytes, size_t n) {
  return n >= 12 && !memcmp(bytes, "RIFF", 4) && !memcmp(bytes + 8, "WEBP", 4);
}

#ifdef SHOAL_WEBP
#include <webp/decode.h>

#define RATIO (1 << 20) /* pixels a byte can stand for: of one colour, nearly any number */

static shoal_status corrupted(void) {
  return status_make(SHOAL_ERR_INPUT,
                     "the WebP is corrupted or cut short, or an animation: download it again, or save it "
                     "as PNG");
}

/* Red, green and blue to gray, in place: what is overwritten has been read. */
static void to_gray(image *i) {
  const uint8_t *p = i->pixels;
  size_t n = (size_t)i->height * (size_t)i->width;
  for (size_t k = 0; k < n; k++, p += 3) i->pixels[k] = image_gray(p[0], p[1], p[2]);
  i->channels = 1;
}

/* What is transparent shows black. from: [height, width, 4] */
static void on_black(const uint8_t *from, image *to) {
  size_t n = (size_t)to->height * (size_t)to->width;
  uint8_t *out = to->pixels;
  for (size_t k = 0; k < n; k++, from += 4)
    for (int c = 0; c < 3; c++) *out++ = (uint8_t)((from[c] * from[3] + 127) / 255);
}

shoal_status image_decode_webp(const uint8_t *bytes, size_t n, int channels, image *out) {
  WebPBitstreamFeatures features;
  if (WebPGetFeatures(bytes, n, &features) != VP8_STATUS_OK || features.has_animation) return corrupted();
  TRY(image_check_size((uint64_t)features.height, (uint64_t)features.width, n, RATIO));
  TRY(image_reshape(out, features.height, features.width, 3));
  size_t pixels = (size_t)features.height * (size_t)features.width;
  bool good;
  if (features.has_alpha) {
    uint8_t *four = malloc(pixels * 4);
    if (!four) return status_no_memory();
    good = WebPDecodeRGBAInto(bytes, n, four, pixels * 4, features.width * 4);
    if (good) on_black(four, out);
    free(four);
  } else {
    good = WebPDecodeRGBInto(bytes, n, out->pixels, pixels * 3, features.width * 3);
  }
  if (!good) return corrupted();
  if (channels == 1) to_gray(out);
  return NULL;
}

#else

shoal_status image_decode_webp(const uint8_t *bytes, size_t n, int channels, image *out) {
  return status_make(SHOAL_ERR_INPUT,
                     "the image is a WebP, which this build of Shoal does not read: build it with "
                     "libwebp, or save the image as PNG");
}

#endif
