/* Changing the size of a picture of bytes [height, width, channels]. */
#ifndef SHOAL_DATA_IMAGE_RESIZE_H
#define SHOAL_DATA_IMAGE_RESIZE_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Memory that is kept from one picture to the next. Zero-initialise; image_resizer_fini when done. */
typedef struct {
  void *block;
  size_t capacity;
} image_resizer;

void image_resizer_fini(image_resizer *r);

/* Stretches from [from_height, from_width, channels] to to [height, width, channels]. Bilinear between the middles of
 * pixels; where a side shrinks by more than 2, each new pixel is the mean of the area it covers instead, so that no old
 * pixel is left out. 16 bytes behind `from` may be read (they mean nothing). */
SHOAL_CHECKED shoal_status image_resize(image_resizer *r, const uint8_t *from, int from_height, int from_width,
                                        int channels, uint8_t *to, int height, int width);

#endif
