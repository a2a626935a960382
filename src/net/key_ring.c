#include "net/key_ring.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *name_of(bool server) { return server ? "server" : "client"; }

static shoal_status read_own(const char *dir, bool server, key_ring *ring, net_options *net) {
  char *path;
  if (asprintf(&path, "%s/%s.key", dir, name_of(server)) < 0) return status_no_memory();
  shoal_status status = keys_read_pair(path, &ring->own);
  free(path);
  net->public_key = ring->own.public_key;
  net->secret_key = ring->own.secret_key;
  return status;
}

static shoal_status read_other(const char *dir, bool server, key_ring *ring, net_options *net) {
  char *path;
  if (asprintf(&path, "%s/%s.pub", dir, name_of(server)) < 0) return status_no_memory();
  shoal_status status = keys_read_public(path, ring->other);
  free(path);
  net->server_key = ring->other;
  return status;
}

static shoal_status read_allowed(const char *dir, key_ring *ring, net_options *net) {
  TRY(keys_read_folder(dir, &ring->allowed));
  net->allowed = (const char *const *)ring->allowed.keys;
  return NULL;
}

shoal_status key_ring_read(const char *dir, bool server, key_ring *ring, net_options *net) {
  TRY(read_own(dir, server, ring, net));
  return server ? read_allowed(dir, ring, net) : read_other(dir, true, ring, net);
}

shoal_status key_ring_read_both(const char *dir, bool server, key_ring *ring, net_options *net) {
  TRY(read_own(dir, server, ring, net));
  TRY(read_allowed(dir, ring, net));
  return read_other(dir, !server, ring, net);
}

void key_ring_fini(key_ring *ring) {
  keys_list_fini(&ring->allowed);
  explicit_bzero(ring, sizeof *ring);
}
