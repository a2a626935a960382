/* How the work of a training is spread: the gradient exchange of the training loop (fit.c).
 *
 * The loop takes a batch from its source (batch_source.h), lets the strategy compute its gradients and then exchange
 * them with the other workers; when `exchange` returns, fresh parameters are in the session's variables. A process
 * alone is the strategy `local` (local.h), whose update is part of the step's own plan.
 *
 *   begin  (compute  exchange)*  end          gather at any time in between, for a checkpoint
 *
 * Batches: with a strategy that hands them out (`leases`) they are numbered over the whole training (dist/leases.h) and
 * the outcome of each exchange says which comes next. With the others every worker walks through the same rows and
 * takes its own share of each step's. */
#ifndef SHOAL_TRAIN_STRATEGY_H
#define SHOAL_TRAIN_STRATEGY_H

#include "cluster/forked.h"
#include "dist/leases.h"
#include "train/compute.h"

#include <stdlib.h>

enum { STRATEGY_NOTHING = -1, STRATEGY_END = -2 }; /* instead of a batch: none in this step; none any more */

typedef struct {
  lease_plan batches; /* rows 0: of a stream, then `end` are epochs, 0: endless */
  int64_t end_step;   /* sync: steps at most */
} strategy_plan;

/* Where a training stands. */
typedef struct {
  int64_t updates; /* of the parameters so far */
  int64_t rows;    /* of all workers, done since the training's very beginning */
  /* with `leases`: */
  int64_t next;   /* the batch to compute, or the shard of a stream to go on with; STRATEGY_NOTHING or STRATEGY_END */
  int64_t index;  /* of a stream: the batch of the shard that comes next, counted over all epochs */
  int64_t epochs; /* the same: that all shards have finished */
  int64_t marked; /* the same, where this worker has not read the shard up to there: a batch at or before `index` ... */
  const char *mark; /* ... and where it begins; NULL: at the shard's beginning */
  double clock;     /* seconds on a clock of the strategy's own: when it stood so; 0: not known */
} strategy_place;

/* What a strategy has to know before the first step. What it points to lives as long as the training. */
typedef struct {
  compute *compute;    /* of the model's own session */
  train_batch example; /* what batches are like, to make plans: `rows` of them are there */
  int64_t batch;       /* rows of a worker's own batch */
  int64_t accumulate;  /* parts in which each batch is computed, 1: none */
  int64_t chunk; /* sparse rows: what a source hands out at most, several batches where one process can run them */
  int64_t round; /* rows of all workers in a step */
  int64_t last;  /* of the step at an epoch's end, if it is shorter; otherwise 0 */
  strategy_plan plan;
  const char *
      position; /* of a stream whose rows were counted: where a round of it begins, as train_batch.mark; may be empty */
  char **stream; /* of a stream that is continued: what `gather` had brought; NULL there: none */
  /* Where training stands beside variables and place, for workers that come later; and bringing it up to date. */
  void *shared;
  size_t shared_bytes;
  void (*describe)(void *context);
  /* For worker 0, when the parameters are lost with a server: goes back to the last checkpoint, if there is one. */
  void *context;
  shoal_status (*restore)(void *context, strategy_place *place);
  void (*note)(void *context, const char *line);
} strategy_setup;

/* What one or more steps have come to. */
typedef struct {
  bool stop;         /* somebody asked to stop: no step will be taken any more; the place is not set */
  bool drain;        /* worker 0 is to end the training for all, since a server has to leave */
  bool lost;         /* the others are lost: begin again; nothing else is set */
  int64_t examples;  /* that `loss` and `hits` are about */
  double loss, hits; /* sums */
  double rate;       /* that was applied */
  strategy_place place;
  int64_t own_examples; /* of this worker, used */
  int64_t own_steps;    /* batches of this worker that this is about: with several in flight, none or more than one */
  int64_t bytes;        /* of the messages there and back, if known */
  int64_t touched;      /* of a table: rows that this worker's gradients were about */
  int64_t
      staleness; /* updates made between the parameters a batch was computed with and its use, summed over batches */
  double network_seconds, barrier_seconds, server_seconds; /* messages; waiting for other workers; for servers */
} strategy_outcome;

