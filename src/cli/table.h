/* A small table on the terminal. Columns that do not fit beside the others follow below them, each time after the first
 * one, which names the row; a single row then stands upright, a line a column. */
#ifndef SHOAL_CLI_TABLE_H
#define SHOAL_CLI_TABLE_H

#include "cli/util.h"

#define TABLE_CELL 64

typedef struct {
  const char *head; /* a newline in it splits it over two lines */
  bool left;        /* text; numbers stand to the right */
  char cell[TABLE_CELL];
} table_column;

/* columns [rows][count]: headings are those of the first row. width: columns of the terminal. */
void table_print(FILE *to, const table_column *columns, int rows, int count, int width);

/* Cells: 12,345; "-" for NaN. */
void table_set_text(table_column *c, const char *words);
void table_set_int(table_column *c, int64_t value);
void table_set_number(table_column *c, double value, int digits);
/* A share as "98.12 %". */
void table_set_share(table_column *c, double value);
/* "31.4 MB" */
void table_set_bytes(table_column *c, int64_t bytes);

/* Takes columns out until the rest fits: of those whose `spare` is not 0 the highest first. Returns their headings, with
 * commas, for the caller to free; NULL: all fit. spare [count] changes with the columns. */
char *table_fit(table_column *columns, int *spare, int rows, int *count, int width);

/* Columns of the terminal behind `to`, or what COLUMNS says of a pipe's; 0: not known. */
int known_width(FILE *to);
/* The same for tables: 160 when it is not known. */
int terminal_width(FILE *to);

#endif
