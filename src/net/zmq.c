/* ZeroMQ between hosts: a ROUTER at the server, a DEALER at each client.
 *
 *  1. A client says hello with its job and the largest message it will send; until it is welcomed nothing else of it is
 *     looked at. Messages of connections that were not welcomed are refused.
 *  2. A connection's end comes from libzmq's monitor, which names a descriptor; the descriptor of a peer is known from
 *     its hello. Events are read before each hello, so that a descriptor used again is not taken for the old peer.
 *  3. What arrived before a connection ended is delivered before the peer is reported gone.
 *  4. What does not check ends the connection it came on, once that was welcomed: who sent it would wait for an answer for
 *     ever. The server takes nothing more from it and tells its other end to give up.
 *  5. A client's heartbeats, which are libzmq's, end silent connections on both sides. A client does not live on after
 *     a reconnection behind its back: its calls fail from then on, and the application connects anew. */
#include "net/endpoint.h"
#include "net/zmq_socket.h"

#include "base/clock.h"
#include "base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLICE 0.02     /* seconds of waiting between looks at the monitor */
#define BUSY_LOOKS 256 /* a busy server looks at the monitor after so many messages */
#define LINGER 1000    /* milliseconds a client's last words are given */
#define STALL 4        /* heartbeats a peer may take nothing */

enum { WORDS = 160 }; /* of a refusal */

/* ---- server */

typedef struct {
  uint64_t route;
  int fd;
  uint32_t from;
  bool leaving, damaged; /* damaged: for that reason */
} zmq_peer;

typedef struct {
  net_server base;
  net_options options;
  zmq_end end;
  zmq_peer *peers;
  size_t count, room;
  size_t leaving; /* how many of them are */
  size_t limit;   /* net_server_limit */
  int busy;
} zmq_server;

static zmq_peer *find_peer(zmq_server *s, uint64_t route) {
  for (size_t i = 0; i < s->count; i++)
    if (s->peers[i].route == route) return &s->peers[i];
  return NULL;
}

static void look_at_events(zmq_server *s) {
  uint16_t event;
  uint32_t value;
  s->busy = 0;
  while (zmq_end_event(&s->end, &event, &value)) {
    if (event == ZMQ_EVENT_ACCEPT_FAILED) {
      s->base.stats.accept_error = (int)value;
      continue;
    }
    if (event != ZMQ_EVENT_DISCONNECTED) { /* a failed handshake */
      s->base.stats.refused++;
      continue;
    }
    for (size_t i = 0; i < s->count; i++)
      if (s->peers[i].fd == (int)value && !s->peers[i].leaving) {
        s->peers[i].leaving = true;
        s->leaving++;
      }
  }
}

/* Transport's own messages; losing one is the other side's affair. */
static void say(zmq_end *e, uint64_t route, uint16_t kind, uint32_t from, uint64_t job, uint64_t number,
                const char *words) {
  net_header h = {.kind = kind, .from = from, .number = number};
  net_part part = {words, strlen(words)};
  zmq_borrow *none;
  (void)zmq_end_send(e, route, &h, job, &part, 1, part.bytes, &none);
}

static shoal_status greet(zmq_server *s, const zmq_incoming *in) {
  char why[WORDS] = "";
  look_at_events(s);
  if (in->job != s->options.job)
    snprintf(why, sizeof why, "this server is part of another job (%016llx, not %016llx)",
             (unsigned long long)s->options.job, (unsigned long long)in->job);
  else if (in->header.number > s->options.largest)
    snprintf(why, sizeof why, "messages of %llu bytes, but this server takes at most %zu",
             (unsigned long long)in->header.number, s->options.largest);
  if (*why) {
    s->base.stats.refused++;
    say(&s->end, in->route, WIRE_REFUSED, 0, in->job, 0, why);
    return NULL;
  }
  if (!find_peer(s, in->route)) {
    void *list = s->peers;
    TRY(mem_grow(&list, &s->room, s->count + 1, sizeof *s->peers));
    s->peers = list;
    s->peers[s->count++] = (zmq_peer){.route = in->route, .fd = in->fd, .from = in->header.from};
  }
  say(&s->end, in->route, WIRE_WELCOME, 0, s->options.job, s->options.largest, "");
  return NULL;
}

