/* Wire form (protocol buffers): Example { 1: Features }, Features { 1: entry }*, entry { 1: name, 2: Feature },
 * Feature { 1: BytesList | 2: FloatList | 3: Int64List }, each list { 1: value }*, numbers packed or not. */
#include "data/example.h"

#include "base/mem.h"

#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { VARINT = 0, FIXED64 = 1, LENGTH = 2, FIXED32 = 5 }; /* how a field is encoded */

static inline uint64_t load64(const uint8_t *at) {
  uint64_t word;
  memcpy(&word, at, sizeof word);
  return word;
}

/* Moves *at behind the number. False: it does not end in time, or has more than 64 bits. */
static inline bool read_varint(const uint8_t **at, const uint8_t *end, uint64_t *out) {
  const uint8_t *p = *at;
  if (p < end && *p < 0x80) {
    *out = *p;
    *at = p + 1;
    return true;
  }
  uint64_t value = 0;
  for (int shift = 0; p < end && shift < 70; shift += 7) {
    uint8_t byte = *p++;
    if (shift == 63 && byte > 1) return false;
    value |= (uint64_t)(byte & 0x7f) << shift;
    if (byte < 0x80) {
      *out = value;
      *at = p;
      return true;
    }
  }
  return false;
}

typedef struct {
  uint32_t number;
  int how;
  const uint8_t *data; /* LENGTH, FIXED32, FIXED64 */
  size_t bytes;
  uint64_t value; /* VARINT */
} field;

/* One field of a message; NULL when well, else what is wrong. Groups, long out of use, are refused. */
static inline __attribute__((always_inline)) const char *read_field(const uint8_t **at, const uint8_t *end,
                                                                    field *out) {
  uint64_t tag, length;
  if (!read_varint(at, end, &tag) || tag >> 3 == 0 || tag >> 32) return "a field's tag is malformed";
  *out = (field){.number = (uint32_t)(tag >> 3), .how = (int)(tag & 7)};
  switch (out->how) {
    case VARINT: return read_varint(at, end, &out->value) ? NULL : "a number is malformed";
    case LENGTH:
      if (!read_varint(at, end, &length)) return "a length is malformed";
      break;
    case FIXED32: length = 4; break;
    case FIXED64: length = 8; break;
    default: return "a field has an unknown wire type";
  }
  if (length > (uint64_t)(end - *at)) return "a field reaches past the end of what holds it";
  out->data = *at;
  out->bytes = (size_t)length;
  *at += length;
  return NULL;
}

void example_begin(example_cursor *c, const uint8_t *record, size_t n) {
  *c = (example_cursor){.start = record, .at = record, .end = record + n, .map_end = record};
}

static const char *read_feature(const uint8_t *at, const uint8_t *end, example_feature *out) {
  while (at < end) {
    field f = {0};
    const char *problem = read_field(&at, end, &f);
    if (problem) return problem;
    if (f.number < EXAMPLE_BYTES || f.number > EXAMPLE_INTS) continue;
    if (f.how != LENGTH) return "a feature's list is no message";
    if (out->kind != EXAMPLE_NONE) return "a feature holds two lists";
    out->kind = (example_kind)f.number;
    out->list = f.data;
    out->bytes = f.bytes;
  }
  return NULL;
}

static const char *read_entry(const uint8_t *at, const uint8_t *end, example_feature *out) {
  *out = (example_feature){.name = "", .list = at};
  while (at < end) {
    field f = {0};
    const char *problem = read_field(&at, end, &f);
    if (problem) return problem;
    if (f.number > 2) continue;
    if (f.how != LENGTH) return "a feature's name or value is of the wrong wire type";
    if (f.number == 1) {
      out->name = (const char *)f.data;
      out->name_length = f.bytes;
    } else if ((problem = read_feature(f.data, f.data + f.bytes, out))) {
      return problem;
    }
  }
  return NULL;
}

static example_step stop(example_cursor *c, const char *problem) {
  c->problem = problem;
  return EXAMPLE_BAD;
}

