/* A cluster of parameter servers and workers out of what Slurm tells a step's tasks: srun starts as many processes as
 * there are tasks in all; the first are servers, the others workers. */
#ifndef SHOAL_CLUSTER_SLURM_H
#define SHOAL_CLUSTER_SLURM_H

#include "base/status.h"

#include <stdbool.h>

/* This process is one of several tasks of a step. */
bool slurm_step(void);
/* The cluster and this task's place, as cluster_parse takes them; the caller frees it. servers: of the tasks. */
SHOAL_CHECKED shoal_status slurm_describe(int servers, char **out);

#endif
