/* Graph servers for one command: processes of this machine, started and ended with it; or those of a cluster that was
 * described. */
#ifndef SHOAL_CLI_GRAPH_CREW_H
#define SHOAL_CLI_GRAPH_CREW_H

#include "cluster/cluster.h"
#include "cluster/launch.h"
#include "shoal/placed.h"

typedef struct {
  shoal_task *tasks; /* [n] */
  int n;
  uint64_t job;
  launch *processes; /* NULL: a cluster that was described */
  char *folder;      /* of their logs; removed at the end */
} graph_crew;

/* So many /job:ps and /job:worker tasks, each with so many threads. tcp: instead of shared memory. */
SHOAL_CHECKED shoal_status graph_crew_start(int ps, int workers, int threads, bool tcp, graph_crew *out);
/* path: a file as `shoal train --cluster` takes it. */
SHOAL_CHECKED shoal_status graph_crew_describe(const char *path, graph_crew *out);
/* A sentence about a process that has ended, with the end of its log; NULL: all run. The caller frees it. */
char *graph_crew_trouble(graph_crew *c);
void graph_crew_end(graph_crew *c);

/* Reads a description. task: "worker:1" or NULL. */
SHOAL_CHECKED shoal_status graph_cluster_read(const char *path, const char *task, cluster *out);

#endif
