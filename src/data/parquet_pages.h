/* The values of one column of a Parquet file, one after the other: pages are read, decompressed and decoded as they are
 * needed, so memory holds a page and a dictionary at a time. */
#ifndef SHOAL_DATA_PARQUET_PAGES_H
#define SHOAL_DATA_PARQUET_PAGES_H

#include "data/parquet_footer.h"

/* The file's bytes; fills `out` wholly or fails. */
typedef struct {
  shoal_status (*read)(void *context, uint64_t offset, size_t n, uint8_t *out);
  void *context;
  const char *name; /* for messages */
} parquet_bytes;

/* Runs of equal numbers and packed ones, as indices and levels are written. */
typedef struct {
  const uint8_t *at, *end;
  int bits;      /* of a number */
  uint64_t left; /* of this run */
  bool packed;
  uint32_t value;       /* of a run of equal ones */
  const uint8_t *group; /* packed: its first byte */
  uint64_t done;        /* numbers of the packed run taken */
} parquet_runs;

typedef struct {
  const uint8_t *at;
  size_t n;
} parquet_slice;

typedef struct {
  const parquet_bytes *file;
  const parquet_column *column;
  parquet_chunk chunk; /* offset and bytes are of what is left */
  int64_t page_left;   /* values of the page, missing ones included */
  int encoding;
  parquet_runs levels; /* of an optional column: 1 where there is a value */
  bool has_levels;
  parquet_runs indices;           /* into the dictionary, or truth values */
  const uint8_t *at, *end;        /* plain values */
  int64_t bit;                    /* plain truth values: the next */
  uint8_t *packed, *page, *words; /* as read; decompressed; the dictionary's page. Owned */
  size_t packed_room, page_room;
  parquet_slice *dictionary; /* [dictionary_count], into `words`; owned */
  uint32_t dictionary_count;
} parquet_cursor;

/* Begins with a group's values. Borrows file and column. What it held before is freed. */
void parquet_cursor_begin(parquet_cursor *c, const parquet_bytes *file, const parquet_column *column,
                          const parquet_chunk *chunk);
/* The next value: its bytes, as PLAIN encoding has them (of PARQUET_BYTES without the length, of PARQUET_BOOLEAN one byte, 0 or
 * 1), until the next call. out->at is NULL: it is missing. */
SHOAL_CHECKED shoal_status parquet_cursor_next(parquet_cursor *c, parquet_slice *out);
void parquet_cursor_fini(parquet_cursor *c);

#endif
