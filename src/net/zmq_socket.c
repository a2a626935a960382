#include "net/zmq_socket.h"

#include "net/keys.h"

#include "base/clock.h"
#include "base/crc32c.h"
#include "base/mem.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Payloads from here on are sent from where they lie, which means waiting until they have left. A server, which others
 * wait for, too, does that only where a copy would cost much memory. */
#define ZERO_COPY_CLIENT ((size_t)1 << 20)
#define ZERO_COPY_SERVER ((size_t)32 << 20)
#define QUEUED ((size_t)256 << 20)       /* bytes that may queue up at a peer, about */
#define SLOWEST_NETWORK 25e6             /* bytes/s: a large message must not look like a silent peer */
#define HANDSHAKE 2000                   /* milliseconds */
#define SPARE_LARGEST ((size_t)64 << 20) /* larger blocks are given back to the system when released */
enum {
  KEY_THREADS = 2, /* of libzmq, at a server with keys: encrypting for one peer does not keep another waiting */
  HOST_ROOM = 256,
  COPY_SMALL = 256,
  OWN_LARGEST = 4096, /* bytes of the transport's own messages */
  CURVE_EXTRA = 64    /* bytes encryption may add to a frame: 33 and some */
};

/* ---- addresses */

static bool is_loopback(const struct sockaddr *a) {
  if (a->sa_family == AF_INET) return ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 24 == 127;
  return a->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)a)->sin6_addr);
}

/* "zmq://HOST:PORT" to numbers as libzmq takes them, so that what is checked is what is used. */
static shoal_status resolve(const char *address, char numeric[HOST_ROOM], bool *loopback) {
  char host[HOST_ROOM];
  const char *rest = address + strlen("zmq://"), *colon = strrchr(rest, ':');
  size_t length = colon ? (size_t)(colon - rest) : 0;
  char *end = NULL;
  long port = colon ? strtol(colon + 1, &end, 10) : 0;
  if (!length || length >= sizeof host || !colon[1] || *end || port < 1 || port > 65535)
    return status_make(SHOAL_ERR_ARGUMENT, "expected zmq://HOST:PORT with a port from 1 to 65535");
  memcpy(host, rest, length);
  host[length] = 0;
  if (host[0] == '[' && host[length - 1] == ']') {
    host[length - 1] = 0;
    memmove(host, host + 1, length - 1);
  }
  struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *list;
  int error = getaddrinfo(!strcmp(host, "*") ? NULL : host, colon + 1, &hints, &list);
  if (error) return status_make(SHOAL_ERR_ARGUMENT, "host '%s': %s", host, gai_strerror(error));
  const struct addrinfo *best = list;
  for (const struct addrinfo *a = list; a; a = a->ai_next)
    if (a->ai_family == AF_INET) {
      best = a;
      break;
    }
  char digits[INET6_ADDRSTRLEN + 32];
  error = getnameinfo(best->ai_addr, best->ai_addrlen, digits, sizeof digits, NULL, 0, NI_NUMERICHOST);
  *loopback = is_loopback(best->ai_addr);
  bool six = best->ai_family == AF_INET6;
  freeaddrinfo(list);
  if (error) return status_make(SHOAL_ERR_ARGUMENT, "host '%s': %s", host, gai_strerror(error));
  snprintf(numeric, HOST_ROOM, six ? "tcp://[%s]:%ld" : "tcp://%s:%ld", digits, port);
  return NULL;
}

static shoal_status check_keys(const net_options *o, bool server, bool loopback) {
  bool keys = o->public_key || o->secret_key || o->server_key;
  if (!keys && !loopback && !o->insecure)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "this address can be reached from other hosts, so keys are needed: make them with `shoal keygen "
                       "DIR`, or use --insecure");
  if (!keys) return NULL;
  if (!keys_valid(o->secret_key) || !keys_valid(o->public_key))
    return status_make(SHOAL_ERR_ARGUMENT,
                       "expected both keys of a pair, 40 characters of Z85 each; `shoal keygen` "
                       "makes them");
  if (!server && !keys_valid(o->server_key))
    return status_make(SHOAL_ERR_ARGUMENT, "a client with keys needs the server's public key, 40 characters of Z85");
  if (server && !o->allowed)
    return status_make(SHOAL_ERR_ARGUMENT, "a server with keys needs the list of its clients' public keys");
  return NULL;
}

/* ---- opening and closing */

