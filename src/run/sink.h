/* Who hears how a task of a run goes: the process itself, or the one that started it (report_pipe.h). All functions are
 * called by the thread that trains; none is NULL. */
#ifndef SHOAL_RUN_SINK_H
#define SHOAL_RUN_SINK_H

#include "run/confusion.h"
#include "run/task_report.h"
#include "train/evaluation.h"

/* What a task has at its end. */
typedef struct {
  shoal_task_report task;
  bool trained; /* it is a worker: the rest is there */
  shoal_fit_result fit;
  shoal_evaluation test;     /* NaN where not measured */
  shoal_confusion confusion; /* owned; counts NULL: not counted */
} task_result;

void task_result_fini(task_result *r); /* fine on one that was taken */

typedef struct {
  void *context;
  /* Worker 0 is about to train. */
  void (*on_ready)(void *context, int64_t parameters, int threads, int64_t rows);
  void (*on_progress)(void *context, bool epoch, const shoal_progress *p);
  void (*on_test)(void *context, int64_t rows, const shoal_progress *p, const shoal_evaluation *e);
  void (*on_note)(void *context, const char *line);
  void (*on_membership)(void *context, const shoal_membership_event *e);
  void (*on_trace)(void *context, json_t *part); /* of a timeline (observe/trace_file.h), taken */
  void (*on_task)(void *context,
                  shoal_task_report *t);            /* another task's report, that came through the servers; taken */
  void (*on_result)(void *context, task_result *r); /* taken */
} run_sink;

#endif
