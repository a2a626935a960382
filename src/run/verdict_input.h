/* The verdict on a run (observe/verdict.h), from its report. */
#ifndef SHOAL_RUN_VERDICT_INPUT_H
#define SHOAL_RUN_VERDICT_INPUT_H

#include "shoal/run.h"

#include <jansson.h>

/* usual_rate: the model's own learning rate; next_threads: of each worker, if there was one more. */
void verdict_on_run(const shoal_run_report *r, double usual_rate, int next_threads, shoal_verdict *out);
/* The caller owns it; NULL: no memory. */
json_t *verdict_to_json(const shoal_run_report *r);

#endif
