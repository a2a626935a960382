#include "base/options.h"

#include <stdint.h>
#include <string.h>

enum { BYTES_MAX = 1 << 16 }; /* of any struct of options, ever: more is no size but garbage */

shoal_status options_take(const char *what, void *own, size_t bytes, const void *given, size_t size) {
  if (size == 0) size = bytes;
  if (given && (size < sizeof(size_t) || size > BYTES_MAX))
    return status_make(SHOAL_ERR_ARGUMENT, "%s: size is %zu: set all fields to zero first, or use SHOAL_OPTIONS", what,
                       size);
  for (size_t i = bytes; given && i < size; i++)
    if (((const uint8_t *)given)[i])
      return status_make(SHOAL_ERR_ARGUMENT,
                         "%s: sets fields that this version of Shoal does not have: run the program "
                         "with the version it was compiled with, or a later one",
                         what);
  const size_t known = given ? (size < bytes ? size : bytes) : 0;
  memmove(own, given ? given : own, known);
  memset((uint8_t *)own + known, 0, bytes - known);
  *(size_t *)own = bytes;
  return NULL;
}
