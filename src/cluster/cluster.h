/* Who is in a cluster and which of them this process is, as TensorFlow's users write it down:
 *
 *   {"cluster": {"chief": ["a:2222"], "worker": ["b:2222", "c:2222"], "ps": ["d:2222"]},
 *    "task": {"type": "worker", "index": 1}}
 *
 * The chief is optional: worker 0 then is the chief. An evaluator may stand in the cluster or outside of it. */
#ifndef SHOAL_CLUSTER_CLUSTER_H
#define SHOAL_CLUSTER_CLUSTER_H

#include "base/status.h"
#include "shoal/cluster.h"

#include <stdbool.h>
#include <stdint.h>

typedef shoal_role cluster_role;
enum { CLUSTER_ROLES = SHOAL_EVALUATOR + 1 };

typedef struct shoal_cluster {
  char **addresses[CLUSTER_ROLES]; /* as the transports take them: HOST:PORT became tcp://HOST:PORT */
  int counts[CLUSTER_ROLES];
  cluster_role role; /* of this process */
  int index;
  uint64_t id; /* the same for all who were given the same cluster */
} cluster;

/* text: JSON, the whole or only what stands under "cluster". where: names it in messages. task: "worker:1", which
 * counts instead of what stands under "task"; NULL: none. Wrong descriptions are SHOAL_ERR_ARGUMENT. */
SHOAL_CHECKED shoal_status cluster_parse(const char *text, const char *where, const char *task, cluster *out);
void cluster_fini(cluster *c);
/* The description in the file `file`, or in TF_CONFIG when that is NULL, or of a Slurm step when there is neither and
 * `servers` is above 0; *found false: none. task: as in cluster_parse. */
SHOAL_CHECKED shoal_status cluster_find(const char *file, const char *task, int servers, bool *found, cluster *out);

const char *cluster_role_name(cluster_role role);
/* The role of a task, and its number in that, by its number among all (shoal_cluster_tasks). */
cluster_role cluster_role_of(const cluster *c, int task, int *index);
/* Workers, the chief included, count from 0 and the chief is 0. cluster_worker: this process; -1: it is none. */
int cluster_workers(const cluster *c);
int cluster_worker(const cluster *c);
/* What users call that worker: "worker/1"; in a cluster with a chief "chief/0", "worker/0", ... Returns out. */
#define CLUSTER_NAME 32
const char *cluster_worker_name(bool has_chief, int worker, char out[CLUSTER_NAME]);
/* As it was written down; NULL: there is no such worker. */
const char *cluster_worker_address(const cluster *c, int worker);

#endif