static shoal_status set_int(void *socket, int option, int value, const char *name) {
  if (!zmq_setsockopt(socket, option, &value, sizeof value)) return NULL;
  return status_make(SHOAL_ERR_INTERNAL, "%s %d: %s", name, value, zmq_strerror(errno));
}
#define SET(option, value) TRY(set_int(s, option, value, #option))

static shoal_status set_text(void *socket, int option, const char *value, const char *name) {
  if (!zmq_setsockopt(socket, option, value, strlen(value))) return NULL;
  return status_make(SHOAL_ERR_SYSTEM, "%s: %s (libzmq without CURVE?)", name, zmq_strerror(errno));
}

/* Heartbeats come from clients alone. libzmq 4.3 aborts the process (its issues 3937, 4364) when a heartbeat is due on a
 * connection that was lost while its receive queue was full: so a socket has a bounded queue or heartbeats, never both.
 * A server, to which anybody may send anything, has the bound; the client's heartbeats tell it how long they may be
 * missing. To a client comes only what it has asked for. */
static shoal_status configure(void *s, const net_options *o, bool server) {
  size_t queue = QUEUED / (o->largest + WIRE_HEADER);
  int high_water = (int)MAX_OF(MIN_OF(queue, 256), 16);
  int beat = (int)MIN_OF(o->heartbeat * 1e3, 1e6);
  size_t moves =
      server ? MIN_OF(o->largest, QUEUED) : o->largest; /* a server may not know yet how large messages are */
  int patience = beat + (int)MIN_OF((double)moves / SLOWEST_NETWORK * 1e3, 1e6);
  int64_t largest = (int64_t)MAX_OF(o->largest, OWN_LARGEST) + WIRE_HEADER + CURVE_EXTRA;
  SET(ZMQ_SNDHWM, high_water);
  SET(ZMQ_RCVHWM, server ? high_water : 0);
  SET(ZMQ_LINGER, 0);
  SET(ZMQ_IPV6, 1);
  SET(ZMQ_HANDSHAKE_IVL, HANDSHAKE);
  SET(ZMQ_TCP_MAXRT, patience);
  if (zmq_setsockopt(s, ZMQ_MAXMSGSIZE, &largest, sizeof largest))
    return status_make(SHOAL_ERR_INTERNAL, "ZMQ_MAXMSGSIZE: %s", zmq_strerror(errno));
  if (server) {
    SET(ZMQ_ROUTER_MANDATORY, 1);
    SET(ZMQ_TCP_KEEPALIVE, 1); /* for one that goes before its first heartbeat */
    SET(ZMQ_TCP_KEEPALIVE_IDLE, patience / 1000 + 1);
  } else {
    SET(ZMQ_HEARTBEAT_IVL, MAX_OF(beat / 3, 1));
    SET(ZMQ_HEARTBEAT_TIMEOUT, patience);
    SET(ZMQ_HEARTBEAT_TTL, patience);
    SET(ZMQ_IMMEDIATE, 1); /* nothing is queued for a server that is not there */
    SET(ZMQ_RECONNECT_IVL, 20);
    SET(ZMQ_RECONNECT_IVL_MAX, 200);
  }
  if (!o->secret_key) return NULL;
  if (server)
    SET(ZMQ_CURVE_SERVER, 1);
  else
    TRY(set_text(s, ZMQ_CURVE_SERVERKEY, o->server_key, "server key"));
  TRY(set_text(s, ZMQ_CURVE_PUBLICKEY, o->public_key, "public key"));
  TRY(set_text(s, ZMQ_CURVE_SECRETKEY, o->secret_key, "secret key"));
  return set_text(s, ZMQ_ZAP_DOMAIN, "shoal", "domain");
}

/* A context of libzmq, with the thread that does its work. */
struct zmq_thread {
  void *context;
  int users; /* ends; they may be opened and closed by different threads */
};

static shoal_status join_thread(zmq_end *e, const zmq_end *beside) {
  if (beside && beside->thread) {
    e->thread = beside->thread;
    __atomic_add_fetch(&e->thread->users, 1, __ATOMIC_RELAXED);
  } else {
    zmq_thread *t = calloc(1, sizeof *t);
    if (!t) return status_no_memory();
    t->context = zmq_ctx_new();
    t->users = 1;
    if (!t->context) {
      free(t);
      return status_make(SHOAL_ERR_SYSTEM, "ZeroMQ: %s", zmq_strerror(errno));
    }
    e->thread = t;
  }
  e->context = e->thread->context;
  return NULL;
}

/* The last one waits for what lingers. */
static void leave_thread(zmq_thread *t) {
  if (!t || __atomic_sub_fetch(&t->users, 1, __ATOMIC_ACQ_REL)) return;
  zmq_ctx_term(t->context);
  free(t);
}

