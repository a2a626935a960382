#include "run/remote_channel.h"

#include "base/clock.h"
#include "base/json_read.h"
#include "base/json_text.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PIECE 16384
#define LINE_MAX_BYTES (4 << 20)

void remote_channel_init(remote_channel *c, int in, int out) {
  *c = (remote_channel){.in = in, .out = out};
  fcntl(in, F_SETFL, O_NONBLOCK);
  fcntl(out, F_SETFL, O_NONBLOCK);
}

void remote_channel_fini(remote_channel *c) {
  if (c->in >= 0) close(c->in);
  if (c->out >= 0) close(c->out);
  text_fini(&c->lines);
  *c = (remote_channel){.in = -1, .out = -1};
}

static shoal_status write_all(int fd, const char *bytes, size_t n) {
  const double end = clock_seconds() + SILENCE_SECONDS;
  while (n) {
    ssize_t done = write(fd, bytes, n);
    if (done > 0) {
      bytes += done;
      n -= (size_t)done;
      continue;
    }
    if (done < 0 && errno != EAGAIN && errno != EINTR)
      return status_make(SHOAL_ERR_PEER, "the connection is lost (%s)", strerror(errno));
    if (clock_seconds() > end)
      return status_make(SHOAL_ERR_PEER, "the connection has taken nothing for %g s", SILENCE_SECONDS);
    poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, 100);
  }
  return NULL;
}

shoal_status remote_channel_send(remote_channel *c, const char *kind, json_t *body) {
  json_t *message = json_pack("{s:o}", kind, body);
  char *line = message ? json_words(message, JSON_COMPACT) : NULL;
  json_decref(message);
  text words = {0};
  if (line) text_add(&words, "%s\n", line);
  free(line);
  if (!words.data || words.failed) {
    text_fini(&words);
    return status_no_memory();
  }
  shoal_status status = c->out < 0 ? status_make(SHOAL_ERR_PEER, "the connection is closed")
                                   : write_all(c->out, words.data, words.length);
  text_fini(&words);
  return status;
}

static void read_lines(remote_channel *c) {
  char piece[PIECE];
  while (!c->ended) {
    ssize_t n = read(c->in, piece, sizeof piece);
    if (n > 0) {
      text_add_bytes(&c->lines, piece, (size_t)n);
      if (c->lines.length - c->taken > LINE_MAX_BYTES) return; /* what is there comes first */
      continue;
    }
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    c->ended = true;
  }
}

/* The next whole line, or NULL; lives until the next call. */
static char *next_line(remote_channel *c) {
  if (!c->lines.data) return NULL;
  char *from = c->lines.data + c->taken, *end = memchr(from, '\n', c->lines.length - c->taken);
  if (end) {
    *end = 0;
    c->taken = (size_t)(end + 1 - c->lines.data);
    return from;
  }
  c->lines.length -= c->taken;
  memmove(c->lines.data, from, c->lines.length);
  c->taken = 0;
  return NULL;
}

shoal_status remote_channel_next(remote_channel *c, json_t **out) {
  *out = NULL;
  read_lines(c);
  if (c->lines.failed) return status_no_memory();
  for (char *line; (line = next_line(c));) {
    if (*line != '{') continue;
    json_error_t error;
    *out = json_read_words(line, 0, &error);
    if (*out) return NULL;
    return status_make(SHOAL_ERR_PEER, "the other end says what is no message: %.60s", line);
  }
  if (c->lines.length > LINE_MAX_BYTES) return status_make(SHOAL_ERR_PEER, "the other end does not end its line");
  return NULL;
}

json_t *remote_body(const json_t *message, const char *kind) { return json_object_get(message, kind); }

json_t *remote_text(const char *words) {
  json_t *value = json_string(words);
  if (value) return value;
  char *ascii = strdup(words);
  for (char *s = ascii; s && *s; s++)
    if (*s & 0x80) *s = '?';
  value = ascii ? json_string(ascii) : NULL;
  free(ascii);
  return value;
}
