/* Any bytes at all, as a click log. The first byte chooses the feature space. */
#include "sparse_target.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  if (!n) return 0;
  format_options options = {.features = bytes[0] & 1 ? 40 : 0};
  file_reader *r = NULL;
  shoal_status status = criteo_open_memory(bytes + 1, n - 1, "fuzz", &options, &r);
  fuzz_reader(&format_criteo, status, r);
  format_criteo.detect("fuzz", bytes + 1, n - 1 < 4096 ? n - 1 : 4096, false);
  return 0;
}
