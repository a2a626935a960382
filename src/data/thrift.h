/* Thrift's compact protocol, as far as reading Parquet's structs needs it. Nothing is read beyond `end`: what is cut short
 * or nested too deep sets `failed`, and everything after that reads as zero. */
#ifndef SHOAL_DATA_THRIFT_H
#define SHOAL_DATA_THRIFT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
  THRIFT_STOP,
  THRIFT_TRUE,
  THRIFT_FALSE,
  THRIFT_BYTE,
  THRIFT_I16,
  THRIFT_I32,
  THRIFT_I64,
  THRIFT_DOUBLE,
  THRIFT_BINARY,
  THRIFT_LIST,
  THRIFT_SET,
  THRIFT_MAP,
  THRIFT_STRUCT
} thrift_type;

typedef struct {
  const uint8_t *at, *end;
  bool failed;
} thrift;

/* A field of a struct; id counts on from the field before. */
typedef struct {
  int32_t id;
  thrift_type type;
} thrift_field;

static inline uint64_t thrift_varint(thrift *t) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (t->failed || t->at >= t->end) break;
    const uint8_t byte = *t->at++;
    value |= (uint64_t)(byte & 0x7f) << shift;
    if (!(byte & 0x80)) return value;
  }
  t->failed = true;
  return 0;
}

static inline int64_t thrift_int(thrift *t) {
  const uint64_t v = thrift_varint(t);
  return (int64_t)(v >> 1) ^ -(int64_t)(v & 1);
}

/* *bytes stay in the buffer; returns how many. */
static inline size_t thrift_binary(thrift *t, const uint8_t **bytes) {
  const uint64_t n = thrift_varint(t);
  if (t->failed || n > (uint64_t)(t->end - t->at)) {
    t->failed = true;
    return 0;
  }
  *bytes = t->at;
  t->at += n;
  return (size_t)n;
}

/* How many elements of which type follow. */
static inline uint64_t thrift_list(thrift *t, thrift_type *type) {
  if (t->failed || t->at >= t->end) {
    t->failed = true;
    return 0;
  }
  const uint8_t head = *t->at++;
  *type = (thrift_type)(head & 15);
  const uint64_t n = head >> 4 == 15 ? thrift_varint(t) : head >> 4;
  if (n > (uint64_t)(t->end - t->at)) t->failed = true; /* an element has at least a byte */
  return t->failed ? 0 : n;
}

/* False at the end of the struct. */
static inline bool thrift_next(thrift *t, thrift_field *f) {
  if (t->failed || t->at >= t->end) {
    t->failed = true;
    return false;
  }
  const uint8_t head = *t->at++;
  f->type = (thrift_type)(head & 15);
  if (f->type == THRIFT_STOP) return false;
  f->id = head >> 4 ? f->id + (head >> 4) : (int32_t)thrift_int(t);
  return !t->failed;
}

/* Passes over a value of a field; of a list's element with `element`, whose truth values have a byte. */
static inline void thrift_skip(thrift *t, thrift_type type, bool element, int depth) {
  const uint8_t *bytes;
  thrift_type of;
  if (depth > 16) t->failed = true;
  if (t->failed) return;
  switch (type) {
    case THRIFT_TRUE:
    case THRIFT_FALSE:
      if (!element) break;
      /* fall through */
    case THRIFT_BYTE:
      t->failed |= t->at >= t->end;
      t->at += !t->failed;
      break;
    case THRIFT_I16:
    case THRIFT_I32:
    case THRIFT_I64: (void)thrift_varint(t); break;
    case THRIFT_DOUBLE:
      t->failed |= t->end - t->at < 8;
      if (!t->failed) t->at += 8;
      break;
    case THRIFT_BINARY: (void)thrift_binary(t, &bytes); break;
    case THRIFT_LIST:
    case THRIFT_SET:
      for (uint64_t n = thrift_list(t, &of); n && !t->failed; n--) thrift_skip(t, of, true, depth + 1);
      break;
    case THRIFT_MAP: {
      const uint64_t n = thrift_varint(t);
      if (!n || t->failed) break;
      t->failed |= t->at >= t->end || n > (uint64_t)(t->end - t->at);
      if (t->failed) break;
      const uint8_t types = *t->at++;
      for (uint64_t i = 0; i < n && !t->failed; i++) {
        thrift_skip(t, (thrift_type)(types >> 4), true, depth + 1);
        thrift_skip(t, (thrift_type)(types & 15), true, depth + 1);
      }
      break;
    }
    case THRIFT_STRUCT:
      for (thrift_field f = {0}; thrift_next(t, &f);) thrift_skip(t, f.type, false, depth + 1);
      break;
    default: t->failed = true;
  }
}

#endif
