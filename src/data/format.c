#include "data/format.h"

#include "base/mem.h"
#include "base/text.h"
#include "data/stream.h"
#include "shoal/data.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEAD_BYTES 4096

/* Every format, in the order in which they are asked whether a file is theirs: those that are sure of their own first
 * bytes before those that go by the look of a text or by a name. */
#define FORMATS(ROW)         \
  ROW(format_idx)            \
  ROW(format_npy)            \
  ROW(format_npz)            \
  ROW(format_image_tfrecord) \
  ROW(format_tfrecord)       \
  ROW(format_image_folder)   \
  ROW(format_fake)           \
  ROW(format_cifar10)        \
  ROW(format_criteo)         \
  ROW(format_libsvm)         \
  ROW(format_libffm)         \
  ROW(format_parquet)        \
  ROW(format_csv)            \
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

/* The first bytes of a file, decompressed, text as UTF-8. head: [HEAD_BYTES]. */
static shoal_status read_head(const char *path, uint8_t *head, size_t *n) {
  stream *s;
  const uint8_t *at;
  size_t have;
  TRY(stream_open(path, &s));
  shoal_status status = stream_fill(s, HEAD_BYTES, &at, &have);
  if (!status) {
    *n = MIN_OF(have, (size_t)HEAD_BYTES);
    if (*n) memcpy(head, at, *n);
  }
  stream_close(s);
  return status;
}

static shoal_status unknown(const char *path, const char *why) {
  text names = {0};
  for (size_t i = 0; i < COUNT_OF(formats); i++) text_add(&names, "%s%s", i ? ", " : "", formats[i]->name);
  shoal_status status =
      names.failed ? status_no_memory()
                   : status_make(SHOAL_ERR_INPUT,
                                 "%s: %s; known formats are %s: if the file is right, name its format with --format",
                                 path, why, names.data);
  text_fini(&names);
  return status;
}

/* Not every name of data is a path: "fake:8x8x3:10" is made, not read, and "digits.npz:test" is a part of a file. */
static const format *named_in_path(const char *path) {
  for (size_t i = 0; strchr(path, ':') && i < COUNT_OF(formats); i++)
    if (formats[i]->detect(path, NULL, 0, false)) return formats[i];
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
  if (!folder && !n)
    return status_make(SHOAL_ERR_INPUT, "%s: byte 0: the file is empty: download it or create it again", path);
  for (size_t i = 0; i < COUNT_OF(formats); i++)
    if (formats[i]->detect(path, head, n, folder)) {
      *out = formats[i];
      return NULL;
    }
  return unknown(path, folder ? "no data in a known format in this folder" : "its content is of no known format");
}

bool shoal_data_format_at(int i, shoal_data_format *out) {
  const format *f = i >= 0 ? format_at((size_t)i) : NULL;
  if (f) *out = (shoal_data_format){.name = f->name, .summary = f->summary};
  return f != NULL;
}

shoal_status format_bad_row(const file_reader *r, int64_t record, uint64_t offset, const char *message, ...) {
  va_list args;
  va_start(args, message);
  shoal_status status = status_make_v(SHOAL_ERR_INPUT, message, args);
  va_end(args);
  return status_wrap(status, "%s: record %lld at byte %llu", r->path, (long long)record, (unsigned long long)offset);
}
