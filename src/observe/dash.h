/* Serves the page over HTTP, live.
 *
 * 1. What is served is the page and JSON made from the runs below one folder. No path comes from a request: runs are
 *    asked for by number.
 * 2. Without a token it listens on a loopback address only, and answers only requests that name a loopback host, so
 *    that no other site's page can reach it through a name of its own.
 * 3. With a token each request must bring it, as "Authorization: Bearer TOKEN" or "?token=TOKEN".
 * 4. Nothing changes by a request; all but GET and HEAD are refused.
 *
 *   /                      the page
 *   /api/state             version, runs and sweeps
 *   /api/run?id=N          a run; points=N, by=step&from=X&to=Y for a part of it
 *   /api/sweep?id=N        a sweep
 *   /api/trace?id=N        the timeline of a run
 *   /api/events            server-sent events: {"runs": [[id, revision], ...]} whenever something changed */
#ifndef SHOAL_OBSERVE_DASH_H
#define SHOAL_OBSERVE_DASH_H

#include "base/status.h"

#include <stdbool.h>

typedef struct {
  const char *folder;
  const char *address; /* "127.0.0.1", "::1", "0.0.0.0" */
  int port;            /* 0: any that is free */
  const char *token;   /* NULL: none */
  const char *version;
} dash_options;

typedef struct dash dash;

/* The texts of `options` are borrowed for as long as it runs. *port: the one it listens on. */
SHOAL_CHECKED shoal_status dash_create(const dash_options *options, dash **out, int *port);
/* Ends all connections. NULL is fine. */
void dash_destroy(dash *d);

#endif
