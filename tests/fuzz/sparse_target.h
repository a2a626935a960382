/* What holds for every reader of sparse rows, whatever the bytes. */
#ifndef SHOAL_FUZZ_SPARSE_TARGET_H
#define SHOAL_FUZZ_SPARSE_TARGET_H

#include "data/sparse.h"

#include <math.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

#define MUST(what)                 \
  do {                             \
    if (!(what)) __builtin_trap(); \
  } while (0)

static inline void check_rows(const rows_block *b) {
  for (int64_t i = 0; i < b->count; i++) {
    if (b->schema.classes) MUST(b->labels[i] >= 0 && b->labels[i] < b->schema.classes);
    if (b->schema.kind != ROWS_SPARSE) continue;
    MUST(b->offsets[i] <= b->offsets[i + 1]);
    for (int64_t e = b->offsets[i]; e < b->offsets[i + 1]; e++) {
      MUST(b->indices[e] >= 0 && isfinite(b->values[e]));
      if (b->schema.features) MUST(b->indices[e] < b->schema.features);
      if (e > b->offsets[i]) MUST(b->indices[e] > b->indices[e - 1]);
    }
  }
}

/* Reads to the end, over bad rows where that is possible. Returns the good rows. */
static inline int64_t read_to_end(const format *f, file_reader *r, rows_block *b, file_position *middle) {
  int64_t rows = 0, got, steps = 0;
  for (;;) {
    file_position before, after;
    f->tell(r, &before);
    rows_clear(b);
    shoal_status status = f->read(r, 3, b, &got);
    f->tell(r, &after);
    MUST(got == b->count && got <= 3);
    check_rows(b);
    rows += got;
    if (status) {
      MUST(shoal_status_code(status) == SHOAL_ERR_INPUT);
      shoal_status_free(status);
      if (!r->can_go_on) return rows;
      MUST(after.record > before.record && after.offset > before.offset);
    } else if (!got) {
      return rows;
    }
    if (++steps == 2 && middle) *middle = after;
  }
}

/* Closes the reader. `status`: what opening it gave. */
static inline void fuzz_reader(const format *f, shoal_status status, file_reader *r) {
  if (status) {
    shoal_code code = shoal_status_code(status);
    MUST(code == SHOAL_ERR_INPUT || code == SHOAL_ERR_ARGUMENT);
    shoal_status_free(status);
    return;
  }
  rows_schema schema;
  rows_block b;
  file_position middle = {0}, start = {0};
  f->schema(r, &schema);
  rows_init(&b, &schema);
  int64_t rows = read_to_end(f, r, &b, &middle), again;
  /* What was read once can be read again, from the start and from a position told. */
  status = f->seek(r, &middle);
  MUST(!status);
  (void)read_to_end(f, r, &b, NULL);
  status = f->seek(r, &start);
  MUST(!status);
  again = read_to_end(f, r, &b, NULL);
  MUST(again == rows);
  status = f->seek(r, &start);
  MUST(!status);
  status = f->skip(r, 2, &again);
  shoal_status_free(status);
  rows_fini(&b);
  f->close(r);
}

#endif
