#include "cluster/forked.h"

#include "base/clock.h"
#include "base/mem.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LOOK_SECONDS 0.005
#define CAUSE_SECONDS 0.3 /* for a task that failed to have said so */

/* In memory that parent and tasks share. */
typedef struct {
  char name[32];
  pid_t pid;
  bool running; /* the parent's */
  int status;   /* as from waitpid, once it has ended */
  bool told;    /* the task has written what follows */
  int code;     /* shoal_code */
  char error[512];
} member;

struct forked {
  int tasks, own;  /* own: -1 in the parent */
  member *members; /* shared */
};

/* What a copy does first. */
static void become(forked *f, int task, pid_t parent) {
  f->own = task;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1); /* it died in between */
  signal(SIGINT, SIG_IGN);
}

static shoal_status start(forked *f, int *task) {
  const pid_t parent = getpid();
  *task = -1;
  for (int i = 0; i < f->tasks; i++) {
    pid_t pid = fork();
    if (pid < 0) return status_errno(errno, "cannot start %s", f->members[i].name);
    if (pid == 0) {
      become(f, i, parent);
      *task = i;
      return NULL;
    }
    f->members[i].pid = pid;
    f->members[i].running = true;
  }
  return NULL;
}

shoal_status forked_create(const char *const *names, int tasks, int *task, forked **out) {
  forked *f = calloc(1, sizeof *f);
  if (!f) return status_no_memory();
  *f = (forked){.tasks = tasks, .own = -1};
  f->members =
      mmap(NULL, (size_t)tasks * sizeof *f->members, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (f->members == MAP_FAILED) {
    free(f);
    return status_no_memory();
  }
  for (int i = 0; i < tasks; i++) snprintf(f->members[i].name, sizeof f->members[i].name, "%s", names[i]);
  fflush(NULL); /* or each copy has what is not written yet, too */
  shoal_status status = start(f, task);
  if (status)
    forked_destroy(f);
  else
    *out = f;
  return status;
}

void forked_end(forked *f, shoal_status status) {
  member *m = &f->members[f->own];
  if (status) {
    m->code = (int)shoal_status_code(status);
    snprintf(m->error, sizeof m->error, "%s", shoal_status_message(status));
  }
  __atomic_store_n(&m->told, true, __ATOMIC_RELEASE);
  _exit(status != NULL);
}

static int look(forked *f) {
  int running = 0;
  for (int i = 0; i < f->tasks; i++) {
    member *m = &f->members[i];
    if (m->running && waitpid(m->pid, &m->status, WNOHANG) == m->pid) m->running = false;
    running += m->running;
  }
  return running;
}

/* Whether a task has failed by itself, and why. Lost peers are a consequence, so they come last. */
static shoal_status failure(const forked *f) {
  for (int peers = 0; peers < 2; peers++)
    for (int i = 0; i < f->tasks; i++) {
      const member *m = &f->members[i];
      if (m->running || !m->status) continue;
      if (WIFSIGNALED(m->status))
        return status_make(SHOAL_ERR_PEER, "%s (pid %d) was killed by signal %d (%s)", m->name, (int)m->pid,
                           WTERMSIG(m->status), strsignal(WTERMSIG(m->status)));
      const bool told = __atomic_load_n(&m->told, __ATOMIC_ACQUIRE), peer = told && m->code == SHOAL_ERR_PEER;
      if (peer == (peers > 0))
        return status_make(told ? (shoal_code)m->code : SHOAL_ERR_PEER, "%s: %s", m->name,
                           told ? m->error : "exited without an error message");
    }
  return NULL;
}

static void sleep_a_little(void) { nanosleep(&(struct timespec){.tv_nsec = (long)(LOOK_SECONDS * 1e9)}, NULL); }

shoal_status forked_wait(forked *f, double seconds) {
  const double end = clock_seconds() + seconds;
  while (look(f)) {
    if (clock_seconds() > end)
      for (int i = 0; i < f->tasks; i++)
        if (f->members[i].running)
          return status_make(SHOAL_ERR_PEER, "%s (pid %d) did not end within %g s", f->members[i].name,
                             (int)f->members[i].pid, seconds);
    sleep_a_little();
  }
  return failure(f);
}

shoal_status forked_explain(forked *f, shoal_status status) {
  if (shoal_status_code(status) != SHOAL_ERR_PEER) return status;
  const double end = clock_seconds() + CAUSE_SECONDS;
  shoal_status cause = NULL;
  do {
    look(f);
    cause = failure(f);
    if (!cause) sleep_a_little();
  } while (!cause && clock_seconds() < end);
  if (!cause) return status;
  shoal_status_free(status);
  return cause;
}

void forked_destroy(forked *f) {
  if (!f) return;
  for (int i = 0; i < f->tasks && f->own < 0; i++) {
    member *m = &f->members[i];
    if (!m->running) continue;
    kill(m->pid, SIGKILL);
    waitpid(m->pid, NULL, 0);
  }
  munmap(f->members, (size_t)f->tasks * sizeof *f->members);
  free(f);
}
