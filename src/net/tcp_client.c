/* A client's end: one connection. See tcp.h. */
#include "net/tcp.h"
#include "net/tcp_address.h"
#include "net/tcp_link.h"

#include "base/clock.h"
#include "base/mem.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

/* An answer that came while a request was being sent. */
typedef struct tcp_kept {
  net_message message;
  struct tcp_kept *next;
} tcp_kept;

typedef struct {
  net_client base;
  net_options options;
  tcp_tls tls;
  tcp_pool pool;
  tcp_link link;
  tcp_kept *kept; /* oldest first */
  double waits;   /* SO_RCVTIMEO as it is set now, seconds */
  bool gone;      /* the connection was lost */
  bool broken;    /* half a request was sent, or what came does not check */
} tcp_client;

static shoal_status client_state(const tcp_client *c) {
  if (c->link.damaged) return net_damaged();
  if (c->broken)
    return status_make(SHOAL_ERR_PEER,
                       "the connection is broken (a message was cut off or did not check); connect again");
  return status_make(SHOAL_ERR_PEER, "the connection was lost (the server exited, or its host does not respond)");
}

/* From now on reads wait for at most so long; 0: not at all. */
static void set_wait(tcp_client *c, double seconds) {
  c->link.stream.block = seconds > 0;
  if (seconds <= 0 || seconds == c->waits) return;
  struct timeval t = {(time_t)seconds, (suseconds_t)((seconds - (double)(time_t)seconds) * 1e6) + 1};
  if (!setsockopt(c->link.stream.sock, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t)) c->waits = seconds;
}

/* The next answer, if it is there or comes while reads wait. */
static shoal_status take(tcp_client *c, net_message *out, bool *got) {
  *got = false;
  for (bool more = true; more;) {
    const uint64_t before = c->link.refused;
    tcp_result r = tcp_link_read(&c->link, &c->pool, SIZE_MAX / 2, out, &more);
    c->base.stats.refused += c->link.refused - before;
    if (r == TCP_NO_MEMORY) return status_no_memory();
    if (r == TCP_MESSAGE && out->header.kind < NET_GONE) {
      *got = true;
      return NULL;
    }
    if (r == TCP_MESSAGE) {
      c->base.stats.refused++;
      pool_give(&c->pool, out->hold);
      more = true;
    }
    c->gone = c->gone || r == TCP_END;
    if (r == TCP_WRONG) {
      c->broken = true;
      c->base.stats.refused++;
      c->base.stats.damaged += c->link.damaged;
    }
  }
  return NULL;
}

/* Takes in all answers there are: the server may be waiting for that before it reads on. */
static shoal_status keep_answers(tcp_client *c) {
  set_wait(c, 0);
  for (;;) {
    net_message m;
    bool got;
    TRY(take(c, &m, &got));
    if (!got) return NULL;
    tcp_kept *k = malloc(sizeof *k);
    if (!k) {
      pool_give(&c->pool, m.hold);
      return status_no_memory();
    }
    *k = (tcp_kept){.message = m};
    tcp_kept **end = &c->kept;
    while (*end) end = &(*end)->next;
    *end = k;
  }
}

shoal_status tcp_send(net_client *base, const net_header *header, const net_part *parts, int n, size_t bytes,
                      double seconds) {
  tcp_client *c = (tcp_client *)base;
  if (c->gone || c->broken) return client_state(c);
  net_header own = *header;
  own.from = c->options.from;
  tcp_stream_outgoing o;
  tcp_link_prepare(&c->link, &own, parts, n, bytes, &o);
  const size_t all = o.left;
  for (double until = -1;;) {
    tcp_stream_result r = tcp_stream_send(&c->link.stream, &o);
    if (r == TCP_STREAM_DONE) return NULL;
    c->gone = r == TCP_STREAM_END;
    c->broken = r == TCP_STREAM_WRONG;
    if (r == TCP_STREAM_WAIT) TRY(keep_answers(c));
    double now = clock_seconds();
    if (until < 0) until = now + seconds;
    if (!c->gone) c->gone = tcp_silent(c->link.stream.sock, c->options.heartbeat);
    if (c->gone || c->broken) return client_state(c);
    if (now >= until) {
      c->broken = o.left < all;
      return status_make(SHOAL_ERR_PEER, "the server did not take the message in %g s", seconds);
    }
    struct pollfd p = {.fd = c->link.stream.sock, .events = POLLIN | POLLOUT};
    poll(&p, 1, (int)(MIN_OF(until - now, TCP_SLICE) * 1e3) + 1);
  }
}

