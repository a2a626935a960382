#include "net/shm_link.h"

#include "base/crc32c.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define IN_PLACE ((size_t)1 << 20) /* payloads up to here are read where they lie */
#define PARTS 4                    /* a ring holds so many of the largest such records */
#define SMALLEST_RING ((size_t)64 << 10)
#define PIECE ((size_t)1 << 20) /* at most so much is copied before others get their turn */
#define TRAILER RING_GRAIN      /* behind a record in pieces: its checksum, and zeros */

static size_t record_bytes(size_t payload) { return WIRE_HEADER + mem_round_up(payload, RING_GRAIN); }

size_t link_capacity(size_t largest) {
  size_t wanted = PARTS * record_bytes(MIN_OF(largest, IN_PLACE));
  return mem_round_up(MAX_OF(wanted, SMALLEST_RING), shm_page_bytes());
}

static bool goes_whole(const ring *r, size_t record) { return record <= r->capacity / PARTS; }

void link_init(shm_link *l, shm_segment *segment, bool server, shm_bell *other, uint64_t job, size_t largest) {
  *l = (shm_link){.segment = *segment, .job = job, .largest = largest, .other = other};
  *segment = (shm_segment){0};
  l->in = server ? &l->segment.requests : &l->segment.answers;
  l->out = server ? &l->segment.answers : &l->segment.requests;
}

void link_fini(shm_link *l) {
  shm_segment_unmap(&l->segment);
  free(l->block);
  l->block = NULL;
}

/* What has been looked at and is held by nobody goes back. */
static void give_back(shm_link *l) {
  uint64_t position = l->in->mine;
  if (l->hold_count) return; /* the oldest held record decides, see link_release */
  ring_give_back(l->in, position);
  bell_ring(l->other);
}

static link_result fill_block(shm_link *l, size_t filled, net_message *out) {
  const size_t record = mem_round_up(l->block_bytes, RING_GRAIN);
  size_t n = MIN_OF(MIN_OF(filled, record - l->block_have), PIECE);
  if (n) {
    size_t real = l->block_have < l->block_bytes ? MIN_OF(n, l->block_bytes - l->block_have) : 0;
    l->block_checksum = crc32c_copy(l->block_checksum, l->block + l->block_have, ring_at(l->in), real);
    l->block_have += n;
    l->in->mine += n;
    give_back(l);
  }
  if (l->block_have < record || filled - n < TRAILER) return LINK_NOTHING;
  uint32_t sent;
  memcpy(&sent, ring_at(l->in), sizeof sent);
  l->in->mine += TRAILER;
  give_back(l);
  l->block_filling = false;
  if (sent != l->block_checksum) return LINK_DAMAGED;
  l->block_held = true;
  l->block_hold = (shm_hold){.where = HOLD_BLOCK, .link = l};
  *out = (net_message){.header = l->block_header, .payload = l->block, .bytes = l->block_bytes, .hold = &l->block_hold};
  return LINK_MESSAGE;
}

/* Room for a message: as large as the largest so far, since `largest` may be far more than ever comes. */
static bool make_block(shm_link *l, size_t bytes) {
  if (l->block && l->block_room >= bytes) return true;
  free(l->block);
  l->block_room = mem_round_up(bytes, MEM_ALIGN);
  l->block = aligned_alloc(MEM_ALIGN, l->block_room);
  if (l->block && bytes >= (8u << 20)) madvise(l->block, l->block_room, MADV_HUGEPAGE); /* only advice */
  return l->block != NULL;
}

