/* Where tasks on this host can listen: its address as the others see it, and ports that nobody has. */
#ifndef SHOAL_RUN_REMOTE_ADDRESS_H
#define SHOAL_RUN_REMOTE_ADDRESS_H

#include "base/status.h"

#include <netinet/in.h>

/* interface: a name ("eth1") or a network ("10.1.0.0/16"); NULL: the address at which sshd was reached. */
SHOAL_CHECKED shoal_status remote_address_find(const char *interface, char out[INET6_ADDRSTRLEN]);
/* n different ports of that address, from first to last; both 0: any. */
SHOAL_CHECKED shoal_status remote_ports_find(const char *address, int first, int last, int n, int *ports);

#endif
