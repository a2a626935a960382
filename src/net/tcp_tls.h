/* TLS 1.3 with the keys of `shoal keygen`: what an endpoint has of it. OpenSSL is used here and in tcp_stream.c alone.
 *
 * Keys are those of X25519. Client and server each compute the same secret from their own secret key and the other's
 * public one; TLS takes it as a pre-shared key, together with fresh ones of X25519 for each connection. So a connection
 * exists only between two that know each other's public keys, and what was said on it stays secret when keys leak
 * later. There are no certificates: a peer that has not shown its key gets no further than its first message. */
#ifndef SHOAL_NET_TCP_TLS_H
#define SHOAL_NET_TCP_TLS_H

#include "net/transport.h"

#include <openssl/ssl.h>

enum { TLS_IDENTITY = 40, TLS_SECRET = 32, TLS_WORDS = 160 };

/* Somebody who may be at the other end. */
typedef struct {
  char identity[TLS_IDENTITY]; /* the client's public key, Z85 */
  uint8_t secret[TLS_SECRET];
  int64_t expires; /* seconds since 1970; 0: never */
} tls_peer;

typedef struct {
  SSL_CTX *context;
  BIO_METHOD *bytes; /* how OpenSSL reaches the socket, see tcp_stream.c */
  tls_peer *peers;   /* of a server; a client has one, for itself */
  size_t count;
} tcp_tls;

/* The keys of `options` have been checked by tcp_check_keys. */
SHOAL_CHECKED shoal_status tls_create(const net_options *options, bool server, tcp_tls *out);
/* Leaves no secret in memory. Zeroed ones are fine. */
void tls_destroy(tcp_tls *t);

/* What a handshake found out about the other side; the session's application data (SSL_get_app_data). */
typedef struct {
  char refused[TLS_WORDS]; /* servers: why this one is not let in though its key is right; "": it is */
} tls_visitor;

/* Whether a handshake failed because the other side does not speak TLS at all. */
bool tls_is_plain(unsigned long error);
/* A failed handshake of a client in words: why, and what to do. *final: trying again will not help. */
const char *tls_client_reason(unsigned long error, bool *final);

#endif
