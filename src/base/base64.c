#include "base/base64.h"

#include <stdlib.h>
#include <string.h>

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

char *base64_encode(const uint8_t *bytes, size_t n) {
  char *text = malloc((n + 2) / 3 * 4 + 1), *at = text;
  if (!text) return NULL;
  for (size_t i = 0; i < n; i += 3) {
    const size_t left = n - i < 3 ? n - i : 3;
    uint32_t bits = 0;
    for (size_t k = 0; k < 3; k++) bits = bits << 8 | (k < left ? bytes[i + k] : 0);
    for (size_t k = 0; k < 4; k++) *at++ = k <= left ? digits[bits >> (18 - 6 * k) & 63] : '=';
  }
  *at = 0;
  return text;
}

bool base64_decode(const char *text, uint8_t **out, size_t *n) {
  const size_t length = strlen(text);
  if (length % 4) return false;
  uint8_t *bytes = malloc(length / 4 * 3 + 1);
  size_t made = 0;
  bool good = bytes != NULL;
  for (size_t i = 0; i < length && good; i += 4) {
    uint32_t bits = 0;
    int missing = 0;
    for (size_t k = 0; k < 4 && good; k++) {
      const char c = text[i + k], *found = c == '=' ? NULL : memchr(digits, c, 64);
      missing += c == '=';
      good = found ? !missing : c == '=' && i + 4 == length && k > 1;
      bits = bits << 6 | (uint32_t)(found ? found - digits : 0);
    }
    for (int k = 0; k < 3 - missing && good; k++) bytes[made++] = (uint8_t)(bits >> (16 - 8 * k));
  }
  if (!good) {
    free(bytes);
    return false;
  }
  *out = bytes;
  *n = made;
  return true;
}
