/* A rank's start-up, until the training's own deadlines hold: MPI's calls before that wait for ever. A thread measures
 * how long this rank waits for the others; a rank that has waited too long ends, and with it the job.
 *
 * Ranks that `shoal train` has started itself also tell it how far they are (rank_roster.h), and it names the rank
 * that is late; other ranks say on standard error that they have waited in vain. */
#ifndef SHOAL_RUN_RANK_WATCH_H
#define SHOAL_RUN_RANK_WATCH_H

#include "base/status.h"

#include <stdint.h>

/* In the environment of ranks that rank_job_run has started: the name of the abstract socket it listens at. */
#define RANKS_ASKED "SHOAL_RANKS"
/* The same, where that is not for the first time. */
#define RANKS_AGAIN "SHOAL_RANKS_AGAIN"

/* How far a rank has come. */
typedef enum {
  RANK_ABSENT,
  RANK_BEGUN,  /* the process runs; waits for all to join */
  RANK_JOINED, /* waits for rank 0's settings */
  RANK_LOADED, /* has read its rows; waits for rank 0's */
  RANK_READY,  /* the training's own deadlines hold from here on */
  RANK_TRAINS, /* all that were described have made a step together */
  RANK_TOLD,   /* has said on standard error why it fails */
  RANK_LATE,   /* has waited too long for the others */
  RANK_DONE    /* has done its part well; waits for all to end */
} rank_stage;

typedef struct {
  int32_t rank, stage; /* rank_stage */
} rank_message;

typedef struct rank_watch rank_watch;

/* seconds: for one wait. */
SHOAL_CHECKED shoal_status rank_watch_create(int rank, double seconds, rank_watch **out);
/* This rank has come so far and waits for the others from now on (not from RANK_READY). */
void rank_watch_reach(rank_watch *w, rank_stage stage);
/* It works, and nobody is waited for. */
void rank_watch_work(rank_watch *w);
/* NULL is fine. */
void rank_watch_destroy(rank_watch *w);

#endif
