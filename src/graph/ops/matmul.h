/* The reference kernel of matmul, for operators that are made of several products. */
#ifndef SHOAL_GRAPH_OPS_MATMUL_H
#define SHOAL_GRAPH_OPS_MATMUL_H

#include "kernel/kernel.h"

/* y [m, n] (+)= a b; attributes 0 and 1: whether a and b are transposed. */
SHOAL_CHECKED shoal_status matmul_reference(const kernel_call *call);

#endif
