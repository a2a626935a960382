/* Ranks of an all-reduce: processes that mpirun or srun has started, or that this one starts through mpirun.
 *
 * 1. Rank 0 has the folder and the result. Its settings go to all others, so none can train with other ones.
 * 2. A rank that dies ends the job within seconds: the ranks of its machine see it at once, those of others by their
 *    launcher or after --deadline. The lowest rank left says who it was and where to resume from.
 * 3. Whoever fails otherwise says so itself and takes the others down with it. */
#ifndef SHOAL_CLI_RANKS_H
#define SHOAL_CLI_RANKS_H

#include "cli/crew.h"
#include "dist/collective.h"

typedef struct {
  bool joined; /* this process is a rank */
  bool parted; /* all ranks know that rank 0 has failed, and end by themselves */
  collective_place place;
  json_t *job; /* rank 0's settings; texts in the flags may point into it */
} ranks;

/* Joins if the flags or the launcher ask for it; then the flags say as many workers as there are ranks. */
SHOAL_CHECKED shoal_status ranks_join(training *t, const flags_parsed *parsed, ranks *out);
/* Replaces this process by mpirun, which starts flags.workers of it. Returns only on failure. */
SHOAL_CHECKED shoal_status ranks_launch(const training *t, char *const *argv);
/* Rank 0's flags to all; `own`, taken, is how rank 0 found them. */
SHOAL_CHECKED shoal_status ranks_agree(ranks *r, training *t, shoal_status own);
/* Does this rank's work; rank 0's report is complete then. */
SHOAL_CHECKED shoal_status ranks_run(crew *c, ranks *r);
/* failed: with this exit status, and so for all. */
void ranks_leave(ranks *r, int failed);

#endif
