/* Tables of results (shoal/sweep.h): made, and written as Markdown and CSV. */
#ifndef SHOAL_RUN_RESULT_TABLE_H
#define SHOAL_RUN_RESULT_TABLE_H

#include "base/status.h"
#include "base/text.h"
#include "shoal/sweep.h"

/* Without headings and with empty cells, which are set below. */
SHOAL_CHECKED shoal_status result_table_create(int rows, int columns, shoal_result_table **out);
/* column.head is copied, as is a cell. */
SHOAL_CHECKED shoal_status result_table_set_column(shoal_result_table *t, int c, shoal_result_column column);
SHOAL_CHECKED shoal_status result_table_set(shoal_result_table *t, int row, int c, const char *cell);

/* The heading in one line; returns buffer. */
#define RESULT_HEAD 64
const char *result_head(const shoal_result_column *c, char buffer[RESULT_HEAD]);
void result_table_to_markdown(const shoal_result_table *t, text *out);
void result_table_to_csv(const shoal_result_table *t, text *out);
/* A cell of a CSV line; in quotes where it must be. */
void csv_add_cell(text *out, const char *value, bool first);

#endif
