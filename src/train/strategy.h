/* How the work of a training is spread.
 *
 * The loop (fit_shared.c) asks a strategy where it stands and which batch to compute, hands it each step's gradients,
 * and finds fresh parameters in the session's variables when the call returns. Without one the update is part of the
 * step's own plan.
 *
 * Rows: an epoch's order is cut into batches, numbered over the whole training (dist/leases.h). While nobody dies and
 * all workers step together, round r takes the next batches, worker w the w-th of them; what is left for the last round
 * of an epoch may leave some workers with few rows or none. */
#ifndef SHOAL_TRAIN_STRATEGY_H
#define SHOAL_TRAIN_STRATEGY_H

#include "dist/leases.h"
#include "shoal/pipeline.h"
#include "train/model.h"

enum { STRATEGY_NOTHING = -1, STRATEGY_END = -2 }; /* instead of a batch: none in this step; none any more */

typedef struct {
  lease_plan batches; /* rows 0: of a stream, then `end` are epochs, 0: endless */
  int64_t end_step; /* together: steps at most */
  const char *stream; /* of one that is continued: what `gather` had brought; NULL: none. Borrowed */
} strategy_plan;

/* Where a training stands. */
typedef struct {
  int64_t updates; /* of the parameters so far */
  int64_t rows;    /* of all workers, done since the training's very beginning */
  int64_t next;    /* the batch to compute, or the shard of a stream to go on with; STRATEGY_NOTHING or STRATEGY_END */
  int64_t index;   /* of a stream: the batch of the shard that comes next, counted over all epochs */
  int64_t epochs;  /* the same: that all shards have finished */
  double clock; /* seconds on a clock of the strategy's own: when it stood so; 0: not known */
} strategy_place;

/* What a strategy that computes the steps itself has to know before the first one. The arrays live as long as the
 * training. */
typedef struct {
  shoal_model *model;
  const tower *tower;
  shoal_value *const *fetches; /* loss, accuracy if measured, then the gradients of the trained weights */
  int n_fetches, first_gradient;
  const shoal_dataset *data;
  bool shuffled; /* rows come through an index */
  int64_t round; /* rows of all workers in a step */
  int64_t last;  /* of the step at an epoch's end, if it is shorter; otherwise 0 */
} strategy_setup;

/* The rows of one step, of all workers. */
typedef struct {
  const int32_t *order; /* of the epoch; NULL: as they stand */
  int64_t first, rows;
  int64_t step;
  double rate;
} strategy_rows;

/* What a worker has computed in a step. */
typedef struct {
  int64_t examples;              /* may be 0, together */
  double loss, hits;             /* sums over them */
  const shoal_tensor *gradients; /* of the mean loss; one a trained weight, in model_weights' order; f32 */
  const shoal_batch *next;       /* with `fetch`: computed next; NULL: none */
  lease_span span;               /* with `compute`: what it is of, and `gradients` is not set */
  /* Of a stream. shard STRATEGY_NOTHING: this worker has none, and asks for one; otherwise without examples: it is at
   * its end. epochs: that the shard has finished with this batch. position: where the next one begins, or NULL. */
  int64_t shard, index, epochs;
  const char *position;
} strategy_part;

/* What the step has come to. */
typedef struct {
  bool stop;         /* somebody asked to stop: no step will be taken any more */
  bool lost;         /* the others are lost: meet again; nothing below is set */
  int64_t examples;  /* that `loss` and `hits` are about */
  double loss, hits; /* sums */
  double rate;       /* that was applied */
  strategy_place place;
  int64_t own_examples; /* of this worker, used */
  int64_t own_steps;    /* parts of this worker that this is about: with several on their way, none or more than one */
  int64_t bytes;     /* of the messages there and back, if known */
  int64_t touched;   /* with `fetch`: rows of the table this worker's gradients were about */
  int64_t staleness; /* updates made between the parameters a part was computed with and its use, summed over parts */
  double barrier_seconds, server_seconds; /* of the call: waiting for other workers; for others' work on the step */
  double network_seconds;                 /* moving messages while computing: from `train`, and from `ready` */
} strategy_outcome;

