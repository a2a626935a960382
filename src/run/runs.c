/* What jobs run and what runs are there, by their folders alone. */
#include "run/runs.h"

#include "base/json_read.h"
#include "base/json_text.h"
#include "base/mem.h"
#include "base/table.h"
#include "observe/report_run.h"
#include "run/job.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define TAIL_BYTES (1 << 16) /* of metrics.jsonl, in which the last line of a step is looked for */

/* What the public part points to. */
typedef struct {
  char *path, *name, *model, *data, *strategy, *mode, *state, *error;
} owned;

typedef struct {
  shoal_runs shown; /* first: users have it by this */
  shoal_run_status *runs;
  owned *texts;
} runs;

void shoal_runs_destroy(shoal_runs *shown) {
  runs *r = (runs *)shown;
  if (!r) return;
  for (size_t i = 0; i < shown->count; i++) {
    owned *o = &r->texts[i];
    free(o->path);
    free(o->name);
    free(o->model);
    free(o->data);
    free(o->strategy);
    free(o->mode);
    free(o->state);
    free(o->error);
  }
  free(r->runs);
  free(r->texts);
  free(r);
}

/* ---- one run */

bool run_dir_holder(const run_dir *r, int *pid, char host[SHOAL_HOST_NAME]) {
  FILE *f = fopen(r->holder, "re");
  if (!f) return false;
  const int n = fscanf(f, "process %d on %255s", pid, host);
  fclose(f);
  return n == 2 && *pid > 0;
}

static double modified(const char *path) {
  struct stat st;
  return stat(path, &st) ? NAN : (double)st.st_mtim.tv_sec + 1e-9 * (double)st.st_mtim.tv_nsec;
}

/* Takes the descriptor; symbolic links count as themselves. */
static int64_t folder_bytes(int fd) {
  int64_t sum = 0;
  DIR *d = fdopendir(fd);
  if (!d) {
    if (fd >= 0) close(fd);
    return 0;
  }
  for (const struct dirent *e; (e = readdir(d));) {
    struct stat st;
    if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
    if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW)) continue;
    sum += S_ISDIR(st.st_mode) ? 0 : (int64_t)st.st_size;
    if (S_ISDIR(st.st_mode))
      sum += folder_bytes(openat(dirfd(d), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  }
  closedir(d);
  return sum;
}

static double number(const json_t *o, const char *key) {
  const json_t *value = json_object_get(o, key);
  return json_is_number(value) ? json_number_value(value) : NAN;
}

static int64_t whole(const json_t *o, const char *key, int64_t otherwise) {
  const json_t *value = json_object_get(o, key);
  return json_is_integer(value) ? json_integer_value(value) : otherwise;
}

/* The last line of training in the last bytes of the file; NULL: none. The caller owns it. */
static json_t *last_progress(const char *path) {
  json_t *found = NULL;
  FILE *f = fopen(path, "re");
  char *line = NULL;
  size_t room = 0;
  if (!f) return NULL;
  if (fseek(f, -TAIL_BYTES, SEEK_END)) rewind(f);
  while (getline(&line, &room, f) > 0) {
    if (!strstr(line, "\"step\"")) continue; /* kinds "step" and "epoch", and tests, have it */
    json_t *o = json_read_words(line, 0, NULL);
    const char *kind = json_string_value(json_object_get(o, "kind"));
    if (kind && (!strcmp(kind, "step") || !strcmp(kind, "epoch"))) {
      json_decref(found);
      found = json_incref(o);
    }
    json_decref(o);
  }
  free(line);
  fclose(f);
  return found;
}

static void take_progress(shoal_run_status *s, const json_t *line) {
  s->step = whole(line, "step", s->step);
  s->epoch = whole(line, "epoch", s->epoch - 1) + 1;
  s->examples = whole(line, "examples", s->examples);
  s->loss = number(line, "loss");
  s->accuracy = number(line, "accuracy");
  s->examples_per_second = number(line, "examples_per_second");
}

static void take_summary(shoal_run_status *s, const json_t *summary) {
  s->step = whole(summary, "updates", whole(summary, "steps", s->step));
  s->epoch = whole(summary, "epochs", s->epoch);
  s->examples = whole(summary, "examples", s->examples);
  s->loss = number(summary, "final_loss");
  s->accuracy = number(summary, "train_accuracy");
  s->test_accuracy = number(summary, "test_accuracy");
  s->examples_per_second = number(summary, "examples_per_second");
}

