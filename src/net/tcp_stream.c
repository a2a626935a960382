#include "net/tcp_stream.h"

#include "base/clock.h"
#include "base/mem.h"

#include <errno.h>
#include <linux/sockios.h>
#include <openssl/err.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
  TLS_RECORD = 16384,                                     /* bytes of the largest record */
  RECORDS = 8,                                            /* that leave with one call */
  RECORD_EXTRA = 256,                                     /* what a record adds to its bytes: 22, and at most 255 */
  OUT_ROOM = (RECORDS + 1) * (TLS_RECORD + RECORD_EXTRA), /* one more for what OpenSSL has to say itself */
  IN_ROOM = 128 << 10,                                    /* bytes taken from the socket at once */
  VECTORS = 16
};
#define REKEY_BYTES ((uint64_t)1 << 36) /* AES-GCM is good for 2^24.5 records, 388 GB, with the same key */

/* ---- how OpenSSL reaches the socket */

static ssize_t receive(tcp_stream *s, void *to, size_t n) {
  if (s->edge && s->drained && !s->hung_up) {
    errno = EAGAIN;
    return -1;
  }
  ssize_t got = recv(s->sock, to, n, s->block ? 0 : MSG_DONTWAIT);
  s->drained = got < (ssize_t)n;
  return got;
}

static bool would_wait(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

/* Reads come through a buffer of our own: OpenSSL's is not aligned, which makes the kernel's copy several times as slow,
 * and a record costs two reads without one. */
static int read_bytes(BIO *b, char *to, int n) {
  tcp_stream *s = BIO_get_data(b);
  BIO_clear_retry_flags(b);
  if (s->taken == s->received) {
    ssize_t got = receive(s, s->in, IN_ROOM);
    if (got < 0 && would_wait(errno)) BIO_set_retry_read(b);
    if (got <= 0) return got < 0 && would_wait(errno) ? -1 : 0; /* a lost connection has ended */
    s->taken = 0;
    s->received = (size_t)got;
  }
  size_t k = MIN_OF((size_t)n, s->received - s->taken);
  memcpy(to, s->in + s->taken, k);
  s->taken += k;
  return (int)k;
}

/* tcp_stream_send sees to it that there is room; a handshake needs little. */
static int write_bytes(BIO *b, const char *from, int n) {
  tcp_stream *s = BIO_get_data(b);
  BIO_clear_retry_flags(b);
  if ((size_t)n > OUT_ROOM - s->filled) return -1;
  memcpy(s->out + s->filled, from, (size_t)n);
  s->filled += (size_t)n;
  return n;
}

static long control_bytes(BIO *b, int command, long number, void *pointer) { return command == BIO_CTRL_FLUSH; }

static bool attach(tcp_stream *s, tcp_tls *tls) {
  if (!tls->bytes) {
    tls->bytes = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "shoal");
    if (!tls->bytes || !BIO_meth_set_read(tls->bytes, read_bytes) || !BIO_meth_set_write(tls->bytes, write_bytes) ||
        !BIO_meth_set_ctrl(tls->bytes, control_bytes))
      return false;
  }
  s->ssl = SSL_new(tls->context);
  BIO *b = s->ssl ? BIO_new(tls->bytes) : NULL;
  if (!b) return false;
  BIO_set_data(b, s);
  BIO_set_init(b, 1);
  SSL_set_bio(s->ssl, b, b); /* takes it */
  SSL_set_app_data(s->ssl, &s->visitor);
  if (SSL_is_server(s->ssl))
    SSL_set_accept_state(s->ssl);
  else
    SSL_set_connect_state(s->ssl);
  return true;
}

shoal_status tcp_stream_init(tcp_stream *s, int sock, tcp_tls *tls, uint64_t rekey) {
  *s = (tcp_stream){.sock = sock, .rekey = rekey ? rekey : REKEY_BYTES};
  if (!tls) return NULL;
  s->out = malloc(OUT_ROOM + TLS_RECORD);
  s->in = aligned_alloc(MEM_ALIGN, IN_ROOM);
  if (s->out && s->in && attach(s, tls)) return NULL;
  ERR_clear_error();
  tcp_stream_fini(s);
  return status_no_memory();
}

