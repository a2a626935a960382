/* Any bytes at all, as a Parquet file: refused with a reason, or text that is the same when it is read again. */
#include "data/parquet.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

enum { TEXT_MAX = 1 << 16 }; /* a run of missing values makes any number of lines */

static size_t read_text(parquet_text *p, uint8_t *out) {
  size_t done = 0, got = 1;
  while (got && done < TEXT_MAX) {
    shoal_status status = parquet_text_read(p, out + done, TEXT_MAX - done, &got);
    if (status) {
      shoal_status_free(status);
      break;
    }
    done += got;
  }
  return done;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  static uint8_t first[TEXT_MAX], again[TEXT_MAX];
  parquet_text *p;
  shoal_status status = parquet_text_open(-1, bytes, n, "fuzz", &p);
  if (status) {
    shoal_status_free(status);
    return 0;
  }
  const size_t length = read_text(p, first);
  parquet_text_rewind(p);
  if (read_text(p, again) != length || memcmp(first, again, length)) abort();
  parquet_text_close(p);
  return 0;
}
