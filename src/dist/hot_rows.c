#include "dist/hot_rows.h"

#include "base/id_table.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

enum { PLACES = 1 << 16, MOST = PLACES / 4 * 3 };

struct hot_rows {
  uint64_t rows[PLACES];
  uint32_t counts[PLACES]; /* 0: free */
  int64_t n, asked;
};

shoal_status hot_rows_create(hot_rows **out) {
  *out = calloc(1, sizeof **out); /* pages come when they are touched */
  return *out ? NULL : status_no_memory();
}

void hot_rows_destroy(hot_rows *h) { free(h); }

void hot_rows_count(hot_rows *h, uint64_t row) {
  size_t at = (size_t)(id_table_hash(row) >> 48);
  while (h->counts[at] && h->rows[at] != row) at = (at + 1) & (PLACES - 1);
  h->asked++;
  if (!h->counts[at] && h->n == MOST) return;
  h->n += !h->counts[at];
  h->rows[at] = row;
  h->counts[at]++;
}

static int descending(const void *a, const void *b) {
  const uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
  return (left < right) - (left > right);
}

double hot_rows_share(const hot_rows *h) {
  uint32_t *counts = malloc(sizeof h->counts);
  int64_t hot = 0;
  if (!counts || !h->asked) {
    free(counts);
    return 0;
  }
  memcpy(counts, h->counts, sizeof h->counts);
  qsort(counts, PLACES, sizeof *counts, descending);
  for (int i = 0; i < HOT_ROWS; i++) hot += counts[i];
  free(counts);
  return (double)hot / (double)h->asked;
}
