#include "cli/interrupt.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

struct interrupt {
  int flag;
  const char *first, *second; /* lines to say */
  bool done;                  /* the waiting thread is asked to end */
  pthread_t thread;
  sigset_t waited, before;
};

static void say(const char *line) {
  if (!line || !*line) return;
  struct iovec parts[] = {{(char[]){"\n"}, 1}, {(char *)line, strlen(line)}, {(char[]){"\n"}, 1}};
  ssize_t ignored = writev(STDERR_FILENO, parts, 3);
  (void)ignored; /* nobody is left to tell */
}

static void *wait_for_signals(void *context) {
  interrupt *i = context;
  for (;;) {
    int number = 0;
    if (sigwait(&i->waited, &number)) continue;
    if (__atomic_load_n(&i->done, __ATOMIC_ACQUIRE)) return NULL;
    if (__atomic_load_n(&i->flag, __ATOMIC_RELAXED)) {
      say(i->second);
      _exit(128 + number);
    }
    say(i->first);
    __atomic_store_n(&i->flag, number, __ATOMIC_RELEASE);
  }
}

shoal_status interrupt_create(const char *first, const char *second, interrupt **out) {
  interrupt *i = calloc(1, sizeof *i);
  if (!i) return status_no_memory();
  i->first = first;
  i->second = second;
  sigemptyset(&i->waited);
  sigaddset(&i->waited, SIGINT);
  sigaddset(&i->waited, SIGTERM);
  sigaddset(&i->waited, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &i->waited, &i->before);
  int error = pthread_create(&i->thread, NULL, wait_for_signals, i);
  if (error) {
    pthread_sigmask(SIG_SETMASK, &i->before, NULL);
    free(i);
    return status_errno(error, "cannot start the thread that waits for signals");
  }
  *out = i;
  return NULL;
}

void interrupt_destroy(interrupt *i) {
  if (!i) return;
  __atomic_store_n(&i->done, true, __ATOMIC_RELEASE);
  pthread_kill(i->thread, SIGTERM); /* it waits for this one. NOLINT(bugprone-bad-signal-to-kill-thread) */
  pthread_join(i->thread, NULL);
  pthread_sigmask(SIG_SETMASK, &i->before, NULL);
  free(i);
}

const int *interrupt_flag(const interrupt *i) { return &i->flag; }
