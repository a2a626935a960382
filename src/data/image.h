/* One gray picture from a file, as a batch of one. */
#ifndef SHOAL_DATA_IMAGE_H
#define SHOAL_DATA_IMAGE_H

#include "base/status.h"
#include "shoal/tensor.h"

/* *out becomes u8 [1, height, width, 1], the caller's. The file, told by its content, is either
 *   a PNG of any colour type, depth and size: made gray, what is transparent shows black (the ground of MNIST), and
 *   averaged over areas (stretched) to height x width;
 *   or exactly height * width raw bytes, row by row. */
SHOAL_CHECKED shoal_status image_read_gray(const char *path, int height, int width, shoal_tensor *out);

#endif
