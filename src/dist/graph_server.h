/* A graph server: a task that runs its part of the graphs of client sessions (shoal/placed.h). It receives,
 * computes and answers in turns, so that no session shuts out the others; see graph_protocol.h for what is said. */
#ifndef SHOAL_DIST_GRAPH_SERVER_H
#define SHOAL_DIST_GRAPH_SERVER_H

#include "net/transport.h"

typedef struct {
  const char *address;
  net_options net;     /* `largest` and `from` are set by the server */
  int threads;         /* of a session that does not say; 0: as many as there are processors */
  size_t memory;       /* bytes that a session may take here; 0: no limit */
  double seconds;      /* that one run may take; 0: as long as its client says */
  const char *kernels; /* as in shoal_session_options */
  const int *stop;     /* when not NULL: the server ends once *stop is not 0 */
  void *context;
  void (*ready)(void *context); /* called once when it listens; may be NULL */
} graph_server_options;

SHOAL_CHECKED shoal_status graph_server_run(const graph_server_options *options);

#endif
