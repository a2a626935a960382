/* Measures the paths between all tasks of a described cluster, before anything is trained on it.
 *
 * Every task runs a probe at the same time. It listens at its own address, and to each of the others it connects, asks
 * for its version and clock, and measures the round trip and the bandwidth. What it found it then tells to all the
 * others, so that each ends with the whole matrix.
 *
 *  1. A probe's messages carry a job of their own: it can neither disturb a training that runs at those addresses nor
 *     be taken for a part of it.
 *  2. It ends `seconds` after it began at the latest, and a little later where others are still measuring. */
#ifndef SHOAL_CLUSTER_PROBE_H
#define SHOAL_CLUSTER_PROBE_H

#include "cluster/cluster.h"
#include "net/transport.h"

typedef struct {
  bool known;        /* somebody looked */
  bool answered;
  double round_trip; /* seconds, the shortest of many */
  double bandwidth;  /* bytes/s towards the peer, the best of several */
  double offset;     /* seconds its clock is ahead of ours */
  char version[32], host[64];
  char why[320]; /* not answered: what happened last */
} probe_pair;

typedef struct {
  const cluster *place;
  net_options net;                /* own keys; `largest`, `from`, `job` and `server_key` are set by the probe */
  const char *const *server_keys; /* [tasks] public keys of those who listen; NULL: without keys */
  const char *version;
  double seconds;
  const int *stop; /* when not NULL: it ends once *stop is not 0 */
} probe_options;

/* Tasks count from 0: chief, workers, servers, evaluators. */
int probe_tasks(const cluster *c);
cluster_role probe_role(const cluster *c, int task, int *index);
const char *probe_address(const cluster *c, int task);
/* -1: this process has no address in the cluster. */
int probe_self(const cluster *c);

/* pairs [tasks][tasks]: from, to. The caller frees *pairs. */
SHOAL_CHECKED shoal_status probe_run(const probe_options *options, probe_pair **pairs);

#endif
