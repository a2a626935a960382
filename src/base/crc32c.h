/* CRC-32C (Castagnoli), and the masked form that TFRecord files hold. Uses the processor's instructions where it has
 * them. */
#ifndef SHOAL_BASE_CRC32C_H
#define SHOAL_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* `crc` is 0 to begin with, or the result for the bytes before these. */
uint32_t crc32c(uint32_t crc, const void *bytes, size_t n);
/* The same, of bytes that are copied at the same time. */
uint32_t crc32c_copy(uint32_t crc, void *restrict to, const void *restrict bytes, size_t n);
/* The same without special instructions, for machines that lack them and to check the other against. */
uint32_t crc32c_portable(uint32_t crc, const void *bytes, size_t n);

/* A CRC of data that holds its own CRC is weak; files therefore hold this. */
static inline uint32_t crc32c_mask(uint32_t crc) { return (crc >> 15 | crc << 17) + 0xa282ead8u; }

#endif