static void report_gone(zmq_server *s, net_message *out) {
  size_t i = 0;
  while (!s->peers[i].leaving) i++;
  *out = (net_message){
      .header = {.kind = NET_GONE, .flags = s->peers[i].damaged ? NET_DAMAGED : 0, .from = s->peers[i].from},
      .peer = s->peers[i].route};
  s->leaving--;
  s->peers[i] = s->peers[--s->count];
}

/* Looks at one message. *got when it is the application's. */
static shoal_status take(zmq_server *s, zmq_incoming *in, net_message *out, bool *got) {
  zmq_peer *p = in->route ? find_peer(s, in->route) : NULL;
  *got = false;
  if (in->wrong && p && !p->leaving) { /* libzmq cannot end one connection: its other end is told to */
    p->leaving = p->damaged = true;
    s->leaving++;
    s->base.stats.damaged++;
    say(&s->end, in->route, WIRE_REFUSED, 0, s->options.job, 0, "a message arrived damaged");
  }
  if (!in->wrong && in->route && in->header.kind == WIRE_HELLO) {
    zmq_msg_close(&in->payload);
    return greet(s, in);
  }
  if (in->wrong || !p || in->job != s->options.job || in->header.kind >= NET_GONE || in->header.from != p->from) {
    zmq_msg_close(&in->payload);
    s->base.stats.refused++;
    /* Its own words say the version, too: it will not understand more. */
    if (in->foreign && in->route && !p) {
      char words[WORDS];
      wire_name_versions(in->foreign, words, sizeof words);
      say(&s->end, in->route, WIRE_REFUSED, 0, 0, 0, words);
    }
    return NULL;
  }
  TRY(zmq_end_hold(&s->end, in, out));
  *got = true;
  return NULL;
}

static shoal_status zmq_receive(net_server *base, double seconds, net_message *out, bool *got) {
  zmq_server *s = (zmq_server *)base;
  double until = -1;
  s->end.eager = base->crowded ? 0 : base->eager;
  if (++s->busy >= BUSY_LOOKS) look_at_events(s);
  for (int count = 0;; count++) {
    zmq_incoming in;
    double left = 0;
    bool there = zmq_end_receive(&s->end, true, 0, s->limit, &in);
    if (!there) {
      look_at_events(s);
      /* Once more: what the peers that are now known to leave had sent. */
      there = zmq_end_receive(&s->end, true, 0, s->limit, &in);
    }
    if (!there && s->leaving) {
      report_gone(s, out);
      *got = true;
      return NULL;
    }
    if (!there || count % 64 == 63) {
      double now = clock_seconds();
      if (until < 0) until = now + seconds;
      left = until - now;
    }
    if (!there && left > 0) there = zmq_end_receive(&s->end, true, MIN_OF(left, SLICE), s->limit, &in);
    if (there) {
      TRY(take(s, &in, out, got));
      if (*got) return NULL;
    }
    if (until >= 0 && clock_seconds() >= until) { /* also under a flood of messages that do not check */
      *got = false;
      return NULL;
    }
  }
}

static shoal_status zmq_answer(net_server *base, uint64_t route, const net_header *header, const net_part *parts, int n,
                               size_t bytes) {
  zmq_server *s = (zmq_server *)base;
  double until = -1;
  for (;;) {
    const zmq_peer *p = find_peer(s, route);
    if (!p || p->leaving) return NULL;
    zmq_borrow *borrow;
    zmq_end_result r = zmq_end_send(&s->end, route, header, s->options.job, parts, n, bytes, &borrow);
    /* Ends at the latest when libzmq's own limits end a connection that takes nothing. */
    if (borrow)
      while (!zmq_end_wait_sent(&s->end, borrow, 1e6)) {}
    if (r == ZMQ_END_SENT) {
      s->base.stats.sent_messages++;
      s->base.stats.sent_bytes += WIRE_HEADER + bytes;
      return NULL;
    }
    if (r == ZMQ_END_NO_PEER) return NULL; /* the monitor will say so, too */
    if (r == ZMQ_END_FAILED) return status_make(SHOAL_ERR_SYSTEM, "answer: %s", zmq_strerror(errno));
    double now = clock_seconds();
    if (until < 0) until = now + STALL * s->options.heartbeat;
    look_at_events(s);
    zmq_peer *slow = find_peer(s, route);
    if (now > until && slow && !slow->leaving) {
      slow->leaving = true; /* its queue has been full for long: it will not be answered any more */
      s->leaving++;
    }
    zmq_poll(NULL, 0, 1);
  }
}

