/* shoal train: trains a model and leaves a folder with the result. */
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/progress.h"
#include "cli/result.h"
#include "cli/say.h"
#include "cli/table.h"

#include <signal.h>

typedef struct {
  progress screen;
  bool begun;       /* the screen is there */
  int ranks_status; /* exit status of ranks that were started; below 0: there are none */
} train_view;

/* ---- while it runs */

#define ROWS_TEXT (2 * COUNTED_TEXT)

static void say_rows(const shoal_run_ready *ready, char out[ROWS_TEXT]) {
  const int64_t held = (int64_t)((double)ready->rows * ready->job->validation_split);
  char kept[COUNTED_TEXT], more[GROUPED_TEXT];
  if (!ready->rows)
    snprintf(out, ROWS_TEXT, "streamed rows");
  else if (!held)
    snprintf(out, ROWS_TEXT, "%s", counted_text(ready->rows, "training row", kept));
  else
    snprintf(out, ROWS_TEXT, "%s (and %s held out)", counted_text(ready->rows - held, "training row", kept),
             grouped_text(held, more));
}

/* "lenet: 61,706 parameters, 60,000 training rows of mnist, ..." */
static void announce(const shoal_run_ready *ready) {
  const shoal_job *j = ready->job;
  char rows[ROWS_TEXT], parameters[COUNTED_TEXT], workers[COUNTED_TEXT], batch[GROUPED_TEXT], threads[COUNTED_TEXT],
      servers[COUNTED_TEXT];
  say_rows(ready, rows);
  counted_text(ready->parameters, "parameter", parameters);
  grouped_text(j->batch_size, batch);
  counted_text(ready->threads, "thread", threads);
  if (!strcmp(j->strategy, "ps"))
    say(stdout, "%s: %s, %s of %s, %s with batch %s and %s, %s, %s\n", j->model, parameters, rows, j->data,
        counted_text(j->workers, "worker", workers), batch, threads, counted_text(j->ps, "parameter server", servers),
        j->mode);
  else if (!strcmp(j->strategy, "allreduce"))
    say(stdout, "%s: %s, %s of %s, %s with batch %s and %s, all-reduce in %s\n", j->model, parameters, rows, j->data,
        counted_text(j->workers, "rank", workers), batch, threads, j->wire);
  else
    say(stdout, "%s: %s, %s of %s, batch %s, %s\n", j->model, parameters, rows, j->data, batch, threads);
  if (ready->late_gradients)
    say(stdout,
        "Note: with --mode async gradients are stale, and a constant learning rate of %g may end less accurate than "
        "with --mode sync; --schedule cosine or a smaller --lr helps.\n",
        j->lr);
  fflush(stdout);
}

static void on_ready(void *context, const shoal_run_ready *ready) {
  train_view *v = context;
  const shoal_job *j = ready->job;
  const bool all = strcmp(j->strategy, "ps") || !strcmp(j->mode, "sync");
  if (!j->quiet) announce(ready);
  const int64_t once = j->global_batch ? j->global_batch : j->batch_size * (all ? j->workers : 1);
  progress_init(&v->screen, stdout, once * (j->accumulate ? j->accumulate : 1), j->quiet);
  v->begun = true;
}

static void on_step(void *context, const shoal_progress *p) { progress_step(&((train_view *)context)->screen, p); }
static void on_epoch(void *context, const shoal_progress *p) { progress_epoch(&((train_view *)context)->screen, p); }
static void on_test(void *context, int64_t rows, const shoal_progress *p, const shoal_evaluation *e) {
  progress_test(&((train_view *)context)->screen, rows, p, e);
}

static void on_note(void *context, const char *line) {
  train_view *v = context;
  char *words = flags_in_words(line);
  if (v->begun) progress_clear(&v->screen);
  say(stderr, "%s\n", words ? words : line);
  free(words);
}

static void on_log(void *context, const char *task, const char *line) {
  train_view *v = context;
  if (v->begun) progress_clear(&v->screen);
  say(stderr, "[%s] %s\n", task, line);
}

