/* A session over a cluster, from the inside: what the files that place, cut up, run and trace it share. */
#ifndef SHOAL_DIST_GRAPH_CLUSTER_H
#define SHOAL_DIST_GRAPH_CLUSTER_H

#include "dist/graph_program.h"
#include "dist/partition.h"
#include "exec/session.h"
#include "net/key_ring.h"
#include "shoal/placed.h"

/* One task's part in runs of one kind. */
typedef struct {
  bool takes_part;
  int_list feeds;      /* which of the caller's */
  wire_values results; /* as they come back */
  net_part *parts;     /* [1 + 2 feeds] */
} task_part;

#define CLUSTER_KINDS 16 /* kept ready at most; each has memory of its own at the tasks */

/* Runs of one kind: these fetches, these feeds and shapes. */
typedef struct {
  shoal_value **fetches;
  int n_fetches;
  shoal_value **feed_values;
  shoal_shape *feed_shapes;
  int n_feeds;
  uint32_t number;               /* of the programs, the same at all servers */
  task_part *parts;              /* [n_tasks] */
  uint64_t takers;               /* how many of them take part */
  int *owner, *place;            /* [n_fetches] task (-1: a feed) and place in its results (or among the feeds) */
  shoal_tensor *staged;          /* [n_feeds] room for a feed with a row index; data NULL: not needed so far */
  uint64_t messages, data_bytes; /* between tasks, a run */
  uint64_t last_used;            /* run */
} run_kind;

typedef struct {
  net_client *link; /* NULL: lost */
  char *name, *address;
  bool waiting;        /* for an answer */
  uint64_t wire_bytes; /* it has sent to other tasks */
} cluster_task;

typedef struct {
  shoal_graph *graph;
  shoal_cluster_options options;
  key_ring ring;
  cluster_task *tasks; /* [n_tasks] */
  device *devices;
  int n_tasks;
  uint64_t id, run;
  placer_choice *choices; /* [placed] */
  size_t placed;          /* nodes that the servers know */
  run_kind **kinds;
  size_t n_kinds, cap_kinds;
  uint32_t programs; /* numbers given so far */
  uint64_t messages, data_bytes;
  struct cluster_trace *trace; /* NULL: nobody has asked for a timeline; see graph_trace.c */
} cluster_session;

/* NULL: the session is one of this process alone. */
cluster_session *cluster_of(const shoal_session *s);
/* "/job:worker/task:0 (tcp://...): ..." */
shoal_status cluster_named(const cluster_session *c, int task, shoal_status status);
/* Asks one task; cluster_await waits for the answers of all that were asked. */
SHOAL_CHECKED shoal_status cluster_ask(cluster_session *c, int task, uint16_t kind, uint64_t number,
                                       const net_part *parts, int n);
/* Takes in what task `task` has answered; the message is released afterwards. */
typedef shoal_status (*answer_taker)(cluster_session *c, int task, const net_message *m, void *context);
/* Waits until all tasks asked have answered; take: NULL where an answer has no payload. After the first failure (or
 * with one given, which it takes) the others are told to stop. */
SHOAL_CHECKED shoal_status cluster_await(cluster_session *c, uint16_t kind, answer_taker take, void *context,
                                         double seconds, shoal_status failure);

SHOAL_CHECKED shoal_status run_kind_make(cluster_session *c, const shoal_feed *feeds, int n_feeds,
                                         shoal_value *const *fetches, int n_fetches, run_kind **out);
bool run_kind_fits(const run_kind *k, const shoal_feed *feeds, int n_feeds, shoal_value *const *fetches, int n_fetches);
void run_kind_destroy(run_kind *k, int n_tasks);

#endif
