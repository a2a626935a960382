/* Rows of a source in a seeded random order, window by window; or as they come.
 *
 * A window of `size` rows is permuted and handed out while the next one is read. Windows end with the epoch. From the
 * second epoch on the first window is shorter by a random amount when there are several, so that rows meet others than
 * before. A window also ends early, at a multiple of 64 rows, when it takes a quarter of the memory limit. */
#ifndef SHOAL_DATA_SHUFFLE_H
#define SHOAL_DATA_SHUFFLE_H

#include "data/pipeline.h"

typedef struct {
  rows_block rows;
  int32_t *order; /* [rows.count] once permuted */
  size_t order_capacity;
  pipeline_position start; /* of its first row; `done` is 0 */
  int64_t target;          /* rows it is to have */
  bool started, complete;  /* complete: nothing more is read into it */
  bool last;               /* of its epoch */
  bool broken;             /* reading went wrong behind its rows */
} shuffle_window;

typedef struct {
  source *source; /* borrowed */
  int64_t size;   /* of a window; 0: no shuffling */
  int64_t epochs; /* 0: endless */
  int64_t memory; /* limit for each window, bytes */
  uint64_t seed;
  const bool *stop; /* borrowed: once it is set, by any thread, reading ends with SHOAL_ERR_CANCELLED. NULL: never */
  shuffle_window windows[2];
  int current;
  int64_t done;               /* rows of the current window handed out */
  bool over;                  /* the epoch's end has been told */
  shoal_status failed;        /* comes out after the rows before it */
  pipeline_position position; /* without shuffling */
} shuffler;

/* Begins at `from`. */
SHOAL_CHECKED shoal_status shuffler_init(shuffler *s, source *from_source, int64_t size, int64_t epochs, int64_t memory,
                                         uint64_t seed, const bool *stop, const pipeline_position *from);
void shuffler_fini(shuffler *s);
/* Appends up to `most` rows of the epoch under way. *ended: the epoch is over, and the next one begins with the next
 * call. *first: number of the first one in the epoch. On an error *got rows have been appended before it. */
SHOAL_CHECKED shoal_status shuffler_take(shuffler *s, int64_t most, rows_block *into, int64_t *got, int64_t *first,
                                         bool *ended);
/* Of the next row; `rejected_by_transform` is left alone. */
void shuffler_tell(const shuffler *s, pipeline_position *out);
/* Content of a block, without what is reserved. */
size_t shuffle_content_bytes(const rows_block *b);

#endif
