#include "cli/run_list.h"

#include "cli/command.h"
#include "cli/progress.h"
#include "cli/say.h"
#include "cli/table.h"
#include "shoal/observe.h"

#include <math.h>
#include <unistd.h>

#define INDENT 2 /* of a line that goes on */
#define REDRAW_SECONDS 0.2

/* ---- progress */

/* What is shown while a run is under way. */
typedef struct {
  const shoal_run_list *runs;
  size_t count, ended; /* of all, and of those that this call ran to their end ... */
  double spent;        /* ... and the time they took */
  double started, last;
  bool quiet, live, drawn;
} display;

/* ", about 2:10 left", or nothing while nothing is known. running: seconds that run `from` is under way. */
static void left_text(const display *d, size_t from, double running, char *out, size_t size) {
  char words[DURATION_TEXT];
  size_t open = 0;
  for (size_t i = from; i < d->count; i++) open += !shoal_run_list_at(d->runs, i).finished;
  *out = 0;
  if (!d->ended || !open) return;
  const double each = d->spent / (double)d->ended;
  const double seconds = each * (double)open - MIN_OF(running, each);
  snprintf(out, size, ", about %s left", duration_text(MAX_OF(seconds, 1), words));
}

static void start(void *context, size_t i) {
  display *d = context;
  d->started = seconds_now();
}

static void draw(void *context, size_t i) {
  display *d = context;
  const double now = seconds_now(), running = now - d->started;
  if (!d->live || now - d->last < REDRAW_SECONDS) return;
  d->last = now;
  d->drawn = true;
  char left[64], words[DURATION_TEXT], line[512];
  left_text(d, i, running, left, sizeof left);
  int n = snprintf(line, sizeof line, "[%zu/%zu] %s, %s", i + 1, d->count, shoal_run_list_at(d->runs, i).name,
                   duration_text(running, words));
  int room = terminal_width(stderr) - 1; /* a line that wraps could not be drawn over */
  fprintf(stderr, "\r%.*s%s\033[K", room, line, n + (int)strlen(left) <= room ? left : "");
}

static void clear(display *d) {
  if (d->drawn) fputs("\r\033[K", stderr);
  d->drawn = false;
}

/* "98.12 % in 3.10 s"; of clicks and regressions what counts there. */
static void result_text(const shoal_run_list *runs, size_t i, char *out, size_t size) {
  const double accuracy = shoal_run_list_number(runs, i, "test_accuracy");
  const double auc = shoal_run_list_number(runs, i, "test_auc"), r2 = shoal_run_list_number(runs, i, "test_r2");
  const double seconds = shoal_run_list_number(runs, i, "seconds");
  if (!isnan(auc))
    snprintf(out, size, "log loss %.5f, AUC %.5f in %.2f s", shoal_run_list_number(runs, i, "test_loss"), auc, seconds);
  else if (!isnan(accuracy))
    snprintf(out, size, "%.2f %% in %.2f s", 100 * accuracy, seconds);
  else if (!isnan(r2))
    snprintf(out, size, "R2 %.4f in %.2f s", r2, seconds);
  else
    snprintf(out, size, "done in %.2f s", seconds);
}

static void tell(void *context, size_t i) {
  display *d = context;
  const shoal_listed_run r = shoal_run_list_at(d->runs, i);
  char left[64], result[128];
  clear(d);
  d->spent += seconds_now() - d->started;
  d->ended++;
  if (d->quiet) return;
  left_text(d, i + 1, 0, left, sizeof left);
  result_text(d->runs, i, result, sizeof result);
  say_indented(stdout, INDENT, "[%zu/%zu] %s: %s%s%s\n", i + 1, d->count, r.name, r.error ? "FAILED: " : "",
               r.error ? r.error : result, left);
  fflush(stdout);
}

/* ---- the list */

shoal_status run_list_go(shoal_run_list *runs, const int *stop, bool quiet, shoal_run_list_outcome *out) {
  const char *terminal = getenv("TERM");
  const bool live = !quiet && isatty(STDERR_FILENO) && terminal && strcmp(terminal, "dumb");
  display d = {.runs = runs, .count = shoal_run_list_count(runs), .quiet = quiet, .live = live};
  size_t finished;
  char count[COUNTED_TEXT];
  TRY(shoal_run_list_read(runs, &finished));
  if (finished && finished < d.count && !quiet)
    printf("Done already: %zu of %s.\n", finished, counted_text((int64_t)d.count, "run", count));
  shoal_status status = shoal_run_list_run(
      runs,
      &(shoal_run_list_options){
          .program = OWN_PROGRAM, .stop = stop, .context = &d, .on_start = start, .on_tick = draw, .on_end = tell},
      out);
  clear(&d);
  return status;
}

int run_list_exit_status(const shoal_run_list_outcome *o, const int *stop) {
  if (o->stopped) return 128 + __atomic_load_n(stop, __ATOMIC_ACQUIRE);
  return o->failed ? EXIT_JOB_FAILED : EXIT_GOOD;
}

void run_list_print(const shoal_run_list *runs) {
  for (size_t i = 0; i < shoal_run_list_count(runs); i++) {
    const shoal_listed_run r = shoal_run_list_at(runs, i);
    fputs(called(), stdout);
    for (int k = 0; k < r.n_words; k++) printf(" %s", r.words[k]);
    printf(" --run-dir %s/%s\n", shoal_run_list_folder(runs), r.name);
  }
}

/* ---- results */

void run_list_report(const shoal_run_list *runs) {
  char *path = NULL;
  const char *folder = shoal_run_list_folder(runs);
  shoal_status status = asprintf(&path, "%s/report.html", folder) < 0 ? status_no_memory() : NULL;
  if (!status)
    status = shoal_report_write(&(shoal_report_options){.folders = &folder, .n_folders = 1, .path = path}, NULL);
  if (status)
    say(stdout, "No page: %s\n", shoal_status_message(status));
  else
    say(stdout, "The page is in %s.\n", path);
  shoal_status_free(status);
  free(path);
}
