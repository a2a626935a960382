/* A client's end: one link, its own bell. See shm.h. */
#include "net/shm.h"
#include "net/shm_greet.h"
#include "net/shm_link.h"

#include "base/clock.h"
#include "base/mem.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* An answer that had to make room while a request was being sent. */
typedef struct shm_kept {
  shm_hold hold;
  net_message message;
  uint8_t *block; /* owned */
  struct shm_kept *next;
} shm_kept;

typedef struct {
  net_client base;
  net_options options;
  int sock, pidfd;
  pid_t pid;
  shm_link link;
  shm_bell *bell, *door; /* own; the server's */
  shm_kept *kept;        /* oldest first */
  bool gone;             /* the server died or closed the connection */
  bool broken;           /* half a request was sent, or the ring does not check */
  bool damaged;          /* the same, since an answer is not what was sent */
  double look;
} shm_client;

/* Nothing can be read any more. */
static void client_break(shm_client *c, link_result why) {
  c->broken = true;
  c->damaged = why == LINK_DAMAGED;
  c->base.stats.refused++;
  c->base.stats.damaged += c->damaged;
}

static shoal_status client_state(const shm_client *c) {
  if (c->damaged) return net_damaged();
  if (c->broken)
    return status_make(SHOAL_ERR_PEER,
                       "the connection is broken (a message was cut off or did not check); "
                       "connect again");
  return status_make(SHOAL_ERR_PEER, "the server (process %d) exited or closed the connection", (int)c->pid);
}

static void client_look(shm_client *c, double now) {
  struct pollfd p[2] = {{.fd = c->sock, .events = POLLIN | POLLRDHUP}, {.fd = c->pidfd, .events = POLLIN}};
  c->look = now + SHM_SLICE;
  if (poll(p, 2, 0) > 0 && (p[0].revents || p[1].revents)) c->gone = true;
}

/* Moves all answers there are out of the ring: the server may be waiting for that room before it reads on. */
static shoal_status client_make_room(shm_client *c) {
  for (;;) {
    net_message m;
    link_result r = link_take(&c->link, &m);
    if (r == LINK_NO_MEMORY) return status_no_memory();
    if (r == LINK_NOTHING && link_has_pieces(&c->link)) continue;
    if (r == LINK_BROKEN || r == LINK_DAMAGED) client_break(c, r);
    if (r != LINK_MESSAGE) return NULL;
    shm_kept *k = calloc(1, sizeof *k);
    if (!k) return status_no_memory();
    if (((shm_hold *)m.hold)->where == HOLD_BLOCK)
      k->block = link_take_block(&c->link);
    else {
      k->block = aligned_alloc(MEM_ALIGN, mem_round_up(MAX_OF(m.bytes, 1), MEM_ALIGN));
      if (k->block) memcpy(k->block, m.payload, m.bytes);
      link_release(&c->link, m.hold);
    }
    if (!k->block) {
      free(k);
      return status_no_memory();
    }
    k->hold = (shm_hold){.where = HOLD_OWNED, .link = &c->link};
    k->message = m;
    k->message.payload = k->block;
    k->message.hold = &k->hold;
    shm_kept **end = &c->kept;
    while (*end) end = &(*end)->next;
    *end = k;
  }
}

shoal_status shm_send(net_client *base, const net_header *header, const net_part *parts, int n, size_t bytes,
                      double seconds) {
  shm_client *c = (shm_client *)base;
  if (c->gone || c->broken) return client_state(c);
  net_header own = *header;
  own.from = c->options.from;
  link_outgoing o;
  link_outgoing_init(&o, &c->link, &own, parts, n, bytes);
  link_result r = link_push(&c->link, &o);
  if (r == LINK_DONE) return NULL;
  const double until = clock_seconds() + seconds;
  for (;;) {
    double now = clock_seconds();
    if (now >= c->look) client_look(c, now);
    if (r == LINK_BROKEN)
      c->broken = true;
    else
      TRY(client_make_room(c));
    if (c->gone || c->broken) return client_state(c);
    uint32_t seen = bell_prepare(c->bell);
    r = link_push(&c->link, &o);
    if (r == LINK_NOTHING && now < until) bell_sleep(c->bell, seen, MIN_OF(SHM_SLICE, until - now));
    bell_awake(c->bell);
    if (r == LINK_DONE) return NULL;
    if (r == LINK_NOTHING && now >= until) {
      c->broken = o.started;
      return status_make(SHOAL_ERR_PEER, "the server (process %d) did not take the message in %g s", (int)c->pid,
                         seconds);
    }
  }
}

