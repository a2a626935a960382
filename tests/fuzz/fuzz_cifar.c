#include "dense_target.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  dense_target("cifar10", bytes, n, &(format_options){0});
  return 0;
}
