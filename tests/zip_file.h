/* Writes ZIP archives as numpy.savez and savez_compressed do. */
#ifndef SHOAL_TESTS_ZIP_FILE_H
#define SHOAL_TESTS_ZIP_FILE_H

#include "files.h"

#include <zlib.h>

typedef struct {
  const char *name;
  const void *bytes;
  size_t n;
} zip_input;

static inline size_t zip_put(uint8_t *at, uint64_t value, size_t n) {
  for (size_t i = 0; i < n; i++) at[i] = i < sizeof value ? (uint8_t)(value >> 8 * i) : 0;
  return n;
}

/* What header and directory share, from the flags on. big: sizes go to a ZIP64 field. */
static inline size_t zip_put_sizes(uint8_t *at, int method, uint32_t crc, size_t packed, size_t n, bool big) {
  size_t k = zip_put(at, 0, 2);
  k += zip_put(at + k, (uint64_t)method, 2);
  k += zip_put(at + k, 0, 4);
  k += zip_put(at + k, crc, 4);
  k += zip_put(at + k, big ? UINT32_MAX : packed, 4);
  return k + zip_put(at + k, big ? UINT32_MAX : n, 4);
}

/* NumPy always writes ZIP64 sizes in front of members; big: in the directory, too, as of members above 4 GB. */
static inline void zip_write(const char *path, const zip_input *members, size_t count, bool deflated, bool big) {
  uint8_t *out = calloc(1, 1 << 20), *directory = calloc(1, 1 << 16);
  size_t at = 0, end = 0;
  for (size_t i = 0; i < count; i++) {
    const zip_input *m = &members[i];
    size_t start = at, name = strlen(m->name), packed = m->n;
    uint8_t *body = calloc(1, m->n + 1000);
    memcpy(body, m->bytes, m->n);
    if (deflated) {
      z_stream z = {
          .next_in = (Bytef *)m->bytes, .avail_in = (uInt)m->n, .next_out = body, .avail_out = (uInt)m->n + 1000};
      assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
      assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
      packed = z.total_out;
      deflateEnd(&z);
    }
    uint32_t crc = (uint32_t)crc32(0, m->bytes, (uInt)m->n);
    memcpy(out + at, "PK\3\4\x2d\0", 6);
    at += 6 + zip_put_sizes(out + at + 6, deflated ? 8 : 0, crc, packed, m->n, true);
    at += zip_put(out + at, name, 2);
    at += zip_put(out + at, 20, 2);
    memcpy(out + at, m->name, name);
    at += name;
    at += zip_put(out + at, 1, 2);
    at += zip_put(out + at, 16, 2);
    at += zip_put(out + at, m->n, 8);
    at += zip_put(out + at, packed, 8);
    memcpy(out + at, body, packed);
    at += packed;
    free(body);
    memcpy(directory + end, "PK\1\2\x2d\x03\x2d\0", 8);
    end += 8 + zip_put_sizes(directory + end + 8, deflated ? 8 : 0, crc, packed, m->n, big);
    end += zip_put(directory + end, name, 2);
    end += zip_put(directory + end, big ? 28 : 0, 2);
    end += zip_put(directory + end, 0, 10);
    end += zip_put(directory + end, big ? UINT32_MAX : start, 4);
    memcpy(directory + end, m->name, name);
    end += name;
    if (!big) continue;
    end += zip_put(directory + end, 1, 2);
    end += zip_put(directory + end, 24, 2);
    end += zip_put(directory + end, m->n, 8);
    end += zip_put(directory + end, packed, 8);
    end += zip_put(directory + end, start, 8);
  }
  size_t from = at;
  memcpy(out + at, directory, end);
  at += end;
  if (big) {
    size_t record = at;
    memcpy(out + at, "PK\6\6", 4);
    zip_put(out + at + 4, 44, 8);
    zip_put(out + at + 32, count, 8);
    zip_put(out + at + 40, end, 8);
    zip_put(out + at + 48, from, 8);
    at += 56;
    memcpy(out + at, "PK\6\7", 4);
    zip_put(out + at + 8, record, 8);
    zip_put(out + at + 16, 1, 4);
    at += 20;
  }
  memcpy(out + at, "PK\5\6", 4);
  zip_put(out + at + 8, big ? UINT16_MAX : count, 2);
  zip_put(out + at + 10, big ? UINT16_MAX : count, 2);
  zip_put(out + at + 12, big ? UINT32_MAX : end, 4);
  zip_put(out + at + 16, big ? UINT32_MAX : from, 4);
  files_write(path, out, at + 22);
  free(out);
  free(directory);
}

#endif
