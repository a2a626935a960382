#include "run/rank_roster.h"

#include "base/mem.h"
#include "run/rank_watch.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

typedef struct {
  rank_stage stage;
  int pid, pidfd; /* pidfd: -1 where there is none */
  bool ended;
} entry;

struct rank_roster {
  entry *ranks; /* [n] */
  struct pollfd *fds;
  int n, socket;
  int first_ended, first_late, first_told; /* or -1 */
};

static shoal_status listen_at(rank_roster *r, char name[RANK_ROSTER_NAME]) {
  struct timespec now;
  const int on = 1;
  clock_gettime(CLOCK_REALTIME, &now);
  snprintf(name, RANK_ROSTER_NAME, "shoal-ranks-%d-%llx", (int)getpid(),
           (unsigned long long)now.tv_sec * 1000000000ULL + (unsigned long long)now.tv_nsec);
  struct sockaddr_un at = {.sun_family = AF_UNIX};
  memcpy(at.sun_path + 1, name, strlen(name)); /* abstract: leaves nothing behind */
  r->socket = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
  if (r->socket < 0 || setsockopt(r->socket, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) ||
      bind(r->socket, (const struct sockaddr *)&at, size))
    return status_errno(errno, "cannot create a socket for what the ranks report");
  return NULL;
}

shoal_status rank_roster_create(int64_t ranks, rank_roster **out, char name[RANK_ROSTER_NAME]) {
  rank_roster *r = calloc(1, sizeof *r);
  if (!r) return status_no_memory();
  r->n = (int)ranks;
  r->socket = r->first_ended = r->first_late = r->first_told = -1;
  r->ranks = calloc((size_t)ranks, sizeof *r->ranks);
  r->fds = calloc((size_t)ranks + 1, sizeof *r->fds);
  shoal_status status = r->ranks && r->fds ? NULL : status_no_memory();
  for (int i = 0; r->ranks && i < r->n; i++) r->ranks[i].pidfd = -1;
  if (!status) status = listen_at(r, name);
  if (status)
    rank_roster_destroy(r);
  else
    *out = r;
  return status;
}

/* Of the datagram received: the sender's, if it is ours. */
static int sender_of(struct msghdr *m) {
  struct cmsghdr *c = CMSG_FIRSTHDR(m);
  struct ucred who;
  if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_CREDENTIALS) return -1;
  memcpy(&who, CMSG_DATA(c), sizeof who);
  return who.uid == geteuid() ? who.pid : -1;
}

static void take(rank_roster *r, const rank_message *m, int pid) {
  if (m->rank < 0 || m->rank >= r->n) return;
  entry *e = &r->ranks[m->rank];
  if (!e->pid) {
    e->pid = pid;
    e->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (e->pidfd < 0 && errno == ESRCH) { /* it was killed, and waited for, before its words were read */
      e->ended = true;
      if (r->first_ended < 0) r->first_ended = m->rank;
    }
  }
  if (m->stage == RANK_TOLD)
    r->first_told = r->first_told < 0 ? m->rank : r->first_told;
  else if (m->stage == RANK_LATE)
    r->first_late = r->first_late < 0 ? m->rank : r->first_late;
  else
    e->stage = (rank_stage)m->stage;
}

static bool receive(rank_roster *r) {
  rank_message m;
  union {
    char bytes[CMSG_SPACE(sizeof(struct ucred))];
    struct cmsghdr align;
  } room;
  struct iovec part = {&m, sizeof m};
  struct msghdr h = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &room, .msg_controllen = sizeof room};
  const ssize_t n = recvmsg(r->socket, &h, MSG_CMSG_CLOEXEC);
  if (n < 0) return false;
  const int pid = sender_of(&h);
  if (n == sizeof m && pid > 0) take(r, &m, pid);
  return true;
}

void rank_roster_hear(rank_roster *r, double seconds) {
  nfds_t n = 0;
  r->fds[n++] = (struct pollfd){.fd = r->socket, .events = POLLIN};
  for (int i = 0; i < r->n; i++)
    if (r->ranks[i].pidfd >= 0 && !r->ranks[i].ended)
      r->fds[n++] = (struct pollfd){.fd = r->ranks[i].pidfd, .events = POLLIN};
  if (poll(r->fds, n, (int)(1000 * seconds)) <= 0) return;
  while (receive(r))
    ;
  for (nfds_t k = 1; k < n; k++)
    for (int i = 0; r->fds[k].revents && i < r->n; i++)
      if (r->ranks[i].pidfd == r->fds[k].fd) {
        r->ranks[i].ended = true;
        if (r->first_ended < 0) r->first_ended = i;
      }
}

