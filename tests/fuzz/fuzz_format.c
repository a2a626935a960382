/* Any bytes at all, as a gradient or parameters in a wire format: as many numbers as were asked for come out, nothing beside
 * them is touched, and a part from a multiple of the grain on is what the whole has there. */
#include "dist/wire_format.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 3000, GUARD = 16 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  if (n < 3) return 0;
  const wire_format *f = wire_format_at(bytes[0] % 6);
  const int64_t count = (bytes[1] | bytes[2] << 8) % MOST;
  if (!f || !f->encode) return 0;
  const size_t size = (size_t)f->bytes(count);
  uint8_t *code = calloc(size + 1, 1), *again = calloc(size + 1, 1); /* exactly so many: a sanitizer looks */
  float *out = malloc(((size_t)count + GUARD) * sizeof *out), *part = calloc((size_t)count + 1, sizeof *part);
  if (!code || !again || !out || !part) abort();
  memcpy(code, bytes + 3, n - 3 < size ? n - 3 : size);
  memset(out, 0x5a, ((size_t)count + GUARD) * sizeof *out);
  f->decode(code, out, count);
  for (int i = 0; i < GUARD * 4; i++)
    if (((const uint8_t *)(out + count))[i] != 0x5a) __builtin_trap();
  const int64_t middle = count / WIRE_GRAIN / 2 * WIRE_GRAIN;
  f->decode(code + f->bytes(middle), part, count - middle);
  if (count > middle && memcmp(part, out + middle, (size_t)(count - middle) * sizeof *part)) __builtin_trap();
  f->encode(out, again, count); /* whatever came out, not-a-numbers included */
  free(code);
  free(again);
  free(out);
  free(part);
  return 0;
}
