#include "base/mem.h"

#include <limits.h>
#include <malloc.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Blocks from here on ask for huge pages: their rows are visited in random order or many at a time, and each visit to
 * an ordinary page costs a walk through the page table. */
#define HUGE_BLOCK (4u << 20)
#define HUGE_PAGE (2u << 20)
#define HEAP_BLOCK (120 << 10)   /* the most that glibc surely takes from its heap, and more than it has left there */
#define HEAP_TOP_PAD (128 << 10) /* glibc's own */

shoal_status mem_aligned(size_t bytes, void **out) {
  const size_t align = bytes >= HUGE_BLOCK ? HUGE_PAGE : MEM_ALIGN;
  if (bytes > SIZE_MAX - align) return status_no_memory();
  size_t rounded = mem_round_up(bytes ? bytes : 1, MEM_ALIGN);
  void *block = aligned_alloc(align, mem_round_up(rounded, align));
  if (!block)
    return status_make(SHOAL_ERR_SYSTEM, "out of memory: %zu bytes (%.1f MB) cannot be allocated", bytes,
                       (double)bytes / 1e6);
  if (align == HUGE_PAGE) madvise(block, rounded, MADV_HUGEPAGE); /* only advice: failing does no harm */
  memset(block, 0, rounded);
  *out = block;
  return NULL;
}

shoal_status mem_reserve(size_t bytes, void **out) {
  void *block = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (block == MAP_FAILED)
    return status_make(SHOAL_ERR_SYSTEM, "out of memory: %zu bytes (%.1f MB) cannot be reserved", bytes,
                       (double)bytes / 1e6);
  if (bytes >= HUGE_BLOCK) madvise(block, bytes, MADV_HUGEPAGE);
  *out = block;
  return NULL;
}

void mem_unreserve(void *block, size_t bytes) {
  if (block) munmap(block, bytes);
}

void mem_forget(void *block, size_t bytes) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  const uintptr_t first = ((uintptr_t)block + page - 1) / page * page, last = ((uintptr_t)block + bytes) / page * page;
  if (first < last) madvise((void *)first, last - first, MADV_DONTNEED);
}

void mem_heap_ahead(size_t bytes) {
#ifdef __GLIBC__
  const int most = (int)MIN_OF(bytes, (size_t)INT_MAX / 2);
  mallopt(M_TRIM_THRESHOLD, 2 * most); /* it is not given back before it was used */
  mallopt(M_TOP_PAD, most);
  const char *before = sbrk(0);
  void *volatile block = malloc(HEAP_BLOCK); /* volatile: otherwise the compiler leaves it out */
  const char *after = sbrk(0);
  free(block);
  mallopt(M_TOP_PAD, HEAP_TOP_PAD);
  const uintptr_t first = ((uintptr_t)before + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
  if ((uintptr_t)after > first) madvise((void *)first, (uintptr_t)after - first, MADV_HUGEPAGE);
#endif
}

shoal_status mem_charge(mem_budget *b, size_t bytes, const char *what) {
  if (!b) return NULL;
  if (b->limit && bytes > b->limit - MIN_OF(b->used, b->limit))
    return status_make(SHOAL_ERR_ARGUMENT,
                       "%s needs %.1f MB, but of the %.1f MB that a client may use, %.1f MB are in use; use smaller "
                       "tensors, or start the server with a larger --client-memory",
                       what, (double)bytes / 1e6, (double)b->limit / 1e6, (double)b->used / 1e6);
  b->used = mem_plus(b->used, bytes);
  return NULL;
}

void mem_refund(mem_budget *b, size_t bytes) {
  if (b) b->used -= MIN_OF(bytes, b->used);
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
