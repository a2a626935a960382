/* "tcp://HOST:PORT" as sockets, and which of them may do without keys. */
#ifndef SHOAL_NET_TCP_ADDRESS_H
#define SHOAL_NET_TCP_ADDRESS_H

#include "net/transport.h"

#include <sys/socket.h>

enum { TCP_PLACES_MAX = 8 };

typedef struct {
  struct sockaddr_storage address;
  socklen_t length;
} tcp_place;

/* What a name stands for, in the order to be tried. */
typedef struct {
  tcp_place places[TCP_PLACES_MAX];
  int count;
  bool loopback; /* all of them are */
} tcp_address;

/* HOST: a name, an IPv4 address, an IPv6 address in brackets, or * for all addresses of this host. */
SHOAL_CHECKED shoal_status tcp_resolve(const char *address, tcp_address *out);
/* Whether the keys are whole and, beyond loopback, there. */
SHOAL_CHECKED shoal_status tcp_check_keys(const net_options *o, bool server, bool loopback);

/* A port of the loopback that nobody has just now. */
SHOAL_CHECKED shoal_status tcp_free_port(int *out);
/* A listening, non-blocking socket. */
SHOAL_CHECKED shoal_status tcp_open_listener(const tcp_address *a, int *out);
/* Tries all places in turn until one takes the connection or the time `until` (of clock_seconds) has come; *error says
 * why the last one did not (errno). The socket is in blocking mode. */
bool tcp_dial(const tcp_address *a, double until, int *out, int *error);
/* No delays for small messages; a host that has gone is noticed after about `heartbeat` seconds. */
void tcp_configure(int sock, double heartbeat);
/* Whether the other host has acknowledged nothing of what was sent for longer than `heartbeat` seconds. */
bool tcp_silent(int sock, double heartbeat);

#endif
