#include "data/stream.h"

#include "base/mem.h"
#include "data/parquet.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum {
  BUFFER = 256 * 1024,  /* decompressed; small enough to stay in the second-level cache */
  PACKED = 64 * 1024,   /* compressed bytes read at once */
  TRIAL = 4096,         /* decompressed bytes that must come out well before zlib is believed */
  WIDE = 64 * 1024,     /* bytes of UTF-16 text read at once */
  LONGEST_CHARACTER = 4 /* bytes of UTF-8 */
};

typedef enum { PLAIN, GZIP, ZLIB, DEFLATE, PARQUET } packing;
typedef enum { AS_IS, UTF16_LITTLE, UTF16_BIG } encoding;

struct stream {
  char *name;            /* owned */
  int fd;                /* -1: memory */
  const uint8_t *memory; /* borrowed */
  size_t memory_size;
  bool seekable;
  uint64_t raw_start; /* where in the file the stream begins: behind UTF-8's mark, or at a member of an archive */
  uint64_t raw_size;  /* bytes from there on; UINT64_MAX for a pipe */
  uint64_t raw_read;  /* of them fetched so far */

  uint8_t *buffer; /* [capacity + STREAM_SLACK] */
  size_t capacity, start, end;
  uint64_t offset; /* decompressed, of buffer[start] */
  bool ended;      /* nothing comes after buffer[end] */

  packing packing;
  z_stream z;
  bool z_ready, member_ended; /* member_ended: stands between two gzip members */
  uint8_t *packed;            /* [PACKED]; z.next_in .. + z.avail_in is what is left of it */
  parquet_text *table;        /* PARQUET */

  encoding encoding;
  size_t mark, mark_left; /* bytes of a byte order mark at the start of what is decoded; of them still to be dropped */
  uint8_t *wide;          /* [WIDE] of UTF-16 text, of which wide_start .. wide_end is left */
  size_t wide_start, wide_end;
};

/* Is byte n of the stream byte n of the file, which can be sought? */
static bool is_direct(const stream *s) { return s->packing == PLAIN && s->encoding == AS_IS && s->seekable; }

/* Up to n bytes of the file as it lies on the disk; *got is 0 only at its end. */
static shoal_status read_raw(stream *s, uint8_t *out, size_t n, size_t *got) {
  n = (size_t)MIN_OF((uint64_t)n, s->raw_size - MIN_OF(s->raw_read, s->raw_size));
  if (s->fd < 0) {
    size_t have = MIN_OF(n, s->memory_size - (size_t)(s->raw_start + s->raw_read));
    if (have) memcpy(out, s->memory + s->raw_start + s->raw_read, have);
    s->raw_read += have;
    *got = have;
    return NULL;
  }
  ssize_t r = 0;
  do r = n ? read(s->fd, out, n) : 0;
  while (r < 0 && errno == EINTR);
  if (r < 0)
    return status_make(errno == EISDIR ? SHOAL_ERR_INPUT : SHOAL_ERR_SYSTEM, "%s: byte %llu: cannot read: %s", s->name,
                       (unsigned long long)s->raw_read, strerror(errno));
  s->raw_read += (size_t)r;
  *got = (size_t)r;
  return NULL;
}

static shoal_status damaged(const stream *s, const char *what) {
  return status_make(
      SHOAL_ERR_INPUT, "%s: byte %llu after decompression (compressed byte %llu): %s: download the file again", s->name,
      (unsigned long long)(s->offset + (s->end - s->start)), (unsigned long long)(s->raw_read - s->z.avail_in), what);
}

