/* shoal clean: room on the disk, by removing runs. */
#include "shoal/jobs.h"

#include "cli/command.h"
#include "cli/say.h"
#include "cli/table.h"

typedef struct {
  int64_t keep;
  double older;
  const char *max_size;
  bool unfinished, yes, json;
} clean_flags;

static const flag_row clean_table[] = {
    {"keep", FLAG_INT, offsetof(clean_flags, keep), "N", "remove all but the youngest N", .least = 1, .most = 1e9},
    {"older", FLAG_NUMBER, offsetof(clean_flags, older), "DAYS", "remove those that ended more than DAYS ago",
     .least = 0, .most = 1e6},
    {"max-size", FLAG_TEXT, offsetof(clean_flags, max_size), "SIZE",
     "remove the oldest until all runs take no more than SIZE, e.g. 10GB", .marks = 0},
    {"unfinished", FLAG_BOOL, offsetof(clean_flags, unfinished), NULL,
     "also runs that were interrupted, failed or killed, which --resume could continue", .marks = 0},
    {"yes", FLAG_BOOL, offsetof(clean_flags, yes), NULL, "remove them; otherwise they are only listed", .marks = 0},
    {"json", FLAG_BOOL, offsetof(clean_flags, json), NULL, "what was or would be removed as a JSON array", .marks = 0},
    {0},
};

static shoal_status print_removed(const shoal_runs *runs, bool removed) {
  shoal_result_table *t = NULL;
  char count[COUNTED_TEXT], size[SHOAL_DIGITS_TEXT];
  int64_t bytes = 0;
  for (size_t i = 0; i < runs->count; i++) bytes += runs->runs[i].bytes;
  shoal_status status = shoal_runs_table(runs, false, &t);
  TRY(table_print(stdout, status, t, "--json"));
  counted_text((int64_t)runs->count, "run", count);
  shoal_size_text(bytes, size);
  if (removed)
    say(stdout, "%s%s removed, %s.\n", runs->count ? "\n" : "", count, size);
  else
    say(stdout, "%s%s would be removed, %s%s.\n", runs->count ? "\n" : "", count, size,
        runs->count ? "; --yes does it" : "");
  return NULL;
}

static shoal_status clean(command_call *call) {
  const clean_flags *f = call->flags;
  shoal_clean_options o = {.keep = f->keep, .older_days = f->older, .unfinished = f->unfinished, .dry_run = !f->yes};
  shoal_runs *runs;
  char *json = NULL;
  if (f->max_size) TRY(status_wrap(shoal_parse_size(f->max_size, &o.max_bytes), "--max-size"));
  TRY(shoal_runs_clean(call->words->count ? call->words->words[0] : "runs", &o, &runs));
  shoal_status status = f->json ? shoal_runs_json(runs, &json) : print_removed(runs, f->yes);
  if (f->json) status = json_print(status, json);
  shoal_runs_destroy(runs);
  return status;
}

const command command_clean = {
    .name = "clean",
    .arguments = "[DIR]",
    .summary = "remove old runs, by number, age or size",
    .details =
        "Lists the runs below DIR (default: runs) that would go, and removes them with\n"
        "--yes. A run that is running always stays; one that was interrupted, failed or\n"
        "killed stays unless --unfinished says otherwise, and so do the runs of sweeps\n"
        "and experiments.\n"
        "\n"
        "Examples:\n"
        "  shoal clean --keep 20\n"
        "  shoal clean --older 30 --max-size 10GB --yes\n",
    .flags = clean_table,
    .fields = sizeof(clean_flags),
    .words_max = 1,
    .expected = "at most one folder",
    .action = clean,
};
