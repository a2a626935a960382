/* Convolutions by Winograd's minimal filtering (winograd.inc.h): which they are, and the memory they need. */
#ifndef SHOAL_KERNEL_WINOGRAD_H
#define SHOAL_KERNEL_WINOGRAD_H

#include "kernel/lanes.h"

enum {
  WINO_SIDE = 6,    /* of a tile of inputs: six points */
  WINO_POINTS = 36, /* frequencies */
  WINO_PACK = 6,    /* filters side by side in the transformed ones: broadcast one after another */
  WINO_GROUP = 16,  /* tiles carried through at a time: with them filters are read again and again ... */
  WINO_FEW = 256    /* ... which does not matter up to so many channels; then four tiles, to stay in the cache */
};

/* x, w and attributes as in conv2d. Worth it: square filters that are 2 to 5 wide once a stride is taken away, enough
 * channels on both sides. `image`: for the gradient of the image, which needs stride 1. */
bool winograd_fits(const shoal_shape *x, const shoal_shape *w, const attr_value *attr, bool image);
/* Scratch bytes of the convolution, of the gradient of the image, of the gradient of the filter. */
size_t winograd_scratch(const shoal_shape *x, const shoal_shape *w, const attr_value *attr);
size_t winograd_grad_x_scratch(const shoal_shape *x, const shoal_shape *w, const attr_value *attr);
size_t winograd_grad_w_scratch(const shoal_shape *x, const shoal_shape *w, const attr_value *attr);

#endif
