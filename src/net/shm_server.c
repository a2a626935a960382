/* The server's end: many peers, one bell. See shm.h. */
#include "net/shm.h"
#include "net/shm_greet.h"
#include "net/shm_link.h"

#include "base/clock.h"
#include "base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sched.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define GREETING 1.0   /* seconds a fresh connection has for its hello */
#define BUSY_LOOKS 256 /* a busy server looks at the clock after so many messages */
#define PATIENCE 0.05  /* seconds an answer waits for a peer that takes nothing; then it is laid aside */
#define ASIDE_MAX 16   /* answers laid aside for one peer; with more it is dropped */
#define PEERS_MAX 4096

/* An answer, or the rest of one, for a peer whose ring is full: copied, so that the server can go on with others. */
typedef struct shm_aside {
  link_outgoing outgoing;
  net_part part;
  uint8_t *bytes; /* owned */
  struct shm_aside *next;
} shm_aside;

typedef enum { PEER_GREETING, PEER_OPEN, PEER_LEAVING, PEER_GONE } peer_state;

typedef struct {
  peer_state state;
  uint64_t id; /* unique in the server's life; the low bits are its place in the list */
  int sock, pidfd;
  pid_t pid;
  uint32_t from;
  double until;     /* PEER_GREETING: when the server's patience ends */
  shm_aside *aside; /* oldest first */
  int aside_count;
  shm_link link;
} shm_peer;

typedef struct {
  net_server base;
  net_options options;
  int sock, epoll, bell_fd;
  shm_bell *bell;
  shm_peer **peers; /* with holes */
  size_t room;
  size_t count; /* places in use, holes included */
  size_t next;  /* who is asked first */
  uint64_t serial;
  double look;  /* when to look at sockets again */
  size_t limit; /* net_server_limit */
  int busy;     /* messages since the clock was looked at */
} shm_server;

enum { ACCEPTS = 64 };   /* connections taken in at one look */
enum { WATCH_DOOR = 0 }; /* peers' numbers are above */

static void watch(shm_server *s, int fd, uint64_t id) {
  struct epoll_event e = {.events = EPOLLIN | EPOLLRDHUP, .data.u64 = id};
  if (fd >= 0) epoll_ctl(s->epoll, EPOLL_CTL_ADD, fd, &e);
}

static void peer_hang_up(shm_peer *p) {
  if (p->sock >= 0) close(p->sock); /* closing takes them out of the epoll set */
  if (p->pidfd >= 0) close(p->pidfd);
  p->sock = p->pidfd = -1;
}

static void aside_drop(shm_peer *p) {
  shm_aside *a = p->aside;
  p->aside = a->next;
  p->aside_count--;
  free(a->bytes);
  free(a);
}

static void peer_destroy(shm_server *s, shm_peer *p) {
  s->peers[p->id % PEERS_MAX] = NULL;
  while (p->aside) aside_drop(p);
  peer_hang_up(p);
  link_fini(&p->link);
  free(p);
}

static shm_peer *peer_find(shm_server *s, uint64_t id) {
  size_t place = id % PEERS_MAX;
  shm_peer *p = place < s->count ? s->peers[place] : NULL;
  return p && p->id == id ? p : NULL;
}

/* A new connection; whatever goes wrong with it concerns it alone. */
static void peer_accept(shm_server *s, int sock) {
  size_t place = 0;
  while (place < s->count && s->peers[place]) place++;
  shm_peer *p = NULL;
  void *list = s->peers;
  shoal_status status = NULL;
  if (place < PEERS_MAX && !(status = mem_grow(&list, &s->room, place + 1, sizeof *s->peers))) {
    s->peers = list;
    p = calloc(1, sizeof *p);
  }
  shoal_status_free(status);
  if (p) {
    p->pidfd = -1;
    if (!greet_peer(sock, &p->pid, &p->pidfd)) {
      free(p);
      p = NULL;
    }
  }
  if (!p) {
    s->base.stats.refused++;
    close(sock);
    return;
  }
  p->sock = sock;
  p->id = ++s->serial * PEERS_MAX + place;
  p->until = clock_seconds() + GREETING;
  s->peers[place] = p;
  s->count = MAX_OF(s->count, place + 1);
  watch(s, p->sock, p->id);
  watch(s, p->pidfd, p->id);
}

static void refuse(shm_server *s, shm_peer *p, const char *why) {
  shm_welcome w = {.refused = 1};
  snprintf(w.why, sizeof w.why, "%s", why);
  s->base.stats.refused++;
  if (!greet_send_welcome(p->sock, &w, NULL)) shutdown(p->sock, SHUT_RDWR);
  peer_destroy(s, p);
}

