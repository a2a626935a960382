#include "kernel/fma.h"

#include "base/clock.h"
#include "kernel/cpu.h"

/* Twelve independent chains: enough to cover the latency of a multiply-add on two units. The empty asm statement, which
 * claims to change them all, keeps the compiler from folding the loop. */
#define DEFINE_FMA(name, isa, width)                                                                            \
  __attribute__((isa noinline)) static double name(void) {                                                      \
    typedef float vec __attribute__((vector_size(width * 4)));                                                  \
    enum { ROUNDS = 500000, CHAINS = 12 };                                                                      \
    double best = 0;                                                                                            \
    for (int attempt = 0; attempt < 10; attempt++) {                                                            \
      vec x, y;                                                                                                 \
      for (int i = 0; i < width; i++) x[i] = 1.0000001f, y[i] = 1e-9f;                                          \
      vec a = x, b = x, c = x, d = x, e = x, f = x, g = x, h = x, i = x, j = x, k = x, l = x;                   \
      double start = clock_seconds();                                                                           \
      for (long n = 0; n < ROUNDS; n++) {                                                                       \
        a = a * x + y, b = b * x + y, c = c * x + y, d = d * x + y, e = e * x + y, f = f * x + y;               \
        g = g * x + y, h = h * x + y, i = i * x + y, j = j * x + y, k = k * x + y, l = l * x + y;               \
        __asm__ volatile(""                                                                                     \
                         : ANY_REGISTER(a), ANY_REGISTER(b), ANY_REGISTER(c), ANY_REGISTER(d), ANY_REGISTER(e), \
                           ANY_REGISTER(f), ANY_REGISTER(g), ANY_REGISTER(h), ANY_REGISTER(i), ANY_REGISTER(j), \
                           ANY_REGISTER(k), ANY_REGISTER(l));                                                   \
      }                                                                                                         \
      double rate = (double)ROUNDS * CHAINS * width * 2 / (clock_seconds() - start);                            \
      if (rate > best) best = rate;                                                                             \
    }                                                                                                           \
    return best / 1e9;                                                                                          \
  }

#if defined(__x86_64__)
#define ANY_REGISTER "+v"
#define FOR(isa) target(isa),
DEFINE_FMA(fma_avx512, FOR("avx512f"), 16)
DEFINE_FMA(fma_avx2, FOR("avx2,fma"), 8)
DEFINE_FMA(fma_sse, FOR("sse2"), 4)

double fma_gflops(void) {
  switch (cpu_best()) {
    case CPU_AVX512: return fma_avx512();
    case CPU_AVX2: return fma_avx2();
    default: return fma_sse();
  }
}
#elif defined(__aarch64__)
#define ANY_REGISTER "+w"
DEFINE_FMA(fma_neon, , 4)

double fma_gflops(void) { return fma_neon(); }
#else
double fma_gflops(void) { return 0; }
#endif