/* Every strategy has all of them: tools/check_layers.py looks. */
typedef struct {
  const char *name;
  /* Finds the others, also again after `lost`, and agrees with them. *place: where this process stands; becomes where
   * all stand. Worker 0 brings parameters and slots unless a training is under way; all others get parameters. */
  shoal_status (*begin)(shoal_strategy *s, const strategy_setup *setup, strategy_place *place);
  /* The gradients of a batch, which may have no rows. */
  shoal_status (*compute)(shoal_strategy *s, const train_batch *b);
  /* Hands them on. next: of a stream with `leases`, the batch of the same shard that follows (no rows: it is at its
   * end); otherwise NULL. */
  shoal_status (*exchange)(shoal_strategy *s, const train_batch *next, strategy_outcome *out);
  /* Brings what a checkpoint needs into the session's variables, fresh parameters and slots, and into s->stream. Until
   * the next step the others change nothing of it. Worker 0 only. */
  shoal_status (*gather)(shoal_strategy *s);
  /* No more steps from this worker. early: nor from the others, who may be in the middle of one; *out: what was still
   * in flight has come to. Worker 0 waits for all others, then gathers. *out: place, or lost. */
  shoal_status (*end)(shoal_strategy *s, bool early, strategy_outcome *out);
  /* After `end`: all workers take the variables of worker 0, which may have gone back to better ones. Nothing to do where
   * they have no copies of their own (strategy_no_copies). */
  shoal_status (*follow_chief)(shoal_strategy *s);
  void (*destroy)(shoal_strategy *s);
} strategy_kind;

struct shoal_strategy {
  const strategy_kind *kind;
  int worker, workers;
  bool sync;           /* all workers take each step together; otherwise each at its own pace */
  bool rounds;         /* the rows of a step are cut among the workers, and their number changes nothing else */
  bool leases;         /* says which batch a worker computes next */
  bool updates;        /* the update is part of the step's own plan: no gradients are fetched */
  bool copies;         /* each worker has all variables, as good as worker 0's */
  bool recovers;       /* what is lost is taken up again from the last checkpoint */
  bool restarts;       /* a training that begins at step 0 needs nothing of this process: it can do so again */
  bool apart;          /* right now each worker has parameters of its own: nothing is to be saved or tested */
  int64_t local_steps; /* that a worker makes of each batch that it is handed, which is as many times larger; 0: one */
  bool table;          /* keeps the weights of sparse features on servers: the model is compiled for that */
  struct collective *ranks; /* between ranks, while it trains: how it adds up; else NULL */
  forked *copy;     /* this process is a copy that the strategy has made: it ends with the training; else NULL */
  char *checkpoint; /* of a table: where its rows are read from when a training begins; NULL: none. Owned */
  char *stream;     /* where the shards of a stream stood when `gather` was called, as text; NULL: none. Owned */
  int64_t stream_updates, stream_rows; /* the same: as in strategy_place */
};

/* A line for the user. */
static inline void strategy_note(const strategy_setup *setup, const char *line) { setup->note(setup->context, line); }

/* follow_chief of a strategy without `copies`. */
static inline shoal_status strategy_no_copies(shoal_strategy *s) { return NULL; }

/* The usual rate of what workers with local steps have come to: so many distances are applied, each by itself, where all of
 * them are to count as their mean does. */
static inline double strategy_outer_rate(double momentum, int distances) {
  return (momentum > 0 ? 0.7 : 1) / distances;
}

/* NULL is fine. */
static inline void strategy_destroy(shoal_strategy *s) {
  if (!s) return;
  free(s->checkpoint);
  free(s->stream);
  s->kind->destroy(s);
}

#endif
