/* Memory: aligned blocks for numbers, overflow-checked arrays for everything else. */
#ifndef SHOAL_BASE_MEM_H
#define SHOAL_BASE_MEM_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define MEM_ALIGN 64 /* one cache line, one AVX-512 register */

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))
#define MIN_OF(a, b) ((a) < (b) ? (a) : (b))
#define MAX_OF(a, b) ((a) > (b) ? (a) : (b))

/* Sums and products of sizes that stay at SIZE_MAX, which no allocation gives, instead of wrapping. */
static inline size_t mem_plus(size_t a, size_t b) {
  size_t sum;
  return __builtin_add_overflow(a, b, &sum) ? SIZE_MAX : sum;
}
static inline size_t mem_times(size_t a, size_t b) {
  size_t product;
  return __builtin_mul_overflow(a, b, &product) ? SIZE_MAX : product;
}
static inline size_t mem_round_up(size_t bytes, size_t to) {
  return bytes > SIZE_MAX - (to - 1) ? SIZE_MAX : (bytes + to - 1) / to * to;
}

/* MEM_ALIGN-aligned and zeroed; free() releases it. *out is set only on success. bytes 0 gives a valid block. */
SHOAL_CHECKED shoal_status mem_aligned(size_t bytes, void **out);

/* Zeroed pages that take no memory before they are written; *out is set only on success. */
SHOAL_CHECKED shoal_status mem_reserve(size_t bytes, void **out);
void mem_unreserve(void *block, size_t bytes);
/* Gives the whole pages of this part of a block back to the system: they are zero when they are read next. */
void mem_forget(void *block, size_t bytes);

/* So many bytes are about to be allocated in small pieces, which are visited in any order: the heap grows by as much at once,
 * in huge pages where there are such. Only advice; what is freed later stays with the process. */
void mem_heap_ahead(size_t bytes);

/* What one user may take of a process that serves several: `limit` bytes, 0: no limit. Used by one thread at a time. */
typedef struct {
  size_t limit, used;
} mem_budget;

/* Before `bytes` are allocated for `what`; b NULL: nobody counts. mem_refund takes back what was charged. */
SHOAL_CHECKED shoal_status mem_charge(mem_budget *b, size_t bytes, const char *what);
void mem_refund(mem_budget *b, size_t bytes);

/* Grows *array (of elements of `size` bytes, *capacity of them) so that it holds `need`. The new part is zeroed. */
SHOAL_CHECKED shoal_status mem_grow(void **array, size_t *capacity, size_t need, size_t size);

#endif
