/* How the work of a training is spread.
 *
 * The loop (fit.c) asks a strategy for parameters before the first step, hands it each step's gradients, and finds
 * fresh parameters in the session's variables when the call returns. Without one the update is part of the step's own
 * plan.
 *
 * Rows: all workers walk the same epoch in rounds. Round r takes the next batch x workers rows of the epoch's order,
 * worker w its w-th batch of them; what is left for the last round may leave some workers with few rows or none. */
#ifndef SHOAL_TRAIN_STRATEGY_H
#define SHOAL_TRAIN_STRATEGY_H

#include "shoal/train.h"

/* What a worker has computed in a step. */
typedef struct {
  int64_t examples;              /* may be 0 */
  double loss, hits;             /* sums over them */
  const shoal_tensor *gradients; /* of the mean loss; one a trained weight, in model_weights' order; f32 */
} strategy_part;

/* What the step has come to. */
typedef struct {
  bool stop;             /* somebody asked to stop: the step was not taken */
  int64_t examples;      /* that `loss` and `hits` are about */
  double loss, hits;     /* sums */
  double rate;           /* that was applied */
  int64_t updates;       /* of the parameters so far */
  int64_t all_examples;  /* of all workers in this run */
  int64_t staleness;     /* updates made between the parameters this part was computed with and its use */
  double barrier_seconds, server_seconds; /* of the call: waiting for other workers; for others' work on the step */
} strategy_outcome;

typedef struct {
  const char *name;
  /* Worker 0 brings parameters and slots, and says how far its training is (a resumed one: above 0); the others get
   * parameters and *step. */
  shoal_status (*begin)(shoal_strategy *s, shoal_model *m, int64_t *step, int64_t updates);
  shoal_status (*step)(shoal_strategy *s, const strategy_part *part, strategy_outcome *out);
  /* Makes all workers stop before their next step. */
  shoal_status (*stop)(shoal_strategy *s);
  /* Brings what a checkpoint needs into the session's variables: fresh parameters and slots. Worker 0 only. */
  shoal_status (*gather)(shoal_strategy *s);
  /* No more steps from this worker; worker 0 waits for all others, then gathers. *updates: of the parameters. */
  shoal_status (*end)(shoal_strategy *s, int64_t *updates);
} strategy_kind;

struct shoal_strategy {
  const strategy_kind *kind;
  int worker, workers;
  bool together; /* all workers take each step together; otherwise each goes its own pace */
};

#endif
