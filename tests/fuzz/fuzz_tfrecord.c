/* Any bytes at all, as a TFRecord file or as one tf.train.Example in a sound frame. The first byte chooses. */
#include "sparse_target.h"

#include "base/crc32c.h"

#include <string.h>

static void store(uint8_t *at, uint32_t word) {
  for (int i = 0; i < 4; i++) at[i] = (uint8_t)(word >> 8 * i);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  if (!n) return 0;
  uint8_t mode = bytes[0];
  format_options options = {.no_checksums = mode & 1,
                            .fields = mode & 2 ? (mode & 32 ? "label=y,ids=a,b" : "label=y,dense=a,b") : NULL,
                            .features = mode & 4 ? 1000 : 0,
                            .classes = mode & 8 ? 3 : 0};
  bytes++;
  n--;
  uint8_t *framed = NULL;
  if (mode & 16) {
    framed = calloc(1, n + 16);
    if (!framed) return 0;
    store(framed, (uint32_t)n);
    store(framed + 8, crc32c_mask(crc32c(0, framed, 8)));
    memcpy(framed + 12, bytes, n);
    store(framed + 12 + n, crc32c_mask(crc32c(0, bytes, n)));
  }
  file_reader *r = NULL;
  shoal_status status = framed ? tfrecord_rows_open_memory(framed, n + 16, "fuzz", &options, &r)
                               : tfrecord_rows_open_memory(bytes, n, "fuzz", &options, &r);
  fuzz_reader(&format_tfrecord, status, r);
  format_tfrecord.detect("fuzz", bytes, n < 4096 ? n : 4096, false);
  free(framed);
  return 0;
}
