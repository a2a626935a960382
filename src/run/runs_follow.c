/* Following a run: what it adds to metrics.jsonl and to its logs, until its job ends. */
#include "base/clock.h"
#include "base/json_read.h"
#include "base/mem.h"
#include "base/options.h"
#include "base/text.h"
#include "run/log_view.h"
#include "run/runs.h"

#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOOK_MILLISECONDS 100
#define WINDOW_BYTES \
  (1 << 14) /* of the file's end, in which the last lines are looked for; doubled while they are too few */
#define PIECE (1 << 15)

typedef struct {
  shoal_follow_options options;
  run_dir dir;
  int fd;    /* metrics.jsonl; -1: not there yet */
  text rest; /* of a line whose end has not come */
  log_view *logs;
  shoal_run_listener listener; /* of the logs */
} follower;

/* ---- lines */

static double number(const json_t *o, const char *key) {
  const json_t *value = json_object_get(o, key);
  return json_is_number(value) ? json_number_value(value) : NAN;
}

static int64_t whole(const json_t *o, const char *key) {
  const json_t *value = json_object_get(o, key);
  return json_is_integer(value) ? json_integer_value(value) : -1;
}

static bool is_progress(const char *kind) {
  return kind && (!strcmp(kind, "step") || !strcmp(kind, "epoch") || !strcmp(kind, "eval"));
}

static void tell(const follower *f, const char *line) {
  json_t *o = json_read_words(line, 0, NULL);
  const char *kind = json_string_value(json_object_get(o, "kind"));
  const char *task = json_string_value(json_object_get(o, "task"));
  if (is_progress(kind) && f->options.on_line) {
    const shoal_run_line l = {.kind = kind,
                              .task = task ? task : "",
                              .line = line,
                              .step = whole(o, "step"),
                              .epoch = whole(o, "epoch"),
                              .examples = whole(o, "examples"),
                              .loss = number(o, "loss"),
                              .accuracy = number(o, "accuracy"),
                              .validation_loss = number(o, "validation_loss"),
                              .validation_accuracy = number(o, "validation_accuracy"),
                              .rate = number(o, "rate"),
                              .examples_per_second = number(o, "examples_per_second")};
    f->options.on_line(f->options.context, &l);
  }
  json_decref(o);
}

static void tell_lines(follower *f) {
  char *at = f->rest.data, *end;
  size_t left = f->rest.length;
  while (left && (end = memchr(at, '\n', left))) {
    *end = 0;
    tell(f, at);
    left -= (size_t)(end + 1 - at);
    at = end + 1;
  }
  if (!f->rest.data) return;
  memmove(f->rest.data, at, left);
  f->rest.data[left] = 0;
  f->rest.length = left;
}

/* ---- where to begin */

/* Whether a line of the file is one of progress: those are written with their kind first. */
static bool begins_progress(const char *line) {
  static const char *const kinds[] = {"{\"kind\":\"step\"", "{\"kind\":\"epoch\"", "{\"kind\":\"eval\""};
  for (size_t i = 0; i < COUNT_OF(kinds); i++)
    if (!strncmp(line, kinds[i], strlen(kinds[i]))) return true;
  return false;
}

/* Where the last `wanted` lines of progress begin among `bytes` [length], as an offset from the end; -1: there are fewer. */
static off_t last_lines(const char *bytes, size_t length, int64_t wanted) {
  for (size_t i = length; i > 0 && wanted > 0; i--)
    if ((i == 1 || bytes[i - 2] == '\n') && begins_progress(bytes + i - 1) && !--wanted)
      return (off_t)(length - (i - 1));
  return wanted > 0 ? -1 : 0;
}

static shoal_status go_to_last(follower *f) {
  const off_t size = lseek(f->fd, 0, SEEK_END);
  for (off_t window = WINDOW_BYTES; f->options.last > 0; window *= 2) {
    const off_t from = MAX_OF(size - window, 0);
    const size_t length = (size_t)(size - from);
    char *bytes = malloc(length + 1);
    if (!bytes) return status_no_memory();
    const ssize_t n = pread(f->fd, bytes, length, from);
    bytes[n > 0 ? n : 0] = 0;
    const off_t back = n == (ssize_t)length ? last_lines(bytes, length, f->options.last) : 0;
    free(bytes);
    if (back >= 0 || !from) {
      lseek(f->fd, back >= 0 ? size - back : 0, SEEK_SET);
      return NULL;
    }
  }
  return NULL;
}

/* ---- looking */

static shoal_status look(follower *f, bool last) {
  char bytes[PIECE];
  if (f->fd < 0) {
    f->fd = open(f->dir.metrics, O_RDONLY | O_CLOEXEC);
    if (f->fd >= 0) TRY(go_to_last(f));
  }
  for (ssize_t n; f->fd >= 0 && (n = read(f->fd, bytes, sizeof bytes)) > 0;) {
    text_add_bytes(&f->rest, bytes, (size_t)n);
    tell_lines(f);
  }
  log_view_look_in(f->logs, f->dir.path, last);
  return f->rest.failed ? status_no_memory() : NULL;
}

static bool asked(const follower *f) { return f->options.stop && __atomic_load_n(f->options.stop, __ATOMIC_ACQUIRE); }

shoal_status shoal_run_follow(const char *path, const shoal_follow_options *given) {
  follower f = {.fd = -1};
  TRY(OPTIONS_TAKE(&f.options, given));
  if (!shoal_run_dir_used(path)) return status_make(SHOAL_ERR_ARGUMENT, "%s: no run is there", path);
  TRY(run_dir_init(path, &f.dir));
  f.listener = (shoal_run_listener){.context = f.options.context, .on_log = f.options.on_log};
  shoal_status status = f.options.on_log ? log_view_create(&f.listener, &f.logs) : NULL;
  for (bool running = true; running && !status;) {
    running = !f.options.no_waiting && !asked(&f) && run_dir_busy(&f.dir); /* before the look: nothing is missed */
    status = look(&f, !running);
    if (running) poll(NULL, 0, LOOK_MILLISECONDS);
  }
  if (f.fd >= 0) close(f.fd);
  log_view_destroy(f.logs);
  text_fini(&f.rest);
  run_dir_fini(&f.dir);
  return status;
}
