/* The timeline of a task, once it is over (base/events.h). */
#ifndef SHOAL_RUN_TASK_TRACE_H
#define SHOAL_RUN_TASK_TRACE_H

#include "base/events.h"
#include "observe/trace_file.h"

typedef struct {
  events *events;      /* NULL: there is none */
  const char *task;    /* what users call it */
  const double *ahead; /* [servers] their clocks minus this machine's */
  int servers;
} task_trace;

/* A part for trace_write with at most so many spans; NULL: there is none, or no memory. The caller owns it. */
static inline json_t *task_trace_part(const task_trace *t, size_t spans_max) {
  return t->events ? trace_part(t->events, t->task, t->ahead, t->ahead ? t->servers : 0, spans_max) : NULL;
}

#endif
