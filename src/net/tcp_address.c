#include "net/tcp_address.h"

#include "net/keys.h"

#include "base/clock.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HOST_ROOM = 256, BACKLOG = 512 };
#define RETRY 0.02 /* seconds between two rounds of trying to connect */

static bool is_loopback(const struct sockaddr *a) {
  if (a->sa_family == AF_INET) return ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 24 == 127;
  if (a->sa_family != AF_INET6) return false;
  const struct in6_addr *six = &((const struct sockaddr_in6 *)a)->sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(six) || (IN6_IS_ADDR_V4MAPPED(six) && six->s6_addr[12] == 127);
}

static shoal_status split(const char *address, char host[HOST_ROOM], const char **port) {
  const char *rest = strstr(address, "://"), *colon = rest ? strrchr(rest + 3, ':') : NULL;
  size_t length = colon ? (size_t)(colon - (rest + 3)) : 0;
  char *end = NULL;
  long number = colon ? strtol(colon + 1, &end, 10) : 0;
  if (!length || length >= HOST_ROOM || !colon[1] || *end || number < 1 || number > 65535)
    return status_make(SHOAL_ERR_ARGUMENT, "expected HOST:PORT with a port from 1 to 65535");
  memcpy(host, rest + 3, length);
  host[length] = 0;
  if (host[0] == '[' && host[length - 1] == ']') {
    host[length - 1] = 0;
    memmove(host, host + 1, length - 1);
  }
  *port = colon + 1;
  return NULL;
}

shoal_status tcp_resolve(const char *address, tcp_address *out) {
  char host[HOST_ROOM];
  const char *port;
  TRY(split(address, host, &port));
  struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *list;
  const bool any = !strcmp(host, "*");
  int error = getaddrinfo(any ? NULL : host, port, &hints, &list);
  if (error) return status_make(SHOAL_ERR_ARGUMENT, "host '%s': %s", host, gai_strerror(error));
  *out = (tcp_address){.loopback = true};
  /* IPv4 first: a name often has both, few networks do. But a socket for all addresses of IPv6 serves IPv4, too. */
  for (int round = 0; round < 2; round++)
    for (const struct addrinfo *a = list; a; a = a->ai_next) {
      const bool first = (a->ai_family == AF_INET) != any;
      if (first != (round == 0) || out->count == TCP_PLACES_MAX) continue;
      tcp_place *place = &out->places[out->count++];
      memcpy(&place->address, a->ai_addr, a->ai_addrlen);
      place->length = a->ai_addrlen;
      if (!is_loopback(a->ai_addr)) out->loopback = false;
    }
  freeaddrinfo(list);
  return NULL;
}

shoal_status tcp_check_keys(const net_options *o, bool server, bool loopback) {
  bool keys = o->public_key || o->secret_key || o->server_key;
  if (!keys && !loopback && !o->insecure)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "this address can be reached from other hosts, so keys are needed: make them with `shoal keygen "
                       "DIR`, or use --insecure");
  if (!keys) return NULL;
  if (!keys_valid(o->secret_key) || !keys_valid(o->public_key))
    return status_make(SHOAL_ERR_ARGUMENT,
                       "expected both keys of a pair, 40 characters of Z85 each; `shoal keygen` "
                       "makes them");
  if (!server && !keys_valid(o->server_key))
    return status_make(SHOAL_ERR_ARGUMENT, "a client with keys needs the server's public key, 40 characters of Z85");
  if (server && !o->allowed)
    return status_make(SHOAL_ERR_ARGUMENT, "a server with keys needs the list of its clients' public keys");
  return NULL;
}

shoal_status tcp_free_port(int *out) {
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof a;
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  bool good = fd >= 0 && !bind(fd, (struct sockaddr *)&a, size) && !getsockname(fd, (struct sockaddr *)&a, &size);
  int error = errno;
  if (fd >= 0) close(fd);
  if (!good) return status_errno(error, "no free port on this host");
  *out = ntohs(a.sin_port);
  return NULL;
}

