/* The far end of shoal_launch. */
#include "base/build_info.h"
#include "base/clock.h"
#include "base/json_text.h"
#include "base/mem.h"
#include "cluster/launch.h"
#include "run/log_view.h"
#include "run/remote_address.h"
#include "run/remote_channel.h"
#include "run/run_dir.h"
#include "shoal/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WAIT_SECONDS 0.05
#define GRACE_SECONDS 3.0 /* between asking tasks to end and making them */

typedef struct {
  remote_channel line;
  launch *tasks;
  log_view *view;
  shoal_run_listener listener;
  char folder[PATH_MAX]; /* keys, logs, the cluster's description: gone when the agent ends */
  shoal_status lost;     /* why the launcher cannot be told any more */
  double heard;          /* clock */
} agent;

static void tell(agent *a, const char *kind, json_t *body) {
  if (a->lost)
    json_decref(body);
  else
    a->lost = remote_channel_send(&a->line, kind, body);
}

static void on_log(void *context, const char *task, const char *line) {
  tell(context, "log", json_pack("{s:s, s:o}", "task", task, "line", remote_text(line)));
}

/* ---- files for this job */

static shoal_status make_folder(agent *a) {
  const char *above = getenv("TMPDIR");
  snprintf(a->folder, sizeof a->folder, "%s/shoal-launch-XXXXXX", above && *above == '/' ? above : "/tmp");
  if (mkdtemp(a->folder)) return NULL;
  const int error = errno;
  shoal_status status = status_errno(error, "cannot create the folder %s", a->folder);
  a->folder[0] = 0;
  return status;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at) { return remove(path); }

