/* The format "cifar10": records of a label and three planes (red, green, blue) of 32 x 32 bytes, nothing else. A row
 * becomes u8 [32,32,3], the colours of a pixel side by side. */
#include "base/mem.h"
#include "data/format.h"
#include "data/stream.h"

#include <string.h>

enum { SIDE = 32, PIXELS = SIDE * SIDE, IMAGE = 3 * PIXELS, RECORD = 1 + IMAGE, CLASSES = 10 };

typedef struct {
  file_reader base;
  stream *bytes;
  int64_t next; /* record at the stream's position */
} cifar10_reader;

extern const format format_cifar10;

/* There is no mark to know it by: the name, and labels where labels belong. */
static bool detect(const char *path, const uint8_t *head, size_t n, bool folder) {
  size_t length = strlen(path);
  bool packed = length > 3 && !strcmp(path + length - 3, ".gz");
  if (packed) length -= 3;
  if (folder || length < 4 || strncmp(path + length - 4, ".bin", 4)) return false;
  return n && head[0] < CLASSES && (n <= RECORD || head[RECORD] < CLASSES);
}

static void close_reader(file_reader *base) {
  cifar10_reader *r = (cifar10_reader *)base;
  if (!r) return;
  stream_close(r->bytes);
  free(base->path);
  free(r);
}

static shoal_status open_reader(const char *path, const format_options *options, file_reader **out) {
  if (options->classes && options->classes < CLASSES)
    return status_make(SHOAL_ERR_ARGUMENT, "%s: CIFAR-10 has %d classes, but %d were requested", path, CLASSES,
                       options->classes);
  cifar10_reader *r = calloc(1, sizeof *r);
  if (!r) return status_no_memory();
  shoal_status status = NULL;
  r->base.format = &format_cifar10;
  r->base.path = strdup(path);
  if (!r->base.path) status = status_no_memory();
  if (!status) status = stream_open(path, &r->bytes);
  if (!status && !stream_size(r->bytes))
    status =
        status_make(SHOAL_ERR_INPUT, "%s: byte 0: the file is empty, expected records of %d bytes: download it again",
                    path, RECORD);
  if (status)
    close_reader(&r->base);
  else
    *out = &r->base;
  return status;
}

static void schema(const file_reader *base, rows_schema *out) {
  *out = (rows_schema){.kind = ROWS_DENSE,
                       .dtype = SHOAL_U8,
                       .shape = SHOAL_SHAPE(SIDE, SIDE, 3),
                       .scale = 1.0f / 255,
                       .classes = CLASSES};
}

/* The file ends `have` bytes into record `next`. The stream stands behind them, and so does the reader. */
static shoal_status cut_short(cifar10_reader *r, size_t have) {
  r->base.can_go_on = true;
  return format_bad_row(&r->base, r->next++, stream_offset(r->bytes) - have,
                        "the file ends after %zu of the record's "
                        "%d bytes: it is cut short, download it again",
                        have, RECORD);
}

static shoal_status read_rows(file_reader *base, int64_t most, rows_block *into, int64_t *got) {
  cifar10_reader *r = (cifar10_reader *)base;
  base->can_go_on = false;
  *got = 0;
  for (int64_t done = 0; done < most; done++) {
    const uint8_t *at;
    size_t have;
    TRY(stream_fill(r->bytes, RECORD, &at, &have));
    if (!have) return NULL;
    if (have < RECORD) {
      stream_advance(r->bytes, have);
      return cut_short(r, have);
    }
    uint64_t offset = stream_offset(r->bytes);
    int label = at[0];
    if (label < CLASSES) {
      TRY(rows_reserve(into, 1, 0));
      uint8_t *pixel = (uint8_t *)into->features + (size_t)into->count * IMAGE;
      const uint8_t *red = at + 1, *green = red + PIXELS, *blue = green + PIXELS; /* [32,32] each */
      for (int i = 0; i < PIXELS; i++, pixel += 3) {
        pixel[0] = red[i];
        pixel[1] = green[i];
        pixel[2] = blue[i];
      }
      into->labels[into->count] = label;
      if (into->targets) into->targets[into->count] = (float)label;
      into->count++;
      ++*got;
    }
    stream_advance(r->bytes, RECORD);
    r->next++;
    if (label >= CLASSES) {
      base->can_go_on = true;
      return format_bad_row(base, r->next - 1, offset,
                            "label %d is outside of the %d classes, 0 to %d: the file is "
                            "corrupted or not a CIFAR-10 file",
                            label, CLASSES, CLASSES - 1);
    }
  }
  return NULL;
}

static shoal_status skip(file_reader *base, int64_t rows, int64_t *got) {
  cifar10_reader *r = (cifar10_reader *)base;
  base->can_go_on = false;
  *got = 0;
  uint64_t passed, want = (uint64_t)MIN_OF(rows, INT64_MAX / RECORD) * RECORD;
  TRY(stream_skip(r->bytes, want, &passed));
  *got = (int64_t)(passed / RECORD);
  r->next += *got;
  return passed % RECORD ? cut_short(r, passed % RECORD) : NULL;
}

static void tell(const file_reader *base, file_position *out) {
  const cifar10_reader *r = (const cifar10_reader *)base;
  *out = (file_position){r->next, stream_offset(r->bytes)};
}

static shoal_status seek(file_reader *base, const file_position *to) {
  cifar10_reader *r = (cifar10_reader *)base;
  TRY(stream_seek(r->bytes, to->offset));
  r->next = to->record;
  return NULL;
}

const format format_cifar10 = {
    .name = "cifar10",
    .summary = "CIFAR-10 binary files, .bin: 32 x 32 colour images of 10 classes",
    .detect = detect,
    .open = open_reader,
    .schema = schema,
    .read = read_rows,
    .skip = skip,
    .tell = tell,
    .seek = seek,
    .close = close_reader,
};
