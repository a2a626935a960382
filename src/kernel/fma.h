/* The rate of fused multiply-adds one thread can reach, with the widest vectors the machine has. */
#ifndef SHOAL_KERNEL_FMA_H
#define SHOAL_KERNEL_FMA_H

/* Billions of floating-point operations a second, best of several short runs. */
double fma_gflops(void);

#endif
