/* The role `evaluator`: follows the checkpoints of a run while others train it, and tests each on the test rows.
 *
 *  1. It only reads what the run leaves in its folder; no other task knows of it or waits for it.
 *  2. Each result is a line in eval/metrics.jsonl in the run's folder, and events for TensorBoard in eval/checkpoints/.
 *  3. It ends with the job: when the final weights are there, which it tests as well; or when the run gave no sign of
 *     life for `patience` seconds, which is an error unless there are final weights. */
#ifndef SHOAL_RUN_EVALUATOR_H
#define SHOAL_RUN_EVALUATOR_H

#include "run/sink.h"
#include "run/training.h"

typedef struct {
  const char *folder; /* of the run */
  const char *data;   /* other rows than the run's own; NULL: those */
  int64_t threads;
  double patience;
  const int *stop;
  exporter *exporter; /* for those who ask over HTTP; NULL: nobody */
  void *context;
  /* After each evaluation; NULL: nobody is told. */
  void (*on_tested)(void *context, const char *file, const shoal_evaluation *e);
} evaluator_options;

typedef struct {
  int64_t count; /* evaluations */
  int64_t step;  /* of the last; -1: none, or of weights without a step */
  shoal_evaluation last;
  double seconds; /* spent on them */
} evaluator_result;

SHOAL_CHECKED shoal_status evaluator_run(const evaluator_options *options, evaluator_result *out);
/* The same for a task that another process started; what it found is its result. */
SHOAL_CHECKED shoal_status evaluator_task(const evaluator_options *options, training *base, const run_sink *sink);

#endif