void tcp_stream_move(tcp_stream *from, tcp_stream *to) {
  *to = *from;
  *from = (tcp_stream){.sock = -1};
  if (!to->ssl) return;
  BIO_set_data(SSL_get_rbio(to->ssl), to);
  SSL_set_app_data(to->ssl, &to->visitor);
}

/* TLS says the end itself, so that nobody else can. */
static void say_goodbye(tcp_stream *s) {
  if (!s->ssl || s->filled != s->sent || !SSL_is_init_finished(s->ssl) || SSL_get_shutdown(s->ssl)) return;
  SSL_shutdown(s->ssl);
  ERR_clear_error();
  (void)tcp_stream_flush(s);
}

void tcp_stream_linger(tcp_stream *s, double until) {
  uint8_t nowhere[4096];
  int unsent = 0;
  say_goodbye(s);
  shutdown(s->sock, SHUT_WR);
  for (;;) {
    while (recv(s->sock, nowhere, sizeof nowhere, MSG_DONTWAIT) > 0) continue;
    if (ioctl(s->sock, SIOCOUTQ, &unsent) || !unsent || clock_seconds() > until) return;
    poll(NULL, 0, 1);
  }
}

void tcp_stream_fini(tcp_stream *s) {
  say_goodbye(s);
  SSL_free(s->ssl);
  free(s->out);
  free(s->in);
  if (s->sock >= 0) close(s->sock);
  *s = (tcp_stream){.sock = -1};
}

void tcp_stream_event(tcp_stream *s, bool hung_up) {
  s->drained = false;
  s->hung_up = s->hung_up || hung_up;
}

/* ---- handshake and reading */

/* OpenSSL tells results of a call from those of an earlier one by this list being empty. */
static void forget_errors(void) {
  if (ERR_peek_error()) ERR_clear_error();
}

/* What a call of OpenSSL that gave `result` says. */
static tcp_stream_result result_of(tcp_stream *s, int result) {
  switch (SSL_get_error(s->ssl, result)) {
    case SSL_ERROR_WANT_READ: return TCP_STREAM_WAIT;
    case SSL_ERROR_ZERO_RETURN:
    case SSL_ERROR_SYSCALL: return TCP_STREAM_END;
    default: s->error = ERR_peek_error(); return TCP_STREAM_WRONG;
  }
}

tcp_stream_result tcp_stream_handshake(tcp_stream *s) {
  if (!s->ssl) return TCP_STREAM_DONE;
  ERR_clear_error();
  int n = SSL_do_handshake(s->ssl);
  tcp_stream_result r = n == 1 ? TCP_STREAM_DONE : result_of(s, n);
  if (r == TCP_STREAM_DONE && !SSL_session_reused(s->ssl)) r = TCP_STREAM_WRONG; /* not by the key we share */
  ERR_clear_error();
  tcp_stream_result flushed = tcp_stream_flush(s); /* an alert, too */
  return r == TCP_STREAM_DONE ? flushed : r;
}

void tcp_stream_go_plain(tcp_stream *s) {
  SSL_free(s->ssl);
  s->ssl = NULL;
}

tcp_stream_result tcp_stream_read(tcp_stream *s, void *to, size_t n, size_t *got) {
  if (s->ssl) {
    forget_errors();
    int result = SSL_read_ex(s->ssl, to, n, got);
    return result == 1 ? TCP_STREAM_DONE : result_of(s, result);
  }
  ssize_t k = receive(s, to, n);
  if (k < 0 && would_wait(errno)) return TCP_STREAM_WAIT;
  if (k <= 0) return TCP_STREAM_END;
  *got = (size_t)k;
  return TCP_STREAM_DONE;
}

/* ---- sending */

void tcp_stream_outgoing_init(tcp_stream_outgoing *o, const net_part *parts, int n, size_t bytes) {
  o->parts = parts;
  o->n = n;
  o->part = -1;
  o->offset = 0;
  o->left = sizeof o->header + bytes;
}