static bool keep(char **to, const char *words, bool *good) {
  *to = strdup(words ? words : "");
  *good &= *to != NULL;
  return *good;
}

/* Settings, as far as they can be read: a run that is damaged is listed all the same. */
static void take_settings(shoal_run_status *s, owned *o, const char *path, bool *good) {
  json_t *settings = NULL;
  shoal_job job = job_unset();
  shoal_status status = access(path, F_OK) ? NULL : run_dir_read_settings(path, &settings);
  if (settings && !status) status = settings_from_json(job_table, json_object_get(settings, "flags"), path, &job);
  shoal_status_free(status);
  keep(&o->model, json_string_value(json_object_get(settings, "model")), good);
  keep(&o->data, job.data, good);
  keep(&o->strategy, job.strategy, good);
  keep(&o->mode, job.strategy && !strcmp(job.strategy, "ps") ? job.mode : NULL, good);
  s->workers = job.workers > 0 ? job.workers : 1;
  s->ps = job.ps;
  s->epochs = job.epochs > 0 ? job.epochs : -1;
  s->steps = job.steps > 0 ? job.steps : -1;
  json_decref(settings);
}

static double started_at(const run_dir *r, const json_t *summary, bool running) {
  struct tm t = {0};
  const char *words = json_string_value(json_object_get(summary, "started"));
  if (running) return modified(r->holder);
  if (words && strptime(words, "%Y-%m-%dT%H:%M:%S", &t)) return (double)timegm(&t);
  return modified(r->settings);
}

static shoal_status read_run(const char *path, const char *name, shoal_run_status *s, owned *o) {
  run_dir r;
  bool good = true;
  TRY(run_dir_init(path, &r));
  json_t *summary = json_read_file(r.summary, 0, NULL), *line = last_progress(r.metrics);
  const bool running = run_dir_busy(&r);
  const char *state = json_string_value(json_object_get(summary, "status"));
  const char *error = running ? NULL : json_string_value(json_object_get(summary, "error"));
  *s = (shoal_run_status){.epoch = -1,
                          .step = -1,
                          .examples = -1,
                          .examples_per_second = NAN,
                          .loss = NAN,
                          .accuracy = NAN,
                          .test_accuracy = NAN,
                          .started = started_at(&r, summary, running),
                          .changed = fmax(modified(r.metrics), fmax(modified(r.summary), modified(r.settings))),
                          .bytes = folder_bytes(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)),
                          .part = strchr(name, '/') != NULL};
  take_settings(s, o, r.settings, &good);
  if (summary && !running)
    take_summary(s, summary);
  else if (line)
    take_progress(s, line);
  if (running && !run_dir_holder(&r, &s->pid, s->host)) s->pid = 0;
  keep(&o->path, path, &good);
  keep(&o->name, name, &good);
  keep(&o->state, running ? "running" : state ? state : "lost", &good);
  if (error) keep(&o->error, error, &good);
  s->path = o->path;
  s->name = o->name;
  s->state = o->state;
  s->error = o->error;
  s->model = o->model;
  s->data = o->data;
  s->strategy = o->strategy;
  s->mode = o->mode;
  json_decref(line);
  json_decref(summary);
  run_dir_fini(&r);
  return good ? NULL : status_no_memory();
}

/* ---- all of them */

static shoal_status create(size_t room, runs **out) {
  runs *r = calloc(1, sizeof *r);
  if (!r) return status_no_memory();
  r->runs = calloc(room + 1, sizeof *r->runs);
  r->texts = calloc(room + 1, sizeof *r->texts);
  r->shown.runs = r->runs;
  *out = r;
  if (r->runs && r->texts) return NULL;
  shoal_runs_destroy(&r->shown);
  return status_no_memory();
}

static int order(const void *a, const void *b) {
  const shoal_run_status *x = a, *y = b;
  if (!x->pid != !y->pid) return x->pid ? -1 : 1;
  return x->started < y->started ? 1 : x->started > y->started ? -1 : strcmp(x->name, y->name);
}

/* The texts stay where they are: nothing but shoal_runs_destroy looks for them. */
static void sort(runs *r) { qsort(r->runs, r->shown.count, sizeof *r->runs, order); }

