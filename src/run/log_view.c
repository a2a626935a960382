#include "run/log_view.h"

#include "base/mem.h"
#include "base/text.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PIECE 4096           /* bytes read at once */
#define LINE_MAX_BYTES 2000  /* bytes; a longer line is shown in pieces */
#define LOOK_BYTES (1 << 16) /* bytes of one log a look: the others get their turn, too */

typedef struct {
  int fd;     /* -1: not there yet */
  text rest;  /* of a line whose end has not come */
  char *path; /* of one found in a folder; NULL: of a task that is known */
} one_log;

struct log_view {
  const shoal_run_listener *listener;
  one_log *logs;
  size_t count, room;
};

shoal_status log_view_create(const shoal_run_listener *listener, log_view **out) {
  log_view *v = calloc(1, sizeof *v);
  if (!v) return status_no_memory();
  v->listener = listener;
  *out = v;
  return NULL;
}

static void show(log_view *v, const char *name, const char *line, size_t n) {
  text words = {0};
  while (n && line[n - 1] == '\r') n--;
  text_add(&words, "%.*s", (int)n, line);
  if (!words.failed && v->listener->on_log) v->listener->on_log(v->listener->context, name, words.data);
  text_fini(&words);
}

/* Shows the whole lines of `l->rest`, and keeps what is behind them. */
static void show_lines(log_view *v, one_log *l, const char *name, bool last) {
  size_t done = 0;
  char *data = l->rest.data;
  for (size_t i = 0; i < l->rest.length; i++)
    if (data[i] == '\n' || i - done >= LINE_MAX_BYTES) {
      show(v, name, data + done, i - done);
      done = data[i] == '\n' ? i + 1 : i;
    }
  if (last && l->rest.length > done) {
    show(v, name, data + done, l->rest.length - done);
    done = l->rest.length;
  }
  if (!done) return;
  l->rest.length -= done;
  memmove(data, data + done, l->rest.length + 1);
}

static void look_at(log_view *v, one_log *l, const char *name, const char *path, bool last) {
  char bytes[PIECE];
  if (l->fd < 0) l->fd = open(path, O_RDONLY | O_CLOEXEC);
  if (l->fd < 0) return;
  ssize_t n, all = 0;
  while ((last || all < LOOK_BYTES) && (n = read(l->fd, bytes, sizeof bytes)) > 0) {
    text_add_bytes(&l->rest, bytes, (size_t)n);
    all += n;
    show_lines(v, l, name, false);
  }
  if (last) show_lines(v, l, name, true);
}

void log_view_look(log_view *v, const launch *tasks, bool last) {
  if (!v || !tasks) return;
  size_t count = (size_t)launch_count(tasks);
  void *list = v->logs;
  shoal_status status = mem_grow(&list, &v->room, count, sizeof *v->logs);
  if (status) {
    shoal_status_free(status); /* the logs are there all the same, in their files */
    return;
  }
  v->logs = list;
  for (; v->count < count; v->count++) v->logs[v->count] = (one_log){.fd = -1};
  for (size_t i = 0; i < count; i++)
    look_at(v, &v->logs[i], launch_name(tasks, (int)i), launch_log(tasks, (int)i), last);
}

/* ---- logs in a folder */

static one_log *log_of(log_view *v, const char *path) {
  for (size_t i = 0; i < v->count; i++)
    if (!strcmp(v->logs[i].path, path)) return &v->logs[i];
  void *list = v->logs;
  shoal_status status = mem_grow(&list, &v->room, v->count + 1, sizeof *v->logs);
  v->logs = list;
  char *copy = status ? NULL : strdup(path);
  shoal_status_free(status);
  if (!copy) return NULL;
  v->logs[v->count] = (one_log){.fd = -1, .path = copy};
  return &v->logs[v->count++];
}

/* Where to begin with a log that was there before: behind the end of a line. */
static void go_to_end(one_log *l) {
  char bytes[LINE_MAX_BYTES + 1];
  const off_t size = lseek(l->fd, 0, SEEK_END), from = size > LINE_MAX_BYTES ? size - LINE_MAX_BYTES : 0;
  const ssize_t n = from ? pread(l->fd, bytes, LINE_MAX_BYTES, from) : 0;
  const char *end = n > 0 ? memchr(bytes, '\n', (size_t)n) : NULL;
  lseek(l->fd, from + (end ? end + 1 - bytes : 0), SEEK_SET);
}

/* "worker-0.log" to "worker/0"; false: it is no task's log. */
static bool task_of(const char *file, char name[SHOAL_TASK_NAME]) {
  const char *dash = strrchr(file, '-'), *end = dash ? strstr(dash, ".log") : NULL;
  if (!end || end[4]) return false;
  const int n = snprintf(name, SHOAL_TASK_NAME, "%.*s/%.*s", (int)(dash - file), file, (int)(end - dash - 1), dash + 1);
  return n > 0 && n < SHOAL_TASK_NAME;
}

void log_view_look_in(log_view *v, const char *run_dir, bool last) {
  char folder[PATH_MAX], path[PATH_MAX], name[SHOAL_TASK_NAME];
  if (!v) return;
  snprintf(folder, sizeof folder, "%s/logs", run_dir);
  DIR *d = opendir(folder);
  for (const struct dirent *e; d && (e = readdir(d));) {
    if (!task_of(e->d_name, name) || snprintf(path, sizeof path, "%s/%s", folder, e->d_name) >= (int)sizeof path)
      continue;
    one_log *l = log_of(v, path);
    if (!l) continue;
    if (l->fd < 0 && (l->fd = open(path, O_RDONLY | O_CLOEXEC)) >= 0) go_to_end(l);
    look_at(v, l, name, path, last);
  }
  if (d) closedir(d);
}

void log_view_destroy(log_view *v) {
  if (!v) return;
  for (size_t i = 0; i < v->count; i++) {
    if (v->logs[i].fd >= 0) close(v->logs[i].fd);
    text_fini(&v->logs[i].rest);
    free(v->logs[i].path);
  }
  free(v->logs);
  free(v);
}
