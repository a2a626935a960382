/* What workers and parameter servers of sparse rows send each other, against what the rows' features need at least. */
#ifndef SHOAL_CLI_EXCHANGE_H
#define SHOAL_CLI_EXCHANGE_H

#include "cli/summary.h"

/* Adds "exchange" to summary.json, if the run has one. False: no memory. */
bool exchange_add(const run_report *r, json_t *summary);
void exchange_print(const run_report *r, FILE *to);

#endif
