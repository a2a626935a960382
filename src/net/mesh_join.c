/* How the ranks of a mesh find each other: each connects to those before it and lets in those behind it. */
#include "net/mesh_internal.h"
#include "net/shm_greet.h"
#include "net/tcp_address.h"

#include "base/clock.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define GREETING 5.0 /* seconds a fresh connection has to say who it is */
#define TRY_SECONDS 0.1
#define LOOK_MS 20 /* between two looks while waiting */
#define RING_BYTES ((size_t)1 << 20)
enum { GUESTS_MAX = 64 };

/* Whether this rank lets that one in; otherwise it connects to it. */
static bool lets_in(const mesh *m, int rank) { return m->backwards ? rank < m->rank : rank > m->rank; }

static int missing_guests(const mesh *m) {
  int n = 0;
  for (int r = 0; r < m->ranks; r++) n += lets_in(m, r) && !m->peers[r].there;
  return n;
}

/* The k-th rank to connect to; the first of all lets in everybody. -1: there are no more. */
static int host(const mesh *m, int k) {
  const int rank = m->backwards ? m->ranks - 1 - k : k;
  return rank == m->rank ? -1 : rank;
}

/* NULL: the rank may come in. */
static const char *refusal(const mesh *m, uint64_t job, uint32_t from) {
  if (job != m->job) return "another job, or other addresses: do all ranks have the same cluster?";
  if (from >= (uint32_t)m->ranks || !lets_in(m, (int)from)) return "no such rank";
  return m->peers[from].there ? "this rank is there already" : NULL;
}

/* Waits a little. False: there is no sense in it any more. */
static bool wait_readable(const mesh_options *o, int sock, double until) {
  struct pollfd p = {.fd = sock, .events = POLLIN};
  if (clock_seconds() > until || mesh_interrupted(o)) return false;
  poll(&p, 1, LOOK_MS);
  return true;
}

/* ---- shared memory */

static shoal_status map_bells(mesh *m) {
  const size_t bytes = mem_round_up((size_t)m->ranks * sizeof *m->bells, shm_page_bytes());
  if (!shm_sound(m->bells_fd, bytes)) return status_make(SHOAL_ERR_PEER, "rank 0 hands over something else");
  void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, m->bells_fd, 0);
  if (at == MAP_FAILED) return status_errno(errno, "mapping shared memory");
  m->bells = at;
  return NULL;
}

static shoal_status share(mesh *m, int rank, int fd, bool first, pid_t pid) {
  shm_segment segment;
  if (!shm_sound(fd, shm_segment_bytes(RING_BYTES)))
    return status_make(SHOAL_ERR_PEER, "rank %d hands over something else", rank);
  TRY(shm_segment_map(fd, RING_BYTES, &segment));
  mesh_channel_share(&m->peers[rank].channel, &segment, first, &m->bells[rank]);
  m->peers[rank].there = true;
  snprintf(m->peers[rank].name, MESH_NAME, "rank %d (pid %d)", rank, (int)pid);
  return NULL;
}

/* One that listens already or will soon. */
static shoal_status reach_shared(const mesh_options *o, int rank, double until, int *sock) {
  for (;;) {
    shoal_status status = greet_connect(o->addresses[rank], MIN_OF(until, clock_seconds() + TRY_SECONDS), sock);
    if (shoal_status_code(status) != SHOAL_ERR_PEER || clock_seconds() >= until || mesh_interrupted(o)) return status;
    shoal_status_free(status);
  }
}

static shoal_status connect_shared(mesh *m, const mesh_options *o, int rank, double until) {
  shm_hello hello;
  shm_welcome welcome;
  int fds[2], *sock = &m->peers[rank].channel.stream.sock;
  TRY(reach_shared(o, rank, until, sock));
  greet_fill_hello(&hello, (uint32_t)m->rank, m->job, RING_BYTES);
  if (!greet_send_hello(*sock, &hello)) return status_errno(errno, "local socket");
  for (struct pollfd p = {.fd = *sock, .events = POLLIN}; !poll(&p, 1, 0) && wait_readable(o, *sock, until);) continue;
  TRY(greet_await_welcome(*sock, mesh_interrupted(o) ? 0 : until, &welcome, fds));
  shoal_status status = NULL;
  pid_t pid = 0;
  int pidfd = -1;
  if (!greet_peer(*sock, &pid, &pidfd)) status = status_make(SHOAL_ERR_REFUSED, "another user's process listens there");
  if (pidfd >= 0) close(pidfd);
  if (m->bells || status) {
    close(fds[0]);
  } else {
    m->bells_fd = fds[0];
    status = map_bells(m);
  }
  if (!status) status = share(m, rank, fds[1], false, pid);
  close(fds[1]);
  return status;
}

