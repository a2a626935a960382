/* Writes protobuf messages by hand: a growing buffer, fields in order, messages inside messages. The few that TensorBoard
 * reads do not repay generated code. */
#ifndef SHOAL_OBSERVE_PROTO_H
#define SHOAL_OBSERVE_PROTO_H

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

#endif
