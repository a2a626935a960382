/* The format "idx": a file of images or other rows, with the file of their labels beside it.
 *
 * The labels' file is named like the images', with "labels" in place of "images" and, as in MNIST, "idx1" in place of
 * "idx2" to "idx4"; either may be gzipped. Both are decoded when opened: gzip has no other way to a row in the middle,
 * and the sets of this format are small. */
#include "base/mem.h"
#include "data/format.h"
#include "data/idx.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CLASSES_MAX (1 << 20)

typedef struct {
  file_reader base;
  shoal_tensor images; /* u8 or f32 [rows, ...] */
  shoal_tensor labels; /* u8 or i32 [rows] */
  rows_schema schema;
  int64_t rows, next;
  uint64_t first_byte; /* of row 0 in the decompressed file */
} idx_reader;

static bool detect(const char *path, const uint8_t *head, size_t n, bool folder) {
  if (folder || n < 8 || head[0] || head[1] || head[3] < 2 || head[3] > 4) return false;
  return head[2] == 0x08 || head[2] == 0x0d;
}

/* A copy of `path` with `from`, in its last part, replaced by `to`; NULL when it is not in there or memory is short. */
static char *replaced(const char *path, const char *from, const char *to) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *at = strstr(name, from);
  char *made;
  if (!at || asprintf(&made, "%.*s%s%s", (int)(at - path), path, to, at + strlen(from)) < 0) return NULL;
  return made;
}

/* Adds or takes away ".gz". */
static char *other_packing(const char *path) {
  size_t n = strlen(path);
  char *made;
  bool packed = n > 3 && !strcmp(path + n - 3, ".gz");
  if (asprintf(&made, "%.*s%s", (int)(packed ? n - 3 : n), path, packed ? "" : ".gz") < 0) return NULL;
  return made;
}

static shoal_status labels_path(const char *path, char **out) {
  static const char *const ranks[] = {"idx3", "idx4", "idx2"};
  char *labels = replaced(path, "images", "labels");
  if (!labels)
    return status_make(SHOAL_ERR_INPUT,
                       "%s: the name of an IDX file of images has 'images' in it, that of its labels "
                       "'labels' in the same place: rename both",
                       path);
  for (size_t i = 0; i < COUNT_OF(ranks); i++) {
    char *better = replaced(labels, ranks[i], "idx1");
    if (!better) continue;
    free(labels);
    labels = better;
    break;
  }
  if (access(labels, F_OK)) {
    char *other = other_packing(labels);
    if (!other || access(other, F_OK)) {
      shoal_status status = status_make(SHOAL_ERR_INPUT,
                                        "%s: the labels, %s, are not beside it (plain or .gz): put "
                                        "them there",
                                        path, labels);
      free(labels);
      free(other);
      return status;
    }
    free(labels);
    labels = other;
  }
  *out = labels;
  return NULL;
}

static int32_t label_at(const idx_reader *r, int64_t i) {
  if (!r->labels.data) return -1;
  return r->labels.dtype == SHOAL_U8 ? ((const uint8_t *)r->labels.data)[i] : ((const int32_t *)r->labels.data)[i];
}

static shoal_status check(const idx_reader *r, const char *labels_file, int classes, int *found) {
  char shape[SHOAL_SHAPE_TEXT];
  const shoal_tensor *images = &r->images, *labels = &r->labels;
  if ((images->dtype != SHOAL_U8 && images->dtype != SHOAL_F32) || images->shape.rank < 2 ||
      !shoal_tensor_count(images))
    return status_make(SHOAL_ERR_INPUT, "%s: expected rows of u8 or f32, found %s %s", r->base.path,
                       shoal_dtype_name(images->dtype), shoal_shape_text(&images->shape, shape));
  *found = 0;
  if (!labels->data) return NULL; /* there are none, which is allowed */
  if (labels->shape.rank != 1 || (labels->dtype != SHOAL_U8 && labels->dtype != SHOAL_I32))
    return status_make(SHOAL_ERR_INPUT, "%s: expected labels, u8 or i32 [n], found %s %s", labels_file,
                       shoal_dtype_name(labels->dtype), shoal_shape_text(&labels->shape, shape));
  if (labels->shape.dim[0] != images->shape.dim[0])
    return status_make(SHOAL_ERR_INPUT,
                       "%s has %lld rows, but %s %lld labels: they do not belong together, download both again",
                       r->base.path, (long long)images->shape.dim[0], labels_file, (long long)labels->shape.dim[0]);
  int64_t largest = -1, bound = classes ? classes : CLASSES_MAX;
  for (int64_t i = 0; i < labels->shape.dim[0]; i++) {
    int64_t label = label_at(r, i);
    if (label < 0 || label >= bound)
      return status_make(SHOAL_ERR_INPUT,
                         "%s: row %lld: label %lld is found, but the classes are 0 to %lld: the file "
                         "is corrupted or another data set's",
                         labels_file, (long long)i, (long long)label, (long long)bound - 1);
    largest = MAX_OF(largest, label);
  }
  *found = (int)largest + 1;
  return NULL;
}

