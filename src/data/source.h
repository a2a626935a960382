/* Rows of one worker's shard, epoch after epoch, in the order of the files.
 *
 * 1. In each epoch every row of the files belongs to exactly one of the `shards` workers.
 * 2. With at least as many files as workers, whole files are dealt out: worker w gets the files w, w + N, ... of the
 *    epoch's order. Otherwise all workers go through all files, and row r of the epoch is worker r mod N's.
 * 3. Labels that are words have the numbers of one dictionary over all files, also those of other workers.
 * 4. The order of the files is that of the list or, with `shuffle`, a permutation made from seed and epoch, the same
 *    for all workers. */
#ifndef SHOAL_DATA_SOURCE_H
#define SHOAL_DATA_SOURCE_H

#include "base/text.h"
#include "data/files.h"
#include "data/preprocessing.h"

typedef struct {
  const char *files, *format; /* borrowed while the source is made */
  format_options options;     /* its texts are borrowed as long as the source lives; not its names: */
  const char *const *names;   /* of the classes, ended by NULL, copied; NULL: those found in the files */
  int shard, shards;
  bool shuffle;
  uint64_t seed;
  bool skip_bad;
} source_options;

/* Where it stands: the next row is found again from this. */
typedef struct {
  int64_t epoch;
  int64_t file;      /* files of the shard that are done */
  int64_t base;      /* rows of the files before, when rows are dealt out */
  file_position at;  /* in the file under way */
  int64_t seen, bad; /* rows of the shard looked at, and those of them passed over as bad, since the first epoch */
} source_position;

typedef struct {
  files_list files;
  const format *forced; /* NULL: found out for each file */
  format_options options;
  preprocessing learned; /* from the files, unless the options have it */
  class_names names;     /* of the classes in all files; none: labels are numbers */
  int shard, shards;
  bool by_row, shuffle, skip_bad;
  uint64_t seed;
  rows_schema schema; /* of the first file; all others must fit */
  const format *first_format;
  int32_t *order;           /* [files.count] of the epoch under way */
  source_position position; /* `at` counts only while no reader is open */
  file_reader *reader;      /* NULL: the next file is to be opened */
} source;

/* Finds the files and reads the head of the first one. */
SHOAL_CHECKED shoal_status source_init(source *s, const source_options *options);
void source_fini(source *s);
/* Appends up to `most` rows; *got 0: the epoch is over. On an error *got rows have been appended before it. */
SHOAL_CHECKED shoal_status source_read(source *s, int64_t most, rows_block *into, int64_t *got);
/* The first row of the epoch. */
void source_begin(source *s, int64_t epoch);
void source_tell(const source *s, source_position *out);
SHOAL_CHECKED shoal_status source_seek(source *s, const source_position *to);
/* Passes over all rows of the epoch under way, as cheaply as the formats allow; *rows is how many this shard has. */
SHOAL_CHECKED shoal_status source_count(source *s, int64_t *rows);
/* Looks for the first row with the same bytes as row i of b, going through all files: "file: record 12 at byte 3456".
 * For messages only, and slow. Another thread may be reading from the source. *out is released with text_fini. */
SHOAL_CHECKED shoal_status source_find_row(const source *s, const rows_block *b, int64_t i, text *out);
/* Path of the file under way, for messages; "" between files. */
const char *source_path(const source *s);

/* Are there more bad rows than a run bears? */
#define BAD_ROWS_FROM 1000 /* rows before the share of bad ones means something */
static inline bool source_too_bad(int64_t seen, int64_t bad) { return bad * 100 > seen; }

#endif
