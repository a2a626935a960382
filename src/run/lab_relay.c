#include "run/lab_relay.h"

#include "base/clock.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
  QUEUE = 4096,               /* packets on their way to one host; a power of two */
  AT_ONCE = 64,               /* packets of one host that are read before another's turn */
  PACKET = LAB_RELAY_MTU + 8, /* bytes of a place in the queue */
};
#define LOOK_SECONDS 0.05 /* how often the thread sees that it is to end */

typedef struct {
  double due; /* clock */
  int bytes;
  uint8_t data[PACKET];
} packet;

typedef struct {
  int device;            /* eth0 of the host; -1: not open */
  packet *queue;         /* [QUEUE], pages come when they are touched */
  uint64_t first, after; /* those that wait: [first, after) */
  double busy_until;     /* clock: when the link has carried all that wait */
} relay_host;

struct lab_relay {
  relay_host *hosts; /* [count] */
  int count;
  double delay, byte_seconds;
  pthread_t thread;
  bool runs;
  atomic_bool ends;
};

/* ---- the devices */

/* The calling thread goes to a namespace, by the path of its file. */
static shoal_status enter(const char *path) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  const bool entered = fd >= 0 && !setns(fd, CLONE_NEWNET);
  const int error = errno;
  if (fd >= 0) close(fd);
  return entered ? NULL : status_errno(error, "cannot enter the network namespace %s", path);
}

static shoal_status open_device(const char *name, int *out) {
  char path[64];
  struct ifreq request = {.ifr_flags = IFF_TUN | IFF_NO_PI};
  snprintf(path, sizeof path, "/run/netns/%s", name);
  snprintf(request.ifr_name, sizeof request.ifr_name, "eth0");
  TRY(enter(path));
  *out = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (*out < 0 || ioctl(*out, TUNSETIFF, &request))
    return status_errno(errno, "this kernel has no netem to delay packets, and no TUN device for a relay that does");
  return NULL;
}

static shoal_status open_devices(lab_relay *r, char (*names)[LAB_NAME]) {
  char home[64];
  snprintf(home, sizeof home, "/proc/self/task/%d/ns/net", (int)gettid());
  const int back = open(home, O_RDONLY | O_CLOEXEC);
  if (back < 0) return status_errno(errno, "cannot open %s", home);
  shoal_status status = NULL;
  for (int i = 0; i < r->count && !status; i++) status = open_device(names[i], &r->hosts[i].device);
  if (setns(back, CLONE_NEWNET) && !status) status = status_errno(errno, "cannot return to %s", home);
  close(back);
  return status;
}

/* ---- carrying */

/* The host that an IPv4 packet is for; NULL: none of the lab's. */
static relay_host *target(lab_relay *r, const packet *p) {
  if (p->bytes < 20 || p->data[0] >> 4 != 4) return NULL;
  const int number = p->data[19] - 1;
  return number >= 0 && number < r->count ? &r->hosts[number] : NULL;
}

/* Puts what one host has sent into the queues of those it is for. */
static void take_packets(lab_relay *r, relay_host *from, packet *scratch) {
  for (int i = 0; i < AT_ONCE; i++) {
    const ssize_t n = read(from->device, scratch->data, sizeof scratch->data);
    if (n <= 0) return;
    scratch->bytes = (int)n;
    relay_host *to = target(r, scratch);
    if (!to || to->after - to->first == QUEUE) continue;
    packet *p = &to->queue[to->after++ % QUEUE];
    p->bytes = scratch->bytes;
    p->due = to->busy_until = MAX_OF(clock_seconds() + r->delay, to->busy_until) + p->bytes * r->byte_seconds;
    memcpy(p->data, scratch->data, (size_t)n);
  }
}

/* Writes what is due; when the next one is, or `soonest` if that is before. */
static double give_packets(relay_host *h, double now, double soonest) {
  for (; h->first < h->after; h->first++) {
    const packet *p = &h->queue[h->first % QUEUE];
    if (p->due > now) return MIN_OF(soonest, p->due);
    if (write(h->device, p->data, (size_t)p->bytes) < 0 && errno == EAGAIN) return MIN_OF(soonest, now + 1e-4);
  }
  return soonest;
}

static void *relay_main(void *context) {
  lab_relay *r = context;
  packet *scratch = malloc(sizeof *scratch);
  struct pollfd *fds = calloc((size_t)r->count, sizeof *fds);
  prctl(PR_SET_TIMERSLACK, 1000); /* nanoseconds: delays are short */
  for (int i = 0; fds && i < r->count; i++) fds[i] = (struct pollfd){.fd = r->hosts[i].device, .events = POLLIN};
  while (fds && scratch && !atomic_load_explicit(&r->ends, memory_order_acquire)) {
    const double now = clock_seconds();
    double next = now + LOOK_SECONDS;
    for (int i = 0; i < r->count; i++) next = give_packets(&r->hosts[i], now, next);
    const double wait = MAX_OF(next - clock_seconds(), 0.0);
    const struct timespec limit = {.tv_nsec = (long)(1e9 * wait)};
    if (ppoll(fds, (nfds_t)r->count, &limit, NULL) <= 0) continue;
    for (int i = 0; i < r->count; i++)
      if (fds[i].revents & POLLIN) take_packets(r, &r->hosts[i], scratch);
  }
  free(scratch);
  free(fds);
  return NULL;
}

/* ---- the whole */

static shoal_status start(lab_relay *r, char (*names)[LAB_NAME]) {
  for (int i = 0; i < r->count; i++) {
    r->hosts[i].device = -1;
    r->hosts[i].queue = calloc(QUEUE, sizeof(packet));
    if (!r->hosts[i].queue) return status_no_memory();
  }
  TRY(open_devices(r, names));
  const int error = pthread_create(&r->thread, NULL, relay_main, r);
  r->runs = !error;
  return error ? status_errno(error, "cannot start a thread for the relay") : NULL;
}

shoal_status lab_relay_create(char (*names)[LAB_NAME], int hosts, double rate, double delay, lab_relay **out) {
  lab_relay *r = calloc(1, sizeof *r);
  if (!r) return status_no_memory();
  *r = (lab_relay){.hosts = calloc((size_t)hosts, sizeof *r->hosts), .delay = delay};
  r->count = r->hosts ? hosts : 0;
  r->byte_seconds = rate > 0 ? 8 / rate : 0;
  shoal_status status = r->hosts ? start(r, names) : status_no_memory();
  if (status)
    lab_relay_destroy(r);
  else
    *out = r;
  return status;
}

void lab_relay_destroy(lab_relay *r) {
  if (!r) return;
  atomic_store_explicit(&r->ends, true, memory_order_release);
  if (r->runs) pthread_join(r->thread, NULL);
  for (int i = 0; i < r->count; i++) {
    if (r->hosts[i].device > 0) close(r->hosts[i].device);
    free(r->hosts[i].queue);
  }
  free(r->hosts);
  free(r);
}