/* At least one byte into `out`, unless the stream is at its end (*got is 0) or damaged. */
static shoal_status read_packed(stream *s, uint8_t *out, size_t n, size_t *got) {
  z_stream *z = &s->z;
  z->next_out = out;
  z->avail_out = (uInt)MIN_OF(n, (size_t)1 << 30);
  uInt room = z->avail_out;
  while (z->avail_out == room) {
    if (!z->avail_in) {
      size_t more;
      TRY(read_raw(s, s->packed, PACKED, &more));
      if (!more) {
        if (!s->member_ended) return damaged(s, "the compressed data ends before its checksum, it is cut short");
        break;
      }
      z->next_in = s->packed;
      z->avail_in = (uInt)more;
    }
    if (s->member_ended) {
      if (s->packing != GZIP || *z->next_in != 0x1f)
        return damaged(s, "the compressed data ends here, but the file goes on");
      if (inflateReset(z) != Z_OK) return status_no_memory();
      s->member_ended = false;
    }
    int result = inflate(z, Z_NO_FLUSH);
    if (result == Z_STREAM_END)
      s->member_ended = true;
    else if (result == Z_MEM_ERROR)
      return status_no_memory();
    /* When bytes came out before the damage, the next call meets it again. */
    else if (result != Z_OK && result != Z_BUF_ERROR && z->avail_out == room)
      return damaged(s, z->msg ? z->msg : "the compressed data is corrupted");
  }
  *got = room - z->avail_out;
  return NULL;
}

/* What the stream is made of, decompressed, without its mark; *got is 0 only at the end. */
static shoal_status read_bytes(stream *s, uint8_t *out, size_t n, size_t *got) {
  for (;;) {
    if (s->packing == PLAIN)
      TRY(read_raw(s, out, n, got));
    else if (s->packing == PARQUET)
      TRY(parquet_text_read(s->table, out, n, got));
    else
      TRY(read_packed(s, out, n, got));
    size_t drop = MIN_OF(s->mark_left, *got);
    if (!drop) return NULL;
    s->mark_left -= drop;
    *got -= drop;
    memmove(out, out + drop, *got);
    if (*got) return NULL;
  }
}

/* ---- UTF-16 */

static uint32_t unit_at(const stream *s, size_t i) {
  const uint8_t *p = s->wide + s->wide_start + i;
  return s->encoding == UTF16_LITTLE ? p[0] | (uint32_t)p[1] << 8 : p[1] | (uint32_t)p[0] << 8;
}

/* Returns how many bytes it takes. */
static size_t put_utf8(uint32_t c, uint8_t out[LONGEST_CHARACTER]) {
  if (c < 0x80) {
    out[0] = (uint8_t)c;
    return 1;
  }
  size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
  for (size_t i = n - 1; i; i--, c >>= 6) out[i] = (uint8_t)(0x80 | (c & 0x3f));
  out[0] = (uint8_t)((0xf00u >> n & 0xf0) | c);
  return n;
}

/* The next bytes behind those in `wide`; at the end of the text nothing changes. */
static shoal_status fill_wide(stream *s) {
  size_t held = s->wide_end - s->wide_start, got;
  memmove(s->wide, s->wide + s->wide_start, held);
  s->wide_start = 0;
  s->wide_end = held;
  TRY(read_bytes(s, s->wide + held, WIDE - held, &got));
  s->wide_end += got;
  return NULL;
}

/* Text as UTF-8; half a pair of surrogates becomes U+FFFD. room: at least LONGEST_CHARACTER. */
static shoal_status read_wide(stream *s, uint8_t *out, size_t room, size_t *got) {
  size_t n = 0;
  while (room - n >= LONGEST_CHARACTER) {
    if (s->wide_end - s->wide_start < 4) TRY(fill_wide(s));
    size_t have = s->wide_end - s->wide_start;
    if (have == 1 && !n)
      return status_make(SHOAL_ERR_INPUT,
                         "%s: byte %llu: the UTF-16 text ends in the middle of a character: save the "
                         "file again",
                         s->name, (unsigned long long)s->raw_read);
    if (have < 2) break;
    uint32_t c = unit_at(s, 0), low = have >= 4 ? unit_at(s, 2) : 0;
    bool pair = c >> 10 == 0x36 && low >> 10 == 0x37;
    if (pair)
      c = 0x10000 + ((c & 0x3ff) << 10 | (low & 0x3ff));
    else if (c >> 11 == 0x1b)
      c = 0xfffd;
    s->wide_start += pair ? 4 : 2;
    n += put_utf8(c, out + n);
  }
  *got = n;
  return NULL;
}

