/* What the processor can do, and what we let ourselves use. */
#ifndef SHOAL_KERNEL_CPU_H
#define SHOAL_KERNEL_CPU_H

#include "base/status.h"

#include <stdbool.h>

/* Each level includes those before it. */
typedef enum {
  CPU_GENERIC, /* any machine */
  CPU_AVX2,    /* AVX2, FMA, POPCNT */
  CPU_AVX512,  /* AVX-512 F, BW, DQ, VL */
  CPU_LEVELS
} cpu_level;

cpu_level cpu_best(void);
const char *cpu_level_name(cpu_level level);
/* "auto", "generic", "avx2", "avx512"; refuses a level this machine does not have. */
SHOAL_CHECKED shoal_status cpu_level_parse(const char *name, cpu_level *out);

#endif
