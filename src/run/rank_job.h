/* Starts the ranks of an all-reduce on this machine and waits for them: as processes of its own, or through mpirun. */
#ifndef SHOAL_RUN_RANK_JOB_H
#define SHOAL_RUN_RANK_JOB_H

#include "run/job.h"
#include "run/run_dir.h"

typedef struct {
  const char *program;   /* NULL: shoal, looked for as a shell does */
  const char *transport; /* of the job: mpi, or what carries messages without it */
  int64_t workers;
  double deadline; /* seconds in which every rank has begun */
  const int *stop; /* NULL, or becomes a signal's number when asked to */
  /* without MPI: */
  int64_t max_restarts; /* of a rank that was killed */
  double heartbeat;     /* seconds for which rank 0 may be stopped */
  const run_dir *dir;   /* where another number of workers is asked for */
  void *context;
  void (*note)(void *context, const char *line);
} rank_job_options;

/* Runs ranks of the program with these settings and waits for them. An error is one that no rank has told of: one that
 * does not come, or has ended without a word. *exit_status: the ranks'. */
SHOAL_CHECKED shoal_status rank_job_run(const shoal_job *asked, const rank_job_options *options, int *exit_status);

#endif