static void zmq_limit(net_server *base, size_t largest) { ((zmq_server *)base)->limit = largest; }

static void zmq_release_server(net_server *base, net_message *m) {
  zmq_end_release(&((zmq_server *)base)->end, m->hold);
}

static void zmq_server_close(net_server *base) {
  zmq_server *s = (zmq_server *)base;
  zmq_end_close(&s->end, LINGER);
  free(s->peers);
  free(s);
}

static shoal_status zmq_listen(const char *address, const net_options *options, net_server **out) {
  zmq_server *s = calloc(1, sizeof *s);
  if (!s) return status_no_memory();
  s->options = *options;
  s->limit = options->largest;
  shoal_status status = zmq_end_open(address, options, true, NULL, &s->end);
  if (status)
    free(s);
  else
    *out = &s->base;
  return status;
}

/* ---- client */

typedef struct {
  net_client base;
  net_options options;
  zmq_end end;
  bool gone;    /* the connection ended, or a message was cut off */
  bool damaged; /* and that is why */
} zmq_client;

static shoal_status client_gone(const zmq_client *c) {
  if (c->damaged) return net_damaged();
  return status_make(SHOAL_ERR_PEER, "the connection was lost (the server exited, or did not respond for too long)");
}

static void client_look(zmq_client *c) {
  uint16_t event;
  uint32_t value;
  while (zmq_end_event(&c->end, &event, &value))
    if (event == ZMQ_EVENT_DISCONNECTED) c->gone = true;
}

static shoal_status zmq_send_request(net_client *base, const net_header *header, const net_part *parts, int n,
                                     size_t bytes, double seconds) {
  zmq_client *c = (zmq_client *)base;
  net_header own = *header;
  own.from = c->options.from;
  double until = -1;
  for (;;) {
    if (c->gone || !c->end.socket) return client_gone(c);
    zmq_borrow *borrow;
    zmq_end_result r = zmq_end_send(&c->end, 0, &own, c->options.job, parts, n, bytes, &borrow);
    if (borrow && !zmq_end_wait_sent(&c->end, borrow, seconds)) {
      zmq_end_close(&c->end, 0); /* the only way to get the payload back */
      while (!zmq_end_wait_sent(&c->end, borrow, 1e6)) {}
      c->gone = true;
      return status_make(SHOAL_ERR_PEER, "the server did not take the message in %g s", seconds);
    }
    if (r == ZMQ_END_SENT) return NULL;
    if (r == ZMQ_END_FAILED) return status_make(SHOAL_ERR_SYSTEM, "%s", zmq_strerror(errno));
    double now = clock_seconds();
    if (until < 0) until = now + seconds;
    client_look(c);
    if (now >= until) return status_make(SHOAL_ERR_PEER, "the server did not take the message in %g s", seconds);
    zmq_poll(NULL, 0, 1);
  }
}

/* Whether the message is an answer for the application; otherwise it is closed. */
static bool is_answer(zmq_client *c, zmq_incoming *in) {
  if (!in->wrong && in->job == c->options.job && in->header.kind < NET_GONE) return true;
  c->base.stats.damaged += in->wrong != NULL;
  if (in->wrong || (in->job == c->options.job && in->header.kind == WIRE_REFUSED))
    c->gone = c->damaged = true; /* here, or at the server */
  if (in->wrong || in->header.kind != WIRE_WELCOME) c->base.stats.refused++;
  zmq_msg_close(&in->payload);
  return false;
}

static shoal_status zmq_await(net_client *base, double seconds, net_message *out) {
  zmq_client *c = (zmq_client *)base;
  double until = -1;
  c->end.eager = base->eager;
  if (!c->end.socket) return client_gone(c);
  for (;;) {
    zmq_incoming in;
    double left = 0;
    if (until >= 0) left = until - clock_seconds();
    bool was_gone = c->gone;
    bool there = zmq_end_receive(&c->end, false, was_gone ? 0 : MIN_OF(left, SLICE), c->options.largest, &in);
    if (there && is_answer(c, &in)) return zmq_end_hold(&c->end, &in, out);
    if (there) continue;
    if (was_gone) return client_gone(c);
    if (until < 0) {
      until = clock_seconds() + seconds;
      if (seconds > 0) continue;
    }
    client_look(c);
    if (!c->gone && clock_seconds() >= until) return status_make(SHOAL_ERR_PEER, "no message in %g s", seconds);
  }
}