static void close_reader(file_reader *base) {
  idx_reader *r = (idx_reader *)base;
  if (!r) return;
  shoal_tensor_fini(&r->images);
  shoal_tensor_fini(&r->labels);
  free(r->base.path);
  free(r);
}

extern const format format_idx;

static shoal_status open_reader(const char *path, const format_options *options, file_reader **out) {
  idx_reader *r = calloc(1, sizeof *r);
  if (!r) return status_no_memory();
  char *labels = NULL;
  int found = 0;
  shoal_status status = NULL;
  r->base.format = &format_idx;
  r->base.path = strdup(path);
  if (!r->base.path) status = status_no_memory();
  if (!status) status = idx_read(path, &r->images);
  if (!status) status = labels_path(path, &labels);
  if (!status)
    status = idx_read(labels, &r->labels);
  else if (options->labels_optional && r->images.data && shoal_status_code(status) == SHOAL_ERR_INPUT) {
    shoal_status_free(status);
    status = NULL;
  }
  if (!status) status = check(r, labels, options->classes, &found);
  free(labels);
  if (status) {
    close_reader(&r->base);
    return status;
  }
  shoal_shape row = {.rank = r->images.shape.rank - 1};
  memcpy(row.dim, r->images.shape.dim + 1, (size_t)row.rank * sizeof *row.dim);
  if (row.rank == 2) row.dim[row.rank++] = 1; /* one channel */
  bool pixels = r->images.dtype == SHOAL_U8;
  r->rows = r->images.shape.dim[0];
  r->first_byte = 4 + 4 * (uint64_t)r->images.shape.rank;
  r->schema = (rows_schema){.kind = ROWS_DENSE,
                            .dtype = r->images.dtype,
                            .shape = row,
                            .scale = pixels ? 1.0f / 255 : 1,
                            .classes = options->classes ? options->classes : found};
  *out = &r->base;
  return NULL;
}

static void schema(const file_reader *base, rows_schema *out) { *out = ((const idx_reader *)base)->schema; }

static shoal_status read_rows(file_reader *base, int64_t most, rows_block *into, int64_t *got) {
  idx_reader *r = (idx_reader *)base;
  int64_t n = MIN_OF(most, r->rows - r->next);
  size_t row = rows_dense_bytes(&r->schema);
  TRY(rows_reserve(into, n, 0));
  if (n)
    memcpy((char *)into->features + (size_t)into->count * row, (char *)r->images.data + (size_t)r->next * row,
           (size_t)n * row);
  for (int64_t i = 0; i < n; i++) into->labels[into->count + i] = label_at(r, r->next + i);
  into->count += n;
  r->next += n;
  *got = n;
  return NULL;
}

static shoal_status skip(file_reader *base, int64_t rows, int64_t *got) {
  idx_reader *r = (idx_reader *)base;
  *got = MIN_OF(rows, r->rows - r->next);
  r->next += *got;
  return NULL;
}

static void tell(const file_reader *base, file_position *out) {
  const idx_reader *r = (const idx_reader *)base;
  *out = (file_position){r->next, r->first_byte + (uint64_t)r->next * rows_dense_bytes(&r->schema)};
}

static shoal_status seek(file_reader *base, const file_position *to) {
  idx_reader *r = (idx_reader *)base;
  if (to->record < 0 || to->record > r->rows)
    return status_make(SHOAL_ERR_INPUT, "%s: row %lld was requested, but the file has %lld rows: it has changed",
                       base->path, (long long)to->record, (long long)r->rows);
  r->next = to->record;
  return NULL;
}

const format format_idx = {
    .name = "idx",
    .summary = "IDX files of images with their labels beside them (MNIST), plain or gzipped",
    .detect = detect,
    .open = open_reader,
    .schema = schema,
    .read = read_rows,
    .skip = skip,
    .tell = tell,
    .seek = seek,
    .close = close_reader,
};
