/* Any bytes at all, as LIBSVM or LIBFFM text. The first byte chooses which, and options. */
#include "sparse_target.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  if (!n) return 0;
  format_options options = {.features = bytes[0] & 1 ? 1000 : 0, .classes = bytes[0] & 2 ? 5 : 0};
  file_reader *r = NULL;
  const bool ffm = bytes[0] & 4;
  const format *kind = ffm ? &format_libffm : &format_libsvm;
  shoal_status status = (ffm ? libffm_open_memory : libsvm_open_memory)(bytes + 1, n - 1, "fuzz", &options, &r);
  fuzz_reader(kind, status, r);
  kind->detect("fuzz", bytes + 1, n - 1 < 4096 ? n - 1 : 4096, false);
  return 0;
}
