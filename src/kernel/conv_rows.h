/* Convolutions in rows as products of whole matrices (conv_rows.inc.h): what operators need of them. */
#ifndef SHOAL_KERNEL_CONV_ROWS_H
#define SHOAL_KERNEL_CONV_ROWS_H

#include "kernel/kernel.h"

#define CONV_ROWS_KERNELS(isa)                              \
  shoal_status conv_rows_##isa(const kernel_call *);        \
  shoal_status conv_rows_grad_x_##isa(const kernel_call *); \
  shoal_status conv_rows_grad_w_##isa(const kernel_call *);

EACH_ISA(CONV_ROWS_KERNELS)

/* Whether the three should be used for images x and filters w; dy is what the convolution gives. */
bool conv_rows_fits(const shoal_shape *x, const shoal_shape *w, const shoal_shape *dy, const attr_value *attr);
/* Scratch bytes. */
size_t conv_rows_scratch(const shoal_shape *w);
size_t conv_rows_grad_x_scratch(const shoal_shape *x, const shoal_shape *w, const attr_value *attr);
size_t conv_rows_grad_w_scratch(const shoal_shape *w, const shoal_shape *dy);

#endif
