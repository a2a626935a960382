/* Watches over the other ranks of this machine: a process that ends is known at once, whatever this one is doing. */
#ifndef SHOAL_DIST_PEERS_H
#define SHOAL_DIST_PEERS_H

#include "base/status.h"

#include <stdint.h>

#define PEERS_HOST 64

/* How a rank can be found. */
typedef struct {
  char host[PEERS_HOST];
  int pid;
  int id;         /* what people call it */
  uint64_t space; /* where its pid means something: the kernel's number of its pid namespace */
} peers_rank;

typedef struct peers peers;

void peers_introduce(peers_rank *own);
/* Watches those of ranks[0 .. n) that are processes of this machine, this one excepted. `ranks` is kept by the caller.
 * on_peer_exit: called by the watching thread when an ended rank has been known for a second and nobody has asked. */
SHOAL_CHECKED shoal_status peers_create(const peers_rank *ranks, int n, int own,
                                        void (*on_peer_exit)(void *context, int rank), void *context, peers **out);
/* The rank that has ended, or -1. */
int peers_gone(peers *p);
/* From here on ranks may end. NULL is fine. */
void peers_destroy(peers *p);

#endif
