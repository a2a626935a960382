/* The result of a run: summary.json for programs, tables for people. */
#ifndef SHOAL_CLI_SUMMARY_H
#define SHOAL_CLI_SUMMARY_H

#include "cli/job.h"
#include "cli/resources.h"

#include <time.h>

typedef struct {
  const shoal_model_kind *kind;
  const job_flags *flags;
  const char *status; /* "finished", "stopped early", "interrupted", "failed" */
  const char *error;  /* NULL: none */
  time_t started;
  int threads;
  int64_t parameters;
  shoal_fit_result fit;
  shoal_evaluation test; /* NaN where not measured */
  double final_rate;
  double startup_seconds, total_seconds;
  resource_use use;
} run_report;

/* The caller owns it; NULL: no memory. Numbers that are not finite become null. Keys are only ever added. */
json_t *summary_json(const run_report *r);
/* The result table and a line for the task. */
void summary_print(const run_report *r, FILE *to);

#endif