/* 0, or why not. */
static int listen_at(const tcp_place *place, int *out) {
  const int yes = 1, no = 0;
  int sock = socket(place->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (sock >= 0) {
    setsockopt(sock, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes); /* the last connections of an earlier life */
    if (place->address.ss_family == AF_INET6) setsockopt(sock, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
  }
  if (sock >= 0 && !bind(sock, (const struct sockaddr *)&place->address, place->length) && !listen(sock, BACKLOG)) {
    *out = sock;
    return 0;
  }
  const int error = errno;
  if (sock >= 0) close(sock);
  return error;
}

shoal_status tcp_open_listener(const tcp_address *a, int *out) {
  int error = EAFNOSUPPORT;
  for (int i = 0; i < a->count && error == EAFNOSUPPORT; i++) error = listen_at(&a->places[i], out);
  if (!error) return NULL;
  const char *advice = error == EADDRINUSE      ? "; another process uses this port: stop it, or choose another"
                       : error == EADDRNOTAVAIL ? "; this is no address of this host"
                                                : "";
  return status_make(SHOAL_ERR_SYSTEM, "%s%s", strerror(error), advice);
}

/* 0, or why not. */
static int dial_one(const tcp_place *place, double until, int *out) {
  int sock = socket(place->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (sock < 0) return errno;
  int error = connect(sock, (const struct sockaddr *)&place->address, place->length) ? errno : 0;
  while (error == EINPROGRESS || error == EINTR) {
    struct pollfd p = {.fd = sock, .events = POLLOUT};
    double left = until - clock_seconds();
    int n = poll(&p, 1, left > 0 ? (int)(left * 1e3) + 1 : 0);
    socklen_t length = sizeof error;
    if (n > 0 && getsockopt(sock, SOL_SOCKET, SO_ERROR, &error, &length)) error = errno;
    if (n == 0) error = ETIMEDOUT;
  }
  if (!error && fcntl(sock, F_SETFL, 0)) error = errno;
  if (error)
    close(sock);
  else
    *out = sock;
  return error;
}

bool tcp_dial(const tcp_address *a, double until, int *out, int *error) {
  for (;;) {
    for (int i = 0; i < a->count; i++) {
      /* Time for the others, too, if one does not respond at all. */
      double now = clock_seconds(), share = (until - now) / (a->count - i);
      *error = dial_one(&a->places[i], now + MAX_OF(share, 0), out);
      if (!*error) return true;
    }
    double left = until - clock_seconds();
    if (left <= 0) return false;
    poll(NULL, 0, (int)(MIN_OF(left, RETRY) * 1e3) + 1);
  }
}

static int idle_seconds(double heartbeat) { return (int)MAX_OF(heartbeat * 2 / 5, 1); }

void tcp_configure(int sock, double heartbeat) {
  const int yes = 1, probes = 3, every = (int)MAX_OF(heartbeat / 5, 1), idle = idle_seconds(heartbeat);
  struct sockaddr_storage peer;
  socklen_t length = sizeof peer;
  setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  /* Inside a host there is nothing to share: congestion control that paces (BBR) would take a third of the rate. */
  if (!getpeername(sock, (struct sockaddr *)&peer, &length) && is_loopback((struct sockaddr *)&peer))
    setsockopt(sock, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
  setsockopt(sock, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
  setsockopt(sock, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  setsockopt(sock, IPPROTO_TCP, TCP_KEEPINTVL, &every, sizeof every);
  setsockopt(sock, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

bool tcp_silent(int sock, double heartbeat) {
  struct tcp_info info = {0};
  socklen_t length = sizeof info;
  if (getsockopt(sock, IPPROTO_TCP, TCP_INFO, &info, &length)) return false;
  /* The last sign of life may be that old when something is sent after a pause. */
  return info.tcpi_unacked && info.tcpi_last_ack_recv > (heartbeat + idle_seconds(heartbeat)) * 1e3;
}
