#include "observe/http_tls.h"

#include "base/mem.h"

#include <arpa/inet.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct http_tls {
  SSL_CTX *context;
  SSL *ssl; /* owns the two below */
  BIO *in, *out;
  char host[256]; /* without brackets */
};

void http_tls_destroy(http_tls *t) {
  if (!t) return;
  SSL_free(t->ssl);
  SSL_CTX_free(t->context);
  free(t);
}

static bool is_address(const char *host) {
  unsigned char bytes[16];
  return inet_pton(AF_INET, host, bytes) == 1 || inet_pton(AF_INET6, host, bytes) == 1;
}

/* Whose certificate is expected. */
static bool expect_host(http_tls *t) {
  if (is_address(t->host)) return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(t->ssl), t->host);
  return SSL_set1_host(t->ssl, t->host) && SSL_set_tlsext_host_name(t->ssl, t->host);
}

static bool prepare(http_tls *t) {
  SSL_CTX_set_verify(t->context, SSL_VERIFY_PEER, NULL);
  if (!SSL_CTX_set_min_proto_version(t->context, TLS1_2_VERSION) || !SSL_CTX_set_default_verify_paths(t->context))
    return false;
  t->ssl = SSL_new(t->context);
  t->in = BIO_new(BIO_s_mem());
  t->out = BIO_new(BIO_s_mem());
  if (!t->ssl || !t->in || !t->out) {
    BIO_free(t->in);
    BIO_free(t->out);
    return false;
  }
  SSL_set_bio(t->ssl, t->in, t->out);
  SSL_set_connect_state(t->ssl);
  return expect_host(t);
}

shoal_status http_tls_create(const char *host, const char *ca, http_tls **out) {
  http_tls *t = calloc(1, sizeof *t);
  if (!t) return status_no_memory();
  const bool bracketed = *host == '[' && *(host + strlen(host) - 1) == ']';
  snprintf(t->host, sizeof t->host, "%.*s", (int)(strlen(host) - (bracketed ? 2 : 0)), host + bracketed);
  t->context = SSL_CTX_new(TLS_client_method());
  shoal_status status = NULL;
  if (!t->context || !prepare(t))
    status = status_make(SHOAL_ERR_INTERNAL, "cannot set up TLS for '%s'", t->host);
  else if (ca && !SSL_CTX_load_verify_file(t->context, ca))
    status = status_make(SHOAL_ERR_INPUT, "%s: no certificates can be read from it", ca);
  ERR_clear_error();
  if (status)
    http_tls_destroy(t);
  else
    *out = t;
  return status;
}

/* ---- calls */

static tls_result result_of(http_tls *t, int returned) {
  if (returned > 0) return TLS_DONE;
  switch (SSL_get_error(t->ssl, returned)) {
    case SSL_ERROR_WANT_READ: return TLS_MORE;
    case SSL_ERROR_ZERO_RETURN: return TLS_ENDED;
    default: return TLS_FAILED;
  }
}

tls_result http_tls_greet(http_tls *t) {
  ERR_clear_error();
  return result_of(t, SSL_do_handshake(t->ssl));
}

tls_result http_tls_write(http_tls *t, const void *bytes, size_t n) {
  ERR_clear_error();
  return result_of(t, SSL_write(t->ssl, bytes, (int)MIN_OF(n, INT_MAX)));
}

tls_result http_tls_read(http_tls *t, void *bytes, size_t max, size_t *n) {
  ERR_clear_error();
  return result_of(t, SSL_read_ex(t->ssl, bytes, max, n));
}

size_t http_tls_outgoing(http_tls *t, void *bytes, size_t max) {
  const int n = BIO_read(t->out, bytes, (int)MIN_OF(max, INT_MAX));
  return n > 0 ? (size_t)n : 0;
}

bool http_tls_incoming(http_tls *t, const void *bytes, size_t n) { return BIO_write(t->in, bytes, (int)n) == (int)n; }

const char *http_tls_trouble(http_tls *t, char words[TLS_TROUBLE]) {
  const long verified = SSL_get_verify_result(t->ssl);
  const unsigned long error = ERR_peek_last_error();
  const char *reason = error ? ERR_reason_error_string(error) : NULL;
  if (verified == X509_V_ERR_HOSTNAME_MISMATCH || verified == X509_V_ERR_IP_ADDRESS_MISMATCH)
    snprintf(words, TLS_TROUBLE, "its certificate is for another host than '%s'", t->host);
  else if (verified != X509_V_OK)
    snprintf(words, TLS_TROUBLE,
             "its certificate is not trusted (%s); SSL_CERT_FILE names a file of certificates to trust in place of the "
             "system's",
             X509_verify_cert_error_string(verified));
  else
    snprintf(
        words, TLS_TROUBLE, "no connection by TLS (%s)%s", reason ? reason : "it broke off",
        error && ERR_GET_REASON(error) == SSL_R_WRONG_VERSION_NUMBER ? "; is it http:// in place of https://?" : "");
  ERR_clear_error();
  return words;
}
