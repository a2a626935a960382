#include "base/mem.h"

#include <stdint.h>
#include <string.h>

shoal_status mem_aligned(size_t bytes, void **out) {
  if (bytes > SIZE_MAX - MEM_ALIGN) return status_no_memory();
  size_t rounded = mem_round_up(bytes ? bytes : 1, MEM_ALIGN);
  void *block = aligned_alloc(MEM_ALIGN, rounded);
  if (!block)
    return status_make(SHOAL_ERR_SYSTEM, "out of memory: %zu bytes (%.1f MB) are not to be had", bytes,
                       (double)bytes / 1e6);
  memset(block, 0, rounded);
  *out = block;
  return NULL;
}

shoal_status mem_grow(void **array, size_t *capacity, size_t need, size_t size) {
  if (need <= *capacity) return NULL;
  size_t wanted = *capacity ? *capacity : 8;
  while (wanted < need) {
    if (wanted > SIZE_MAX / 2) return status_no_memory();
    wanted *= 2;
  }
  if (wanted > SIZE_MAX / size) return status_no_memory();
  void *grown = realloc(*array, wanted * size);
  if (!grown) return status_no_memory();
  memset((char *)grown + *capacity * size, 0, (wanted - *capacity) * size);
  *array = grown;
  *capacity = wanted;
  return NULL;
}