static shoal_status open_monitor(zmq_end *e) {
  char name[40];
  snprintf(name, sizeof name, "inproc://events-%p", e->socket);
  const int events = ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                     ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH | ZMQ_EVENT_ACCEPT_FAILED;
  e->monitor = zmq_socket(e->context, ZMQ_PAIR);
  if (!e->monitor || zmq_socket_monitor(e->socket, name, events) || zmq_connect(e->monitor, name))
    return status_make(SHOAL_ERR_SYSTEM, "watching connections: %s", zmq_strerror(errno));
  return set_int(e->monitor, ZMQ_LINGER, 0, "ZMQ_LINGER");
}

shoal_status zmq_end_open(const char *address, const net_options *options, bool server, const zmq_end *beside,
                          zmq_end *out) {
  char numeric[HOST_ROOM];
  bool loopback;
  TRY(resolve(address, numeric, &loopback));
  TRY(check_keys(options, server, loopback));
  zmq_end e = {.receive_limit = -1};
  TRY(join_thread(&e, beside));
  shoal_status status = NULL;
  if (server && options->secret_key) zmq_ctx_set(e.context, ZMQ_IO_THREADS, KEY_THREADS);
  e.socket = zmq_socket(e.context, server ? ZMQ_ROUTER : ZMQ_DEALER);
  if (!e.socket) TRY_GOTO(status, status_make(SHOAL_ERR_SYSTEM, "ZeroMQ: %s", zmq_strerror(errno)), failed);
  TRY_GOTO(status, configure(e.socket, options, server), failed);
  TRY_GOTO(status, open_monitor(&e), failed);
  if (server && options->secret_key) TRY_GOTO(status, zap_start(e.context, options->allowed, &e.zap), failed);
  if (server ? zmq_bind(e.socket, numeric) : zmq_connect(e.socket, numeric)) {
    const char *advice = errno == EADDRINUSE      ? "; another process uses this port: stop it, or choose another"
                         : errno == EADDRNOTAVAIL ? "; this is no address of this host"
                                                  : "";
    TRY_GOTO(status, status_make(SHOAL_ERR_SYSTEM, "%s%s", zmq_strerror(errno), advice), failed);
  }
  *out = e;
  return NULL;
failed:
  zmq_end_close(&e, 0);
  return status;
}

static void hold_free(zmq_hold *h) {
  free(h->block);
  free(h);
}

void zmq_end_close(zmq_end *e, int linger) {
  while (e->spare) {
    zmq_hold *next = e->spare->next;
    hold_free(e->spare);
    e->spare = next;
  }
  if (e->socket) {
    zmq_setsockopt(e->socket, ZMQ_LINGER, &linger, sizeof linger);
    zmq_socket_monitor(e->socket, NULL, 0);
    zmq_close(e->socket);
  }
  if (e->monitor) zmq_close(e->monitor);
  if (e->zap) {
    /* The thread's wait ends only with the context; what lingers is given its time first. */
    if (linger) zmq_poll(NULL, 0, MIN_OF(linger, 50));
    zmq_ctx_shutdown(e->context);
    zap_join(e->zap);
  }
  leave_thread(e->thread);
  *e = (zmq_end){0};
}

bool zmq_end_event(zmq_end *e, uint16_t *event, uint32_t *value) {
  uint8_t frame[6]; /* event u16, value u32, the host's byte order; then a frame with the address */
  if (zmq_recv(e->monitor, frame, sizeof frame, ZMQ_DONTWAIT) != (int)sizeof frame) return false;
  memcpy(event, frame, 2);
  memcpy(value, frame + 2, 4);
  zmq_recv(e->monitor, NULL, 0, ZMQ_DONTWAIT);
  return true;
}

/* ---- receiving */

static bool read_frame(void *socket, zmq_msg_t *m, int flags) {
  zmq_msg_init(m);
  while (zmq_msg_recv(m, socket, flags) < 0)
    if (errno != EINTR || !(flags & ZMQ_DONTWAIT)) { /* waiting ends at a signal: the caller looks at its deadline */
      zmq_msg_close(m);
      return false;
    }
  return true;
}

