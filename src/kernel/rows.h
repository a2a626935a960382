/* Kernels on ROWS for what lies between the products: functions of one number, sums along the last axis, batch
 * normalisation; each compiled for three instruction sets. */
#ifndef SHOAL_KERNEL_ROWS_H
#define SHOAL_KERNEL_ROWS_H

#include "kernel/kernel.h"

/* All as the operators of these names; softmax and normalize along the last axis. */
#define ROWS_KERNELS(isa)                                      \
  shoal_status rows_relu_##isa(const kernel_call *);           \
  shoal_status rows_relu_grad_##isa(const kernel_call *);      \
  shoal_status rows_gelu_##isa(const kernel_call *);           \
  shoal_status rows_gelu_grad_##isa(const kernel_call *);      \
  shoal_status rows_scale_##isa(const kernel_call *);          \
  shoal_status rows_add_##isa(const kernel_call *);            \
  shoal_status rows_mul_##isa(const kernel_call *);            \
  shoal_status rows_bias_add_##isa(const kernel_call *);       \
  shoal_status rows_bias_sum_##isa(const kernel_call *);       \
  shoal_status rows_softmax_##isa(const kernel_call *);        \
  shoal_status rows_softmax_grad_##isa(const kernel_call *);   \
  shoal_status rows_normalize_##isa(const kernel_call *);      \
  shoal_status rows_normalize_grad_##isa(const kernel_call *); \
  shoal_status rows_batch_norm_##isa(const kernel_call *);     \
  shoal_status rows_batch_norm_grad_##isa(const kernel_call *);

/* Scratch bytes of the batch norms. */
static inline size_t norm_scratch(int64_t channels) {
  return (size_t)channels * (2 * sizeof(double) + 3 * sizeof(float));
}

EACH_ISA(ROWS_KERNELS)

#endif