shoal_status tcp_await(net_client *base, double seconds, net_message *out) {
  tcp_client *c = (tcp_client *)base;
  if (c->kept) {
    tcp_kept *k = c->kept;
    *out = k->message;
    c->kept = k->next;
    free(k);
    return NULL;
  }
  double begin = -1, left = seconds; /* the clock is looked at only when there is a reason to */
  bool eager = base->eager > 0;
  for (;;) {
    bool got;
    if (c->broken) return client_state(c);
    set_wait(c, c->gone || eager || left <= 0 ? 0 : MIN_OF(left, TCP_SLICE));
    TRY(take(c, out, &got)); /* also of one that has gone: its last words */
    if (got) return NULL;
    if (c->gone || c->broken) return client_state(c);
    double now = clock_seconds();
    if (begin < 0) begin = eager || seconds <= 0 ? now : now - MIN_OF(left, TCP_SLICE);
    left = begin + seconds - now;
    if (left <= 0) return status_make(SHOAL_ERR_PEER, "no message in %g s", seconds);
    if (eager && now < begin + base->eager)
      sched_yield(); /* to whom it waits for, if it has no processor */
    else if (eager)
      eager = false;
    else
      c->gone = tcp_silent(c->link.stream.sock, c->options.heartbeat);
  }
}

bool tcp_gone(net_client *base) {
  tcp_client *c = (tcp_client *)base;
  char byte;
  if (!c->gone && !c->broken) {
    ssize_t n = recv(c->link.stream.sock, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    struct pollfd p = {.fd = c->link.stream.sock, .events = POLLRDHUP};
    c->gone = n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) || poll(&p, 1, 0) > 0;
  }
  return c->gone || c->broken;
}

void tcp_release_client(net_client *base, net_message *m) { pool_give(&((tcp_client *)base)->pool, m->hold); }

void tcp_client_close(net_client *base) {
  tcp_client *c = (tcp_client *)base;
  while (c->kept) {
    tcp_kept *next = c->kept->next;
    pool_give(&c->pool, c->kept->message.hold);
    free(c->kept);
    c->kept = next;
  }
  if (!c->gone && !c->broken && c->link.known && !base->abandoned)
    tcp_stream_linger(&c->link.stream, clock_seconds() + TCP_LINGER);
  tcp_link_fini(&c->link, &c->pool);
  pool_fini(&c->pool);
  tls_destroy(&c->tls);
  free(c);
}

/* ---- connecting */

typedef enum { TRY_WELCOME, TRY_AGAIN, TRY_FAILED } try_result;

/* Why the last attempt failed, for when time is over. */
typedef struct {
  bool reached; /* something took the connection */
  const char *words;
} try_reason;

static bool wait_readable(int sock, double until) {
  double left = until - clock_seconds();
  struct pollfd p = {.fd = sock, .events = POLLIN};
  return left > 0 && poll(&p, 1, (int)(MIN_OF(left, TCP_SLICE) * 1e3) + 1) >= 0;
}

static try_result handshake(tcp_client *c, double until, try_reason *why, shoal_status *status) {
  for (;;) {
    tcp_stream_result r = tcp_stream_handshake(&c->link.stream);
    if (r == TCP_STREAM_DONE) return TRY_WELCOME;
    if (r == TCP_STREAM_WAIT && wait_readable(c->link.stream.sock, until)) continue;
    if (r == TCP_STREAM_WAIT || r == TCP_STREAM_END) {
      if (r == TCP_STREAM_END)
        why->words = "the server closes the connection during the TLS handshake (does it use keys?)";
      return TRY_AGAIN;
    }
    bool final;
    why->words = tls_client_reason(c->link.stream.error, &final);
    if (!final) return TRY_AGAIN;
    *status = status_make(SHOAL_ERR_REFUSED, "%s", why->words);
    return TRY_FAILED;
  }
}

