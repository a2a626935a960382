/* Starts the ranks of an all-reduce on this machine through mpirun. */
#ifndef SHOAL_RUN_MPIRUN_H
#define SHOAL_RUN_MPIRUN_H

#include "run/job.h"

#define RANKS_ASKED "SHOAL_RANKS" /* in the environment of ranks that were started so */

/* Runs `workers` of the program with these settings and waits for them. stop: NULL, or becomes a signal's number when
 * asked to. *exit_status: the ranks'. */
SHOAL_CHECKED shoal_status mpirun_job(const shoal_job *asked, const char *program, int64_t workers, const int *stop,
                                      int *exit_status);

#endif
