/* Kernels on the LANES layout, and the kernels around them, each compiled for several instruction sets. */
#ifndef SHOAL_KERNEL_LANES_H
#define SHOAL_KERNEL_LANES_H

#include "kernel/kernel.h"

typedef enum { ACT_LINEAR, ACT_RELU, ACT_TANH, ACT_SIGMOID } activation;
typedef enum { POOL_NONE, POOL_MAX, POOL_AVG } pooling; /* POOL_MAX, POOL_AVG: 2 x 2 windows, stride 2 */

/* Attributes of the convolutions, in the order of their rows; the last two only where a block is fused. */
enum {
  CONV_STRIDE_H,
  CONV_STRIDE_W,
  CONV_PAD_TOP,
  CONV_PAD_LEFT,
  CONV_PAD_BOTTOM,
  CONV_PAD_RIGHT,
  CONV_ACT,
  CONV_POOL
};

/* The same places in the rows of convolutions that are not fused. */
enum { CONV_DILATION_H = CONV_ACT, CONV_DILATION_W = CONV_POOL, CONV_GROUPS };
/* What the kernels below can do: taps side by side, one group of channels. */
static inline bool conv_plain(const attr_value *attr) {
  return attr[CONV_DILATION_H].i == 1 && attr[CONV_DILATION_W].i == 1 && attr[CONV_GROUPS].i == 1;
}

/* Attributes of the pools, in the order of their rows. */
enum {
  POOL_SIZE_H,
  POOL_SIZE_W,
  POOL_STRIDE_H,
  POOL_STRIDE_W,
  POOL_PAD_TOP,
  POOL_PAD_LEFT,
  POOL_PAD_BOTTOM,
  POOL_PAD_RIGHT
};

/* One line a kernel: inputs -> outputs. L marks LANES.
 *   pack_lanes            x f32 or u8 (rows followed; scaled by attr 0 if u8) -> L
 *   unpack_lanes          L -> rows
 *   conv_block            L x, w, bias -> L y, L aux (POOL_MAX: winners as bytes; POOL_AVG: activations; else unused)
 *   conv_block_grad_w     L x, L dy, L y, L aux -> dw, db
 *   conv_block_grad_x     L dy, w, (shape of x), L y, L aux -> L dx
 *   conv2d, conv2d_grad_x, conv2d_grad_w     as the operators, L for all but w
 *   winograd_conv ...     the same for many channels: winograd.inc.h
 *   dense_block           L x, w [in, out], bias -> L act(x w + bias)
 *   matmul                L x, w -> L x w or x w^T
 *   matmul_sum            L x, L d -> x^T d
 *   wide_*                the three products of a dense layer whose weights fit no cache: wide.inc.h
 *   max_pool, max_pool_grad   as the operators, L
 *   rows_matmul           the whole product of two matrices in rows
 *   bias_sum              L d -> sum over all but the last axis
 *   act_*                 elementwise
 *   xent                  L logits, labels, dloss [n] -> loss [n], L dlogits
 *   top_1                 L logits, labels -> f32 [n]
 *   compress_rows, skip_*, xent_rows: see skip.inc.h */
#define LANES_KERNELS(isa)                                         \
  shoal_status lanes_pack_##isa(const kernel_call *);              \
  shoal_status lanes_unpack_##isa(const kernel_call *);            \
  shoal_status lanes_conv_block_##isa(const kernel_call *);        \
  shoal_status lanes_conv_block_grad_w_##isa(const kernel_call *); \
  shoal_status lanes_conv_block_grad_x_##isa(const kernel_call *); \
  shoal_status lanes_conv_##isa(const kernel_call *);              \
  shoal_status lanes_conv_grad_x_##isa(const kernel_call *);       \
  shoal_status lanes_conv_grad_w_##isa(const kernel_call *);       \
  shoal_status winograd_conv_##isa(const kernel_call *);           \
  shoal_status winograd_conv_block_##isa(const kernel_call *);     \
  shoal_status winograd_conv_grad_x_##isa(const kernel_call *);    \
  shoal_status winograd_conv_grad_w_##isa(const kernel_call *);    \
  shoal_status lanes_dense_##isa(const kernel_call *);             \
  shoal_status lanes_matmul_##isa(const kernel_call *);            \
  shoal_status lanes_max_pool_##isa(const kernel_call *);          \
  shoal_status lanes_max_pool_grad_##isa(const kernel_call *);     \
  shoal_status wide_dense_##isa(const kernel_call *);              \
  shoal_status wide_matmul_back_##isa(const kernel_call *);        \
  shoal_status wide_matmul_sum_##isa(const kernel_call *);         \
  shoal_status lanes_matmul_sum_##isa(const kernel_call *);        \
  shoal_status rows_matmul_##isa(const kernel_call *);             \
  shoal_status lanes_bias_sum_##isa(const kernel_call *);          \
  shoal_status lanes_bias_add_##isa(const kernel_call *);          \
  shoal_status lanes_relu_##isa(const kernel_call *);              \
  shoal_status lanes_tanh_##isa(const kernel_call *);              \
  shoal_status lanes_sigmoid_##isa(const kernel_call *);           \
  shoal_status lanes_relu_grad_##isa(const kernel_call *);         \
  shoal_status lanes_tanh_grad_##isa(const kernel_call *);         \
  shoal_status lanes_sigmoid_grad_##isa(const kernel_call *);      \
  shoal_status lanes_xent_##isa(const kernel_call *);              \
  shoal_status lanes_top_1_##isa(const kernel_call *);

EACH_ISA(LANES_KERNELS)

/* Scratch bytes, from concrete shapes. */
size_t lanes_conv_scratch(const shoal_shape *x, const shoal_shape *w, const attr_value *attr);
size_t lanes_conv_grad_scratch(const shoal_shape *x, const shoal_shape *w, const attr_value *attr);
size_t lanes_matmul_sum_scratch(int64_t out_features, int64_t rows);

#endif
