/* Bytes of a file in order, from a buffer: plain, gzip (several members too) or zlib, told apart by content. Text that
 * opens with a byte order mark comes out as UTF-8 without it, whether it is UTF-8 or UTF-16; a Parquet file comes out as the
 * text of a CSV file. Offsets count what comes out.
 *
 * Memory stays at the buffer, which grows only when a caller asks for more contiguous bytes than it holds and the file
 * really has them: a damaged length costs no more than the file is long. One thread at a time. */
#ifndef SHOAL_DATA_STREAM_H
#define SHOAL_DATA_STREAM_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
  /* So many bytes behind the ones stream_fill gives may be read (they mean nothing), for loads of whole words. */
  STREAM_SLACK = 64
};

typedef struct stream stream;

/* A missing file, a folder, no permission: SHOAL_ERR_INPUT. A pipe is fine, but cannot be sought backwards. */
SHOAL_CHECKED shoal_status stream_open(const char *path, stream **out);
/* The same for bytes in memory (borrowed); `name` stands for the path in messages. */
SHOAL_CHECKED shoal_status stream_open_memory(const uint8_t *bytes, size_t n, const char *name, stream **out);
/* Bytes inside of a file, such as a member of a ZIP archive. */
typedef struct {
  uint64_t offset, bytes; /* as they lie in the file */
  bool deflated;          /* without a header */
} stream_part;
/* The part alone, as it is: nothing is found out from its content. `name` stands for the path in messages. */
SHOAL_CHECKED shoal_status stream_open_part(const char *path, const char *name, const stream_part *part, stream **out);
/* NULL is fine. */
void stream_close(stream *s);

/* *at: the bytes from the current position on, *have of them; fewer than `need` only at the end of the file. They stay
 * until the next call of fill or seek. Damaged compression: SHOAL_ERR_INPUT, once the bytes before the damage are too
 * few for `need`. */
SHOAL_CHECKED shoal_status stream_fill(stream *s, size_t need, const uint8_t **at, size_t *have);
/* Passes over n bytes, at most the *have of the last fill. */
void stream_advance(stream *s, size_t n);
/* Passes over n bytes, read or not; *passed is less only at the end of the file. */
SHOAL_CHECKED shoal_status stream_skip(stream *s, uint64_t n, uint64_t *passed);

/* Of the current position, in bytes that come out. */
uint64_t stream_offset(const stream *s);
/* A position beyond the end is an INPUT error. Compressed files start over when it lies behind. */
SHOAL_CHECKED shoal_status stream_seek(stream *s, uint64_t offset);

bool stream_compressed(const stream *s);
/* The whole size in decompressed bytes where it is known (a plain file), else UINT64_MAX. */
uint64_t stream_size(const stream *s);
/* For progress: bytes of the file as it lies on the disk, used and in all (0: not known). */
void stream_progress(const stream *s, uint64_t *done, uint64_t *total);

#endif
