#include "net/tcp_tls.h"

#include "net/keys.h"

#include "base/mem.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/core_names.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static const char label[] = "shoal tls 1"; /* another way to use the keys would have another one */
static const uint8_t aes_128_gcm[2] = {0x13, 0x01};

/* ---- from keys to the secret of a pair of them */

static bool agree(const uint8_t own[KEYS_BYTES], const uint8_t other[KEYS_BYTES], uint8_t out[KEYS_BYTES]) {
  EVP_PKEY *mine = EVP_PKEY_new_raw_private_key(EVP_PKEY_X25519, NULL, own, KEYS_BYTES);
  EVP_PKEY *theirs = EVP_PKEY_new_raw_public_key(EVP_PKEY_X25519, NULL, other, KEYS_BYTES);
  EVP_PKEY_CTX *c = mine ? EVP_PKEY_CTX_new(mine, NULL) : NULL;
  size_t n = KEYS_BYTES;
  bool good = theirs && c && EVP_PKEY_derive_init(c) > 0 && EVP_PKEY_derive_set_peer(c, theirs) > 0 &&
              EVP_PKEY_derive(c, out, &n) > 0 && n == KEYS_BYTES;
  EVP_PKEY_CTX_free(c);
  EVP_PKEY_free(mine);
  EVP_PKEY_free(theirs);
  return good;
}

static bool expand(uint8_t shared[KEYS_BYTES], const uint8_t client[KEYS_BYTES], const uint8_t server[KEYS_BYTES],
                   uint8_t out[TLS_SECRET]) {
  uint8_t info[sizeof label + 2 * KEYS_BYTES];
  memcpy(info, label, sizeof label);
  memcpy(info + sizeof label, client, KEYS_BYTES);
  memcpy(info + sizeof label + KEYS_BYTES, server, KEYS_BYTES);
  char digest[] = "SHA256";
  OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
                         OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, shared, KEYS_BYTES),
                         OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, info, sizeof info),
                         OSSL_PARAM_construct_end()};
  EVP_KDF *kdf = EVP_KDF_fetch(NULL, "HKDF", NULL);
  EVP_KDF_CTX *c = kdf ? EVP_KDF_CTX_new(kdf) : NULL;
  bool good = c && EVP_KDF_derive(c, out, TLS_SECRET, params) > 0;
  EVP_KDF_CTX_free(c);
  EVP_KDF_free(kdf);
  return good;
}

static shoal_status peer_init(const net_options *o, bool server, const char *other, tls_peer *out) {
  uint8_t secret[KEYS_BYTES], mine[KEYS_BYTES], theirs[KEYS_BYTES], shared[KEYS_BYTES];
  const char *client = server ? other : o->public_key;
  *out = (tls_peer){.expires = keys_expiry(other)};
  memcpy(out->identity, client, TLS_IDENTITY);
  keys_decode(o->secret_key, secret);
  keys_decode(o->public_key, mine);
  keys_decode(other, theirs);
  bool good =
      agree(secret, theirs, shared) && expand(shared, server ? theirs : mine, server ? mine : theirs, out->secret);
  explicit_bzero(secret, sizeof secret);
  explicit_bzero(shared, sizeof shared);
  if (good) return NULL;
  ERR_clear_error();
  return status_make(SHOAL_ERR_ARGUMENT, "'%.40s' is not a public key", other);
}

static shoal_status check_expiry(const char *key, const char *whose) {
  if (!keys_expired(key)) return NULL;
  return status_make(SHOAL_ERR_REFUSED, "%s key has expired (%s); make new ones with `shoal keygen`", whose,
                     key + TLS_IDENTITY + 1);
}

static shoal_status peers_init(tcp_tls *t, const net_options *o, bool server) {
  size_t n = 0;
  if (server)
    while (o->allowed[n]) n++;
  t->peers = calloc(MAX_OF(n, 1), sizeof *t->peers);
  if (!t->peers) return status_no_memory();
  if (!server) {
    t->count = 1;
    TRY(check_expiry(o->server_key, "the server's"));
    return peer_init(o, false, o->server_key, &t->peers[0]);
  }
  for (; t->count < n; t->count++) {
    if (!keys_valid(o->allowed[t->count]))
      return status_make(SHOAL_ERR_ARGUMENT, "client key %zu is not 40 characters of Z85", t->count + 1);
    TRY(peer_init(o, true, o->allowed[t->count], &t->peers[t->count]));
  }
  return NULL;
}

/* ---- handshakes */

