/* A worker that is asked to leave (--drain) goes on for a moment first. Where a whole job is asked, worker 0 and the servers are
 * asked, too, and end the job for all meanwhile: no step is made by fewer workers, and --resume ends with the same bits. */
#ifndef SHOAL_RUN_LEAVING_H
#define SHOAL_RUN_LEAVING_H

#include "base/status.h"

#include <pthread.h>
#include <stdbool.h>

typedef struct {
  const int *asked; /* not 0: it is asked to leave */
  double seconds;   /* from then on */
  int leave;        /* becomes *asked after them; atomic, and what the training looks at */
  bool over;        /* of the thread that waits; under the lock */
  bool started;
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t wake;
} leaving;

/* drain: seconds that it has in all. l must stay where it is until leaving_end. */
SHOAL_CHECKED shoal_status leaving_begin(leaving *l, const int *asked, double drain);
void leaving_end(leaving *l); /* one that was not begun is fine */

#endif
