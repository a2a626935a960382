/* A process that takes its place in a cluster somebody else described: TF_CONFIG, a file and a task, or Slurm. */
#ifndef SHOAL_RUN_CLUSTER_MEMBER_H
#define SHOAL_RUN_CLUSTER_MEMBER_H

#include "cluster/cluster.h"
#include "run/state.h"

/* file, task: the settings `cluster` and `task`; NULL: not said. servers: of a Slurm step without either; 0: it is none. */
SHOAL_CHECKED shoal_status cluster_member_read(const char *file, const char *task, int servers, bool *there,
                                               cluster *out);
/* *there: a cluster is described. Then *out is it, and the settings say as many workers and servers as it has. */
SHOAL_CHECKED shoal_status cluster_member_find(training *t, bool *there, cluster *out);
/* Does this task's work. The chief's report is complete then; for the others it is their own. */
SHOAL_CHECKED shoal_status cluster_member_run(run_state *s, const cluster *place);

#endif