static void remove_folder(const agent *a) {
  if (a->folder[0]) nftw(a->folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static shoal_status write_file(const agent *a, const char *name, const char *words) {
  char path[PATH_MAX + 64];
  snprintf(path, sizeof path, "%s/%s", a->folder, name);
  int fd = strchr(name, '/') || *name == '.' ? -1 : open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  size_t n = strlen(words);
  bool good = fd >= 0 && write(fd, words, n) == (ssize_t)n;
  int error = errno;
  if (fd >= 0 && close(fd) && good) good = false, error = errno;
  return good ? NULL : status_errno(error, "cannot write %s", path);
}

static shoal_status write_files(const agent *a, const json_t *start) {
  const char *name;
  json_t *value, *keys = json_object_get(start, "keys");
  json_object_foreach (keys, name, value)
    TRY(write_file(a, name, json_is_string(value) ? json_string_value(value) : ""));
  char *description = json_words(json_object_get(start, "cluster"), JSON_ENCODE_ANY);
  shoal_status status = description ? write_file(a, "cluster.json", description) : status_no_memory();
  free(description);
  return status;
}

/* ---- what the launcher asks for */

static shoal_status prepare(agent *a, const json_t *body) {
  const char *interface = json_string_value(json_object_get(body, "interface"));
  char address[INET6_ADDRSTRLEN];
  int n = (int)json_integer_value(json_object_get(body, "tasks")), ports[1024];
  if (n < 0 || n > (int)COUNT_OF(ports)) return status_make(SHOAL_ERR_PEER, "%d tasks are too many for one host", n);
  TRY(remote_address_find(interface, address));
  TRY(remote_ports_find(address, (int)json_integer_value(json_object_get(body, "first")),
                        (int)json_integer_value(json_object_get(body, "last")), n, ports));
  json_t *list = json_array();
  for (int i = 0; i < n; i++) json_array_append_new(list, json_integer(ports[i]));
  tell(a, "ready", json_pack("{s:s, s:o}", "address", address, "ports", list));
  return NULL;
}

/* The task's own words and what this host adds: where it stands, keys, and its share of the processors. */
static shoal_status start_task(agent *a, const json_t *task, bool keys, int threads) {
  const json_t *words = json_object_get(task, "argv");
  const char *name = json_string_value(json_object_get(task, "name"));
  const size_t n = json_array_size(words);
  char cluster[PATH_MAX + 32], log[PATH_MAX + 64], count[32], program[] = "shoal";
  char cluster_flag[] = "--cluster", keys_flag[] = "--keys";
  char **argv = calloc(n + 8, sizeof *argv);
  size_t k = 0;
  if (!argv || !name) {
    free(argv);
    return argv ? status_make(SHOAL_ERR_PEER, "a task without a name") : status_no_memory();
  }
  argv[k++] = program;
  for (size_t i = 0; i < n; i++) {
    const char *word = json_string_value(json_array_get(words, i));
    argv[k++] = (char *)(word ? word : ""); /* exec does not change it */
  }
  snprintf(cluster, sizeof cluster, "%s/cluster.json", a->folder);
  snprintf(log, sizeof log, "%s/%s.log", a->folder, name);
  for (char *s = log + strlen(a->folder) + 1; *s; s++)
    if (*s == '/') *s = '-';
  argv[k++] = cluster_flag;
  argv[k++] = cluster;
  if (keys) {
    argv[k++] = keys_flag;
    argv[k++] = a->folder;
  }
  snprintf(count, sizeof count, "--threads=%d", threads);
  if (threads && json_is_true(json_object_get(task, "worker"))) argv[k++] = count;
  shoal_status status = launch_start(a->tasks, name, argv, log);
  free(argv);
  return status;
}

static shoal_status start(agent *a, const json_t *body) {
  const char *folder = json_string_value(json_object_get(body, "folder"));
  const json_t *tasks = json_object_get(body, "tasks");
  if (folder && chdir(folder)) return status_errno(errno, "cannot work in %s (`folder` says where else)", folder);
  TRY(make_folder(a));
  TRY(write_files(a, body));
  const int workers = (int)json_integer_value(json_object_get(body, "threads")); /* that share the processors */
  const int threads = workers ? (int)MAX_OF(sysconf(_SC_NPROCESSORS_ONLN) / workers, 1) : 0;
  for (size_t i = 0; i < json_array_size(tasks); i++)
    TRY(start_task(a, json_array_get(tasks, i), json_object_size(json_object_get(body, "keys")) > 0, threads));
  return NULL;
}

static void stop(agent *a, const json_t *body) {
  const char *name = json_string_value(json_object_get(body, "task"));
  for (int i = 0; name && i < launch_count(a->tasks); i++)
    if (!strcmp(launch_name(a->tasks, i), name)) launch_signal(a->tasks, i, SIGTERM);
}

static shoal_status answer(agent *a) {
  json_t *message, *body;
  for (;;) {
    TRY(remote_channel_next(&a->line, &message));
    if (!message) return NULL;
    a->heard = clock_seconds();
    shoal_status status = NULL;
    if ((body = remote_body(message, "prepare"))) status = prepare(a, body);
    if ((body = remote_body(message, "start"))) status = start(a, body);
    if ((body = remote_body(message, "stop"))) stop(a, body);
    json_decref(message);
    TRY(status);
  }
}

/* ---- the whole */

static shoal_status serve(agent *a) {
  char host[SHOAL_HOST_NAME] = "?";
  gethostname(host, sizeof host - 1);
  a->heard = clock_seconds();
  tell(a, "hello", json_pack("{s:s, s:s}", "version", shoal_version(), "host", host));
  while (!a->lost && !a->line.ended) {
    TRY(answer(a));
    launch_event e;
    TRY(launch_wait(a->tasks, WAIT_SECONDS, &e));
    log_view_look(a->view, a->tasks, e.kind == LAUNCH_ENDED);
    if (e.kind == LAUNCH_ENDED)
      tell(a, "ended", json_pack("{s:s, s:i}", "task", launch_name(a->tasks, e.task), "status", e.status));
    if (clock_seconds() - a->heard > SILENCE_SECONDS)
      return status_make(SHOAL_ERR_PEER, "heard nothing for %g s", SILENCE_SECONDS);
  }
  return NULL;
}

static void remove_own_file(void) {
  char path[PATH_MAX];
  ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
  if (n <= 0) return;
  path[n] = 0;
  unlink(path);
}

static void pass_over(int number) {}

shoal_status shoal_launch_agent(int in, int out, bool remove_program) {
  agent a = {.listener = {.context = &a, .on_log = on_log}};
  struct sigaction ignore = {.sa_handler = pass_over, .sa_flags = SA_RESTART}, before[2]; /* tasks begin without it */
  sigaction(SIGPIPE, &ignore, &before[0]); /* a lost connection shows where it is written to */
  sigaction(SIGHUP, &ignore, &before[1]);  /* ... or read from, and tasks are ended before the agent is */
  if (remove_program) remove_own_file();
  remote_channel_init(&a.line, in, out);
  shoal_status status = launch_create(&a.tasks);
  if (!status) status = log_view_create(&a.listener, &a.view);
  if (!status) status = serve(&a);
  if (status) tell(&a, "error", json_pack("{s:o}", "text", remote_text(shoal_status_message(status))));
  launch_destroy(a.tasks, GRACE_SECONDS);
  log_view_destroy(a.view);
  remove_folder(&a);
  shoal_status_free(a.lost);
  remote_channel_fini(&a.line);
  sigaction(SIGPIPE, &before[0], NULL);
  sigaction(SIGHUP, &before[1], NULL);
  return status;
}
