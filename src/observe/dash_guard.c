#include "observe/dash_guard.h"

#include <string.h>
#include <sys/socket.h>

void dash_guard_init(dash_guard *g) {
  memset(g, 0, sizeof *g);
  pthread_mutex_init(&g->lock, NULL);
}

void dash_guard_fini(dash_guard *g) { pthread_mutex_destroy(&g->lock); }

static void drop(dash_guard *g, int i) {
  memmove(&g->strangers[i], &g->strangers[i + 1], (size_t)(--g->n - i) * sizeof *g->strangers);
}

void dash_guard_begins(dash_guard *g, int socket) {
  pthread_mutex_lock(&g->lock);
  if (g->n == DASH_STRANGERS_MAX) {
    shutdown(g->strangers[0], SHUT_RDWR); /* its own thread closes it */
    drop(g, 0);
  }
  g->strangers[g->n++] = socket;
  pthread_mutex_unlock(&g->lock);
}

void dash_guard_leaves(dash_guard *g, int socket) {
  pthread_mutex_lock(&g->lock);
  for (int i = 0; i < g->n; i++)
    if (g->strangers[i] == socket) {
      drop(g, i);
      break;
    }
  pthread_mutex_unlock(&g->lock);
}
