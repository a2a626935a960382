#include "net/mesh.h"

#include "net/mesh_internal.h"
#include "net/tcp_address.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#define SLICE 0.02     /* seconds of sleep between looks at what makes no sound */
#define LAST_WORDS 1.0 /* seconds that the last messages are given to leave */
#define SPINS 2000     /* looks at shared memory before sleeping: a few microseconds */
enum { EVENTS = 64 };

/* ---- who is there */

static void leave(mesh *m, int rank, const char *why) {
  mesh_peer *p = &m->peers[rank];
  if (p->gone) return;
  p->gone = true;
  p->why = why;
}

const char *mesh_why_gone(const mesh *m, int rank, char out[MESH_WORDS]) {
  snprintf(out, MESH_WORDS, "%s %s", mesh_name(m, rank), m->peers[rank].gone ? m->peers[rank].why : "is there");
  return out;
}

const char *mesh_name(const mesh *m, int rank) { return m->peers[rank].name; }

bool mesh_gone(const mesh *m, int rank) { return m->peers[rank].gone; }
const char *mesh_reason(const mesh *m) { return m->reason; }
int mesh_rank(const mesh *m) { return m->rank; }
int mesh_ranks(const mesh *m) { return m->ranks; }
uint64_t mesh_refused(const mesh *m) { return m->refused; }

bool mesh_aborted(const mesh *m, int *rank) {
  for (int r = 0; r < m->ranks; r++)
    if (m->peers[r].aborted) {
      *rank = r;
      return true;
    }
  return false;
}

/* ---- sending */

void mesh_start(mesh *m, mesh_message *message) {
  mesh_peer *p = &m->peers[message->peer];
  message->under_way = true;
  message->next = NULL;
  mesh_message ***end = message->send ? &p->outgoing_end : &p->expected_end;
  **end = message;
  *end = &message->next;
}

/* Takes a message out of the list that begins at *first. */
static bool take_out(mesh_message **first, mesh_message ***end, mesh_message *message) {
  for (mesh_message **at = first; *at; at = &(*at)->next) {
    if (*at != message) continue;
    *at = message->next;
    if (*end == &message->next) *end = at;
    message->under_way = false;
    return true;
  }
  return false;
}

void mesh_cancel(mesh *m, mesh_message *message) {
  mesh_peer *p = &m->peers[message->peer];
  if (!message->under_way) return;
  if (message->send ? p->sending && p->outgoing == message : p->into == message) { /* half of it has gone, or come */
    leave(m, message->peer, "was cut off");
    p->sending = false;
    p->into = NULL;
  }
  if (message->send)
    take_out(&p->outgoing, &p->outgoing_end, message);
  else
    take_out(&p->expected, &p->expected_end, message);
}

/* Whether the peer is still there. */
static bool judge(mesh *m, int rank, tcp_stream_result r) {
  if (r == TCP_STREAM_END) leave(m, rank, "has closed its connection");
  if (r == TCP_STREAM_WRONG) leave(m, rank, "sends what is no message of ours");
  return r == TCP_STREAM_DONE;
}

static void push(mesh *m, int rank) {
  mesh_peer *p = &m->peers[rank];
  while (p->outgoing && !p->gone) {
    mesh_message *first = p->outgoing;
    if (!p->sending) {
      p->part = (net_part){first->bytes, first->count};
      wire_encode(&(net_header){.kind = MESH_DATA, .from = (uint32_t)m->rank, .number = first->tag}, m->job,
                  first->count, p->out.header);
      tcp_stream_outgoing_init(&p->out, &p->part, first->count > 0, first->count);
      p->sending = true;
    }
    if (!judge(m, rank, mesh_channel_send(&p->channel, &p->out))) return;
    p->sending = false;
    take_out(&p->outgoing, &p->outgoing_end, first);
  }
}

/* ---- receiving */

static mesh_message *find_expected(const mesh_peer *p) {
  mesh_message *e = p->expected;
  while (e && e->tag != p->incoming.number) e = e->next;
  return e;
}

/* A message has come that nobody expected, the last time it was looked at. */
static bool held_up(const mesh_peer *p) { return p->have == WIRE_HEADER && !p->into; }

/* The header is there. False: it holds up what is behind it. */
static bool begin_message(mesh *m, int rank) {
  mesh_peer *p = &m->peers[rank];
  if (p->incoming.kind == MESH_ABORT) {
    p->aborted = true;
    leave(m, rank, "has failed and ends the job; it says why itself");
    return false;
  }
  p->into = find_expected(p);
  if (!p->into) return false;
  if (p->into->count == p->incoming_bytes) return true;
  m->wrong = true;
  snprintf(m->reason, sizeof m->reason,
           "%s sends %llu bytes where %zu are expected: do all ranks have the same program and settings?", p->name,
           (unsigned long long)p->incoming_bytes, p->into->count);
  return false;
}

