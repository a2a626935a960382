/* A small table on the terminal: columns side by side when they fit, otherwise one below the other. */
#ifndef SHOAL_CLI_TABLE_H
#define SHOAL_CLI_TABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define TABLE_CELL 64

typedef struct {
  const char *head; /* a newline in it splits it over two lines */
  bool left;        /* text; numbers stand to the right */
  char cell[TABLE_CELL];
} table_column;

/* columns [rows][count]: headings are those of the first row. width: columns of the terminal. */
void table_print(FILE *to, const table_column *columns, int rows, int count, int width);

/* Cells: 12,345; "-" for NaN. */
void table_set_text(table_column *c, const char *text);
void table_set_int(table_column *c, int64_t value);
void table_set_number(table_column *c, double value, int digits);
/* A share as "98.12 %". */
void table_set_share(table_column *c, double value);
/* "31.4 MB" */
void table_set_bytes(table_column *c, int64_t bytes);

/* 1234567 to "1,234,567"; returns buffer. */
#define GROUPED_TEXT 32
const char *grouped_text(int64_t value, char buffer[GROUPED_TEXT]);

/* Columns of the terminal behind `to`; 160 when there is none. */
int terminal_width(FILE *to);

#endif
