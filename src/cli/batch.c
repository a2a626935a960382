#include "cli/batch.h"

#include "cli/flags.h"
#include "cli/progress.h"
#include "cli/say.h"
#include "cli/table.h"
#include "shoal/observe.h"
#include "shoal/version.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define INDENT 2          /* of a line that goes on */

/* ---- runs */

static void run_fini(batch_run *r) {
  free(r->name);
  for (int i = 0; i < r->count; i++) free(r->words[i]);
  json_decref(r->summary);
  free(r->error);
}

void batch_fini(batch *b) {
  for (size_t i = 0; i < b->count; i++) run_fini(&b->runs[i]);
  free(b->runs);
  b->runs = NULL;
  b->count = b->capacity = 0;
}

shoal_status batch_add(batch *b, const char *name, batch_run **out) {
  if (b->count == b->capacity) {
    const size_t room = b->capacity ? 2 * b->capacity : 16;
    batch_run *more = realloc(b->runs, room * sizeof *more);
    if (!more) return status_no_memory();
    b->runs = more;
    b->capacity = room;
  }
  batch_run *r = &b->runs[b->count];
  *r = (batch_run){.name = strdup(name)};
  if (!r->name) return status_no_memory();
  b->count++;
  *out = r;
  return NULL;
}

shoal_status batch_add_word(batch_run *r, const char *word) {
  if (r->count == BATCH_WORDS_MAX) return status_make(SHOAL_ERR_ARGUMENT, "more than %d words", BATCH_WORDS_MAX);
  if (!(r->words[r->count] = strdup(word))) return status_no_memory();
  r->count++;
  return NULL;
}

shoal_status batch_add_words(batch_run *r, const char *words) {
  char *copy = strdup(words), *rest = copy, *word;
  if (!copy) return status_no_memory();
  shoal_status status = NULL;
  while (!status && (word = strsep(&rest, " ")))
    if (*word) status = batch_add_word(r, word);
  free(copy);
  return status;
}

shoal_status batch_check(const batch_run *r, int64_t *seed) {
  shoal_job job;
  flags_parsed parsed;
  shoal_job_init(&job, sizeof job);
  shoal_status status = flags_parse(shoal_job_settings(), r->count - 2, (char **)r->words + 2, &job, &parsed);
  job.model = r->words[1];
  if (!status) status = shoal_job_resolve(&job, &job);
  *seed = job.seed;
  if (!status) return NULL;
  char *words = flags_in_words(shoal_status_message(status));
  shoal_status told = status_make(shoal_status_code(status), "%s: %s", r->name, words ? words : "?");
  free(words);
  shoal_status_free(status);
  return told;
}

/* ---- files */

shoal_status json_write_file(const json_t *value, const char *path) {
  char *words = json_dumps(value, JSON_INDENT(2));
  text content = {0};
  if (!words) return status_no_memory();
  text_add(&content, "%s\n", words);
  free(words);
  shoal_status status = shoal_text_write(&content, path);
  text_fini(&content);
  return status;
}

static bool is_finished(const json_t *summary) {
  const char *status = json_string_value(json_object_get(summary, "status"));
  return status && (!strcmp(status, "finished") || !strcmp(status, "stopped early"));
}

/* A run that does not count is tried again. */
static shoal_status look_at(const batch *b, batch_run *r) {
  char *path;
  if (asprintf(&path, "%s/%s/summary.json", b->folder, r->name) < 0) return status_no_memory();
  json_t *summary = json_load_file(path, 0, NULL);
  free(path);
  json_decref(r->summary);
  r->summary = is_finished(summary) ? json_incref(summary) : NULL;
  json_decref(summary);
  return NULL;
}

shoal_status batch_look(batch *b) {
  for (size_t i = 0; i < b->count; i++) TRY(look_at(b, &b->runs[i]));
  return NULL;
}

/* ---- running */

static bool asked_to_stop(const int *stop) { return stop && __atomic_load_n(stop, __ATOMIC_ACQUIRE); }

