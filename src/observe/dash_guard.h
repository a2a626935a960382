/* Connections to the dashboard that have not brought a good request yet: strangers. There is room for some; the oldest
 * makes place for a new one, so those who open many and say nothing, or say it slowly, shut nobody out. */
#ifndef SHOAL_OBSERVE_DASH_GUARD_H
#define SHOAL_OBSERVE_DASH_GUARD_H

#include <pthread.h>

#define DASH_STRANGERS_MAX 64

typedef struct {
  pthread_mutex_t lock;
  int strangers[DASH_STRANGERS_MAX]; /* [n] sockets, the oldest first */
  int n;
} dash_guard;

void dash_guard_init(dash_guard *g);
void dash_guard_fini(dash_guard *g);
/* A connection was accepted; closes the oldest stranger's where there is no room. */
void dash_guard_begins(dash_guard *g, int socket);
/* It has brought a good request, or ended. */
void dash_guard_leaves(dash_guard *g, int socket);

#endif
