#include "cli/graph_crew.h"

#include "base/mem.h"
#include "base/text.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define GRACE_SECONDS 1.0
#define LOG_MOST 1500

static shoal_status add_task(graph_crew *c, const char *job, int index, const char *address) {
  shoal_task *t = &c->tasks[c->n];
  char *name = NULL;
  if (asprintf(&name, "/job:%s/task:%d", job, index) < 0) return status_no_memory();
  *t = (shoal_task){.name = name, .address = strdup(address)};
  c->n++;
  return t->address ? NULL : status_no_memory();
}

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

static shoal_status start_task(graph_crew *c, const char *job, int index, int threads, bool tcp) {
  char address[64], count[16], number[24], *log = NULL;
  if (tcp) {
    int port;
    TRY(free_port(&port));
    snprintf(address, sizeof address, "tcp://127.0.0.1:%d", port);
  } else {
    snprintf(address, sizeof address, "shm:/shoal-graph-%d-%s-%d", (int)getpid(), job, index);
  }
  TRY(add_task(c, job, index, address));
  snprintf(count, sizeof count, "%d", threads);
  snprintf(number, sizeof number, "%llu", (unsigned long long)c->job);
  if (asprintf(&log, "%s/%s-%d.log", c->folder, job, index) < 0) return status_no_memory();
  const char *argv[] = {"shoal", "server", "--address", address, "--threads", count, "--job", number, "--quiet", NULL};
  shoal_status status = launch_start(c->processes, c->tasks[c->n - 1].name, (char *const *)argv, log);
  free(log);
  return status;
}

/* For the logs, which go with it at the end. */
static shoal_status make_folder(char **out) {
  const char *base = getenv("TMPDIR");
  char *folder;
  if (asprintf(&folder, "%s/shoal-graph-XXXXXX", base && *base ? base : "/tmp") < 0) return status_no_memory();
  if (mkdtemp(folder)) {
    *out = folder;
    return NULL;
  }
  shoal_status status = status_errno(errno, "%s: a folder for the tasks' logs", folder);
  free(folder);
  return status;
}

shoal_status graph_crew_start(int ps, int workers, int threads, bool tcp, graph_crew *out) {
  graph_crew c = {.job = (uint64_t)getpid()};
  c.tasks = calloc((size_t)(ps + workers), sizeof *c.tasks);
  shoal_status status = c.tasks ? make_folder(&c.folder) : status_no_memory();
  if (!status) status = launch_create(&c.processes);
  for (int i = 0; i < ps && !status; i++) status = start_task(&c, "ps", i, threads, tcp);
  for (int i = 0; i < workers && !status; i++) status = start_task(&c, "worker", i, threads, tcp);
  if (status) {
    graph_crew_end(&c);
    return status;
  }
  *out = c;
  return NULL;
}

shoal_status graph_cluster_read(const char *path, const char *task, cluster *out) {
  bool found;
  return cluster_find(path, task, 0, &found, out);
}

shoal_status graph_crew_describe(const char *path, graph_crew *out) {
  cluster d;
  TRY(graph_cluster_read(path, "worker:0", &d));
  graph_crew c = {.job = d.id};
  int n = 0;
  for (int role = 0; role < CLUSTER_ROLES; role++) n += d.counts[role];
  c.tasks = calloc((size_t)n + 1, sizeof *c.tasks);
  shoal_status status = c.tasks ? NULL : status_no_memory();
  for (int role = 0; role < CLUSTER_ROLES; role++)
    for (int i = 0; i < d.counts[role] && !status; i++)
      status = add_task(&c, cluster_role_name((cluster_role)role), i, d.addresses[role][i]);
  cluster_fini(&d);
  if (status) {
    graph_crew_end(&c);
    return status;
  }
  *out = c;
  return NULL;
}

char *graph_crew_trouble(graph_crew *c) {
  launch_event e;
  text t = {0};
  while (c->processes) {
    shoal_status status = launch_wait(c->processes, 0, &e);
    bool more = !status && e.kind != LAUNCH_NOTHING;
    shoal_status_free(status);
    if (!more) break;
    if (e.kind != LAUNCH_ENDED) continue;
    char log[LOG_MOST + 1] = "";
    FILE *f = fopen(launch_log(c->processes, e.task), "re");
    if (f) {
      fseek(f, -(long)LOG_MOST, SEEK_END);
      log[fread(log, 1, LOG_MOST, f)] = 0;
      fclose(f);
    }
    if (WIFSIGNALED(e.status))
      text_add(&t, "%s was killed by signal %d. ", launch_name(c->processes, e.task), WTERMSIG(e.status));
    else
      text_add(&t, "%s ended with status %d. ", launch_name(c->processes, e.task), WEXITSTATUS(e.status));
    text_add(&t, "%s", log);
  }
  return t.data;
}

void graph_crew_end(graph_crew *c) {
  launch_destroy(c->processes, GRACE_SECONDS);
  for (int i = 0; i < c->n; i++) {
    free((char *)c->tasks[i].name);
    free((char *)c->tasks[i].address);
  }
  free(c->tasks);
  DIR *d = c->folder ? opendir(c->folder) : NULL;
  for (struct dirent *e; d && (e = readdir(d));)
    if (e->d_name[0] != '.') unlinkat(dirfd(d), e->d_name, 0);
  if (d) closedir(d);
  if (c->folder) rmdir(c->folder);
  free(c->folder);
  *c = (graph_crew){0};
}