/* The last line of a log that says something; the caller frees it. */
static char *last_line(const char *path) {
  FILE *f = fopen(path, "re");
  char *line = NULL, *kept = NULL;
  size_t capacity = 0;
  ssize_t n;
  while (f && (n = getline(&line, &capacity, f)) > 0) {
    while (n && (line[n - 1] == '\n' || line[n - 1] == ' ')) line[--n] = 0;
    if (!n || !strncmp(line, "'shoal ", 7)) continue; /* where help is */
    free(kept);
    kept = strdup(line);
  }
  free(line);
  if (f) fclose(f);
  return kept;
}

shoal_status batch_once(const char *name, char *const *argv, const char *log, const int *stop) {
  int ended = 0;
  TRY(shoal_process_run(&(shoal_process){.program = "/proc/self/exe",
                                         .argv = (const char *const *)argv,
                                         .name = name,
                                         .log = log,
                                         .stop = stop},
                        &ended));
  if (asked_to_stop(stop)) return status_make(SHOAL_ERR_CANCELLED, "stopped");
  if (!ended) return NULL;
  char *why = last_line(log);
  shoal_status status = status_make(SHOAL_ERR_INPUT, "%s: %s", name, why ? why : "it failed without a word");
  free(why);
  return status;
}

/* What a terminal shows while a run is under way. */
typedef struct {
  const batch *batch;
  size_t number, done_now; /* runs that this call ran to their end ... */
  double spent;            /* ... and the time they took */
  double started;
  bool live, drawn;
  double last;
} display;

/* "2:10 left", or nothing while nothing is known. */
static void left_text(const display *d, char *out, size_t size) {
  char words[DURATION_TEXT];
  size_t open = 0;
  for (size_t i = d->number; i < d->batch->count; i++) open += !d->batch->runs[i].summary;
  *out = 0;
  if (!d->done_now || !open) return;
  double each = d->spent / (double)d->done_now, running = d->started ? seconds_now() - d->started : 0;
  double seconds = each * (double)open - (running < each ? running : each);
  snprintf(out, size, ", about %s left", duration_text(seconds > 1 ? seconds : 1, words));
}

static void tick(void *context) {
  display *d = context;
  double now = seconds_now();
  if (!d->live || now - d->last < 0.2) return;
  d->last = now;
  d->drawn = true;
  char left[64], words[DURATION_TEXT], line[512];
  left_text(d, left, sizeof left);
  int n = snprintf(line, sizeof line, "[%zu/%zu] %s, %s", d->number + 1, d->batch->count,
                   d->batch->runs[d->number].name, duration_text(now - d->started, words));
  int room = terminal_width(stderr) - 1; /* a line that wraps could not be drawn over */
  fprintf(stderr, "\r%.*s%s\033[K", room, line, n + (int)strlen(left) <= room ? left : "");
}

static void clear(display *d) {
  if (d->drawn) fputs("\r\033[K", stderr);
  d->drawn = false;
}

/* "98.12 % in 3.10 s"; of clicks and regressions what counts there. */
static void result_text(const json_t *summary, char *out, size_t size) {
  const json_t *accuracy = json_object_get(summary, "test_accuracy"), *auc = json_object_get(summary, "test_auc");
  const json_t *r2 = json_object_get(summary, "test_r2");
  double seconds = json_number_value(json_object_get(summary, "seconds"));
  if (json_is_number(auc))
    snprintf(out, size, "log loss %.5f, AUC %.5f in %.2f s",
             json_number_value(json_object_get(summary, "test_loss")), json_number_value(auc), seconds);
  else if (json_is_number(accuracy))
    snprintf(out, size, "%.2f %% in %.2f s", 100 * json_number_value(accuracy), seconds);
  else if (json_is_number(r2))
    snprintf(out, size, "R2 %.4f in %.2f s", json_number_value(r2), seconds);
  else
    snprintf(out, size, "done in %.2f s", seconds);
}

