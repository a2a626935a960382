/* The LSTM a step at a time (lstm.inc.h), compiled for three instruction sets. */
#ifndef SHOAL_KERNEL_LSTM_H
#define SHOAL_KERNEL_LSTM_H

#include "kernel/gemm.h"
#include "kernel/kernel.h"

#define LSTM_KERNELS(isa)                             \
  shoal_status lstm_steps_##isa(const kernel_call *); \
  shoal_status lstm_steps_grad_##isa(const kernel_call *);

EACH_ISA(LSTM_KERNELS)

/* Scratch bytes: the panels of u, or of its transpose, and what enters the gates. */
static inline size_t lstm_steps_scratch(int64_t rows, int64_t units) {
  const int64_t wide = units + GEMM_COLUMNS_MAX;
  return (size_t)(4 * units * wide + 4 * units * GEMM_COLUMNS_MAX + 4 * rows * units) * sizeof(float);
}

#endif
