#include "run/rank_watch.h"

#include "base/clock.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define LOOK_NANOSECONDS 50000000
#define LAUNCHER_LOOKS 10  /* whether the process that has started the ranks is there */
#define NAMING_SECONDS 3.0 /* for the process that started the ranks, to say who is late and end them */
#define TURN_SECONDS 0.5   /* between two ranks that would say the same: the first one's words end the job */
#define TURNS_MAX 8
#define EXIT_JOB_FAILED 1

struct rank_watch {
  int rank;
  double seconds;
  int socket; /* to the process that has started the ranks, or -1 */
  pthread_t thread;
  pthread_mutex_t lock;
  bool done;
  double since; /* it waits since then; 0: it does not */
  rank_stage stage;
};

/* The launcher may be gone, or another program's: nothing depends on an answer. */
static int reach_launcher(void) {
  const char *name = getenv(RANKS_ASKED);
  struct sockaddr_un to = {.sun_family = AF_UNIX};
  if (!name || !*name || strlen(name) + 2 > sizeof to.sun_path) return -1;
  memcpy(to.sun_path + 1, name, strlen(name)); /* abstract: begins with a 0 */
  int s = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
  if (s >= 0 && !connect(s, (const struct sockaddr *)&to, size)) return s;
  if (s >= 0) close(s);
  return -1;
}

static bool tell(const rank_watch *w, rank_stage stage) {
  const rank_message m = {.rank = w->rank, .stage = stage};
  return w->socket >= 0 && send(w->socket, &m, sizeof m, MSG_NOSIGNAL) == sizeof m;
}

static const char *awaited(rank_stage stage) {
  if (stage == RANK_BEGUN) return "to join";
  if (stage == RANK_JOINED) return "to agree on the settings";
  if (stage == RANK_LOADED) return "to read their rows";
  return "to end; what rank 0 has saved is whole";
}

/* The main thread is inside a call of MPI that nothing ends. */
static void give_up(rank_watch *w, rank_stage stage) {
  if (tell(w, RANK_LATE)) {
    nanosleep(&(struct timespec){.tv_sec = (time_t)NAMING_SECONDS}, NULL);
    _exit(EXIT_JOB_FAILED);
  }
  char host[64] = "?";
  gethostname(host, sizeof host - 1);
  fprintf(
      stderr,
      "shoal train: one of the ranks is stopped, was killed or cannot be reached: rank %d (pid %d on %s) has waited "
      "%g s (--deadline) for the others %s\n",
      w->rank, (int)getpid(), host, w->seconds, awaited(stage));
  _exit(EXIT_JOB_FAILED);
}

/* mpirun, which is asked to end with it, takes seconds for that on a busy machine. */
static void end_with_launcher(const rank_watch *w) {
  if (w->socket >= 0 && send(w->socket, "", 0, MSG_NOSIGNAL) < 0 && errno == ECONNREFUSED) _exit(EXIT_JOB_FAILED);
}

static void *watch(void *context) {
  rank_watch *w = context;
  int looks = 0;
  const double turn = w->socket >= 0 ? 0 : TURN_SECONDS * (w->rank < TURNS_MAX ? w->rank : TURNS_MAX);
  for (bool done = false; !done;) {
    nanosleep(&(struct timespec){.tv_nsec = LOOK_NANOSECONDS}, NULL);
    if (++looks % LAUNCHER_LOOKS == 0) end_with_launcher(w);
    pthread_mutex_lock(&w->lock);
    const bool late = w->since > 0 && clock_seconds() - w->since > w->seconds + turn;
    const rank_stage stage = w->stage;
    done = w->done;
    pthread_mutex_unlock(&w->lock);
    if (late && !done) give_up(w, stage);
  }
  return NULL;
}

shoal_status rank_watch_create(int rank, double seconds, rank_watch **out) {
  rank_watch *w = calloc(1, sizeof *w);
  if (!w) return status_no_memory();
  w->rank = rank;
  w->seconds = seconds;
  w->socket = reach_launcher();
  pthread_mutex_init(&w->lock, NULL);
  int error = pthread_create(&w->thread, NULL, watch, w);
  if (error) {
    if (w->socket >= 0) close(w->socket);
    pthread_mutex_destroy(&w->lock);
    free(w);
    return status_errno(error, "cannot start the thread that monitors this rank's start");
  }
  *out = w;
  return NULL;
}

void rank_watch_reach(rank_watch *w, rank_stage stage) {
  if (!w) return;
  tell(w, stage);
  pthread_mutex_lock(&w->lock);
  w->stage = stage;
  w->since = stage < RANK_READY || stage == RANK_DONE ? clock_seconds() : 0;
  pthread_mutex_unlock(&w->lock);
}

void rank_watch_work(rank_watch *w) {
  pthread_mutex_lock(&w->lock);
  w->since = 0;
  pthread_mutex_unlock(&w->lock);
}

void rank_watch_destroy(rank_watch *w) {
  if (!w) return;
  pthread_mutex_lock(&w->lock);
  w->done = true;
  pthread_mutex_unlock(&w->lock);
  pthread_join(w->thread, NULL);
  pthread_mutex_destroy(&w->lock);
  if (w->socket >= 0) close(w->socket);
  free(w);
}
