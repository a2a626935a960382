/* Sets of keys as they travel: strictly ascending, as the gaps between them, eight to a block.
 *
 *   block: u8 w, the bits of its widest gap; then eight gaps of w bits each, low bits first: w bytes. The last block is
 *   filled up with zeros.
 *
 * A gap is the key minus the one before minus 1; the first one's is the key itself. Keys that stand close together, as
 * frequent words of a log do, take about a byte each. What comes over the wire is not trusted.
 *
 * Ids of 64 bits travel the same way; where w is above 32, the lower 32 bits of all eight gaps stand before the upper ones. */
#ifndef SHOAL_DIST_SPARSE_KEYS_H
#define SHOAL_DIST_SPARSE_KEYS_H

#include <stddef.h>
#include <stdint.h>

/* Bytes that n keys may take, with those that are written to behind them. */
size_t sparse_keys_max(int64_t n);
/* keys [n], each less `base`, strictly ascending from it on. Returns the bytes written to `out`. */
size_t sparse_keys_encode(const int32_t *keys, int64_t n, int32_t base, uint8_t *out);
/* Fills out [n]. NULL, or what is wrong: the bytes are not those of n keys, or one is not below `limit`. */
const char *sparse_keys_decode(const uint8_t *bytes, size_t length, int64_t n, int64_t limit, int32_t *out);

/* The same of ids. */
size_t sparse_ids_max(int64_t n);
size_t sparse_ids_encode(const uint64_t *ids, int64_t n, uint8_t *out);
const char *sparse_ids_decode(const uint8_t *bytes, size_t length, int64_t n, uint64_t *out);

#endif
