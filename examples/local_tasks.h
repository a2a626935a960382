/* What the examples of graphs over several tasks share. Their tasks are processes of this machine, one /job:ps and some
 * /job:worker; on several machines each would be `shoal server --cluster FILE --task worker:0`, and
 * shoal_graph_servers_read would find them. */
#ifndef LOCAL_TASKS_H
#define LOCAL_TASKS_H

#include <shoal/shoal.h>

#include <stdio.h>

enum { MOST_WORKERS = 8 };

static inline shoal_status start_tasks(int workers, shoal_graph_servers **out) {
  return shoal_graph_servers_start(&(shoal_local_servers_options){.ps = 1, .workers = workers, .threads = 1}, out);
}

static inline shoal_status connect_to(const shoal_graph_servers *tasks, shoal_graph *g, shoal_session **out) {
  shoal_cluster_options options = {0};
  shoal_graph_servers_fill(tasks, &options);
  return shoal_session_connect(g, &options, out);
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
