/* The job file RUN_DIR/logs/job.json: what the tasks of a cluster started on this machine need to know. All of them
 * read the same file, so none can have other settings than the rest. */
#ifndef SHOAL_RUN_JOB_FILE_H
#define SHOAL_RUN_JOB_FILE_H

#include "cluster/cluster.h"
#include "net/key_ring.h"
#include "run/training.h"
#include "train/ps.h"

typedef struct {
  uint64_t id;                        /* messages of another job are refused */
  int classes;                        /* of the data */
  int64_t rows;                       /* of the training data */
  const char *addresses[SERVERS_MAX]; /* of the servers, then of their backups */
  int servers;                        /* without backups */
  int replicas;                       /* backups of each */
  const cluster *members;             /* as the user described them; NULL: a cluster on this machine */
  net_options net;                    /* keys, where messages are encrypted; they point into: */
  key_ring ring;
  json_t *file; /* texts here and in the flags may point into it */
} job_file;

/* A new one for the filled flags. before: NULL, or the job's last one: only its servers are others. */
SHOAL_CHECKED shoal_status job_file_make(const training *t, int classes, int64_t rows, const job_file *before,
                                         job_file *out);
SHOAL_CHECKED shoal_status job_file_write(const job_file *j, const char *path);
/* Fills the job and, in `t`, the flags, the kind and the folder. Of keys only where they lie: t->job.keys. */
SHOAL_CHECKED shoal_status job_file_read(const char *path, training *t, job_file *out);
void job_file_fini(job_file *j);
bool job_file_has_chief(const job_file *j);
/* What all tasks agree on, as far as the settings say it; and how this one takes part. */
ps_terms job_file_terms(const job_file *j, const training *t);
ps_task job_file_task(const job_file *j, const training *t);

#endif
