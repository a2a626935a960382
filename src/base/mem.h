/* Memory: aligned blocks for numbers, overflow-checked arrays for everything else. */
#ifndef SHOAL_BASE_MEM_H
#define SHOAL_BASE_MEM_H

#include "base/status.h"

#include <stddef.h>
#include <stdlib.h>

#define MEM_ALIGN 64 /* one cache line, one AVX-512 register */

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))
#define MIN_OF(a, b) ((a) < (b) ? (a) : (b))
#define MAX_OF(a, b) ((a) > (b) ? (a) : (b))

static inline size_t mem_round_up(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

/* MEM_ALIGN-aligned and zeroed; free() releases it. *out is set only on success. bytes 0 gives a valid block. */
SHOAL_CHECKED shoal_status mem_aligned(size_t bytes, void **out);

/* Grows *array (of elements of `size` bytes, *capacity of them) so that it holds `need`. The new part is zeroed. */
SHOAL_CHECKED shoal_status mem_grow(void **array, size_t *capacity, size_t need, size_t size);

#endif
