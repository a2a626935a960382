/* What the files of a cluster on this machine share: local_cluster.c, which watches over its tasks, and local_move.c, which has
 * other servers take over. For those files only. */
#ifndef SHOAL_RUN_LOCAL_CLUSTER_INTERNAL_H
#define SHOAL_RUN_LOCAL_CLUSTER_INTERNAL_H

#include "cluster/launch.h"
#include "run/job_file.h"
#include "run/local_cluster.h"
#include "run/log_view.h"
#include "run/report_pipe.h"

#include <sys/types.h>

typedef struct {
  bool ended;
  bool lost;    /* for good: the job goes on without it */
  bool retired; /* a server whose place others have taken, or that was not needed: how it ends does not count */
  int restarts;
  double stopped; /* seconds for which it was seen to be stopped */
  int status;     /* as from waitpid */
  task_end end;   /* what it said itself */
} member;

/* Servers that are to take over: the last members. */
typedef struct {
  int first, count;
  job_file job;
  char *path; /* of its file; NULL: no move is under way */
  ino_t inode;
} cluster_move;

typedef struct {
  run_state *state;
  run_sink sink; /* of the state */
  job_file job;
  char *logs;     /* folder */
  log_view *view; /* NULL: the logs are not shown */
  char *job_path;
  launch *tasks;
  member *members; /* servers first, then workers, then the evaluator; then servers that came later */
  int first_server, servers, chief, count;
  double failed_at, stop_at, chief_at; /* clock; 0: not yet */
  double looked_at;                    /* clock: whether tasks are stopped */
  bool alone;                          /* those that still run were told that worker 0 and the servers have ended */
  bool killed;                         /* and did not end in time */
  int classes;                         /* of the data, and their rows */
  int64_t rows;
  cluster_move move;
  int moves;         /* so far */
  double retired_at; /* clock: the last one; 0: those whose place was taken have ended */
  /* Another number of servers where they cannot move: all tasks are stopped, and started again as a run that is resumed is. */
  int64_t scale_to, scale_from; /* servers; 0: none was asked for; how many there were, once it is done */
  int64_t scale_step;           /* updates by then */
  double scale_at;              /* clock: when that was asked for */
  int64_t lost_steps, uneven;   /* of the tasks before */
} local_cluster;

static inline bool is_server(const local_cluster *w, int task) {
  return task >= w->first_server && task < w->first_server + w->servers;
}
/* It is to be one. */
static inline bool is_moving(const local_cluster *w, int task) { return w->move.path && task >= w->move.first; }

SHOAL_CHECKED shoal_status cluster_start_task(local_cluster *w, int task, bool again);

/* ---- local_move.c */

/* Starts so many servers, and has worker 0 take to them what the others hold. */
SHOAL_CHECKED shoal_status move_begin(local_cluster *w, int64_t servers);
/* Whether they have taken over by now, or never will. */
void move_look(local_cluster *w);
/* One of them has ended, or the job has: they are not needed any more. */
void move_give_up(local_cluster *w);

#endif
