#include "run/leaving.h"

#include "base/clock.h"
#include "base/mem.h"

#include <time.h>

#define TOGETHER_SECONDS 2.0 /* in which all tasks of a job are asked to leave */
#define LOOK_NS 100000000    /* between two looks at *asked, which a signal sets */

static void wait_a_little(leaving *l) {
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_nsec += LOOK_NS;
  if (until.tv_nsec >= 1000000000) {
    until.tv_nsec -= 1000000000;
    until.tv_sec++;
  }
  pthread_cond_timedwait(&l->wake, &l->lock, &until);
}

static void *watch(void *context) {
  leaving *l = context;
  double since = 0;
  pthread_mutex_lock(&l->lock);
  while (!l->over) {
    const int asked = __atomic_load_n(l->asked, __ATOMIC_RELAXED);
    if (asked && since <= 0) since = clock_seconds();
    if (asked && clock_seconds() - since >= l->seconds) {
      __atomic_store_n(&l->leave, asked, __ATOMIC_RELAXED);
      break;
    }
    wait_a_little(l);
  }
  pthread_mutex_unlock(&l->lock);
  return NULL;
}

shoal_status leaving_begin(leaving *l, const int *asked, double drain) {
  pthread_condattr_t monotonic;
  *l = (leaving){.asked = asked, .seconds = MIN_OF(TOGETHER_SECONDS, drain / 4)};
  pthread_mutex_init(&l->lock, NULL);
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&l->wake, &monotonic);
  pthread_condattr_destroy(&monotonic);
  const int error = pthread_create(&l->thread, NULL, watch, l);
  l->started = !error;
  if (!error) return NULL;
  pthread_cond_destroy(&l->wake);
  pthread_mutex_destroy(&l->lock);
  return status_errno(error, "cannot start a thread");
}

void leaving_end(leaving *l) {
  if (!l->started) return;
  pthread_mutex_lock(&l->lock);
  l->over = true;
  pthread_cond_signal(&l->wake);
  pthread_mutex_unlock(&l->lock);
  pthread_join(l->thread, NULL);
  pthread_cond_destroy(&l->wake);
  pthread_mutex_destroy(&l->lock);
  l->started = false;
}
