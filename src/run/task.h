/* A process that a local cluster has started: one of its workers, servers, or its evaluator. */
#ifndef SHOAL_RUN_TASK_H
#define SHOAL_RUN_TASK_H

#include "run/training.h"

/* name: "worker:1", "ps:0" or "evaluator:0". What happens goes to the process that started this one, also an error that
 * is returned. context, on_tested: of an evaluator, as in evaluator_options. */
SHOAL_CHECKED shoal_status task_run(const shoal_job *job, const int *stop, void *context,
                                    void (*on_tested)(void *context, const char *file, const shoal_evaluation *e));

#endif
