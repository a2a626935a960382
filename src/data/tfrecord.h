/* TFRecord files: records of bytes, each with its length and checksums of both; plain, gzip or zlib.
 *
 *   u64 length | u32 masked CRC of the length | data | u32 masked CRC of the data        (little-endian)
 *
 * Errors are SHOAL_ERR_INPUT and read "file: record 12 at byte 3456: ..."; records count from 0, bytes are those of the
 * decompressed file. */
#ifndef SHOAL_DATA_TFRECORD_H
#define SHOAL_DATA_TFRECORD_H

#include "data/format.h"
#include "data/sink.h"
#include "data/stream.h"

enum {
  TFRECORD_HEADER = 12,
  TFRECORD_FRAME = 16 /* bytes of a record besides its data */
};

typedef struct {
  stream *in;
  const char *name;   /* borrowed: the path, for messages */
  bool check;         /* the checksums */
  bool can_go_on;     /* after an error: the next record can be found */
  file_position here; /* of the record given last; data starts TFRECORD_HEADER bytes further */
  file_position next;
} tfrecord_reader;

/* `name` is borrowed until close. */
SHOAL_CHECKED shoal_status tfrecord_open(const char *name, bool check, tfrecord_reader *out);
SHOAL_CHECKED shoal_status tfrecord_open_memory(const uint8_t *bytes, size_t n, const char *name, bool check,
                                                tfrecord_reader *out);
/* Fine on a zeroed or a closed one. */
void tfrecord_close(tfrecord_reader *r);
/* *data: the next record, n bytes, valid until the next call; NULL at the end of the file. As with streams,
 * STREAM_SLACK bytes behind it may be read. A wrong data checksum leaves the reader behind that record with
 * can_go_on. */
SHOAL_CHECKED shoal_status tfrecord_next(tfrecord_reader *r, const uint8_t **data, size_t *n);
/* Passes over up to `records` records without looking at their data; *got is less only at the end of the file. */
SHOAL_CHECKED shoal_status tfrecord_skip(tfrecord_reader *r, int64_t records, int64_t *got);
SHOAL_CHECKED shoal_status tfrecord_seek(tfrecord_reader *r, const file_position *to);

/* Do these first bytes of a file open one? By the checksum of the first length. */
bool tfrecord_detect(const uint8_t *head, size_t n);

/* Writing; the sink is the caller's. */
SHOAL_CHECKED shoal_status tfrecord_append(sink *to, const void *data, size_t n);
/* In two steps, for data made in place: *at has room for `room` bytes; the record is then n of them. */
SHOAL_CHECKED shoal_status tfrecord_reserve(sink *to, size_t room, uint8_t **at);
void tfrecord_commit(sink *to, size_t n);

#endif
