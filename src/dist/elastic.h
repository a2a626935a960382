/* Who takes part in an all-reduce over our own connections, while it runs: ranks die, stall, leave and come.
 *
 * Ranks that train together are a *generation*: a number and a list of ranks, which are all connected to each other (net/mesh.h).
 * When the list is to change, the generation ends and another one is formed. Rank 0, the chief, decides: every rank has a
 * connection with it beside those of the generation, by which a thread asks every 50 ms what has changed.
 *
 *  1. There is one chief, so no two lists can be valid at a time. A rank that was cut off from it waits for it, and does nothing
 *     else.
 *  2. A generation is formed when each rank of the one before has stopped working in it, or is known to be gone: its connection
 *     with the chief is closed, or it has said nothing for a heartbeat.
 *  3. Every connection of a generation carries its number (in the job's number of each message). Whoever missed a generation is
 *     refused by those in it, and what it has computed meanwhile counts for nobody.
 *  4. A generation begins after the last step that any rank of the one before has finished. Ranks that have not finished it,
 *     and those that are new, take variables and progress from one that has; they keep their own until all of it is there.
 *  5. Nobody forms the first generation but all ranks that were described. A chief that was started again and finds nobody of an
 *     earlier one, since all have died, waits for them for a heartbeat: some may have left before.
 *  6. When the chief dies the others keep what they have and wait, for `deadline`, until it is started again. It then takes
 *     everything from them, and no step is lost.
 *
 * Survived: any rank's death, stall, leaving or coming, several at a time, and the chief's death where somebody starts it again.
 * Not survived: the death of all ranks that have the variables; the chief's where nobody starts it again; a rank that fails with
 * an error of its own (the others would meet it, too). */
#ifndef SHOAL_DIST_ELASTIC_H
#define SHOAL_DIST_ELASTIC_H

#include "dist/peers.h"
#include "dist/rank_place.h"

typedef struct elastic elastic;

enum { ELASTIC_RANKS = 256, ELASTIC_ADDRESS = 128, ELASTIC_CHANGES = 512 };

typedef struct {
  const rank_place *place; /* whom this process is; borrowed while elastic_create runs, its keys for longer */
  double heartbeat;        /* seconds of silence after which a rank is gone */
  double patience;         /* seconds to wait for the chief, and for all at the start */
  bool again;              /* of the chief: there was one before it in this job */
} elastic_options;

typedef struct {
  int id; /* its number among all there ever were */
  int pid;
  char host[PEERS_HOST];
  char address[ELASTIC_ADDRESS];
  bool has; /* all that the generation begins with: needs nothing */
} elastic_rank;

typedef struct {
  uint64_t generation;
  int64_t step;                      /* finished; -1: a training begins, with what the chief has */
  int n, own;                        /* ranks; which of them this process is */
  bool kept;                         /* this process was in the generation before
                 */
  int from;                          /* who gives to those that have not what it begins with */
  elastic_rank ranks[ELASTIC_RANKS]; /* the chief is the last: it has a door of its own, and needs none here */
} elastic_view;

typedef enum { ELASTIC_DIED, ELASTIC_SILENT, ELASTIC_LEFT, ELASTIC_JOINED, ELASTIC_REJOINED } elastic_kind;

typedef struct {
  int32_t id, kind; /* elastic_kind */
  int64_t step;
  double time;  /* seconds since 1970 */
  double pause; /* seconds that the others stood still for it, and for what happened together with it */
} elastic_change;

/* Of all generations so far; the same on all ranks. Goes to those that come. */
typedef struct {
  int64_t n;
  elastic_change all[ELASTIC_CHANGES]; /* the first ones */
} elastic_history;

/* The chief listens from here on; the others look for it. */
SHOAL_CHECKED shoal_status elastic_create(const elastic_options *options, elastic **out);
void elastic_destroy(elastic *e); /* NULL is fine */
bool elastic_is_chief(const elastic *e);
/* Waits until the chief is there. */
SHOAL_CHECKED shoal_status elastic_connect(elastic *e);

/* From the chief to all, those included that come later: the n-th call of every rank is about the same bytes. */
SHOAL_CHECKED shoal_status elastic_broadcast(elastic *e, void *bytes, int64_t count);

/* The generation is over: somebody is gone, or another one has been formed. Any thread. */
bool elastic_broken(void *e);
/* Chief: somebody waits to be let in. */
bool elastic_wanted(elastic *e);
/* Stops working in the generation and waits for the next one. step: finished, with all variables; -1: none, to begin with. *out:
 * valid until the next call. */
SHOAL_CHECKED shoal_status elastic_regroup(elastic *e, int64_t step, const elastic_view **out);
/* Until all know of the generation; from here on nobody can come or go. */
void elastic_settle(elastic *e);
/* What mesh_create needs for that generation: borrowed, until the next call of elastic_regroup. */
void elastic_mesh(elastic *e, mesh_options *out);
/* The first step after a generation was formed is through; pause: the longest that a rank stood still. */
void elastic_resumed(elastic *e, double pause);
elastic_history *elastic_changes(elastic *e);

/* This rank will not come back: the others go on without it. */
void elastic_leave(elastic *e);
/* Words for the chief, at the end. */
SHOAL_CHECKED shoal_status elastic_report(elastic *e, const char *words);
/* Chief: words of rank `id`; waits for them while it is there. NULL: it is gone. The caller frees. */
SHOAL_CHECKED shoal_status elastic_await_report(elastic *e, int id, char **out);
/* Chief: everything is done, and the others may end. */
void elastic_end(elastic *e);
/* Waits until the chief has said so; *lost: it is gone before that. */
SHOAL_CHECKED shoal_status elastic_await_end(elastic *e, bool *lost);
uint64_t elastic_refused(const elastic *e); /* connections that were */

#endif
