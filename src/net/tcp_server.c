/* The server's end: many peers, one epoll set. See tcp.h. */
#include "net/tcp.h"
#include "net/tcp_address.h"
#include "net/tcp_link.h"

#include "base/clock.h"
#include "base/mem.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define GREETING 2.0             /* seconds a fresh connection has for its next word until it is welcomed */
#define PATIENCE 0.05            /* seconds an answer waits for a peer that takes nothing; then it is laid aside */
#define BUDGET ((size_t)1 << 20) /* bytes read from one peer before the others have their turn */
enum {
  ASIDE_MAX = 16, /* answers laid aside for one peer; with more it is dropped */
  PEERS_MAX = 4096,
  GREETING_MAX = 256, /* connections that are not yet welcomed; with more the oldest is dropped */
  ACCEPTS = 64,       /* connections taken in at one look */
  BUSY_LOOKS = 64,    /* a busy server looks at its sockets after so many messages */
  EVENTS = 64
};
enum { WATCH_DOOR = 0 }; /* peers' numbers are above */

/* An answer, or the rest of one, for a peer that takes nothing: copied, so that the server can go on with others. */
typedef struct tcp_aside {
  tcp_stream_outgoing outgoing;
  net_part part;
  struct tcp_aside *next;
  uint8_t bytes[];
} tcp_aside;

typedef enum { PEER_HANDSHAKE, PEER_HELLO, PEER_OPEN } peer_state;

typedef struct {
  peer_state state;
  bool leaving; /* nothing more can be sent to it; what it sent is still read */
  bool ready;   /* there may be something to read */
  uint64_t id;  /* unique in the server's life; the low bits are its place in the list */
  double until; /* not yet open: when the server's patience ends */
  uint32_t from;
  tcp_link link;
  tcp_aside *aside; /* oldest first */
  int aside_count;
} tcp_peer;

typedef struct {
  net_server base;
  net_options options;
  int sock, epoll;
  bool secured, door_open; /* door_open: connections may be waiting */
  tcp_tls tls;
  tcp_pool pool;
  tcp_peer **peers;   /* with holes */
  size_t room, count; /* places in use, holes included */
  size_t next;        /* who is asked first */
  int greeting;       /* peers that are not yet open */
  uint64_t serial;
  double look; /* when to look at what makes no sound */
  int busy;    /* messages since the sockets were looked at */
} tcp_server;

/* ---- peers come and go */

static void aside_drop(tcp_peer *p) {
  tcp_aside *a = p->aside;
  p->aside = a->next;
  p->aside_count--;
  free(a);
}

static void peer_destroy(tcp_server *s, tcp_peer *p) {
  s->peers[p->id % PEERS_MAX] = NULL;
  s->greeting -= p->state != PEER_OPEN;
  while (p->aside) aside_drop(p);
  tcp_link_fini(&p->link, &s->pool);
  free(p);
}

static tcp_peer *peer_find(tcp_server *s, uint64_t id) {
  size_t place = id % PEERS_MAX;
  tcp_peer *p = place < s->count ? s->peers[place] : NULL;
  return p && p->id == id ? p : NULL;
}

static void drop_oldest_greeting(tcp_server *s) {
  tcp_peer *oldest = NULL;
  for (size_t i = 0; i < s->count; i++) {
    tcp_peer *p = s->peers[i];
    if (p && p->state != PEER_OPEN && (!oldest || p->until < oldest->until)) oldest = p;
  }
  s->base.stats.refused++;
  if (oldest) peer_destroy(s, oldest);
}

/* A new connection; whatever goes wrong with it concerns it alone. */
static void peer_accept(tcp_server *s, int sock) {
  if (s->greeting >= GREETING_MAX) drop_oldest_greeting(s);
  size_t place = 0;
  while (place < s->count && s->peers[place]) place++;
  tcp_peer *p = NULL;
  void *list = s->peers;
  shoal_status status = NULL;
  if (place < PEERS_MAX && !(status = mem_grow(&list, &s->room, place + 1, sizeof *s->peers))) {
    s->peers = list;
    p = calloc(1, sizeof *p);
  }
  if (!p) {
    close(sock);
  } else {
    tcp_configure(sock, s->options.heartbeat);
    status = tcp_link_init(&p->link, sock, s->secured ? &s->tls : NULL, &s->options);
  }
  if (!p || status) {
    shoal_status_free(status);
    s->base.stats.refused++;
    free(p);
    return;
  }
  p->link.stream.edge = true;
  p->link.server = true;
  p->id = ++s->serial * PEERS_MAX + place;
  p->until = clock_seconds() + GREETING;
  p->ready = true;
  s->peers[place] = p;
  s->count = MAX_OF(s->count, place + 1);
  s->greeting++;
  struct epoll_event e = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.u64 = p->id};
  if (epoll_ctl(s->epoll, EPOLL_CTL_ADD, sock, &e)) peer_destroy(s, p);
}

