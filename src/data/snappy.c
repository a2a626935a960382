#include "data/snappy.h"

#include <string.h>

/* The length before the elements: seven bits a byte, the lowest first. */
static bool read_length(const uint8_t **in, const uint8_t *end, uint64_t *out) {
  *out = 0;
  for (int shift = 0; shift < 35 && *in < end; shift += 7) {
    const uint8_t byte = *(*in)++;
    *out |= (uint64_t)(byte & 0x7f) << shift;
    if (!(byte & 0x80)) return true;
  }
  return false;
}

static uint32_t little_endian(const uint8_t *at, int bytes) {
  uint32_t value = 0;
  for (int i = 0; i < bytes; i++) value |= (uint32_t)at[i] << (8 * i);
  return value;
}

bool snappy_decompress(const uint8_t *in, size_t n, uint8_t *out, size_t size) {
  const uint8_t *end = in + n;
  size_t done = 0;
  uint64_t told;
  if (!read_length(&in, end, &told) || told != size) return false;
  while (in < end) {
    const uint8_t tag = *in++;
    const int kind = tag & 3;
    if (kind == 0) { /* bytes as they are */
      size_t length = (size_t)(tag >> 2) + 1;
      if (length > 60) {
        const int bytes = (int)length - 60;
        if (end - in < bytes) return false;
        length = (size_t)little_endian(in, bytes) + 1;
        in += bytes;
      }
      if (length > (size_t)(end - in) || length > size - done) return false;
      memcpy(out + done, in, length);
      in += length;
      done += length;
      continue;
    }
    /* a copy of what came out before */
    const int bytes = kind == 1 ? 1 : kind == 2 ? 2 : 4;
    if (end - in < bytes) return false;
    const size_t length = kind == 1 ? (size_t)(tag >> 2 & 7) + 4 : (size_t)(tag >> 2) + 1;
    const size_t back = kind == 1 ? (size_t)(tag >> 5) << 8 | *in : little_endian(in, bytes);
    in += bytes;
    if (!back || back > done || length > size - done) return false;
    for (size_t i = 0; i < length; i++, done++) out[done] = out[done - back]; /* it may overlap itself */
  }
  return done == size;
}
