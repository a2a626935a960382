/* Any bytes at all, as a safetensors file: what opens can be read tensor by tensor. */
#include "data/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void read_one(safetensors *file, const safetensors_entry *e, size_t n) {
  shoal_tensor t;
  if (e->bytes > n) __builtin_trap();
  shoal_status status = shoal_tensor_create(e->supported ? e->dtype : SHOAL_F32, e->shape, &t);
  if (status) { /* a shape like [0,huge,huge] is legal in the file, too large for a tensor of another type */
    shoal_status_free(status);
    return;
  }
  status = safetensors_read(file, e->name, &t);
  if (!status && !e->supported) __builtin_trap();
  if (status && shoal_status_code(status) != SHOAL_ERR_INPUT) __builtin_trap();
  shoal_status_free(status);
  shoal_tensor_fini(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  safetensors *file;
  shoal_status status = safetensors_open_memory(bytes, n, "fuzz", &file);
  if (status) {
    if (shoal_status_code(status) != SHOAL_ERR_INPUT) __builtin_trap();
    shoal_status_free(status);
    return 0;
  }
  for (size_t i = 0; i < safetensors_count(file); i++) read_one(file, safetensors_at(file, i), n);
  const json_t *metadata = safetensors_metadata(file);
  if (metadata && !json_is_object(metadata)) __builtin_trap();
  safetensors_close(file);
  return 0;
}
