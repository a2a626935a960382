/* Products with images that are mostly zero: only the non-zero bytes of a row are visited.
 *
 * A compressed row is LIST_BYTES(f) bytes: a count, the positions of the non-zero bytes, and their values as numbers.
 * The count is a multiple of 4; positions of value 0 fill it up. */
#ifndef SHOAL_KERNEL_SKIP_H
#define SHOAL_KERNEL_SKIP_H

#include "kernel/kernel.h"

#define SKIP_FEATURES_MAX 65535
#define SKIP_CLASSES_MAX 16

#define LIST_HEAD 64 /* the count, then room: positions start on a cache line */
#define LIST_ROOM 64 /* entries by which vectors may be stored past the end */
#define LIST_BYTES(f) ((LIST_HEAD + 6 * ((int64_t)(f) + LIST_ROOM) + 63) / 64 * 64)

static inline uint32_t *list_count(void *list) { return list; }
static inline uint16_t *list_positions(void *list) { return (uint16_t *)((char *)list + LIST_HEAD); }
static inline float *list_values(void *list, int64_t f) {
  return (float *)((char *)list + LIST_HEAD + 2 * (f + (f & 1) + LIST_ROOM));
}

/*   skip_compress  x u8 [n, ...] (rows followed); scale -> lists u8 [n, LIST_BYTES]
 *   skip_matmul    lists, w [f, k], bias [k] -> [n, k]
 *   skip_sum       lists, d [n, k] -> [f, k], the sum over the batch of x^T d
 *   skip_sgd       w, lists, d, rate -> w - rate x^T d, in place
 *   xent_rows      logits [n, k], labels, dloss [n] -> loss [n], dlogits [n, k], k at most SKIP_CLASSES_MAX */
#define SKIP_KERNELS(isa)                                \
  shoal_status skip_compress_##isa(const kernel_call *); \
  shoal_status skip_matmul_##isa(const kernel_call *);   \
  shoal_status skip_sum_##isa(const kernel_call *);      \
  shoal_status skip_sgd_##isa(const kernel_call *);      \
  shoal_status xent_rows_##isa(const kernel_call *);

EACH_ISA(SKIP_KERNELS)

#endif