/* Room for a character behind `end`; moves what is there to the front when that is little. */
static shoal_status make_room(stream *s) {
  size_t held = s->end - s->start;
  if (!held) s->start = s->end = 0;
  bool full = s->capacity - s->end < LONGEST_CHARACTER;
  if (s->start && s->capacity - s->end < s->capacity / 2 && (held <= s->capacity / 4 || full)) {
    memmove(s->buffer, s->buffer + s->start, held);
    s->start = 0;
    s->end = held;
  }
  if (s->capacity - s->end >= LONGEST_CHARACTER) return NULL;
  if (s->capacity > SIZE_MAX / 4) return status_no_memory();
  uint8_t *larger = realloc(s->buffer, s->capacity * 2 + STREAM_SLACK);
  if (!larger) return status_no_memory();
  s->buffer = larger;
  s->capacity *= 2;
  return NULL;
}

/* Reads once more; `ended` is set when nothing came. */
static shoal_status read_more(stream *s) {
  if (s->ended) return NULL;
  TRY(make_room(s));
  size_t got, room = s->capacity - s->end;
  if (s->encoding == AS_IS)
    TRY(read_bytes(s, s->buffer + s->end, room, &got));
  else
    TRY(read_wide(s, s->buffer + s->end, room, &got));
  s->end += got;
  memset(s->buffer + s->end, 0, STREAM_SLACK);
  s->ended = !got;
  return NULL;
}

shoal_status stream_fill(stream *s, size_t need, const uint8_t **at, size_t *have) {
  while (s->end - s->start < need && !s->ended) TRY(read_more(s));
  *at = s->buffer + s->start;
  *have = s->end - s->start;
  return NULL;
}

void stream_advance(stream *s, size_t n) {
  s->start += n;
  s->offset += n;
}

uint64_t stream_offset(const stream *s) { return s->offset; }

bool stream_compressed(const stream *s) { return s->packing != PLAIN; }

uint64_t stream_size(const stream *s) { return is_direct(s) ? s->raw_size : UINT64_MAX; }

void stream_progress(const stream *s, uint64_t *done, uint64_t *total) {
  /* What lies decompressed in the buffer counts as used: it is at most a small part. */
  *done = is_direct(s) ? s->raw_read - (s->end - s->start) : s->raw_read - s->z.avail_in;
  *total = s->seekable ? s->raw_size : 0;
}

/* The file from byte `raw` on; the buffer is emptied. */
static shoal_status jump(stream *s, uint64_t raw) {
  if (s->fd >= 0 && lseek(s->fd, (off_t)(s->raw_start + raw), SEEK_SET) < 0)
    return status_errno(errno, "%s: cannot move to byte %llu", s->name, (unsigned long long)raw);
  s->raw_read = raw;
  s->start = s->end = 0;
  s->ended = false;
  return NULL;
}

static shoal_status start_over(stream *s) {
  if (!s->seekable) return status_make(SHOAL_ERR_INPUT, "%s: a pipe cannot be read twice: give a file", s->name);
  TRY(jump(s, 0));
  s->offset = 0;
  s->mark_left = s->mark;
  s->wide_start = s->wide_end = 0;
  if (s->packing == PARQUET) {
    parquet_text_rewind(s->table);
  } else if (s->packing != PLAIN) {
    s->z.avail_in = 0;
    s->member_ended = false;
    if (inflateReset(&s->z) != Z_OK) return status_no_memory();
  }
  return NULL;
}

shoal_status stream_skip(stream *s, uint64_t n, uint64_t *passed) {
  uint64_t left = n;
  size_t held = s->end - s->start;
  if (left > held && is_direct(s)) {
    uint64_t to = s->offset + MIN_OF(left, s->raw_size > s->offset ? s->raw_size - s->offset : 0);
    if (to > s->offset + held) {
      left -= to - s->offset;
      TRY(jump(s, to));
      s->offset = to;
    }
  }
  while (left) {
    if (s->start == s->end) TRY(read_more(s));
    size_t step = (size_t)MIN_OF(left, (uint64_t)(s->end - s->start));
    if (!step) break;
    stream_advance(s, step);
    left -= step;
  }
  *passed = n - left;
  return NULL;
}

