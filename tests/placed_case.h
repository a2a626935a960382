/* Graph servers as processes of their own, for the tests of sessions over a cluster. */
#ifndef SHOAL_TESTS_PLACED_CASE_H
#define SHOAL_TESTS_PLACED_CASE_H

#include "shoal/shoal.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { CASE_TASKS = 4, CASE_JOB = 77 };

typedef struct {
  shoal_task tasks[CASE_TASKS];
  char names[CASE_TASKS][32], addresses[CASE_TASKS][64];
  pid_t pids[CASE_TASKS];
} servers;

static inline void ok(shoal_status status) {
  if (!status) return;
  print_error("%s\n", shoal_status_message(status));
  shoal_status_free(status);
  fail();
}

static inline void refused(shoal_status status, shoal_code code, const char *words) {
  assert_non_null(status);
  if (shoal_status_code(status) != code || !strstr(shoal_status_message(status), words)) {
    print_error("expected '%s', got %s: %s\n", words, shoal_code_name(shoal_status_code(status)),
                shoal_status_message(status));
    fail();
  }
  shoal_status_free(status);
}

static inline void server_start(servers *s, int i) {
  pid_t parent = getpid();
  s->pids[i] = fork();
  assert_true(s->pids[i] >= 0);
  if (s->pids[i]) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  shoal_server_options o = {.address = s->addresses[i], .job = CASE_JOB, .threads = 1};
  shoal_status status = shoal_server_run(&o);
  if (status) fprintf(stderr, "server %d: %s\n", i, shoal_status_message(status));
  _exit(status != NULL);
}

/* Ports of the loopback device, below those that the system gives out by itself, that were free just now. */
static inline int server_port(void) {
  static int used;
  for (;; used++) {
    int port = 20000 + (int)(getpid() * 7 + used) % 12000, s = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)port)};
    bool free_now = s >= 0 && !bind(s, (struct sockaddr *)&a, sizeof a);
    close(s);
    assert_true(used < 12000);
    if (!free_now) continue;
    used++;
    return port;
  }
}

/* Task 0 is the ps, the others are workers. tcp: over ports of the loopback device instead of shared memory. */
static inline void servers_start(servers *s, bool tcp) {
  static int used;
  for (int i = 0; i < CASE_TASKS; i++) {
    snprintf(s->names[i], sizeof s->names[i], i ? "/job:worker/task:%d" : "/job:ps/task:%d", i ? i - 1 : 0);
    if (tcp)
      snprintf(s->addresses[i], sizeof s->addresses[i], "tcp://127.0.0.1:%d", server_port());
    else
      snprintf(s->addresses[i], sizeof s->addresses[i], "shm:/placed-%d-%d", (int)getpid(), used);
    used++;
    s->tasks[i] = (shoal_task){s->names[i], s->addresses[i]};
    server_start(s, i);
  }
}

static inline void server_kill(servers *s, int i) {
  if (s->pids[i] <= 0) return;
  kill(s->pids[i], SIGKILL);
  waitpid(s->pids[i], NULL, 0);
  s->pids[i] = 0;
}

static inline void servers_stop(servers *s) {
  for (int i = 0; i < CASE_TASKS; i++) server_kill(s, i);
}

static inline shoal_session *session_over(const servers *s, shoal_graph *g, uint64_t seed) {
  shoal_session *session = NULL;
  ok(shoal_session_connect(
      g, &(shoal_cluster_options){.tasks = s->tasks, .n_tasks = CASE_TASKS, .job = CASE_JOB, .seed = seed}, &session));
  return session;
}

#endif
