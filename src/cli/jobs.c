/* shoal ps, status and stop: jobs that run, and runs that have ended. */
#include "shoal/jobs.h"

#include "cli/command.h"
#include "cli/say.h"
#include "cli/table.h"

#define FOLDER "runs"
#define STOP_SECONDS 60.0

typedef struct {
  bool json, all;
} ps_flags;

static const flag_row ps_table[] = {
    {"all", FLAG_BOOL, offsetof(ps_flags, all), NULL, "also runs that have ended, all of them", "the last ten",
     .marks = 0},
    {"json", FLAG_BOOL, offsetof(ps_flags, json), NULL, "all runs as a JSON array", .marks = 0},
    {0},
};

enum { SHOWN_ENDED = 10 };

static shoal_status print_list(const shoal_runs *runs, bool all, const char *folder) {
  shoal_result_table *t = NULL;
  char count[COUNTED_TEXT];
  size_t running = 0;
  while (running < runs->count && runs->runs[running].pid) running++;
  const size_t shown = all ? runs->count : MIN_OF(runs->count, running + SHOWN_ENDED);
  shoal_status status = shoal_runs_table(&(shoal_runs){runs->runs, shown}, false, &t);
  TRY(table_print(stdout, status, t, "--json"));
  if (!runs->count) say(stdout, "No runs in %s.\n", folder);
  if (shown < runs->count)
    say(stdout, "\n%s more, older: --all shows them.\n", counted_text((int64_t)(runs->count - shown), "run", count));
  return NULL;
}

static shoal_status ps(command_call *call) {
  const ps_flags *f = call->flags;
  const char *folder = call->words->count ? call->words->words[0] : FOLDER;
  shoal_runs *runs;
  char *json = NULL;
  TRY(shoal_runs_read(folder, &runs));
  shoal_status status = f->json ? shoal_runs_json(runs, &json) : print_list(runs, f->all, folder);
  if (f->json) status = json_print(status, json);
  shoal_runs_destroy(runs);
  return status;
}

const command command_ps = {
    .name = "ps",
    .arguments = "[DIR]",
    .summary = "list running jobs and recent runs",
    .details =
        "Looks through the runs below DIR (default: runs). A job is running while its\n"
        "process holds the run's folder; 'lost' is one that was killed before it could\n"
        "say anything. Those that are running come first, then the youngest.\n"
        "\n"
        "Examples:\n"
        "  shoal ps\n"
        "  shoal ps /data/runs --json\n",
    .flags = ps_table,
    .fields = sizeof(ps_flags),
    .words_max = 1,
    .expected = "at most one folder",
    .action = ps,
};

/* ---- status */

typedef struct {
  bool json;
} status_flags;

static const flag_row status_table[] = {
    {"json", FLAG_BOOL, offsetof(status_flags, json), NULL, "print a JSON array with one object", .marks = 0},
    {0},
};

static shoal_status print_one(const shoal_runs *runs) {
  shoal_result_table *t;
  TRY(shoal_runs_table(runs, true, &t));
  for (int c = 0; c < t->n_columns; c++)
    if (strcmp(t->cells[c], "-")) say_indented(stdout, 15, "%-14s %s\n", t->columns[c].head, t->cells[c]);
  shoal_result_table_destroy(t);
  return NULL;
}

static shoal_status show_status(command_call *call) {
  const status_flags *f = call->flags;
  shoal_runs *runs;
  char *json = NULL;
  TRY(shoal_run_status_read(call->words->words[0], &runs));
  shoal_status status = f->json ? shoal_runs_json(runs, &json) : print_one(runs);
  if (f->json) status = json_print(status, json);
  shoal_runs_destroy(runs);
  return status;
}

const command command_status = {
    .name = "status",
    .arguments = "RUN_DIR",
    .summary = "show how a run stands: state, progress, speed, process",
    .details =
        "Examples:\n"
        "  shoal status runs/lenet-20261118-120000\n",
    .flags = status_table,
    .fields = sizeof(status_flags),
    .words_min = 1,
    .words_max = 1,
    .expected = "the folder of a run",
    .action = show_status,
};

/* ---- stop */

typedef struct {
  double seconds;
  bool now, json;
} stop_flags;

static const flag_row stop_table[] = {
    {"deadline", FLAG_NUMBER, offsetof(stop_flags, seconds), "SECONDS", "time to wait for its end", "60", .least = 0.1,
     .most = 1e6},
    {"now", FLAG_BOOL, offsetof(stop_flags, now), NULL, "end it at once, without a checkpoint", .marks = 0},
    {"json", FLAG_BOOL, offsetof(stop_flags, json), NULL, "how the run stands then, as a JSON array", .marks = 0},
    {0},
};

static shoal_status stop(command_call *call) {
  const stop_flags *f = call->flags;
  const char *folder = call->words->words[0];
  shoal_runs *runs;
  char *json = NULL, step[SHOAL_DIGITS_TEXT];
  TRY(shoal_run_stop(folder, f->seconds, f->now));
  TRY(shoal_run_status_read(folder, &runs));
  shoal_status status = NULL;
  if (f->json) {
    status = shoal_runs_json(runs, &json);
    status = json_print(status, json);
  } else {
    say(stdout, "%s: %s at step %s\n", folder, runs->runs[0].state, shoal_group_digits(runs->runs[0].step, step));
    if (*runs->runs[0].model)
      say_command(stdout, "To continue it:", "%s train %s --resume --run-dir %s", called(), runs->runs[0].model,
                  folder);
  }
  shoal_runs_destroy(runs);
  return status;
}

const command command_stop = {
    .name = "stop",
    .arguments = "RUN_DIR",
    .summary = "stop the job that runs in a folder, with a checkpoint",
    .details =
        "Asks the job to stop, as a TERM signal does: it saves a checkpoint and ends.\n"
        "Waits until it has. A job of another host must be stopped there.\n"
        "\n"
        "Examples:\n"
        "  shoal stop runs/lenet-20261118-120000\n",
    .flags = stop_table,
    .fields = sizeof(stop_flags),
    .defaults = &(const stop_flags){.seconds = STOP_SECONDS},
    .words_min = 1,
    .words_max = 1,
    .expected = "the folder of a run",
    .action = stop,
};