static SSL_SESSION *session_of(SSL *ssl, const tls_peer *p) {
  SSL_SESSION *session = SSL_SESSION_new();
  const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, aes_128_gcm);
  if (session && cipher && SSL_SESSION_set1_master_key(session, p->secret, TLS_SECRET) &&
      SSL_SESSION_set_cipher(session, cipher) && SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION))
    return session;
  SSL_SESSION_free(session);
  return NULL;
}

static int find_client(SSL *ssl, const unsigned char *identity, size_t length, SSL_SESSION **out) {
  const tcp_tls *t = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
  tls_visitor *visitor = SSL_get_app_data(ssl);
  *out = NULL;
  for (size_t i = 0; i < t->count && length == TLS_IDENTITY; i++) {
    const tls_peer *p = &t->peers[i];
    if (memcmp(p->identity, identity, TLS_IDENTITY)) continue;
    if (p->expires && time(NULL) >= p->expires)
      snprintf(visitor->refused, sizeof visitor->refused,
               "your key has expired: make a new one with `shoal keygen` and give the server its .pub file");
    *out = session_of(ssl, p);
    return *out != NULL;
  }
  return 1; /* without a session OpenSSL looks for a certificate, and there is none */
}

static int offer_key(SSL *ssl, const EVP_MD *digest, const unsigned char **identity, size_t *length,
                     SSL_SESSION **out) {
  const tcp_tls *t = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
  *out = NULL;
  if (digest && EVP_MD_get_type(digest) != NID_sha256) return 1;
  *identity = (const unsigned char *)t->peers[0].identity;
  *length = TLS_IDENTITY;
  *out = session_of(ssl, &t->peers[0]);
  return *out != NULL;
}

static bool configure(tcp_tls *t, bool server) {
  SSL_CTX *c = t->context;
  SSL_CTX_set_app_data(c, t);
  SSL_CTX_set_options(c, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
  if (server)
    SSL_CTX_set_psk_find_session_callback(c, find_client);
  else {
    SSL_CTX_set_psk_use_session_callback(c, offer_key);
    SSL_CTX_set_verify(c, SSL_VERIFY_PEER, NULL); /* a certificate instead of the key: nobody trusts any */
  }
  return SSL_CTX_set_min_proto_version(c, TLS1_3_VERSION) && SSL_CTX_set_max_proto_version(c, TLS1_3_VERSION) &&
         SSL_CTX_set_ciphersuites(c, "TLS_AES_128_GCM_SHA256") && SSL_CTX_set1_groups_list(c, "X25519") &&
         SSL_CTX_set_num_tickets(c, 0);
}

shoal_status tls_create(const net_options *options, bool server, tcp_tls *out) {
  TRY(check_expiry(options->public_key, "our own"));
  *out = (tcp_tls){.context = SSL_CTX_new(server ? TLS_server_method() : TLS_client_method())};
  shoal_status status = NULL;
  if (!out->context || !configure(out, server)) {
    ERR_clear_error();
    status = status_make(SHOAL_ERR_SYSTEM, "OpenSSL %s: no TLS 1.3 with AES-128-GCM and X25519",
                         OpenSSL_version(OPENSSL_VERSION));
  }
  if (!status) status = peers_init(out, options, server);
  if (status) tls_destroy(out);
  return status;
}

void tls_destroy(tcp_tls *t) {
  SSL_CTX_free(t->context);
  BIO_meth_free(t->bytes);
  if (t->peers) explicit_bzero(t->peers, MAX_OF(t->count, 1) * sizeof *t->peers);
  free(t->peers);
  *t = (tcp_tls){0};
}

const char *tls_client_reason(unsigned long error, bool *final) {
  *final = true;
  switch (ERR_GET_REASON(error)) {
    case SSL_AD_REASON_OFFSET + SSL_AD_HANDSHAKE_FAILURE:
      return "the server does not allow our key; add our .pub file to its allowed keys";
    case SSL_AD_REASON_OFFSET + SSL_AD_ILLEGAL_PARAMETER:
      return "the server has another key than the one we trust; is our server.pub the server's?";
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_AD_REASON_OFFSET + SSL_AD_PROTOCOL_VERSION:
      return "what listens there does not speak TLS 1.3: is it a Shoal server, and was it started with keys?";
    case SSL_R_CERTIFICATE_VERIFY_FAILED:
      return "the server shows a certificate instead of a key: it is no Shoal server";
    default: *final = false; return "the TLS handshake failed";
  }
}

bool tls_is_plain(unsigned long error) { return ERR_GET_REASON(error) == SSL_R_WRONG_VERSION_NUMBER; }
