#include "cluster/launch.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOOK_SECONDS 0.05 /* how often ended tasks are looked for while nothing is reported */
#define PIECE 4096

typedef struct {
  char *name, *log;
  pid_t pid;
  int report;   /* -1: closed */
  bool running; /* not waited for yet */
  bool told;    /* its end was reported */
  int status;
  text lines;   /* received and not yet handed out */
  size_t taken; /* of them */
} task;

struct launch {
  char program[PATH_MAX]; /* looked for in PATH when it has no slash */
  task *tasks;
  size_t n, capacity;
};

shoal_status launch_create(launch **out) {
  launch *l = calloc(1, sizeof *l);
  if (!l) return status_no_memory();
  launch_program(l, "/proc/self/exe");
  *out = l;
  return NULL;
}

void launch_program(launch *l, const char *program) { snprintf(l->program, sizeof l->program, "%s", program); }

/* In the child, between fork and exec: only calls that are safe there. */
static void become(const char *program, pid_t parent, int report, int log, char *const *argv) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127); /* it died before it was watched */
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  int nothing = open("/dev/null", O_RDONLY);
  /* First out of the way of the numbers they are to get. */
  report = fcntl(report, F_DUPFD_CLOEXEC, 10);
  log = fcntl(log, F_DUPFD_CLOEXEC, 10);
  if (nothing < 0 || report < 0 || log < 0) _exit(127);
  dup2(nothing, STDIN_FILENO);
  if (nothing > STDERR_FILENO) close(nothing);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  dup2(report, LAUNCH_REPORT_FD);
  execvp(program, argv);
  static const char why[] = "the program of this task could not be started\n";
  ssize_t ignored = write(STDERR_FILENO, why, sizeof why - 1);
  (void)ignored;
  _exit(127);
}

/* Starts the process of a task that has none. more: flags for the log. */
static shoal_status spawn(const launch *l, task *t, char *const *argv, int more) {
  int pipes[2] = {-1, -1};
  shoal_status status = NULL;
  int file = open(t->log, O_WRONLY | O_CREAT | O_CLOEXEC | O_APPEND | more, 0666);
  if (file < 0) {
    status = status_errno(errno, "%s: cannot create the log %s", t->name, t->log);
    goto fail;
  }
  if (pipe2(pipes, O_CLOEXEC)) {
    status = status_errno(errno, "%s: cannot create a pipe", t->name);
    goto fail;
  }
  pid_t parent = getpid(), pid = fork();
  if (pid == 0) become(l->program, parent, pipes[1], file, argv);
  if (pid < 0) {
    status = status_errno(errno, "%s: cannot start a process", t->name);
    goto fail;
  }
  setpgid(pid, pid); /* as the child does: whoever comes first */
  close(pipes[1]);
  close(file);
  t->pid = pid;
  t->report = pipes[0];
  t->running = true;
  t->told = false;
  fcntl(t->report, F_SETFL, O_NONBLOCK);
  return NULL;
fail:
  if (pipes[0] >= 0) close(pipes[0]);
  if (pipes[1] >= 0) close(pipes[1]);
  if (file >= 0) close(file);
  return status;
}

shoal_status launch_start(launch *l, const char *name, char *const *argv, const char *log) {
  TRY(mem_grow((void **)&l->tasks, &l->capacity, l->n + 1, sizeof *l->tasks));
  task t = {.name = strdup(name), .log = strdup(log), .report = -1};
  shoal_status status = t.name && t.log ? spawn(l, &t, argv, O_TRUNC) : status_no_memory();
  if (status) {
    free(t.name);
    free(t.log);
    return status;
  }
  l->tasks[l->n++] = t;
  return NULL;
}

shoal_status launch_again(launch *l, int i, char *const *argv) {
  task *t = &l->tasks[i];
  if (t->running) return status_make(SHOAL_ERR_INTERNAL, "%s still runs", t->name);
  text_fini(&t->lines); /* half a line at most */
  t->taken = 0;
  return spawn(l, t, argv, 0);
}

/* Takes in what the task has written. */
static void read_report(task *t) {
  char piece[PIECE];
  while (t->report >= 0) {
    ssize_t n = read(t->report, piece, sizeof piece);
    if (n > 0) {
      text_add_bytes(&t->lines, piece, (size_t)n);
      continue;
    }
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    close(t->report);
    t->report = -1;
  }
}

