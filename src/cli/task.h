/* A process that is one task of a cluster: a worker or a parameter server. Worker 0 is the chief: it saves checkpoints
 * and weights, writes metrics.jsonl, and tells the parent how training goes. */
#ifndef SHOAL_CLI_TASK_H
#define SHOAL_CLI_TASK_H

#include "base/status.h"

/* name: "worker:1" or "ps:0". What happens is told to the parent (record.h), also an error that is returned. */
SHOAL_CHECKED shoal_status task_run(const char *name, const char *job_path);

#endif
