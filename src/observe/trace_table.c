/* A timeline that was added up, as tables for people. */
#include "base/table.h"
#include "shoal/observe.h"

#include <math.h>

static double per_second(double amount, double seconds) { return seconds > 0 ? amount / seconds : NAN; }

/* ---- operators, messages and waits */

enum { OPERATOR, KERNEL, CALLS, TOTAL, MEAN, SHARE, FLOPS, PEAK, BANDWIDTH, BYTES, ROW_COLUMNS };

static const shoal_result_column row_columns[ROW_COLUMNS] = {
    [OPERATOR] = {.head = "operator, message or wait", .left = true},
    [KERNEL] = {.head = "kernel", .left = true, .spare = 5},
    [CALLS] = {.head = "calls", .spare = 4},
    [TOTAL] = {.head = "total\nms"},
    [MEAN] = {.head = "mean\nus", .spare = 3},
    [SHARE] = {.head = "share"},
    [FLOPS] = {.head = "GF/s", .spare = 2},
    [PEAK] = {.head = "of FMA\npeak", .spare = 1},
    [BANDWIDTH] = {.head = "GB/s", .spare = 6},
    [BYTES] = {.head = "bytes", .spare = 7},
};

static void set_row(shoal_result_table *t, int i, const shoal_trace_row *r, double all) {
  table_set(t, i, OPERATOR, "%.63s", r->name);
  table_set(t, i, KERNEL, "%s", r->kernel ? r->kernel : "-");
  table_set_int(t, i, CALLS, r->calls);
  table_set_number(t, i, TOTAL, 1e3 * r->seconds, 2);
  table_set_number(t, i, MEAN, 1e6 * r->seconds / (double)r->calls, 2);
  table_set_share(t, i, SHARE, all > 0 ? r->seconds / all : NAN);
  table_set_number(t, i, FLOPS, r->flops > 0 ? 1e-9 * per_second(r->flops, r->seconds) : NAN, 2);
  table_set_share(t, i, PEAK, r->flops > 0 && r->possible > 0 ? r->flops / r->possible : NAN);
  table_set_number(t, i, BANDWIDTH, r->bytes > 0 ? 1e-9 * per_second(r->bytes, r->seconds) : NAN, 2);
  table_set_bytes(t, i, BYTES, (int64_t)r->bytes);
}

/* Whether row i is among those shown; *operators: seen so far. */
static bool is_shown(const shoal_trace_row *r, int64_t top, int64_t *operators) {
  return r->kind != SHOAL_SPAN_STEP && (r->kind != SHOAL_SPAN_OP || (*operators)++ < top);
}

shoal_status shoal_trace_summary_table(const shoal_trace_summary *s, int64_t top, int64_t *operators,
                                       shoal_result_table **out) {
  double all = 0;
  int rows = 0;
  int64_t seen = 0;
  for (size_t i = 0; i < s->n_rows; i++) {
    all += s->rows[i].kind == SHOAL_SPAN_STEP ? 0 : s->rows[i].seconds;
    rows += is_shown(&s->rows[i], top, &seen);
  }
  if (operators) *operators = seen;
  shoal_result_table *t;
  TRY(table_create(rows, row_columns, ROW_COLUMNS, &t));
  seen = 0;
  for (size_t i = 0, row = 0; i < s->n_rows; i++)
    if (is_shown(&s->rows[i], top, &seen)) set_row(t, (int)row++, &s->rows[i], all);
  return table_done(t, NULL, out);
}

shoal_trace_row shoal_trace_summary_operators(const shoal_trace_summary *s) {
  shoal_trace_row sum = {.name = "all operators", .kind = SHOAL_SPAN_OP};
  for (size_t i = 0; i < s->n_rows; i++) {
    const shoal_trace_row *r = &s->rows[i];
    if (r->kind != SHOAL_SPAN_OP) continue;
    sum.calls += r->calls;
    sum.seconds += r->seconds;
    sum.flops += r->flops;
    sum.bytes += r->bytes;
    sum.possible += r->possible;
  }
  return sum;
}

/* ---- tasks */

shoal_status shoal_trace_summary_task_table(const shoal_trace_summary *s, shoal_result_table **out) {
  enum { TASK, THREADS, SECONDS, KINDS, COLUMNS = KINDS + SHOAL_SPAN_KINDS - 1 };
  shoal_result_table *t;
  TRY(table_create((int)s->n_tasks, NULL, COLUMNS, &t));
  table_set_column(t, TASK, (shoal_result_column){.head = "task", .left = true});
  table_set_column(t, THREADS, (shoal_result_column){.head = "threads"});
  table_set_column(t, SECONDS, (shoal_result_column){.head = "ms\nin all"});
  for (int k = SHOAL_SPAN_STEP + 1; k < SHOAL_SPAN_KINDS; k++)
    table_set_column(t, KINDS + k - 1, (shoal_result_column){.head = shoal_span_kind_name(k)});
  for (int i = 0; i < (int)s->n_tasks; i++) {
    const shoal_trace_task *task = &s->tasks[i];
    table_set(t, i, TASK, "%s", task->task ? task->task : "?");
    table_set_int(t, i, THREADS, task->threads);
    table_set_number(t, i, SECONDS, 1e3 * task->seconds, 3);
    for (int k = SHOAL_SPAN_STEP + 1; k < SHOAL_SPAN_KINDS; k++)
      table_set_share(t, i, KINDS + k - 1, task->seconds > 0 ? task->by_kind[k] / task->seconds : NAN);
  }
  return table_done(t, NULL, out);
}
