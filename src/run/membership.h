/* Who took part in a cluster's training: came late, went away, was started again. */
#ifndef SHOAL_RUN_MEMBERSHIP_H
#define SHOAL_RUN_MEMBERSHIP_H

#include "base/text.h"
#include "dist/elastic.h"
#include "dist/ps_protocol.h"
#include "shoal/run.h"

#include <jansson.h>

/* What happened now. name: what users call the worker. */
shoal_membership_event membership_event(const ps_change *change, const char *name);
/* A rank of an all-reduce that came or went. */
shoal_membership_event membership_of_rank(const elastic_change *change);
/* A server whose backup took over. */
shoal_membership_event membership_failover(int server, int64_t step, double seconds);
/* Another number of servers. */
shoal_membership_event membership_scaled(int64_t before, int64_t servers, int64_t step, double seconds);
/* As a sentence. address: the worker's own, or NULL. */
void membership_describe(const shoal_membership_event *e, const char *address, text *out);
json_t *membership_to_json(const shoal_membership_event *e); /* NULL: no memory */
shoal_membership_event membership_from_json(const json_t *o);

/* Workers that have delivered a result. */
int membership_final_workers(const shoal_run_report *r);
/* Keys for summary.json: restarts, lost_steps, handed_on_rows, late_gradients, uneven_updates, lost_workers,
 * final_workers, membership. False: no memory. */
SHOAL_CHECKED bool membership_add(const shoal_run_report *r, json_t *summary);
/* Every worker has taken part, but for those that died or came when the training was under way. */
SHOAL_CHECKED shoal_status membership_check(const shoal_run_report *r);

#endif
