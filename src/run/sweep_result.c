/* What a sweep came to: results.csv, results.md and the table. */
#include "base/mem.h"
#include "base/table.h"
#include "run/sweep.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define CELL_TEXT 96

typedef enum { COUNT, SHARE, SHORT, DECIMALS, WORD } figure_form;

/* What is told of each combination. */
static const struct {
  const char *key, *head;
  figure_form form;
  int digits;       /* DECIMALS: after the point */
  bool spreads;     /* differs between repeats */
  const char *with; /* shown only where this figure was measured, too; NULL: always */
  int spare;        /* as in shoal_result_column */
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

/* ---- figures */

static size_t first_run(const shoal_sweep *s, int cell) { return (size_t)cell * (size_t)s->repeats; }

shoal_figure shoal_sweep_figure(const shoal_sweep *s, int combination, const char *key) {
  const size_t from = first_run(s, combination), to = from + (size_t)s->repeats;
  double sum = 0, squares = 0;
  int n = 0;
  for (size_t i = from; i < to; i++) {
    const double value = shoal_run_list_number(s->runs, i, key);
    if (isnan(value)) continue;
    sum += value;
    n++;
  }
  if (!n) return (shoal_figure){NAN, NAN};
  const double mean = sum / n;
  for (size_t i = from; i < to; i++) {
    const double value = shoal_run_list_number(s->runs, i, key);
    if (!isnan(value)) squares += (value - mean) * (value - mean);
  }
  return (shoal_figure){mean, n > 1 ? sqrt(squares / (n - 1)) : NAN};
}

static void show(shoal_figure f, int i, char cell[CELL_TEXT]) {
  const figure_form form = figures[i].form;
  const bool spreads = figures[i].spreads && isfinite(f.spread);
  char digits[GROUPED_TEXT];
  if (!isfinite(f.mean)) {
    snprintf(cell, CELL_TEXT, "-");
    return;
  }
  if (form == SHARE) {
    if (spreads)
      snprintf(cell, CELL_TEXT, "%.2f +- %.2f %%", 100 * f.mean, 100 * f.spread);
    else
      snprintf(cell, CELL_TEXT, "%.2f %%", 100 * f.mean);
    return;
  }
  int n = form == SHORT ? snprintf(cell, CELL_TEXT, "%.6g", f.mean)
                        : snprintf(cell, CELL_TEXT, "%s", shoal_group_decimals(f.mean, figures[i].digits, digits));
  if (spreads)
    snprintf(cell + n, CELL_TEXT - (size_t)n, " +- %s", shoal_group_decimals(f.spread, figures[i].digits, digits));
}

/* A word of the summary, the same in all repeats that have one; NULL: none has. */
static const char *word_of(const shoal_sweep *s, int cell, const char *key) {
  const size_t from = first_run(s, cell), to = from + (size_t)s->repeats;
  const char *word = NULL;
  for (size_t i = from; i < to && !word; i++)
    word = json_string_value(json_object_get(run_list_summary(s->runs, i), key));
  return word;
}

static void set_figure(const shoal_sweep *s, int cell, int figure, shoal_result_table *t, int column) {
  char shown[CELL_TEXT];
  const char *key = figures[figure].key;
  if (figures[figure].form != WORD) {
    show(shoal_sweep_figure(s, cell, key), figure, shown);
    table_set(t, cell, column, "%s", shown);
    return;
  }
  const char *word = word_of(s, cell, key);
  table_set(t, cell, column, "%s", word ? word : "-");
}

/* ---- the table: the axes, then figures */

static bool is_shown(const shoal_sweep *s, const char *key) {
  if (!key) return true;
  for (size_t i = 0; i < shoal_run_list_count(s->runs); i++)
    if (!isnan(shoal_run_list_number(s->runs, i, key))) return true;
  return false;
}

static void fill_axis(const shoal_sweep *s, int a, shoal_result_table *t) {
  const shoal_setting *row = sweep_grid_axis(&s->grid, a)->row;
  const bool number = row->kind == SHOAL_SETTING_INT || row->kind == SHOAL_SETTING_NUMBER;
  table_set_column(t, a, (shoal_result_column){.head = row->name, .left = !number});
  for (int cell = 0; cell < t->n_rows; cell++) table_set(t, cell, a, "%s", sweep_grid_axis_value(&s->grid, cell, a));
}

static void fill_figure(const shoal_sweep *s, int figure, int column, shoal_result_table *t) {
  table_set_column(
      t, column,
      (shoal_result_column){
          .head = figures[figure].head, .left = figures[figure].form == WORD, .spare = figures[figure].spare});
  for (int cell = 0; cell < t->n_rows; cell++) set_figure(s, cell, figure, t, column);
}

static shoal_status make_table(const shoal_sweep *s, shoal_result_table **out) {
  int shown[FIGURES], count = 0;
  const int axes = s->grid.n_axes;
  shoal_result_table *t;
  for (int i = 0; i < FIGURES; i++)
    if (is_shown(s, figures[i].with)) shown[count++] = i;
  TRY(table_create(s->grid.cells, NULL, axes + count, &t));
  for (int a = 0; a < axes; a++) fill_axis(s, a, t);
  for (int k = 0; k < count; k++) fill_figure(s, shown[k], axes + k, t);
  return table_done(t, NULL, out);
}

/* ---- files */

/* A line a run, with the numbers as they are. */
static void add_csv_run(const shoal_sweep *s, size_t i, text *out) {
  const shoal_listed_run run = shoal_run_list_at(s->runs, i);
  const json_t *summary = run_list_summary(s->runs, i);
  char number[64];
  csv_add_cell(out, run.name, true);
  for (int a = 0; a < s->grid.n_axes; a++)
    csv_add_cell(out, sweep_grid_axis_value(&s->grid, (int)(i / (size_t)s->repeats), a), false);
  snprintf(number, sizeof number, "%d", (int)(i % (size_t)s->repeats) + 1);
  csv_add_cell(out, number, false);
  for (int k = 0; k < FIGURES; k++) {
    const json_t *value = json_object_get(summary, figures[k].key);
    const char *word = json_string_value(value);
    snprintf(number, sizeof number, "%.9g", json_number_value(value));
    csv_add_cell(out, word ? word : json_is_number(value) ? number : "", false);
  }
  csv_add_cell(out, run.error ? run.error : "", false);
  text_add(out, "\n");
}

static shoal_status write_csv(const shoal_sweep *s) {
  text out = {0};
  csv_add_cell(&out, "run", true);
  for (int a = 0; a < s->grid.n_axes; a++) csv_add_cell(&out, sweep_grid_axis(&s->grid, a)->row->name, false);
  csv_add_cell(&out, "repeat", false);
  for (int i = 0; i < FIGURES; i++) csv_add_cell(&out, figures[i].key, false);
  csv_add_cell(&out, "error", false);
  text_add(&out, "\n");
  for (size_t i = 0; i < shoal_run_list_count(s->runs); i++) add_csv_run(s, i, &out);
  return run_list_write(s->runs, "results.csv", &out);
}

shoal_status shoal_sweep_finish(const shoal_sweep *s, shoal_result_table **out) {
  shoal_result_table *t;
  text page = {0};
  TRY(make_table(s, &t));
  shoal_result_table_markdown(t, &page);
  shoal_status status = run_list_write(s->runs, "results.md", &page);
  if (!status) status = write_csv(s);
  if (status)
    shoal_result_table_destroy(t);
  else
    *out = t;
  return status;
}
