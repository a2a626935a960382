/* Runs as processes of their own. */
#include "base/clock.h"
#include "base/options.h"
#include "cluster/launch.h"
#include "shoal/run.h"

#include <signal.h>

#define WAIT_SECONDS 0.1
#define STOP_SECONDS 40.0 /* for a run to save its checkpoint */
#define GRACE_SECONDS 1.0

static bool asked_to_stop(const int *stop) { return stop && __atomic_load_n(stop, __ATOMIC_ACQUIRE); }

static shoal_status wait_for(const shoal_process *p, launch *l, int *ended) {
  const double patience = p->stop_seconds > 0 ? p->stop_seconds : STOP_SECONDS;
  double stop_at = 0;
  for (;;) {
    launch_event e;
    TRY(launch_wait(l, WAIT_SECONDS, &e));
    if (e.kind == LAUNCH_ENDED) {
      *ended = e.status;
      return NULL;
    }
    if (p->on_tick) p->on_tick(p->context);
    if (!stop_at && asked_to_stop(p->stop)) {
      stop_at = clock_seconds();
      launch_signal(l, 0, SIGTERM);
    }
    if (stop_at && clock_seconds() - stop_at > patience)
      return status_make(SHOAL_ERR_PEER, "%s did not end within %g s of being asked to stop", p->name, patience);
  }
}

shoal_status shoal_process_run(const shoal_process *process, int *status) {
  shoal_process own, *p = &own;
  launch *l;
  TRY(OPTIONS_TAKE(p, process));
  TRY(launch_create(&l));
  launch_program(l, p->program ? p->program : "shoal");
  shoal_status failed = launch_start(l, p->name, (char *const *)p->argv, p->log);
  if (!failed) failed = wait_for(p, l, status);
  launch_destroy(l, GRACE_SECONDS);
  return failed;
}
