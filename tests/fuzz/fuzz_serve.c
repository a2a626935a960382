/* Any bytes at all, as the body of a request to `shoal serve`. The first byte chooses its type and the model's rows. */
#include "run/serve_rows.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  if (!n) return 0;
  const bool sparse = bytes[0] & 4;
  const rows_schema schema = {.kind = sparse ? ROWS_SPARSE : ROWS_DENSE,
                              .dtype = SHOAL_F32,
                              .shape = SHOAL_SHAPE(2, 3),
                              .scale = 1,
                              .features = sparse ? 1000 : 0};
  const serve_type type = (serve_type)(bytes[0] % 3);
  rows_block rows;
  rows_init(&rows, &schema);
  shoal_status status = serve_rows_read(type, bytes + 1, n - 1, 64, &rows);
  if (!status && rows.count > 64) abort();
  if (!status && sparse && rows.count) {
    rows_drop_beyond(&rows, 1000);
    for (int64_t i = 0; i < rows.offsets[rows.count]; i++)
      if (rows.indices[i] < 0 || rows.indices[i] >= 1000) abort();
  }
  if (!status) {
    float scores[2 * 64] = {0};
    text answer = {0};
    serve_rows_write(type, scores, rows.count, 2, sparse, &answer);
    text_fini(&answer);
  }
  shoal_status_free(status);
  rows_fini(&rows);
  return 0;
}