static void peer_welcome(shm_server *s, shm_peer *p, const shm_hello *h) {
  char why[GREET_TEXT];
  if (h->job != s->options.job) {
    snprintf(why, sizeof why, "this server is part of another job (%016llx, not %016llx)",
             (unsigned long long)s->options.job, (unsigned long long)h->job);
    refuse(s, p, why);
    return;
  }
  if (h->largest > s->options.largest) {
    snprintf(why, sizeof why, "messages of %llu bytes, but this server takes at most %zu",
             (unsigned long long)h->largest, s->options.largest);
    refuse(s, p, why);
    return;
  }
  const size_t largest = MIN_OF((size_t)h->largest, s->limit);
  shm_welcome w = {.capacity = link_capacity(largest), .largest = largest};
  int fd = -1;
  shm_segment segment;
  shoal_status status = shm_create(shm_segment_bytes(w.capacity), &fd);
  if (status && (errno == EMFILE || errno == ENFILE)) s->base.stats.accept_error = errno;
  if (!status) status = shm_segment_map(fd, w.capacity, &segment);
  if (status) {
    refuse(s, p, shoal_status_message(status));
    shoal_status_free(status);
    if (fd >= 0) close(fd);
    return;
  }
  shm_bell *other = &segment.page->bell;
  link_init(&p->link, &segment, true, other, s->options.job, largest);
  int fds[2] = {s->bell_fd, fd};
  bool sent = greet_send_welcome(p->sock, &w, fds);
  close(fd);
  if (!sent) {
    peer_destroy(s, p);
    return;
  }
  p->from = h->from;
  p->state = PEER_OPEN;
}

/* Something happened to a peer's socket or process. */
static void peer_event(shm_server *s, uint64_t id) {
  shm_peer *p = peer_find(s, id);
  if (!p) return;
  if (p->state == PEER_GREETING) {
    shm_hello h;
    int got = greet_read_hello(p->sock, &h);
    if (got == GREET_OTHER_VERSION) {
      char why[GREET_TEXT];
      snprintf(why, sizeof why, "this server speaks version %d of the protocol, the client version %u", WIRE_VERSION,
               h.version);
      refuse(s, p, why);
    } else if (got > 0)
      peer_welcome(s, p, &h);
    else if (got < 0) {
      s->base.stats.refused++;
      peer_destroy(s, p);
    }
    return;
  }
  if (p->state != PEER_OPEN) return;
  p->state = PEER_LEAVING;
  peer_hang_up(p);
}