/* Lets in whoever has said hello. Takes the socket. */
static shoal_status welcome_shared(mesh *m, int sock, const shm_hello *hello, pid_t pid) {
  shm_welcome welcome = {.capacity = RING_BYTES, .largest = RING_BYTES};
  const char *why = refusal(m, hello->job, hello->from);
  int fds[2] = {m->bells_fd, -1};
  shoal_status status = NULL;
  if (why) {
    welcome.refused = 1;
    snprintf(welcome.why, sizeof welcome.why, "%s", why);
    m->refused++;
  } else {
    status = shm_create(shm_segment_bytes(RING_BYTES), &fds[1]);
    if (!status) status = share(m, (int)hello->from, fds[1], true, pid);
  }
  const bool said = !status && greet_send_welcome(sock, &welcome, why ? NULL : fds);
  if (fds[1] >= 0) close(fds[1]);
  if (why || status)
    close(sock);
  else
    m->peers[hello->from].channel.stream.sock = sock;
  if (!status && !why && !said) status = status_make(SHOAL_ERR_PEER, "rank %u has ended", hello->from);
  return status;
}

static shoal_status hear_hello(mesh *m, int sock) {
  shm_hello hello;
  pid_t pid;
  int pidfd = -1, said = greet_peer(sock, &pid, &pidfd) ? 0 : -1;
  if (pidfd >= 0) close(pidfd);
  for (double until = clock_seconds() + GREETING; !said && clock_seconds() < until;) {
    struct pollfd p = {.fd = sock, .events = POLLIN};
    poll(&p, 1, LOOK_MS);
    said = greet_read_hello(sock, &hello);
  }
  if (said == 1) return welcome_shared(m, sock, &hello, pid);
  m->refused++;
  close(sock);
  return NULL;
}

