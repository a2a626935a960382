/* Other servers take over while the workers of this machine train (run/server_list.h, train/ps_move.h): this process starts them,
 * tells worker 0 by a second job file, and finds out from the first one whether it was done. */
#include "base/clock.h"
#include "run/local_cluster_internal.h"
#include "run/server_list.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static ino_t inode_of(const char *path) {
  struct stat s;
  return stat(path, &s) ? 0 : s.st_ino;
}

static shoal_status start_servers(local_cluster *w) {
  member *members = realloc(w->members, (size_t)(w->count + w->move.count) * sizeof *members);
  if (!members) return status_no_memory();
  w->members = members;
  memset(members + w->count, 0, (size_t)w->move.count * sizeof *members);
  for (int i = 0; i < w->move.count; i++) {
    TRY(cluster_start_task(w, w->count, false));
    w->count++;
  }
  return NULL;
}

shoal_status move_begin(local_cluster *w, int64_t servers) {
  training next = w->state->base;
  cluster_move *m = &w->move;
  next.job.ps = servers;
  TRY(server_list_next_path(w->job_path, &m->path));
  m->first = w->count;
  m->count = (int)servers;
  TRY(job_file_make(&next, w->classes, w->rows, &w->job, &m->job));
  TRY(job_file_write(&m->job, m->path));
  m->inode = inode_of(m->path);
  return start_servers(w);
}

static void end_move(local_cluster *w) {
  free(w->move.path);
  job_file_fini(&w->move.job);
  w->move = (cluster_move){0};
}

void move_give_up(local_cluster *w) {
  if (!w->move.path) return;
  unlink(w->move.path);
  if (w->members && inode_of(w->job_path) == w->move.inode) { /* worker 0 was quicker */
    move_look(w);
    return;
  }
  for (int i = w->move.first; w->members && i < w->count; i++) {
    w->members[i].retired = true;
    if (!w->members[i].ended) launch_signal(w->tasks, i, SIGKILL);
  }
  end_move(w);
}

void move_look(local_cluster *w) {
  cluster_move *m = &w->move;
  const bool done = inode_of(w->job_path) == m->inode;
  if (!done && access(m->path, F_OK)) move_give_up(w); /* worker 0 has withdrawn it, and said why */
  if (!done) return;
  for (int i = w->first_server; is_server(w, i); i++) w->members[i].retired = true;
  w->first_server = m->first;
  w->servers = m->count;
  w->state->base.job.ps = m->count;
  w->moves++;
  w->retired_at = clock_seconds();
  job_file_fini(&w->job);
  w->job = m->job;
  m->job = (job_file){0};
  end_move(w);
}
