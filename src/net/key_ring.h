/* The keys of one task, as `shoal keygen DIR` leaves them: server.key and all *.pub files for a parameter server,
 * client.key and server.pub for the others. */
#ifndef SHOAL_NET_KEY_RING_H
#define SHOAL_NET_KEY_RING_H

#include "net/keys.h"
#include "net/transport.h"

typedef struct {
  keys_pair own;
  char other[KEYS_TEXT]; /* public: the server's or, where this is one, the clients' */
  keys_list allowed;
} key_ring;

/* Sets the keys of `net`, which point into the ring and live as long as it. The ring is to be finished also after a
 * failure. */
SHOAL_CHECKED shoal_status key_ring_read(const char *dir, bool server, key_ring *ring, net_options *net);
/* For a task that both listens and connects. */
SHOAL_CHECKED shoal_status key_ring_read_both(const char *dir, bool server, key_ring *ring, net_options *net);
/* Leaves no secret in memory. */
void key_ring_fini(key_ring *ring);

#endif
