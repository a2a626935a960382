/* What the process that starts ranks knows of them: how far each is, and which ended first. Ranks tell it by
 * datagrams (rank_watch.h); the kernel vouches for the sender's pid and user. */
#ifndef SHOAL_RUN_RANK_ROSTER_H
#define SHOAL_RUN_RANK_ROSTER_H

#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

#define RANK_ROSTER_NAME 64

typedef struct rank_roster rank_roster;

/* name: for RANKS_ASKED in the ranks' environment. */
SHOAL_CHECKED shoal_status rank_roster_create(int64_t ranks, rank_roster **out, char name[RANK_ROSTER_NAME]);
/* Takes what the ranks have told; waits at most `seconds` for it. */
void rank_roster_hear(rank_roster *r, double seconds);
/* Rank i is started, perhaps again; it may be one more than there were. */
SHOAL_CHECKED shoal_status rank_roster_expect(rank_roster *r, int i);
bool rank_roster_trains(const rank_roster *r);         /* rank 0 does */
bool rank_roster_stopped(const rank_roster *r, int i); /* by SIGSTOP */
bool rank_roster_all_begun(const rank_roster *r);
bool rank_roster_all_ended(const rank_roster *r);
bool rank_roster_told(const rank_roster *r);     /* a rank has said why it fails, or is about to */
bool rank_roster_has_told(const rank_roster *r); /* the same, and has ended */
bool rank_roster_done(const rank_roster *r);     /* rank 0 has ended well */
/* A rank has waited too long for the others. */
bool rank_roster_late(const rank_roster *r);
/* Adds who is late: "rank 1 (pid 77, stopped) and rank 3 (not started)"; whose waiting for it was in vain: *waited, or
 * -1. */
void rank_roster_add_late(const rank_roster *r, text *out, int *waited);
/* Adds who has ended first, "rank 1 (pid 77)"; false: none has, as far as is known. */
bool rank_roster_add_ended(const rank_roster *r, text *out);
/* Ends whoever still runs (SIGKILL). */
void rank_roster_kill(rank_roster *r);
/* NULL is fine. */
void rank_roster_destroy(rank_roster *r);

#endif
