/* Shared memory between the tasks of one host.
 *
 * Each connection has a segment of its own with two rings (shm_link.h); the server has one bell that all its clients
 * ring, each client has its own. They connect over a local socket (shm_greet.h).
 *
 *  1. A side sleeps on its bell for at most SLICE; then it looks whether its peers still live.
 *  2. What arrived before a peer died is delivered before the peer is reported gone.
 *  3. A peer whose ring does not check is dropped like one that died, and counted as refused.
 *  4. A connection's memory stays until the last message read in place is released.
 *
 * Waiting does not spin beyond a few hundred nanoseconds: the tasks of a host usually outnumber its processors, and a
 * spinning one keeps the processor from the one it waits for. One that was told to be eager (net_client_eager) looks
 * for longer, and offers its processor between two looks. */
#ifndef SHOAL_NET_SHM_H
#define SHOAL_NET_SHM_H

#include "net/endpoint.h"

#define SHM_SLICE 0.02 /* seconds of sleep between looks at the peers' lives */
#define SHM_SPIN 6     /* pauses before sleeping */

static inline void shm_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

/* The rows of the transport, see endpoint.h. */
shoal_status shm_listen(const char *address, const net_options *options, net_server **out);
void shm_server_close(net_server *base);
shoal_status shm_receive(net_server *base, double seconds, net_message *out, bool *got);
shoal_status shm_answer(net_server *base, uint64_t id, const net_header *header, const net_part *parts, int n,
                        size_t bytes);
void shm_limit(net_server *base, size_t largest);
shoal_status shm_take_rest(net_server *base, uint64_t id, net_message *out, bool *got);
void shm_release_server(net_server *base, net_message *m);

shoal_status shm_connect(const char *address, const net_options *options, double seconds, net_client **out);
void shm_client_close(net_client *base);
shoal_status shm_send(net_client *base, const net_header *header, const net_part *parts, int n, size_t bytes,
                      double seconds);
shoal_status shm_await(net_client *base, double seconds, net_message *out);
bool shm_gone(net_client *base);
bool shm_hand_over(net_client *base);
void shm_release_client(net_client *base, net_message *m);

#endif