shoal_status rank_roster_expect(rank_roster *r, int i) {
  if (i >= r->n) {
    entry *more = realloc(r->ranks, ((size_t)i + 1) * sizeof *more);
    if (!more) return status_no_memory();
    r->ranks = more;
    struct pollfd *fds = realloc(r->fds, ((size_t)i + 2) * sizeof *fds);
    if (!fds) return status_no_memory();
    r->fds = fds;
    for (; r->n <= i; r->n++) r->ranks[r->n] = (entry){.pidfd = -1};
  }
  if (r->ranks[i].pidfd >= 0) close(r->ranks[i].pidfd);
  r->ranks[i] = (entry){.pidfd = -1};
  if (r->first_ended == i) r->first_ended = -1;
  if (r->first_late == i) r->first_late = -1;
  return NULL;
}

bool rank_roster_trains(const rank_roster *r) { return r->ranks[0].stage == RANK_TRAINS; }

bool rank_roster_all_begun(const rank_roster *r) {
  for (int i = 0; i < r->n; i++)
    if (r->ranks[i].stage == RANK_ABSENT) return false;
  return true;
}

bool rank_roster_all_ended(const rank_roster *r) {
  for (int i = 0; i < r->n; i++)
    if (!r->ranks[i].ended) return false;
  return true;
}

bool rank_roster_told(const rank_roster *r) { return r->first_told >= 0; }
bool rank_roster_has_told(const rank_roster *r) { return r->first_told >= 0 && r->ranks[r->first_told].ended; }
bool rank_roster_done(const rank_roster *r) { return r->ranks[0].stage == RANK_DONE; }
bool rank_roster_late(const rank_roster *r) { return r->first_late >= 0; }

/* 'T': stopped; 0: unknown. */
static char state_of(const entry *e) {
  char path[64], line[512], *state = NULL;
  snprintf(path, sizeof path, "/proc/%d/stat", e->pid);
  FILE *f = e->pid && !e->ended ? fopen(path, "re") : NULL;
  if (f && fgets(line, sizeof line, f)) state = strrchr(line, ')');
  if (f) fclose(f);
  return state && state[1] == ' ' ? state[2] : 0;
}

bool rank_roster_stopped(const rank_roster *r, int i) { return state_of(&r->ranks[i]) == 'T'; }

static void add_rank(const rank_roster *r, int i, text *out) {
  const entry *e = &r->ranks[i];
  text_add(out, "rank %d (", i);
  if (e->pid) text_add(out, "pid %d", e->pid);
  if (!e->pid)
    text_add(out, "not started, or stopped before it could say so");
  else if (e->ended)
    text_add(out, ", ended");
  else if (state_of(e) == 'T')
    text_add(out, ", stopped");
  text_add(out, ")");
}

void rank_roster_add_late(const rank_roster *r, text *out, int *waited) {
  *waited = r->first_late;
  const rank_stage stage = r->first_late < 0 ? RANK_BEGUN : r->ranks[r->first_late].stage;
  int named = 0;
  for (int pass = 0; pass < 2 && !named; pass++) /* those behind; else those that cannot go on */
    for (int i = 0; i < r->n; i++) {
      const entry *e = &r->ranks[i];
      if (pass ? !e->ended && state_of(e) != 'T' : e->stage >= stage) continue;
      if (named++) text_add(out, ", ");
      add_rank(r, i, out);
    }
  if (!named) text_add(out, "the other ranks");
}

bool rank_roster_add_ended(const rank_roster *r, text *out) {
  if (r->first_ended < 0) return false;
  text_add(out, "rank %d (pid %d)", r->first_ended, r->ranks[r->first_ended].pid);
  return true;
}

void rank_roster_kill(rank_roster *r) {
  for (int i = 0; i < r->n; i++)
    if (r->ranks[i].pidfd >= 0) syscall(SYS_pidfd_send_signal, r->ranks[i].pidfd, SIGKILL, NULL, 0);
}

void rank_roster_destroy(rank_roster *r) {
  if (!r) return;
  for (int i = 0; r->ranks && i < r->n; i++)
    if (r->ranks[i].pidfd >= 0) close(r->ranks[i].pidfd);
  if (r->socket >= 0) close(r->socket);
  free(r->ranks);
  free(r->fds);
  free(r);
}
