/* Carries messages from a graph server to others, so that the server itself never waits for one of them: two servers
 * that send each other large messages would otherwise wait for ever.
 *
 * Small messages go out at once in the caller's thread, as long as the links' own buffers surely have room. The others,
 * and connecting, are a thread's work; what they point to must stay as it is until send_queue_busy is false. */
#ifndef SHOAL_DIST_SEND_QUEUE_H
#define SHOAL_DIST_SEND_QUEUE_H

#include "base/events.h"
#include "net/transport.h"

typedef struct send_queue send_queue;

typedef struct {
  int tasks;
  const char *const *names;     /* [tasks] for messages; borrowed */
  const char *const *addresses; /* [tasks]; borrowed */
  net_options net;
  net_header hello; /* said on each new link */
  double seconds;   /* for connecting, and for a message to be taken */
} send_queue_options;

SHOAL_CHECKED shoal_status send_queue_create(const send_queue_options *options, send_queue **out);
/* Waits for the message under way; the rest is dropped. NULL is fine. */
void send_queue_destroy(send_queue *c);

/* Begins to connect, unless that was asked before. */
SHOAL_CHECKED shoal_status send_queue_connect(send_queue *c, int task);
SHOAL_CHECKED shoal_status send_queue_send(send_queue *c, int task, const net_header *header, const net_part *parts,
                                           int n);
/* A new run begins: what went out before has been taken, as the run before was answered. */
void send_queue_next_run(send_queue *c);
bool send_queue_busy(send_queue *c);
/* The first failure since the last call; NULL: none. */
shoal_status send_queue_failure(send_queue *c);
void send_queue_stats(send_queue *c, net_stats *out);
/* Messages go to the timeline while that is on, under labels[task]: those that go out at once on track 0, the caller's,
 * the others on `track`. Borrowed. */
void send_queue_trace(send_queue *c, events *e, const uint32_t *labels, int track);

#endif
