/* A CSV or TSV file that is open: its separator, header line, and which column is what. */
#ifndef SHOAL_DATA_CSV_FILE_H
#define SHOAL_DATA_CSV_FILE_H

#include "data/csv_columns.h"
#include "data/csv_text.h"

typedef struct csv_fit csv_fit;

typedef struct {
  const char *path; /* borrowed */
  csv_text in;
  csv_columns columns;
  size_t count;    /* of columns */
  char **names;    /* [count], or NULL without a header line */
  csv_role *roles; /* [count] */
  size_t *learned; /* [count] number of the column in `fit` whose place it takes; count of fit: none. NULL without */
  uint64_t first_byte; /* of the first row */
  int64_t first_line;
} csv_file;

/* separator 0: as the description says, or found out. fit: what was learned from the training rows, which then says which
 * column is what, by name where both have names; NULL: the description alone. Stands before the first row. */
SHOAL_CHECKED shoal_status csv_file_open(const char *path, char separator, const char *description, const csv_fit *fit,
                                         csv_labels labels, csv_file *out);
void csv_file_close(csv_file *f);
/* Stands before the first row again. */
SHOAL_CHECKED shoal_status csv_file_rewind(csv_file *f);
/* The label's column; the count of columns: there is none, or there are several (CSV_HOT). */
size_t csv_file_label(const csv_file *f);
bool csv_file_has(const csv_file *f, csv_role role);
/* "column 4 ('species')" */
#define CSV_COLUMN_TEXT 128
const char *csv_file_column(const csv_file *f, size_t column, char out[CSV_COLUMN_TEXT]);
SHOAL_CHECKED shoal_status csv_no_rows(const csv_file *f);

#endif
