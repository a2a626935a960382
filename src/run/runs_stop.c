/* Stopping the job that runs in a folder. */
#include "base/clock.h"
#include "run/runs.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOOK_MILLISECONDS 20
#define NAME_SECONDS 5.0 /* between a job's lock and the file that says whose it is */

/* The process that holds the folder, once it has said so. */
static shoal_status find_holder(const run_dir *r, int *pid) {
  char host[SHOAL_HOST_NAME], own[SHOAL_HOST_NAME] = "";
  const double until = clock_seconds() + NAME_SECONDS;
  gethostname(own, sizeof own - 1);
  while (run_dir_busy(r)) {
    if (run_dir_holder(r, pid, host)) {
      if (!strcmp(host, own)) return NULL;
      return status_make(SHOAL_ERR_ARGUMENT, "%s: its job is process %d on the host %s: stop it there", r->path, *pid,
                         host);
    }
    if (clock_seconds() > until)
      return status_make(SHOAL_ERR_INPUT, "%s: a job runs there, but %s does not say which process", r->path,
                         r->holder);
    poll(NULL, 0, LOOK_MILLISECONDS);
  }
  return status_make(SHOAL_ERR_ARGUMENT, "%s: no job runs there", r->path);
}

/* The process may end, and its number be another's, at any time: a descriptor stands for this one alone, and the folder is
 * looked at once more after it is there. */
static shoal_status send(const run_dir *r, int pid, int number) {
  const int process = (int)syscall(SYS_pidfd_open, pid, 0);
  int again = 0;
  char host[SHOAL_HOST_NAME];
  if (process < 0)
    return errno == ESRCH ? NULL : status_errno(errno, "%s: its job, process %d, cannot be reached", r->path, pid);
  shoal_status status = NULL;
  if (run_dir_busy(r) && run_dir_holder(r, &again, host) && again == pid &&
      syscall(SYS_pidfd_send_signal, process, number, NULL, 0) && errno != ESRCH)
    status = status_errno(errno, "%s: its job, process %d, cannot be asked to stop", r->path, pid);
  close(process);
  return status;
}

static bool has_ended(const run_dir *r, double seconds) {
  const double until = clock_seconds() + seconds;
  while (run_dir_busy(r)) {
    if (clock_seconds() > until) return false;
    poll(NULL, 0, LOOK_MILLISECONDS);
  }
  return true;
}

shoal_status shoal_run_stop(const char *run_dir_path, double seconds, bool now) {
  run_dir r;
  int pid = 0;
  TRY(run_dir_init(run_dir_path, &r));
  shoal_status status = find_holder(&r, &pid);
  if (!status) status = send(&r, pid, now ? SIGKILL : SIGTERM);
  if (!status && !has_ended(&r, seconds))
    status = status_make(SHOAL_ERR_PEER, "%s: its job, process %d, has not ended in %g s%s", r.path, pid, seconds,
                         now ? "" : "; `now` ends it at once, with what it saved before");
  run_dir_fini(&r);
  return status;
}
