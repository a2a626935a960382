/* Ranks of an all-reduce: processes that `shoal train --workers`, mpirun or srun has started, or the workers of a cluster
 * that was described.
 *
 * 1. Rank 0 has the folder and the result. Its settings go to all others, so none can train with other ones.
 * 2. Without MPI ranks may come and go (dist/elastic.h): the others go on. By MPI a rank that dies ends the job within
 *    seconds: the ranks of its machine see it at once, those of others by their launcher or after `deadline`; the lowest
 *    rank left says who it was and where to resume from.
 * 3. Ctrl-C (of the command that started them), and SIGTERM and SIGUSR1 to rank 0, stop all ranks after the same step; to
 *    another rank without MPI, they have it leave. mpirun itself hands on only SIGUSR1, and gives a rank one second
 *    after the SIGTERM that it sends.
 * 4. Whoever fails otherwise says so itself and takes the others down with it.
 * 5. No wait is without a deadline: those before the training has its own are watched over (rank_watch.h). */
#ifndef SHOAL_RUN_RANKS_H
#define SHOAL_RUN_RANKS_H

#include "dist/collective.h"
#include "dist/elastic.h"
#include "dist/rank_place.h"
#include "run/rank_watch.h"
#include "run/state.h"

typedef struct {
  bool joined; /* this process is a rank */
  bool parted; /* all ranks know that rank 0 has failed, and end by themselves */
  collective_place place;
  bool quiet;  /* another rank tells of the failure */
  json_t *job; /* rank 0's settings; texts in the job may point into it */
  rank_watch *watch;
  int here;         /* ranks on this host; 0: the launcher knows */
  bool first_here;  /* the lowest of them */
  bool described;   /* nobody started all of them */
  rank_place where; /* without MPI */
  elastic *
      elastic; /* the same: ranks may come and go; `place` then says only which rank this is, and how many were described */
} ranks;

/* Whether the settings and the launcher make this process a rank; *first: rank 0, as far as the launcher says. */
bool ranks_expected(const shoal_job *f, bool *first);
/* Becomes one; the settings say as many workers as there are ranks then. MPI starts threads: signals must be blocked. */
SHOAL_CHECKED shoal_status ranks_join(training *t, ranks *out);
/* The same for a worker of a cluster that was described. */
SHOAL_CHECKED shoal_status ranks_join_cluster(training *t, const cluster *c, ranks *out);
/* This process was started by rank_job_run. */
bool ranks_are_ours(void);
/* Rank 0's settings to all; `own`, taken, is how rank 0 found them. */
SHOAL_CHECKED shoal_status ranks_agree(ranks *r, training *t, shoal_status own);
/* Whether `status` says that the training had ended when this rank came, as one that is started again may: there is nothing to
 * do any more. */
bool ranks_came_late(const ranks *r, shoal_status status);
/* Does this rank's work; rank 0's report is complete then. */
SHOAL_CHECKED shoal_status ranks_run(run_state *s, ranks *r);
/* Adds "; the last checkpoint is ..." and how to go on. */
void ranks_add_advice(const training *b, text *out);
/* Whether a failure is another rank's to tell. */
bool ranks_are_told(const ranks *r);
/* failed: with this exit status, and so for all. */
void ranks_leave(ranks *r, int failed);

#endif
