#include "data/idx.h"

#include "base/mem.h"
#include "tensor/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum {
  CHUNK = 64 * 1024,
  /* Deflate makes at most 1032 bytes of one; a header that promises more than this is not believed. */
  RATIO_MAX = 1100
};

/* Decoded bytes in order, from a file or from memory, gzipped or not. */
typedef struct {
  const char *name;
  int fd;                /* -1: all bytes are in `next` from the start */
  uint8_t *chunk;        /* [CHUNK], for a file */
  const uint8_t *next;   /* bytes not yet used */
  size_t left;           /* how many */
  uint64_t taken;        /* bytes of the file fetched so far, `left` included */
  uint64_t size;         /* of the file */
  bool gzip, ended, cut; /* ended: the gzip trailer was seen and was right; cut: the file ends before it */
  z_stream z;
  uint64_t at; /* decoded bytes given out */
} source;

static shoal_status fail_at(const source *s, uint64_t byte, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Names file and offset; `byte` counts in the decoded data. */
static shoal_status fail_at(const source *s, uint64_t byte, const char *format, ...) {
  va_list args;
  va_start(args, format);
  shoal_status status = status_make_v(SHOAL_ERR_INPUT, format, args);
  va_end(args);
  if (s->gzip)
    return status_wrap(status, "%s: byte %llu after decompression (compressed byte %llu)", s->name,
                       (unsigned long long)byte, (unsigned long long)(s->taken - s->left));
  return status_wrap(status, "%s: byte %llu", s->name, (unsigned long long)byte);
}

/* Makes left > 0 unless the file is at its end. */
static shoal_status fill(source *s) {
  if (s->left || s->fd < 0) return NULL;
  ssize_t got;
  do got = read(s->fd, s->chunk, CHUNK);
  while (got < 0 && errno == EINTR);
  if (got < 0) return status_errno(errno, "%s: byte %llu: cannot read", s->name, (unsigned long long)s->taken);
  s->next = s->chunk;
  s->left = (size_t)got;
  s->taken += (size_t)got;
  return NULL;
}

static void use(source *s, size_t n) {
  s->next += n;
  s->left -= n;
}

static shoal_status read_plain(source *s, uint8_t *out, size_t want, size_t *got) {
  size_t done = 0;
  while (done < want) {
    TRY(fill(s));
    if (!s->left) break;
    size_t n = MIN_OF(s->left, want - done);
    memcpy(out + done, s->next, n);
    use(s, n);
    done += n;
  }
  s->at += done;
  *got = done;
  return NULL;
}

static shoal_status read_gzip(source *s, uint8_t *out, size_t want, size_t *got) {
  size_t done = 0;
  while (done < want && !s->ended) {
    TRY(fill(s));
    if (!s->left) {
      s->cut = true;
      break;
    }
    uInt in = (uInt)MIN_OF(s->left, (size_t)INT_MAX), room = (uInt)MIN_OF(want - done, (size_t)INT_MAX);
    s->z.next_in = (Bytef *)s->next; /* zlib does not write to it */
    s->z.avail_in = in;
    s->z.next_out = out + done;
    s->z.avail_out = room;
    int result = inflate(&s->z, Z_NO_FLUSH);
    size_t used = in - s->z.avail_in, made = room - s->z.avail_out;
    use(s, used);
    done += made;
    s->at += made;
    if (result == Z_STREAM_END) {
      TRY(fill(s));
      if (!s->left)
        s->ended = true;
      else if (*s->next != 0x1f)
        return fail_at(
            s, s->at,
            "the gzip data ends here, but the file goes on: remove what was added, or download the file again");
      else if (inflateReset(&s->z) != Z_OK)
        return status_no_memory();
    } else if (result == Z_MEM_ERROR) {
      return status_no_memory();
    } else if (result != Z_OK || (!used && !made)) {
      return fail_at(s, s->at, "the gzip data is corrupted (%s): download the file again",
                     s->z.msg ? s->z.msg : "no progress");
    }
  }
  *got = done;
  return NULL;
}

/* *got < want only at the end. */
static shoal_status source_read(source *s, void *out, size_t want, size_t *got) {
  return s->gzip ? read_gzip(s, out, want, got) : read_plain(s, out, want, got);
}

typedef struct {
  uint8_t code;
  uint8_t size;      /* of an element in the file, bytes */
  shoal_dtype dtype; /* what it becomes */
  const char *name;
} idx_type;

static const idx_type types[] = {{0x08, 1, SHOAL_U8, "u8"},   {0x09, 1, SHOAL_I32, "i8"},  {0x0b, 2, SHOAL_I32, "i16"},
                                 {0x0c, 4, SHOAL_I32, "i32"}, {0x0d, 4, SHOAL_F32, "f32"}, {0x0e, 8, SHOAL_F64, "f64"}};

typedef struct {
  const idx_type *type;
  shoal_shape shape;
  uint64_t bytes; /* of data in the file */
} idx_header;

static shoal_status read_header(source *s, idx_header *out) {
  uint8_t magic[4], dims[SHOAL_MAX_RANK][4];
  idx_header h = {0};
  size_t got;
  TRY(source_read(s, magic, sizeof magic, &got));
  if (got < sizeof magic)
    return fail_at(s, s->at, "the file ends inside the 4 bytes that open an IDX file: download it again");
  if (magic[0] || magic[1])
    return fail_at(s, 0,
                   "expected an IDX file, which starts with two zero bytes, found %02x %02x: give a file such as "
                   "train-images-idx3-ubyte.gz",
                   magic[0], magic[1]);
  for (size_t i = 0; i < COUNT_OF(types); i++)
    if (types[i].code == magic[2]) h.type = &types[i];
  if (!h.type)
    return fail_at(s, 2,
                   "expected an IDX type (08 u8, 09 i8, 0b i16, 0c i32, 0d f32, 0e f64), found %02x: the file is "
                   "no IDX file or is corrupted",
                   magic[2]);
  if (magic[3] < 1 || magic[3] > SHOAL_MAX_RANK)
    return fail_at(s, 3, "expected 1 to %d dimensions, found %d: the file is not an IDX file or is corrupted",
                   SHOAL_MAX_RANK, magic[3]);
  h.shape.rank = magic[3];
  size_t dims_bytes = (size_t)h.shape.rank * 4;
  TRY(source_read(s, dims, dims_bytes, &got));
  if (got < dims_bytes)
    return fail_at(s, s->at, "the file ends inside its %d dimensions: download it again", h.shape.rank);

  for (int i = 0; i < h.shape.rank; i++)
    h.shape.dim[i] = (uint32_t)dims[i][0] << 24 | (uint32_t)dims[i][1] << 16 | (uint32_t)dims[i][2] << 8 | dims[i][3];
  shoal_status large = tensor_check(h.type->dtype, &h.shape);
  if (large) {
    char shape[SHOAL_SHAPE_TEXT];
    shoal_status_free(large);
    return fail_at(s, 4, "the dimensions %s are more than memory can hold: the file is corrupted",
                   shoal_shape_text(&h.shape, shape));
  }
  h.bytes = (uint64_t)shoal_shape_count(&h.shape) * h.type->size;
  *out = h;
  return NULL;
}

/* Compares what the header declares with what can be there, before memory is asked for. */
static shoal_status check_size(const source *s, const idx_header *h) {
  char shape[SHOAL_SHAPE_TEXT];
  shoal_shape_text(&h->shape, shape);
  if (s->gzip) {
    if (h->bytes / RATIO_MAX > s->size)
      return fail_at(s, 4,
                     "the header declares %s %s, %llu bytes, more than %llu compressed bytes can hold: the file "
                     "is corrupted or cut short",
                     h->type->name, shape, (unsigned long long)h->bytes, (unsigned long long)s->size);
    return NULL;
  }
  uint64_t want = s->at + h->bytes;
  if (s->size < want)
    return fail_at(s, s->size,
                   "the file ends here, but its header declares %s %s, %llu bytes in all: it is cut short, "
                   "download it again",
                   h->type->name, shape, (unsigned long long)want);
  if (s->size > want)
    return fail_at(s, want, "%s %s ends here, but the file has %llu bytes more: remove them, or download it again",
                   h->type->name, shape, (unsigned long long)(s->size - want));
  return NULL;
}

/* raw: `count` big-endian elements. It may be the tail of `out`: each element is read before its place is written, and
 * the written part never overtakes the part still to be read. */
static void to_native(const idx_type *type, const uint8_t *raw, uint8_t *out, int64_t count) {
  if (type->code == 0x08) return;
  for (int64_t i = 0; i < count; i++) {
    uint64_t word = 0;
    for (int b = 0; b < type->size; b++) word = word << 8 | raw[i * type->size + b];
    if (type->size == 8) {
      memcpy(out + i * 8, &word, 8);
    } else {
      uint32_t half = (uint32_t)word;
      if (type->size == 1) half = (uint32_t)(int32_t)(int8_t)word;
      if (type->size == 2) half = (uint32_t)(int32_t)(int16_t)word;
      memcpy(out + i * 4, &half, 4);
    }
  }
}

static shoal_status read_data(source *s, const idx_header *h, shoal_tensor *out) {
  shoal_tensor t;
  TRY(shoal_tensor_create(h->type->dtype, h->shape, &t));
  char shape[SHOAL_SHAPE_TEXT];
  size_t got = 0, bytes = (size_t)h->bytes;
  uint8_t *raw = (uint8_t *)t.data + (shoal_tensor_bytes(&t) - bytes), extra;
  shoal_status status;
  TRY_GOTO(status, source_read(s, raw, bytes, &got), failed);
  if (got < bytes) {
    status = fail_at(s, s->at,
                     "the %s ends here, but the header declares %s %s, %llu bytes more: it is cut short, "
                     "download it again",
                     s->cut ? "file" : "data", h->type->name, shoal_shape_text(&h->shape, shape),
                     (unsigned long long)(bytes - got));
    goto failed;
  }
  /* Asking for one byte more also makes zlib check the checksum that ends the file. */
  TRY_GOTO(status, source_read(s, &extra, 1, &got), failed);
  if (got) {
    status = fail_at(s, s->at - 1,
                     "%s %s ends here, but the data goes on: the header or the file is corrupted, download it again",
                     h->type->name, shoal_shape_text(&h->shape, shape));
    goto failed;
  }
  if (s->cut) {
    status = fail_at(s, s->at, "the file ends inside the checksum that closes gzip data: download it again");
    goto failed;
  }
  to_native(h->type, raw, t.data, shoal_tensor_count(&t));
  *out = t;
  return NULL;
failed:
  shoal_tensor_fini(&t);
  return status;
}

static shoal_status read_source(source *s, shoal_tensor *out) {
  TRY(fill(s));
  /* IDX opens with a zero byte, gzip with 1f 8b: the first byte decides. */
  s->gzip = s->left && *s->next == 0x1f;
  if (s->gzip && inflateInit2(&s->z, MAX_WBITS + 16) != Z_OK) return status_no_memory();
  idx_header h;
  shoal_status status;
  TRY_GOTO(status, read_header(s, &h), done);
  TRY_GOTO(status, check_size(s, &h), done);
  status = read_data(s, &h, out);
done:
  if (s->gzip) inflateEnd(&s->z);
  return status;
}

shoal_status idx_read(const char *path, shoal_tensor *out) {
  uint8_t chunk[CHUNK];
  source s = {.name = path, .fd = open(path, O_RDONLY | O_CLOEXEC), .chunk = chunk};
  if (s.fd < 0) return status_make(SHOAL_ERR_INPUT, "%s: cannot open: %s", path, strerror(errno));
  struct stat info;
  shoal_status status;
  if (fstat(s.fd, &info)) {
    status = status_errno(errno, "%s: cannot find its size", path);
  } else if (!S_ISREG(info.st_mode)) {
    status = status_make(SHOAL_ERR_INPUT, "%s: is not a regular file: give the path of an IDX file", path);
  } else {
    s.size = (uint64_t)info.st_size;
    status = read_source(&s, out);
  }
  close(s.fd);
  return status;
}

shoal_status idx_read_memory(const uint8_t *bytes, size_t n, const char *name, shoal_tensor *out) {
  source s = {.name = name, .fd = -1, .next = bytes, .left = n, .taken = n, .size = n};
  return read_source(&s, out);
}
