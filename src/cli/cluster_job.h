/* The job file RUN_DIR/logs/job.json: what the tasks of a cluster started on this machine need to know. All of them
 * read the same file, so none can have other settings than the rest. */
#ifndef SHOAL_CLI_CLUSTER_JOB_H
#define SHOAL_CLI_CLUSTER_JOB_H

#include "cluster/cluster.h"
#include "net/key_ring.h"
#include "cli/training.h"
#include "train/ps.h"

typedef struct {
  uint64_t id;    /* messages of another job are refused */
  int classes;    /* of the data */
  int64_t rows;   /* of the training data */
  const char *addresses[SERVERS_MOST];
  int servers;
  const cluster *members; /* as the user described them; NULL: a cluster on this machine */
  net_options net; /* keys, where messages are encrypted; they point into: */
  key_ring ring;
  json_t *file;   /* texts here and in the flags may point into it */
} cluster_job;

/* A new one for the filled flags. */
SHOAL_CHECKED shoal_status cluster_job_make(const training *t, int classes, int64_t rows, cluster_job *out);
SHOAL_CHECKED shoal_status cluster_job_write(const cluster_job *j, const char *path);
/* Fills the job and, in `t`, the flags, the kind and the folder. Of keys only where they lie: t->flags.keys. */
SHOAL_CHECKED shoal_status cluster_job_read(const char *path, training *t, cluster_job *out);
void cluster_job_fini(cluster_job *j);
bool cluster_job_has_chief(const cluster_job *j);
/* What all tasks agree on, as far as the flags say it; and how this one takes part. */
ps_terms cluster_job_terms(const cluster_job *j, const training *t);
ps_task cluster_job_task(const cluster_job *j, const training *t);

#endif
