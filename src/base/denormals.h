/* Numbers below 1e-38 count as zero while Shoal computes. Processors take a hundred times as long for them, and they
 * are what gradients become when a model has learned its data by heart. All threads that compute must agree on it, or
 * their sums differ in the last bits. */
#ifndef SHOAL_BASE_DENORMALS_H
#define SHOAL_BASE_DENORMALS_H

#if defined(__SSE2__)
#include <xmmintrin.h>

/* Returns what denormals_restore takes. */
static inline unsigned denormals_off(void) {
  unsigned before = _mm_getcsr();
  _mm_setcsr(before | 0x8040); /* results to zero, operands as zero */
  return before;
}
static inline void denormals_restore(unsigned before) { _mm_setcsr(before); }
#else
static inline unsigned denormals_off(void) { return 0; }
static inline void denormals_restore(unsigned before) { (void)before; }
#endif

#endif