static bool first_frame(zmq_end *e, zmq_msg_t *m, double seconds) {
  if (read_frame(e->socket, m, ZMQ_DONTWAIT)) return true;
  if (seconds <= 0) return false;
  if (e->eager > 0) {
    const double until = clock_seconds() + MIN_OF(e->eager, seconds);
    do {
      sched_yield(); /* to whom it waits for, if it has no processor */
      if (read_frame(e->socket, m, ZMQ_DONTWAIT)) return true;
    } while (clock_seconds() < until);
  }
  int limit = (int)(seconds * 1e3) + 1;
  if (limit != e->receive_limit && !zmq_setsockopt(e->socket, ZMQ_RCVTIMEO, &limit, sizeof limit))
    e->receive_limit = limit;
  return read_frame(e->socket, m, 0);
}

/* libzmq's own routing ids: a zero byte and a number. Clients that choose theirs are none of ours. */
static uint64_t route_of(zmq_msg_t *id) {
  uint32_t number;
  const uint8_t *bytes = zmq_msg_data(id);
  if (zmq_msg_size(id) != 5 || bytes[0]) return 0;
  memcpy(&number, bytes + 1, 4);
  return ((uint64_t)1 << 32) | number;
}

bool zmq_end_receive(zmq_end *e, bool server, double seconds, size_t largest, zmq_incoming *in) {
  zmq_msg_t m;
  if (!first_frame(e, &m, seconds)) return false;
  *in = (zmq_incoming){.fd = -1};
  zmq_msg_init(&in->payload);
  bool more = zmq_msg_more(&m);
  if (server) {
    in->route = route_of(&m);
    zmq_msg_close(&m);
    if (!more || !read_frame(e->socket, &m, ZMQ_DONTWAIT)) {
      in->wrong = "no header";
      return true;
    }
    in->fd = zmq_msg_get(&m, ZMQ_SRCFD);
    more = zmq_msg_more(&m);
  }
  uint64_t bytes = 0;
  size_t size = zmq_msg_size(&m);
  in->wrong = wire_decode(zmq_msg_data(&m), MIN_OF(size, WIRE_HEADER), largest, &in->header, &in->job, &bytes);
  in->foreign = wire_other_version(zmq_msg_data(&m), size);
  const uint32_t sent = in->wrong ? 0 : wire_checksum(zmq_msg_data(&m));
  if (size > WIRE_HEADER) {
    zmq_msg_move(&in->payload, &m);
    in->offset = WIRE_HEADER;
  } else if (more) {
    zmq_msg_close(&in->payload);
    if (!read_frame(e->socket, &in->payload, ZMQ_DONTWAIT)) zmq_msg_init(&in->payload);
    more = zmq_msg_more(&in->payload);
  }
  zmq_msg_close(&m);
  if (!in->wrong && zmq_msg_size(&in->payload) - in->offset != bytes)
    in->wrong = "the payload does not have the length that the header says";
  while (more) {
    in->wrong = "too many frames";
    if (!read_frame(e->socket, &m, ZMQ_DONTWAIT)) break;
    more = zmq_msg_more(&m);
    zmq_msg_close(&m);
  }
  if (in->wrong) return true;
  if (crc32c(0, (const uint8_t *)zmq_msg_data(&in->payload) + in->offset, bytes) != sent)
    in->wrong = "the payload's checksum is wrong";
  return true;
}

static shoal_status hold_copy(zmq_hold *h, const void *data, size_t bytes) {
  if (h->room < bytes || !h->block) {
    free(h->block);
    h->room = mem_round_up(MAX_OF(bytes, 1), MEM_ALIGN);
    h->block = aligned_alloc(MEM_ALIGN, h->room);
    if (!h->block) {
      h->room = 0;
      return status_no_memory();
    }
  }
  memcpy(h->block, data, bytes);
  return NULL;
}

shoal_status zmq_end_hold(zmq_end *e, zmq_incoming *in, net_message *out) {
  zmq_hold *h = e->spare;
  if (h)
    e->spare = h->next;
  else
    h = calloc(1, sizeof *h);
  shoal_status status = h ? NULL : status_no_memory();
  const uint8_t *data = (const uint8_t *)zmq_msg_data(&in->payload) + in->offset;
  size_t bytes = zmq_msg_size(&in->payload) - in->offset;
  /* The bytes of a small message lie inside of zmq_msg_t: they move with it. */
  if (!status && (bytes < COPY_SMALL || (uintptr_t)data % MEM_ALIGN)) {
    status = hold_copy(h, data, bytes);
    data = h->block;
  } else if (!status) {
    zmq_msg_init(&h->message);
    zmq_msg_move(&h->message, &in->payload);
    h->has_message = true;
    data = (const uint8_t *)zmq_msg_data(&h->message) + in->offset;
  }
  zmq_msg_close(&in->payload);
  if (status) {
    if (h) hold_free(h);
    return status;
  }
  *out = (net_message){.header = in->header, .payload = data, .bytes = bytes, .peer = in->route, .hold = h};
  return NULL;
}

