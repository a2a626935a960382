/* Any bytes at all, as an image: pixels that can all be read, or an INPUT error; and the decoder stays good. */
#ifndef SHOAL_TESTS_FUZZ_IMAGE_TARGET_H
#define SHOAL_TESTS_FUZZ_IMAGE_TARGET_H

#include "data/image.h"
#include "data/image_resize.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static inline void image_target(const uint8_t *bytes, size_t n) {
  static const struct { int channels, least; } ways[] = {{3, 0}, {1, 0}, {3, 5}};
  image_decoder *d;
  image_resizer resizer = {0};
  image out = {0};
  if (image_decoder_create(&d)) abort();
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    shoal_status status = image_decode(d, bytes, n, ways[i].channels, ways[i].least, ways[i].least, &out);
    if (!status) {
      uint8_t small[7 * 5 * 3];
      unsigned sum = 0;
      size_t pixels = (size_t)out.height * (size_t)out.width * (size_t)out.channels;
      for (size_t k = 0; k < pixels; k++) sum += out.pixels[k];
      __asm__ volatile("" : : "r"(sum)); /* every pixel was read */
      status = image_resize(&resizer, out.pixels, out.height, out.width, out.channels, small, 7, 5);
      if (status) __builtin_trap();
    } else if (shoal_status_code(status) != SHOAL_ERR_INPUT) {
      __builtin_trap();
    }
    shoal_status_free(status);
  }
  image_fini(&out);
  image_resizer_fini(&resizer);
  image_decoder_destroy(d);
}

#endif
