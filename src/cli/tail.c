/* shoal tail: the progress of a run, as it comes. */
#include "shoal/jobs.h"

#include "cli/command.h"
#include "cli/say.h"

#include <math.h>

#define INDENT 2

typedef struct {
  int64_t last;
  bool json, logs, no_follow;
} tail_flags;

static const flag_row tail_table[] = {
    {"lines", FLAG_INT, offsetof(tail_flags, last), "N", "lines of before to begin with; also -n", "10", .least = 0,
     .most = 1e9},
    {"logs", FLAG_BOOL, offsetof(tail_flags, logs), NULL, "also what the tasks of a cluster log", .marks = 0},
    {"no-follow", FLAG_BOOL, offsetof(tail_flags, no_follow), NULL, "only what is there already", .marks = 0},
    {"json", FLAG_BOOL, offsetof(tail_flags, json), NULL, "the lines as they are in metrics.jsonl", .marks = 0},
    {0},
};

static void on_json(void *context, const shoal_run_line *l) {
  puts(l->line);
  fflush(stdout);
}

static void add_share(text *line, const char *name, double share) {
  if (isfinite(share)) text_add(line, "  %s %.2f %%", name, 100 * share);
}

static void on_line(void *context, const shoal_run_line *l) {
  text line = {0};
  char a[SHOAL_DIGITS_TEXT];
  const bool test = !strcmp(l->kind, "eval");
  if (test)
    text_add(&line, "test  ");
  else if (l->epoch >= 0)
    text_add(&line, "epoch %s  ", shoal_group_digits(l->epoch + 1, a));
  text_add(&line, "step %s  loss %.4f", shoal_group_digits(l->step, a), l->loss);
  add_share(&line, "accuracy", l->accuracy);
  if (isfinite(l->validation_loss)) text_add(&line, "  validation loss %.4f", l->validation_loss);
  add_share(&line, "validation accuracy", l->validation_accuracy);
  if (isfinite(l->rate)) text_add(&line, "  rate %.4g", l->rate);
  if (isfinite(l->examples_per_second))
    text_add(&line, "  %s examples/s", shoal_group_digits((int64_t)l->examples_per_second, a));
  if (line.data) say_indented(stdout, INDENT, "%s\n", line.data);
  text_fini(&line);
  fflush(stdout);
}

static void on_log(void *context, const char *task, const char *words) {
  say(stdout, "[%s] %s\n", task, words);
  fflush(stdout);
}

static shoal_status tail(command_call *call) {
  const tail_flags *f = call->flags;
  const char *folder = call->words->words[0];
  shoal_runs *runs;
  TRY(shoal_run_follow(folder, &(shoal_follow_options){.last = f->last,
                                                       .no_waiting = f->no_follow,
                                                       .stop = call->stop,
                                                       .on_line = f->json ? on_json : on_line,
                                                       .on_log = f->logs ? on_log : NULL}));
  call->ended_by_signal = true;
  if (f->json) return NULL;
  TRY(shoal_run_status_read(folder, &runs));
  const shoal_run_status *s = &runs->runs[0];
  say(stdout, "%s: %s%s%s\n", folder, s->state, s->error ? ": " : "", s->error ? s->error : "");
  shoal_runs_destroy(runs);
  return NULL;
}

const command command_tail = {
    .name = "tail",
    .arguments = "RUN_DIR",
    .summary = "follow the progress of a run until its job ends",
    .details =
        "Shows the last lines of its progress, then each as it comes. Ctrl-C ends the\n"
        "watching, not the job.\n"
        "\n"
        "Examples:\n"
        "  shoal tail runs/lenet-20261118-120000\n"
        "  shoal tail runs/lenet-20261118-120000 -n 100 --no-follow --json\n",
    .flags = tail_table,
    .fields = sizeof(tail_flags),
    .defaults = &(const tail_flags){.last = 10},
    .words_min = 1,
    .words_max = 1,
    .expected = "the folder of a run",
    .stopping = "",
    .killed = "",
    .action = tail,
};
