/* Rows of a table on servers that a worker keeps, so that it need not be sent those again that many of its batches ask for.
 *
 * 1. It has a fixed number of rows. Which ones stay is decided by how often they were asked for lately (TinyLFU: a few bytes
 *    count all rows that come, and are halved now and then).
 * 2. A row is taken from here for at most `staleness` batches after the one that it came for.
 * 3. Nothing is allocated once it is made. */
#ifndef SHOAL_DIST_ROW_CACHE_H
#define SHOAL_DIST_ROW_CACHE_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct row_cache row_cache;

/* rows: rounded up to whole sets of 8. width: numbers of a row. */
SHOAL_CHECKED shoal_status row_cache_create(int64_t rows, int64_t width, int64_t staleness, row_cache **out);
void row_cache_destroy(row_cache *c); /* NULL is fine */
/* It is empty: the servers may have begun elsewhere. What was counted stays. */
void row_cache_clear(row_cache *c);

/* The next batch asks. */
void row_cache_next_batch(row_cache *c);
/* It asks for this row, once: the place that the row has here, or -1: it is not kept. *fresh: its numbers are there and not
 * too old. Otherwise the caller puts them there as soon as they have come. */
int32_t row_cache_find(row_cache *c, uint64_t key, bool *fresh);
/* The numbers of that place, until the batch after this one asks. */
const float *row_cache_row(const row_cache *c, int32_t place); /* [width] */
void row_cache_put(row_cache *c, int32_t place, const float *row);

#endif
