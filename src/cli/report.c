/* shoal report: one HTML file that shows runs. */
#include "cli/command.h"
#include "cli/say.h"
#include "shoal/observe.h"

typedef struct {
  const char *out;
  int64_t points;
} report_flags;

static const flag_row report_table[] = {
    {"out", FLAG_TEXT, offsetof(report_flags, out), "FILE", "file to write", "report.html", .complete = COMPLETE_FILE},
    {"points", FLAG_INT, offsetof(report_flags, points), "N",
     "maximum number of points per curve; longer ones show means and ranges", "4000, fewer with many runs",
     .least = 100, .most = 1e6},
    {0},
};

static shoal_status make_report(command_call *call) {
  const report_flags *f = call->flags;
  const flags_parsed *parsed = call->words;
  shoal_report_result page;
  TRY(shoal_report_write(
      &(shoal_report_options){
          .folders = parsed->words, .n_folders = parsed->count, .points = (int)f->points, .path = f->out},
      &page));
  char count[COUNTED_TEXT];
  say(stdout, "%s in %s (%.1f MB). Open it in a browser.\n", counted_text(page.runs, "run", count), f->out,
      (double)page.bytes / 1e6);
  return NULL;
}

const command command_report = {
    .name = "report",
    .arguments = "RUN...",
    .summary = "make one HTML file that shows runs side by side",
    .details =
        "RUN is the folder of a run, or a folder with runs or a sweep in it. The file\n"
        "needs nothing but a browser: curves of loss, accuracy and speed by step, time\n"
        "or examples, tables, resources of each task, timeline, graph, and the\n"
        "heat-maps of a sweep. -o FILE is short for --out FILE.\n"
        "\n"
        "Examples:\n"
        "  shoal report runs/first runs/second -o page.html\n"
        "  shoal report runs/sweep-1\n",
    .flags = report_table,
    .fields = sizeof(report_flags),
    .defaults = &(const report_flags){.out = "report.html", .points = 4000},
    .words_min = 1,
    .words_max = ANY_NUMBER,
    .expected = "folders of runs, e.g. runs/lenet-1 runs/lenet-2",
    .action = make_report,
};
