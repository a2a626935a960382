/* One connection as bytes, encrypted or not. Nothing waits, except reads of a client that asked for it.
 *
 * Encrypted, the stream has a buffer: what is sent is encrypted into it, many records at a time, and leaves with one
 * call; a payload is read from where it lies. Plain, the kernel takes header and payload from where they lie. */
#ifndef SHOAL_NET_TCP_STREAM_H
#define SHOAL_NET_TCP_STREAM_H

#include "net/tcp_tls.h"

typedef enum {
  TCP_STREAM_DONE,
  TCP_STREAM_WAIT,  /* for the socket */
  TCP_STREAM_END,   /* the other side has closed the connection, or it was lost */
  TCP_STREAM_WRONG, /* what came is not what it has to be; nothing more can be read */
} tcp_stream_result;

typedef struct {
  int sock;     /* owned; -1: none */
  bool edge;    /* somebody tells when there is more to read, by tcp_stream_event: not before is it looked for */
  bool drained; /* edge: all that was there has been read */
  bool hung_up; /* edge: the other side has said its last */
  bool block;   /* reads wait as long as SO_RCVTIMEO says */
  SSL *ssl;     /* NULL: plain */
  uint8_t *in;  /* [IN_ROOM] as it came, not yet decrypted; owned */
  size_t taken, received;
  uint8_t *out; /* [OUT_ROOM] encrypted, on its way, then [TLS_RECORD] of parts that are put together; owned */
  size_t sent, filled;
  uint64_t encrypted, rekey; /* bytes since the keys were last changed, and how many there may be */
  unsigned long error;       /* of a handshake, OpenSSL's */
  tls_visitor visitor;
} tcp_stream;

/* Takes the socket, also on failure. tls NULL: plain. rekey: 0 for the standard. */
SHOAL_CHECKED shoal_status tcp_stream_init(tcp_stream *s, int sock, tcp_tls *tls, uint64_t rekey);
/* The stream is at another place from now on; where it was it is as after tcp_stream_fini. */
void tcp_stream_move(tcp_stream *from, tcp_stream *to);
/* Says goodbye, and closes. Zeroed streams with sock -1 are fine. */
void tcp_stream_fini(tcp_stream *s);

/* Until TCP_STREAM_DONE nothing can be read or sent. */
tcp_stream_result tcp_stream_handshake(tcp_stream *s);
/* After a handshake that failed: what is sent from now on is not encrypted. */
void tcp_stream_go_plain(tcp_stream *s);
/* At least one byte, up to n. */
tcp_stream_result tcp_stream_read(tcp_stream *s, void *to, size_t n, size_t *got);

/* A message on its way out. */
typedef struct {
  uint8_t header[64];
  const net_part *parts; /* borrowed */
  int n, part;           /* part: -1 while it is at the header */
  size_t offset;         /* in the part or the header */
  size_t left;           /* bytes that are not yet sent or in the stream's buffer */
} tcp_stream_outgoing;

void tcp_stream_outgoing_init(tcp_stream_outgoing *o, const net_part *parts, int n, size_t bytes);
/* TCP_STREAM_DONE: all of it has been handed to the kernel. */
tcp_stream_result tcp_stream_send(tcp_stream *s, tcp_stream_outgoing *o);
/* What is next in one piece, and going on behind `bytes` of it. */
net_part tcp_stream_next_piece(const tcp_stream_outgoing *o);
void tcp_stream_advance(tcp_stream_outgoing *o, size_t bytes);
/* Sends what is left in the buffer. */
tcp_stream_result tcp_stream_flush(tcp_stream *s);

/* Says that nothing more will be sent, and waits until the other host has all of it, at most until `until`. What comes
 * meanwhile is dropped. */
void tcp_stream_linger(tcp_stream *s, double until);

/* edge: the socket has something new to read; hung_up: the last of it. */
void tcp_stream_event(tcp_stream *s, bool hung_up);

#endif
