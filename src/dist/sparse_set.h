/* Which rows of a table a batch touches: its indices, each once and ascending, and the batch by their places. */
#ifndef SHOAL_DIST_SPARSE_SET_H
#define SHOAL_DIST_SPARSE_SET_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct {
  int32_t *keys; /* [n] ascending */
  int64_t n;
  int32_t *places; /* [entries] of each entry in `keys` */
  /* room */
  size_t cap_keys, cap_places, cap_pairs;
  uint64_t *pairs; /* [2 entries] index and entry, and room to sort them */
} sparse_set;

/* Of indices [entries], none below 0. Allocates only when there are more than ever before. */
SHOAL_CHECKED shoal_status sparse_set_make(sparse_set *s, const int32_t *indices, int64_t entries);
void sparse_set_fini(sparse_set *s);

#endif
