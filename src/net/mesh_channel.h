/* The bytes between two ranks of a mesh, both ways: a connection of TCP, or two rings of shared memory. Nothing waits. */
#ifndef SHOAL_NET_MESH_CHANNEL_H
#define SHOAL_NET_MESH_CHANNEL_H

#include "net/shm_ring.h"
#include "net/tcp_stream.h"

typedef struct {
  tcp_stream stream;   /* of shared memory only its socket, which tells when the other side ends */
  shm_segment segment; /* page NULL: TCP */
  ring *in, *out;
  shm_bell *bell; /* the other's */
} mesh_channel;

/* Takes the segment. first: of the two this is the one that made it. */
void mesh_channel_share(mesh_channel *c, shm_segment *segment, bool first, shm_bell *bell);
void mesh_channel_fini(mesh_channel *c);

/* As tcp_stream_send and tcp_stream_read. The message has at most one part. */
tcp_stream_result mesh_channel_send(mesh_channel *c, tcp_stream_outgoing *o);
tcp_stream_result mesh_channel_read(mesh_channel *c, void *to, size_t n, size_t *got);
/* After the last byte of a message of so many: passes over what fills it up. */
void mesh_channel_end(mesh_channel *c, size_t bytes);
/* Whether there is something to read. */
bool mesh_channel_ready(mesh_channel *c);

#endif
