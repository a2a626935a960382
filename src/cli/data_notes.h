/* What the user is told about his rows before training begins. */
#ifndef SHOAL_CLI_DATA_NOTES_H
#define SHOAL_CLI_DATA_NOTES_H

#include "cli/progress.h"
#include "cli/training.h"

/* Of a job that is loaded: what was learned from text columns and missing values, and whether numbers are so large that
 * they should be scaled. Says nothing when there is nothing to say, or --quiet. */
SHOAL_CHECKED shoal_status notes_say(const training *t, progress *screen);

#endif
