/* Messages between ranks by MPI 3.1. Persistent requests: what a step sends is prepared before the first one. */
#include "dist/link.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

struct link_set {
  MPI_Request *requests; /* [n] */
  int *peers;
  bool *started;
  int n, most;
};

/* MPI itself is one to a process; so is this. */
static char *reason;

static bool good(int code, const char *what) {
  if (code == MPI_SUCCESS) return true;
  char words[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, words, &length);
  snprintf(reason, LINK_WHY, "%s: %.*s", what, length, words);
  return false;
}

static bool begin(const void *start, char *why, link_place **out, int *rank, int *ranks) {
  *out = NULL; /* MPI is one to a process */
  reason = why;
  int there = 0, provided;
  if (!good(MPI_Initialized(&there), "MPI_Initialized")) return false;
  if (!there && !good(MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided), "MPI_Init")) return false;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  return good(MPI_Comm_rank(MPI_COMM_WORLD, rank), "MPI_Comm_rank") &&
         good(MPI_Comm_size(MPI_COMM_WORLD, ranks), "MPI_Comm_size");
}

static bool broadcast(link_place *p, void *bytes, int64_t count) {
  enum { CHUNK = 1 << 30 };
  for (int64_t at = 0; at < count; at += CHUNK) {
    int n = (int)(count - at < CHUNK ? count - at : CHUNK);
    if (!good(MPI_Bcast((char *)bytes + at, n, MPI_BYTE, 0, MPI_COMM_WORLD), "MPI_Bcast")) return false;
  }
  return true;
}

static void set_free(link_set *s) {
  if (!s) return;
  /* A message under way can neither be taken back nor waited for: the job is about to be aborted. */
  for (int i = 0; i < s->n; i++)
    if (!s->started[i]) MPI_Request_free(&s->requests[i]);
  free(s->requests);
  free(s->peers);
  free(s->started);
  free(s);
}

static bool set_create(link_place *p, int most, link_set **out) {
  size_t n = most > 0 ? (size_t)most : 1;
  link_set *s = calloc(1, sizeof *s);
  if (s) {
    s->most = most;
    s->requests = calloc(n, sizeof *s->requests);
    s->peers = calloc(n, sizeof *s->peers);
    s->started = calloc(n, sizeof *s->started);
  }
  if (!s || !s->requests || !s->peers || !s->started) {
    set_free(s);
    snprintf(reason, LINK_WHY, "no memory for %d messages", most);
    return false;
  }
  *out = s;
  return true;
}

static bool added(link_set *s, int code, int peer, const char *what) {
  if (!good(code, what)) return false;
  s->peers[s->n++] = peer;
  return true;
}

static bool fits(const link_set *s, int64_t count) {
  if (s->n < s->most && count <= INT32_MAX) return true;
  snprintf(reason, LINK_WHY, "a message of %lld bytes, or one too many", (long long)count);
  return false;
}

static bool set_send(link_set *s, const void *bytes, int64_t count, int peer, int tag) {
  return fits(s, count) &&
         added(s, MPI_Send_init(bytes, (int)count, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &s->requests[s->n]), peer,
               "MPI_Send_init");
}

static bool set_receive(link_set *s, void *bytes, int64_t count, int peer, int tag) {
  return fits(s, count) &&
         added(s, MPI_Recv_init(bytes, (int)count, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &s->requests[s->n]), peer,
               "MPI_Recv_init");
}

static bool set_start(link_set *s, const bool *use) {
  for (int i = 0; i < s->n; i++) {
    if (use && !use[i]) continue;
    if (!good(MPI_Start(&s->requests[i]), "MPI_Start")) return false;
    s->started[i] = true;
  }
  return true;
}

static bool set_test(link_set *s, bool *done) {
  int all = 0;
  if (!good(MPI_Testall(s->n, s->requests, &all, MPI_STATUSES_IGNORE), "MPI_Testall")) return false;
  *done = all;
  for (int i = 0; all && i < s->n; i++) s->started[i] = false;
  return true;
}

static int set_late(link_set *s, int *peers, int room) {
  int n = 0;
  for (int i = 0; i < s->n && n < room; i++) {
    int through = 1;
    if (s->started[i]) MPI_Request_get_status(s->requests[i], &through, MPI_STATUS_IGNORE);
    bool known = through;
    for (int k = 0; k < n && !known; k++) known = peers[k] == s->peers[i];
    if (!known) peers[n++] = s->peers[i];
  }
  return n;
}

static bool end(link_place *p) { return good(MPI_Finalize(), "MPI_Finalize"); }
static void abort_all(link_place *p, int code) { MPI_Abort(MPI_COMM_WORLD, code); }

extern const link_table shoal_link;
__attribute__((visibility("default"))) const link_table shoal_link = {
    .version = LINK_VERSION,
    .begin = begin,
    .broadcast = broadcast,
    .set_create = set_create,
    .set_send = set_send,
    .set_receive = set_receive,
    .set_start = set_start,
    .set_test = set_test,
    .set_late = set_late,
    .set_free = set_free,
    .end = end,
    .abort = abort_all,
};
