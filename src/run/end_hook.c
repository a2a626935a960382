/* The command that a job runs at its end. */
#include "base/clock.h"
#include "base/mem.h"
#include "base/status.h"
#include "shoal/jobs.h"

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define HOOK_SECONDS 60.0
#define LOOK_MILLISECONDS 10

extern char **environ;

enum { ADDED = 3 }; /* variables */

static bool same_name(const char *a, const char *b) {
  const size_t n = strcspn(a, "=");
  return !strncmp(a, b, n + 1);
}

/* The environment with those in place of what was there of them. */
static char **make_environment(char *added[ADDED]) {
  size_t n = 0, k = 0;
  while (environ[n]) n++;
  char **all = calloc(n + ADDED + 1, sizeof *all);
  for (size_t i = 0; all && i < n; i++) {
    bool replaced = false;
    for (size_t a = 0; a < ADDED; a++) replaced |= same_name(added[a], environ[i]);
    if (!replaced) all[k++] = environ[i];
  }
  for (size_t a = 0; all && a < ADDED; a++) all[k++] = added[a];
  return all;
}

/* In a process group of its own, with the signals that the command may have blocked or ignored as usual. */
static int start(const char *command, char **environment, pid_t *pid) {
  char *const argv[] = {(char[]){"sh"}, (char[]){"-c"}, (char *)command, NULL};
  posix_spawnattr_t how;
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  int error = posix_spawnattr_init(&how);
  if (error) return error;
  posix_spawnattr_setpgroup(&how, 0);
  posix_spawnattr_setsigmask(&how, &none);
  posix_spawnattr_setsigdefault(&how, &all);
  posix_spawnattr_setflags(&how, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  error = posix_spawn(pid, "/bin/sh", NULL, &how, argv, environment);
  posix_spawnattr_destroy(&how);
  return error;
}

static shoal_status await_end(pid_t pid, const char *command, double seconds) {
  const double until = clock_seconds() + seconds;
  int status = 0;
  while (!waitpid(pid, &status, WNOHANG)) {
    if (clock_seconds() > until) {
      kill(-pid, SIGKILL);
      waitpid(pid, &status, 0);
      return status_make(SHOAL_ERR_PEER, "'%s' had not ended after %g s, and was ended", command, seconds);
    }
    poll(NULL, 0, LOOK_MILLISECONDS);
  }
  if (WIFSIGNALED(status))
    return status_make(SHOAL_ERR_PEER, "'%s' was ended by signal %d (%s)", command, WTERMSIG(status),
                       strsignal(WTERMSIG(status)));
  if (WEXITSTATUS(status))
    return status_make(SHOAL_ERR_PEER, "'%s' ended with exit status %d", command, WEXITSTATUS(status));
  return NULL;
}

shoal_status shoal_run_end_hook(const char *command, const char *run_dir, const char *status, int exit_status,
                                double seconds) {
  char *added[ADDED] = {NULL}, *folder = run_dir ? realpath(run_dir, NULL) : NULL;
  const char *shown = folder ? folder : run_dir ? run_dir : "";
  const bool good = asprintf(&added[0], "SHOAL_RUN=%s", shown) >= 0 &&
                    asprintf(&added[1], "SHOAL_STATUS=%s", status) >= 0 &&
                    asprintf(&added[2], "SHOAL_EXIT=%d", exit_status) >= 0;
  char **environment = good ? make_environment(added) : NULL;
  pid_t pid = 0;
  shoal_status result = environment ? NULL : status_no_memory();
  if (!result) {
    const int error = start(command, environment, &pid);
    if (error) result = status_errno(error, "'%s' cannot be started", command);
  }
  if (!result) result = await_end(pid, command, seconds > 0 ? seconds : HOOK_SECONDS);
  free(environment);
  for (size_t i = 0; i < COUNT_OF(added); i++) free(added[i]);
  free(folder);
  return status_wrap(result, "`on_end`");
}
