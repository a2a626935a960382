/* One client's session at a graph server: the graph, this task's variables, its programs and the run under way.
 *
 * Nothing here waits: graph_task_advance does what can be done with what has come so far. */
#ifndef SHOAL_DIST_GRAPH_TASK_H
#define SHOAL_DIST_GRAPH_TASK_H

#include "dist/graph_program.h"
#include "dist/graph_protocol.h"

typedef struct graph_task graph_task;

typedef struct {
  uint64_t id;     /* of the session */
  uint64_t client; /* peer */
  net_options net; /* to reach other servers */
  const char *kernels;
  int threads;    /* where the client does not say */
  size_t memory;  /* bytes that the session may take here; 0: no limit */
  double seconds; /* that a run may take; 0: as long as the client says */
  void *context;
  shoal_status (*look)(void *context); /* called while a plan runs */
} graph_task_options;

/* payload: an open message. */
SHOAL_CHECKED shoal_status graph_task_create(const graph_task_options *options, const void *payload, size_t n,
                                             graph_task **out);
void graph_task_destroy(graph_task *t);
uint64_t graph_task_id(const graph_task *t);
uint64_t graph_task_client(const graph_task *t);

SHOAL_CHECKED shoal_status graph_task_extend(graph_task *t, const void *payload, size_t n);
/* These four are refused while a run is under way. *waits: links to other tasks are being made; graph_task_advance answers when they are there. */
SHOAL_CHECKED shoal_status graph_task_prepare(graph_task *t, const net_message *m, bool *waits);
/* *head: of the message. */
SHOAL_CHECKED shoal_status graph_task_start(graph_task *t, const net_message *m, graph_run_head *head);
void graph_task_data(graph_task *t, const net_message *m);
/* The program cannot be run any more. Its memory goes when the send_queue has nothing of it any more; then
 * graph_task_advance answers. */
SHOAL_CHECKED shoal_status graph_task_forget(graph_task *t, uint64_t number);
/* Begins to record a timeline (on), or stops and owes the answer to that, which graph_task_advance gives. */
SHOAL_CHECKED shoal_status graph_task_trace(graph_task *t, bool on);
/* Ends the run under way, if it is that one (0: any), for that reason; takes it. */
void graph_task_abort(graph_task *t, uint64_t run, shoal_status why);
/* For the look during a plan: an error once the run has been aborted. */
SHOAL_CHECKED shoal_status graph_task_told_to_stop(const graph_task *t);
/* Peer `peer` is that task. */
void graph_task_hello(graph_task *t, int task, uint64_t peer);
/* A peer has gone, who may be one of the tasks. */
void graph_task_lost(graph_task *t, uint64_t peer);

typedef enum { TASK_IDLE, TASK_WAITS, TASK_WAITS_SHORT, TASK_ANSWERS } task_state;
/* TASK_ANSWERS: the caller sends `header` and the parts, or *failure, which it takes. */
task_state graph_task_advance(graph_task *t, net_header *header, const net_part **parts, int *n, shoal_status *failure);

#endif
