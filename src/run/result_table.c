#include "run/result_table.h"

#include "base/mem.h"

#include <stdio.h>
#include <string.h>

shoal_status result_table_create(int rows, int columns, shoal_result_table **out) {
  shoal_result_table *t = calloc(1, sizeof *t);
  if (!t) return status_no_memory();
  *t = (shoal_result_table){.columns = calloc((size_t)columns + 1, sizeof *t->columns),
                            .n_columns = columns,
                            .cells = calloc(mem_times((size_t)rows, (size_t)columns) + 1, sizeof *t->cells),
                            .n_rows = rows};
  if (!t->columns || !t->cells) {
    t->n_columns = 0;
    shoal_result_table_destroy(t);
    return status_no_memory();
  }
  *out = t;
  return NULL;
}

void shoal_result_table_destroy(shoal_result_table *t) {
  if (!t) return;
  for (int c = 0; c < t->n_columns; c++) free((char *)t->columns[c].head);
  for (int i = 0; i < t->n_rows * t->n_columns; i++) free((char *)t->cells[i]);
  free((shoal_result_column *)t->columns);
  free((const char **)t->cells);
  free(t);
}

shoal_status result_table_set_column(shoal_result_table *t, int c, shoal_result_column column) {
  column.head = strdup(column.head);
  ((shoal_result_column *)t->columns)[c] = column;
  return column.head ? NULL : status_no_memory();
}

shoal_status result_table_set(shoal_result_table *t, int row, int c, const char *cell) {
  const char *copy = strdup(cell);
  ((const char **)t->cells)[row * t->n_columns + c] = copy;
  return copy ? NULL : status_no_memory();
}

const char *result_head(const shoal_result_column *c, char buffer[RESULT_HEAD]) {
  snprintf(buffer, RESULT_HEAD, "%s", c->head);
  for (char *p = buffer; *p; p++)
    if (*p == '\n') *p = ' ';
  return buffer;
}

void result_table_to_markdown(const shoal_result_table *t, text *out) {
  char head[RESULT_HEAD];
  for (int c = 0; c < t->n_columns; c++) text_add(out, "| %s ", result_head(&t->columns[c], head));
  text_add(out, "|\n");
  for (int c = 0; c < t->n_columns; c++) text_add(out, t->columns[c].left ? "|---" : "|--:");
  text_add(out, "|\n");
  for (int r = 0; r < t->n_rows; r++) {
    for (int c = 0; c < t->n_columns; c++) text_add(out, "| %s ", t->cells[r * t->n_columns + c]);
    text_add(out, "|\n");
  }
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

void result_table_to_csv(const shoal_result_table *t, text *out) {
  char head[RESULT_HEAD];
  for (int c = 0; c < t->n_columns; c++) csv_add_cell(out, result_head(&t->columns[c], head), !c);
  text_add_bytes(out, "\n", 1);
  for (int r = 0; r < t->n_rows; r++) {
    for (int c = 0; c < t->n_columns; c++) csv_add_cell(out, t->cells[r * t->n_columns + c], !c);
    text_add_bytes(out, "\n", 1);
  }
}
