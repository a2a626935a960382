/* What the files of the strategy allreduce share: allreduce.c, its steps; allreduce_elastic.c, ranks that come and go. For those
 * files only. */
#ifndef SHOAL_TRAIN_ALLREDUCE_INTERNAL_H
#define SHOAL_TRAIN_ALLREDUCE_INTERNAL_H

#include "train/allreduce.h"
#include "train/apply.h"
#include "train/shards.h"

typedef struct {
  shoal_strategy base;
  allreduce_options options;
  const strategy_setup *setup;
  shoal_model *model;
  apply apply;
  collective_place joined; /* where the caller has not, or that of the generation */
  collective *ranks;
  int rank, live;         /* among those that take part now, in the collective's order */
  collective_head *heads; /* [live] */
  shards *shards;         /* deterministic only */
  float **vectors;        /* for them: the collective's parts, then others */
  int n_vectors;
  int64_t *offsets; /* [weights + 1] in the vector */
  /* of the step under way, for the watcher */
  float scale;            /* this rank's share of the rows */
  shoal_status error;     /* first one that the watcher met */
  double sending_seconds; /* so far */
  bool compares;          /* parameters are compared in the step under way */
  collective_head own;    /* of the batch computed last */
  int64_t rows;           /* of all ranks, the same */
  double rate;            /* the same */
  strategy_place place;
  bool stopped;
  /* elastic (dist/elastic.h): */
  train_batch batch; /* of the step under way, to be computed again */
  bool interrupted;  /* it has to be */
  bool change_due;   /* others take part from the next step on */
  bool whole;        /* the variables are those of `place` */
  bool adopted;      /* they and the progress are others': the loop has to begin again */
  bool left;         /* this rank has gone */
  double begun;      /* clock: the last step counted */
  double stood;      /* clock: the same, since when it has not gone on with those that it began with; 0: it has */
  int64_t last_rows; /* the step before: what it came to */
  double last_loss, last_hits;
  collective_stats counted; /* of generations before */
} allreduce;

/* What the collective needs, for those that take part now. */
SHOAL_CHECKED shoal_status allreduce_prepare(allreduce *s);
/* Takes part in a step that does not count, so that all know it. */
SHOAL_CHECKED shoal_status allreduce_stop_step(allreduce *s);
/* Until all ranks have ended with the same parameters. */
SHOAL_CHECKED shoal_status allreduce_meet(allreduce *s);

/* ---- allreduce_elastic.c */

/* Whether the error that a call of the collective has returned is that a rank has gone, or that one is to come. */
bool allreduce_is_cut(const allreduce *s);
/* Waits for the next generation and takes what it begins with. Afterwards `place` may be another one, and `adopted` set. */
SHOAL_CHECKED shoal_status allreduce_regroup(allreduce *s);
/* Forgets those that take part now. */
void allreduce_forget(allreduce *s);
/* All variables of rank 0, to all. */
SHOAL_CHECKED shoal_status allreduce_follow(allreduce *s);
/* A step counts. pause: the longest that one stood still before it. */
void allreduce_goes_on(allreduce *s, double pause);

#endif
