#include "data/tfrecord.h"

#include "base/mem.h"
#include "base/crc32c.h"

#include <string.h>

/* A message of protocol buffers has at most 2 GiB. */
#define BYTES_MAX ((uint64_t)INT32_MAX)

static uint32_t load32(const uint8_t *at) {
  return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static uint64_t load64(const uint8_t *at) { return (uint64_t)load32(at) | (uint64_t)load32(at + 4) << 32; }

static void store32(uint8_t *at, uint32_t word) {
  for (int i = 0; i < 4; i++) at[i] = (uint8_t)(word >> 8 * i);
}

static shoal_status fail(tfrecord_reader *r, const char *message, ...) __attribute__((format(printf, 2, 3)));

static shoal_status fail(tfrecord_reader *r, const char *message, ...) {
  va_list args;
  va_start(args, message);
  shoal_status status = status_make_v(SHOAL_ERR_INPUT, message, args);
  va_end(args);
  return status_wrap(status, "%s: record %lld at byte %llu", r->name, (long long)r->here.record,
                     (unsigned long long)r->here.offset);
}

shoal_status tfrecord_open(const char *name, bool check, tfrecord_reader *out) {
  tfrecord_reader r = {.name = name, .check = check};
  TRY(stream_open(name, &r.in));
  *out = r;
  return NULL;
}

shoal_status tfrecord_open_memory(const uint8_t *bytes, size_t n, const char *name, bool check, tfrecord_reader *out) {
  tfrecord_reader r = {.name = name, .check = check};
  TRY(stream_open_memory(bytes, n, name, &r.in));
  *out = r;
  return NULL;
}

void tfrecord_close(tfrecord_reader *r) {
  stream_close(r->in);
  *r = (tfrecord_reader){0};
}

static shoal_status cut_short(tfrecord_reader *r, uint64_t missing, const char *of) {
  return fail(
      r, "the file ends inside this record, %llu bytes of %s are missing: it is cut short, fetch or create it again",
      (unsigned long long)missing, of);
}

/* The header at the current position, which is passed over in the end; *length is UINT64_MAX at the end of the file. */
static shoal_status read_length(tfrecord_reader *r, const uint8_t **at, size_t *have, uint64_t *length) {
  r->can_go_on = false;
  r->here = r->next;
  TRY(stream_fill(r->in, TFRECORD_HEADER, at, have));
  if (*have < TFRECORD_HEADER) {
    if (*have) return cut_short(r, TFRECORD_HEADER - *have, "its 12-byte header");
    *length = UINT64_MAX;
    return NULL;
  }
  uint64_t n = load64(*at);
  if (r->check && load32(*at + 8) != crc32c_mask(crc32c(0, *at, 8)))
    return fail(r,
                "expected the checksum %08x of the record's length %llu, found %08x: the file is damaged or no "
                "TFRecord file, download it or create it again",
                crc32c_mask(crc32c(0, *at, 8)), (unsigned long long)n, load32(*at + 8));
  if (n > BYTES_MAX)
    return fail(r,
                "the record's length is %llu bytes, more than the %llu possible: the file is damaged or no TFRecord "
                "file",
                (unsigned long long)n, (unsigned long long)BYTES_MAX);
  uint64_t size = stream_size(r->in), end = r->here.offset + TFRECORD_FRAME + n;
  if (end > size) return cut_short(r, end - size, "its data");
  *length = n;
  return NULL;
}

shoal_status tfrecord_next(tfrecord_reader *r, const uint8_t **data, size_t *n) {
  const uint8_t *at;
  size_t have;
  uint64_t length = 0;
  TRY(read_length(r, &at, &have, &length));
  if (length == UINT64_MAX) {
    *data = NULL;
    *n = 0;
    return NULL;
  }
  size_t whole = (size_t)length + TFRECORD_FRAME;
  if (have < whole) {
    TRY(stream_fill(r->in, whole, &at, &have));
    if (have < whole) return cut_short(r, whole - have, "its data");
  }
  stream_advance(r->in, whole);
  r->next = (file_position){r->here.record + 1, r->here.offset + whole};
  r->can_go_on = true;
  const uint8_t *body = at + TFRECORD_HEADER;
  if (r->check) {
    uint32_t found = load32(body + length), wanted = crc32c_mask(crc32c(0, body, (size_t)length));
    if (found != wanted)
      return fail(r,
                  "expected the checksum %08x of the record's %llu bytes, found %08x: the record is damaged, download "
                  "the file or create it again",
                  wanted, (unsigned long long)length, found);
  }
  *data = body;
  *n = (size_t)length;
  return NULL;
}

shoal_status tfrecord_skip(tfrecord_reader *r, int64_t records, int64_t *got) {
  int64_t done = 0;
  while (done < records) {
    const uint8_t *at;
    size_t have;
    uint64_t length = 0, passed;
    TRY(read_length(r, &at, &have, &length));
    if (length == UINT64_MAX) break;
    length += TFRECORD_FRAME;
    TRY(stream_skip(r->in, length, &passed));
    if (passed < length) return cut_short(r, length - passed, "its data");
    r->next = (file_position){r->here.record + 1, r->here.offset + length};
    done++;
  }
  *got = done;
  return NULL;
}

shoal_status tfrecord_seek(tfrecord_reader *r, const file_position *to) {
  TRY(stream_seek(r->in, to->offset));
  r->here = r->next = *to;
  return NULL;
}

bool tfrecord_detect(const uint8_t *head, size_t n) {
  return n >= TFRECORD_HEADER && load64(head) <= BYTES_MAX && load32(head + 8) == crc32c_mask(crc32c(0, head, 8));
}

shoal_status tfrecord_reserve(sink *to, size_t room, uint8_t **at) {
  if (room > BYTES_MAX)
    return status_make(SHOAL_ERR_ARGUMENT, "%s: a record of %zu bytes is more than the %llu a TFRecord file holds",
                       to->path, room, (unsigned long long)BYTES_MAX);
  uint8_t *frame;
  TRY(sink_reserve(to, room + TFRECORD_FRAME, &frame));
  *at = frame + TFRECORD_HEADER;
  return NULL;
}

void tfrecord_commit(sink *to, size_t n) {
  uint8_t *frame = to->buffer + to->used, *data = frame + TFRECORD_HEADER;
  store32(frame, (uint32_t)n);
  store32(frame + 4, (uint32_t)((uint64_t)n >> 32));
  store32(frame + 8, crc32c_mask(crc32c(0, frame, 8)));
  store32(data + n, crc32c_mask(crc32c(0, data, n)));
  sink_commit(to, n + TFRECORD_FRAME);
}

shoal_status tfrecord_append(sink *to, const void *data, size_t n) {
  uint8_t *at;
  TRY(tfrecord_reserve(to, n, &at));
  if (n) memcpy(at, data, n);
  tfrecord_commit(to, n);
  return NULL;
}