typedef struct {
  const char *name;
  /* Finds the others, also again after `lost`. *under_way: a training is going on that this worker is to join, worker 0
   * included; otherwise worker 0 is to bring what it has. NULL: nothing to do, nothing under way. */
  shoal_status (*meet)(shoal_strategy *s, bool *under_way);
  /* Worker 0, when nothing is under way, brings parameters and slots, and says in *place how far its training is (a
   * resumed one: above 0). All others get parameters. *place: where all stand, and the first batch. *lost: as in
   * strategy_outcome. */
  shoal_status (*begin)(shoal_strategy *s, shoal_model *m, const strategy_plan *plan, bool under_way,
                        strategy_place *place, bool *lost);
  shoal_status (*step)(shoal_strategy *s, const strategy_part *part, strategy_outcome *out);
  /* With s->watches, while the loop computes the part that `step` gets next: the gradient of that trained weight is
   * there. What goes wrong is said by `step`. */
  void (*ready)(shoal_strategy *s, int weight, const shoal_tensor *gradient);
  /* Once it was stopped: what the parts that were still on their way have come to. NULL: none ever are. */
  void (*settle)(shoal_strategy *s, strategy_outcome *out);
  /* Of a table that is elsewhere (model.h): brings the rows of the first batch, which is computed next; those of later
   * ones come with the steps. Gradients are then [entries, 1], and s->indices those to compute with. NULL: all
   * parameters are here. */
  shoal_status (*fetch)(shoal_strategy *s, const shoal_batch *b);
  /* Of a stream: where in a shard to begin reading, *index batches after its beginning; 0: there. */
  shoal_status (*find)(shoal_strategy *s, int64_t shard, int64_t *index, char position[SHOAL_POSITION_TEXT]);
  /* With `step`, after `prepare`: computes the gradients of a part of a round's rows by itself. Of *out `span` is set
   * before; the sums are to be. NULL: the loop computes whole batches. */
  shoal_status (*compute)(shoal_strategy *s, const strategy_rows *rows, strategy_part *out);
  /* In place of `step`, for those in which all workers walk the epoch's rows together and cut each round's among them
   * in their own way: they compute, too. Of the outcome `stop`, the losses, own_examples and the times are set. */
  shoal_status (*prepare)(shoal_strategy *s, const strategy_setup *setup);
  shoal_status (*train)(shoal_strategy *s, const strategy_rows *rows, strategy_outcome *out);
  /* Makes all workers stop before their next step. */
  shoal_status (*stop)(shoal_strategy *s);
  /* Brings what a checkpoint needs into the session's variables, fresh parameters and slots, and into s->stream. Until
   * the next step the others change nothing of it. Worker 0 only. */
  shoal_status (*gather)(shoal_strategy *s);
  /* No more steps from this worker; worker 0 waits for all others, then gathers. */
  shoal_status (*end)(shoal_strategy *s, strategy_place *place, bool *lost);
} strategy_kind;

struct shoal_strategy {
  const strategy_kind *kind;
  int worker, workers;
  bool together; /* all workers take each step together; otherwise each goes its own pace */
  bool rounds;   /* the rows of a step are cut among the workers, and their number changes nothing else */
  int64_t rows;  /* with `train`: of the step under way or next, of all workers; the loop keeps it */
  bool watches;  /* wants to be told of each gradient when it is there */
  bool recovers; /* what is lost is taken up again from the last checkpoint */
  shoal_tensor indices; /* see `fetch` */
  char *checkpoint;     /* with `fetch`: where rows are to be read from when a training begins; NULL: none. Owned */
  char *stream;         /* where the shards of a stream stood when `gather` was called, as text; NULL: none. Owned */
  int64_t stream_updates, stream_rows; /* the same: as in strategy_place */
};

/* The batch of a worker in step `step` (from 0) when nobody ever comes or goes and all step together: for strategies in
 * which nobody hands them out. */
static inline int64_t strategy_batch(const strategy_plan *plan, int worker, int workers, int64_t step) {
  int64_t batches = lease_plan_epoch_batches(&plan->batches), rounds = (batches + workers - 1) / workers;
  int64_t first = step / rounds * batches, place = step % rounds * workers + worker;
  if (step >= plan->end_step || first >= plan->batches.end) return STRATEGY_END;
  return place < batches ? first + place : STRATEGY_NOTHING;
}

#endif
