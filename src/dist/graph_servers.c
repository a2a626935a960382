/* The graph servers of a session: copies of this process, or those of a cluster that was described. */
#include "base/mem.h"
#include "base/options.h"
#include "cluster/cluster.h"
#include "cluster/forked.h"
#include "shoal/placed.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct shoal_graph_servers {
  shoal_task *tasks; /* [n], with their texts */
  int n;
  uint64_t job;
  forked *processes; /* NULL: a cluster that was described */
};

static shoal_status add_task(shoal_graph_servers *s, const char *job, int index, const char *address) {
  shoal_task *t = &s->tasks[s->n];
  char *name = NULL;
  if (asprintf(&name, "/job:%s/task:%d", job, index) < 0) return status_no_memory();
  *t = (shoal_task){.name = name, .address = strdup(address)};
  s->n++;
  return t->address ? NULL : status_no_memory();
}

static shoal_status create(int tasks, uint64_t job, shoal_graph_servers **out) {
  shoal_graph_servers *s = calloc(1, sizeof *s);
  if (!s) return status_no_memory();
  s->job = job;
  s->tasks = calloc((size_t)tasks + 1, sizeof *s->tasks);
  if (!s->tasks) {
    free(s);
    return status_no_memory();
  }
  *out = s;
  return NULL;
}

void shoal_graph_servers_destroy(shoal_graph_servers *s) {
  if (!s) return;
  forked_destroy(s->processes);
  for (int i = 0; i < s->n; i++) {
    free((char *)s->tasks[i].name);
    free((char *)s->tasks[i].address);
  }
  free(s->tasks);
  free(s);
}

/* ---- on this machine */

/* A port of the loopback device that was free just now. */
static shoal_status free_port(int *port) {
  int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof a;
  bool good = s >= 0 && !bind(s, (struct sockaddr *)&a, size) && !getsockname(s, (struct sockaddr *)&a, &size);
  int error = errno;
  if (s >= 0) close(s);
  if (!good) return status_errno(error, "no free port");
  *port = ntohs(a.sin_port);
  return NULL;
}

static shoal_status add_local(shoal_graph_servers *s, const char *job, int count, bool tcp) {
  for (int i = 0; i < count; i++) {
    char address[64];
    if (tcp) {
      int port;
      TRY(free_port(&port));
      snprintf(address, sizeof address, "tcp://127.0.0.1:%d", port);
    } else {
      snprintf(address, sizeof address, "shm:/shoal-graph-%d-%s-%d", (int)getpid(), job, i);
    }
    TRY(add_task(s, job, i, address));
  }
  return NULL;
}

/* In a copy of this process it does not return. */
static shoal_status start(shoal_graph_servers *s, const shoal_local_servers_options *o) {
  int task, threads = o->threads;
  if (!threads) threads = MAX_OF(1, (int)sysconf(_SC_NPROCESSORS_ONLN) / s->n);
  const char **names = calloc((size_t)s->n, sizeof *names);
  if (!names) return status_no_memory();
  for (int i = 0; i < s->n; i++) names[i] = s->tasks[i].name;
  shoal_status status = forked_create(names, s->n, &task, &s->processes);
  free(names);
  if (status || task < 0) return status;
  shoal_server_options server = {
      .address = s->tasks[task].address, .job = s->job, .threads = threads, .client_memory = o->client_memory};
  forked_end(s->processes, shoal_server_run(&server));
}

shoal_status shoal_graph_servers_start(const shoal_local_servers_options *options, shoal_graph_servers **out) {
  shoal_local_servers_options own;
  const shoal_local_servers_options *o = &own;
  shoal_graph_servers *s;
  TRY(OPTIONS_TAKE(&own, options));
  if (o->ps < 0 || o->workers < 0 || o->ps + o->workers < 1 || o->ps + o->workers > SHOAL_MAX_TASKS)
    return status_make(SHOAL_ERR_ARGUMENT, "%d and %d local graph servers: expected 1 to %d in all", o->ps, o->workers,
                       SHOAL_MAX_TASKS);
  TRY(create(o->ps + o->workers, (uint64_t)getpid(), &s));
  shoal_status status = add_local(s, "ps", o->ps, o->tcp);
  if (!status) status = add_local(s, "worker", o->workers, o->tcp);
  if (!status) status = start(s, o);
  if (status)
    shoal_graph_servers_destroy(s);
  else
    *out = s;
  return status;
}

shoal_status shoal_graph_servers_explain(shoal_graph_servers *s, shoal_status status) {
  return s->processes ? forked_explain(s->processes, status) : status;
}

/* ---- elsewhere */

shoal_status shoal_graph_servers_read(const char *path, shoal_graph_servers **out) {
  shoal_cluster *c;
  shoal_graph_servers *s = NULL;
  TRY(shoal_cluster_read(path, "worker:0", &c));
  shoal_status status = create(shoal_cluster_tasks(c), c->id, &s);
  for (int role = 0; role < CLUSTER_ROLES; role++)
    for (int i = 0; i < c->counts[role] && !status; i++)
      status = add_task(s, cluster_role_name((cluster_role)role), i, c->addresses[role][i]);
  shoal_cluster_destroy(c);
  if (status)
    shoal_graph_servers_destroy(s);
  else
    *out = s;
  return status;
}

void shoal_graph_servers_fill(const shoal_graph_servers *s, shoal_cluster_options *out) {
  out->tasks = s->tasks;
  out->n_tasks = s->n;
  out->job = s->job;
}
