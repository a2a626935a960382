/* Numbers of the counter-based generator (base/random.h), many at a time, each compiled for three instruction sets. */
#ifndef SHOAL_KERNEL_PHILOX_H
#define SHOAL_KERNEL_PHILOX_H

#include "base/random.h"

/* Elements first .. first + n of the stream, as random_uniform_at gives them. */
#define PHILOX_KERNELS(isa) void philox_uniform_##isa(const random_stream *s, uint64_t first, int64_t n, float *out);
EACH_ISA(PHILOX_KERNELS)

#endif
