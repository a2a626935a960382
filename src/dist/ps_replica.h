/* A parameter server and its backup, from the side of both. Who is what is decided elsewhere: ps_view.h.
 *
 * A server is a machine that is driven by messages and the clock alone. The primary sends each message that it takes in,
 * with the time it came, to its backup, which does with it what the primary does, but answers nobody. Same inputs in the
 * same order give the same bits.
 *
 *  1. Whatever a primary answers, its backup has: an answer leaves only when all records so far have been confirmed. A
 *     record is confirmed when it has come; the backup uses it before it looks at anything else. Over shared memory a
 *     record has come as soon as it is written, since that memory is the backup's, too, and outlives the primary: none is
 *     confirmed any more once the backup has everything, and it uses them when it gets to it, at the latest by rule 3.
 *  2. A primary begins to wait for a backup by itself, when that has all it holds, and says so. It ceases only by a view
 *     without a backup that is newer than the one in which it began.
 *  3. A backup takes records of one connection, the one that filled it. When it becomes primary that connection counts
 *     no longer: what an earlier primary sends then is refused, so that one answers nobody any more. Shared memory it
 *     closes first, in one atomic step: what was written before is used, what comes later is told to be too late.
 *  4. A member that finds itself left out drops all it holds and gets another life. So does a backup whose primary is
 *     gone before it was filled, that was left out by a view, or that finds a record damaged.
 *  5. A new backup is filled while workers are served: what the server knows goes first, then the vectors piece by piece,
 *     between other records. A piece that was sent is changed by the records behind it; one that was not, is sent as it
 *     is by then. This holds since an update of an element depends on that element's own numbers alone, parameter and
 *     optimizer's slots, which go together in a piece.
 *  6. Workers' connections end with the primary. What they had asked for is known to the backup; they come back and
 *     resume (rule 22 of ps_protocol.h). One that does not come counts as disconnected after a while. */
#ifndef SHOAL_DIST_PS_REPLICA_H
#define SHOAL_DIST_PS_REPLICA_H

#include "dist/ps_server_internal.h"

#define REPLICA_RECORD 64              /* bytes before a record's message */
#define REPLICA_UNBOUND (~(uint64_t)0) /* peer of a worker that has a session and no connection yet */

typedef struct replica replica;

SHOAL_CHECKED shoal_status replica_create(const server *s, replica **out);
void replica_destroy(server *s, replica *r);
/* It is the primary. */
bool replica_serves(const replica *r);

/* Between two messages: sends a piece to a backup that is being filled, drops all if it was left out. *wait: seconds for
 * which the next message may be awaited. */
SHOAL_CHECKED shoal_status replica_work(server *s, double *wait);
/* A message that came while an answer waited for the backup; false: there is none. */
bool replica_take_kept(server *s, net_message *out);
/* Any message. Takes *m when *held becomes true. */
SHOAL_CHECKED shoal_status replica_handle(server *s, net_message *m, bool *held);
/* About ten times a second. */
SHOAL_CHECKED shoal_status replica_look(server *s);
/* Waits until the backup has all. *drops: this is no primary any more, and must not answer. */
SHOAL_CHECKED shoal_status replica_await_backup(server *s, bool *drops);

#endif
