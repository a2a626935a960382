/* Another number of parameter servers, asked for while a job runs: a file in its folder, written by whoever asks and taken by
 * the process that started the tasks. */
#ifndef SHOAL_RUN_SCALE_H
#define SHOAL_RUN_SCALE_H

#include "run/job.h"
#include "run/run_dir.h"

/* Whether there is a request in the folder, which is taken away; *servers: what it asks for. */
bool scale_take(const run_dir *r, int64_t *servers);
/* Whether other servers can take over while it trains; otherwise all tasks are stopped, and started again as a run that is
 * resumed is. */
bool scale_is_live(const shoal_job *job);
/* Why a job cannot have so many servers; NULL: it can. `words` has room for the sentence. */
const char *scale_objection(const shoal_job *job, int64_t servers, char *words, size_t room);

#endif
