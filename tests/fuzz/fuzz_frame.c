/* Anybody at the other end of a TCP connection: any bytes, headers that are right but for a bit, frames that are cut off
 * or too long, before and after the handshake. Messages come out whole, of the right job and sender and within bounds, or
 * the connection ends; nothing else. Odd scripts go to a connection that expects TLS, which lets no message through.
 *
 * The input is a script: a byte that says what to do, then what that needs. */
#include "net/keys.h"
#include "net/tcp_link.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { JOB = 7, FROM = 3, LIMIT = 5000, STEPS = 100 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

/* Up to `size` bytes of the script; zeros behind its end. */
static void take(const uint8_t **at, size_t *left, void *out, size_t size) {
  size_t have = *left < size ? *left : size;
  memset(out, 0, size);
  if (have) memcpy(out, *at, have);
  *at += have;
  *left -= have;
}

/* What the other side would send. */
static size_t act(const uint8_t **at, size_t *left, uint8_t out[2 * LIMIT]) {
  uint8_t what, flip[2], fields[4];
  uint16_t length;
  take(at, left, &what, 1);
  take(at, left, &length, sizeof length);
  length %= 2 * LIMIT - WIRE_HEADER;
  memset(out, what, 2 * LIMIT);
  if (what % 4 == 0) { /* raw bytes */
    size_t n = *left < length ? *left : length;
    take(at, left, out, n);
    return n;
  }
  take(at, left, fields, sizeof fields);
  net_header h = {.kind = fields[0], .from = fields[1] & 1 ? FROM : fields[1]};
  if (fields[0] > 250) h.kind = (uint16_t)(NET_GONE + fields[0] - 250);
  wire_encode(&h, fields[2] & 1 ? JOB : fields[2], length, out);
  if (!(fields[3] & 128)) wire_seal(out, wire_checksum_of(&(net_part){out + WIRE_HEADER, length}, 1));
  if (what % 4 == 2) { /* a flipped bit */
    take(at, left, flip, sizeof flip);
    out[flip[0] % WIRE_HEADER] ^= (uint8_t)(1 << flip[1] % 8);
  }
  return WIRE_HEADER + (what % 4 == 3 && fields[3] < length ? fields[3] : length);
}

static void check(tcp_link *l, const net_message *m) {
  if (m->bytes > LIMIT || (uintptr_t)m->payload % 64) __builtin_trap();
  if (m->header.kind < NET_GONE && (!l->known || m->header.from != FROM || l->incoming_job != JOB)) __builtin_trap();
  if (l->stream.ssl) __builtin_trap();
  volatile uint8_t last = m->bytes ? m->payload[m->bytes - 1] : 0;
  (void)last;
}

static bool read_all(tcp_link *l, tcp_pool *pool) {
  for (;;) {
    net_message m;
    bool more;
    if (l->stream.ssl && tcp_stream_handshake(&l->stream) != TCP_STREAM_WAIT) return false;
    if (l->stream.ssl) return true;
    tcp_result r = tcp_link_read(l, pool, 1000, &m, &more);
    if (r == TCP_MESSAGE) {
      check(l, &m);
      pool_give(pool, m.hold);
    } else if (r != TCP_NOTHING)
      return false;
    else if (!more)
      return true;
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  int ends[2];
  uint8_t mode, *out = malloc(2 * LIMIT);
  take(&bytes, &n, &mode, 1);
  if (!out || socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) __builtin_trap();
  keys_pair own, other;
  tcp_tls tls = {0};
  tcp_pool pool = {0};
  tcp_link link;
  net_options o = {.job = JOB, .largest = LIMIT};
  if (mode & 1) {
    if (keys_make(0, &own) || keys_make(0, &other)) __builtin_trap();
    const char *allowed[] = {other.public_key, NULL};
    o.public_key = own.public_key;
    o.secret_key = own.secret_key;
    o.allowed = allowed;
    if (tls_create(&o, true, &tls)) __builtin_trap();
  }
  if (tcp_link_init(&link, ends[0], mode & 1 ? &tls : NULL, &o)) __builtin_trap();
  link.server = true;
  link.from = FROM;
  link.known = mode & 2;
  for (int i = 0; n && i < STEPS; i++) {
    size_t length = act(&bytes, &n, out);
    if (length && send(ends[1], out, length, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) break;
    if (!read_all(&link, &pool)) break;
    if (i == 3) link.known = true;
  }
  close(ends[1]);
  (void)read_all(&link, &pool);
  tcp_link_fini(&link, &pool);
  pool_fini(&pool);
  tls_destroy(&tls);
  free(out);
  return 0;
}
