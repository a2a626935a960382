/* The strategy allreduce: one process a rank, each with all parameters. Gradients are added up over the ranks
 * (dist/collective.h), from the last layer on while backward still runs; then each rank makes the same update.
 *
 * 1. All ranks begin with rank 0's variables, the optimizer's included.
 * 2. Whoever wants to stop says so in the next step, which then counts for nobody: all end with the same parameters.
 * 3. Ranks whose parameters differ end the job. They are compared by a hash, every so many steps and at the end. */
#ifndef SHOAL_TRAIN_ALLREDUCE_H
#define SHOAL_TRAIN_ALLREDUCE_H

#include "dist/collective.h"
#include "dist/rank_place.h"
#include "train/strategy.h"

typedef struct {
  const rank_place *start; /* whom to join where there is no place; NULL: the ranks of MPI */
  collective_place *place; /* borrowed; NULL: joins, and leaves when it is destroyed */
  bool deterministic;      /* the same bits whatever the number of ranks and threads */
  const wire_format *wire; /* NULL: f32 */
  int64_t check_every;     /* steps between two comparisons of the parameters; 0: only at the end */
  double patience;         /* seconds to wait for a rank */
  void (*on_peer_exit)(void *context, int rank); /* see collective_options */
  void *context;
} allreduce_options;

SHOAL_CHECKED shoal_status allreduce_create(const allreduce_options *options, shoal_strategy **out);

/* For strategies of the same kind: */
/* Joins the ranks unless they were given, and leaves o->place set. */
SHOAL_CHECKED shoal_status allreduce_join(allreduce_options *o, collective_place *joined);
/* All variables of rank 0. */
SHOAL_CHECKED shoal_status allreduce_follow_chief(collective_place *place, shoal_model *m);
/* Who has other parameters than most, by the hashes in heads [n]; an error names them. */
SHOAL_CHECKED shoal_status allreduce_compare(const collective *c, const collective_head *heads, int n);

#endif
