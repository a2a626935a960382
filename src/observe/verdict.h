/* Where the time of a run went, what holds it up, what one more worker would bring, and what a careful colleague would
 * say. A function of what was measured, so that it can be tested without a run.
 *
 * How it is found:
 * 1. A run under SHORTEST seconds is too short to tell.
 * 2. Together, all wait for the slowest. If one worker takes SLOW times as long for its own part of a step (computing
 * and reading) as the middle one, and the others wait for it, the barrier is what holds it up, and that worker is why.
 * 3. Otherwise, if the workers compute for at least half of their time, it is computing.
 * 4. Otherwise the largest of what they wait for. Messages on their way that wait because a server is at work on others
 *    count as the server's, when the busiest server works for BUSY of the time.
 * 5. One more worker: a step takes as long as now and one gradient more of the busiest server's time, its computing
 *    scaled to the threads that each worker would have; no faster than that server takes in gradients. On one machine, async:
 *    no faster than its processors can do the work of all tasks. With several machines, the new worker has its own.
 *    No forecast, but why: the run was too short; other programs had a good part of the processors; workers would have
 *    to share processors in sync mode, with several threads each, or more than two to a processor. */
#ifndef SHOAL_OBSERVE_VERDICT_H
#define SHOAL_OBSERVE_VERDICT_H

#include "shoal/run.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum {
  VERDICT_NONE,
  VERDICT_COMPUTING,
  VERDICT_NETWORK,
  VERDICT_BARRIER,
  VERDICT_INPUT,
  VERDICT_SERVER,
  VERDICT_CAUSES
} verdict_cause;
extern const char *const verdict_cause_names[VERDICT_CAUSES];

typedef struct {
  char name[32]; /* "worker/0" */
  bool server;
  double seconds;     /* in training */
  double cpu_percent; /* 100: one processor */
  int host;           /* index into verdict_facts.hosts; below 0: not known */
  /* workers */
  int threads;
  shoal_times times;
  int64_t steps;
  int64_t gradients; /* that were used by every server; below 0: not known */
  /* servers */
  double busy_seconds;
  int64_t served; /* gradients */
} verdict_task;

/* A machine, over the time of the training: means, in processors. */
typedef struct {
  const char *name;
  int cores;
  double own, others; /* used by all tasks of the run; by other programs */
} verdict_host;

typedef struct {
  const verdict_task *tasks; /* [n_tasks] */
  int n_tasks;
  const verdict_host *hosts; /* [n_hosts] */
  int n_hosts;
  int workers, servers;
  bool sync;
  int next_threads; /* of each worker, if there was one more */
  int64_t batch;    /* of each worker */
  double seconds, examples_per_second;
  double rate, usual_rate; /* the learning rate; the one that the model has for one worker's batch, 0: not known */
} verdict_facts;

void verdict_make(const verdict_facts *f, shoal_verdict *out);

#endif