static shoal_status let_in_shared(mesh *m, const mesh_options *o, int door, double until) {
  while (missing_guests(m)) {
    struct pollfd p = {.fd = door, .events = POLLIN};
    if (clock_seconds() > until || mesh_interrupted(o)) return mesh_missing(m, o, "");
    if (poll(&p, 1, LOOK_MS) <= 0) continue;
    int sock = accept4(door, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (sock >= 0) TRY(hear_hello(m, sock));
  }
  return NULL;
}

shoal_status mesh_join_shared(mesh *m, const mesh_options *o) {
  const double until = clock_seconds() + o->patience;
  const bool listens = missing_guests(m) > 0;
  int door = -1;
  if (host(m, 0) < 0) {
    TRY(shm_create(mem_round_up((size_t)m->ranks * sizeof *m->bells, shm_page_bytes()), &m->bells_fd));
    TRY(map_bells(m));
  }
  if (listens) TRY(greet_listen(o->addresses[m->rank], &door));
  shoal_status status = NULL;
  for (int k = 0, r; (r = host(m, k)) >= 0 && !status; k++) {
    status = connect_shared(m, o, r, until);
    if (shoal_status_code(status) == SHOAL_ERR_PEER) status = status_wrap(status, MESH_RANK, r, mesh_address(o, r));
  }
  if (!status && listens) status = let_in_shared(m, o, door, until);
  if (door >= 0) close(door);
  return status;
}

/* ---- TCP: connecting */

typedef enum { REACHED, NOT_YET, NEVER } reach;

static tcp_stream_result read_all(const mesh_options *o, tcp_stream *s, void *to, size_t n, double until) {
  for (size_t have = 0, got; have < n;) {
    tcp_stream_result r = tcp_stream_read(s, (uint8_t *)to + have, n - have, &got);
    if (r == TCP_STREAM_DONE)
      have += got;
    else if (r != TCP_STREAM_WAIT || !wait_readable(o, s->sock, until))
      return r;
  }
  return TCP_STREAM_DONE;
}

static tcp_stream_result send_greeting(const mesh *m, tcp_stream *s, uint16_t kind, const char *words) {
  const net_part part = {words, strlen(words)};
  tcp_stream_outgoing o;
  wire_encode(&(net_header){.kind = kind, .from = (uint32_t)m->rank}, m->job, part.bytes, o.header);
  tcp_stream_outgoing_init(&o, &part, part.bytes > 0, part.bytes);
  return tcp_stream_send(s, &o);
}

/* What the other side says to our hello. */
static reach hear_answer(const mesh *m, const mesh_options *o, tcp_stream *s, double until, char words[MESH_WORDS]) {
  uint8_t bytes[WIRE_HEADER];
  net_header h;
  uint64_t job, payload;
  tcp_stream_result r = read_all(o, s, bytes, sizeof bytes, until);
  if (r != TCP_STREAM_DONE) {
    snprintf(words, MESH_WORDS, "it %s", r == TCP_STREAM_WAIT ? "does not answer" : "closes the connection");
    return NOT_YET;
  }
  const uint16_t other = wire_other_version(bytes, sizeof bytes);
  if (other) {
    wire_name_versions(other, words, MESH_WORDS);
    return NEVER;
  }
  const char *wrong = wire_decode(bytes, sizeof bytes, MESH_WORDS - 1, &h, &job, &payload);
  if (wrong || (h.kind != WIRE_WELCOME && h.kind != WIRE_REFUSED)) {
    snprintf(words, MESH_WORDS, "what listens there is no rank of Shoal");
    return NOT_YET;
  }
  if (h.kind == WIRE_WELCOME && job == m->job) return REACHED;
  memset(words, 0, MESH_WORDS);
  if (payload) (void)read_all(o, s, words, payload, until);
  return NEVER;
}

static reach handshake(const mesh_options *o, tcp_stream *s, double until, char words[MESH_WORDS]) {
  for (;;) {
    tcp_stream_result r = tcp_stream_handshake(s);
    if (r == TCP_STREAM_DONE) return REACHED;
    if (r == TCP_STREAM_WAIT && wait_readable(o, s->sock, until)) continue;
    bool final = false;
    snprintf(words, MESH_WORDS, "%s",
             r == TCP_STREAM_WRONG ? tls_client_reason(s->error, &final)
                                   : "the connection ends during the TLS handshake (does that rank use keys?)");
    return final ? NEVER : NOT_YET;
  }
}

static reach try_once(mesh *m, const mesh_options *o, int rank, const tcp_address *where, tcp_tls *tls, double until,
                      char words[MESH_WORDS], shoal_status *status) {
  int sock, error;
  tcp_stream *s = &m->peers[rank].channel.stream;
  const double soon = MIN_OF(until, clock_seconds() + GREETING);
  if (!tcp_dial(where, soon, &sock, &error)) {
    snprintf(words, MESH_WORDS, "%s", error == ECONNREFUSED ? "nobody listens there" : strerror(error));
    return NOT_YET;
  }
  tcp_configure(sock, m->heartbeat);
  *status = tcp_stream_init(s, sock, o->connecting.secret_key ? tls : NULL, 0);
  if (*status) return NEVER;
  /* A rank that still connects to others lets nobody in: there is time until it does. */
  reach r = handshake(o, s, until, words);
  if (r == REACHED && send_greeting(m, s, WIRE_HELLO, "") != TCP_STREAM_DONE) r = NOT_YET;
  if (r == REACHED) r = hear_answer(m, o, s, until, words);
  if (r != REACHED) tcp_stream_fini(s);
  return r;
}

static shoal_status connect_tcp(mesh *m, const mesh_options *o, int rank, tcp_tls *tls, double until) {
  char words[MESH_WORDS] = "";
  tcp_address where;
  shoal_status status = NULL;
  TRY(tcp_resolve(o->addresses[rank], &where));
  TRY(tcp_check_keys(&o->connecting, false, where.loopback));
  reach r;
  while ((r = try_once(m, o, rank, &where, tls, until, words, &status)) == NOT_YET) {
    if (clock_seconds() > until || mesh_interrupted(o))
      return status_make(SHOAL_ERR_PEER, "no connection in %g s (`deadline`): %s", o->patience, words);
    poll(NULL, 0, LOOK_MS);
  }
  TRY(status);
  if (r == NEVER) return status_make(SHOAL_ERR_REFUSED, "refused: %s", words);
  m->peers[rank].there = true;
  return NULL;
}

/* ---- TCP: letting in */

typedef struct {
  tcp_stream stream; /* sock -1: a free place */
  double until;
  bool secure; /* the handshake is over */
  uint8_t header[WIRE_HEADER];
  size_t have;
} guest;

static void refuse(mesh *m, guest *g, const char *why) {
  m->refused++;
  if (why && g->secure) (void)send_greeting(m, &g->stream, WIRE_REFUSED, why);
  tcp_stream_fini(&g->stream);
}

/* Who it is. */
static void take_hello(mesh *m, guest *g) {
  net_header h;
  uint64_t job, payload;
  const char *wrong = wire_decode(g->header, sizeof g->header, 0, &h, &job, &payload);
  if (wrong || h.kind != WIRE_HELLO) {
    refuse(m, g, wire_other_version(g->header, sizeof g->header) ? "another version of Shoal" : NULL);
    return;
  }
  const char *why = refusal(m, job, h.from);
  if (why || send_greeting(m, &g->stream, WIRE_WELCOME, "") != TCP_STREAM_DONE) {
    refuse(m, g, why);
    return;
  }
  tcp_stream_move(&g->stream, &m->peers[h.from].channel.stream);
  m->peers[h.from].there = true;
}

static void serve_guest(mesh *m, guest *g) {
  if (!g->secure) {
    tcp_stream_result r = tcp_stream_handshake(&g->stream);
    if (r == TCP_STREAM_DONE) g->secure = true;
    if (r == TCP_STREAM_END || r == TCP_STREAM_WRONG) {
      const bool plain = tls_is_plain(g->stream.error);
      if (plain) tcp_stream_go_plain(&g->stream);
      g->secure = plain; /* enough for the reason */
      refuse(m, g, plain ? "this rank uses keys, and you do not: add --keys" : NULL);
      return;
    }
  }
  while (g->secure && g->have < WIRE_HEADER) {
    size_t got;
    tcp_stream_result r = tcp_stream_read(&g->stream, g->header + g->have, WIRE_HEADER - g->have, &got);
    if (r == TCP_STREAM_END || r == TCP_STREAM_WRONG) refuse(m, g, NULL);
    if (r != TCP_STREAM_DONE) return;
    g->have += got;
  }
  if (g->secure && g->stream.visitor.refused[0])
    refuse(m, g, g->stream.visitor.refused);
  else if (g->secure)
    take_hello(m, g);
}

/* A place for a new connection: a free one, or the one that has been silent for longest. */
static guest *find_place(mesh *m, guest guests[GUESTS_MAX]) {
  guest *oldest = &guests[0];
  for (int i = 0; i < GUESTS_MAX; i++) {
    if (guests[i].stream.sock < 0) return &guests[i];
    if (guests[i].until < oldest->until) oldest = &guests[i];
  }
  refuse(m, oldest, NULL);
  return oldest;
}

static void accept_all(mesh *m, const mesh_options *o, int door, tcp_tls *tls, guest guests[GUESTS_MAX]) {
  for (int sock; (sock = accept4(door, NULL, NULL, SOCK_CLOEXEC)) >= 0;) {
    guest *g = find_place(m, guests);
    *g = (guest){.until = clock_seconds() + GREETING};
    tcp_configure(sock, m->heartbeat);
    shoal_status status = tcp_stream_init(&g->stream, sock, o->listening.secret_key ? tls : NULL, 0);
    if (status) g->stream.sock = -1;
    shoal_status_free(status); /* it tries again */
  }
}

static shoal_status let_in_tcp(mesh *m, const mesh_options *o, int door, tcp_tls *tls, double until) {
  guest *guests = calloc(GUESTS_MAX, sizeof *guests);
  if (!guests) return status_no_memory();
  shoal_status status = NULL;
  for (int i = 0; i < GUESTS_MAX; i++) guests[i].stream.sock = -1;
  while (missing_guests(m) && !status) {
    struct pollfd fds[GUESTS_MAX + 1] = {{.fd = door, .events = POLLIN}};
    for (int i = 0; i < GUESTS_MAX; i++) fds[i + 1] = (struct pollfd){.fd = guests[i].stream.sock, .events = POLLIN};
    poll(fds, GUESTS_MAX + 1, LOOK_MS);
    accept_all(m, o, door, tls, guests);
    const double now = clock_seconds();
    for (int i = 0; i < GUESTS_MAX; i++) {
      if (guests[i].stream.sock >= 0) serve_guest(m, &guests[i]);
      if (guests[i].stream.sock >= 0 && now > guests[i].until) refuse(m, &guests[i], NULL);
    }
    if ((now > until || mesh_interrupted(o)) && missing_guests(m))
      status = mesh_missing(m, o, "they have not connected");
  }
  for (int i = 0; i < GUESTS_MAX; i++) tcp_stream_fini(&guests[i].stream);
  free(guests);
  return status;
}

static shoal_status meet(mesh *m, const mesh_options *o, tcp_tls *server, tcp_tls *client, double until) {
  const bool listens = missing_guests(m) > 0;
  tcp_address where;
  int door = -1;
  if (listens) {
    TRY(tcp_resolve(o->addresses[m->rank], &where));
    TRY(tcp_check_keys(&o->listening, true, where.loopback));
    shoal_status status = tcp_open_listener(&where, &door);
    if (status) return status_wrap(status, "%s", o->addresses[m->rank]);
  }
  shoal_status status = NULL;
  for (int k = 0, r; (r = host(m, k)) >= 0 && !status; k++)
    status = status_wrap(connect_tcp(m, o, r, client, until), MESH_RANK, r, mesh_address(o, r));
  if (!status && listens) status = let_in_tcp(m, o, door, server, until);
  if (door >= 0) close(door);
  return status;
}

shoal_status mesh_join_tcp(mesh *m, const mesh_options *o) {
  const double until = clock_seconds() + o->patience;
  shoal_status status = NULL;
  if (o->listening.secret_key) status = tls_create(&o->listening, true, &m->server_tls);
  if (!status && o->connecting.secret_key) status = tls_create(&o->connecting, false, &m->client_tls);
  return status ? status : meet(m, o, &m->server_tls, &m->client_tls, until);
}
