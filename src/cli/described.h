/* A process that takes its place in a cluster somebody else described: TF_CONFIG, --cluster FILE with --task, or Slurm.
 */
#ifndef SHOAL_CLI_DESCRIBED_H
#define SHOAL_CLI_DESCRIBED_H

#include "cli/crew.h"
#include "cluster/cluster.h"

/* file, task: the flags --cluster and --task; NULL: not given. servers: of a Slurm step without either; 0: it is none. */
SHOAL_CHECKED shoal_status described_read(const char *file, const char *task, int servers, bool *there,
                                           cluster *out);
/* *there: a cluster is described. Then *out is it, and the flags say as many workers and servers as it has. */
SHOAL_CHECKED shoal_status described_find(training *t, const flags_parsed *parsed, bool *there, cluster *out);
/* Does this task's work. The chief's report is complete then; for the others there is none. */
SHOAL_CHECKED shoal_status described_run(crew *c, const cluster *place);

#endif
