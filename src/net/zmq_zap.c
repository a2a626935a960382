#include "net/zmq_zap.h"

#include "net/keys.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

enum { KEY_BYTES = 32, FRAMES = 7, FRAME_ROOM = 256 };

struct zmq_zap {
  void *socket;
  pthread_t thread;
  size_t count;
  uint8_t (*keys)[KEY_BYTES];
};

static bool allowed_key(const zmq_zap *z, const uint8_t *key) {
  for (size_t i = 0; i < z->count; i++)
    if (!memcmp(z->keys[i], key, KEY_BYTES)) return true;
  return false;
}

/* version, request, domain, address, identity, mechanism, credentials. -1: the context ends. */
static int read_request(void *socket, uint8_t frames[FRAMES][FRAME_ROOM], int sizes[FRAMES]) {
  int n = 0, more = 1;
  size_t length = sizeof more;
  while (more) {
    uint8_t spare[FRAME_ROOM];
    int size = zmq_recv(socket, n < FRAMES ? frames[n] : spare, FRAME_ROOM, 0);
    if (size < 0) {
      if (errno == EINTR) continue;
      return -1;
    }
    if (n < FRAMES) sizes[n] = size;
    n++;
    if (zmq_getsockopt(socket, ZMQ_RCVMORE, &more, &length)) return -1;
  }
  return n;
}

static void *serve(void *context) {
  zmq_zap *z = context;
  uint8_t frames[FRAMES][FRAME_ROOM];
  int sizes[FRAMES], n;
  while ((n = read_request(z->socket, frames, sizes)) >= 0) {
    bool good = n == FRAMES && sizes[0] == 3 && !memcmp(frames[0], "1.0", 3) && sizes[1] <= FRAME_ROOM &&
                sizes[5] == 5 && !memcmp(frames[5], "CURVE", 5) && sizes[6] == KEY_BYTES && allowed_key(z, frames[6]);
    int request = n > 1 && sizes[1] <= FRAME_ROOM ? sizes[1] : 0;
    if (zmq_send(z->socket, "1.0", 3, ZMQ_SNDMORE) < 0 ||
        zmq_send(z->socket, frames[1], (size_t)request, ZMQ_SNDMORE) < 0 ||
        zmq_send(z->socket, good ? "200" : "400", 3, ZMQ_SNDMORE) < 0 ||
        zmq_send(z->socket, good ? "OK" : "key", good ? 2 : 3, ZMQ_SNDMORE) < 0 ||
        zmq_send(z->socket, "", 0, ZMQ_SNDMORE) < 0 || zmq_send(z->socket, "", 0, 0) < 0)
      break;
  }
  zmq_close(z->socket);
  return NULL;
}

shoal_status zap_start(void *context, const char *const *allowed, zmq_zap **out) {
  zmq_zap *z = calloc(1, sizeof *z);
  if (!z) return status_no_memory();
  size_t n = 0;
  while (allowed[n]) n++;
  shoal_status status = NULL;
  z->keys = calloc(n ? n : 1, sizeof *z->keys);
  if (!z->keys) TRY_GOTO(status, status_no_memory(), failed);
  for (; z->count < n; z->count++)
    if (!keys_valid(allowed[z->count]) || !zmq_z85_decode(z->keys[z->count], allowed[z->count]))
      TRY_GOTO(status, status_make(SHOAL_ERR_ARGUMENT, "client key %zu is not 40 characters of Z85", z->count + 1),
               failed);
  z->socket = zmq_socket(context, ZMQ_REP);
  int linger = 0;
  if (!z->socket || zmq_setsockopt(z->socket, ZMQ_LINGER, &linger, sizeof linger) ||
      zmq_bind(z->socket, "inproc://zeromq.zap.01"))
    TRY_GOTO(status, status_make(SHOAL_ERR_SYSTEM, "authentication: %s", zmq_strerror(errno)), failed);
  int error = pthread_create(&z->thread, NULL, serve, z);
  if (error) TRY_GOTO(status, status_errno(error, "authentication thread"), failed);
  *out = z;
  return NULL;
failed:
  if (z->socket) zmq_close(z->socket);
  free(z->keys);
  free(z);
  return status;
}

void zap_join(zmq_zap *z) {
  if (!z) return;
  pthread_join(z->thread, NULL);
  free(z->keys);
  free(z);
}
