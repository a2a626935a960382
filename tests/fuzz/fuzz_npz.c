/* Any bytes at all, as an .npz archive of rows and labels. */
#include "dense_target.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  dense_target("npz", bytes, n, &(format_options){0});
  return 0;
}