/* The process is about to end with all other ranks. */
static int on_abort(void *context, const struct shoal_error *why) {
  const int code = command_explain(&command_train, why);
  fflush(stdout);
  fflush(stderr);
  return code;
}

static void on_ranks_end(void *context, int exit_status) { ((train_view *)context)->ranks_status = exit_status; }

/* ---- afterwards */

static void say_where(const shoal_run_report *r) {
  const char *path = r->run_dir, *model = r->job.model;
  if (r->job.quiet) return;
  if (r->trace) {
    say(stdout, "\nThe timeline is in %s.\n", r->trace);
    say_command(stdout, "To see where the time went:", "%s trace %s", called(), path);
  }
  say(stdout, "\nThe run is in %s.\n", path);
  say_command(stdout, "To evaluate it:", "%s eval %s", called(), path);
  say_command(stdout, "To see it:", "%s report %s", called(), path);
  if (r->fit.stopped && !r->job.no_checkpoints)
    say_command(stdout, "To continue it:", "%s train %s --resume --run-dir %s", called(), model, path);
  else if (!r->job.no_checkpoints)
    say_command(stdout, "To train it longer:", "%s train %s --resume --run-dir %s --epochs %lld", called(), model, path,
                2 * (long long)(r->fit.epochs > 0 ? r->fit.epochs : 1));
}

/* After a signal that has stopped it, with a checkpoint. */
static int stopped_status(const shoal_job *job, int signal) {
  return signal == SIGTERM && job->drain > 0 ? EXIT_GOOD : 128 + signal;
}

/* Of a failure: one that is of this try, not of the job, may have a status of its own. */
static int failed_status(const shoal_job *job, shoal_code code, int otherwise) {
  return job->retry_status && (code == SHOAL_ERR_PEER || code == SHOAL_ERR_SYSTEM) ? (int)job->retry_status : otherwise;
}

static int say_result(const shoal_run_report *r, bool speaks, int asked) {
  if (r->reports) {
    char *json = NULL;
    shoal_status status = r->job.json ? shoal_run_report_json(r, &json) : NULL;
    if (r->job.json)
      shoal_status_free(json_print(status, json)); /* the folder has it all the same */
    else
      result_print(r, stdout);
    say_where(r);
    if (!r->fit.stopped || !speaks) return EXIT_GOOD;
    if (asked) return stopped_status(&r->job, asked);
    if (strcmp(r->job.strategy, "ps")) return EXIT_GOOD;
    say(stderr, "Stopped: %s received a signal.\n", r->job.drain > 0 ? "a task" : "worker/0");
    return stopped_status(&r->job, SIGTERM);
  }
  if (r->n_tasks) result_print_task(&r->tasks[0], stdout);
  return EXIT_GOOD;
}

static int ranks_exit(const train_view *v, const shoal_job *job, int asked) {
  if (!v->ranks_status) return asked ? stopped_status(job, asked) : EXIT_GOOD;
  if (v->ranks_status > 128) return v->ranks_status; /* stopped by a signal to one of them */
  return v->ranks_status == EXIT_WRONG_USE ? EXIT_WRONG_USE : EXIT_JOB_FAILED;
}

/* A job that was drained is to be tried again in all its tasks. Where patience has ended it, worker 0 alone knows. */
static bool ends_early(const shoal_job *job, const shoal_run_report *r) {
  return job->drain > 0 && job->retry_status && r->fit.stopped && (r->reports || !job->patience);
}