static bool read_header(mesh *m, int rank) {
  mesh_peer *p = &m->peers[rank];
  while (p->have < WIRE_HEADER) {
    size_t got;
    if (!judge(m, rank, mesh_channel_read(&p->channel, p->header + p->have, WIRE_HEADER - p->have, &got))) return false;
    p->have += got;
  }
  uint64_t job;
  const char *wrong = wire_decode(p->header, WIRE_HEADER, SIZE_MAX / 2, &p->incoming, &job, &p->incoming_bytes);
  if (wrong || job != m->job || p->incoming.from != (uint32_t)rank ||
      (p->incoming.kind != MESH_DATA && p->incoming.kind != MESH_ABORT)) {
    leave(m, rank, "sends what is no message of ours");
    return false;
  }
  return true;
}

static void pull(mesh *m, int rank) {
  mesh_peer *p = &m->peers[rank];
  while (!p->gone && !m->wrong) {
    if (!p->into) {
      if (p->have < WIRE_HEADER && !read_header(m, rank)) return;
      if (!begin_message(m, rank)) return;
    }
    const size_t done = p->have - WIRE_HEADER;
    if (done < p->into->count) {
      size_t got;
      if (!judge(m, rank,
                 mesh_channel_read(&p->channel, (uint8_t *)p->into->bytes + done, p->into->count - done, &got)))
        return;
      p->have += got;
      continue;
    }
    mesh_channel_end(&p->channel, p->into->count);
    take_out(&p->expected, &p->expected_end, p->into);
    p->into = NULL;
    p->have = 0;
  }
}

/* ---- moving */

/* Takes in which connections have something new. */
static void hear_sockets(mesh *m, double seconds) {
  struct epoll_event events[EVENTS];
  int n;
  do {
    n = epoll_wait(m->epoll, events, EVENTS, seconds > 0 ? (int)(seconds * 1e3) + 1 : 0);
    for (int i = 0; i < n; i++)
      if (events[i].events & ~(uint32_t)EPOLLOUT)
        tcp_stream_event(&m->peers[events[i].data.u32].channel.stream,
                         events[i].events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR));
    seconds = 0;
  } while (n == EVENTS);
}

bool mesh_move(mesh *m) {
  if (!m->shared && m->ranks > 1) hear_sockets(m, 0);
  for (int k = 1; k < m->ranks; k++) {
    const int rank = (m->rank + k) % m->ranks;
    push(m, rank);
    if (held_up(&m->peers[rank]) || mesh_channel_ready(&m->peers[rank].channel)) pull(m, rank);
  }
  return !m->wrong;
}

/* Hosts that are not there any more; processes that have ended and left nothing to be read. */
static void look_at_silence(mesh *m) {
  const double now = clock_seconds();
  if (now < m->look) return;
  m->look = now + SLICE;
  for (int r = 0; r < m->ranks; r++) {
    mesh_peer *p = &m->peers[r];
    if (r == m->rank || p->gone) continue;
    const int sock = p->channel.stream.sock;
    struct pollfd hangup = {.fd = sock, .events = POLLRDHUP};
    if (!m->shared && tcp_silent(sock, m->heartbeat)) leave(m, r, "does not respond: its host or the network is down");
    if (m->shared && poll(&hangup, 1, 0) > 0 && !mesh_channel_ready(&p->channel)) leave(m, r, "has ended");
  }
}

static bool anything_shared(mesh *m) {
  for (int r = 0; r < m->ranks; r++) {
    mesh_peer *p = &m->peers[r];
    size_t room = 0;
    if (r == m->rank || p->gone) continue;
    if (!held_up(p) && mesh_channel_ready(&p->channel)) return true;
    if (p->outgoing && (!ring_space(p->channel.out, &room) || room)) return true;
  }
  return false;
}

void mesh_wait(mesh *m, double seconds) {
  seconds = MIN_OF(seconds, SLICE);
  if (m->ranks < 2) return;
  if (!m->shared) {
    hear_sockets(m, seconds);
  } else {
    bool any = false;
    for (int i = 0; i < SPINS / m->ranks && !any; i++) any = anything_shared(m);
    shm_bell *own = &m->bells[m->rank];
    const uint32_t seen = any ? 0 : bell_prepare(own);
    if (!any && !anything_shared(m)) bell_sleep(own, seen, seconds);
    if (!any) bell_awake(own);
  }
  look_at_silence(m);
}

/* ---- the end */

static bool unsent(const mesh *m) {
  for (int r = 0; r < m->ranks; r++)
    if (m->peers[r].outgoing && !m->peers[r].gone) return true;
  return false;
}

static void send_rest(mesh *m, double until) {
  while (unsent(m) && mesh_move(m) && clock_seconds() < until) mesh_wait(m, SLICE);
}

