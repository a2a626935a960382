/* shoal trace: where the time of the steps went that --trace recorded. */
#include "cli/command.h"
#include "cli/say.h"
#include "cli/table.h"
#include "shoal/observe.h"

#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>

typedef struct {
  int64_t top;
  bool json;
} trace_flags;

static const flag_row trace_flag_table[] = {
    {"top", FLAG_INT, offsetof(trace_flags, top), "N", "number of operators to show, slowest first", "30", 1, 1e6,
     .marks = 0},
    {"json", FLAG_BOOL, offsetof(trace_flags, json), NULL, "all rows as JSON", .marks = 0},
    {0},
};

static bool is_shown(const shoal_trace_row *r) { return r->kind != SHOAL_SPAN_STEP; }

static double per_second(double amount, double seconds) { return seconds > 0 ? amount / seconds : NAN; }

/* Of the operations that multiply-adds could have made; NAN: not known. */
static double of_peak(double flops, double possible) { return possible > 0 ? flops / possible : NAN; }

static void print_rows(const shoal_trace_summary *t, int64_t top, int width) {
  enum { OPERATOR, KERNEL, CALLS, TOTAL, MEAN, SHARE, FLOPS, PEAK, BANDWIDTH, BYTES, COLUMNS };
  static const table_column head[COLUMNS] = {
      [OPERATOR] = {"operator, message or wait", true, ""},
      [KERNEL] = {"kernel", true, ""},
      [CALLS] = {"calls", false, ""},
      [TOTAL] = {"total\nms", false, ""},
      [MEAN] = {"mean\nus", false, ""},
      [SHARE] = {"share", false, ""},
      [FLOPS] = {"GF/s", false, ""},
      [PEAK] = {"of FMA\npeak", false, ""},
      [BANDWIDTH] = {"GB/s", false, ""},
      [BYTES] = {"bytes", false, ""},
  };
  double all = 0;
  for (size_t i = 0; i < t->n_rows; i++) all += is_shown(&t->rows[i]) ? t->rows[i].seconds : 0;
  table_column(*rows)[COLUMNS] = calloc(t->n_rows + 1, sizeof *rows);
  if (!rows) return;
  int n = 0;
  int64_t operators = 0;
  char more[COUNTED_TEXT];
  for (size_t i = 0; i < t->n_rows; i++) {
    const shoal_trace_row *r = &t->rows[i];
    if (!is_shown(r) || (r->kind == SHOAL_SPAN_OP && operators++ >= top)) continue;
    table_column *c = rows[n++];
    memcpy(c, head, sizeof head);
    snprintf(c[OPERATOR].cell, TABLE_CELL, "%.63s", r->name);
    table_set_text(&c[KERNEL], r->kernel ? r->kernel : "-");
    table_set_int(&c[CALLS], r->calls);
    table_set_number(&c[TOTAL], 1e3 * r->seconds, 2);
    table_set_number(&c[MEAN], 1e6 * r->seconds / (double)r->calls, 2);
    table_set_share(&c[SHARE], all > 0 ? r->seconds / all : NAN);
    table_set_number(&c[FLOPS], r->flops > 0 ? 1e-9 * per_second(r->flops, r->seconds) : NAN, 2);
    table_set_share(&c[PEAK], r->flops > 0 ? of_peak(r->flops, r->possible) : NAN);
    table_set_number(&c[BANDWIDTH], r->bytes > 0 ? 1e-9 * per_second(r->bytes, r->seconds) : NAN, 2);
    table_set_bytes(&c[BYTES], (int64_t)r->bytes);
  }
  int spare[COLUMNS] = {[KERNEL] = 5, [CALLS] = 4, [MEAN] = 3, [FLOPS] = 2, [PEAK] = 1, [BANDWIDTH] = 6, [BYTES] = 7};
  int columns = COLUMNS;
  char *gone = table_fit(rows[0], spare, n, &columns, width);
  if (n) table_print(stdout, rows[0], n, columns, width);
  if (gone) say(stdout, "\nNot shown because the terminal is too narrow: %s. --json has all.\n", gone);
  free(gone);
  if (operators > top)
    printf("%s not shown: --top %lld\n", counted_text(operators - top, "operator", more), (long long)operators);
  free(rows);
}

