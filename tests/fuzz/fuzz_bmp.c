#include "image_target.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  image_target(bytes, n);
  return 0;
}
