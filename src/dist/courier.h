/* Carries messages from a graph server to others, so that the server itself never waits for one of them: two servers
 * that send each other large messages would otherwise wait for ever.
 *
 * Small messages go out at once in the caller's thread, as long as the links' own buffers surely have room. The others,
 * and connecting, are a thread's work; what they point to must stay as it is until courier_busy is false. */
#ifndef SHOAL_DIST_COURIER_H
#define SHOAL_DIST_COURIER_H

#include "base/events.h"
#include "net/transport.h"

typedef struct courier courier;

typedef struct {
  int tasks;
  const char *const *names;     /* [tasks] for messages; borrowed */
  const char *const *addresses; /* [tasks]; borrowed */
  net_options net;
  net_header hello; /* said on each new link */
  double seconds; /* for connecting, and for a message to be taken */
} courier_options;

SHOAL_CHECKED shoal_status courier_create(const courier_options *options, courier **out);
/* Waits for the message under way; the rest is dropped. NULL is fine. */
void courier_destroy(courier *c);

/* Begins to connect, unless that was asked before. */
SHOAL_CHECKED shoal_status courier_connect(courier *c, int task);
SHOAL_CHECKED shoal_status courier_send(courier *c, int task, const net_header *header, const net_part *parts, int n);
/* A new run begins: what went out before has been taken, as the run before was answered. */
void courier_next_run(courier *c);
bool courier_busy(courier *c);
/* The first failure since the last call; NULL: none. */
shoal_status courier_failure(courier *c);
void courier_stats(courier *c, net_stats *out);
/* Messages go to the timeline while that is on, under labels[task]: those that go out at once on track 0, the caller's,
 * the others on `track`. Borrowed. */
void courier_trace(courier *c, events *e, const uint32_t *labels, int track);

#endif
