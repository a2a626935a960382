/* A cluster on this machine: starts all tasks, tells how training goes, and sees to it that nothing is left running.
 *
 * 1. A task that is killed is started again, `max_restarts` times. After that the job goes on without a worker; without
 *    worker 0 or a server, and when a task fails by itself, it ends within seconds, with a message that names the task.
 * 2. A stop (Ctrl-C) goes to worker 0, which stops the others through the servers: all end at the same step.
 * 3. The job is good only if every task that was not lost has delivered its result, every server has used gradients of
 *    every worker that was there from the start to the end, and (in sync mode) all workers measure the same accuracy.
 */
#ifndef SHOAL_RUN_LOCAL_CLUSTER_H
#define SHOAL_RUN_LOCAL_CLUSTER_H

#include "run/state.h"

enum { CLUSTER_RESTARTS = 3 }; /* of each task, unless the job says otherwise */

/* Settings filled and checked, folder named; the report is complete then. */
SHOAL_CHECKED shoal_status local_cluster_run(run_state *s);
/* Fact 3 on a report with all tasks. */
SHOAL_CHECKED shoal_status cluster_check(const shoal_run_report *r);

#endif
