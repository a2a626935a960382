#include "run/remote_address.h"

#include "base/mem.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- the address */

/* SSH_CONNECTION: "CLIENT PORT SERVER PORT". */
static shoal_status reached_address(char out[INET6_ADDRSTRLEN]) {
  const char *words = getenv("SSH_CONNECTION");
  char server[INET6_ADDRSTRLEN];
  if (!words || sscanf(words, "%*s %*s %45s", server) != 1)
    return status_make(SHOAL_ERR_PEER,
                       "SSH_CONNECTION does not say at which address this host was reached; say `interface`");
  snprintf(out, INET6_ADDRSTRLEN, "%s", server);
  return NULL;
}

static const void *address_bytes(const struct sockaddr *a) {
  if (a && a->sa_family == AF_INET) return &((const struct sockaddr_in *)a)->sin_addr;
  if (a && a->sa_family == AF_INET6) return &((const struct sockaddr_in6 *)a)->sin6_addr;
  return NULL;
}

typedef struct {
  const char *name; /* of an interface; NULL: by network */
  unsigned char network[16];
  int family, bits;
} wanted_interface;

/* False: it looks like a network and is none. */
static bool parse_interface(const char *words, wanted_interface *w) {
  char copy[INET6_ADDRSTRLEN + 8];
  *w = (wanted_interface){.name = words};
  snprintf(copy, sizeof copy, "%s", words);
  char *slash = strchr(copy, '/');
  if (!slash) return true;
  *slash = 0;
  w->name = NULL;
  w->bits = atoi(slash + 1);
  w->family = strchr(copy, ':') ? AF_INET6 : AF_INET;
  return inet_pton(w->family, copy, w->network) == 1 && w->bits >= 0 && w->bits <= (w->family == AF_INET ? 32 : 128);
}

static bool suits(const wanted_interface *w, const struct ifaddrs *a) {
  const unsigned char *bytes = address_bytes(a->ifa_addr);
  if (!bytes) return false;
  if (w->name) {
    const bool local = a->ifa_addr->sa_family == AF_INET6 && bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80;
    return !local && !strcmp(w->name, a->ifa_name); /* addresses of one link alone need more than the address */
  }
  if (a->ifa_addr->sa_family != w->family) return false;
  for (int i = 0; i < w->bits; i++)
    if ((bytes[i / 8] ^ w->network[i / 8]) & (0x80 >> i % 8)) return false;
  return true;
}

shoal_status remote_address_find(const char *interface, char out[INET6_ADDRSTRLEN]) {
  if (!interface) return reached_address(out);
  wanted_interface w;
  if (!parse_interface(interface, &w))
    return status_make(SHOAL_ERR_ARGUMENT, "`interface`: expected eth1 or 10.1.0.0/16, not '%s'", interface);
  struct ifaddrs *all;
  if (getifaddrs(&all)) return status_errno(errno, "cannot list the network interfaces");
  bool found = false;
  for (const struct ifaddrs *a = all; a && !found; a = a->ifa_next)
    found = suits(&w, a) && inet_ntop(a->ifa_addr->sa_family, address_bytes(a->ifa_addr), out, INET6_ADDRSTRLEN);
  freeifaddrs(all);
  return found ? NULL : status_make(SHOAL_ERR_PEER, "`interface`: this host has no address in '%s'", interface);
}

/* ---- the ports */

/* A socket bound there; -1: the port is taken, or there is no such address. */
static int bind_port(const char *address, int port, int *got) {
  struct sockaddr_in a4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  struct sockaddr_in6 a6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
  const bool v4 = inet_pton(AF_INET, address, &a4.sin_addr) == 1;
  if (!v4 && inet_pton(AF_INET6, address, &a6.sin6_addr) != 1) return -1;
  struct sockaddr *a = v4 ? (struct sockaddr *)&a4 : (struct sockaddr *)&a6;
  socklen_t size = v4 ? sizeof a4 : sizeof a6;
  int fd = socket(a->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  if (bind(fd, a, size) || getsockname(fd, a, &size)) {
    int error = errno;
    close(fd);
    errno = error;
    return -1;
  }
  *got = ntohs(v4 ? a4.sin_port : a6.sin6_port);
  return fd;
}

shoal_status remote_ports_find(const char *address, int first, int last, int n, int *ports) {
  int *held = calloc((size_t)n + 1, sizeof *held), found = 0, error = 0;
  if (!held) return status_no_memory();
  for (int port = first; found < n && port <= last; port += first > 0) { /* held until all are there: none twice */
    held[found] = bind_port(address, port, &ports[found]);
    if (held[found] >= 0)
      found++;
    else if (error = errno, !first)
      break;
  }
  for (int i = 0; i < found; i++) close(held[i]);
  free(held);
  if (found == n) return NULL;
  if (first)
    return status_make(SHOAL_ERR_PEER, "`ports` %d-%d: %d are needed at %s, and %d are free", first, last, n, address,
                       found);
  return status_errno(error, "cannot listen at %s", address);
}
