/* Ranks that are all connected to each other, for messages of known size between any two of them.
 *
 *  1. A message is prepared once and sent again and again; starting one allocates nothing. It is read from and written
 *     to where it lies.
 *  2. Nothing waits but mesh_create, mesh_wait and mesh_destroy. Messages move only inside mesh_move, in the thread
 *     that calls it.
 *  3. Messages from one rank to another arrive in the order they were started. One that is not expected yet holds up
 *     those behind it until it is.
 *  4. Until all are there, whoever has no key, another job or nothing sensible to say is refused, and counted; then
 *     nobody else is let in.
 *  5. Ranks of one host share memory: a ring each way between any two. Across hosts it is TCP, with TLS 1.3 where there
 *     are keys. */
#ifndef SHOAL_NET_MESH_H
#define SHOAL_NET_MESH_H

#include "net/transport.h"

typedef struct mesh mesh;

enum { MESH_RANKS_MAX = 1024, MESH_NAME = 96, MESH_WORDS = 256 };

typedef struct {
  int rank, ranks;
  const char *const *addresses;      /* [ranks] where each listens: all shm:/NAME, or all tcp://HOST:PORT; copied */
  net_options listening, connecting; /* job, keys, heartbeat; borrowed only while mesh_create runs */
  double patience;                   /* seconds until all are there */
  bool
      backwards; /* each connects to those behind it, so that the first listens nowhere; otherwise to those before it */
  bool (*interrupted)(void *context); /* whether to give up before that; NULL: no */
  void *context;
} mesh_options;

typedef struct mesh_message {
  /* the caller's */
  void *bytes; /* only read when it is sent */
  size_t count;
  int peer;
  uint64_t tag;
  bool send;
  /* the mesh's */
  bool under_way;
  struct mesh_message *next;
} mesh_message;

SHOAL_CHECKED shoal_status mesh_create(const mesh_options *options, mesh **out);
/* Sends what was started, for a second at most. NULL is fine. */
void mesh_destroy(mesh *m);
/* The same at once. */
void mesh_drop(mesh *m);
int mesh_rank(const mesh *m);
int mesh_ranks(const mesh *m);
uint64_t mesh_refused(const mesh *m); /* connections that were */

/* The message must stay, and its bytes too, until it is no longer under way. */
void mesh_start(mesh *m, mesh_message *message);
/* Forgets messages that will never be through. */
void mesh_cancel(mesh *m, mesh_message *message);
/* Lets messages move. False: one that came has another size than expected, see mesh_reason. */
SHOAL_CHECKED bool mesh_move(mesh *m);
/* Sleeps until there may be something to move, or so many seconds. */
void mesh_wait(mesh *m, double seconds);
/* Whether the rank is known to have gone; what it sent before that has been received. */
bool mesh_gone(const mesh *m, int rank);
/* "rank 2 (node3:2222)" or "rank 2 (pid 77)". */
const char *mesh_name(const mesh *m, int rank);
/* "rank 2 (node3:2222) has closed its connection": why it has. Returns out. */
const char *mesh_why_gone(const mesh *m, int rank, char out[MESH_WORDS]);
/* What mesh_move found. */
const char *mesh_reason(const mesh *m);
/* Tells all others that this rank ends, for a reason that it says itself. */
void mesh_abort(mesh *m);
/* A rank has told so. */
bool mesh_aborted(const mesh *m, int *rank);

#endif
