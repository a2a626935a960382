#include "cli/interrupt.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

struct interrupt {
  int flag;
  bool done; /* the waiting thread is asked to end */
  pthread_t thread;
  sigset_t waited, before;
};

static void say(const char *line, size_t length) {
  ssize_t ignored = write(STDERR_FILENO, line, length);
  (void)ignored; /* nobody is left to tell */
}
#define SAY(line) say(line, sizeof line - 1)

static void *wait_for_signals(void *context) {
  interrupt *i = context;
  for (;;) {
    int number = 0;
    if (sigwait(&i->waited, &number)) continue;
    if (__atomic_load_n(&i->done, __ATOMIC_ACQUIRE)) return NULL;
    if (__atomic_load_n(&i->flag, __ATOMIC_RELAXED)) {
      SAY("\nEnded at once; the last checkpoint saved is whole.\n");
      _exit(128 + number);
    }
    SAY("\nStopping after this step and saving a checkpoint; press Ctrl-C again to end at once.\n");
    __atomic_store_n(&i->flag, number, __ATOMIC_RELEASE);
  }
}

shoal_status interrupt_create(interrupt **out) {
  interrupt *i = calloc(1, sizeof *i);
  if (!i) return status_no_memory();
  sigemptyset(&i->waited);
  sigaddset(&i->waited, SIGINT);
  sigaddset(&i->waited, SIGTERM);
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
  pthread_kill(i->thread, SIGTERM);
  pthread_join(i->thread, NULL);
  pthread_sigmask(SIG_SETMASK, &i->before, NULL);
  free(i);
}

const int *interrupt_flag(const interrupt *i) { return &i->flag; }
