/* The first byte says whether checksums are checked: without them damage gets to the Examples. */
#include "dense_target.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  if (!n) return 0;
  format_options options = {.no_checksums = bytes[0] & 1, .classes = bytes[0] & 2 ? 3 : 0};
  dense_target("image-tfrecord", bytes + 1, n - 1, &options);
  return 0;
}