static int train(const shoal_job *job) {
  train_view v = {.ranks_status = -1};
  const bool speaks = shoal_run_speaks(job);
  interrupt *signals;
  shoal_status status = interrupt_create(
      speaks ? "Stopping after this step, with a checkpoint; press Ctrl-C again to quit at once." : NULL,
      speaks ? "Killed; the last saved checkpoint is complete." : NULL, &signals);
  if (status) return command_fail(&command_train, status);
  shoal_run_report *report = NULL;
  const shoal_run_options options = {.stop = interrupt_flag(signals),
                                     .program = "/proc/self/exe",
                                     .listener = {.context = &v,
                                                  .on_ready = on_ready,
                                                  .on_step = on_step,
                                                  .on_epoch = on_epoch,
                                                  .on_test = on_test,
                                                  .on_note = on_note,
                                                  .on_log = on_log,
                                                  .on_abort = on_abort,
                                                  .on_ranks_end = on_ranks_end}};
  status = shoal_run(job, &options, &report);
  if (v.begun) progress_clear(&v.screen);
  const int asked = __atomic_load_n(interrupt_flag(signals), __ATOMIC_ACQUIRE);
  const shoal_code code = shoal_status_code(status);
  int exit_status = EXIT_GOOD;
  if (v.ranks_status >= 0)
    exit_status = ranks_exit(&v, job, asked);
  else if (code == SHOAL_ERR_CANCELLED && asked && speaks) {
    on_note(&v, shoal_status_message(status));
    exit_status = stopped_status(job, asked);
  } else if (code == SHOAL_ERR_CANCELLED && asked == SIGTERM && job->drain > 0) {
    on_note(&v, shoal_status_message(status));
  } else if (status && code != SHOAL_ERR_REPORTED) {
    if (report && report->trained && report->reports) say_result(report, speaks, asked);
    exit_status = failed_status(job, code, command_explain(&command_train, status));
  } else if (!status)
    exit_status = say_result(report, speaks, asked);
  if (!status && report && ends_early(job, report) && exit_status == EXIT_GOOD) exit_status = (int)job->retry_status;
  /* Once a job: by the process that has its result, or has started its ranks; when the folder is free again. */
  const bool tells = speaks && report && report->run_dir && (report->reports || v.ranks_status >= 0);
  char *folder = tells ? strdup(report->run_dir) : NULL;
  const char *how = tells ? report->status : NULL;
  shoal_status_free(status);
  shoal_run_report_destroy(report);
  if (tells) command_tell_end(job->on_end, folder, how, exit_status);
  free(folder);
  interrupt_destroy(signals);
  return exit_status;
}

static int run_train(int argc, char **argv) {
  shoal_job job;
  flags_parsed parsed;
  shoal_job_init(&job, sizeof job);
  shoal_status status = flags_parse(shoal_job_settings(), argc, argv, &job, &parsed);
  if (!status && parsed.help) {
    command_print_help(&command_train, stdout);
    return EXIT_GOOD;
  }
  if (!status && !job.job_file && parsed.count == 0)
    status = status_make(SHOAL_ERR_ARGUMENT, "expected a model, e.g. %s train %s", called(), model_name_at(0));
  if (!status && parsed.count > 1)
    status = status_make(SHOAL_ERR_ARGUMENT, "expected one model, but also got '%s'", parsed.words[1]);
  if (status) return command_fail(&command_train, status);
  job.model = parsed.words[0];
  job.quiet |= job.json;
  return train(&job);
}

const command command_train = {
    .name = "train",
    .arguments = "MODEL",
    .summary = "train a model",
    .details =
        "Trains until --epochs or --steps are reached, tests the result on the test\n"
        "rows and prints a table. The run folder holds summary.json, metrics.jsonl,\n"
        "settings.json, model.safetensors and checkpoints/. Ctrl-C saves a checkpoint\n"
        "and prints the table; a second Ctrl-C quits at once.\n"
        "\n"
        "Examples:\n"
        "  shoal train softmax --epochs 5\n"
        "  shoal train lenet --activation relu --pool max --optimizer momentum --lr 0.02\n"
        "  shoal train my.json --data rows.csv --set hidden=128\n"
        "  shoal train lenet --run-dir runs/first --resume\n"
        "  shoal train softmax --workers 3 --ps 1 --mode async --staleness 4\n"
        "\n"
        "With --workers or --ps it starts a cluster of local processes, whose logs are\n"
        "in the folder logs. With TF_CONFIG or --cluster it is one task of a cluster.\n",
    .flag_table = shoal_job_settings,
    .word_at = model_name_at,
    .run = run_train,
};
