/* Any bytes at all as an HDF5 file: each dataset is read or refused. */
#include "data/hdf5.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void expect_input(shoal_status status) {
  if (shoal_status_code(status) != SHOAL_ERR_INPUT) __builtin_trap();
  shoal_status_free(status);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  hdf5_file *f;
  shoal_status status = hdf5_open(bytes, n, "input", &f);
  if (status) {
    expect_input(status);
    return 0;
  }
  for (size_t i = 0; i < hdf5_count(f); i++) {
    const hdf5_dataset *d = hdf5_at(f, i);
    shoal_tensor t;
    if (!hdf5_find(f, d->path)) __builtin_trap();
    status = hdf5_read(f, d, &t);
    if (status)
      expect_input(status);
    else
      shoal_tensor_fini(&t);
  }
  hdf5_close(f);
  return 0;
}
