/* Any bytes at all, as an IDX file: a tensor or an error that says where, never more. */
#include "data/idx.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  shoal_tensor t;
  shoal_status status = idx_read_memory(bytes, n, "fuzz", &t);
  if (status) {
    if (shoal_status_code(status) != SHOAL_ERR_INPUT) __builtin_trap();
    shoal_status_free(status);
    return 0;
  }
  /* Every element can be reached. */
  volatile double sum = 0;
  for (int64_t i = 0; i < shoal_tensor_count(&t); i++) sum += shoal_tensor_get(&t, i);
  (void)sum;
  shoal_tensor_fini(&t);
  return 0;
}
