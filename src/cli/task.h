/* A process that is one task of a cluster: a worker or a parameter server. Worker 0 is the chief: it saves checkpoints
 * and weights, writes metrics.jsonl, and tells how training goes. */
#ifndef SHOAL_CLI_TASK_H
#define SHOAL_CLI_TASK_H

#include "cli/cluster_job.h"

/* Who hears what a task has to tell (record.h). Takes `value`. */
typedef struct {
  void *context;
  void (*tell)(void *context, const char *key, json_t *value);
  /* Nobody started all tasks: results go through the servers to worker 0, which tells them as "tasks". */
  bool collects;
} task_ears;

typedef struct {
  training *base;         /* flags filled, folder named */
  const cluster_job *job;
  bool server;            /* or a worker */
  int index;
  const int *stop;
  const task_ears *ears;
} task_place;

SHOAL_CHECKED shoal_status task_do(const task_place *place);

/* A task that was started by another process: name is "worker:1" or "ps:0"; again: it died before. What happens is told
 * to that process, also an error that is returned. */
SHOAL_CHECKED shoal_status task_run(const char *name, const char *job_path, bool again);

#endif
