#include "net/shm_greet.h"

#include "net/wire.h"

#include "base/clock.h"
#include "base/mem.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#define MAGIC_BASE 0x6772656574000000ull /* the low three bytes are the version: every version says its own */
#define MAGIC (MAGIC_BASE | WIRE_VERSION)
#define RETRY 0.01 /* seconds between attempts to reach a server that is not there yet */

static shoal_status make_name(const char *address, struct sockaddr_un *name, socklen_t *length) {
  const char *word = address + strlen("shm:");
  *name = (struct sockaddr_un){.sun_family = AF_UNIX};
  /* The first byte is zero: the abstract name space. The user's number keeps users apart. */
  int n = snprintf(name->sun_path + 1, sizeof name->sun_path - 1, "shoal-%u%s", (unsigned)geteuid(), word);
  if (word[0] != '/' || !word[1] || n < 0 || (size_t)n >= sizeof name->sun_path - 1)
    return status_make(SHOAL_ERR_ARGUMENT, "expected shm:/NAME with a name of at most 80 characters");
  *length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
  return NULL;
}

static int make_socket(void) { return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); }

shoal_status greet_listen(const char *address, int *out) {
  struct sockaddr_un name;
  socklen_t length;
  TRY(make_name(address, &name, &length));
  int sock = make_socket();
  if (sock < 0) return status_errno(errno, "local socket");
  if (bind(sock, (struct sockaddr *)&name, length) || listen(sock, 128)) {
    int error = errno;
    close(sock);
    if (error == EADDRINUSE)
      return status_make(SHOAL_ERR_SYSTEM,
                         "another process already listens at this address: stop it, or choose another");
    return status_errno(error, "local socket");
  }
  *out = sock;
  return NULL;
}

shoal_status greet_connect(const char *address, double until, int *out) {
  struct sockaddr_un name;
  socklen_t length;
  TRY(make_name(address, &name, &length));
  int sock = make_socket();
  if (sock < 0) return status_errno(errno, "local socket");
  while (connect(sock, (struct sockaddr *)&name, length)) {
    int error = errno;
    bool later = error == ECONNREFUSED || error == EAGAIN || error == EINTR;
    if (later && clock_seconds() < until) {
      usleep((useconds_t)(RETRY * 1e6));
      continue;
    }
    close(sock);
    if (later) return status_make(SHOAL_ERR_PEER, "no server listens at this address");
    return status_errno(error, "local socket");
  }
  *out = sock;
  return NULL;
}

bool greet_peer(int sock, pid_t *pid, int *pidfd) {
  struct ucred who;
  socklen_t length = sizeof who;
  if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &who, &length) || who.uid != geteuid()) return false;
  *pid = who.pid;
  *pidfd = who.pid > 0 ? (int)syscall(SYS_pidfd_open, who.pid, 0) : -1;
  return true;
}

void greet_fill_hello(shm_hello *h, uint32_t from, uint64_t job, uint64_t largest) {
  *h = (shm_hello){.magic = MAGIC, .version = WIRE_VERSION, .from = from, .job = job, .largest = largest};
}

/* The version of a peer that begins with these 8 bytes; 0: it is none of ours, or of this version. */
static uint32_t other_version(uint64_t magic) {
  const uint32_t version = (uint32_t)(magic & 0xffffff);
  return (magic ^ MAGIC_BASE) >> 24 || version == WIRE_VERSION ? 0 : version;
}

int greet_read_hello(int sock, shm_hello *out) {
  shm_hello h = {0};
  ssize_t n = recv(sock, &h, sizeof h, MSG_DONTWAIT | MSG_TRUNC);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
  if (n >= (ssize_t)sizeof h.magic && other_version(h.magic)) {
    out->version = other_version(h.magic);
    return GREET_OTHER_VERSION;
  }
  if (n != (ssize_t)sizeof h || h.magic != MAGIC || h.version != WIRE_VERSION) return -1;
  *out = h;
  return 1;
}

bool greet_send_hello(int sock, const shm_hello *h) {
  return send(sock, h, sizeof *h, MSG_NOSIGNAL) == (ssize_t)sizeof *h;
}

bool greet_send_welcome(int sock, shm_welcome *w, const int fds[2]) {
  w->magic = MAGIC;
  w->version = WIRE_VERSION;
  struct iovec part = {w, sizeof *w};
  union {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(2 * sizeof(int))];
  } control = {0};
  struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
  if (fds) {
    m.msg_control = control.bytes;
    m.msg_controllen = sizeof control.bytes;
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(2 * sizeof(int));
    memcpy(CMSG_DATA(c), fds, 2 * sizeof(int));
  }
  return sendmsg(sock, &m, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)sizeof *w;
}

static shoal_status wait_readable(int sock, double until) {
  for (;;) {
    double left = until - clock_seconds();
    struct pollfd p = {.fd = sock, .events = POLLIN};
    int n = poll(&p, 1, left > 0 ? (int)(left * 1e3) + 1 : 0);
    if (n > 0) return NULL;
    if (n < 0 && errno != EINTR) return status_errno(errno, "poll");
    if (left <= 0)
      return status_make(SHOAL_ERR_PEER, "the server accepts connections, but does not answer the handshake");
  }
}

shoal_status greet_await_welcome(int sock, double until, shm_welcome *out, int fds[2]) {
  TRY(wait_readable(sock, until));
  shm_welcome w = {0};
  struct iovec part = {&w, sizeof w};
  union {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(2 * sizeof(int))];
  } control = {0};
  struct msghdr m = {
      .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
  ssize_t n = recvmsg(sock, &m, MSG_CMSG_CLOEXEC);
  int got[2] = {-1, -1}, count = 0;
  struct cmsghdr *c = n >= 0 ? CMSG_FIRSTHDR(&m) : NULL;
  if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
    count = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    memcpy(got, CMSG_DATA(c), (size_t)MIN_OF(count, 2) * sizeof(int));
  }
  shoal_status status = NULL;
  if (n <= 0)
    status = status_make(SHOAL_ERR_PEER, "the server closed the connection during the handshake");
  else if (n >= (ssize_t)sizeof w.magic && other_version(w.magic))
    status = status_make(SHOAL_ERR_REFUSED,
                         "the server speaks version %u of the protocol, this program version %d: "
                         "use the same version of Shoal for all tasks",
                         other_version(w.magic), WIRE_VERSION);
  else if (n != (ssize_t)sizeof w || w.magic != MAGIC || w.version != WIRE_VERSION)
    status = status_make(SHOAL_ERR_REFUSED, "the program at this address does not use Shoal's protocol");
  else if (w.refused) {
    w.why[sizeof w.why - 1] = 0;
    status = status_make(SHOAL_ERR_PEER, "refused: %s", w.why);
  } else if (count != 2)
    status = status_make(SHOAL_ERR_PEER, "the server's answer to the handshake is incomplete");
  if (status) {
    for (int i = 0; i < 2; i++)
      if (got[i] >= 0) close(got[i]);
    return status;
  }
  *out = w;
  memcpy(fds, got, sizeof got);
  return NULL;
}
