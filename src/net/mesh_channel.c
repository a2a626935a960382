#include "net/mesh_channel.h"

#include "base/mem.h"

#include <string.h>

void mesh_channel_share(mesh_channel *c, shm_segment *segment, bool first, shm_bell *bell) {
  c->segment = *segment;
  *segment = (shm_segment){0};
  c->in = first ? &c->segment.requests : &c->segment.answers;
  c->out = first ? &c->segment.answers : &c->segment.requests;
  c->bell = bell;
}

void mesh_channel_fini(mesh_channel *c) {
  shm_segment_unmap(&c->segment);
  tcp_stream_fini(&c->stream);
}

static size_t filling(size_t bytes) { return mem_round_up(bytes, RING_GRAIN) - bytes; }

/* Everything in a ring begins at a multiple of RING_GRAIN: headers are that long, payloads are filled up. */
static tcp_stream_result send_shared(mesh_channel *c, tcp_stream_outgoing *o) {
  size_t room, written = 0;
  if (!ring_space(c->out, &room)) return TCP_STREAM_WRONG;
  while (o->left && written < room) {
    const net_part piece = tcp_stream_next_piece(o);
    const size_t n = MIN_OF(piece.bytes, room - written);
    memcpy(c->out->data + (c->out->mine + written) % c->out->capacity, piece.data, n);
    tcp_stream_advance(o, n);
    written += n;
  }
  written += filling(written); /* room and headers are multiples, so only the end of a payload is not */
  if (written) {
    ring_publish(c->out, written);
    bell_ring(c->bell);
  }
  return o->left ? TCP_STREAM_WAIT : TCP_STREAM_DONE;
}

tcp_stream_result mesh_channel_send(mesh_channel *c, tcp_stream_outgoing *o) {
  return c->segment.page ? send_shared(c, o) : tcp_stream_send(&c->stream, o);
}

/* What was read in full grains is the writer's again. */
static void give_back(mesh_channel *c) {
  ring_give_back(c->in, c->in->mine - c->in->mine % RING_GRAIN);
  bell_ring(c->bell);
}

tcp_stream_result mesh_channel_read(mesh_channel *c, void *to, size_t n, size_t *got) {
  if (!c->segment.page) return tcp_stream_read(&c->stream, to, n, got);
  size_t there;
  if (!ring_filled(c->in, &there)) return TCP_STREAM_WRONG;
  if (!there) return TCP_STREAM_WAIT;
  *got = MIN_OF(n, there);
  memcpy(to, ring_at(c->in), *got);
  c->in->mine += *got;
  give_back(c);
  return TCP_STREAM_DONE;
}

void mesh_channel_end(mesh_channel *c, size_t bytes) {
  if (!c->segment.page || !filling(bytes)) return;
  c->in->mine += filling(bytes);
  give_back(c);
}

bool mesh_channel_ready(mesh_channel *c) {
  size_t there;
  if (!c->segment.page) return !c->stream.drained || c->stream.hung_up;
  return !ring_filled(c->in, &there) || there;
}
