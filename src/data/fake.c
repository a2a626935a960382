/* The format "fake": one random image with its label, over and over, to measure training without reading.
 *
 *   fake:HEIGHTxWIDTHxCHANNELS:CLASSES            10,000 rows
 *   fake:HEIGHTxWIDTHxCHANNELS:CLASSES:ROWS
 *
 * The path is the description; no file is touched. */
#include "base/mem.h"
#include "base/random.h"
#include "data/format.h"

#include <stdio.h>
#include <string.h>

enum { STANDARD_ROWS = 10000, BYTES_MAX = 1 << 28, SEED = 1 };

typedef struct {
  file_reader base;
  rows_schema schema;
  uint8_t *image; /* [height, width, channels] */
  int32_t label;
  int64_t rows, next;
} fake_reader;

extern const format format_fake;

static bool detect(const char *path, const uint8_t *head, size_t n, bool folder) {
  return !folder && !n && !strncmp(path, "fake:", 5);
}

static void close_reader(file_reader *base) {
  fake_reader *r = (fake_reader *)base;
  if (!r) return;
  free(r->image);
  free(base->path);
  free(r);
}

static shoal_status parse(const char *path, const format_options *options, fake_reader *r) {
  long long height, width, channels, classes, rows = STANDARD_ROWS;
  int end = -1;
  bool right = sscanf(path, "fake:%9lldx%9lldx%9lld:%9lld%n", &height, &width, &channels, &classes, &end) == 4;
  if (right && path[end] == ':') {
    const char *rest = path + end;
    end = -1;
    right = sscanf(rest, ":%18lld%n", &rows, &end) == 1 && !rest[end];
  } else {
    right = right && !path[end];
  }
  right = right && height > 0 && width > 0 && channels > 0 && classes > 0 && rows >= 0;
  if (!right || height > BYTES_MAX / width || height * width > BYTES_MAX / channels)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "%s: expected fake:HEIGHTxWIDTHxCHANNELS:CLASSES or the same with :ROWS, "
                       "for example fake:256x256x3:1000",
                       path);
  if (options->classes && options->classes < classes)
    return status_make(SHOAL_ERR_ARGUMENT, "%s: makes %lld classes, but %d were requested", path, classes,
                       options->classes);
  r->rows = rows;
  r->schema = (rows_schema){.kind = ROWS_DENSE,
                            .dtype = SHOAL_U8,
                            .shape = SHOAL_SHAPE(height, width, channels),
                            .scale = 1.0f / 255,
                            .classes = options->classes ? options->classes : (int)classes};
  size_t bytes = (size_t)(height * width * channels);
  r->image = malloc(bytes + 16);
  if (!r->image) return status_no_memory();
  random_stream noise = random_stream_make(SEED, random_mix((uint64_t)height, (uint64_t)width));
  for (size_t i = 0; i < bytes; i += 16) {
    uint32_t words[4];
    random_block(&noise, i / 16, words);
    memcpy(r->image + i, words, sizeof words);
  }
  r->label = (int32_t)random_below(&noise, UINT64_MAX, (uint64_t)classes);
  return NULL;
}

static shoal_status open_reader(const char *path, const format_options *options, file_reader **out) {
  fake_reader *r = calloc(1, sizeof *r);
  if (!r) return status_no_memory();
  r->base.format = &format_fake;
  r->base.path = strdup(path);
  shoal_status status = r->base.path ? parse(path, options, r) : status_no_memory();
  if (status)
    close_reader(&r->base);
  else
    *out = &r->base;
  return status;
}

static void schema(const file_reader *base, rows_schema *out) { *out = ((const fake_reader *)base)->schema; }

static shoal_status read_rows(file_reader *base, int64_t most, rows_block *into, int64_t *got) {
  fake_reader *r = (fake_reader *)base;
  int64_t n = MIN_OF(most, r->rows - r->next);
  size_t bytes = rows_dense_bytes(&r->schema);
  *got = 0;
  TRY(rows_reserve(into, n, 0));
  for (int64_t i = 0; i < n; i++, into->count++) {
    memcpy((uint8_t *)into->features + (size_t)into->count * bytes, r->image, bytes);
    into->labels[into->count] = r->label;
  }
  r->next += n;
  *got = n;
  return NULL;
}

static shoal_status skip(file_reader *base, int64_t rows, int64_t *got) {
  fake_reader *r = (fake_reader *)base;
  *got = MIN_OF(rows, r->rows - r->next);
  r->next += *got;
  return NULL;
}

static void tell(const file_reader *base, file_position *out) {
  *out = (file_position){((const fake_reader *)base)->next, 0};
}

static shoal_status seek(file_reader *base, const file_position *to) {
  fake_reader *r = (fake_reader *)base;
  if (to->record < 0 || to->record > r->rows)
    return status_make(SHOAL_ERR_INPUT, "%s: row %lld was requested, but there are %lld", base->path,
                       (long long)to->record, (long long)r->rows);
  r->next = to->record;
  return NULL;
}

const format format_fake = {
    .name = "fake",
    .summary = "one random image repeated, for measuring: fake:256x256x3:1000 (height, width, channels, classes)",
    .detect = detect,
    .open = open_reader,
    .schema = schema,
    .read = read_rows,
    .skip = skip,
    .tell = tell,
    .seek = seek,
    .close = close_reader,
};
