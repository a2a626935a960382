/* Any bytes at all, as a .npy file: a header whose elements can all be reached, or an error. */
#include "data/npy.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  stream *s;
  npy_header h;
  shoal_status status = stream_open_memory(bytes, n, "fuzz", &s);
  if (status) {
    if (shoal_status_code(status) != SHOAL_ERR_INPUT) __builtin_trap();
    shoal_status_free(status);
    return 0;
  }
  status = npy_read_header(s, "fuzz", &h);
  double sum = 0;
  while (!status && h.shape.dim[0]) {
    const uint8_t *at;
    size_t have;
    status = stream_fill(s, (size_t)h.row_bytes, &at, &have);
    if (status || have < h.row_bytes) break;
    for (size_t i = 0; i < h.row_bytes / (size_t)h.size; i++) sum += npy_element(&h, at, i);
    stream_advance(s, (size_t)h.row_bytes);
  }
  if (status && shoal_status_code(status) != SHOAL_ERR_INPUT) __builtin_trap();
  shoal_status_free(status);
  __asm__ volatile("" : : "m"(sum)); /* every element was read */
  stream_close(s);
  return 0;
}
