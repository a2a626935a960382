/* Who took part in a cluster's training: came late, went away, was started again. Read from what the tasks report. */
#ifndef SHOAL_CLI_MEMBERSHIP_H
#define SHOAL_CLI_MEMBERSHIP_H

#include "cli/summary.h"

/* Keys for summary.json: restarts, lost_steps, handed_on_rows, late_gradients, uneven_updates,
 * lost_workers. */
SHOAL_CHECKED bool membership_add(const run_report *r, json_t *summary);
/* A line for each thing that did not go as planned; nothing when all did. */
void membership_print(const run_report *r, FILE *to);
/* Every worker has taken part, but for those that died or came when the training was under way. */
SHOAL_CHECKED shoal_status membership_check(const run_report *r);

#endif
