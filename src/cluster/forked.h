/* Tasks of a job as copies of this process (fork without exec): each continues where the call returned, with the
 * parent's memory as it was, so data and models need not be read or built again.
 *
 * 1. A task has only the thread that forked; whoever needs others starts them anew.
 * 2. It dies with its parent, whatever kills that, and leaves a Ctrl-C to it.
 * 3. It ends by forked_end alone, never by returning into its caller's caller.
 * 4. forked_destroy leaves nothing running. */
#ifndef SHOAL_CLUSTER_FORKED_H
#define SHOAL_CLUSTER_FORKED_H

#include "base/status.h"

typedef struct forked forked;

/* Starts `tasks` copies. *task: in the parent -1, in a copy its number. names: [tasks] "ps/0", for messages; copied. */
SHOAL_CHECKED shoal_status forked_create(const char *const *names, int tasks, int *task, forked **out);
/* A copy ends; takes `status`, which its parent is told. */
_Noreturn void forked_end(forked *f, shoal_status status);
/* The parent waits until all have ended, at most `seconds`; says who failed or is late. */
SHOAL_CHECKED shoal_status forked_wait(forked *f, double seconds);
/* Takes `status`, the parent's own error; if one of the tasks failed before, that is the cause, and said instead. */
SHOAL_CHECKED shoal_status forked_explain(forked *f, shoal_status status);
/* Ends those that still run. NULL is fine. */
void forked_destroy(forked *f);

#endif
