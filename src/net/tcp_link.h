/* One connection over TCP, as either end sees it: whole messages in and out, without waiting.
 *
 * A message is the 64-byte header of wire.h and the payload behind it. A header that does not check ends the
 * connection, since nobody knows where the next one begins; so does a payload that is not what was sent: by its checksum or,
 * encrypted, by TLS, which authenticates every record, so that none is computed besides. A message that is well-formed,
 * but not for us, is passed over. */
#ifndef SHOAL_NET_TCP_LINK_H
#define SHOAL_NET_TCP_LINK_H

#include "net/tcp_stream.h"
#include "net/wire.h"

/* Memory for payloads, used again; of an endpoint, for all its connections. Zeroed ones are valid. */
typedef struct tcp_block tcp_block;
typedef struct {
  tcp_block *spare;
  int count;
} tcp_pool;

struct tcp_block {
  uint8_t *data; /* [room], 64-byte aligned */
  size_t room;
  tcp_block *next;
};

void pool_give(tcp_pool *pool, tcp_block *b); /* NULL is fine */
void pool_fini(tcp_pool *pool);

typedef struct {
  tcp_stream stream;
  uint64_t job, limit; /* what messages must be of; payload bytes of the largest */
  uint32_t from;       /* servers: who they must be from */
  bool server, known;  /* known: the handshake is over, messages of the application may come */
  uint8_t header[WIRE_HEADER];
  size_t have; /* bytes of the message that are there, header included */
  net_header incoming;
  uint64_t incoming_job, incoming_bytes;
  tcp_block *block;  /* being filled; NULL: the payload is passed over, or there is none yet */
  uint32_t checksum; /* of the payload so far */
  bool damaged;      /* TCP_WRONG: a payload was not what was sent */
  uint64_t refused;  /* messages passed over */
  uint16_t foreign;  /* TCP_WRONG: the version of the protocol that the other side speaks; 0: ours, or nonsense */
} tcp_link;

typedef enum { TCP_MESSAGE, TCP_NOTHING, TCP_END, TCP_WRONG, TCP_NO_MEMORY } tcp_result;

/* Takes the socket, also on failure. */
SHOAL_CHECKED shoal_status tcp_link_init(tcp_link *l, int sock, tcp_tls *tls, const net_options *options);
void tcp_link_fini(tcp_link *l, tcp_pool *pool);

/* Reads at most about `budget` bytes. TCP_NOTHING: there is no whole message yet; *more: but there may be more to read
 * already. Own messages of the transports (WIRE_HELLO ...) are handed out, too. out->hold is the message's block. */
tcp_result tcp_link_read(tcp_link *l, tcp_pool *pool, size_t budget, net_message *out, bool *more);

void tcp_link_prepare(const tcp_link *l, const net_header *header, const net_part *parts, int n, size_t bytes,
                      tcp_stream_outgoing *out);

#endif
