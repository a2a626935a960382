/* What the processor can do, and what we let ourselves use. */
#ifndef SHOAL_KERNEL_CPU_H
#define SHOAL_KERNEL_CPU_H

#include "base/status.h"

#include <stdbool.h>

/* Each level includes those before it. */
#if defined(__x86_64__)
typedef enum {
  CPU_GENERIC, /* any machine */
  CPU_AVX2,    /* AVX2, FMA, POPCNT */
  CPU_AVX512,  /* AVX-512 F, BW, DQ, VL */
  CPU_LEVELS
} cpu_level;
/* What is written down for each instruction set that kernels are compiled for. */
#define EACH_ISA(of) of(generic) of(avx2) of(avx512)
/* The functions of a kernel by level, for tables [CPU_LEVELS]. */
#define BY_LEVEL(function) \
  { [CPU_GENERIC] = function##_generic, [CPU_AVX2] = function##_avx2, [CPU_AVX512] = function##_avx512 }
/* Rows of a table of variants (graph/op.h) for one kernel, best first; what follows the function applies to all. */
#define VARIANTS(kind, function, ...)                                                     \
  {.name = kind " avx512", .needs = CPU_AVX512, .run = function##_avx512, __VA_ARGS__},   \
      {.name = kind " avx2", .needs = CPU_AVX2, .run = function##_avx2, __VA_ARGS__}, {   \
    .name = kind " generic", .needs = CPU_GENERIC, .run = function##_generic, __VA_ARGS__ \
  }
#elif defined(__aarch64__)
typedef enum {
  CPU_GENERIC, /* any machine */
  CPU_NEON,    /* Advanced SIMD, which each of them has */
  CPU_LEVELS
} cpu_level;
#define EACH_ISA(of) of(generic) of(neon)
#define BY_LEVEL(function) \
  { [CPU_GENERIC] = function##_generic, [CPU_NEON] = function##_neon }
#define VARIANTS(kind, function, ...)                                                     \
  {.name = kind " neon", .needs = CPU_NEON, .run = function##_neon, __VA_ARGS__}, {       \
    .name = kind " generic", .needs = CPU_GENERIC, .run = function##_generic, __VA_ARGS__ \
  }
#else
typedef enum { CPU_GENERIC, CPU_LEVELS } cpu_level;
#define EACH_ISA(of) of(generic)
#define BY_LEVEL(function) \
  { function##_generic }
#define VARIANTS(kind, function, ...) \
  { .name = kind " generic", .needs = CPU_GENERIC, .run = function##_generic, __VA_ARGS__ }
#endif

cpu_level cpu_best(void);
const char *cpu_level_name(cpu_level level);
/* "auto", "generic", "avx2", "avx512", "neon"; refuses a level this machine does not have. */
SHOAL_CHECKED shoal_status cpu_level_parse(const char *name, cpu_level *out);

#endif
