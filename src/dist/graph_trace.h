/* Timelines of graphs over several tasks: what a task records, how that travels, and how the client puts all of them
 * onto its own clock. observe/session_trace.c writes them to a file. */
#ifndef SHOAL_DIST_GRAPH_TRACE_H
#define SHOAL_DIST_GRAPH_TRACE_H

#include "base/events.h"
#include "base/proto.h"
#include "dist/send_queue.h"
#include "dist/graph_cluster.h"
#include "graph/device.h"

#define GRAPH_SPANS (1u << 16) /* kept of each thread */

/* "worker/0", as tasks are called in timelines, for "/job:worker/task:0". */
void graph_task_short(const char *name, char out[DEVICE_TEXT]);

/* ---- a task's: runs, messages and waits beside the operators that its plans record. Zeroed: records nothing. */
typedef struct {
  events *events;               /* NULL: nobody has asked for it */
  uint32_t run;                 /* labels ... */
  uint32_t *send, *take, *wait; /* ... [tasks] each */
  uint64_t begun;               /* the run under way; 0: while nobody looked */
  int awaited;                  /* task whose message is waited for, -1: none */
  uint64_t since;
} task_trace;

/* names [tasks]: "/job:worker/task:0". Spans of the session's threads come first, then the send queue's. */
SHOAL_CHECKED shoal_status task_trace_begin(task_trace *t, shoal_session *s, send_queue *c, char *const *names,
                                            int tasks);
/* Stops. */
SHOAL_CHECKED shoal_status task_trace_end(task_trace *t, proto *out);
void task_trace_fini(task_trace *t);
void task_trace_run_begins(task_trace *t, uint64_t step);
void task_trace_run_ends(task_trace *t);
/* The message of that task is waited for from now on; -1: of none any more. */
void task_trace_awaits(task_trace *t, int task);
/* When taking in a message began; 0: nobody looks. */
static inline uint64_t task_trace_now(const task_trace *t) { return events_on(t->events) ? events_now() : 0; }
void task_trace_took(task_trace *t, uint32_t from, uint64_t begun, size_t bytes);

/* ---- the client's */
typedef struct {
  char task[DEVICE_TEXT]; /* "worker/0" */
  events *events;
  char **texts; /* [n_texts] that the labels point to */
  size_t n_texts;
} graph_timeline;

SHOAL_CHECKED shoal_status cluster_trace_begin(cluster_session *c);
/* *out: [*n], by the clock of this process; the client's own comes first. */
SHOAL_CHECKED shoal_status cluster_trace_end(cluster_session *c, graph_timeline **out, int *n);
void graph_timelines_destroy(graph_timeline *t, int n);
void cluster_trace_destroy(struct cluster_trace *t);
/* While a run goes on: a message of so many bytes went to a task since `begun`; the run that began then is over. */
uint64_t cluster_trace_now(const cluster_session *c);
void cluster_trace_sent(cluster_session *c, int task, uint64_t begun, uint64_t bytes);
void cluster_trace_ran(cluster_session *c, uint64_t begun, uint64_t sent, uint64_t step);

#endif