/* Nothing can be sent to it any more; what it sent is still taken. */
static void peer_give_up(tcp_peer *p) {
  p->leaving = true;
  p->ready = true;
  while (p->aside) aside_drop(p);
}

/* Transport's own messages; losing one is the other side's affair. */
static void peer_say(tcp_peer *p, uint16_t kind, uint64_t number, const char *words) {
  tcp_stream_outgoing o;
  net_part part = {words, strlen(words)};
  tcp_link_prepare(&p->link, &(net_header){.kind = kind, .number = number}, &part, 1, part.bytes, &o);
  (void)tcp_stream_send(&p->link.stream, &o);
}

static void refuse(tcp_server *s, tcp_peer *p, uint64_t how_long, const char *why) {
  s->base.stats.refused++;
  peer_say(p, WIRE_REFUSED, how_long, why);
  peer_destroy(s, p);
}

/* A peer that is not yet open says something, or breaks. */
static void peer_greet(tcp_server *s, tcp_peer *p) {
  net_message m;
  bool more;
  char why[TCP_WORDS];
  const double until = clock_seconds() + GREETING;
  if (p->state == PEER_HANDSHAKE) {
    tcp_stream_result r = tcp_stream_handshake(&p->link.stream);
    if (r == TCP_STREAM_WAIT) {
      p->ready = false;
      return;
    }
    if (r == TCP_STREAM_WRONG && tls_is_plain(p->link.stream.error)) {
      tcp_stream_go_plain(&p->link.stream);
      refuse(s, p, TCP_FOR_EVER, "this server requires keys, and the client has none: give it some (--keys)");
      return;
    }
    if (r != TCP_STREAM_DONE) {
      s->base.stats.refused++;
      peer_destroy(s, p);
      return;
    }
    p->state = PEER_HELLO;
    p->until = until;
  }
  tcp_result r = tcp_link_read(&p->link, &s->pool, BUDGET, &m, &more);
  if (r == TCP_NOTHING && !p->link.refused) {
    p->ready = more;
    return;
  }
  if (r == TCP_WRONG && p->link.foreign) {
    wire_name_versions(p->link.foreign, why, sizeof why);
    refuse(s, p, TCP_FOR_EVER, why);
    return;
  }
  if (r != TCP_MESSAGE || m.header.kind != WIRE_HELLO) {
    if (r == TCP_MESSAGE) pool_give(&s->pool, m.hold);
    s->base.stats.refused++;
    peer_destroy(s, p);
    return;
  }
  pool_give(&s->pool, m.hold);
  if (*p->link.stream.visitor.refused)
    refuse(s, p, TCP_FOR_EVER, p->link.stream.visitor.refused);
  else if (p->link.incoming_job != s->options.job) {
    snprintf(why, sizeof why, "this server is part of another job (%016llx, not %016llx)",
             (unsigned long long)s->options.job, (unsigned long long)p->link.incoming_job);
    p->link.job = p->link.incoming_job; /* it listens to no other */
    refuse(s, p, 0, why);
  } else if (m.header.number > s->options.largest) {
    snprintf(why, sizeof why, "messages of %llu bytes, but this server takes at most %zu",
             (unsigned long long)m.header.number, s->options.largest);
    refuse(s, p, 0, why);
  } else {
    p->state = PEER_OPEN;
    s->greeting--;
    p->from = p->link.from = m.header.from;
    p->link.known = true;
    peer_say(p, WIRE_WELCOME, s->options.largest, "");
  }
}

/* ---- what was laid aside */

/* The rest of `o` waits at the end of the peer's list. */
static shoal_status aside_add(tcp_peer *p, const tcp_stream_outgoing *o) {
  tcp_aside *a = malloc(sizeof *a + o->left);
  if (!a) return status_no_memory();
  *a = (tcp_aside){.outgoing = *o};
  uint8_t *to = a->bytes;
  tcp_stream_outgoing rest = *o;
  while (rest.left) {
    net_part piece = tcp_stream_next_piece(&rest);
    memcpy(to, piece.data, piece.bytes);
    to += piece.bytes;
    tcp_stream_advance(&rest, piece.bytes);
  }
  a->part = (net_part){a->bytes, o->left};
  a->outgoing.parts = &a->part;
  a->outgoing.n = 1;
  a->outgoing.part = 0;
  a->outgoing.offset = 0;
  tcp_aside **end = &p->aside;
  while (*end) end = &(*end)->next;
  *end = a;
  p->aside_count++;
  return NULL;
}

