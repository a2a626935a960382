#include "cli/key_ring.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

shoal_status key_ring_read(const char *dir, bool server, key_ring *ring, net_options *net) {
  char *path;
  if (asprintf(&path, "%s/%s.key", dir, server ? "server" : "client") < 0) return status_no_memory();
  shoal_status status = keys_read_pair(path, &ring->own);
  free(path);
  TRY(status);
  net->public_key = ring->own.public_key;
  net->secret_key = ring->own.secret_key;
  if (server) {
    TRY(keys_read_folder(dir, &ring->allowed));
    net->allowed = (const char *const *)ring->allowed.keys;
    return NULL;
  }
  if (asprintf(&path, "%s/server.pub", dir) < 0) return status_no_memory();
  status = keys_read_public(path, ring->server);
  free(path);
  net->server_key = ring->server;
  return status;
}

void key_ring_fini(key_ring *ring) {
  keys_list_fini(&ring->allowed);
  explicit_bzero(ring, sizeof *ring);
}
