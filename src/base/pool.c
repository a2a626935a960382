#include "base/pool.h"

#include "base/denormals.h"
#include "base/mem.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Looks before going to sleep, about a nanosecond each. A helper bridges what the caller does between two phases; the
 * caller waits only for what its share was shorter, and should soon make room for a helper that found no processor. */
enum { HELPER_SPINS = 100000, CALLER_SPINS = 20000 };

/* Invariants:
 * 1. Each increment of `generation` announces one piece of work (or the end) to all helpers.
 * 2. `finished` counts what the helpers have finished in all: generation x helpers when there is nothing to do.
 * 3. work, context and stop are written only when there is nothing to do, and published by the increment.
 * What the caller writes lies in one cache line, what the helpers write in another: each trip between two processors
 * costs about as long as summing a thousand numbers. */
struct pool {
  _Alignas(64) _Atomic uint32_t generation;
  int stop;
  pool_work work;
  void *context;
  _Atomic uint32_t caller_sleeps;
  _Alignas(64) _Atomic uint32_t finished;
  _Atomic uint32_t sleepers; /* helpers */
  _Alignas(64) int threads;
  bool spin; /* there is a processor for each thread */
  pthread_t *handles;
};

typedef struct {
  pool *owner;
  int index;
} helper_start;

static void futex_wait(_Atomic uint32_t *word, uint32_t seen) {
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0); }

/* A few empty instructions between two looks, rather than the processor's own pause: under a hypervisor that one leads
 * to exits that cost more than the wait. */
static inline void relax(void) { __asm__ volatile("nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop"); }

static void *helper_main(void *argument) {
  helper_start start = *(helper_start *)argument;
  free(argument);
  pool *p = start.owner;
  uint32_t seen = 0;
  denormals_off();
  for (;;) {
    int spins = p->spin ? HELPER_SPINS : 0;
    while (atomic_load_explicit(&p->generation, memory_order_acquire) == seen) {
      if (spins-- > 0) {
        relax();
        continue;
      }
      atomic_fetch_add(&p->sleepers, 1);
      futex_wait(&p->generation, seen);
      atomic_fetch_sub(&p->sleepers, 1);
    }
    seen++;
    if (p->stop) return NULL;
    p->work(p->context, start.index, p->threads);
    uint32_t all = seen * ((uint32_t)p->threads - 1);
    if (atomic_fetch_add(&p->finished, 1) + 1 == all && atomic_load(&p->caller_sleeps)) futex_wake(&p->finished);
  }
}

static void announce(pool *p) {
  atomic_fetch_add(&p->generation, 1);
  if (atomic_load(&p->sleepers)) futex_wake(&p->generation);
}

static void no_work(void *context, int index, int threads) {}

/* Until there are so many threads, each of them past its start: a process may fork at any moment after, and a thread that
 * is just being made may hold locks (of an allocator, of a sanitizer), which would stay locked in the child. */
static shoal_status start_helpers(pool *p, int threads) {
  while (p->threads < threads) {
    helper_start *start = malloc(sizeof *start);
    if (!start) return status_no_memory();
    *start = (helper_start){p, p->threads};
    int error = pthread_create(&p->handles[p->threads], NULL, helper_main, start);
    if (error) {
      free(start);
      return status_errno(error, "cannot start thread %d of %d", p->threads, threads);
    }
    p->threads++;
  }
  pool_run(p, no_work, NULL);
  return NULL;
}

shoal_status pool_create(int threads, pool **out) {
  if (threads < 1 || threads > 1024)
    return status_make(SHOAL_ERR_ARGUMENT, "threads must be between 1 and 1024, not %d", threads);
  pool *p;
  TRY(mem_aligned(sizeof *p, (void **)&p));
  p->threads = 1;
  p->spin = sysconf(_SC_NPROCESSORS_ONLN) >= threads;
  p->handles = calloc((size_t)threads, sizeof *p->handles);
  shoal_status status = p->handles ? start_helpers(p, threads) : status_no_memory();
  if (status) {
    pool_destroy(p);
    return status;
  }
  *out = p;
  return NULL;
}

shoal_status pool_after_fork(pool *p, bool alone) {
  if (!p) return NULL;
  const int threads = p->threads;
  p->generation = p->finished = p->sleepers = p->caller_sleeps = 0;
  p->threads = 1;
  return alone ? NULL : start_helpers(p, threads);
}

void pool_destroy(pool *p) {
  if (!p) return;
  p->stop = 1;
  announce(p);
  for (int i = 1; i < p->threads; i++) pthread_join(p->handles[i], NULL);
  free(p->handles);
  free(p);
}

int pool_threads(const pool *p) { return p ? p->threads : 1; }

void pool_run(pool *p, pool_work work, void *context) {
  if (!p || p->threads == 1) {
    work(context, 0, 1);
    return;
  }
  p->work = work;
  p->context = context;
  announce(p);
  work(context, 0, p->threads);
  int spins = p->spin ? CALLER_SPINS : 0;
  const uint32_t all = atomic_load_explicit(&p->generation, memory_order_relaxed) * ((uint32_t)p->threads - 1);
  uint32_t now;
  while ((now = atomic_load_explicit(&p->finished, memory_order_acquire)) != all) {
    if (spins-- > 0) {
      relax();
      continue;
    }
    atomic_store(&p->caller_sleeps, 1);
    futex_wait(&p->finished, now);
    atomic_store(&p->caller_sleeps, 0);
  }
}