/* Sends what was laid aside, as far as it is taken. */
static void aside_push(tcp_peer *p) {
  while (p->aside) {
    tcp_stream_result r = tcp_stream_send(&p->link.stream, &p->aside->outgoing);
    if (r == TCP_STREAM_WAIT) return;
    if (r == TCP_STREAM_DONE)
      aside_drop(p);
    else
      peer_give_up(p);
  }
}

/* ---- looking and waiting */

static void accept_all(tcp_server *s) {
  for (int i = 0; i < ACCEPTS; i++) {
    int sock = accept4(s->sock, NULL, NULL, SOCK_CLOEXEC);
    if (sock >= 0) {
      peer_accept(s, sock);
      continue;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) s->door_open = false;
    if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) s->base.stats.accept_error = errno;
    return; /* the door stays open: the next look tries again */
  }
}

/* Sleeps for at most `seconds` until there is something to do. */
static void look_at_sockets(tcp_server *s, double seconds) {
  struct epoll_event events[EVENTS];
  int n;
  s->busy = 0;
  do {
    n = epoll_wait(s->epoll, events, EVENTS, seconds > 0 ? (int)(seconds * 1e3) + 1 : 0);
    for (int i = 0; i < n; i++) {
      if (events[i].data.u64 == WATCH_DOOR) {
        s->door_open = true;
        continue;
      }
      tcp_peer *p = peer_find(s, events[i].data.u64);
      if (!p) continue;
      const uint32_t what = events[i].events;
      if (what & ~(uint32_t)EPOLLOUT) {
        p->ready = true;
        tcp_stream_event(&p->link.stream, what & (EPOLLRDHUP | EPOLLHUP | EPOLLERR));
      }
      if (p->aside) aside_push(p);
    }
    seconds = 0;
  } while (n == EVENTS);
  if (s->door_open) accept_all(s);
}

/* What makes no sound: greetings that take too long, hosts that are not there any more. */
static void look_at_silence(tcp_server *s, double now) {
  s->look = now + TCP_SLICE;
  for (size_t i = 0; i < s->count; i++) {
    tcp_peer *p = s->peers[i];
    if (!p || p->ready) continue;
    if (p->state != PEER_OPEN && now > p->until) {
      s->base.stats.refused++;
      peer_destroy(s, p);
    } else if (p->state == PEER_OPEN && !p->leaving && tcp_silent(p->link.stream.sock, s->options.heartbeat))
      peer_give_up(p);
  }
}

/* Reads from one peer. Sets *got when there is something for the application. */
static shoal_status peer_read(tcp_server *s, tcp_peer *p, net_message *out, bool *got) {
  bool more;
  const uint64_t before = p->link.refused;
  tcp_result r = tcp_link_read(&p->link, &s->pool, BUDGET, out, &more);
  s->base.stats.refused += p->link.refused - before;
  *got = false;
  if (r == TCP_NO_MEMORY) return status_no_memory();
  if (r == TCP_MESSAGE && out->header.kind >= NET_GONE) {
    s->base.stats.refused++;
    pool_give(&s->pool, out->hold);
    return NULL;
  }
  if (r == TCP_NOTHING && (more || !p->leaving)) {
    p->ready = more;
    return NULL;
  }
  *got = true;
  if (r == TCP_MESSAGE) {
    out->peer = p->id;
    return NULL;
  }
  if (r == TCP_WRONG) s->base.stats.refused++;
  s->base.stats.damaged += p->link.damaged;
  *out = (net_message){.header = {.kind = NET_GONE, .flags = p->link.damaged ? NET_DAMAGED : 0, .from = p->from},
                       .peer = p->id};
  peer_destroy(s, p);
  return NULL;
}

/* The next message there is among what is known to be readable. *again: asking once more may give one. */
static shoal_status scan(tcp_server *s, net_message *out, bool *got, bool *again) {
  *got = *again = false;
  size_t place = s->next;
  for (size_t k = 0; k < s->count; k++, place++) {
    if (place >= s->count) place = 0;
    tcp_peer *p = s->peers[place];
    if (!p || !p->ready) continue;
    if (p->state != PEER_OPEN)
      peer_greet(s, p);
    else {
      TRY(peer_read(s, p, out, got));
      if (*got) {
        s->next = place + 1;
        return NULL;
      }
    }
    if (s->peers[place] && s->peers[place]->ready) *again = true;
  }
  return NULL;
}

