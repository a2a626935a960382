#include "data/format.h"

#include "base/mem.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#define HEAD_BYTES 4096

/* Every format, in the order in which they are asked whether a file is theirs: those that are sure of their own first
 * bytes before those that go by the look of a text or by a name. */
#define FORMATS(ROW)          \
  ROW(format_idx)             \
  ROW(format_npy)             \
  ROW(format_image_tfrecord)  \
  ROW(format_tfrecord)        \
  ROW(format_image_folder)    \
  ROW(format_fake)            \
  ROW(format_cifar10)         \
  ROW(format_criteo)          \
  ROW(format_libsvm)          \
  ROW(format_csv)             \
  ROW(format_tsv)

#define ROW(name) extern const format name;
FORMATS(ROW)
#undef ROW

static const format *const formats[] = {
#define ROW(name) &name,
    FORMATS(ROW)
#undef ROW
};

const format *format_at(size_t i) { return i < COUNT_OF(formats) ? formats[i] : NULL; }

const format *format_find(const char *name) {
  for (size_t i = 0; i < COUNT_OF(formats); i++)
    if (!strcmp(formats[i]->name, name)) return formats[i];
  return NULL;
}

/* Up to `room` bytes of gzip or zlib data; 0 when it is neither. */
static size_t inflate_head(const uint8_t *packed, size_t n, uint8_t *out, size_t room) {
  bool gzip = n > 2 && packed[0] == 0x1f && packed[1] == 0x8b;
  bool zlib = n > 2 && (packed[0] & 0x8f) == 0x08 && (packed[0] * 256 + packed[1]) % 31 == 0;
  z_stream z = {0};
  if ((!gzip && !zlib) || inflateInit2(&z, MAX_WBITS + 32) != Z_OK) return 0;
  z.next_in = (Bytef *)packed; /* zlib does not write to it */
  z.avail_in = (uInt)n;
  z.next_out = out;
  z.avail_out = (uInt)room;
  int result = inflate(&z, Z_SYNC_FLUSH);
  size_t made = room - z.avail_out;
  inflateEnd(&z);
  return result == Z_OK || result == Z_STREAM_END || result == Z_BUF_ERROR ? made : 0;
}

/* The first bytes of a file, decompressed. head: [HEAD_BYTES]. */
static shoal_status read_head(const char *path, uint8_t *head, size_t *n) {
  uint8_t raw[HEAD_BYTES];
  size_t got = 0;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return status_make(SHOAL_ERR_INPUT, "%s: cannot open: %s", path, strerror(errno));
  while (got < sizeof raw) {
    ssize_t more = read(fd, raw + got, sizeof raw - got);
    if (more < 0 && errno == EINTR) continue;
    if (more < 0) {
      shoal_status status = status_make(SHOAL_ERR_INPUT, "%s: cannot read: %s", path, strerror(errno));
      close(fd);
      return status;
    }
    if (!more) break;
    got += (size_t)more;
  }
  close(fd);
  size_t made = inflate_head(raw, got, head, HEAD_BYTES);
  if (!made) memcpy(head, raw, got);
  *n = made ? made : got;
  return NULL;
}

static shoal_status unknown(const char *path, const char *why) {
  text names = {0};
  for (size_t i = 0; i < COUNT_OF(formats); i++) text_add(&names, "%s%s", i ? ", " : "", formats[i]->name);
  shoal_status status =
      names.failed ? status_no_memory()
                   : status_make(SHOAL_ERR_INPUT, "%s: %s; known formats are %s: name one with --format if the file is "
                                                  "right", path, why, names.data);
  text_fini(&names);
  return status;
}

/* Data that is made, not read, has a name like "fake:8x8x3:10" in place of a path. */
static const format *named_in_path(const char *path) {
  for (size_t i = 0; i < COUNT_OF(formats); i++) {
    size_t n = strlen(formats[i]->name);
    if (!strncmp(path, formats[i]->name, n) && path[n] == ':' && formats[i]->detect(path, NULL, 0, false))
      return formats[i];
  }
  return NULL;
}

shoal_status format_detect(const char *path, const format **out) {
  struct stat info;
  if (stat(path, &info)) {
    int error = errno;
    *out = named_in_path(path);
    if (*out) return NULL;
    return status_make(SHOAL_ERR_INPUT, "%s: cannot open: %s", path, strerror(error));
  }
  uint8_t head[HEAD_BYTES];
  size_t n = 0;
  bool folder = S_ISDIR(info.st_mode);
  if (!folder && !S_ISREG(info.st_mode))
    return status_make(SHOAL_ERR_INPUT, "%s: is neither a file nor a folder: give the path of the data", path);
  if (folder && access(path, R_OK | X_OK))
    return status_make(SHOAL_ERR_INPUT, "%s: cannot open the folder: %s", path, strerror(errno));
  if (!folder) TRY(read_head(path, head, &n));
  if (!folder && !n) return status_make(SHOAL_ERR_INPUT, "%s: byte 0: the file is empty: fetch or make it again", path);
  for (size_t i = 0; i < COUNT_OF(formats); i++)
    if (formats[i]->detect(path, head, n, folder)) {
      *out = formats[i];
      return NULL;
    }
  return unknown(path, folder ? "no data in a format known is in this folder" : "its content is of no format known");
}

shoal_status format_bad_row(const file_reader *r, int64_t record, uint64_t offset, const char *message, ...) {
  va_list args;
  va_start(args, message);
  shoal_status status = status_make_v(SHOAL_ERR_INPUT, message, args);
  va_end(args);
  return status_wrap(status, "%s: record %lld at byte %llu", r->path, (long long)record, (unsigned long long)offset);
}
