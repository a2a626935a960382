/* shoal trace: where the time of the steps went that --trace recorded. */
#include "cli/command.h"
#include "cli/say.h"
#include "cli/table.h"
#include "shoal/observe.h"

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

static shoal_status print_rows(const shoal_trace_summary *s, int64_t top) {
  shoal_result_table *t = NULL;
  int64_t operators;
  char more[COUNTED_TEXT];
  shoal_status status = shoal_trace_summary_table(s, top, &operators, &t);
  TRY(table_print(stdout, status, t, "--json"));
  if (operators > top)
    printf("%s not shown: --top %lld\n", counted_text(operators - top, "operator", more), (long long)operators);
  return NULL;
}

/* What all operators reached together, those that only move numbers included. */
static void print_peak(const shoal_trace_summary *t) {
  const shoal_trace_row all = shoal_trace_summary_operators(t);
  if (!(all.flops > 0) || !(all.possible > 0)) return;
  say(stdout,
      "\nAll operators: %.1f GF in %.3f s of threads' time, %.1f GF/s a thread: %.1f %% of its FMA peak "
      "(%.0f GF/s).\n",
      1e-9 * all.flops, all.seconds, 1e-9 * all.flops / all.seconds, 100 * all.flops / all.possible,
      1e-9 * all.possible / all.seconds);
}

static shoal_status print_text(const shoal_trace_summary *s, int64_t top) {
  shoal_result_table *t = NULL;
  TRY(print_rows(s, top));
  print_peak(s);
  printf("\nShares of the first thread's time:\n\n");
  shoal_status status = shoal_trace_summary_task_table(s, &t);
  return table_print(stdout, status, t, NULL);
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
  char *json = NULL;
  if (f->json) {
    status = shoal_trace_summary_json(t, &json);
    status = json_print(status, json);
  } else {
    status = print_text(t, f->top);
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
