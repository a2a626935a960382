/* What a task tells the process that started it: one JSON object a line, through a pipe.
 *
 *   {"ready": {...}}       worker 0 is about to train
 *   {"progress": {...}}    what the callbacks of training see; "kind": "step" or "epoch"
 *   {"tested": {...}}      a test on the way
 *   {"note": "..."}        for the person at the terminal
 *   {"membership": {...}}  a worker left or came
 *   {"trace": {...}}       a part of the timeline (observe/trace_file.h)
 *   {"result": {...}}      the task is done
 *   {"error": {"message": "...", "code": N}}   the task fails */
#ifndef SHOAL_RUN_REPORT_PIPE_H
#define SHOAL_RUN_REPORT_PIPE_H

#include "run/sink.h"

/* Sends to the process that started this one. */
run_sink report_pipe_sink(void);
/* The task fails. */
void report_pipe_fail(shoal_status status);

/* How a task says it has ended. */
typedef struct {
  bool has_result;
  task_result result;
  char *error; /* owned; NULL: it did not fail, or said nothing */
  shoal_code code;
} task_end;

void task_end_fini(task_end *e);

/* The other end: hands a line on to `sink`, or keeps it in *end. What cannot be read is passed over. */
void report_pipe_read(const char *line, const run_sink *sink, task_end *end);

#endif
