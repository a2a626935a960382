/* How two processes of one host connect: over a local socket in the abstract name space, which the kernel removes with
 * the process that made it, so that a crash leaves nothing behind. The socket then stays open: its hang-up, and the
 * process's own descriptor, tell at once that the other side is gone. Only processes of the same user connect. */
#ifndef SHOAL_NET_SHM_GREET_H
#define SHOAL_NET_SHM_GREET_H

#include "net/shm_ring.h"

#include <sys/types.h>

#define GREET_TEXT 160

typedef struct {
  uint64_t magic;
  uint32_t version, from;
  uint64_t job;
  uint64_t largest;
} shm_hello;

typedef struct {
  uint64_t magic;
  uint32_t version, refused;
  uint64_t capacity;    /* of each ring */
  uint64_t largest;     /* the server's */
  char why[GREET_TEXT]; /* when refused */
} shm_welcome;          /* comes with two descriptors: the server's bell, the connection's segment */

/* address: "shm:/NAME". */
SHOAL_CHECKED shoal_status greet_listen(const char *address, int *out);
/* Tries until `until` (clock_seconds) to reach a listening server. *out is a socket that does not block. */
SHOAL_CHECKED shoal_status greet_connect(const char *address, double until, int *out);

/* The process at the other end, which must be of our own user. False when it is not. *pidfd is -1 where the kernel has
 * none. */
bool greet_peer(int sock, pid_t *pid, int *pidfd);

enum { GREET_OTHER_VERSION = 2 };

/* server: the hello of a fresh connection. 1: read, 0: not there yet, -1: nonsense or closed, GREET_OTHER_VERSION: of
 * out->version; nothing else of it is set. */
int greet_read_hello(int sock, shm_hello *out);
void greet_fill_hello(shm_hello *h, uint32_t from, uint64_t job, uint64_t largest);
/* fds may be NULL. */
bool greet_send_welcome(int sock, shm_welcome *w, const int fds[2]);
bool greet_send_hello(int sock, const shm_hello *h);
/* Waits until `until`. On success fds are the caller's. */
SHOAL_CHECKED shoal_status greet_await_welcome(int sock, double until, shm_welcome *out, int fds[2]);

#endif
