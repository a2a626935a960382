/* Writing rows to files: one row of the table in convert.c a kind of file.
 *
 * A writer makes PATH under a temporary name beside it and renames it when it is closed, so that a file under its final
 * name is whole. Sparse indices are written as they stand; dense rows go to sparse files as their non-zero numbers,
 * indices from 1 on. Sparse rows go to dense files as the columns first .. features - 1. */
#ifndef SHOAL_DATA_CONVERT_H
#define SHOAL_DATA_CONVERT_H

#include "data/rows.h"

typedef struct {
  rows_schema schema; /* of the rows to come; with `features` when sparse rows go to a dense file */
  int64_t first;      /* sparse to dense: the index of the first column, 0 or 1 */
} convert_options;

typedef struct row_writer row_writer;

typedef struct {
  const char *name;    /* "tfrecord" */
  const char *endings; /* of file names, separated by blanks: ".tfrecord .tfrecords" */
  bool dense;          /* rows are written as dense ones */
  shoal_status (*open)(const char *path, const convert_options *options, row_writer **out);
  shoal_status (*write)(row_writer *w, const rows_block *rows);
  shoal_status (*close)(row_writer *w); /* frees w whatever happens */
  void (*abandon)(row_writer *w);       /* removes what was written; NULL is fine */
} row_writer_kind;

const row_writer_kind *convert_at(size_t i); /* NULL past the end */
/* By name if that is given, else by the ending of `path`; ARGUMENT error that lists what is known. */
SHOAL_CHECKED shoal_status convert_find(const char *name, const char *path, const row_writer_kind **out);

/* The most columns a sparse row is spread over. */
#define CONVERT_COLUMNS_MAX (1 << 16)

#endif