shoal_status tcp_receive(net_server *base, double seconds, net_message *out, bool *got) {
  tcp_server *s = (tcp_server *)base;
  double begin = -1;
  bool again;
  if (++s->busy >= BUSY_LOOKS) look_at_sockets(s, 0);
  for (;;) {
    TRY(scan(s, out, got, &again));
    if (*got) return NULL;
    double now = clock_seconds();
    if (begin < 0) begin = now;
    const double left = begin + seconds - now;
    if (now >= s->look && !again) look_at_silence(s, now);
    const bool eager = base->eager > 0 && !base->crowded && now < begin + base->eager;
    look_at_sockets(s, again || eager || left <= 0 ? 0 : MIN_OF(left, TCP_SLICE));
    if (eager && !again) sched_yield(); /* to whom it waits for, if it has no processor */
    if (left <= 0) {
      TRY(scan(s, out, got, &again));
      return NULL;
    }
  }
}

shoal_status tcp_answer(net_server *base, uint64_t id, const net_header *header, const net_part *parts, int n,
                        size_t bytes) {
  tcp_server *s = (tcp_server *)base;
  tcp_peer *p = peer_find(s, id);
  if (!p || p->state != PEER_OPEN || p->leaving) return NULL;
  tcp_stream_outgoing o;
  tcp_link_prepare(&p->link, header, parts, n, bytes, &o);
  for (double patience = 0; /* when it ends; 0: not yet needed */;) {
    const size_t left = o.left;
    tcp_stream_result r = p->aside ? TCP_STREAM_WAIT : tcp_stream_send(&p->link.stream, &o);
    if (r == TCP_STREAM_DONE) break;
    if (r != TCP_STREAM_WAIT || p->aside_count == ASIDE_MAX) { /* the next net_receive reports it gone */
      peer_give_up(p);
      return NULL;
    }
    double now = clock_seconds();
    if (!patience || o.left < left) patience = now + PATIENCE;
    if (p->aside || now > patience) {
      TRY(aside_add(p, &o));
      break;
    }
    struct pollfd one = {.fd = p->link.stream.sock, .events = POLLOUT};
    poll(&one, 1, (int)((patience - now) * 1e3) + 1);
  }
  s->base.stats.sent_messages++;
  s->base.stats.sent_bytes += WIRE_HEADER + bytes;
  return NULL;
}

void tcp_limit(net_server *base, size_t largest) {
  tcp_server *s = (tcp_server *)base;
  s->options.largest = largest;
  for (size_t i = 0; i < s->count; i++)
    if (s->peers[i]) s->peers[i]->link.limit = largest;
}

void tcp_release_server(net_server *base, net_message *m) { pool_give(&((tcp_server *)base)->pool, m->hold); }

/* ---- opening and closing */

void tcp_server_close(net_server *base) {
  tcp_server *s = (tcp_server *)base;
  const double until = clock_seconds() + TCP_LINGER;
  for (size_t i = 0; i < s->count; i++) {
    tcp_peer *p = s->peers[i];
    if (!p) continue;
    while (p->aside && !p->leaving && clock_seconds() < until) {
      struct pollfd one = {.fd = p->link.stream.sock, .events = POLLOUT};
      poll(&one, 1, 10);
      aside_push(p);
    }
    if (p->state == PEER_OPEN && !p->leaving) tcp_stream_linger(&p->link.stream, until);
    peer_destroy(s, p);
  }
  free(s->peers);
  pool_fini(&s->pool);
  tls_destroy(&s->tls);
  if (s->epoll >= 0) close(s->epoll);
  if (s->sock >= 0) close(s->sock);
  free(s);
}

shoal_status tcp_listen(const char *address, const net_options *options, net_server **out) {
  tcp_address where;
  TRY(tcp_resolve(address, &where));
  TRY(tcp_check_keys(options, true, where.loopback));
  tcp_server *s = calloc(1, sizeof *s);
  if (!s) return status_no_memory();
  s->options = *options;
  s->sock = -1;
  s->epoll = epoll_create1(EPOLL_CLOEXEC);
  s->secured = options->secret_key;
  shoal_status status = s->epoll < 0 ? status_errno(errno, "epoll") : NULL;
  if (!status && s->secured) status = tls_create(options, true, &s->tls);
  if (!status) status = tcp_open_listener(&where, &s->sock);
  struct epoll_event e = {.events = EPOLLIN | EPOLLET, .data.u64 = WATCH_DOOR};
  if (!status && epoll_ctl(s->epoll, EPOLL_CTL_ADD, s->sock, &e)) status = status_errno(errno, "epoll");
  if (status)
    tcp_server_close(&s->base);
  else
    *out = &s->base;
  return status;
}
