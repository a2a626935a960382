/** @file
 * Tables for people: figures as text in rows and columns, as `shoal` prints them. Functions of other headers make them;
 * those here lay them out for a terminal or write them down for other programs. Any thread. */
#ifndef SHOAL_TABLE_H
#define SHOAL_TABLE_H

#include "shoal/text.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A column of a table. */
typedef struct {
  const char *head;    /**< a newline in it: where to break it */
  bool left;           /**< text; numbers stand to the right */
  int spare;           /**< where room is short the highest go first; 0: stays */
  int64_t reserved[2]; /**< 0 */
} shoal_result_column;

/** Results for people, as text. Everything in it lives until shoal_result_table_destroy. */
typedef struct {
  const shoal_result_column *columns; /**< [n_columns] */
  int n_columns;                      /**< of them */
  const char *const *cells;           /**< [n_rows, n_columns]; "-": not measured */
  int n_rows;                         /**< of them */
} shoal_result_table;

/** Frees it with all in it. NULL is fine. */
SHOAL_API void shoal_result_table_destroy(shoal_result_table *t);

/** Adds the table to `out`, in lines of at most `width` characters where that can be. Columns that are spare are left
 * out when there is no room for them; others that do not fit beside the rest follow below, each time after the first
 * column, which names the row; a single row then stands upright, a line a column. *left_out: the headings of those left
 * out, separated by commas, the caller frees it; NULL: none. left_out may be NULL. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_result_table_text(const shoal_result_table *t, int width, shoal_text *out,
                                                             char **left_out);
/** Adds it as a table of Markdown. */
SHOAL_API void shoal_result_table_markdown(const shoal_result_table *t, shoal_text *out);
/** As a JSON array with an object a row: texts by the headings, in one line each. *out: the caller frees it. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_result_table_json(const shoal_result_table *t, char **out);
/** Adds it as CSV (RFC 4180), the headings first. */
SHOAL_API void shoal_result_table_csv(const shoal_result_table *t, shoal_text *out);

#ifdef __cplusplus
}
#endif
#endif
