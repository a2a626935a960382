/* What the products of whole matrices (gemm.inc.h) need, for any instruction set. */
#ifndef SHOAL_KERNEL_GEMM_H
#define SHOAL_KERNEL_GEMM_H

#include "base/mem.h"

#include <stdint.h>

#define GEMM_DEPTH 512 /* of a panel */
#define GEMM_SPAN 2048 /* rows of A, columns of B that are panels at a time */
#define GEMM_ROWS_MAX 16
#define GEMM_COLUMNS_MAX 32

/* Room for the panels of `count` rows or columns, the last of them perhaps not full. */
static inline int64_t gemm_panel_floats(int64_t count, int64_t depth) {
  return (MIN_OF(count, (int64_t)GEMM_SPAN) + GEMM_COLUMNS_MAX) * MIN_OF(depth, (int64_t)GEMM_DEPTH);
}

/* Bytes of scratch for C [m, n] = A [m, k] B [k, n]. */
static inline size_t gemm_scratch(int64_t m, int64_t n, int64_t k) {
  return (size_t)(gemm_panel_floats(m, k) + gemm_panel_floats(n, k)) * sizeof(float);
}

#endif
