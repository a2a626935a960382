/* The client's end of TLS with certificates, for https. It has no socket: the caller carries bytes between it and the network. */
#ifndef SHOAL_OBSERVE_HTTP_TLS_H
#define SHOAL_OBSERVE_HTTP_TLS_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct http_tls http_tls;

typedef enum {
  TLS_DONE,
  TLS_MORE,  /* bytes of the network are needed; then the same call again */
  TLS_ENDED, /* the other side has said that nothing follows */
  TLS_FAILED /* http_tls_trouble says why */
} tls_result;

/* host: as in an address, "[::1]" included; its certificate must be for it. ca: a file of certificates to trust besides the
 * system's (which SSL_CERT_FILE and SSL_CERT_DIR replace); NULL: none. INPUT: it cannot be read. */
SHOAL_CHECKED shoal_status http_tls_create(const char *host, const char *ca, http_tls **out);
void http_tls_destroy(http_tls *t); /* NULL is fine */

tls_result http_tls_greet(http_tls *t);
tls_result http_tls_write(http_tls *t, const void *bytes, size_t n); /* n > 0; all of them */
tls_result http_tls_read(http_tls *t, void *bytes, size_t max, size_t *n);

/* To be sent after each call: up to max bytes, 0: none are left. */
size_t http_tls_outgoing(http_tls *t, void *bytes, size_t max);
/* Came from the network. False: no memory. */
bool http_tls_incoming(http_tls *t, const void *bytes, size_t n);

/* Why it failed, and what to do about it. */
enum { TLS_TROUBLE = 400 };
const char *http_tls_trouble(http_tls *t, char words[TLS_TROUBLE]);

#endif
