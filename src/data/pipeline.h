/* The inside of shoal/pipeline.h: batches as blocks of rows.
 *
 *   files -> source (shard) -> windows (shuffle) -> batches -> threads that decode and transform -> the caller
 *
 * 1. One thread reads and fills the batches, in order; any number of threads transform them, each a whole batch; the
 *    caller gets them in order again. So nothing in the rows or their order depends on the threads.
 * 2. Batches live in a ring of blocks that are used again: in the steady state nothing is allocated.
 * 3. Shuffling permutes windows of `shuffle_rows` rows; the next window is read while one is handed out. A position is
 *    where the window begins and how many of its rows are done; resuming reads that one window again.
 * 4. An error comes out after the rows before it. */
#ifndef SHOAL_DATA_PIPELINE_H
#define SHOAL_DATA_PIPELINE_H

#include "data/source.h"
#include "shoal/pipeline.h"

typedef struct {
  source_position source;        /* where the window begins; without shuffling, where the next row is */
  int64_t window;                /* number of the window in its epoch */
  int64_t done;                  /* rows of the window handed out */
  int64_t rows;                  /* rows of the epoch before the window */
  int64_t previous;              /* rows of the epoch before this one; 0: this is the first */
  int64_t rejected_by_transform; /* rows found bad by the transform so far */
} pipeline_position;

/* What must be the same for a position to mean the same row. */
typedef struct {
  int64_t files, shard, shards, seed, shuffle_rows, memory_limit;
} pipeline_place;

/* "epoch=3 file=2 ..." */
void position_write(const pipeline_position *position, const pipeline_place *place, char out[SHOAL_POSITION_TEXT]);
SHOAL_CHECKED shoal_status position_read(const char *text, const pipeline_place *place, pipeline_position *out);

/* As shoal_pipeline_next, but the rows themselves, of any kind. epoch, last: may be NULL. */
SHOAL_CHECKED shoal_status pipeline_next(shoal_pipeline *p, const rows_block **out, int64_t *epoch, bool *last);
/* Rows of one epoch of such a pipeline, bad ones included; a pass over the files that decodes nothing. */
SHOAL_CHECKED shoal_status pipeline_count_rows(const shoal_pipeline_options *options, int64_t *rows);
/* Of the rows that come out. */
void pipeline_schema(const shoal_pipeline *p, rows_schema *out);
const files_list *pipeline_files(const shoal_pipeline *p);
const format *pipeline_format(const shoal_pipeline *p); /* of the first file */
double pipeline_wait_seconds(const shoal_pipeline *p);
/* One pass over the rows in the order of the files, in batches of so many rows, or fewer of those that are large. */
SHOAL_CHECKED shoal_status pipeline_create_once(const shoal_pipeline_options *options, int64_t batch,
                                                int64_t batch_encoded, shoal_pipeline **out);

#endif
