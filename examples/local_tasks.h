/* The tasks of a cluster as processes of this machine, for the examples: /job:ps/task:0 and some /job:worker. On
 * several machines each would be `shoal server --cluster FILE --task worker:0`, and the addresses theirs. */
#ifndef LOCAL_TASKS_H
#define LOCAL_TASKS_H

#include <shoal/shoal.h>

#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_WORKERS = 8 };

typedef struct {
  shoal_task tasks[MOST_WORKERS + 1];
  int n;
  uint64_t job;
  char names[MOST_WORKERS + 1][32], addresses[MOST_WORKERS + 1][64];
  pid_t servers[MOST_WORKERS + 1];
} local_tasks;

/* Each task ends with this process, whatever ends it. */
static inline void local_tasks_start(local_tasks *t, int workers) {
  pid_t parent = getpid();
  t->n = workers + 1;
  t->job = (uint64_t)parent;
  for (int i = 0; i < t->n; i++) {
    snprintf(t->names[i], sizeof t->names[i], i ? "/job:worker/task:%d" : "/job:ps/task:%d", i ? i - 1 : 0);
    snprintf(t->addresses[i], sizeof t->addresses[i], "shm:/in-graph-%d-%d", (int)parent, i);
    t->tasks[i] = (shoal_task){t->names[i], t->addresses[i]};
    t->servers[i] = fork();
    if (t->servers[i]) continue;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    shoal_status s = shoal_server_run(&(shoal_server_options){.address = t->addresses[i], .job = t->job, .threads = 1});
    if (s) fprintf(stderr, "%s: %s\n", t->names[i], shoal_status_message(s));
    _exit(1);
  }
}

static inline void local_tasks_end(local_tasks *t) {
  for (int i = 0; i < t->n; i++) {
    if (t->servers[i] <= 0) continue;
    kill(t->servers[i], SIGTERM);
    waitpid(t->servers[i], NULL, 0);
  }
}

static inline void on_worker(shoal_graph *g, int i) {
  char name[32];
  snprintf(name, sizeof name, "/job:worker/task:%d", i);
  shoal_device_push(g, name);
}

/* "x2", for the value that belongs to worker 2. */
static inline const char *worker_name(const char *what, int i, char buffer[32]) {
  snprintf(buffer, 32, "%s%d", what, i);
  return buffer;
}

static inline shoal_value *sum_of(shoal_graph *g, shoal_value *const *x, int n) {
  shoal_value *sum = x[0];
  for (int i = 1; i < n; i++) sum = shoal_add(g, sum, x[i]);
  return sum;
}

#endif
