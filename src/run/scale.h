/* Another number of parameter servers or of ranks, asked for while a job runs: a file in its folder, written by whoever asks and taken by
 * the process that started the tasks. */
#ifndef SHOAL_RUN_SCALE_H
#define SHOAL_RUN_SCALE_H

#include "run/job.h"
#include "run/run_dir.h"

#define SCALE_SERVERS "ps"
#define SCALE_WORKERS "workers"
/* Whether there is a request for that in the folder, which is taken away; *count: how many. */
bool scale_take(const run_dir *r, const char *what, int64_t *count);
/* Why an all-reduce cannot have so many ranks; NULL: it can. */
const char *scale_workers_objection(int64_t workers);
/* Whether other servers can take over while it trains; otherwise all tasks are stopped, and started again as a run that is
 * resumed is. */
bool scale_is_live(const shoal_job *job);
/* Why a job cannot have so many servers; NULL: it can. `words` has room for the sentence. */
const char *scale_objection(const shoal_job *job, int64_t servers, char *words, size_t room);

#endif
