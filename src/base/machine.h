/* What there is of this machine. */
#ifndef SHOAL_BASE_MACHINE_H
#define SHOAL_BASE_MACHINE_H

#include <stddef.h>
#include <unistd.h>

/* Bytes of memory; 0: unknown. */
static inline size_t machine_memory(void) {
  long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? (size_t)pages * (size_t)page : 0;
}

#endif