static void tell(display *d) {
  const batch *b = d->batch;
  const batch_run *r = &b->runs[d->number];
  clear(d);
  if (b->quiet) return;
  char left[64], result[128];
  d->started = 0;
  d->number++;
  left_text(d, left, sizeof left);
  d->number--;
  result_text(r->summary, result, sizeof result);
  say_indented(stdout, INDENT, "[%zu/%zu] %s: %s%s%s\n", d->number + 1, b->count, r->name, r->error ? "FAILED: " : "",
               r->error ? r->error : result, left);
  fflush(stdout);
}

/* Continues what is there, where it can be continued. */
static shoal_status words_of(const batch *b, batch_run *r, const char **argv, char **folder) {
  int n = 0;
  bool continues = true;
  argv[n++] = "shoal";
  for (int i = 0; i < r->count; i++) {
    argv[n++] = r->words[i];
    if (!strcmp(r->words[i], "--no-checkpoints")) continues = false;
  }
  if (asprintf(folder, "%s/%s", b->folder, r->name) < 0) return status_no_memory();
  const bool used = shoal_run_dir_used(*folder);
  argv[n++] = "--run-dir";
  argv[n++] = *folder;
  argv[n++] = "--quiet";
  if (used && continues) argv[n++] = "--resume";
  argv[n] = NULL;
  return used && !continues ? shoal_run_dir_clear(*folder) : NULL; /* from the beginning: nothing was saved */
}

static shoal_status run_one(batch *b, batch_run *r, display *d) {
  const char *argv[BATCH_WORDS_MAX + 6];
  char *folder = NULL, *log = NULL;
  int ended = 0;
  d->started = seconds_now();
  shoal_status status = words_of(b, r, argv, &folder);
  if (!status && asprintf(&log, "%s/logs/%s.log", b->folder, r->name) < 0) {
    log = NULL;
    status = status_no_memory();
  }
  if (!status)
    status = shoal_process_run(&(shoal_process){.program = "/proc/self/exe",
                                                .argv = argv,
                                                .name = r->name,
                                                .log = log,
                                                .stop = b->stop,
                                                .context = d,
                                                .on_tick = tick},
                               &ended);
  if (!status) status = look_at(b, r);
  free(r->error);
  r->error = NULL;
  if (!status && !r->summary && !asked_to_stop(b->stop)) {
    r->error = last_line(log);
    if (!r->error) r->error = strdup("it ended without a result");
    b->failed++;
  }
  free(log);
  free(folder);
  return status;
}

shoal_status batch_go(batch *b) {
  char *logs;
  if (asprintf(&logs, "%s/logs", b->folder) < 0) return status_no_memory();
  shoal_status status = make_folders(logs);
  free(logs);
  if (!status) status = batch_look(b);
  const char *terminal = getenv("TERM");
  display d = {.batch = b,
               .live = !b->quiet && isatty(STDERR_FILENO) && terminal && strcmp(terminal, "dumb")};
  size_t kept = 0;
  for (size_t i = 0; i < b->count; i++) kept += b->runs[i].summary != NULL;
  char count[COUNTED_TEXT];
  if (kept && kept < b->count && !b->quiet)
    printf("Done already: %zu of %s.\n", kept, counted_text((int64_t)b->count, "run", count));
  for (d.number = 0; d.number < b->count && !status; d.number++) {
    batch_run *r = &b->runs[d.number];
    if (r->summary) continue;
    if (asked_to_stop(b->stop)) break;
    double before = seconds_now();
    status = run_one(b, r, &d);
    if (status || (asked_to_stop(b->stop) && !r->summary)) break;
    d.spent += seconds_now() - before;
    d.done_now++;
    tell(&d);
  }
  clear(&d);
  b->stopped = asked_to_stop(b->stop) && d.number < b->count;
  return status;
}

void batch_report(const batch *b) {
  char *path = NULL;
  const char *folder = b->folder;
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
