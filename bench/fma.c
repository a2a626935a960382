#include "bench/fma.h"

#include "base/clock.h"
#include "kernel/cpu.h"

/* Twelve independent chains: enough to cover the latency of a multiply-add on two units. The empty asm statements keep
 * the compiler from folding the loop. */
#define CHAINS 12
#define DEFINE_FMA(name, isa, width)                                                    \
  __attribute__((target(isa), noinline)) static double name(void) {                     \
    typedef float vec __attribute__((vector_size(width * 4)));                          \
    enum { ROUNDS = 500000 };                                                           \
    double best = 0;                                                                    \
    for (int attempt = 0; attempt < 10; attempt++) {                                    \
      vec a[CHAINS], x, y;                                                              \
      for (int i = 0; i < width; i++) x[i] = 1.0000001f, y[i] = 1e-9f;                  \
      _Pragma("GCC unroll 12") for (int i = 0; i < CHAINS; i++) a[i] = x;               \
      double start = clock_seconds();                                                   \
      for (long k = 0; k < ROUNDS; k++) {                                               \
        _Pragma("GCC unroll 12") for (int i = 0; i < CHAINS; i++) {                     \
          a[i] = a[i] * x + y;                                                          \
          __asm__ volatile("" : "+v"(a[i]));                                            \
        }                                                                               \
      }                                                                                 \
      double rate = (double)ROUNDS * CHAINS * width * 2 / (clock_seconds() - start);    \
      if (rate > best) best = rate;                                                     \
    }                                                                                   \
    return best / 1e9;                                                                  \
  }

#if defined(__x86_64__)
DEFINE_FMA(fma_avx512, "avx512f", 16)
DEFINE_FMA(fma_avx2, "avx2,fma", 8)
DEFINE_FMA(fma_sse, "sse2", 4)

double fma_gflops(void) {
  switch (cpu_best()) {
    case CPU_AVX512: return fma_avx512();
    case CPU_AVX2: return fma_avx2();
    default: return fma_sse();
  }
}
#else
double fma_gflops(void) { return 0; }
#endif
