/* Images in tf.train.Examples under whatever names: encoded, or as raw bytes with or without their size. */
#ifndef SHOAL_DATA_EXAMPLE_IMAGE_H
#define SHOAL_DATA_EXAMPLE_IMAGE_H

#include "data/example.h"
#include "shoal/tensor.h"

/* The features that hold an image and its class: a list of one bytes element, and one number called like a label (no
 * name: there is none). False: there is no image, or more than one thing that might be it. Both borrow the record. */
bool example_find_image(const uint8_t *record, size_t n, example_feature *image, example_feature *label);

/* What raw bytes are, `length` of them: [height, width, channels] by the features called so (height, rows,
 * image/height ...; channels or depth may be missing), or a square of 1 or 3 channels, or else [length].
 * False: the features say another size; *out is that. */
bool example_image_shape(const uint8_t *record, size_t n, int64_t length, shoal_shape *out);

#endif