shoal_status shm_await(net_client *base, double seconds, net_message *out) {
  shm_client *c = (shm_client *)base;
  if (c->kept) {
    *out = c->kept->message;
    c->kept = c->kept->next;
    return NULL;
  }
  double until = -1; /* the clock is looked at only when there is a reason to */
  double eager = base->eager > 0 ? clock_seconds() + MIN_OF(base->eager, seconds) : 0;
  int spins = 0;
  for (;;) {
    net_message m;
    link_result r = link_take(&c->link, &m);
    if (r == LINK_NOTHING && link_has_pieces(&c->link)) continue;
    if (r == LINK_NOTHING && spins++ < SHM_SPIN) {
      shm_pause();
      continue;
    }
    if (r == LINK_NOTHING && eager > 0 && clock_seconds() < eager) {
      sched_yield(); /* to whom it waits for, if it has no processor */
      continue;
    }
    uint32_t seen = 0;
    if (r == LINK_NOTHING) {
      seen = bell_prepare(c->bell);
      r = link_take(&c->link, &m);
    }
    bool sleep = r == LINK_NOTHING && !c->gone && !c->broken;
    double now = sleep ? clock_seconds() : 0;
    if (sleep && until < 0) until = now + seconds;
    if (sleep && now < until && !link_has_pieces(&c->link)) bell_sleep(c->bell, seen, MIN_OF(SHM_SLICE, until - now));
    bell_awake(c->bell);
    if (r == LINK_MESSAGE) {
      *out = m;
      return NULL;
    }
    if (r == LINK_NO_MEMORY) return status_no_memory();
    if (r == LINK_BROKEN || r == LINK_DAMAGED) client_break(c, r);
    if (!sleep) return client_state(c);
    if (now >= c->look) {
      client_look(c, now);
      if (c->gone) continue; /* one more look: the answer may have been its last word */
    }
    if (now >= until)
      return status_make(SHOAL_ERR_PEER, "no message from the server (process %d) in %g s", (int)c->pid, seconds);
  }
}

bool shm_gone(net_client *base) {
  shm_client *c = (shm_client *)base;
  if (!c->gone) client_look(c, clock_seconds());
  return c->gone || c->broken;
}

bool shm_hand_over(net_client *base) {
  ((shm_client *)base)->link.quiet = true;
  return true;
}

void shm_release_client(net_client *base, net_message *m) {
  shm_client *c = (shm_client *)base;
  shm_hold *h = m->hold;
  if (!h) return;
  if (h->where != HOLD_OWNED) {
    link_release(&c->link, h);
    return;
  }
  shm_kept *k = (shm_kept *)h;
  free(k->block);
  free(k);
}

void shm_client_close(net_client *base) {
  shm_client *c = (shm_client *)base;
  while (c->kept) {
    shm_kept *next = c->kept->next;
    free(c->kept->block);
    free(c->kept);
    c->kept = next;
  }
  if (c->sock >= 0) close(c->sock);
  if (c->pidfd >= 0) close(c->pidfd);
  if (c->door) munmap(c->door, shm_page_bytes());
  link_fini(&c->link);
  free(c);
}

shoal_status shm_connect(const char *address, const net_options *options, double seconds, net_client **out) {
  shm_client *c = calloc(1, sizeof *c);
  if (!c) return status_no_memory();
  c->options = *options;
  c->sock = c->pidfd = -1;
  const double until = clock_seconds() + seconds;
  int fds[2] = {-1, -1};
  shm_hello h;
  shm_welcome w;
  shoal_status status;
  TRY_GOTO(status, greet_connect(address, until, &c->sock), failed);
  if (!greet_peer(c->sock, &c->pid, &c->pidfd))
    TRY_GOTO(status, status_make(SHOAL_ERR_PEER, "a process of another user listens at this address"), failed);
  greet_fill_hello(&h, options->from, options->job, options->largest);
  if (!greet_send_hello(c->sock, &h))
    TRY_GOTO(status, status_make(SHOAL_ERR_PEER, "the server closed the connection during the handshake"), failed);
  TRY_GOTO(status, greet_await_welcome(c->sock, until, &w, fds), failed);
  if (w.capacity != link_capacity((size_t)w.largest) || !shm_sound(fds[0], shm_page_bytes()) ||
      !shm_sound(fds[1], shm_segment_bytes((size_t)w.capacity)))
    TRY_GOTO(status, status_make(SHOAL_ERR_PEER, "the server's shared memory is not what it says"), failed);
  void *door = mmap(NULL, shm_page_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
  if (door == MAP_FAILED) TRY_GOTO(status, status_errno(errno, "mapping shared memory"), failed);
  c->door = door;
  shm_segment segment;
  TRY_GOTO(status, shm_segment_map(fds[1], (size_t)w.capacity, &segment), failed);
  c->bell = &segment.page->bell;
  link_init(&c->link, &segment, false, c->door, options->job, (size_t)w.largest);
  close(fds[0]);
  close(fds[1]);
  *out = &c->base;
  return NULL;
failed:
  for (int i = 0; i < 2; i++)
    if (fds[i] >= 0) close(fds[i]);
  shm_client_close(&c->base);
  return status;
}
