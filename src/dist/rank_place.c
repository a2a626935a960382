#include "dist/rank_place.h"

#include "base/mem.h"
#include "base/text.h"
#include "net/tcp_address.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the process that starts them */

static shoal_status add_port(text *out) {
  char address[40];
  do { /* the kernel may offer the same one twice */
    int port;
    TRY(tcp_free_port(&port));
    snprintf(address, sizeof address, " tcp://127.0.0.1:%d", port);
  } while (out->length && strstr(out->data, address));
  text_add(out, "%s", address);
  return NULL;
}

static shoal_status add_place(const char *carrier, int64_t rank, const char *name, text *out) {
  if (!strcmp(carrier, "tls")) return add_port(out);
  text_add(out, " shm:/%s-%lld", name, (long long)rank);
  return NULL;
}

shoal_status rank_place_extend(const char *carrier, int64_t rank, const char *name, char **addresses) {
  text words = {0};
  text_add(&words, "%s", *addresses);
  shoal_status status = add_place(carrier, rank, name, &words);
  if (!status && words.failed) status = status_no_memory();
  if (status) {
    text_fini(&words);
    return status;
  }
  free(*addresses);
  *addresses = words.data;
  return NULL;
}

shoal_status rank_place_make(const char *carrier, int64_t ranks, const char *name, char **out) {
  text words = {0};
  shoal_status status = NULL;
  for (int64_t r = 0; r < ranks && !status; r++) status = add_place(carrier, r, name, &words);
  if (!status && words.failed) status = status_no_memory();
  if (status)
    text_fini(&words);
  else
    *out = words.data;
  return status;
}

/* ---- a rank */

int rank_place_given(void) {
  const char *words = getenv(RANK_PLACE);
  return words && *words ? atoi(words) : -1;
}

/* The same number for all who were given the same addresses. */
static uint64_t job_of(char *const *addresses, int n) {
  uint64_t h = 1469598103934665603ull; /* FNV-1a */
  for (int i = 0; i < n; i++)
    for (const char *c = addresses[i];; c++) {
      h = (h ^ (uint8_t)*c) * 1099511628211ull;
      if (!*c) break;
    }
  return h;
}

static size_t host_length(const char *address) {
  const char *colon = strrchr(address, ':');
  return strncmp(address, "shm:", 4) && colon ? (size_t)(colon - address) : 4;
}

static bool same_host(const char *a, const char *b) {
  return host_length(a) == host_length(b) && !strncmp(a, b, host_length(a));
}

static void count_neighbours(rank_place *p) {
  p->first_here = true;
  for (int r = 0; r < p->count; r++) {
    if (!same_host(p->addresses[r], p->addresses[p->mesh.rank])) continue;
    p->here++;
    if (r < p->mesh.rank) p->first_here = false;
  }
}

static shoal_status complete(rank_place *p) {
  if (p->mesh.rank < 0 || p->mesh.rank >= p->count || p->mesh.ranks < 1 || p->mesh.ranks > p->count)
    return status_make(SHOAL_ERR_ARGUMENT, RANK_PLACE ": rank %d, but there are %d addresses", p->mesh.rank, p->count);
  p->mesh.addresses = (const char *const *)p->addresses;
  const bool shared = !strncmp(p->addresses[0], "shm:/", 5);
  for (int r = 0; r < p->count; r++)
    if (strncmp(p->addresses[r], shared ? "shm:/" : "tcp://", shared ? 5 : 6))
      return status_make(SHOAL_ERR_ARGUMENT, "rank %d: '%s': an all-reduce takes HOST:PORT for each rank", r,
                         p->addresses[r]);
  p->mesh.listening.job = p->mesh.connecting.job = job_of(p->addresses, p->mesh.ranks);
  count_neighbours(p);
  return NULL;
}

static shoal_status add_address(rank_place *p, const char *address, size_t length) {
  if (p->count == MESH_RANKS_MAX)
    return status_make(SHOAL_ERR_ARGUMENT, "at most %d ranks are possible", MESH_RANKS_MAX);
  char **more = realloc(p->addresses, ((size_t)p->count + 1) * sizeof *more);
  if (!more) return status_no_memory();
  p->addresses = more;
  more[p->count] = strndup(address, length);
  if (!more[p->count]) return status_no_memory();
  p->count++;
  return NULL;
}

shoal_status rank_place_read(rank_place *out) {
  *out = (rank_place){0};
  const char *words = getenv(RANK_PLACE);
  char *rest;
  out->mesh.rank = (int)strtol(words, &rest, 10);
  out->mesh.ranks = (int)strtol(rest, &rest, 10);
  for (const char *at = rest + strspn(rest, " "); *at; at += strspn(at, " ")) {
    const size_t length = strcspn(at, " ");
    TRY(add_address(out, at, length));
    at += length;
  }
  return complete(out);
}

shoal_status rank_place_of_cluster(const cluster *c, rank_place *out) {
  *out = (rank_place){.mesh.rank = cluster_worker(c)};
  static const cluster_role roles[] = {SHOAL_CHIEF, SHOAL_WORKER};
  for (size_t k = 0; k < COUNT_OF(roles); k++)
    for (int i = 0; i < c->counts[roles[k]]; i++) {
      const char *address = c->addresses[roles[k]][i];
      TRY(add_address(out, address, strlen(address)));
    }
  out->mesh.ranks = out->count;
  return complete(out);
}

shoal_status rank_place_arm(rank_place *p, const rank_place_options *o) {
  mesh_options *m = &p->mesh;
  m->patience = o->patience;
  m->listening.insecure = m->connecting.insecure = o->insecure;
  if (!o->keys || !strncmp(p->addresses[0], "shm:", 4)) return NULL;
  TRY(key_ring_read(o->keys, true, &p->listening,
                    &m->listening)); /* who lets in whom changes with those who are there */
  return key_ring_read(o->keys, false, &p->connecting, &m->connecting);
}

void rank_place_fini(rank_place *p) {
  for (int r = 0; r < p->count; r++) free(p->addresses[r]);
  free(p->addresses);
  key_ring_fini(&p->listening);
  key_ring_fini(&p->connecting);
  *p = (rank_place){0};
}
