/* The result of a sweep: a table for people, results.csv and results.md. */
#ifndef SHOAL_CLI_SWEEP_RESULT_H
#define SHOAL_CLI_SWEEP_RESULT_H

#include "cli/sweep_grid.h"

/* Runs of a cell follow each other, `repeats` of them. Combinations without a result show dashes. */
SHOAL_CHECKED shoal_status sweep_result_write(const sweep_grid *g, int repeats, const batch *b, FILE *to);

#endif
