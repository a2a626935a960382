/* The strategy allreduce: one process a rank, each with all parameters. Gradients are added up over the ranks
 * (dist/collective.h), from the last layer on while backward still runs; then each rank makes the same update.
 *
 * 1. All ranks begin with rank 0's variables, the optimizer's included.
 * 2. Whoever wants to stop says so in the next step, which then counts for nobody: all end with the same parameters.
 * 3. Ranks whose parameters differ end the job. They are compared by a hash, every so many steps and at the end.
 * 4. Elastic: a step counts on a rank when it has the sums and has heard all ranks; until then nothing has changed, and the step
 *    is made again, with the same rows, by whoever takes part then. The rows of a step are cut among those by one rule, so
 *    each is computed once, whatever their number; the number of rows of a step is that of the ranks that were
 *    described. */
#ifndef SHOAL_TRAIN_ALLREDUCE_H
#define SHOAL_TRAIN_ALLREDUCE_H

#include "dist/collective.h"
#include "dist/elastic.h"
#include "dist/rank_place.h"
#include "train/strategy.h"

typedef struct {
  const rank_place *start; /* whom to join where there is no place; NULL: the ranks of MPI */
  collective_place *place; /* borrowed; NULL: joins, and leaves when it is destroyed */
  elastic *elastic;        /* borrowed, instead of both: ranks may come and go; NULL: whoever goes ends the training */
  int id, described;       /* with it: this rank's number, and how many were described */
  bool deterministic;      /* the same bits whatever the number of ranks and threads */
  const wire_format *wire; /* NULL: f32 */
  const float *carried;    /* NULL, or [elements] to be added to the first gradients, as those are scaled; borrowed */
  int64_t check_every;     /* steps between two comparisons of the parameters; 0: only at the end */
  double patience;         /* seconds to wait for a rank */
  void (*on_peer_exit)(void *context, int rank); /* see collective_options */
  void (*on_change)(void *context); /* elastic: a step after which elastic_changes may have more; or NULL */
  void *context;
} allreduce_options;

SHOAL_CHECKED shoal_status allreduce_create(const allreduce_options *options, shoal_strategy **out);

/* For strategies of the same kind: */
/* Joins the ranks unless they were given, leaves o->place set, and makes the strategy's base. */
SHOAL_CHECKED shoal_status allreduce_join(const strategy_kind *kind, allreduce_options *o, collective_place *joined,
                                          shoal_strategy *base);
/* What compression has left out so far: *out [elements], which the caller frees; NULL: it has made no step. */
SHOAL_CHECKED shoal_status allreduce_take_left(const shoal_strategy *s, float **out);
/* All variables of rank 0. */
SHOAL_CHECKED shoal_status allreduce_follow_chief(collective_place *place, shoal_model *m);
/* Who has other parameters than most, by the hashes in heads [n]; an error names them. */
SHOAL_CHECKED shoal_status allreduce_compare(const collective *c, const collective_head *heads, int n);

/* ---- elastic */
void allreduce_stats(shoal_strategy *s, collective_stats *out); /* bytes of all generations */
/* Not of rank 0: */
/* Hands in the rank's report and waits until rank 0 is done with everything, also where it is started again for that. */
SHOAL_CHECKED shoal_status allreduce_await_end(shoal_strategy *s, const char *words);
/* Tells the others that this rank ends the job, for a reason that it says itself. */
void allreduce_abort(shoal_strategy *s);
/* Another rank has told so. */
bool allreduce_told(shoal_strategy *s);
/* This rank was asked to stop, and the others go on. */
bool allreduce_has_left(shoal_strategy *s);

#endif
