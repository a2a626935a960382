#include "data/example.h"

#include "base/mem.h"

#include <string.h>

enum { FRONT = 16 }; /* room for the tag and length of the map, which are known in the end */

static size_t varint_size(uint64_t value) { return value ? (size_t)(63 - __builtin_clzll(value)) / 7 + 1 : 1; }

static uint8_t *put_varint(uint8_t *at, uint64_t value) {
  for (; value >= 0x80; value >>= 7) *at++ = (uint8_t)(value | 0x80);
  *at++ = (uint8_t)value;
  return at;
}

/* Tag of field `number` with a length, and the length. */
static uint8_t *put_head(uint8_t *at, int number, size_t length) {
  *at++ = (uint8_t)(number << 3 | 2);
  return put_varint(at, length);
}

static size_t head_size(size_t length) { return 1 + varint_size(length); }

void example_clear(example_writer *w) {
  w->length = FRONT;
  w->failed = false;
}

/* Everything of a feature up to its values, which take `bytes` bytes; NULL: no memory. The values follow the packed (or
 * the one element's) head. */
static uint8_t *begin_feature(example_writer *w, const char *name, example_kind kind, size_t bytes) {
  size_t name_length = strlen(name);
  size_t list = head_size(bytes) + bytes, feature = head_size(list) + list;
  size_t entry = head_size(name_length) + name_length + head_size(feature) + feature;
  size_t length = MAX_OF(w->length, (size_t)FRONT), need = length + head_size(entry) + entry;
  if (need > w->capacity) {
    uint8_t *larger = realloc(w->bytes, need * 2);
    if (!larger) {
      w->failed = true;
      return NULL;
    }
    w->bytes = larger;
    w->capacity = need * 2;
  }
  uint8_t *at = put_head(w->bytes + length, 1, entry);
  at = put_head(at, 1, name_length);
  memcpy(at, name, name_length);
  at = put_head(at + name_length, 2, feature);
  at = put_head(at, (int)kind, list);
  at = put_head(at, 1, bytes);
  w->length = need;
  return at;
}

void example_add_ints(example_writer *w, const char *name, const int64_t *values, size_t n) {
  size_t bytes = 0;
  for (size_t i = 0; i < n; i++) bytes += varint_size((uint64_t)values[i]);
  uint8_t *at = begin_feature(w, name, EXAMPLE_INTS, bytes);
  if (at)
    for (size_t i = 0; i < n; i++) at = put_varint(at, (uint64_t)values[i]);
}

void example_add_indices(example_writer *w, const char *name, const int32_t *values, size_t n) {
  size_t bytes = 0;
  for (size_t i = 0; i < n; i++) bytes += varint_size((uint64_t)(int64_t)values[i]);
  uint8_t *at = begin_feature(w, name, EXAMPLE_INTS, bytes);
  if (at)
    for (size_t i = 0; i < n; i++) at = put_varint(at, (uint64_t)(int64_t)values[i]);
}

void example_add_floats(example_writer *w, const char *name, const float *values, size_t n) {
  uint8_t *at = begin_feature(w, name, EXAMPLE_FLOATS, n * sizeof *values);
  if (at && n) memcpy(at, values, n * sizeof *values);
}

void example_add_bytes(example_writer *w, const char *name, const void *bytes, size_t n) {
  uint8_t *at = begin_feature(w, name, EXAMPLE_BYTES, n);
  if (at && n) memcpy(at, bytes, n);
}

shoal_status example_finish(example_writer *w, const uint8_t **record, size_t *n) {
  if (w->failed) return status_no_memory();
  if (!w->bytes) { /* no feature at all */
    w->bytes = malloc(FRONT);
    if (!w->bytes) return status_no_memory();
    w->capacity = w->length = FRONT;
  }
  size_t map = w->length - FRONT, head = head_size(map);
  put_head(w->bytes + FRONT - head, 1, map);
  *record = w->bytes + FRONT - head;
  *n = head + map;
  return NULL;
}

void example_writer_fini(example_writer *w) {
  free(w->bytes);
  *w = (example_writer){0};
}
