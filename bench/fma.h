/* The rate of fused multiply-adds one thread can reach, with the widest vectors the machine has. */
#ifndef SHOAL_BENCH_FMA_H
#define SHOAL_BENCH_FMA_H

/* Billions of floating-point operations a second, best of several short runs. */
double fma_gflops(void);

#endif
