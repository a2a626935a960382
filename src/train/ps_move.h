/* Training goes on with other parameter servers, in the same workers: what the old ones hold goes to the new ones, between two
 * updates (rule 25 of dist/ps_protocol.h; why so: docs/decisions/2026-11-18-elastic-servers.md).
 *
 *  1. The new servers are there, and empty, before anything stops.
 *  2. Nothing changes while it is moved: no gradient is used from worker 0's HOLD on until it has gone on.
 *  3. Which servers count is one fact, changed by one call (`settle`) when the new ones hold everything. Before it, whatever
 *     fails leaves the old ones as they were, and training goes on with them; behind it nobody but worker 0 was answered
 *     by the old ones, so no update is with them alone.
 *  4. Whoever loses its servers asks which of them count (`find_servers`) before it connects again. */
#ifndef SHOAL_TRAIN_PS_MOVE_H
#define SHOAL_TRAIN_PS_MOVE_H

#include "train/ps_internal.h"

/* Of worker 0, between two steps: if other servers are to take over, they do. An error: the old ones cannot go on. */
SHOAL_CHECKED shoal_status ps_move_if_due(ps *s);
/* Before connecting: if other servers count than those of the client, it becomes one of theirs. */
SHOAL_CHECKED shoal_status ps_follow(ps *s);
bool ps_has_moved(const ps *s);

#endif
