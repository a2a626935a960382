/* One of the images that shoal_generate_images makes. */
#ifndef SHOAL_DATA_GENERATE_IMAGES_H
#define SHOAL_DATA_GENERATE_IMAGES_H

#include "shoal/data.h"

/* pixels [height, width, channels] of row i, which depends on the seed and i alone. */
void generate_image(const shoal_images_options *options, int64_t i, uint8_t *pixels);

#endif