shoal_status shoal_runs_read(const char *folder, shoal_runs **out) {
  report_set found = {0};
  runs *r = NULL;
  shoal_status status = access(folder, F_OK) ? NULL : report_set_add(&found, folder);
  if (!status) status = create(found.count, &r);
  for (size_t i = 0; i < found.count && !status; i++) {
    const report_run *run = found.runs[i];
    if (!run->is_run) continue;
    status = read_run(run->path, run->name, &r->runs[r->shown.count], &r->texts[r->shown.count]);
    r->shown.count++; /* what it has so far is to be freed */
  }
  report_set_fini(&found);
  if (status) {
    if (r) shoal_runs_destroy(&r->shown);
    return status;
  }
  sort(r);
  *out = &r->shown;
  return NULL;
}

shoal_status shoal_run_status_read(const char *folder, shoal_runs **out) {
  runs *r = NULL;
  if (!shoal_run_dir_used(folder))
    return status_make(SHOAL_ERR_ARGUMENT, "%s: no run is there; expected the folder of one, e.g. runs/lenet-1",
                       folder);
  char *copy = strdup(folder);
  if (!copy) return status_no_memory();
  while (copy[0] && copy[1] && copy[strlen(copy) - 1] == '/') copy[strlen(copy) - 1] = 0;
  const char *slash = strrchr(copy, '/');
  shoal_status status = create(1, &r);
  if (!status) {
    status = read_run(copy, slash && slash[1] ? slash + 1 : copy, r->runs, r->texts);
    r->shown.count = 1;
  }
  free(copy);
  if (status && r) shoal_runs_destroy(&r->shown);
  if (!status) *out = &r->shown;
  return status;
}

shoal_status runs_pick(shoal_runs *shown, const bool *wanted, shoal_runs **out) {
  runs *r = (runs *)shown;
  runs *picked = NULL;
  shoal_status status = create(shown->count, &picked);
  for (size_t i = 0; i < shown->count && !status; i++) {
    if (!wanted[i]) continue;
    const size_t k = picked->shown.count++;
    status = read_run(r->runs[i].path, r->runs[i].name, &picked->runs[k], &picked->texts[k]);
  }
  shoal_runs_destroy(shown);
  if (status && picked) shoal_runs_destroy(&picked->shown);
  if (!status) *out = &picked->shown;
  return status;
}

/* ---- for people */

enum {
  RUN,
  STATE,
  MODEL,
  STRATEGY,
  EPOCH,
  STEP,
  SPEED,
  LOSS,
  AGE,
  PROCESS,
  BRIEF, /* all from here on: only of one run */
  DATA = BRIEF,
  EXAMPLES,
  ACCURACY,
  TEST,
  SIZE,
  FOLDER,
  ERROR,
  COLUMNS
};

static const shoal_result_column columns[COLUMNS] = {
    [RUN] = {.head = "run", .left = true},
    [STATE] = {.head = "state", .left = true},
    [MODEL] = {.head = "model", .left = true, .spare = 4},
    [STRATEGY] = {.head = "strategy", .left = true, .spare = 5},
    [EPOCH] = {.head = "epoch", .spare = 1},
    [STEP] = {.head = "step", .spare = 3},
    [SPEED] = {.head = "examples/s"},
    [LOSS] = {.head = "loss", .spare = 2},
    [AGE] = {.head = "age"},
    [PROCESS] = {.head = "process", .left = true, .spare = 6},
    [DATA] = {.head = "data", .left = true},
    [EXAMPLES] = {.head = "examples"},
    [ACCURACY] = {.head = "accuracy"},
    [TEST] = {.head = "test accuracy"},
    [SIZE] = {.head = "size"},
    [FOLDER] = {.head = "folder", .left = true},
    [ERROR] = {.head = "error", .left = true},
};

static void set_count(shoal_result_table *t, int row, int column, int64_t value, int64_t of) {
  char a[GROUPED_TEXT], b[GROUPED_TEXT];
  if (value < 0)
    table_set(t, row, column, "-");
  else if (of > 0)
    table_set(t, row, column, "%s/%s", grouped_text(value, a), grouped_text(of, b));
  else
    table_set_int(t, row, column, value);
}

