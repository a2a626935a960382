#include "data/sink.h"

#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { BUFFER = 256 * 1024 };

static shoal_status cannot_write(const sink *s) {
  return status_errno(errno, "%s: byte %llu: cannot write", s->path, (unsigned long long)s->written);
}

shoal_status sink_open(const char *path, sink *out) {
  sink s = {.fd = -1, .path = strdup(path), .capacity = BUFFER, .buffer = malloc(BUFFER)};
  if (!s.path || !s.buffer) {
    sink_drop(&s);
    return status_no_memory();
  }
  s.fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (s.fd < 0) {
    shoal_status status = status_errno(errno, "%s: cannot create the file", path);
    sink_drop(&s);
    return status;
  }
  *out = s;
  return NULL;
}

shoal_status sink_flush(sink *s) {
  size_t done = 0;
  while (done < s->used) {
    ssize_t n = write(s->fd, s->buffer + done, s->used - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      shoal_status status = cannot_write(s);
      memmove(s->buffer, s->buffer + done, s->used - done);
      s->used -= done;
      return status;
    }
    done += (size_t)n;
    s->written += (size_t)n;
  }
  s->used = 0;
  return NULL;
}

shoal_status sink_reserve(sink *s, size_t n, uint8_t **at) {
  if (s->capacity - s->used < n) {
    TRY(sink_flush(s));
    if (s->capacity < n) {
      uint8_t *larger = realloc(s->buffer, n);
      if (!larger) return status_no_memory();
      s->buffer = larger;
      s->capacity = n;
    }
  }
  *at = s->buffer + s->used;
  return NULL;
}

shoal_status sink_write(sink *s, const void *bytes, size_t n) {
  uint8_t *at;
  TRY(sink_reserve(s, n, &at));
  if (n) memcpy(at, bytes, n);
  sink_commit(s, n);
  return NULL;
}

shoal_status sink_close(sink *s) {
  shoal_status status = sink_flush(s);
  /* A network file system may only now say that the disk is full. */
  if (close(s->fd) && !status) status = cannot_write(s);
  s->fd = -1;
  sink_drop(s);
  return status;
}

void sink_drop(sink *s) {
  if (s->path && s->fd >= 0) close(s->fd);
  free(s->path);
  free(s->buffer);
  *s = (sink){.fd = -1};
}
