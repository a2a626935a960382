#include "data/number.h"

#include <stdlib.h>
#include <string.h>

const double number_powers[23] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                  1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

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

/* Up to 19 digits from the first that is not 0, and the power of ten; digits beyond are too small to be seen in a
 * float. at[0, n) is a number by number_length. */
static void split(const uint8_t *at, size_t n, uint64_t *digits, int64_t *power) {
  const uint8_t *p = at + (*at == '-' || *at == '+'), *end = at + n;
  uint64_t whole = 0;
  int64_t shift = 0;
  int count = 0;
  bool fraction = false;
  for (; p < end && (*p | 0x20) != 'e'; p++) {
    if (*p == '.') {
      fraction = true;
      continue;
    }
    if (count < 19) {
      whole = whole * 10 + (unsigned)(*p - '0');
      count += whole != 0;
      shift -= fraction;
    } else {
      shift += !fraction;
    }
  }
  if (p < end) {
    bool negative = *++p == '-';
    int64_t exponent = 0;
    for (p += *p == '-' || *p == '+'; p < end; p++)
      if (exponent < 100000) exponent = exponent * 10 + (*p - '0');
    shift += negative ? -exponent : exponent;
  }
  *digits = whole;
  *power = shift;
}

static bool by_strtod(const uint8_t *at, size_t n, float *out) {
  char small[128], *copy = n < sizeof small ? small : malloc(n + 1);
  if (!copy) return false;
  memcpy(copy, at, n);
  copy[n] = 0;
  *out = (float)strtod(copy, NULL);
  if (copy != small) free(copy);
  return true;
}

bool number_float_slow(const uint8_t **at, float *out) {
  size_t n = number_length(*at);
  if (!n) return false;
  uint64_t digits;
  int64_t power;
  float value;
  split(*at, n, &digits, &power);
  if (power >= -22 && power <= 22) {
    double number = (double)digits;
    number = power < 0 ? number / number_powers[-power] : number * number_powers[power];
    value = (float)(**at == '-' ? -number : number);
  } else if (!by_strtod(*at, n, &value)) {
    return false;
  }
  if (!isfinite(value)) return false;
  *out = value;
  *at += n;
  return true;
}