static void look_at_sockets(shm_server *s, double now) {
  struct epoll_event events[32];
  int n, rounds = 0;
  bool again;
  s->look = now + SHM_SLICE;
  s->busy = 0;
  do {
    again = false;
    n = epoll_wait(s->epoll, events, COUNT_OF(events), 0);
    for (int i = 0; i < n; i++) {
      if (events[i].data.u64 != WATCH_DOOR) {
        peer_event(s, events[i].data.u64);
        continue;
      }
      /* All that wait, but not without end: others want to be served. Their hellos are usually there already. */
      int sock, count = 0;
      while (count++ < ACCEPTS && (sock = accept4(s->sock, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0)
        peer_accept(s, sock);
      if (count <= ACCEPTS && (errno == EMFILE || errno == ENFILE || errno == ENOMEM))
        s->base.stats.accept_error = errno;
      again = count > 1 && rounds++ < 2;
    }
  } while (n == (int)COUNT_OF(events) || again);
  for (size_t i = 0; i < s->count; i++) {
    shm_peer *p = s->peers[i];
    if (p && p->state == PEER_GREETING && now > p->until) {
      s->base.stats.refused++;
      peer_destroy(s, p);
    }
  }
}

static void report_gone(shm_server *s, shm_peer *p, bool damaged, net_message *out) {
  *out =
      (net_message){.header = {.kind = NET_GONE, .flags = damaged ? NET_DAMAGED : 0, .from = p->from}, .peer = p->id};
  p->state = PEER_GONE;
  peer_hang_up(p);
  if (!link_holding(&p->link)) peer_destroy(s, p);
}

/* The rest of `o` waits at the end of the peer's list. */
static shoal_status aside_add(shm_peer *p, const link_outgoing *o) {
  size_t bytes = 0;
  for (int i = o->part; i < o->n; i++) bytes += o->parts[i].bytes;
  bytes -= o->offset;
  shm_aside *a = calloc(1, sizeof *a);
  uint8_t *to = malloc(MAX_OF(bytes, 1));
  if (!a || !to) {
    free(a);
    free(to);
    return status_no_memory();
  }
  *a = (shm_aside){.outgoing = *o, .bytes = to, .part = {to, bytes}};
  for (int i = o->part; i < o->n; i++) {
    size_t skip = i == o->part ? o->offset : 0, n = o->parts[i].bytes - skip;
    if (n) memcpy(to, (const uint8_t *)o->parts[i].data + skip, n);
    to += n;
  }
  a->outgoing.parts = &a->part;
  a->outgoing.n = 1;
  a->outgoing.part = 0;
  a->outgoing.offset = 0;
  shm_aside **end = &p->aside;
  while (*end) end = &(*end)->next;
  *end = a;
  p->aside_count++;
  return NULL;
}

/* Nothing can be sent to it any more; what it sent is still taken. */
static void peer_give_up(shm_peer *p) {
  p->state = PEER_LEAVING;
  peer_hang_up(p);
  while (p->aside) aside_drop(p);
}

/* Sends what was laid aside and now fits. */
static void aside_push(shm_server *s, shm_peer *p) {
  while (p->aside) {
    link_result r = link_push(&p->link, &p->aside->outgoing);
    if (r == LINK_NOTHING) return;
    if (r == LINK_DONE) {
      aside_drop(p);
      continue;
    }
    s->base.stats.refused++;
    peer_give_up(p);
  }
}

/* The next message there is. */
static shoal_status scan(shm_server *s, net_message *out, bool *got) {
  size_t place = s->next;
  for (size_t k = 0; k < s->count; k++, place++) {
    if (place >= s->count) place = 0;
    shm_peer *p = s->peers[place];
    if (!p || (p->state != PEER_OPEN && p->state != PEER_LEAVING)) continue;
    if (p->aside && p->state == PEER_OPEN) aside_push(s, p);
    link_result r = link_take(&p->link, out);
    if (r == LINK_NO_MEMORY) return status_no_memory();
    if (r == LINK_MESSAGE && out->header.from != p->from) {
      link_release(&p->link, out->hold);
      r = LINK_BROKEN;
    }
    if (r == LINK_NOTHING && p->state == PEER_OPEN) continue;
    /* A message that goes through in pieces: of a peer that left, as many as there are. */
    if (r == LINK_NOTHING && link_has_pieces(&p->link)) continue;
    if (r == LINK_NOTHING && link_waits_for_release(&p->link)) continue; /* there may be more behind */
    *got = true;
    s->next = place + 1;
    if (r == LINK_MESSAGE) {
      out->peer = p->id;
      return NULL;
    }
    s->base.stats.refused += r == LINK_BROKEN || r == LINK_DAMAGED;
    s->base.stats.damaged += r == LINK_DAMAGED;
    report_gone(s, p, r == LINK_DAMAGED || r == LINK_BROKEN, out);
    return NULL;
  }
  *got = false;
  return NULL;
}

shoal_status shm_take_rest(net_server *base, uint64_t id, net_message *out, bool *got) {
  shm_server *s = (shm_server *)base;
  shm_peer *p = peer_find(s, id);
  *got = false;
  if (!p || (p->state != PEER_OPEN && p->state != PEER_LEAVING)) return NULL;
  if (!p->link.in->closed) ring_close(p->link.in);
  link_result r;
  do r = link_take(&p->link, out);
  while (r == LINK_NOTHING && link_has_pieces(&p->link));
  if (r == LINK_NO_MEMORY) return status_no_memory();
  if (r == LINK_NOTHING) return NULL;
  *got = true;
  out->peer = id;
  if (r == LINK_MESSAGE) return NULL;
  s->base.stats.refused++;
  s->base.stats.damaged += r == LINK_DAMAGED;
  report_gone(s, p, true, out);
  return NULL;
}

/* Whether a message is on its way through in pieces, so that looking again soon pays. */
static bool pieces_waiting(shm_server *s) {
  for (size_t i = 0; i < s->count; i++) {
    shm_peer *p = s->peers[i];
    if (p && (p->state == PEER_OPEN || p->state == PEER_LEAVING) && link_has_pieces(&p->link)) return true;
  }
  return false;
}

shoal_status shm_receive(net_server *base, double seconds, net_message *out, bool *got) {
  shm_server *s = (shm_server *)base;
  if (++s->busy >= BUSY_LOOKS) {
    s->busy = 0;
    double now = clock_seconds();
    if (now >= s->look) look_at_sockets(s, now);
  }
  for (int i = 0; i < SHM_SPIN; i++) {
    TRY(scan(s, out, got));
    if (*got) return NULL;
    shm_pause();
  }
  const double begin = clock_seconds(), until = begin + seconds;
  while (base->eager > 0 && clock_seconds() < begin + MIN_OF(base->eager, seconds)) {
    sched_yield(); /* to whom it waits for, if it has no processor */
    TRY(scan(s, out, got));
    if (*got) return NULL;
  }
  for (;;) {
    double now = clock_seconds();
    if (now >= s->look || seconds <= 0) look_at_sockets(s, now);
    uint32_t seen = bell_prepare(s->bell);
    shoal_status status = scan(s, out, got);
    bool again = !status && !*got && pieces_waiting(s);
    if (!status && !*got && !again && now < until) bell_sleep(s->bell, seen, MIN_OF(SHM_SLICE, until - now));
    bell_awake(s->bell);
    if (status || *got) return status;
    if (!again && now >= until) return NULL;
  }
}

shoal_status shm_answer(net_server *base, uint64_t id, const net_header *header, const net_part *parts, int n,
                        size_t bytes) {
  shm_server *s = (shm_server *)base;
  shm_peer *p = peer_find(s, id);
  if (!p || p->state != PEER_OPEN) return NULL;
  link_outgoing o;
  link_outgoing_init(&o, &p->link, header, parts, n, bytes);
  double patience = 0; /* when it ends; 0: not yet needed */
  for (;;) {
    size_t left = o.left;
    link_result r = p->aside ? LINK_NOTHING : link_push(&p->link, &o);
    if (r == LINK_DONE) break;
    if (r == LINK_BROKEN) { /* the next net_receive reports it gone */
      s->base.stats.refused++;
      peer_give_up(p);
      return NULL;
    }
    double now = clock_seconds();
    if (!patience || o.left < left) patience = now + PATIENCE;
    if (now >= s->look) look_at_sockets(s, now);
    p = peer_find(s, id);
    if (!p || p->state != PEER_OPEN) return NULL;
    if (p->aside_count == ASIDE_MAX) {
      peer_give_up(p);
      return NULL;
    }
    if (p->aside || now > patience) {
      TRY(aside_add(p, &o));
      break;
    }
    uint32_t seen = bell_prepare(s->bell);
    size_t space;
    if (ring_space(p->link.out, &space) && space < (o.whole ? o.left : RING_GRAIN))
      bell_sleep(s->bell, seen, patience - now);
    bell_awake(s->bell);
  }
  s->base.stats.sent_messages++;
  s->base.stats.sent_bytes += WIRE_HEADER + bytes;
  return NULL;
}

void shm_limit(net_server *base, size_t largest) {
  shm_server *s = (shm_server *)base;
  s->limit = largest;
  for (size_t i = 0; i < s->count; i++)
    if (s->peers[i]) s->peers[i]->link.largest = MIN_OF(s->peers[i]->link.largest, largest);
}

void shm_release_server(net_server *base, net_message *m) {
  shm_server *s = (shm_server *)base;
  shm_hold *h = m->hold;
  if (!h) return;
  shm_link *l = h->link;
  link_release(l, h);
  shm_peer *p = peer_find(s, m->peer);
  if (p && p->state == PEER_GONE && !link_holding(l)) peer_destroy(s, p);
}

void shm_server_close(net_server *base) {
  shm_server *s = (shm_server *)base;
  for (size_t i = 0; i < s->count; i++)
    if (s->peers[i]) peer_destroy(s, s->peers[i]);
  free(s->peers);
  if (s->epoll >= 0) close(s->epoll);
  if (s->sock >= 0) close(s->sock);
  if (s->bell) munmap(s->bell, shm_page_bytes());
  if (s->bell_fd >= 0) close(s->bell_fd);
  free(s);
}

shoal_status shm_listen(const char *address, const net_options *options, net_server **out) {
  shm_server *s = calloc(1, sizeof *s);
  if (!s) return status_no_memory();
  s->options = *options;
  s->limit = options->largest;
  s->sock = s->epoll = s->bell_fd = -1;
  shoal_status status;
  TRY_GOTO(status, shm_create(shm_page_bytes(), &s->bell_fd), failed);
  void *page = mmap(NULL, shm_page_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, s->bell_fd, 0);
  s->bell = page == MAP_FAILED ? NULL : page;
  s->epoll = epoll_create1(EPOLL_CLOEXEC);
  if (!s->bell || s->epoll < 0) TRY_GOTO(status, status_errno(errno, "shared memory"), failed);
  TRY_GOTO(status, greet_listen(address, &s->sock), failed);
  watch(s, s->sock, WATCH_DOOR);
  *out = &s->base;
  return NULL;
failed:
  shm_server_close(&s->base);
  return status;
}