example_step example_next(example_cursor *c, example_feature *out) {
  for (;;) {
    field f = {0};
    const char *problem;
    if (c->at < c->map_end) {
      const uint8_t *at = c->at;
      if ((problem = read_field(&at, c->map_end, &f))) return stop(c, problem);
      if (f.number != 1) {
        c->at = at;
        continue;
      }
      if (f.how != LENGTH) return stop(c, "an entry of the map of features is no message");
      if ((problem = read_entry(f.data, f.data + f.bytes, out))) return stop(c, problem);
      c->at = at;
      return EXAMPLE_FEATURE;
    }
    if (c->at == c->end) return EXAMPLE_END;
    const uint8_t *at = c->at;
    if ((problem = read_field(&at, c->end, &f))) return stop(c, problem);
    if (f.number != 1) {
      c->at = at;
      continue;
    }
    if (f.how != LENGTH) return stop(c, "the map of features is no message");
    c->at = f.data;
    c->map_end = f.data + f.bytes;
  }
}

bool example_named(const example_feature *f, const char *name) {
  size_t n = strlen(name);
  return f->name_length == n && !memcmp(f->name, name, n);
}

const char *example_kind_name(example_kind kind) {
  static const char *const names[] = {"empty", "bytes", "float", "int64"};
  return names[kind];
}

example_step example_find(const uint8_t *record, size_t n, const char *name, example_feature *out,
                          const char **problem) {
  example_cursor c;
  example_step step;
  example_begin(&c, record, n);
  while ((step = example_next(&c, out)) == EXAMPLE_FEATURE)
    if (example_named(out, name)) return step;
  *problem = c.problem;
  return step;
}

int64_t example_ints(const example_feature *f, int64_t *out, size_t room) {
  const uint8_t *at = f->list, *end = f->list + f->bytes;
  size_t count = 0;
  if (f->kind == EXAMPLE_NONE) return 0;
  if (f->kind != EXAMPLE_INTS) return -1;
  while (at < end) {
    field v = {0};
    if (read_field(&at, end, &v)) return -1;
    if (v.number != 1) continue;
    if (v.how == VARINT) {
      if (count < room) out[count] = (int64_t)v.value;
      count++;
      continue;
    }
    if (v.how != LENGTH) return -1;
    for (const uint8_t *p = v.data, *stop_at = v.data + v.bytes; p < stop_at; count++) {
      uint64_t value;
      if (!read_varint(&p, stop_at, &value)) return -1;
      if (count < room) out[count] = (int64_t)value;
    }
  }
  return (int64_t)count;
}

int64_t example_floats(const example_feature *f, float *out, size_t room) {
  const uint8_t *at = f->list, *end = f->list + f->bytes;
  size_t count = 0;
  if (f->kind == EXAMPLE_NONE) return 0;
  if (f->kind != EXAMPLE_FLOATS) return -1;
  while (at < end) {
    field v = {0};
    if (read_field(&at, end, &v)) return -1;
    if (v.number != 1) continue;
    if ((v.how != FIXED32 && v.how != LENGTH) || v.bytes % 4) return -1;
    size_t n = v.bytes / 4, fit = count < room ? MIN_OF(n, room - count) : 0;
    /* The wire is little-endian, as every machine this runs on. */
    if (fit) memcpy(out + count, v.data, fit * 4);
    count += n;
  }
  return (int64_t)count;
}

/* Stops at the wanted element; returns how many there are up to it. */
static int64_t walk_bytes(const example_feature *f, size_t wanted, field *out) {
  const uint8_t *at = f->list, *end = f->list + f->bytes;
  size_t count = 0;
  if (f->kind == EXAMPLE_NONE) return 0;
  if (f->kind != EXAMPLE_BYTES) return -1;
  while (at < end && count <= wanted) {
    if (read_field(&at, end, out)) return -1;
    if (out->number != 1) continue;
    if (out->how != LENGTH) return -1;
    count++;
  }
  return (int64_t)count;
}

int64_t example_bytes(const example_feature *f, size_t i, const uint8_t **out) {
  field v = {0};
  int64_t count = walk_bytes(f, i, &v);
  if (count < 0 || (size_t)count <= i) return -1;
  *out = v.data;
  return (int64_t)v.bytes;
}

int64_t example_count(const example_feature *f) {
  field v;
  switch (f->kind) {
    case EXAMPLE_INTS: return example_ints(f, NULL, 0);
    case EXAMPLE_FLOATS: return example_floats(f, NULL, 0);
    case EXAMPLE_BYTES: return walk_bytes(f, SIZE_MAX - 1, &v);
    default: return 0;
  }
}

/* ---- ascending int32s
 *
 * Finding where each number ends is what costs: taken one after the other, each waits for the length of the one before.
 * Here the ends of 64 bytes at a time become the bits of a mask, and the numbers between them are independent. */

