#include "kernel/cpu.h"

#include <string.h>

#define NAME_OF(isa) #isa,
static const char *const level_names[CPU_LEVELS] = {EACH_ISA(NAME_OF)};
/* Of all machines. */
static const char *const names[] = {"generic", "avx2", "avx512", "neon"};

cpu_level cpu_best(void) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("fma"))
    return CPU_AVX512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("popcnt"))
    return CPU_AVX2;
#elif defined(__aarch64__)
  return CPU_NEON;
#endif
  return CPU_GENERIC;
}

const char *cpu_level_name(cpu_level level) { return level_names[level]; }

shoal_status cpu_level_parse(const char *name, cpu_level *out) {
  cpu_level best = cpu_best();
  if (!strcmp(name, "auto")) {
    *out = best;
    return NULL;
  }
  for (int i = 0; i < CPU_LEVELS; i++)
    if (!strcmp(name, level_names[i])) {
      if (i > (int)best)
        return status_make(SHOAL_ERR_ARGUMENT, "this processor does not support %s; the best it supports is %s", name,
                           level_names[best]);
      *out = (cpu_level)i;
      return NULL;
    }
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(name, names[i]))
      return status_make(SHOAL_ERR_ARGUMENT,
                         "%s is of another kind of processor; the best that this one supports is %s", name,
                         level_names[best]);
  return status_make(SHOAL_ERR_ARGUMENT, "unknown kernels '%s': one of auto, generic, avx2, avx512, neon", name);
}