shoal_status stream_seek(stream *s, uint64_t offset) {
  uint64_t front = s->offset - s->start; /* offset of buffer[0] */
  if (offset >= front && offset < s->offset) {
    s->start = (size_t)(offset - front);
    s->offset = offset;
    return NULL;
  }
  if (offset < s->offset) {
    if (is_direct(s)) {
      TRY(jump(s, offset));
      s->offset = offset;
      return NULL;
    }
    TRY(start_over(s));
  }
  uint64_t want = offset - s->offset, passed;
  TRY(stream_skip(s, want, &passed));
  if (passed < want)
    return status_make(SHOAL_ERR_INPUT, "%s: cannot continue at byte %llu: the file ends at byte %llu, it has changed",
                       s->name, (unsigned long long)offset, (unsigned long long)s->offset);
  return NULL;
}

/* Two bytes say zlib too easily ("x^" opens a text, 78 01 a TFRecord of 376 bytes): it must inflate as well. */
static bool inflates(const uint8_t *bytes, size_t n) {
  uint8_t out[TRIAL];
  z_stream z = {.next_in = (Bytef *)bytes, .avail_in = (uInt)n, .next_out = out, .avail_out = sizeof out};
  if (inflateInit(&z) != Z_OK) return false;
  int result = inflate(&z, Z_NO_FLUSH);
  inflateEnd(&z);
  return result == Z_OK || result == Z_STREAM_END || result == Z_BUF_ERROR;
}

static packing find_packing(const uint8_t *head, size_t n) {
  if (n >= 3 && head[0] == 0x1f && head[1] == 0x8b && head[2] == 8) return GZIP;
  if (n >= 3 && head[0] == 0x78 && (head[0] * 256 + head[1]) % 31 == 0 && inflates(head, n)) return ZLIB;
  return PLAIN;
}

/* From here on the stream is decompressed; what the buffer holds are the first compressed bytes. */
static shoal_status unpack(stream *s, packing found) {
  static const int windows[] = {[GZIP] = MAX_WBITS + 16, [ZLIB] = MAX_WBITS, [DEFLATE] = -MAX_WBITS};
  size_t have = s->end;
  s->packed = malloc(MAX_OF((size_t)PACKED, have));
  if (!s->packed) return status_no_memory();
  if (inflateInit2(&s->z, windows[found]) != Z_OK) return status_no_memory();
  s->z_ready = true;
  s->packing = found;
  memcpy(s->packed, s->buffer, have);
  s->z.next_in = s->packed;
  s->z.avail_in = (uInt)have;
  s->end = 0;
  s->ended = false;
  return NULL;
}

/* From here on the stream is the table as text. */
static shoal_status open_table(stream *s) {
  if (!s->seekable)
    return status_make(SHOAL_ERR_INPUT, "%s: a Parquet file is read from its end: give a file, not a pipe", s->name);
  TRY(parquet_text_open(s->fd, s->memory, s->raw_size, s->name, &s->table));
  s->packing = PARQUET;
  s->end = 0;
  s->ended = false;
  return NULL;
}

/* A byte order mark opens a text. Two or three bytes say so too easily (ff fe 00 00 ... opens a TFRecord of 65,279
 * bytes), but no text goes on with a NUL. */
static size_t find_mark(const uint8_t *at, size_t have, encoding *out) {
  *out = AS_IS;
  if (have >= 3 && !memcmp(at, "\xef\xbb\xbf", 3)) return have == 3 || at[3] ? 3 : 0;
  if (have < 4 || !(at[2] | at[3])) return 0;
  if (at[0] == 0xff && at[1] == 0xfe) *out = UTF16_LITTLE;
  if (at[0] == 0xfe && at[1] == 0xff) *out = UTF16_BIG;
  return *out == AS_IS ? 0 : 2;
}

