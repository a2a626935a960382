#include "base/table.h"

#include "base/json_text.h"
#include "base/mem.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct {
  shoal_result_table shown; /* first: users have it by this */
  shoal_result_column *columns;
  char **cells;
  bool failed; /* a heading or cell is missing: memory was short */
} table;

shoal_status table_create(int rows, const shoal_result_column *columns, int n_columns, shoal_result_table **out) {
  table *t = calloc(1, sizeof *t);
  if (!t) return status_no_memory();
  t->columns = calloc((size_t)n_columns + 1, sizeof *t->columns);
  t->cells = calloc(mem_times((size_t)rows, (size_t)n_columns) + 1, sizeof *t->cells);
  if (!t->columns || !t->cells) {
    shoal_result_table_destroy(&t->shown);
    return status_no_memory();
  }
  t->shown = (shoal_result_table){t->columns, n_columns, (const char *const *)t->cells, rows};
  for (int c = 0; columns && c < n_columns; c++) table_set_column(&t->shown, c, columns[c]);
  for (int i = 0; i < rows * n_columns; i++) t->failed |= !(t->cells[i] = strdup(""));
  *out = &t->shown;
  return NULL;
}

void shoal_result_table_destroy(shoal_result_table *shown) {
  table *t = (table *)shown;
  if (!t) return;
  for (int c = 0; c < shown->n_columns; c++) free((char *)t->columns[c].head);
  for (int i = 0; i < shown->n_rows * shown->n_columns; i++) free(t->cells[i]);
  free(t->columns);
  free(t->cells);
  free(t);
}

shoal_status table_done(shoal_result_table *t, shoal_status status, shoal_result_table **out) {
  if (!status && ((table *)t)->failed) status = status_no_memory();
  if (status)
    shoal_result_table_destroy(t);
  else
    *out = t;
  return status;
}

void table_set_column(shoal_result_table *shown, int c, shoal_result_column column) {
  table *t = (table *)shown;
  free((char *)t->columns[c].head);
  column.head = strdup(column.head);
  t->failed |= !column.head;
  t->columns[c] = column;
}

void table_drop_column(shoal_result_table *shown, int c) {
  table *t = (table *)shown;
  const int columns = shown->n_columns;
  int kept = 0;
  for (int i = 0; i < shown->n_rows * columns; i++) {
    if (i % columns != c)
      t->cells[kept++] = t->cells[i];
    else
      free(t->cells[i]);
  }
  free((char *)t->columns[c].head);
  memmove(t->columns + c, t->columns + c + 1, (size_t)(columns - c - 1) * sizeof *t->columns);
  shown->n_columns--;
}

/* Takes `words`; NULL: memory was short. */
static void put(shoal_result_table *shown, int row, int c, char *words) {
  table *t = (table *)shown;
  char **cell = &t->cells[row * shown->n_columns + c];
  t->failed |= !words;
  if (!words) return;
  free(*cell);
  *cell = words;
}

void table_set(shoal_result_table *t, int row, int c, const char *format, ...) {
  va_list arguments;
  char *words = NULL;
  va_start(arguments, format);
  if (vasprintf(&words, format, arguments) < 0) words = NULL;
  va_end(arguments);
  put(t, row, c, words);
}

void table_set_int(shoal_result_table *t, int row, int c, int64_t value) {
  char buffer[GROUPED_TEXT];
  put(t, row, c, strdup(grouped_text(value, buffer)));
}

void table_set_number(shoal_result_table *t, int row, int c, double value, int digits) {
  char buffer[GROUPED_TEXT];
  put(t, row, c, strdup(isfinite(value) ? shoal_group_decimals(value, digits, buffer) : "-"));
}

void table_set_share(shoal_result_table *t, int row, int c, double value) {
  if (isfinite(value))
    table_set(t, row, c, "%.2f %%", 100 * value);
  else
    put(t, row, c, strdup("-"));
}

void table_set_bytes(shoal_result_table *t, int row, int c, int64_t bytes) {
  char buffer[GROUPED_TEXT];
  put(t, row, c, strdup(shoal_size_text(bytes, buffer)));
}

const char *table_head(const shoal_result_column *c, char buffer[TABLE_HEAD]) {
  snprintf(buffer, TABLE_HEAD, "%s", c->head);
  for (char *p = buffer; *p; p++)
    if (*p == '\n') *p = ' ';
  return buffer;
}

void shoal_result_table_markdown(const shoal_result_table *t, text *out) {
  char head[TABLE_HEAD];
  for (int c = 0; c < t->n_columns; c++) text_add(out, "| %s ", table_head(&t->columns[c], head));
  text_add(out, "|\n");
  for (int c = 0; c < t->n_columns; c++) text_add(out, t->columns[c].left ? "|---" : "|--:");
  text_add(out, "|\n");
  for (int r = 0; r < t->n_rows; r++) {
    for (int c = 0; c < t->n_columns; c++) text_add(out, "| %s ", t->cells[r * t->n_columns + c]);
    text_add(out, "|\n");
  }
}

shoal_status shoal_result_table_json(const shoal_result_table *t, char **out) {
  json_t *rows = json_array();
  char head[TABLE_HEAD];
  for (int r = 0; r < t->n_rows; r++) {
    json_t *row = json_object();
    for (int c = 0; c < t->n_columns; c++)
      json_object_set_new(row, table_head(&t->columns[c], head), json_string(t->cells[r * t->n_columns + c]));
    json_array_append_new(rows, row);
  }
  return json_text(rows, 0, out);
}

void csv_add_cell(text *out, const char *value, bool first) {
  if (!first) text_add_bytes(out, ",", 1);
  if (!strpbrk(value, ",\"\n\r")) {
    text_add_bytes(out, value, strlen(value));
    return;
  }
  text_add_bytes(out, "\"", 1);
  for (const char *p = value; *p; p++) text_add(out, *p == '"' ? "\"\"" : "%c", *p);
  text_add_bytes(out, "\"", 1);
}

void shoal_result_table_csv(const shoal_result_table *t, text *out) {
  char head[TABLE_HEAD];
  for (int c = 0; c < t->n_columns; c++) csv_add_cell(out, table_head(&t->columns[c], head), !c);
  text_add_bytes(out, "\n", 1);
  for (int r = 0; r < t->n_rows; r++) {
    for (int c = 0; c < t->n_columns; c++) csv_add_cell(out, t->cells[r * t->n_columns + c], !c);
    text_add_bytes(out, "\n", 1);
  }
}
