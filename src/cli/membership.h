/* Who took part in a cluster's training: came late, went away, was started again. Read from what the tasks report. */
#ifndef SHOAL_CLI_MEMBERSHIP_H
#define SHOAL_CLI_MEMBERSHIP_H

#include "base/text.h"
#include "cli/summary.h"
#include "dist/ps_protocol.h"

/* What happened as a sentence, and as an object for summary.json. name: what users call the worker; address: its own,
 * or NULL. */
void membership_describe(const ps_change *change, const char *name, const char *address, text *out);
json_t *membership_json(const ps_change *change, const char *name);
/* Adds such an object to the report; takes it. */
void membership_note(run_report *r, json_t *change);

/* Workers that have delivered a result. */
int membership_final_workers(const run_report *r);
/* Keys for summary.json: restarts, lost_steps, handed_on_rows, late_gradients, uneven_updates, lost_workers,
 * final_workers, membership. */
SHOAL_CHECKED bool membership_add(const run_report *r, json_t *summary);
/* A line for each thing that did not go as planned; nothing when all did. */
void membership_print(const run_report *r, FILE *to);
/* Every worker has taken part, but for those that died or came when the training was under way. */
SHOAL_CHECKED shoal_status membership_check(const run_report *r);

#endif
