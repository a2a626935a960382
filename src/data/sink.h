/* Bytes to a file in order, through a buffer; every write is checked. */
#ifndef SHOAL_DATA_SINK_H
#define SHOAL_DATA_SINK_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct {
  char *path; /* owned */
  int fd;
  uint8_t *buffer; /* [capacity] */
  size_t capacity, used;
  uint64_t written; /* bytes given to the system */
} sink;

/* Makes the file, or empties it. */
SHOAL_CHECKED shoal_status sink_open(const char *path, sink *out);
/* *at: room for n bytes, of which sink_commit then says how many were written. */
SHOAL_CHECKED shoal_status sink_reserve(sink *s, size_t n, uint8_t **at);
static inline void sink_commit(sink *s, size_t n) { s->used += n; }
SHOAL_CHECKED shoal_status sink_write(sink *s, const void *bytes, size_t n);
/* Hands everything to the system, so that other programs see it. */
SHOAL_CHECKED shoal_status sink_flush(sink *s);
/* Flushes and closes; the sink is released whatever the status. */
SHOAL_CHECKED shoal_status sink_close(sink *s);
/* Releases it without writing what is left. Fine on a zeroed or a closed one. */
void sink_drop(sink *s);

#endif
