/* Tables for people (shoal/table.h): how the library makes them. Cells are set without a look at each: a table that
 * memory lacked for is refused by table_done. */
#ifndef SHOAL_BASE_TABLE_H
#define SHOAL_BASE_TABLE_H

#include "base/status.h"
#include "base/text.h"
#include "shoal/table.h"

/* With empty cells. columns [n_columns] with their headings are copied; NULL: they are set one by one, below. */
SHOAL_CHECKED shoal_status table_create(int rows, const shoal_result_column *columns, int n_columns,
                                        shoal_result_table **out);
/* column.head is copied. */
void table_set_column(shoal_result_table *t, int c, shoal_result_column column);
void table_drop_column(shoal_result_table *t, int c);

/* A cell: as printf writes it, */
void table_set(shoal_result_table *t, int row, int c, const char *format, ...) __attribute__((format(printf, 4, 5)));
void table_set_int(shoal_result_table *t, int row, int c, int64_t value);               /* 12,345 */
void table_set_number(shoal_result_table *t, int row, int c, double value, int digits); /* "-" for NaN */
void table_set_share(shoal_result_table *t, int row, int c, double value);              /* "98.12 %" */
void table_set_bytes(shoal_result_table *t, int row, int c, int64_t bytes);             /* "31.4 MB" */

/* The end of making one: *out is the table or, if `status` is an error or memory was short, it is destroyed. */
SHOAL_CHECKED shoal_status table_done(shoal_result_table *t, shoal_status status, shoal_result_table **out);

/* The heading in one line; returns buffer. */
#define TABLE_HEAD 64
const char *table_head(const shoal_result_column *c, char buffer[TABLE_HEAD]);
/* A cell of a CSV line; in quotes where it must be. */
void csv_add_cell(text *out, const char *value, bool first);

#endif
