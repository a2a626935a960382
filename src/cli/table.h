/* Tables of the library on the terminal. */
#ifndef SHOAL_CLI_TABLE_H
#define SHOAL_CLI_TABLE_H

#include "cli/util.h"
#include "shoal/table.h"

/* As wide as the terminal; takes the table, which `status`, of making it, says there is. all: where the columns are that
 * there was no room for, e.g. "--json"; NULL: none is spare. */
SHOAL_CHECKED shoal_status table_print(FILE *to, shoal_status status, shoal_result_table *t, const char *all);
/* The same as JSON. */
SHOAL_CHECKED shoal_status table_print_json(shoal_status status, shoal_result_table *t);
/* Prints JSON that the library has made, and frees it. */
SHOAL_CHECKED shoal_status json_print(shoal_status status, char *json);

/* Columns of the terminal behind `to`, or what COLUMNS says of a pipe's; 0: not known. */
int known_width(FILE *to);
/* The same for tables: 160 when it is not known. */
int terminal_width(FILE *to);

#endif