link_result link_take(shm_link *l, net_message *out) {
  ring *in = l->in;
  size_t filled;
  if (!ring_filled(in, &filled)) return LINK_BROKEN;
  if (l->block_filling) return fill_block(l, filled, out);
  if (!filled || l->hold_count == LINK_HOLDS) return LINK_NOTHING;
  uint8_t bytes_of_header[WIRE_HEADER]; /* a copy: the other side may change its own */
  memcpy(bytes_of_header, ring_at(in), WIRE_HEADER);
  net_header header;
  uint64_t job, bytes;
  if (wire_decode(bytes_of_header, WIRE_HEADER, l->largest, &header, &job, &bytes) || job != l->job ||
      header.kind >= NET_GONE)
    return LINK_BROKEN;
  size_t record = record_bytes((size_t)bytes);
  if (!goes_whole(in, record)) {
    if (l->block_held) return LINK_NOTHING;
    if (!make_block(l, (size_t)bytes)) return LINK_NO_MEMORY;
    l->block_filling = true;
    l->block_have = l->block_checksum = 0;
    l->block_header = header;
    l->block_bytes = (size_t)bytes;
    in->mine += WIRE_HEADER;
    return fill_block(l, filled - WIRE_HEADER, out);
  }
  if (filled < record) return LINK_BROKEN; /* such records are published whole */
  const uint8_t *payload = ring_at(in) + WIRE_HEADER;
  if (crc32c(0, payload, (size_t)bytes) != wire_checksum(bytes_of_header)) return LINK_DAMAGED;
  shm_hold *hold = &l->holds[(l->first_hold + l->hold_count++) % LINK_HOLDS];
  *out = (net_message){.header = header, .payload = payload, .bytes = (size_t)bytes, .hold = hold};
  in->mine += record;
  *hold = (shm_hold){.where = HOLD_RING, .link = l, .end = in->mine};
  return LINK_MESSAGE;
}

void link_release(shm_link *l, shm_hold *h) {
  if (h->where == HOLD_BLOCK) {
    l->block_held = false;
    return;
  }
  h->released = true;
  uint64_t end = 0;
  while (l->hold_count && l->holds[l->first_hold].released) {
    end = l->holds[l->first_hold].end;
    l->first_hold = (l->first_hold + 1) % LINK_HOLDS;
    l->hold_count--;
  }
  if (!end) return;
  ring_give_back(l->in, l->hold_count ? end : l->in->mine);
  bell_ring(l->other);
}

bool link_holding(const shm_link *l) { return l->hold_count || l->block_held; }

bool link_has_pieces(shm_link *l) {
  size_t filled;
  return l->block_filling && ring_filled(l->in, &filled) && filled;
}

bool link_waits_for_release(const shm_link *l) { return l->hold_count == LINK_HOLDS || l->block_held; }

uint8_t *link_take_block(shm_link *l) {
  uint8_t *block = l->block;
  l->block = NULL;
  l->block_held = false;
  return block;
}

void link_outgoing_init(link_outgoing *o, const shm_link *l, const net_header *header, const net_part *parts, int n,
                        size_t bytes) {
  *o = (link_outgoing){.parts = parts, .n = n, .left = record_bytes(bytes)};
  o->whole = goes_whole(l->out, o->left);
  if (!o->whole) o->left += TRAILER;
  wire_encode(header, l->job, bytes, o->header);
}

/* The next `bytes` of the payload and its filling to `to`. */
static void copy_parts(link_outgoing *o, uint8_t *to, size_t bytes) {
  while (bytes && o->part < o->n) {
    const net_part *p = &o->parts[o->part];
    size_t n = MIN_OF(bytes, p->bytes - o->offset);
    if (n) o->checksum = crc32c_copy(o->checksum, to, (const uint8_t *)p->data + o->offset, n);
    to += n;
    bytes -= n;
    o->offset += n;
    if (o->offset == p->bytes) {
      o->part++;
      o->offset = 0;
    }
  }
  memset(to, 0, bytes); /* nothing of ours leaks into the filling */
}

link_result link_push(shm_link *l, link_outgoing *o) {
  ring *out = l->out;
  size_t space;
  if (!ring_space(out, &space)) return LINK_BROKEN;
  if (space < (o->whole ? o->left : RING_GRAIN)) {
    if (l->quiet) bell_ring(l->other);
    return LINK_NOTHING;
  }
  while (o->left && space) {
    size_t n = MIN_OF(o->left, o->whole ? o->left : MIN_OF(space, out->capacity / PARTS));
    const size_t head = o->started ? 0 : WIRE_HEADER, tail = n == o->left && !o->whole ? TRAILER : 0;
    uint8_t *to = ring_at(out);
    copy_parts(o, to + head, n - head - tail);
    if (o->whole) wire_seal(o->header, o->checksum);
    if (head) memcpy(to, o->header, WIRE_HEADER);
    if (tail) {
      memset(to + n - tail, 0, tail);
      memcpy(to + n - tail, &o->checksum, sizeof o->checksum);
    }
    o->started = true;
    o->left -= n;
    space -= n;
    if (!ring_publish(out, n)) return LINK_BROKEN;
    if (!l->quiet || space < out->capacity / 2) bell_ring(l->other);
  }
  return o->left ? LINK_NOTHING : LINK_DONE;
}