net_part tcp_stream_next_piece(const tcp_stream_outgoing *o) {
  if (o->part < 0) return (net_part){o->header + o->offset, sizeof o->header - o->offset};
  const net_part *p = &o->parts[o->part];
  return (net_part){(const uint8_t *)p->data + o->offset, p->bytes - o->offset};
}

void tcp_stream_advance(tcp_stream_outgoing *o, size_t bytes) {
  o->left -= bytes;
  o->offset += bytes;
  while (o->part < o->n) {
    size_t room = o->part < 0 ? sizeof o->header : o->parts[o->part].bytes;
    if (o->offset < room) return;
    o->offset -= room;
    o->part++;
  }
}

tcp_stream_result tcp_stream_flush(tcp_stream *s) {
  while (s->sent < s->filled) {
    ssize_t n = send(s->sock, s->out + s->sent, s->filled - s->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && would_wait(errno)) return TCP_STREAM_WAIT;
    if (n < 0) return TCP_STREAM_END;
    s->sent += (size_t)n;
  }
  s->sent = s->filled = 0;
  return TCP_STREAM_DONE;
}

/* Encrypts up to a buffer full. Records are full wherever there are bytes for it. */
static tcp_stream_result encrypt(tcp_stream *s, tcp_stream_outgoing *o) {
  uint8_t *together = s->out + OUT_ROOM;
  while (o->left && s->filled + TLS_RECORD + RECORD_EXTRA <= (size_t)OUT_ROOM - TLS_RECORD - RECORD_EXTRA) {
    net_part piece = tcp_stream_next_piece(o);
    size_t n = 0, done;
    const void *from = piece.data;
    if (piece.bytes >= TLS_RECORD || piece.bytes == o->left) {
      n = MIN_OF(piece.bytes, TLS_RECORD);
      tcp_stream_advance(o, n);
    } else {
      from = together;
      while (o->left && n < TLS_RECORD) {
        piece = tcp_stream_next_piece(o);
        size_t k = MIN_OF(piece.bytes, TLS_RECORD - n);
        memcpy(together + n, piece.data, k);
        n += k;
        tcp_stream_advance(o, k);
      }
    }
    if (s->encrypted > s->rekey) {
      if (!SSL_key_update(s->ssl, SSL_KEY_UPDATE_NOT_REQUESTED)) return TCP_STREAM_WRONG;
      s->encrypted = 0;
    }
    s->encrypted += n;
    forget_errors();
    if (SSL_write_ex(s->ssl, from, n, &done) != 1) return TCP_STREAM_WRONG;
  }
  return TCP_STREAM_DONE;
}

static tcp_stream_result send_plain(tcp_stream *s, tcp_stream_outgoing *o) {
  while (o->left) {
    struct iovec vectors[VECTORS];
    struct msghdr m = {.msg_iov = vectors};
    tcp_stream_outgoing ahead = *o;
    while (ahead.left && m.msg_iovlen < VECTORS) {
      net_part piece = tcp_stream_next_piece(&ahead);
      if (ahead.part < 0) piece.data = o->header + ahead.offset; /* of the one that stays */
      vectors[m.msg_iovlen++] = (struct iovec){(void *)(uintptr_t)piece.data, piece.bytes};
      tcp_stream_advance(&ahead, piece.bytes);
    }
    ssize_t n = sendmsg(s->sock, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && would_wait(errno)) return TCP_STREAM_WAIT;
    if (n < 0) return TCP_STREAM_END;
    tcp_stream_advance(o, (size_t)n);
  }
  return TCP_STREAM_DONE;
}

tcp_stream_result tcp_stream_send(tcp_stream *s, tcp_stream_outgoing *o) {
  if (!s->ssl) return send_plain(s, o);
  for (;;) {
    tcp_stream_result r = tcp_stream_flush(s);
    if (r != TCP_STREAM_DONE || !o->left) return r;
    r = encrypt(s, o);
    if (r != TCP_STREAM_DONE) return r;
  }
}
