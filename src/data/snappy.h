/* Snappy's raw format, decompressed. */
#ifndef SHOAL_DATA_SNAPPY_H
#define SHOAL_DATA_SNAPPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Exactly `size` bytes into `out`; false: the bytes are damaged, or make another number. */
bool snappy_decompress(const uint8_t *in, size_t n, uint8_t *out, size_t size);

#endif
