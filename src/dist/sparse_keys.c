#include "dist/sparse_keys.h"

#include "base/mem.h"

#include <stdbool.h>
#include <string.h>

enum { BLOCK = 8, WIDEST = 32, WORD = sizeof(uint64_t) };

size_t sparse_keys_max(int64_t n) { return (size_t)((n + BLOCK - 1) / BLOCK) * (1 + WIDEST) + WORD; }

/* Eight gaps of `width` bits at p; returns where they end. Each goes out with the bits before it as a word, so WORD bytes more
 * than theirs are written to. */
static inline uint8_t *pack(const uint32_t *gaps, int width, uint8_t *p) {
  uint64_t word = 0; /* bits that have not been left behind, `filled` of them */
  int filled = 0;
  for (int i = 0; i < BLOCK; i++) {
    word |= (uint64_t)gaps[i] << filled;
    filled += width;
    memcpy(p, &word, sizeof word);
    p += filled / 8;
    word >>= filled & ~7;
    filled %= 8;
  }
  return p;
}

/* Where the words of a block of `width` bytes can be read, some of them past its end: where it is or, if the message ends too
 * soon, in `room`. */
static inline const uint8_t *readable(const uint8_t *p, const uint8_t *end, int width, uint8_t room[WIDEST + WORD]) {
  if (end - p >= WIDEST + WORD) return p;
  memset(room, 0, WIDEST + WORD);
  return memcpy(room, p, (size_t)width);
}

size_t sparse_keys_encode(const int32_t *keys, int64_t n, int32_t base, uint8_t *out) {
  uint8_t *p = out;
  uint32_t next = (uint32_t)base; /* the least that can come */
  for (int64_t at = 0; at < n; at += BLOCK) {
    uint32_t gaps[BLOCK] = {0}, all = 0;
    const int64_t count = MIN_OF(BLOCK, n - at);
    for (int64_t i = 0; i < count; i++) {
      gaps[i] = (uint32_t)keys[at + i] - next;
      all |= gaps[i];
      next = (uint32_t)keys[at + i] + 1;
    }
    const int width = all ? 32 - __builtin_clz(all) : 0;
    *p++ = (uint8_t)width;
    p = pack(gaps, width, p);
  }
  return (size_t)(p - out);
}

const char *sparse_keys_decode(const uint8_t *bytes, size_t length, int64_t n, int64_t limit, int32_t *out) {
  const uint8_t *p = bytes, *end = bytes + length;
  uint64_t next = 0; /* as above; gaps below 2^32 and fewer than 2^31 keys cannot overflow it */
  for (int64_t at = 0; at < n; at += BLOCK) {
    uint8_t room[WIDEST + WORD];
    if (p >= end) return "its keys are truncated";
    const int width = *p++;
    if (width > WIDEST || end - p < width) return "its keys are truncated";
    const uint8_t *words = readable(p, end, width, room);
    p += width;
    const uint64_t mask = ((uint64_t)1 << width) - 1;
    const int64_t count = MIN_OF(BLOCK, n - at);
    for (int64_t i = 0; i < count; i++) {
      uint64_t word;
      memcpy(&word, words + i * width / 8, sizeof word);
      next += word >> (i * width % 8) & mask;
      if ((int64_t)next >= limit) return "a key is out of range";
      out[at + i] = (int32_t)next++;
    }
  }
  return p == end ? NULL : "unexpected bytes after its keys";
}

/* ---- ids */

enum { LOW = 32, WIDEST_ID = 64 };

size_t sparse_ids_max(int64_t n) { return (size_t)((n + BLOCK - 1) / BLOCK) * (1 + WIDEST_ID) + WORD; }

/* Eight gaps of which `shift` lower bits are left out. */
static uint8_t *pack_ids(const uint64_t *gaps, int shift, int width, uint8_t *p) {
  uint32_t part[BLOCK];
  for (int i = 0; i < BLOCK; i++) part[i] = (uint32_t)(gaps[i] >> shift);
  return pack(part, width, p);
}

static const uint8_t *unpack_ids(const uint8_t *p, const uint8_t *end, int shift, int width, uint64_t *gaps) {
  uint8_t room[WIDEST + WORD];
  const uint8_t *words = readable(p, end, width, room);
  const uint64_t mask = ((uint64_t)1 << width) - 1;
  for (int i = 0; i < BLOCK; i++) {
    uint64_t word;
    memcpy(&word, words + i * width / 8, sizeof word);
    gaps[i] |= (word >> (i * width % 8) & mask) << shift;
  }
  return p + width;
}

size_t sparse_ids_encode(const uint64_t *ids, int64_t n, uint8_t *out) {
  uint8_t *p = out;
  uint64_t next = 0; /* the least that can come */
  for (int64_t at = 0; at < n; at += BLOCK) {
    uint64_t gaps[BLOCK] = {0}, all = 0;
    const int64_t count = MIN_OF(BLOCK, n - at);
    for (int64_t i = 0; i < count; i++) {
      gaps[i] = ids[at + i] - next;
      all |= gaps[i];
      next = ids[at + i] + 1;
    }
    const int width = all ? 64 - __builtin_clzll(all) : 0;
    *p++ = (uint8_t)width;
    p = pack_ids(gaps, 0, MIN_OF(width, LOW), p);
    if (width > LOW) p = pack_ids(gaps, LOW, width - LOW, p);
  }
  return (size_t)(p - out);
}

const char *sparse_ids_decode(const uint8_t *bytes, size_t length, int64_t n, uint64_t *out) {
  const uint8_t *p = bytes, *end = bytes + length;
  uint64_t next = 0;
  bool past = false; /* the last one was the greatest there is */
  for (int64_t at = 0; at < n; at += BLOCK) {
    uint64_t gaps[BLOCK] = {0};
    if (p >= end) return "its ids are truncated";
    const int width = *p++;
    if (width > WIDEST_ID || end - p < width) return "its ids are truncated";
    p = unpack_ids(p, end, 0, MIN_OF(width, LOW), gaps);
    if (width > LOW) p = unpack_ids(p, end, LOW, width - LOW, gaps);
    const int64_t count = MIN_OF(BLOCK, n - at);
    for (int64_t i = 0; i < count; i++) {
      if (past || gaps[i] > UINT64_MAX - next) return "an id is out of range";
      out[at + i] = next += gaps[i];
      past = next++ == UINT64_MAX;
    }
  }
  return p == end ? NULL : "unexpected bytes after its ids";
}
