/* The result of a run on the terminal. */
#ifndef SHOAL_CLI_RESULT_H
#define SHOAL_CLI_RESULT_H

#include "shoal/run.h"

#include <stdio.h>

/* The result table, a line for each task, what did not go as planned, and the verdict. */
void result_print(const shoal_run_report *r, FILE *to);
/* A line on a task that has no result of its own: of a cluster whose chief is elsewhere. */
void result_print_task(const shoal_task_report *t, FILE *to);

#endif
