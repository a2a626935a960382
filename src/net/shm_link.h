/* One connection over shared memory, as either end sees it: whole messages in and out of the rings, without waiting.
 *
 * A record is the 64-byte header and the payload, filled up to 64 bytes. A record of at most a quarter of the ring is
 * published at once and read in place. A larger one goes through the ring piece by piece into a block of the
 * receiver's, which is kept for the next one; since its header leaves before the end has been read, its checksum follows in
 * 64 bytes of their own. Checksums are made while a payload is copied, and looked at before a message is handed out: from the
 * sender's memory to the receiver's eyes nothing changes unnoticed. */
#ifndef SHOAL_NET_SHM_LINK_H
#define SHOAL_NET_SHM_LINK_H

#include "net/shm_ring.h"
#include "net/wire.h"

enum { LINK_HOLDS = 64 }; /* messages of one peer read in place and not released */

typedef struct shm_link shm_link;

/* What net_message.hold points at. */
typedef struct {
  enum { HOLD_RING, HOLD_BLOCK, HOLD_OWNED } where;
  bool released;
  shm_link *link;
  uint64_t end; /* HOLD_RING: the record's end in the ring */
} shm_hold;

struct shm_link {
  shm_segment segment;
  ring *in, *out;
  shm_bell *other; /* rung after each change the other side may wait for */
  bool quiet;      /* not after each message: only when half of the ring is full */
  uint64_t job;
  size_t largest;
  shm_hold holds[LINK_HOLDS]; /* in order of arrival, from first_hold on */
  int first_hold, hold_count;
  /* The message on its way through the ring in pieces, or held in the block. */
  uint8_t *block; /* [block_room], or NULL until needed; owned */
  size_t block_room;
  shm_hold block_hold;
  bool block_filling, block_held;
  size_t block_have;
  net_header block_header;
  size_t block_bytes;
  uint32_t block_checksum; /* of what is there */
};

typedef enum { LINK_NOTHING, LINK_MESSAGE, LINK_DONE, LINK_BROKEN, LINK_DAMAGED, LINK_NO_MEMORY } link_result;

/* Bytes of a ring that suit messages up to `largest`. */
size_t link_capacity(size_t largest);
/* Takes the segment. server: reads requests, writes answers. */
void link_init(shm_link *l, shm_segment *segment, bool server, shm_bell *other, uint64_t job, size_t largest);
void link_fini(shm_link *l);

/* LINK_NOTHING, LINK_MESSAGE, LINK_BROKEN (the other side wrote nonsense), LINK_DAMAGED (a payload is not what was sent; after
 * either nothing can be read any more) or LINK_NO_MEMORY. */
link_result link_take(shm_link *l, net_message *out);
void link_release(shm_link *l, shm_hold *h);
/* Whether any message taken has not been released. */
bool link_holding(const shm_link *l);
/* Whether more of a message that comes in pieces lies there: look again before sleeping. */
bool link_has_pieces(shm_link *l);
/* Whether link_take gives nothing only because messages taken earlier are still held. */
bool link_waits_for_release(const shm_link *l);
/* The block of a taken HOLD_BLOCK message becomes the caller's (free); the message counts as released. */
uint8_t *link_take_block(shm_link *l);

/* A message on its way out. */
typedef struct {
  uint8_t header[WIRE_HEADER];
  const net_part *parts; /* borrowed */
  int n, part;
  size_t offset;       /* in the part */
  size_t left;         /* bytes of the record still to be written, filling and trailer included */
  bool whole, started; /* whole: goes at once */
  uint32_t checksum;   /* of the payload so far */
} link_outgoing;

void link_outgoing_init(link_outgoing *o, const shm_link *l, const net_header *header, const net_part *parts, int n,
                        size_t bytes);
/* LINK_DONE; LINK_NOTHING: the ring is full, some of it may have gone; LINK_BROKEN: it is not sound, or was closed. */
link_result link_push(shm_link *l, link_outgoing *o);

#endif
