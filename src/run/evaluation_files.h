/* An evaluation in the files of a run: every figure of shoal_metrics(). */
#ifndef SHOAL_RUN_EVALUATION_FILES_H
#define SHOAL_RUN_EVALUATION_FILES_H

#include "observe/event_file.h"
#include "shoal/train.h"

#include <jansson.h>

/* Sets "PREFIXloss", "PREFIXaccuracy" ... of o; null: not measured. False: no memory. */
bool evaluation_to_json(json_t *o, const char *prefix, const shoal_evaluation *e);
/* Scalars "test/loss" ... of those that were measured. */
SHOAL_CHECKED shoal_status evaluation_to_events(event_file *f, int64_t step, const shoal_evaluation *e);

#endif
