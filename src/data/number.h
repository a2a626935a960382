/* Numbers out of text, for readers that go through hundreds of megabytes a second. */
#ifndef SHOAL_DATA_NUMBER_H
#define SHOAL_DATA_NUMBER_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The powers of ten that a double holds exactly. */
extern const double number_powers[23];
/* number_float for what it leaves: more than 19 digits, exponents, and what is no number. */
bool number_float_slow(const uint8_t **at, float *out);

/* A number such as -1, 0.25, 3e-4, +.5 at *at, which is moved behind it; *out is its nearest float or the next one to
 * that. False (and *at as it was): no number, or not a finite float. Stops at the first byte that cannot go on: the
 * text must hold one, e.g. its newline. */
static inline bool number_float(const uint8_t **at, float *out) {
  const uint8_t *p = *at;
  bool negative = *p == '-';
  p += negative || *p == '+';
  uint64_t whole = 0;
  const uint8_t *digits = p;
  for (unsigned d; (d = (unsigned)*p - '0') < 10; p++) whole = whole * 10 + d;
  size_t count = (size_t)(p - digits), after = 0;
  if (*p == '.') {
    const uint8_t *point = p++;
    for (unsigned d; (d = (unsigned)*p - '0') < 10; p++) whole = whole * 10 + d;
    after = (size_t)(p - point) - 1;
    count += after;
  }
  /* 19 digits fit. */
  if (count - 1 >= 19 || (*p | 0x20) == 'e') return number_float_slow(at, out);
  double value = (double)whole;
  if (after) value /= number_powers[after];
  *out = (float)(negative ? -value : value);
  *at = p;
  return true;
}

/* Digits at *at, at most 18; false: none or more. */
static inline bool number_digits(const uint8_t **at, int64_t *out) {
  const uint8_t *p = *at;
  int64_t value = 0;
  for (unsigned d; (d = (unsigned)*p - '0') < 10 && p - *at < 19; p++) value = (int64_t)((uint64_t)value * 10 + d);
  size_t count = (size_t)(p - *at);
  if (count - 1 >= 18) return false;
  *at = p;
  *out = value;
  return true;
}

#endif
