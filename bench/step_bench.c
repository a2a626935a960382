/* What a step over several tasks costs when it computes nothing: one number is fetched from one task, and one from each
 * of four, which are processes of this machine.
 *
 *   step_bench [shm|tcp] [RUNS]
 *
 * Prints one line for each: TRANSPORT TASKS min=US median=US p90=US p99=US, in microseconds. */
#include "base/clock.h"
#include "shoal/shoal.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TASKS = 4, RUNS_MAX = 100000, WARM_RUNS = 200, JOB = 78 };

static void check(shoal_status status) {
  if (!status) return;
  fprintf(stderr, "step_bench: %s\n", shoal_status_message(status));
  exit(1);
}

static pid_t serve(const char *address) {
  pid_t parent = getpid(), child = fork();
  if (child) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  check(shoal_server_run(&(shoal_server_options){.address = address, .job = JOB, .threads = 1}));
  _exit(0);
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void measure(shoal_session *s, shoal_value *const *fetches, int n, int runs, const char *transport) {
  static double times[RUNS_MAX];
  shoal_tensor got[TASKS];
  for (int i = -WARM_RUNS; i < runs; i++) {
    double start = clock_seconds();
    check(shoal_session_run(s, NULL, 0, fetches, n, got));
    if (i >= 0) times[i] = 1e6 * (clock_seconds() - start);
  }
  qsort(times, (size_t)runs, sizeof *times, by_size);
  printf("%s %d min=%.1f median=%.1f p90=%.1f p99=%.1f\n", transport, n, times[0], times[runs / 2],
         times[runs * 9 / 10], times[runs * 99 / 100]);
}

int main(int argc, char **argv) {
  const char *transport = argc > 1 ? argv[1] : "shm";
  const int runs = argc > 2 ? atoi(argv[2]) : 5000;
  if ((strcmp(transport, "shm") && strcmp(transport, "tcp")) || runs < 1 || runs > RUNS_MAX) {
    fprintf(stderr, "usage: step_bench [shm|tcp] [RUNS]\n");
    return 2;
  }
  shoal_task tasks[TASKS];
  char names[TASKS][32], addresses[TASKS][64];
  pid_t pids[TASKS];
  shoal_graph *g;
  shoal_session *s;
  shoal_value *each[TASKS];
  check(shoal_graph_create(&g));
  for (int i = 0; i < TASKS; i++) {
    snprintf(names[i], sizeof names[i], "/job:worker/task:%d", i);
    if (*transport == 't')
      snprintf(addresses[i], sizeof addresses[i], "tcp://127.0.0.1:%d", 20000 + (getpid() * 7 + i) % 20000);
    else
      snprintf(addresses[i], sizeof addresses[i], "shm:/step-bench-%d-%d", (int)getpid(), i);
    tasks[i] = (shoal_task){names[i], addresses[i]};
    pids[i] = serve(addresses[i]);
    shoal_device_set(g, names[i]);
    each[i] = shoal_variable(g, "v", shoal_scalar(g, SHOAL_F32, i));
  }
  check(shoal_session_connect(g, &(shoal_cluster_options){.tasks = tasks, .n_tasks = TASKS, .job = JOB}, &s));
  measure(s, each, 1, runs, transport);
  measure(s, each, TASKS, runs, transport);
  shoal_session_destroy(s);
  shoal_graph_destroy(g);
  for (int i = 0; i < TASKS; i++) {
    kill(pids[i], SIGKILL);
    waitpid(pids[i], NULL, 0);
  }
  return 0;
}