/* What an answer to the hello, or its absence, means. */
static try_result welcome(tcp_client *c, tcp_result r, net_message *m, try_reason *why, shoal_status *status) {
  char words[TCP_WORDS];
  if (r == TCP_WRONG && c->link.foreign) {
    wire_name_versions(c->link.foreign, words, sizeof words);
    *status = status_make(SHOAL_ERR_REFUSED, "%s", words);
    return TRY_FAILED;
  }
  if (r == TCP_END || r == TCP_WRONG) {
    why->words = r == TCP_END ? "the server closes the connection during the handshake"
                              : "what listens there is no Shoal server";
    return TRY_AGAIN;
  }
  if (m->header.kind == WIRE_WELCOME && c->link.incoming_job == c->options.job) return TRY_WELCOME;
  *status = m->header.kind == WIRE_REFUSED
                ? status_make(m->header.number == TCP_FOR_EVER ? SHOAL_ERR_REFUSED : SHOAL_ERR_PEER, "refused: %.*s",
                              (int)MIN_OF(m->bytes, TCP_WORDS), m->payload)
                : status_make(SHOAL_ERR_PEER, "the server does not answer the handshake as expected");
  return TRY_FAILED;
}

static try_result greet(tcp_client *c, double until, try_reason *why, shoal_status *status) {
  net_header hello = {.kind = WIRE_HELLO, .from = c->options.from, .number = c->options.largest};
  tcp_stream_outgoing o;
  tcp_link_prepare(&c->link, &hello, NULL, 0, 0, &o);
  if (tcp_stream_send(&c->link.stream, &o) != TCP_STREAM_DONE) return TRY_AGAIN;
  for (;;) {
    net_message m = {0};
    bool more;
    tcp_result r = tcp_link_read(&c->link, &c->pool, WIRE_OWN_MAX, &m, &more);
    if (r == TCP_NO_MEMORY) {
      *status = status_no_memory();
      return TRY_FAILED;
    }
    if (r != TCP_NOTHING) {
      try_result result = welcome(c, r, &m, why, status);
      pool_give(&c->pool, m.hold);
      return result;
    }
    if (!wait_readable(c->link.stream.sock, until)) return TRY_AGAIN;
  }
}

static try_result attempt(tcp_client *c, const tcp_address *where, double until, try_reason *why,
                          shoal_status *status) {
  int sock, error;
  if (!tcp_dial(where, until, &sock, &error)) {
    if (error != ECONNREFUSED && error != ETIMEDOUT) why->words = strerror(error);
    return TRY_AGAIN;
  }
  why->reached = true;
  tcp_configure(sock, c->options.heartbeat);
  *status = tcp_link_init(&c->link, sock, c->options.secret_key ? &c->tls : NULL, &c->options);
  if (*status) return TRY_FAILED;
  try_result r = handshake(c, until, why, status);
  if (r == TRY_WELCOME) r = greet(c, until, why, status);
  if (r != TRY_WELCOME) tcp_link_fini(&c->link, &c->pool);
  return r;
}

shoal_status tcp_connect(const char *address, const net_options *options, double seconds, net_client **out) {
  tcp_address where;
  TRY(tcp_resolve(address, &where));
  TRY(tcp_check_keys(options, false, where.loopback));
  tcp_client *c = calloc(1, sizeof *c);
  if (!c) return status_no_memory();
  c->options = *options;
  c->link.stream.sock = -1;
  const double until = clock_seconds() + seconds;
  shoal_status status = options->secret_key ? tls_create(options, false, &c->tls) : NULL;
  try_reason why = {0};
  try_result r = status ? TRY_FAILED : TRY_AGAIN;
  while (r == TRY_AGAIN) {
    r = attempt(c, &where, until, &why, &status);
    if (r != TRY_AGAIN) break;
    if (clock_seconds() < until) {
      poll(NULL, 0, 20);
      continue;
    }
    status = status_make(SHOAL_ERR_PEER, "%s in %g s",
                         why.words     ? why.words
                         : why.reached ? "the server accepts connections, but does not answer the handshake"
                                       : "no server listens at this address: no connection",
                         seconds);
    break;
  }
  if (status) {
    tcp_client_close(&c->base);
    return status;
  }
  c->link.known = true;
  *out = &c->base;
  return NULL;
}