/* The mark at the front of the buffer is no part of the stream. */
static shoal_status drop_mark(stream *s, size_t mark, encoding found) {
  s->end -= mark;
  memmove(s->buffer, s->buffer + mark, s->end);
  if (s->packing == PLAIN) {
    s->raw_start += mark;
    s->raw_read -= mark;
    if (s->seekable) s->raw_size -= mark;
  } else {
    s->mark = mark;
  }
  if (found == AS_IS) return NULL;
  s->wide = malloc(MAX_OF((size_t)WIDE, s->end));
  if (!s->wide) return status_no_memory();
  memcpy(s->wide, s->buffer, s->end);
  s->wide_end = s->end;
  s->end = 0;
  s->ended = false;
  s->encoding = found;
  return NULL;
}

/* part: a member of an archive, whose packing is known and which is no text. */
static shoal_status begin(stream *s, bool part, packing known) {
  s->capacity = BUFFER;
  s->buffer = calloc(1, s->capacity + STREAM_SLACK);
  if (!s->buffer) return status_no_memory();
  size_t have = 0;
  const uint8_t *at;
  encoding written;
  TRY(stream_fill(s, TRIAL, &at, &have));
  packing found = part ? known : find_packing(at, MIN_OF(have, (size_t)PACKED));
  if (!part && parquet_begins(at, have)) return open_table(s);
  if (found != PLAIN) TRY(unpack(s, found));
  if (part) return NULL;
  shoal_status damage = stream_fill(s, 4, &at, &have); /* met again by whoever reads on */
  if (damage) return shoal_status_code(damage) == SHOAL_ERR_INPUT ? (shoal_status_free(damage), NULL) : damage;
  size_t mark = find_mark(at, have, &written);
  return mark ? drop_mark(s, mark, written) : NULL;
}

static shoal_status make(const char *name, stream **out) {
  stream *s = calloc(1, sizeof *s);
  if (!s) return status_no_memory();
  s->fd = -1;
  s->name = strdup(name);
  if (!s->name) {
    free(s);
    return status_no_memory();
  }
  *out = s;
  return NULL;
}

/* part: NULL, or of a member of an archive. */
static shoal_status open_file(const char *path, const char *name, const stream_part *part, stream **out) {
  stream *s;
  TRY(make(name, &s));
  shoal_status status = NULL;
  struct stat info;
  s->fd = open(path, O_RDONLY | O_CLOEXEC);
  if (s->fd < 0) {
    status = status_make(SHOAL_ERR_INPUT, "%s: cannot open: %s", path, strerror(errno));
  } else if (fstat(s->fd, &info)) {
    status = status_errno(errno, "%s: cannot find its size", path);
  } else if (S_ISDIR(info.st_mode)) {
    status = status_make(SHOAL_ERR_INPUT, "%s: is a folder: give the path of a file", path);
  } else {
    s->seekable = S_ISREG(info.st_mode);
    s->raw_size = s->seekable ? (uint64_t)info.st_size : UINT64_MAX;
    /* Advice alone: nothing is lost when it is not taken. */
    (void)posix_fadvise(s->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    if (part) {
      s->raw_start = part->offset;
      s->raw_size = part->bytes;
      status = jump(s, 0);
    }
    if (!status) status = begin(s, part, part && part->deflated ? DEFLATE : PLAIN);
  }
  if (status) {
    stream_close(s);
    return status;
  }
  *out = s;
  return NULL;
}

shoal_status stream_open(const char *path, stream **out) { return open_file(path, path, NULL, out); }

shoal_status stream_open_part(const char *path, const char *name, const stream_part *part, stream **out) {
  return open_file(path, name, part, out);
}

shoal_status stream_open_memory(const uint8_t *bytes, size_t n, const char *name, stream **out) {
  stream *s;
  TRY(make(name, &s));
  s->memory = bytes;
  s->memory_size = n;
  s->raw_size = n;
  s->seekable = true;
  shoal_status status = begin(s, false, PLAIN);
  if (status) {
    stream_close(s);
    return status;
  }
  *out = s;
  return NULL;
}

void stream_close(stream *s) {
  if (!s) return;
  if (s->z_ready) inflateEnd(&s->z);
  parquet_text_close(s->table);
  if (s->fd >= 0) close(s->fd);
  free(s->packed);
  free(s->wide);
  free(s->buffer);
  free(s->name);
  free(s);
}
