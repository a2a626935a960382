#include "net/tcp_link.h"

#include "base/crc32c.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { SPARE_MAX = 64, SKIP = 4096 };
#define HUGE_PAGES ((size_t)4 << 20) /* blocks from here on ask for them */

/* ---- memory */

static void block_free(tcp_block *b) {
  if (b) free(b->data);
  free(b);
}

void pool_give(tcp_pool *pool, tcp_block *b) {
  if (!b) return;
  if (pool->count == SPARE_MAX) {
    block_free(b);
    return;
  }
  b->next = pool->spare;
  pool->spare = b;
  pool->count++;
}

void pool_fini(tcp_pool *pool) {
  while (pool->spare) {
    tcp_block *next = pool->spare->next;
    block_free(pool->spare);
    pool->spare = next;
  }
  pool->count = 0;
}

/* The smallest spare block that is large enough, unless it is far too large; otherwise a new one in place of a spare
 * one, so that sizes that grow leave nothing behind. NULL: no memory. */
static tcp_block *pool_take(tcp_pool *pool, size_t bytes) {
  tcp_block **best = NULL, **last = NULL;
  for (tcp_block **b = &pool->spare; *b; b = &(*b)->next) {
    if ((*b)->room >= bytes && (*b)->room / 64 <= bytes + 1024 && (!best || (*b)->room < (*best)->room)) best = b;
    if ((*b)->room < bytes) last = b;
  }
  tcp_block **from = best ? best : pool->count >= SPARE_MAX / 4 ? last : NULL;
  tcp_block *b = from ? *from : calloc(1, sizeof *b);
  if (from) {
    *from = b->next;
    pool->count--;
  }
  if (!b || (b->data && b->room >= bytes)) return b;
  free(b->data);
  b->room = mem_round_up(MAX_OF(bytes, 1024), MEM_ALIGN);
  void *data;
  if (posix_memalign(&data, b->room >= HUGE_PAGES ? (size_t)2 << 20 : MEM_ALIGN, b->room)) {
    free(b);
    return NULL;
  }
  b->data = data;
  if (b->room >= HUGE_PAGES) madvise(b->data, b->room, MADV_HUGEPAGE);
  return b;
}

/* ---- a connection */

shoal_status tcp_link_init(tcp_link *l, int sock, tcp_tls *tls, const net_options *options) {
  *l = (tcp_link){.job = options->job, .limit = options->largest};
  return tcp_stream_init(&l->stream, sock, tls, options->rekey);
}

void tcp_link_fini(tcp_link *l, tcp_pool *pool) {
  tcp_stream_fini(&l->stream);
  pool_give(pool, l->block);
  l->block = NULL;
}

static tcp_result unread(tcp_stream_result r) {
  return r == TCP_STREAM_WAIT ? TCP_NOTHING : r == TCP_STREAM_END ? TCP_END : TCP_WRONG;
}

/* The header is there. */
static tcp_result begin(tcp_link *l, tcp_pool *pool) {
  const char *wrong = wire_decode(l->header, WIRE_HEADER, MAX_OF(l->limit, WIRE_OWN_MAX), &l->incoming,
                                  &l->incoming_job, &l->incoming_bytes);
  if (wrong) {
    l->foreign = wire_other_version(l->header, WIRE_HEADER);
    return TCP_WRONG;
  }
  const bool own = l->incoming.kind >= NET_GONE;
  if (l->incoming_bytes > (own ? WIRE_OWN_MAX : l->limit)) return TCP_WRONG;
  const bool ours = l->known && l->incoming_job == l->job && (!l->server || l->incoming.from == l->from);
  if (!own && !ours) return TCP_NOTHING;
  l->checksum = 0;
  l->block = pool_take(pool, l->incoming_bytes);
  return l->block ? TCP_NOTHING : TCP_NO_MEMORY;
}

static tcp_result finish(tcp_link *l, net_message *out) {
  l->have = 0;
  if (!l->block) {
    l->refused++;
    return TCP_NOTHING;
  }
  l->damaged = !l->stream.ssl && l->checksum != wire_checksum(l->header);
  if (l->damaged) return TCP_WRONG;
  *out = (net_message){.header = l->incoming, .payload = l->block->data, .bytes = l->incoming_bytes, .hold = l->block};
  l->block = NULL;
  return TCP_MESSAGE;
}

/* Some of the payload, or of one that is passed over. */
static tcp_stream_result read_payload(tcp_link *l, size_t *got) {
  uint8_t nowhere[SKIP];
  const size_t done = l->have - WIRE_HEADER, left = l->incoming_bytes - done;
  if (!l->block) return tcp_stream_read(&l->stream, nowhere, MIN_OF(left, SKIP), got);
  tcp_stream_result r = tcp_stream_read(&l->stream, l->block->data + done, left, got);
  if (r == TCP_STREAM_DONE && !l->stream.ssl) l->checksum = crc32c(l->checksum, l->block->data + done, *got);
  return r;
}

tcp_result tcp_link_read(tcp_link *l, tcp_pool *pool, size_t budget, net_message *out, bool *more) {
  *more = false;
  for (size_t taken = 0, got; taken <= budget; taken += got) {
    tcp_stream_result r;
    if (l->have < WIRE_HEADER) {
      r = tcp_stream_read(&l->stream, l->header + l->have, WIRE_HEADER - l->have, &got);
      if (r != TCP_STREAM_DONE) return unread(r);
      l->have += got;
      if (l->have < WIRE_HEADER) continue;
      tcp_result begun = begin(l, pool);
      if (begun != TCP_NOTHING) return begun;
    } else {
      r = read_payload(l, &got);
      if (r != TCP_STREAM_DONE) return unread(r);
      l->have += got;
    }
    if (l->have < WIRE_HEADER + l->incoming_bytes) continue;
    const tcp_result finished = finish(l, out);
    if (finished != TCP_NOTHING) return finished;
  }
  *more = true;
  return TCP_NOTHING;
}

void tcp_link_prepare(const tcp_link *l, const net_header *header, const net_part *parts, int n, size_t bytes,
                      tcp_stream_outgoing *out) {
  wire_encode(header, l->job, bytes, out->header);
  if (!l->stream.ssl) wire_seal(out->header, wire_checksum_of(parts, n));
  tcp_stream_outgoing_init(out, parts, n, bytes);
}
