/* Formats of files of rows: each is one file of code that defines a `format`, and one line in the table in format.c. */
#ifndef SHOAL_DATA_FORMAT_H
#define SHOAL_DATA_FORMAT_H

#include "data/class_names.h"
#include "data/rows.h"
#include "shoal/pipeline.h"

typedef struct {
  int64_t features;         /* ROWS_SPARSE: size of the feature space; 0: the format's own or found from the data */
  int classes;              /* 0: found from the data */
  const class_names *names; /* of the classes, where labels are words; NULL: those in the file. Borrowed */
  const struct preprocessing *learned; /* from the training rows, borrowed; NULL: each file by itself */
  const char *columns;                 /* CSV, TSV: which column is what; NULL: the format's standard (see csv.c) */
  const char *lookups;                 /* the same: columns whose words have numbers already (csv_fit.h); NULL: none */
  const char *fields;   /* TFRecord: names of the features that hold label, index, value; NULL: "label,index,value" */
  bool labels_optional; /* a row without a label has -1 */
  bool any_index;       /* sparse rows: indices from `features` on are no bad rows */
  bool ids;             /* sparse rows: the feature space has no end, entries have 64-bit ids */
  int64_t row_size;     /* dense rows: numbers in a row as the caller expects them, from which a missing label shows;
                        * 0: not known */
  bool no_checksums;    /* TFRecord: do not check CRCs */
  bool real_labels;     /* NumPy: labels are numbers to be predicted, several a row included, whatever their type */
  const shoal_row_source *source; /* rows of the program's own (memory_rows.c), borrowed; NULL: files */
} format_options;

/* Where a reader stands: enough to go on from there after a restart. */
typedef struct {
  int64_t record;  /* rows before this one in the file */
  uint64_t offset; /* of its first byte (in the decompressed stream); formats that have none keep it 0 */
} file_position;

typedef struct format format;

/* An open file (or folder). Formats embed this first in a struct of their own. */
typedef struct {
  const format *format;
  char *path; /* owned */
  /* After read() failed with SHOAL_ERR_INPUT: the reader stands behind the bad row and read() may be called again. */
  bool can_go_on;
} file_reader;

struct format {
  const char *name;    /* "tfrecord" */
  const char *summary; /* one line for `shoal data list` */
  /* Does it look like this format? `head`: its first bytes (decompressed when it is gzip or zlib), n of them at most
   * 4096; n is 0 for a folder, and for a name that is no path. */
  bool (*detect)(const char *path, const uint8_t *head, size_t n, bool folder);
  /* Opens and learns the schema (classes and features may stay 0). *out is closed with close(). */
  shoal_status (*open)(const char *path, const format_options *options, file_reader **out);
  void (*schema)(const file_reader *r, rows_schema *out);
  /* Appends up to `most` rows to `into`, whose schema is this reader's. *got is how many; 0 only at the end of the
   * file. A bad row: SHOAL_ERR_INPUT with file, record number, byte offset, what was expected and what to do; the rows
   * before it have been appended and are counted in *got. */
  shoal_status (*read)(file_reader *r, int64_t most, rows_block *into, int64_t *got);
  /* Passes over up to `rows` rows as cheaply as the format allows; *got is how many there were. */
  shoal_status (*skip)(file_reader *r, int64_t rows, int64_t *got);
  void (*tell)(const file_reader *r, file_position *out);
  shoal_status (*seek)(file_reader *r, const file_position *to);
  void (*close)(file_reader *r); /* NULL is fine */
  /* The names of its classes, borrowed: those of the options or, without them, those in this file; NULL: labels are
   * numbers. NULL as a slot: they always are. */
  const class_names *(*names)(const file_reader *r);
  /* Learns from all training files what makes numbers of their columns. NULL as a slot: there is nothing to learn. */
  shoal_status (*fit)(char *const *paths, size_t n, const format_options *options, struct preprocessing *out);
  /* The row's own file inside a folder, borrowed; NULL as a slot: rows have none. */
  const char *(*row_name)(const file_reader *r, int64_t record);
};

/* Rows of format_options.source; not in the table, since no file has it. */
extern const format format_memory;

const format *format_find(const char *name); /* NULL: none */
const format *format_at(size_t i);           /* NULL past the end */
/* By content, then by name; INPUT error that lists what is known when nothing fits, or when the path cannot be read. */
SHOAL_CHECKED shoal_status format_detect(const char *path, const format **out);

/* For the formats' own files: "path: record 12 at byte 3456: <message>". Takes nothing. */
shoal_status format_bad_row(const file_reader *r, int64_t record, uint64_t offset, const char *message, ...)
    __attribute__((format(printf, 4, 5)));

#endif
