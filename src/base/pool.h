/* A pool of threads for work inside one operator or one phase of a step.
 *
 * pool_run hands the same function to every thread, each with its own index, and returns when all have finished. The
 * calling thread is index 0. Helpers spin for a short while before they sleep, because phases of a step follow each
 * other within microseconds; with more threads than processors they sleep at once. */
#ifndef SHOAL_BASE_POOL_H
#define SHOAL_BASE_POOL_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct pool pool;

/* threads >= 1, the caller included. */
SHOAL_CHECKED shoal_status pool_create(int threads, pool **out);
void pool_destroy(pool *p);

/* In a child process after fork, which has none of its parent's threads: starts them anew, or with `alone` leaves the
 * caller as the only one. NULL is fine. */
SHOAL_CHECKED shoal_status pool_after_fork(pool *p, bool alone);

/* 1 for NULL: a NULL pool is a valid pool of one thread. */
int pool_threads(const pool *p);

typedef void (*pool_work)(void *context, int thread, int threads);
/* Not reentrant: work must not call pool_run on the same pool. */
void pool_run(pool *p, pool_work work, void *context);

/* The part [*first, *last) of n items, in grains of `grain`, that belongs to `thread`: even, in order, no overlap. */
static inline void pool_share(int64_t n, int64_t grain, int thread, int threads, int64_t *first, int64_t *last) {
  int64_t grains = (n + grain - 1) / grain;
  int64_t a = grains * thread / threads * grain, b = grains * (thread + 1) / threads * grain;
  *first = a < n ? a : n;
  *last = b < n ? b : n;
}

#endif
