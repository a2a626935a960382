/* Carries packets between the hosts of a lab with a delay, where the kernel cannot delay them by itself (netem).
 *
 * 1. Each host's eth0 is a TUN device; one thread reads what hosts send, and writes it to the host it is for when its
 *    time has come: `delay` after it was read, and when that host's link has carried it and those before it.
 * 2. Packets for one host leave in the order in which they came. Where more than QUEUE wait, the newest is dropped, as
 *    a switch does.
 * 3. IPv4 alone, one network: the last number of an address, LAB_ADDRESS, is that of the host, from 1. */
#ifndef SHOAL_RUN_LAB_RELAY_H
#define SHOAL_RUN_LAB_RELAY_H

#include "base/status.h"

#define LAB_NAME 32 /* bytes of a namespace's name */
#define LAB_ADDRESS "10.77.0.%d"
#define LAB_RELAY_MTU 9000 /* each packet costs two system calls */

typedef struct lab_relay lab_relay;

/* names: [hosts] of network namespaces that have no eth0 yet. rate: bits a second; 0: not limited. delay: seconds. */
SHOAL_CHECKED shoal_status lab_relay_create(char (*names)[LAB_NAME], int hosts, double rate, double delay,
                                            lab_relay **out);
/* NULL is fine. */
void lab_relay_destroy(lab_relay *r);

#endif
