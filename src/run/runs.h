/* Runs below a folder (shoal/jobs.h): what its parts share. */
#ifndef SHOAL_RUN_RUNS_H
#define SHOAL_RUN_RUNS_H

#include "run/run_dir.h"
#include "shoal/jobs.h"

/* Who holds the folder, by the file `lock`. False: it does not say, or nobody does. */
bool run_dir_holder(const run_dir *r, int *pid, char host[SHOAL_HOST_NAME]);
/* A set of the runs for which `wanted` [runs->count] is true; takes `runs`. */
SHOAL_CHECKED shoal_status runs_pick(shoal_runs *runs, const bool *wanted, shoal_runs **out);

#endif
