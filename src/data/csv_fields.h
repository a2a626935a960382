/* Columns of a table as fields of sparse rows, for models of click logs: what the words field=... of a description
 * (csv_columns.h) say. Fields are numbered in the order of these words; other columns are left out.
 *   field=COLUMN              a word: an entry of value 1
 *   field=COLUMN:number       a number: an entry with it as value
 *   field=COLUMN:log          the same with sign(x) log2(1 + |x|)
 *   field=COLUMN:standardise  the same with (x - mean) / spread of the training rows
 *   field=COLUMN:buckets:1|5  a number as a word: below 1, from 1 on, from 5 on
 *   field=COLUMN:split:;      several words, with this character (without it "|") between them, an entry each
 *   field=A*B                 a cross: the words of two columns together are one
 * A value that is missing has no entry.
 *
 * Number field f has index 1 + f, words are hashed to the indices behind those of all fields. Words of a row that meet are
 * one entry with the sum of their values. */
#ifndef SHOAL_DATA_CSV_FIELDS_H
#define SHOAL_DATA_CSV_FIELDS_H

#include "data/csv_file.h"
#include "data/csv_fit.h"

#define CSV_FIELDS_FEATURES (1 << 20) /* unless the caller says otherwise */

typedef struct {
  int32_t index, field;
  float value;
} csv_entry;

/* A row being made. */
typedef struct {
  char (*cells)[CSV_FIELD]; /* [columns] of the file, as they stand there */
  csv_entry *entries;       /* by index */
  size_t count, capacity;
  size_t *columns; /* [2 * fields] where the file has them */
  int64_t features;
} csv_fields_row;

/* f: open; stays so as long as the row is in use. */
SHOAL_CHECKED shoal_status csv_fields_open(const csv_file *f, int64_t features, csv_fields_row *out);
void csv_fields_close(csv_fields_row *r);
/* Entries of the cells. why [room]: what is wrong, in column *column; empty when nothing is. fit: what was learned. */
SHOAL_CHECKED shoal_status csv_fields_make(csv_fields_row *r, const csv_file *f, const csv_fit *fit, size_t *column,
                                           char *why, size_t room);

#endif
