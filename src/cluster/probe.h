/* The inside of shoal/probe.h: the measurement itself.
 *
 *  1. A probe's messages carry a job of their own: it can neither disturb a training that runs at those addresses nor
 *     be taken for a part of it.
 *  2. It ends `seconds` after it began at the latest, and a little later where others are still measuring. */
#ifndef SHOAL_CLUSTER_PROBE_H
#define SHOAL_CLUSTER_PROBE_H

#include "cluster/cluster.h"
#include "net/transport.h"
#include "shoal/probe.h"

typedef struct {
  const cluster *place;
  net_options net;                /* own keys; `largest`, `from`, `job` and `server_key` are set by the probe */
  const char *const *server_keys; /* [tasks] public keys of those who listen; NULL: without keys */
  double seconds;
  const int *stop; /* when not NULL: it ends once *stop is not 0 */
} probe_options;

/* pairs [tasks][tasks]: from, to. The caller frees *pairs. */
SHOAL_CHECKED shoal_status probe_run(const probe_options *options, shoal_probe_pair **pairs);

#endif
