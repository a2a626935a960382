/* A cluster on this machine: starts all tasks, shows how training goes, and sees to it that nothing is left running.
 *
 * 1. A task that is killed is started again, --max-restarts times. After that the job goes on without a worker; without
 *    worker 0 or a server, and when a task fails by itself, it ends within seconds, with a message that names the task.
 * 2. A stop (Ctrl-C) goes to worker 0, which stops the others through the servers: all end at the same step.
 * 3. The job is good only if every task that was not lost has delivered its result, every server has used gradients of
 *    every worker that was there from the start to the end, and (in sync mode) all workers measure the same accuracy.
 */
#ifndef SHOAL_CLI_CREW_H
#define SHOAL_CLI_CREW_H

#include "cli/progress.h"
#include "cli/training.h"
#include "cli/summary.h"

typedef struct {
  training *base;        /* flags filled and checked; folder named */
  const int *stop;       /* becomes a signal's number when asked to stop */
  progress *screen;
  run_report *report;    /* gets the result; `tasks` is the caller's to release then */
  shoal_progress *last;  /* how far it came */
  double started;
} crew;

SHOAL_CHECKED shoal_status crew_run(crew *c);

/* Parts of it, for a chief that nobody started: what worker 0 tells, and fact 3 on the finished report. */
void crew_announce(crew *c, const json_t *ready);
void crew_show_test(crew *c, const json_t *tested);
void crew_show(crew *c, const json_t *progress);
SHOAL_CHECKED shoal_status crew_check(const crew *c);

#endif
