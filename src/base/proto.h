/* Writes and reads protobuf messages by hand: a growing buffer, fields in order, messages inside messages. The few that
 * are needed (event files, GraphDef, what graph servers are told) do not repay generated code. */
#ifndef SHOAL_BASE_PROTO_H
#define SHOAL_BASE_PROTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
  uint8_t *bytes; /* [capacity]; NULL while empty */
  size_t length, capacity;
  bool failed; /* no memory; sticks */
} proto;

void proto_clear(proto *p);
void proto_fini(proto *p);

void proto_int(proto *p, int field, int64_t value);
void proto_double(proto *p, int field, double value);
void proto_float(proto *p, int field, float value);
void proto_bytes(proto *p, int field, const void *bytes, size_t n);
void proto_text(proto *p, int field, const char *words);
/* values [n], packed. */
void proto_doubles(proto *p, int field, const double *values, size_t n);

/* A message inside: everything written between the two. begin's result is for end. */
size_t proto_begin(proto *p, int field);
void proto_end(proto *p, size_t begun);

/* ---- reading: a view of bytes that the caller keeps. Fields may come in any order and any number. */
typedef struct {
  const uint8_t *at, *end;
  bool wrong; /* what was read is no message; sticks, and proto_next is false from then on */
  /* the field that proto_next came to */
  int field;
  uint64_t number;      /* of a varint, or the bits of a float or double */
  const uint8_t *bytes; /* [length]: text, bytes, a message inside or packed numbers; NULL otherwise */
  size_t length;
} proto_reader;

static inline proto_reader proto_read(const void *bytes, size_t n) {
  return (proto_reader){.at = bytes, .end = n ? (const uint8_t *)bytes + n : bytes};
}
/* The next field; false at the end, and where the bytes make no sense. */
bool proto_next(proto_reader *r);
/* The message in the field under way, which must be one. */
proto_reader proto_inside(const proto_reader *r);
/* The next of packed varints; false at the end. */
bool proto_next_packed(proto_reader *r, int64_t *out);
float proto_as_float(const proto_reader *r);
double proto_as_double(const proto_reader *r);
/* A copy, NUL-terminated, that the caller frees; NULL when there is no memory or a NUL in it. */
char *proto_as_text(const proto_reader *r);

#endif
