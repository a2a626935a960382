/* Several runs after each other on the terminal: what sweep and reproduce have in common. */
#ifndef SHOAL_CLI_RUN_LIST_H
#define SHOAL_CLI_RUN_LIST_H

#include "cli/util.h"
#include "shoal/sweep.h"

/* Runs the command itself. */
#define OWN_PROGRAM "/proc/self/exe"

/* Runs what is not finished; shows progress and the time left, and a line for each run unless `quiet`. */
SHOAL_CHECKED shoal_status run_list_go(shoal_run_list *runs, const int *stop, bool quiet, shoal_run_list_outcome *out);
/* Of a list that was run: good, failed or stopped by a signal. */
int run_list_exit_status(const shoal_run_list_outcome *o, const int *stop);
/* The commands, for --dry-run. */
void run_list_print(const shoal_run_list *runs);

/* "The page is in FOLDER/report.html"; says so when this build has none. */
void run_list_report(const shoal_run_list *runs);

#endif