/* What all operators reached together, those that only move numbers included. */
static void print_peak(const shoal_trace_summary *t) {
  double seconds = 0, flops = 0, possible = 0;
  for (size_t i = 0; i < t->n_rows; i++) {
    if (t->rows[i].kind != SHOAL_SPAN_OP) continue;
    seconds += t->rows[i].seconds;
    flops += t->rows[i].flops;
    possible += t->rows[i].possible;
  }
  if (!(flops > 0) || !(possible > 0)) return;
  say(stdout,
      "\nAll operators: %.1f GF in %.3f s of threads' time, %.1f GF/s a thread: %.1f %% of its FMA peak "
      "(%.0f GF/s).\n",
      1e-9 * flops, seconds, 1e-9 * flops / seconds, 100 * flops / possible, 1e-9 * possible / seconds);
}

static void print_tasks(const shoal_trace_summary *t, int width) {
  enum { TASK, THREADS, SECONDS, KINDS, COLUMNS = KINDS + SHOAL_SPAN_KINDS - 1 };
  table_column(*rows)[COLUMNS] = calloc(t->n_tasks + 1, sizeof *rows);
  if (!rows) return;
  for (size_t i = 0; i < t->n_tasks; i++) {
    const shoal_trace_task *task = &t->tasks[i];
    table_column *c = rows[i];
    c[TASK] = (table_column){"task", true, ""};
    c[THREADS] = (table_column){"threads", false, ""};
    c[SECONDS] = (table_column){"ms\nin all", false, ""};
    table_set_text(&c[TASK], task->task ? task->task : "?");
    table_set_int(&c[THREADS], task->threads);
    table_set_number(&c[SECONDS], 1e3 * task->seconds, 3);
    for (int k = SHOAL_SPAN_STEP + 1; k < SHOAL_SPAN_KINDS; k++) {
      c[KINDS + k - 1] = (table_column){shoal_span_kind_name(k), false, ""};
      table_set_share(&c[KINDS + k - 1], task->seconds > 0 ? task->by_kind[k] / task->seconds : NAN);
    }
  }
  printf("\nShares of the first thread's time:\n\n");
  if (t->n_tasks) table_print(stdout, rows[0], (int)t->n_tasks, COLUMNS, width);
  free(rows);
}

static shoal_status print_json(const shoal_trace_summary *t) {
  char *json;
  TRY(shoal_trace_summary_json(t, &json));
  fputs(json, stdout);
  free(json);
  return NULL;
}

static shoal_status show(command_call *call) {
  const trace_flags *f = call->flags;
  const char *target = call->words->words[0];
  struct stat st;
  char *path;
  bool folder = !stat(target, &st) && S_ISDIR(st.st_mode);
  if (asprintf(&path, folder ? "%s/trace.json" : "%s", target) < 0) return status_no_memory();
  shoal_trace_summary *t;
  shoal_status status = NULL;
  if (stat(path, &st))
    status =
        status_make(SHOAL_ERR_ARGUMENT, "%s does not exist; record one with: %s train MODEL --trace", path, called());
  if (!status) status = shoal_trace_read(path, &t);
  free(path);
  TRY(status);
  if (f->json) {
    status = print_json(t);
  } else {
    int width = terminal_width(stdout);
    print_rows(t, f->top, width);
    print_peak(t);
    print_tasks(t, width);
  }
  shoal_trace_summary_destroy(t);
  return status;
}

const command command_trace = {
    .name = "trace",
    .arguments = "RUN_DIR|FILE",
    .summary = "show where the time of a run went, operator by operator",
    .details =
        "Reads trace.json, which shoal train leaves with --trace: all tasks and threads\n"
        "together. GF/s and GB/s are what one thread reached, by the operator's own\n"
        "count of operations and of bytes read and written. FMA peak is the rate of\n"
        "multiply-adds that one thread of the machine can reach, measured when the run\n"
        "began; convolutions by Winograd's algorithm need fewer operations than are\n"
        "counted, and may pass it. To see the timeline itself, open the file in\n"
        "ui.perfetto.dev or chrome://tracing.\n"
        "\n"
        "Example:\n"
        "  shoal train lenet --trace 50 --run-dir runs/traced && shoal trace runs/traced\n",
    .flags = trace_flag_table,
    .fields = sizeof(trace_flags),
    .defaults = &(const trace_flags){.top = 30},
    .words_min = 1,
    .words_max = 1,
    .expected = "one run folder or trace.json",
    .action = show,
};
