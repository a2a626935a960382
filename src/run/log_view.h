/* The logs of all tasks of a local cluster in one view: each line that comes goes to the listener, with the
 * task's name. */
#ifndef SHOAL_RUN_LOG_VIEW_H
#define SHOAL_RUN_LOG_VIEW_H

#include "cluster/launch.h"
#include "shoal/run.h"

typedef struct log_view log_view;

SHOAL_CHECKED shoal_status log_view_create(const shoal_run_listener *listener, log_view **out);
/* Hands on what has come since the last call; tasks may have been added. `last`: also a line that is not ended. NULL is
 * fine, and nothing is done. */
void log_view_look(log_view *v, const launch *tasks, bool last);
/* The same of the logs that are in a run's folder; of what was there at the first look only the end. */
void log_view_look_in(log_view *v, const char *run_dir, bool last);
void log_view_destroy(log_view *v); /* NULL is fine */

#endif
