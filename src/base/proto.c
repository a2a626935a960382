#include "base/proto.h"

#include "base/mem.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are copied as they lie");

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5, VARINT_MAX = 10 };

void proto_clear(proto *p) {
  p->length = 0;
  p->failed = false;
}

void proto_fini(proto *p) {
  free(p->bytes);
  *p = (proto){0};
}

/* Room for n more bytes; NULL: no memory. */
static uint8_t *room(proto *p, size_t n) {
  if (p->failed) return NULL;
  if (p->length + n > p->capacity) {
    size_t capacity = 2 * (p->length + n);
    uint8_t *larger = realloc(p->bytes, capacity);
    if (!larger) {
      p->failed = true;
      return NULL;
    }
    p->bytes = larger;
    p->capacity = capacity;
  }
  return p->bytes + p->length;
}

static size_t put_varint(uint8_t *at, uint64_t value) {
  size_t n = 0;
  for (; value >= 0x80; value >>= 7) at[n++] = (uint8_t)(value | 0x80);
  at[n++] = (uint8_t)value;
  return n;
}

static void add_varint(proto *p, uint64_t value) {
  uint8_t *at = room(p, VARINT_MAX);
  if (at) p->length += put_varint(at, value);
}

static void add(proto *p, const void *bytes, size_t n) {
  uint8_t *at = room(p, n);
  if (!at || !n) return;
  memcpy(at, bytes, n);
  p->length += n;
}

static void add_tag(proto *p, int field, int wire) { add_varint(p, (uint64_t)field << 3 | (uint64_t)wire); }

void proto_int(proto *p, int field, int64_t value) {
  add_tag(p, field, WIRE_VARINT);
  add_varint(p, (uint64_t)value);
}

void proto_double(proto *p, int field, double value) {
  add_tag(p, field, WIRE_64);
  add(p, &value, sizeof value);
}

void proto_float(proto *p, int field, float value) {
  add_tag(p, field, WIRE_32);
  add(p, &value, sizeof value);
}

void proto_bytes(proto *p, int field, const void *bytes, size_t n) {
  add_tag(p, field, WIRE_BYTES);
  add_varint(p, n);
  add(p, bytes, n);
}

void proto_text(proto *p, int field, const char *words) { proto_bytes(p, field, words, strlen(words)); }

void proto_doubles(proto *p, int field, const double *values, size_t n) {
  proto_bytes(p, field, values, n * sizeof *values);
}

size_t proto_begin(proto *p, int field) {
  add_tag(p, field, WIRE_BYTES);
  return p->length;
}

/* The length, known only now, moves what it is about. */
void proto_end(proto *p, size_t begun) {
  if (!room(p, VARINT_MAX)) return;
  uint8_t head[VARINT_MAX];
  size_t inside = p->length - begun, n = put_varint(head, inside);
  memmove(p->bytes + begun + n, p->bytes + begun, inside);
  memcpy(p->bytes + begun, head, n);
  p->length += n;
}

/* ---- reading */

static bool get_varint(proto_reader *r, uint64_t *out) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64 && r->at < r->end; shift += 7) {
    uint8_t byte = *r->at++;
    value |= (uint64_t)(byte & 0x7f) << shift;
    if (byte < 0x80) {
      *out = value;
      return true;
    }
  }
  r->wrong = true;
  return false;
}

/* Little-endian; the supported machines are, too. */
static bool get_fixed(proto_reader *r, size_t n) {
  r->number = 0;
  if ((size_t)(r->end - r->at) < n) {
    r->wrong = true;
    return false;
  }
  memcpy(&r->number, r->at, n);
  r->at += n;
  return true;
}

bool proto_next(proto_reader *r) {
  uint64_t tag, length;
  if (r->wrong || r->at >= r->end || !get_varint(r, &tag)) return false;
  r->field = (int)(tag >> 3);
  r->bytes = NULL;
  r->length = 0;
  switch (tag & 7) {
    case WIRE_VARINT: return get_varint(r, &r->number);
    case WIRE_64: return get_fixed(r, 8);
    case WIRE_32: return get_fixed(r, 4);
    case WIRE_BYTES:
      if (!get_varint(r, &length)) return false;
      if (length <= (uint64_t)(r->end - r->at)) {
        r->bytes = r->at;
        r->length = (size_t)length;
        r->at += length;
        return true;
      }
      break;
    default: break;
  }
  r->wrong = true;
  return false;
}

proto_reader proto_inside(const proto_reader *r) {
  proto_reader inside = proto_read(r->bytes, r->length);
  inside.wrong = !r->bytes;
  return inside;
}

bool proto_next_packed(proto_reader *r, int64_t *out) {
  uint64_t value;
  if (r->wrong || r->at >= r->end || !get_varint(r, &value)) return false;
  *out = (int64_t)value;
  return true;
}

float proto_as_float(const proto_reader *r) {
  float value;
  memcpy(&value, &r->number, sizeof value);
  return value;
}

double proto_as_double(const proto_reader *r) {
  double value;
  memcpy(&value, &r->number, sizeof value);
  return value;
}

char *proto_as_text(const proto_reader *r) {
  if (!r->bytes || memchr(r->bytes, 0, r->length)) return NULL;
  return strndup((const char *)r->bytes, r->length);
}
