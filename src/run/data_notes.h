/* What the user is told about his rows before training begins. */
#ifndef SHOAL_RUN_DATA_NOTES_H
#define SHOAL_RUN_DATA_NOTES_H

#include "run/sink.h"
#include "run/training.h"

/* Of a job that is loaded: what was learned from text columns and missing values, whether numbers are so large that
 * they should be scaled, and batches so large that there are few updates. Says nothing when there is nothing to say, or `quiet`. */
SHOAL_CHECKED shoal_status notes_say(const training *t, const run_sink *sink);

#endif
