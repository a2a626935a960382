/* The logs of all tasks of a local cluster in one view: each line that comes is shown with the task's name before it,
 * above the progress line. */
#ifndef SHOAL_CLI_LOG_VIEW_H
#define SHOAL_CLI_LOG_VIEW_H

#include "cli/progress.h"
#include "cluster/launch.h"

typedef struct log_view log_view;

SHOAL_CHECKED shoal_status log_view_create(progress *screen, log_view **out);
/* Shows what has come since the last call; tasks may have been added. `last`: also a line that is not ended. NULL is
 * fine, and nothing is shown. */
void log_view_look(log_view *v, const launch *tasks, bool last);
void log_view_destroy(log_view *v); /* NULL is fine */

#endif
