/* Adds up a vector of gradients over all ranks, while parts of it are still being computed.
 *
 * 1. The vector is cut into buckets, in the order in which backward makes gradients: the last tensors first. Each
 * bucket goes its own way as soon as its tensors are there: every rank owns a piece of it, gets the others' numbers for
 * that piece, adds them up in the fixed order of tree.h, and sends the sum to all. A number crosses the wire twice, as
 * in any all-reduce that does not waste bytes: 2 (ranks - 1) / ranks of the vector sent by each rank. Small buckets go
 *    whole to every rank instead, in one round.
 * 2. A sum has the same bits on all ranks: one rank makes it and the others copy it, or all make it in the same order.
 * Where numbers are rounded to travel (wire_format.h), its owner keeps the rounded one, too.
 * 3. Everything that is sent was prepared before the first step. A step allocates nothing.
 * 4. One thread makes all calls; messages move only inside of them. Every wait has a deadline and names who is late. */
#ifndef SHOAL_DIST_COLLECTIVE_H
#define SHOAL_DIST_COLLECTIVE_H

#include "dist/link_own.h"
#include "dist/peers.h"
#include "dist/tree.h"
#include "dist/wire_format.h"

typedef struct collective collective;

typedef struct {
  int64_t sent_bytes, received_bytes;
  double blocked_seconds; /* waiting for peers with nothing else to do */
  double sending_seconds; /* in calls that move messages while there is something else to do */
} collective_stats;

/* A process's place among the ranks. */
typedef struct {
  const link_table *link;
  link_place *at;
  void *library; /* of MPI's link */
  char *why;     /* [LINK_WHY] */
  int rank, ranks;
  collective_stats stats; /* of all sums so far */
  int id;                 /* what people call this rank: the same as `rank`, unless others have left */
  bool cut;               /* a wait was given up since a rank is gone, or `interrupted` said so */
} collective_place;
/* Opens the library for `name` ("mpi") and takes the place that the launcher gave. */
SHOAL_CHECKED shoal_status collective_join(const char *name, collective_place *out);
/* The same without a library: over shared memory or TCP, with ranks that are described. */
SHOAL_CHECKED shoal_status collective_join_own(const mesh_options *start, collective_place *out);
/* The same over that link: what `start` is, it says. */
SHOAL_CHECKED shoal_status collective_join_by(const link_table *link, const void *start, collective_place *out);
/* A rank has said that it ends the job, and tells why. */
bool collective_told(const collective_place *place);
/* Is there such a library? */
bool collective_there(const char *name);
/* Ends the place for all ranks alike; after an error the process should abort instead. */
SHOAL_CHECKED shoal_status collective_leave(collective_place *place);
/* Ends it at once, for this rank; the others see that it has gone. NULL links are fine. */
void collective_drop(collective_place *place);
/* May not return; if it does, the process has to end. */
void collective_abort(collective_place *place, int code);
SHOAL_CHECKED shoal_status collective_broadcast(collective_place *place, void *bytes, int64_t count);
/* From one rank to some: to[ranks], the others need not call it. Waits as long as there is progress within `patience`. */
typedef struct {
  int from;
  const bool *to;
  double patience;
  bool (*interrupted)(void *context);
  void *context;
} collective_handover;
SHOAL_CHECKED shoal_status collective_hand_over(collective_place *place, const collective_handover *h, void *bytes,
                                                int64_t count);

/* How a vector is cut: numbers. */
typedef struct {
  int64_t bucket_min; /* small tensors travel together; 1 MB */
  int64_t bucket_max; /* large ones in several buckets, so that a sum can leave while others arrive; 64 MB */
  int64_t direct_max; /* received: below, one round of larger messages is faster than two; 2 MB */
} collective_sizes;
const collective_sizes *collective_standard_sizes(void);

typedef struct {
  const int64_t *counts; /* [tensors] numbers in each tensor of the vector; copied */
  int tensors;
  int64_t leaves[2];             /* of the tree, in the two kinds of steps there are; 0: no such step */
  bool any_leaves;               /* there may be steps of any number of leaves up to the first of these */
  const wire_format *wire;       /* NULL: f32 */
  const collective_sizes *sizes; /* NULL: the standard; where short vectors stand for long ones: shorter, too */
  double patience;               /* seconds to wait for a peer */
  /* Called by a thread of its own when a rank of this machine has ended while nobody here waits for any. */
  void (*on_peer_exit)(void *context, int rank);
  void *context;
  /* Whether to give up waiting; NULL: no. Then nobody watches over processes, and on_peer_exit is not called. */
  bool (*interrupted)(void *context);
  void *interrupter;
} collective_options;

/* What each rank says of a step. */
typedef struct {
  int64_t examples;
  double loss, hits;
  uint64_t hash;  /* of its parameters, or 0 */
  int64_t stop;   /* it wants the step not to count */
  int64_t change; /* others wait to take part from the next step on */
  double pause;   /* seconds for which it stood still before this step */
} collective_head;

/* All ranks call it alike. Borrows the place. */
SHOAL_CHECKED shoal_status collective_create(collective_place *place, const collective_options *options,
                                             collective **out);
void collective_destroy(collective *c);
/* Adds to `to` [elements] what the format has left out so far and would have added to the next step. */
void collective_add_left(const collective *c, float *to);
const peers_rank *collective_ranks(const collective *c); /* [ranks] */

/* Memory for the numbers of node k of this rank's leaves, in the tensors' order; node 0's holds the sum at the end. */
float *collective_part(collective *c, int k);
int collective_parts(const collective *c);
/* Messages of tags below this one carry numbers. */
int collective_tags(const collective *c);
/* A step with so many leaves, of which this rank has its share (tree_share). */
SHOAL_CHECKED shoal_status collective_begin(collective *c, int64_t leaves);
/* Tensor i now stands in all this rank's parts. */
SHOAL_CHECKED shoal_status collective_ready(collective *c, int tensor);
/* Lets messages move. */
SHOAL_CHECKED shoal_status collective_move(collective *c);
/* Waits until the sum stands in part 0. own: what this rank says; all: [ranks] what each says. All tensors must be
 * ready. */
SHOAL_CHECKED shoal_status collective_finish(collective *c, const collective_head *own, collective_head *all);
/* After an error: is it this rank that should tell of it? The lowest of those that are not late or gone is. */
bool collective_speaks(const collective *c);
/* Ranks may end from here on. */
void collective_part_ways(collective *c);
/* Only the heads. */
SHOAL_CHECKED shoal_status collective_meet(collective *c, const collective_head *own, collective_head *all);
/* Words of each rank come to rank 0: out[0 .. ranks), the caller's to free. Others get nothing. */
SHOAL_CHECKED shoal_status collective_gather(collective *c, const char *words, char **out);
/* Of all sums at the same place. */
void collective_stats_read(const collective *c, collective_stats *out);

#endif