void mesh_abort(mesh *m) {
  const double until = clock_seconds() + LAST_WORDS;
  for (int r = 0; r < m->ranks; r++) {
    mesh_peer *p = &m->peers[r];
    if (r == m->rank || p->gone) continue;
    /* Behind a message that is half sent; without those that are not begun. */
    while (p->sending && p->outgoing && !p->gone && clock_seconds() < until) {
      push(m, r);
      if (p->sending) poll(NULL, 0, 1);
    }
    if (p->sending || p->gone) continue;
    wire_encode(&(net_header){.kind = MESH_ABORT, .from = (uint32_t)m->rank}, m->job, 0, p->out.header);
    tcp_stream_outgoing_init(&p->out, NULL, 0, 0);
    while (mesh_channel_send(&p->channel, &p->out) == TCP_STREAM_WAIT && clock_seconds() < until) poll(NULL, 0, 1);
  }
}

void mesh_destroy(mesh *m) {
  if (!m) return;
  const double until = clock_seconds() + LAST_WORDS;
  if (m->peers && !m->wrong) send_rest(m, until);
  for (int r = 0; m->peers && r < m->ranks; r++) {
    mesh_channel *c = &m->peers[r].channel;
    if (!m->shared && m->peers[r].there && !m->peers[r].gone) tcp_stream_linger(&c->stream, until);
    mesh_channel_fini(c);
  }
  if (m->bells) munmap(m->bells, mem_round_up((size_t)m->ranks * sizeof *m->bells, shm_page_bytes()));
  if (m->bells_fd >= 0) close(m->bells_fd);
  if (m->epoll >= 0) close(m->epoll);
  tls_destroy(&m->server_tls);
  tls_destroy(&m->client_tls);
  free(m->peers);
  free(m);
}

void mesh_drop(mesh *m) {
  for (int r = 0; r < m->ranks; r++) m->peers[r].gone = true;
  mesh_destroy(m);
}

/* ---- the beginning */

const char *mesh_address(const mesh_options *o, int rank) {
  const char *address = o->addresses[rank];
  return strncmp(address, "tcp://", 6) ? address : address + 6;
}

bool mesh_interrupted(const mesh_options *o) { return o->interrupted && o->interrupted(o->context); }

shoal_status mesh_missing(const mesh *m, const mesh_options *o, const char *more) {
  text who = {0};
  for (int r = 0; r < m->ranks; r++)
    if (r != m->rank && !m->peers[r].there)
      text_add(&who, "%s" MESH_RANK, who.length ? ", " : "", r, mesh_address(o, r));
  if (m->refused) text_add(&who, " (connections refused here: %llu)", (unsigned long long)m->refused);
  shoal_status status = status_make(SHOAL_ERR_PEER, "no connection in %g s (`deadline`) with %s%s%s", o->patience,
                                    who.data ? who.data : "a rank", *more ? ": " : "", more);
  text_fini(&who);
  return status;
}

static shoal_status watch_sockets(mesh *m) {
  for (int r = 0; r < m->ranks; r++) {
    if (r == m->rank) continue;
    tcp_stream *s = &m->peers[r].channel.stream;
    s->edge = true;
    s->drained = false; /* TLS may have read more than the greeting, of which no event tells any more */
    struct epoll_event e = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.u32 = (uint32_t)r};
    if (epoll_ctl(m->epoll, EPOLL_CTL_ADD, s->sock, &e)) return status_errno(errno, "epoll");
  }
  return NULL;
}

static shoal_status join(mesh *m, const mesh_options *o) {
  if (m->ranks < 2) return NULL;
  if (m->shared) return mesh_join_shared(m, o);
  m->epoll = epoll_create1(EPOLL_CLOEXEC);
  if (m->epoll < 0) return status_errno(errno, "epoll");
  TRY(mesh_join_tcp(m, o));
  return watch_sockets(m);
}

shoal_status mesh_create(const mesh_options *o, mesh **out) {
  if (o->ranks < 1 || o->ranks > MESH_RANKS_MAX || o->rank < 0 || o->rank >= o->ranks)
    return status_make(SHOAL_ERR_ARGUMENT, "rank %d of %d: at most %d are possible", o->rank, o->ranks, MESH_RANKS_MAX);
  mesh *m = calloc(1, sizeof *m);
  if (!m) return status_no_memory();
  *m = (mesh){.rank = o->rank,
              .ranks = o->ranks,
              .backwards = o->backwards,
              .job = o->listening.job,
              .heartbeat = o->listening.heartbeat > 0 ? o->listening.heartbeat : 5,
              .bells_fd = -1,
              .epoll = -1,
              .shared = !strncmp(o->addresses[0], "shm:", 4),
              .peers = calloc((size_t)o->ranks, sizeof *m->peers)};
  for (int r = 0; m->peers && r < m->ranks; r++) {
    mesh_peer *p = &m->peers[r];
    p->channel.stream.sock = -1;
    snprintf(p->name, sizeof p->name, MESH_RANK, r, mesh_address(o, r));
    p->outgoing_end = &p->outgoing;
    p->expected_end = &p->expected;
  }
  shoal_status status = m->peers ? join(m, o) : status_no_memory();
  if (status)
    mesh_destroy(m);
  else
    *out = m;
  return status;
}
