#include "cli/sweep_result.h"

#include "cli/util.h"

#include "cli/say.h"
#include "cli/table.h"

#include <math.h>
#include <string.h>

typedef enum { COUNT, SHARE, SHORT, DECIMALS, WORD } figure_form;

/* What is told of each combination. */
static const struct {
  const char *key, *head;
  figure_form form;
  int digits;   /* DECIMALS: after the point */
  bool spreads; /* differs between repeats */
  const char *with; /* shown only where this figure was measured, too; NULL: always */
  int spare;    /* where the terminal is narrow the highest go first; 0: stays */
} figures[] = {
    {"global_batch", "global\nbatch", COUNT, .spare = 3},
    {"updates", "updates", COUNT, .spare = 4},
    {"effective_learning_rate", "effective\nlr", SHORT, .spare = 5},
    {"schedule", "schedule", WORD, .spare = 6},
    {"seconds", "seconds", DECIMALS, 2, .spreads = true},
    {"examples_per_second", "examples/s", COUNT, .spreads = true, .spare = 1},
    {"final_loss", "final\nloss", DECIMALS, 4, .spreads = true, .spare = 2},
    {"test_accuracy", "test\naccuracy", SHARE, .spreads = true, .with = "test_accuracy"},
    {"test_loss", "test\nlog loss", DECIMALS, 5, .spreads = true, .with = "test_auc"},
    {"test_auc", "test\nAUC", DECIMALS, 5, .spreads = true, .with = "test_auc"},
    {"test_rmse", "test\nRMSE", DECIMALS, 4, .spreads = true, .with = "test_rmse"},
    {"test_r2", "test\nR2", DECIMALS, 4, .spreads = true, .with = "test_r2"},
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

/* The same in all repeats. */
static void show_word(const json_t *summary, const char *key, char cell[TABLE_CELL]) {
  const char *word = json_string_value(json_object_get(summary, key));
  snprintf(cell, TABLE_CELL, "%s", word ? word : "-");
}

static void show(figure f, int i, char cell[TABLE_CELL]) {
  const figure_form form = figures[i].form;
  table_column c = {"", false, ""};
  if (!isfinite(f.mean)) table_set_text(&c, "-");
  else if (form == COUNT) table_set_int(&c, (int64_t)(f.mean + 0.5));
  else if (form == SHARE) table_set_share(&c, f.mean);
  else if (form == SHORT) snprintf(c.cell, TABLE_CELL, "%.6g", f.mean);
  else table_set_number(&c, f.mean, figures[i].digits);
  if (!figures[i].spreads || !isfinite(f.spread))
    snprintf(cell, TABLE_CELL, "%s", c.cell);
  else if (form == SHARE)
    snprintf(cell, TABLE_CELL, "%.2f +- %.2f %%", 100 * f.mean, 100 * f.spread);
  else
    snprintf(cell, TABLE_CELL, "%.40s +- %.*f", c.cell, figures[i].digits, f.spread);
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
      const char *word = json_string_value(value);
      add_cell(&out, word ? word : json_is_number(value) ? number : "", false);
    }
    add_cell(&out, b->runs[i].error ? b->runs[i].error : "", false);
  }
  text_add(&out, "\n");
  char *path;
  shoal_status status = asprintf(&path, "%s/results.csv", b->folder) < 0 ? status_no_memory() : NULL;
  if (!status) {
    status = shoal_text_write(&out, path);
    free(path);
  }
  text_fini(&out);
  return status;
}

static shoal_status write_markdown(const table_column *cells, int rows, int columns, const batch *b) {
  text out = {0};
  char head[TABLE_CELL];
  for (int c = 0; c < columns; c++) text_add(&out, "| %s ", table_head(&cells[c], head));
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
    status = shoal_text_write(&out, path);
    free(path);
  }
  text_fini(&out);
  return status;
}

/* The axes, then figures. */
typedef struct {
  table_column *cells; /* [rows][columns] */
  int *spare;          /* [columns] as table_fit takes it */
  int rows, columns;
} result_table;

static bool has_figure(const batch *b, const char *key) {
  for (size_t i = 0; i < b->count; i++)
    if (json_is_number(json_object_get(b->runs[i].summary, key))) return true;
  return false;
}

static void free_table(result_table *t) {
  free(t->cells);
  free(t->spare);
}

static shoal_status make_table(const sweep_grid *g, int repeats, const batch *b, result_table *out) {
  int shown[FIGURES], count = 0, axes = g->axes_count;
  for (int i = 0; i < FIGURES; i++)
    if (!figures[i].with || has_figure(b, figures[i].with)) shown[count++] = i;
  result_table t = {.rows = g->cells, .columns = axes + count};
  t.cells = calloc((size_t)(t.rows * t.columns), sizeof *t.cells);
  t.spare = calloc((size_t)t.columns, sizeof *t.spare);
  if (!t.cells || !t.spare) {
    free_table(&t);
    return status_no_memory();
  }
  for (int k = 0; k < count; k++) t.spare[axes + k] = figures[shown[k]].spare;
  for (int cell = 0; cell < t.rows; cell++) {
    table_column *row = t.cells + cell * t.columns;
    for (int a = 0; a < axes; a++) {
      const flag_row *flag = g->flags[g->axes[a]].flag;
      row[a] = (table_column){.head = flag->name, .left = flag->kind != FLAG_INT && flag->kind != FLAG_NUMBER};
      table_set_text(&row[a], sweep_grid_value(g, cell, a));
    }
    for (int k = 0; k < count; k++) {
      table_column *c = &row[axes + k];
      const size_t from = (size_t)cell * (size_t)repeats;
      const char *key = figures[shown[k]].key;
      const bool word = figures[shown[k]].form == WORD;
      *c = (table_column){.head = figures[shown[k]].head, .left = word};
      if (word)
        show_word(b->runs[from].summary, key, c->cell);
      else
        show(gather(b, from, repeats, key), shown[k], c->cell);
    }
  }
  *out = t;
  return NULL;
}

/* All combinations in one table, as wide as the terminal; says which figures it has no room for. */
static void print_table(result_table *t, const batch *b, FILE *to) {
  int width = terminal_width(to);
  char *gone = table_fit(t->cells, t->spare, t->rows, &t->columns, width);
  fputc('\n', to);
  table_print(to, t->cells, t->rows, t->columns, width);
  if (gone) say(to, "\nNot shown for want of room: %s. %s/results.csv has all.\n", gone, b->folder);
  free(gone);
}

shoal_status sweep_result_write(const sweep_grid *g, int repeats, const batch *b, FILE *to) {
  result_table t;
  TRY(make_table(g, repeats, b, &t));
  shoal_status status = write_markdown(t.cells, t.rows, t.columns, b);
  print_table(&t, b, to);
  if (!status) status = write_csv(g, repeats, b);
  free_table(&t);
  return status;
}
