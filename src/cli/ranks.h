/* Ranks of an all-reduce: processes that mpirun or srun has started, or that this one starts through mpirun.
 *
 * 1. Rank 0 has the folder and the result. Its settings go to all others, so none can train with other ones.
 * 2. A rank that dies ends the job within seconds: the ranks of its machine see it at once, those of others by their
 *    launcher or after --deadline. The lowest rank left says who it was and where to resume from.
 * 3. Ctrl-C (of the command that started them), SIGTERM and SIGUSR1 stop all ranks after the same step. mpirun itself
 *    hands on only SIGUSR1, and gives a rank one second after the SIGTERM that it sends.
 * 4. Whoever fails otherwise says so itself and takes the others down with it. */
#ifndef SHOAL_CLI_RANKS_H
#define SHOAL_CLI_RANKS_H

#include "cli/crew.h"
#include "dist/collective.h"

typedef struct {
  bool joined; /* this process is a rank */
  bool parted; /* all ranks know that rank 0 has failed, and end by themselves */
  collective_place place;
  bool quiet;  /* another rank tells of the failure */
  json_t *job; /* rank 0's settings; texts in the flags may point into it */
} ranks;

/* Whether the flags and the launcher make this process a rank; *first: rank 0, as far as the launcher says. */
bool ranks_expected(const job_flags *f, bool *first);
/* Becomes one; the flags say as many workers as there are ranks then. MPI starts threads: signals must be blocked. */
SHOAL_CHECKED shoal_status ranks_join(training *t, const flags_parsed *parsed, ranks *out);
/* Starts flags.workers of this program by mpirun and waits for them. stop: becomes a signal's number when asked to. */
SHOAL_CHECKED shoal_status ranks_launch(const training *t, char *const *argv, const int *stop, int *exit_status);
/* This process was started by ranks_launch. */
bool ranks_are_ours(void);
/* Rank 0's flags to all; `own`, taken, is how rank 0 found them. */
SHOAL_CHECKED shoal_status ranks_agree(ranks *r, training *t, shoal_status own);
/* Does this rank's work; rank 0's report is complete then. */
SHOAL_CHECKED shoal_status ranks_run(crew *c, ranks *r);
/* Whether a failure is another rank's to tell. */
bool ranks_are_told(const ranks *r);
/* failed: with this exit status, and so for all. */
void ranks_leave(ranks *r, int failed);

#endif