void zmq_end_release(zmq_end *e, zmq_hold *h) {
  if (!h) return;
  if (h->has_message) zmq_msg_close(&h->message);
  h->has_message = false;
  if (h->room > SPARE_LARGEST) {
    hold_free(h);
    return;
  }
  h->next = e->spare;
  e->spare = h;
}

/* ---- sending */

struct zmq_borrow {
  sem_t left;
};

/* Called by libzmq, from any thread, when it needs the bytes no more. */
static void give_back(void *data, void *hint) {
  zmq_borrow *b = hint;
  sem_post(&b->left);
}

/* A frame that points at the payload. */
static zmq_borrow *borrow_payload(const net_part *part, zmq_msg_t *m) {
  zmq_borrow *b = malloc(sizeof *b);
  if (!b) return NULL;
  sem_init(&b->left, 0, 0);
  if (!zmq_msg_init_data(m, (void *)(uintptr_t)part->data, part->bytes, give_back, b)) return b;
  sem_destroy(&b->left);
  free(b);
  return NULL;
}

/* Waits out signals. */
static int send_frame(zmq_msg_t *m, void *socket, int flags) {
  int n;
  while ((n = zmq_msg_send(m, socket, flags)) < 0 && errno == EINTR) {}
  return n;
}

static zmq_end_result failure(void) {
  return errno == EAGAIN ? ZMQ_END_FULL : errno == EHOSTUNREACH ? ZMQ_END_NO_PEER : ZMQ_END_FAILED;
}

static bool send_route(zmq_end *e, uint64_t route) {
  uint8_t id[5] = {0};
  uint32_t number = (uint32_t)route;
  memcpy(id + 1, &number, 4);
  int sent;
  while ((sent = zmq_send(e->socket, id, sizeof id, ZMQ_DONTWAIT | ZMQ_SNDMORE)) < 0 && errno == EINTR) {}
  return sent >= 0;
}

zmq_end_result zmq_end_send(zmq_end *e, uint64_t route, const net_header *header, uint64_t job, const net_part *parts,
                            int n, size_t bytes, zmq_borrow **borrow) {
  zmq_msg_t frame, payload;
  const bool own_frame = n == 1 && bytes >= (route ? ZERO_COPY_SERVER : ZERO_COPY_CLIENT);
  *borrow = NULL;
  if (zmq_msg_init_size(&frame, WIRE_HEADER + (own_frame ? 0 : bytes))) return ZMQ_END_FAILED;
  uint8_t *to = zmq_msg_data(&frame);
  wire_encode(header, job, bytes, to);
  uint32_t checksum = own_frame ? wire_checksum_of(parts, n) : 0;
  for (size_t i = 0, at = WIRE_HEADER; i < (size_t)n && !own_frame; at += parts[i++].bytes)
    if (parts[i].bytes) checksum = crc32c_copy(checksum, to + at, parts[i].data, parts[i].bytes);
  wire_seal(to, checksum);
  if ((route && !send_route(e, route)) ||
      send_frame(&frame, e->socket, ZMQ_DONTWAIT | (own_frame ? ZMQ_SNDMORE : 0)) < 0) {
    zmq_end_result r = failure();
    zmq_msg_close(&frame);
    return r;
  }
  if (!own_frame) return ZMQ_END_SENT;
  /* From here on libzmq takes the rest of the message, or drops all of it with the connection. */
  zmq_borrow *b = borrow_payload(&parts[0], &payload);
  if (!b) zmq_msg_init(&payload); /* an empty frame ends the message; it does not check at the other side */
  *borrow = b;
  if (send_frame(&payload, e->socket, ZMQ_DONTWAIT) < 0) {
    zmq_msg_close(&payload);
    return ZMQ_END_FAILED;
  }
  return b ? ZMQ_END_SENT : ZMQ_END_FAILED;
}

bool zmq_end_wait_sent(zmq_end *e, zmq_borrow *b, double seconds) {
  const double until = clock_seconds() + seconds;
  for (;;) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_nsec += 10000000;
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    if (!sem_clockwait(&b->left, CLOCK_MONOTONIC, &t)) {
      sem_destroy(&b->left);
      free(b);
      return true;
    }
    /* A connection that ended gives its messages back only when this thread lets libzmq work. */
    int events;
    size_t length = sizeof events;
    if (e->socket) zmq_getsockopt(e->socket, ZMQ_EVENTS, &events, &length);
    if (clock_seconds() >= until) return false;
  }
}
