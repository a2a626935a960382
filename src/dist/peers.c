#include "dist/peers.h"

#include "base/mem.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* mpirun kills a job's other processes a second after one has died. */
#define ASKING_SECONDS 0.6

struct peers {
  struct pollfd *fds; /* [n]; the first wakes the thread to end */
  int *ranks;         /* [n] whose fd it is */
  int n;
  pthread_t thread;
  bool running;
  _Atomic int gone;
  _Atomic bool asked; /* somebody has been told */
  void (*on_peer_exit)(void *context, int rank);
  void *context;
};

void peers_introduce(peers_rank *own) {
  memset(own, 0, sizeof *own);
  own->pid = getpid();
  struct stat s;
  if (gethostname(own->host, sizeof own->host - 1)) snprintf(own->host, sizeof own->host, "?");
  if (!stat("/proc/self/ns/pid", &s)) own->space = (uint64_t)s.st_ino;
}

static void *watch(void *context) {
  peers *p = context;
  for (;;) {
    if (poll(p->fds, (nfds_t)p->n, -1) < 0 && errno != EINTR) return NULL;
    if (p->fds[0].revents) return NULL;
    for (int i = 1; i < p->n; i++) {
      if (!p->fds[i].revents) continue;
      atomic_store(&p->gone, p->ranks[i]);
      if (poll(p->fds, 1, (int)(1000 * ASKING_SECONDS)) == 0 && !atomic_load(&p->asked) && p->on_peer_exit)
        p->on_peer_exit(p->context, p->ranks[i]);
      return NULL;
    }
  }
}

shoal_status peers_create(const peers_rank *ranks, int n, int own, void (*on_peer_exit)(void *context, int rank),
                          void *context, peers **out) {
  peers *p = calloc(1, sizeof *p);
  if (!p) return status_no_memory();
  p->gone = -1;
  p->on_peer_exit = on_peer_exit;
  p->context = context;
  p->fds = calloc((size_t)n + 1, sizeof *p->fds);
  p->ranks = calloc((size_t)n + 1, sizeof *p->ranks);
  shoal_status status = p->fds && p->ranks ? NULL : status_no_memory();
  if (!status) {
    p->fds[p->n++] = (struct pollfd){.fd = eventfd(0, EFD_CLOEXEC), .events = POLLIN};
    if (p->fds[0].fd < 0) status = status_errno(errno, "cannot monitor the other ranks");
  }
  for (int i = 0; i < n && !status; i++) {
    if (i == own || strcmp(ranks[i].host, ranks[own].host) || ranks[i].space != ranks[own].space) continue;
    int fd = (int)syscall(SYS_pidfd_open, ranks[i].pid, 0);
    if (fd < 0) continue; /* a kernel before 5.3: deadlines must do */
    p->ranks[p->n] = i;
    p->fds[p->n++] = (struct pollfd){.fd = fd, .events = POLLIN};
  }
  if (!status) {
    int error = pthread_create(&p->thread, NULL, watch, p);
    if (error)
      status = status_errno(error, "cannot start the thread that monitors the other ranks");
    else
      p->running = true;
  }
  if (status)
    peers_destroy(p);
  else
    *out = p;
  return status;
}

int peers_gone(peers *p) {
  int rank = atomic_load_explicit(&p->gone, memory_order_relaxed);
  if (rank >= 0) atomic_store(&p->asked, true);
  return rank;
}

void peers_destroy(peers *p) {
  if (!p) return;
  if (p->running) {
    uint64_t one = 1;
    ssize_t ignored = write(p->fds[0].fd, &one, sizeof one);
    (void)ignored; /* cannot fail: the counter is 0 */
    pthread_join(p->thread, NULL);
  }
  for (int i = 0; i < p->n; i++)
    if (p->fds[i].fd >= 0) close(p->fds[i].fd);
  free(p->fds);
  free(p->ranks);
  free(p);
}
