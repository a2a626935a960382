#include "data/number.h"

#include <stdlib.h>
#include <string.h>

/* Characters of a decimal number: strtod alone would also take hexadecimal, "inf" and "nan". */
static size_t number_length(const uint8_t *at) {
  const uint8_t *p = at;
  p += *p == '-' || *p == '+';
  const uint8_t *digits = p;
  while (*p >= '0' && *p <= '9') p++;
  size_t count = (size_t)(p - digits);
  if (*p == '.') {
    const uint8_t *point = p++;
    while (*p >= '0' && *p <= '9') p++;
    count += (size_t)(p - point) - 1;
  }
  if (!count) return 0;
  if ((*p | 0x20) == 'e') {
    const uint8_t *exponent = p++;
    p += *p == '-' || *p == '+';
    if (*p < '0' || *p > '9') return (size_t)(exponent - at);
    while (*p >= '0' && *p <= '9') p++;
  }
  return (size_t)(p - at);
}

bool number_float_slow(const uint8_t **at, float *out) {
  size_t n = number_length(*at);
  char small[128], *copy = n < sizeof small ? small : malloc(n + 1);
  if (!n || !copy) {
    if (copy != small) free(copy);
    return false;
  }
  memcpy(copy, *at, n);
  copy[n] = 0;
  float value = (float)strtod(copy, NULL);
  if (copy != small) free(copy);
  if (!isfinite(value)) return false;
  *out = value;
  *at += n;
  return true;
}
