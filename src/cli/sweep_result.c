#include "cli/sweep_result.h"

#include "base/mem.h"
#include "cli/table.h"

#include <math.h>
#include <string.h>

/* What is told of each combination. */
static const struct {
  const char *key, *head;
  int digits;     /* -1: a whole number, grouped; -2: a share; -3: as short as it goes */
  bool spreads;   /* differs between repeats */
} figures[] = {
    {"global_batch", "global\nbatch", -1, false},   {"updates", "updates", -1, false},
    {"effective_learning_rate", "effective\nlr", -3, false}, {"seconds", "seconds", 2, true},
    {"examples_per_second", "examples/s", -1, true}, {"final_loss", "final\nloss", 4, true},
    {"test_accuracy", "test\naccuracy", -2, true},
};
enum { FIGURES = COUNT_OF(figures) };

typedef struct {
  double mean, spread; /* NaN: not measured; the standard deviation */
} figure;

static figure gather(const batch *b, size_t from, int repeats, const char *key) {
  double sum = 0, squares = 0;
  int n = 0;
  for (int k = 0; k < repeats; k++) {
    const json_t *value = json_object_get(b->runs[from + (size_t)k].summary, key);
    if (!json_is_number(value)) continue;
    sum += json_number_value(value);
    n++;
  }
  if (!n) return (figure){NAN, NAN};
  double mean = sum / n;
  for (int k = 0; k < repeats; k++) {
    const json_t *value = json_object_get(b->runs[from + (size_t)k].summary, key);
    if (json_is_number(value)) squares += (json_number_value(value) - mean) * (json_number_value(value) - mean);
  }
  return (figure){mean, n > 1 ? sqrt(squares / (n - 1)) : NAN};
}

static void show(figure f, int digits, bool spreads, char cell[TABLE_CELL]) {
  char number[GROUPED_TEXT];
  table_column c = {"", false, ""};
  if (!isfinite(f.mean)) table_set_text(&c, "-");
  else if (digits == -1) table_set_text(&c, grouped_text((int64_t)(f.mean + 0.5), number));
  else if (digits == -2) table_set_share(&c, f.mean);
  else if (digits == -3) snprintf(c.cell, TABLE_CELL, "%.6g", f.mean);
  else table_set_number(&c, f.mean, digits);
  if (!spreads || !isfinite(f.spread))
    snprintf(cell, TABLE_CELL, "%s", c.cell);
  else if (digits == -2)
    snprintf(cell, TABLE_CELL, "%.2f +- %.2f %%", 100 * f.mean, 100 * f.spread);
  else
    snprintf(cell, TABLE_CELL, "%.40s +- %.*f", c.cell, digits > 0 ? digits : 0, f.spread);
}

/* A cell of a CSV line; in quotes where it must be. */
static void add_cell(text *out, const char *value, bool first) {
  if (!first) text_add_bytes(out, ",", 1);
  if (!strpbrk(value, ",\"\n\r")) {
    text_add_bytes(out, value, strlen(value));
    return;
  }
  text_add_bytes(out, "\"", 1);
  for (const char *p = value; *p; p++) text_add(out, *p == '"' ? "\"\"" : "%c", *p);
  text_add_bytes(out, "\"", 1);
}

/* A line a run, with the numbers as they are. */
static shoal_status write_csv(const sweep_grid *g, int repeats, const batch *b) {
  text out = {0};
  add_cell(&out, "run", true);
  for (int a = 0; a < g->axes_count; a++) add_cell(&out, g->flags[g->axes[a]].flag->name, false);
  add_cell(&out, "repeat", false);
  for (int i = 0; i < FIGURES; i++) add_cell(&out, figures[i].key, false);
  add_cell(&out, "error", false);
  for (size_t i = 0; i < b->count; i++) {
    text_add(&out, "\n");
    char number[64];
    add_cell(&out, b->runs[i].name, true);
    for (int a = 0; a < g->axes_count; a++) add_cell(&out, sweep_grid_value(g, (int)(i / (size_t)repeats), a), false);
    snprintf(number, sizeof number, "%d", (int)(i % (size_t)repeats) + 1);
    add_cell(&out, number, false);
    for (int k = 0; k < FIGURES; k++) {
      const json_t *value = json_object_get(b->runs[i].summary, figures[k].key);
      snprintf(number, sizeof number, "%.9g", json_number_value(value));
      add_cell(&out, json_is_number(value) ? number : "", false);
    }
    add_cell(&out, b->runs[i].error ? b->runs[i].error : "", false);
  }
  text_add(&out, "\n");
  char *path;
  shoal_status status = asprintf(&path, "%s/results.csv", b->folder) < 0 ? status_no_memory() : NULL;
  if (!status) {
    status = text_write_file(&out, path);
    free(path);
  }
  text_fini(&out);
  return status;
}

static shoal_status write_markdown(const table_column *cells, int rows, int columns, const batch *b) {
  text out = {0};
  for (int c = 0; c < columns; c++) {
    text_add(&out, "| ");
    for (const char *p = cells[c].head; *p; p++) text_add(&out, "%c", *p == '\n' ? ' ' : *p);
    text_add(&out, " ");
  }
  text_add(&out, "|\n");
  for (int c = 0; c < columns; c++) text_add(&out, cells[c].left ? "|---" : "|--:");
  text_add(&out, "|\n");
  for (int r = 0; r < rows; r++) {
    for (int c = 0; c < columns; c++) text_add(&out, "| %s ", cells[r * columns + c].cell);
    text_add(&out, "|\n");
  }
  char *path;
  shoal_status status = asprintf(&path, "%s/results.md", b->folder) < 0 ? status_no_memory() : NULL;
  if (!status) {
    status = text_write_file(&out, path);
    free(path);
  }
  text_fini(&out);
  return status;
}

shoal_status sweep_result_write(const sweep_grid *g, int repeats, const batch *b, FILE *to) {
  int columns = g->axes_count + FIGURES;
  table_column *cells = calloc((size_t)(g->cells * columns), sizeof *cells);
  if (!cells) return status_no_memory();
  for (int cell = 0; cell < g->cells; cell++) {
    table_column *row = cells + cell * columns;
    for (int a = 0; a < g->axes_count; a++) {
      const flag_row *flag = g->flags[g->axes[a]].flag;
      row[a] = (table_column){.head = flag->name, .left = flag->kind != FLAG_INT && flag->kind != FLAG_NUMBER};
      table_set_text(&row[a], sweep_grid_value(g, cell, a));
    }
    for (int i = 0; i < FIGURES; i++) {
      table_column *c = &row[g->axes_count + i];
      *c = (table_column){.head = figures[i].head};
      show(gather(b, (size_t)cell * (size_t)repeats, repeats, figures[i].key), figures[i].digits, figures[i].spreads,
           c->cell);
    }
  }
  fputc('\n', to);
  table_print(to, cells, g->cells, columns, terminal_width(to));
  shoal_status status = write_markdown(cells, g->cells, columns, b);
  if (!status) status = write_csv(g, repeats, b);
  free(cells);
  return status;
}