static bool zmq_client_gone(net_client *base) {
  zmq_client *c = (zmq_client *)base;
  if (c->end.socket) client_look(c);
  return c->gone;
}

static void zmq_release_client(net_client *base, net_message *m) {
  zmq_end_release(&((zmq_client *)base)->end, m->hold);
}

static void zmq_client_close(net_client *base) {
  zmq_client *c = (zmq_client *)base;
  zmq_end_close(&c->end, c->gone || base->abandoned ? 0 : LINGER);
  free(c);
}

static shoal_status refusal(zmq_incoming *in) {
  shoal_status status =
      status_make(SHOAL_ERR_PEER, "refused: %.*s", (int)MIN_OF(zmq_msg_size(&in->payload) - in->offset, 160),
                  (const char *)zmq_msg_data(&in->payload) + in->offset);
  zmq_msg_close(&in->payload);
  return status;
}

/* Says hello, once on each connection, until it is welcomed: a server that computes looks at it later, and hellos that
 * were repeated would fill its queue. */
static shoal_status introduce(zmq_client *c, double seconds) {
  const double until = clock_seconds() + seconds;
  bool said = false, reached = false, failed = false;
  for (;;) {
    double now = clock_seconds();
    if (!said) {
      net_header h = {.kind = WIRE_HELLO, .from = c->options.from, .number = c->options.largest};
      zmq_borrow *none;
      said = zmq_end_send(&c->end, 0, &h, c->options.job, NULL, 0, 0, &none) == ZMQ_END_SENT;
      reached = reached || said;
    }
    zmq_incoming in;
    if (zmq_end_receive(&c->end, false, said ? SLICE : 0, 4096, &in)) {
      if (!in.wrong && in.header.kind == WIRE_REFUSED) return refusal(&in);
      if (in.foreign) {
        zmq_msg_close(&in.payload);
        char words[WORDS];
        wire_name_versions(in.foreign, words, sizeof words);
        return status_make(SHOAL_ERR_REFUSED, "%s", words);
      }
      bool welcome = !in.wrong && in.job == c->options.job && in.header.kind == WIRE_WELCOME;
      zmq_msg_close(&in.payload);
      if (welcome) return NULL;
      c->base.stats.refused++;
    } else if (!said)
      zmq_poll(NULL, 0, 5);
    uint16_t event;
    uint32_t value;
    while (zmq_end_event(&c->end, &event, &value)) {
      if (event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH)
        return status_make(SHOAL_ERR_REFUSED,
                           "the server does not allow our key; add our .pub file to its allowed keys");
      if (event == ZMQ_EVENT_DISCONNECTED)
        said = false; /* the hello may be lost with it */
      else
        failed = true;
    }
    if (now < until) continue;
    return status_make(SHOAL_ERR_PEER, "%s in %g s",
                       failed    ? "the handshake fails (is the server's key right, do both use keys?): no answer"
                       : reached ? "the server accepts connections, but does not answer the handshake"
                                 : "no server listens at this address: no connection",
                       seconds);
  }
}

static shoal_status zmq_connect_server(const char *address, const net_options *options, double seconds,
                                       net_client **out) {
  zmq_client *c = calloc(1, sizeof *c);
  if (!c) return status_no_memory();
  c->options = *options;
  c->options.beside = NULL; /* of use only here */
  const net_client *beside = options->beside;
  if (beside && beside->transport != &transport_zmq) beside = NULL;
  shoal_status status =
      zmq_end_open(address, options, false, beside ? &((const zmq_client *)beside)->end : NULL, &c->end);
  if (!status) status = introduce(c, seconds);
  if (status) {
    zmq_end_close(&c->end, 0);
    free(c);
    return status;
  }
  *out = &c->base;
  return NULL;
}

const transport transport_zmq = {
    .scheme = "zmq://",
    .form = "zmq://HOST:PORT",
    .listen = zmq_listen,
    .connect = zmq_connect_server,
    .server_close = zmq_server_close,
    .client_close = zmq_client_close,
    .receive = zmq_receive,
    .answer = zmq_answer,
    .send = zmq_send_request,
    .await = zmq_await,
    .gone = zmq_client_gone,
    .limit = zmq_limit,
    .release_server = zmq_release_server,
    .release_client = zmq_release_client,
};