/* The payload of a number of at most 5 bytes. */
static inline uint64_t squeeze(uint64_t word) {
  return (word & 0x7f) | (word >> 1 & 0x3f80) | (word >> 2 & 0x1fc000) | (word >> 3 & 0xfe00000) |
         (word >> 4 & 0x7f0000000);
}

/* A bit for each of the next n bytes (at most 64) that ends a number. */
static inline uint64_t ends_of(const uint8_t *at, size_t n) {
  uint64_t ends = 0;
#if defined(__x86_64__)
  for (int i = 0; i < 4; i++) {
    __m128i part = _mm_loadu_si128((const __m128i *)(const void *)(at + 16 * i));
    ends |= (uint64_t)(uint16_t)~_mm_movemask_epi8(part) << 16 * i;
  }
#else
  for (size_t i = 0; i < n; i++) ends |= (uint64_t)(at[i] < 0x80) << i;
#endif
  return n < 64 ? ends & ((1ull << n) - 1) : ends;
}

/* The packed numbers in data[0, n). -1: not ascending, out of range, longer than 5 bytes or cut. */
static inline __attribute__((always_inline)) int64_t decode(const uint8_t *data, size_t n, int64_t limit, int32_t *out,
                                                            uint64_t (*payload)(uint64_t)) {
  int64_t previous = -1, bad = 0; /* bad: negative once anything was wrong */
  int32_t *to = out;
  const uint8_t *first = data, *at = data; /* first: byte of the number in hand */
  for (size_t left = n; left;) {
    size_t step = MIN_OF(left, (size_t)64);
    for (uint64_t ends = ends_of(at, step); ends; ends &= ends - 1) {
      const uint8_t *last = at + __builtin_ctzll(ends);
      int64_t more = last - first;
      bad |= 4 - more;
      /* The shift is cut to 6 bits, which only matters when the number is too long. */
      int64_t value = (int64_t)payload(load64(first) & ~0ull >> ((56 - 8 * more) & 63));
      bad |= value - previous - 1;
      previous = value;
      *to++ = (int32_t)value;
      first = last + 1;
    }
    at += step;
    left -= step;
  }
  /* Ascending, so the last is the largest. */
  if (bad < 0 || first != data + n || previous >= limit) return -1;
  return to - out;
}

#if defined(__x86_64__)
__attribute__((target("bmi2"))) static inline uint64_t squeeze_bmi2(uint64_t word) {
  return _pext_u64(word, 0x7f7f7f7f7full);
}

__attribute__((target("bmi,bmi2"))) static int64_t decode_bmi2(const uint8_t *data, size_t n, int64_t limit,
                                                               int32_t *out) {
  return decode(data, n, limit, out, squeeze_bmi2);
}
#endif

static int64_t decode_portable(const uint8_t *data, size_t n, int64_t limit, int32_t *out) {
  return decode(data, n, limit, out, squeeze);
}

int64_t example_ascending(const example_feature *f, int64_t limit, int32_t *out, size_t room) {
  const uint8_t *at = f->list, *end = f->list + f->bytes;
  field v = {0};
  if (f->kind != EXAMPLE_INTS || !f->bytes || read_field(&at, end, &v) || at != end || v.number != 1 ||
      v.how != LENGTH || v.bytes > room)
    return -1;
  limit = MIN_OF(limit, (int64_t)INT32_MAX);
#if defined(__x86_64__)
  if (__builtin_cpu_supports("bmi2")) return decode_bmi2(v.data, v.bytes, limit, out);
#endif
  return decode_portable(v.data, v.bytes, limit, out);
}

shoal_status example_describe(const uint8_t *record, size_t n, text *out) {
  example_cursor c;
  example_feature f;
  example_step step;
  bool first = true;
  example_begin(&c, record, n);
  while ((step = example_next(&c, &f)) == EXAMPLE_FEATURE) {
    int64_t count = example_count(&f);
    if (count < 0)
      return status_make(SHOAL_ERR_INPUT, "the list of feature '%.*s' is malformed",
                         (int)MIN_OF(f.name_length, (size_t)200), f.name);
    text_add(out, "%s%.*s %s x %lld", first ? "" : ", ", (int)MIN_OF(f.name_length, (size_t)200), f.name,
             example_kind_name(f.kind), (long long)count);
    first = false;
  }
  if (step == EXAMPLE_BAD)
    return status_make(SHOAL_ERR_INPUT, "not a tf.train.Example: %s at byte %zu of the record", c.problem,
                       example_offset(&c));
  return out->failed ? status_no_memory() : NULL;
}
