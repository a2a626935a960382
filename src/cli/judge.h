/* The verdict on a run, from its report: for summary.json and for the terminal. */
#ifndef SHOAL_CLI_JUDGE_H
#define SHOAL_CLI_JUDGE_H

#include "cli/summary.h"
#include "observe/verdict.h"

/* tasks, hosts: as in summary.json. */
void judge(const run_report *r, const json_t *tasks, const json_t *hosts, verdict *out);
/* The caller owns it; NULL: no memory. */
json_t *judge_json(const run_report *r);
void judge_print(const verdict *v, FILE *to);

#endif