/* The next whole line, or NULL. */
static char *next_line(task *t) {
  if (!t->lines.data) return NULL;
  char *from = t->lines.data + t->taken, *end = memchr(from, '\n', t->lines.length - t->taken);
  if (!end) {
    if (t->taken) { /* what is left moves to the front */
      memmove(t->lines.data, from, t->lines.length - t->taken);
      t->lines.length -= t->taken;
      t->taken = 0;
    }
    return NULL;
  }
  *end = 0;
  t->taken = (size_t)(end + 1 - t->lines.data);
  return from;
}

static void look_after(task *t) {
  if (!t->running) return;
  int status;
  pid_t got = waitpid(t->pid, &status, WNOHANG);
  if (got != t->pid && !(got < 0 && errno == ECHILD)) return;
  t->running = false;
  t->status = got == t->pid ? status : 0;
}

/* What is known already; false: nothing. */
static bool take_event(launch *l, launch_event *out) {
  for (size_t i = 0; i < l->n; i++) {
    task *t = &l->tasks[i];
    look_after(t); /* before reading: then all it wrote is there */
    read_report(t);
    char *line = next_line(t);
    if (line) {
      *out = (launch_event){.kind = LAUNCH_LINE, .task = (int)i, .line = line};
      return true;
    }
  }
  for (size_t i = 0; i < l->n; i++) {
    task *t = &l->tasks[i];
    if (t->running || t->told) continue;
    t->told = true;
    *out = (launch_event){.kind = LAUNCH_ENDED, .task = (int)i, .status = t->status};
    return true;
  }
  return false;
}

shoal_status launch_wait(launch *l, double seconds, launch_event *out) {
  struct pollfd *fds = calloc(l->n + 1, sizeof *fds);
  if (!fds) return status_no_memory();
  double end = clock_seconds() + seconds;
  *out = (launch_event){.kind = LAUNCH_NOTHING};
  while (!take_event(l, out)) {
    double left = end - clock_seconds();
    if (left <= 0) break;
    int n = 0;
    for (size_t i = 0; i < l->n; i++)
      if (l->tasks[i].report >= 0) fds[n++] = (struct pollfd){.fd = l->tasks[i].report, .events = POLLIN};
    poll(fds, (nfds_t)n, (int)(1000 * MIN_OF(left, LOOK_SECONDS)) + 1);
  }
  free(fds);
  return NULL;
}

void launch_signal(launch *l, int i, int signal) {
  if (l->tasks[i].running) kill(l->tasks[i].pid, signal);
}

bool launch_stopped(const launch *l, int i) {
  char path[64], line[256] = "";
  snprintf(path, sizeof path, "/proc/%d/stat", (int)l->tasks[i].pid);
  FILE *f = l->tasks[i].running ? fopen(path, "re") : NULL;
  if (!f) return false;
  const char *name_end = fgets(line, sizeof line, f) ? strrchr(line, ')') : NULL; /* pid (name) state ... */
  fclose(f);
  return name_end && name_end[1] == ' ' && name_end[2] == 'T';
}

int launch_running(const launch *l) {
  int n = 0;
  for (size_t i = 0; i < l->n; i++) n += l->tasks[i].running;
  return n;
}

int launch_count(const launch *l) { return (int)l->n; }
const char *launch_name(const launch *l, int i) { return l->tasks[i].name; }
const char *launch_log(const launch *l, int i) { return l->tasks[i].log; }
pid_t launch_pid(const launch *l, int i) { return l->tasks[i].pid; }

void launch_destroy(launch *l, double grace) {
  if (!l) return;
  for (size_t i = 0; i < l->n; i++)
    if (l->tasks[i].running) {
      kill(l->tasks[i].pid, SIGCONT); /* a stopped one could not listen */
      kill(l->tasks[i].pid, SIGTERM);
    }
  double end = clock_seconds() + grace;
  while (launch_running(l) && clock_seconds() < end) {
    for (size_t i = 0; i < l->n; i++) {
      look_after(&l->tasks[i]);
      read_report(&l->tasks[i]);
    }
    if (launch_running(l)) poll(NULL, 0, 10);
  }
  for (size_t i = 0; i < l->n; i++) {
    task *t = &l->tasks[i];
    if (t->running) {
      kill(-t->pid, SIGKILL); /* the whole group, in case it started something itself */
      waitpid(t->pid, NULL, 0);
    }
    if (t->report >= 0) close(t->report);
    free(t->name);
    free(t->log);
    text_fini(&t->lines);
  }
  free(l->tasks);
  free(l);
}
