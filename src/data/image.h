/* Pictures: JPEG, PNG, BMP and WebP, told by their content, decoded from memory; and one gray picture from a file. */
#ifndef SHOAL_DATA_IMAGE_H
#define SHOAL_DATA_IMAGE_H

#include "base/status.h"
#include "shoal/tensor.h"

#define IMAGE_PIXELS_MAX (64 << 20) /* of a picture that is decoded: 64 MB as gray */

/* Do these bytes, IMAGE_HEAD of them or all there are, open one? */
enum { IMAGE_HEAD = 18 };
bool image_is_known(const uint8_t *bytes, size_t n);

/* A picture in memory that is kept and used again. Zero-initialise; image_fini when done. */
typedef struct {
  uint8_t *pixels; /* [height, width, channels]; IMAGE_SLACK bytes behind them may be read */
  size_t capacity;
  int height, width, channels;
} image;

enum { IMAGE_SLACK = 16 };

/* Sets the size and makes room; what it held is lost. */
SHOAL_CHECKED shoal_status image_reshape(image *i, int height, int width, int channels);
void image_fini(image *i);

typedef struct image_decoder image_decoder; /* the codecs' state, for one thread at a time */

SHOAL_CHECKED shoal_status image_decoder_create(image_decoder **out);
void image_decoder_destroy(image_decoder *d); /* NULL is fine */

/* n bytes of such a picture become `out` with 1 (gray) or 3 (red, green, blue) channels; what is transparent shows
 * black. least_height, least_width: when both are above 0, a JPEG is decoded at a half, a quarter or an eighth of its
 * size as long as the result is at least that large in both directions, since whoever shrinks it need not have more.
 * A picture that is damaged, cut short, too large or something else: INPUT error that says what and where. */
SHOAL_CHECKED shoal_status image_decode(image_decoder *d, const uint8_t *bytes, size_t n, int channels,
                                        int least_height, int least_width, image *out);

/* *out becomes u8 [1, height, width, 1], the caller's. The file, told by its content, is either
 *   a PNG (of any colour type, depth and size), JPEG, BMP or WebP: made gray, what is transparent shows black (the ground of
 *   MNIST), and averaged over areas (stretched) to height x width;
 *   or exactly height * width raw bytes, row by row. */
SHOAL_CHECKED shoal_status image_read_gray(const char *path, int height, int width, shoal_tensor *out);

#endif
