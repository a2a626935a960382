/* Any bytes at all as a JSON text: the same value as jansson's own reader gives, or an error from both. (jansson passes over a
 * byte of zero behind a number or a word.) */
#include "base/json_read.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  const size_t flags = n % 2 ? JSON_REJECT_DUPLICATES : JSON_DECODE_ANY;
  json_error_t error;
  json_t *theirs = json_loadb((const char *)bytes, n, flags, &error),
         *ours = json_read((const char *)bytes, n, flags, &error);
  if (!memchr(bytes, 0, n) && (!theirs != !ours || (theirs && !json_equal(theirs, ours)))) __builtin_trap();
  json_decref(theirs);
  json_decref(ours);
  return 0;
}
