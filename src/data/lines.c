#include "data/lines.h"

#include "base/mem.h"

#include <string.h>

#define BYTES_MAX ((size_t)256 << 20)

shoal_status lines_next(line_reader *r, const uint8_t **line, size_t *n) {
  const uint8_t *at, *end = NULL;
  size_t have = 0, seen = 0;
  for (;;) {
    size_t need = seen + 1;
    TRY(stream_fill(r->in, need, &at, &have));
    if (have > seen) end = memchr(at + seen, '\n', have - seen);
    if (end || have < need) break;
    if (have > BYTES_MAX)
      return status_make(SHOAL_ERR_INPUT, "the line at byte %llu is longer than %zu bytes: this is not text",
                         (unsigned long long)r->next, BYTES_MAX);
    seen = have;
  }
  if (!have) {
    *line = NULL;
    *n = 0;
    return NULL;
  }
  size_t length = end ? (size_t)(end - at) : have;
  r->offset = r->next;
  r->next += length + (end != NULL);
  if (r->number >= 0) r->number++;
  stream_advance(r->in, length + (end != NULL));
  if (length && at[length - 1] == '\r') length--;
  *line = at;
  *n = length;
  return NULL;
}

shoal_status lines_seek(line_reader *r, uint64_t offset) {
  TRY(stream_seek(r->in, offset));
  r->offset = r->next = offset;
  r->number = offset ? -1 : 0;
  return NULL;
}

shoal_status lines_number(line_reader *r, int64_t *out) {
  if (r->number < 0) {
    int64_t ends = 0;
    TRY(stream_seek(r->in, 0));
    while (stream_offset(r->in) < r->offset) {
      const uint8_t *at;
      size_t have;
      TRY(stream_fill(r->in, 1, &at, &have));
      if (!have) break;
      have = (size_t)MIN_OF((uint64_t)have, r->offset - stream_offset(r->in));
      for (size_t i = 0; i < have; i++) ends += at[i] == '\n';
      stream_advance(r->in, have);
    }
    TRY(stream_seek(r->in, r->next));
    r->number = ends + 1;
  }
  *out = r->number;
  return NULL;
}

shoal_status lines_blame(line_reader *r, const char *path, size_t at, shoal_status status) {
  int64_t number = 0;
  shoal_status counting = lines_number(r, &number);
  if (counting) {
    shoal_status_free(status);
    return counting;
  }
  return status_wrap(status, "%s: line %lld at byte %llu", path, (long long)number,
                     (unsigned long long)(r->offset + at));
}
