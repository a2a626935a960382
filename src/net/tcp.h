/* TCP between hosts, encrypted by TLS 1.3 where there are keys.
 *
 *  1. There are no threads: connections are served inside the calls of net_receive, net_answer, net_send and net_await.
 *     The kernel sees to it that a host that has gone is noticed while nobody calls.
 *  2. A connection begins with the TLS handshake, if any, and a hello, which the server answers by a welcome or by why
 *     it refuses. Until then it is nobody's, has little time and cannot make the server keep anything.
 *  3. What arrived before a connection ended is delivered before the peer is reported gone.
 *  4. A peer whose messages do not check is dropped like one that has gone, and counted as refused. One that is
 *     well-formed, but not for us, is passed over and counted.
 *  5. A client reads answers while it sends, and a server lays answers aside for a peer that takes none: two that send
 *     to each other do not wait for each other for ever. */
#ifndef SHOAL_NET_TCP_H
#define SHOAL_NET_TCP_H

#include "net/endpoint.h"

#define TCP_SLICE 0.05 /* seconds of sleep between looks at what makes no sound */
#define TCP_LINGER 1.0 /* seconds that the last words of an endpoint are given to leave */

enum { TCP_WORDS = 160 };  /* of a refusal */
enum { TCP_FOR_EVER = 1 }; /* its number: for reasons that do not pass */

/* The rows of the transport, see endpoint.h. */
shoal_status tcp_listen(const char *address, const net_options *options, net_server **out);
void tcp_server_close(net_server *base);
shoal_status tcp_receive(net_server *base, double seconds, net_message *out, bool *got);
shoal_status tcp_answer(net_server *base, uint64_t id, const net_header *header, const net_part *parts, int n,
                        size_t bytes);
void tcp_limit(net_server *base, size_t largest);
void tcp_release_server(net_server *base, net_message *m);

shoal_status tcp_connect(const char *address, const net_options *options, double seconds, net_client **out);
void tcp_client_close(net_client *base);
shoal_status tcp_send(net_client *base, const net_header *header, const net_part *parts, int n, size_t bytes,
                      double seconds);
shoal_status tcp_await(net_client *base, double seconds, net_message *out);
bool tcp_gone(net_client *base);
void tcp_release_client(net_client *base, net_message *m);

#endif