static void set_age(shoal_result_table *t, int row, double seconds) {
  if (!isfinite(seconds) || seconds < 0)
    table_set(t, row, AGE, "-");
  else if (seconds < 100)
    table_set(t, row, AGE, "%.0f s", seconds);
  else if (seconds < 6000)
    table_set(t, row, AGE, "%.0f min", seconds / 60);
  else if (seconds < 2 * 86400)
    table_set(t, row, AGE, "%.1f h", seconds / 3600);
  else
    table_set(t, row, AGE, "%.0f days", seconds / 86400);
}

static void set_strategy(shoal_result_table *t, int row, const shoal_run_status *s) {
  if (*s->mode)
    table_set(t, row, STRATEGY, "%s %s %lld+%lld", s->strategy, s->mode, (long long)s->ps, (long long)s->workers);
  else if (s->workers > 1)
    table_set(t, row, STRATEGY, "%s %lld", s->strategy, (long long)s->workers);
  else
    table_set(t, row, STRATEGY, "%s", *s->strategy ? s->strategy : "-");
}

static void set_details(shoal_result_table *t, int row, const shoal_run_status *s) {
  table_set(t, row, DATA, "%s", *s->data ? s->data : "-");
  set_count(t, row, EXAMPLES, s->examples, 0);
  table_set_share(t, row, ACCURACY, s->accuracy);
  table_set_share(t, row, TEST, s->test_accuracy);
  table_set_bytes(t, row, SIZE, s->bytes);
  table_set(t, row, FOLDER, "%s", s->path);
  table_set(t, row, ERROR, "%s", s->error ? s->error : "-");
}

shoal_status shoal_runs_table(const shoal_runs *r, bool all, shoal_result_table **out) {
  const double now = (double)time(NULL);
  shoal_result_table *t;
  TRY(table_create((int)r->count, columns, all ? COLUMNS : BRIEF, &t));
  for (int i = 0; i < (int)r->count; i++) {
    const shoal_run_status *s = &r->runs[i];
    table_set(t, i, RUN, "%s", s->name);
    table_set(t, i, STATE, "%s", s->state);
    table_set(t, i, MODEL, "%s", *s->model ? s->model : "-");
    set_strategy(t, i, s);
    set_count(t, i, EPOCH, s->epoch, s->epochs);
    set_count(t, i, STEP, s->step, s->steps);
    table_set_number(t, i, SPEED, s->examples_per_second, s->examples_per_second < 100 ? 1 : 0);
    table_set_number(t, i, LOSS, s->loss, 4);
    set_age(t, i, now - s->started);
    if (s->pid)
      table_set(t, i, PROCESS, "%d on %s", s->pid, s->host);
    else
      table_set(t, i, PROCESS, "-");
    if (all) set_details(t, i, s);
  }
  return table_done(t, NULL, out);
}

/* ---- for programs */

static json_t *count_json(int64_t value) { return value < 0 ? json_null() : json_integer(value); }

static json_t *text_json(const char *words) { return words && *words ? json_string(words) : json_null(); }

static json_t *run_json(const shoal_run_status *s) {
  json_t *o = json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o}", "name", s->name, "path", s->path, "state", s->state,
                        "error", text_json(s->error), "model", text_json(s->model), "data", text_json(s->data),
                        "strategy", text_json(s->strategy), "mode", text_json(s->mode));
  const struct {
    const char *key;
    int64_t value;
  } counts[] = {{"workers", s->workers},   {"ps", s->ps},       {"epoch", s->epoch},
                {"epochs", s->epochs},     {"step", s->step},   {"steps", s->steps},
                {"examples", s->examples}, {"bytes", s->bytes}, {"pid", s->pid ? s->pid : -1}};
  const struct {
    const char *key;
    double value;
  } numbers[] = {{"examples_per_second", s->examples_per_second},
                 {"loss", s->loss},
                 {"accuracy", s->accuracy},
                 {"test_accuracy", s->test_accuracy},
                 {"started", s->started},
                 {"changed", s->changed}};
  for (size_t i = 0; i < COUNT_OF(counts); i++) json_object_set_new(o, counts[i].key, count_json(counts[i].value));
  for (size_t i = 0; i < COUNT_OF(numbers); i++) json_object_set_new(o, numbers[i].key, json_finite(numbers[i].value));
  json_object_set_new(o, "host", text_json(s->host));
  return o;
}

shoal_status shoal_runs_json(const shoal_runs *r, char **out) {
  json_t *all = json_array();
  for (size_t i = 0; i < r->count; i++) json_array_append_new(all, run_json(&r->runs[i]));
  return json_text(all, 0, out);
}
