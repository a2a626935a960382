/* The format "npy": see npy.h. */
#include "base/mem.h"
#include "data/format.h"
#include "data/npy.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct {
  file_reader base;
  char *labels_path;
  stream *rows, *labels;
  npy_header row_header, label_header;
  rows_schema schema;
  int64_t next;
} npy_reader;

extern const format format_npy;

static bool ends_with(const char *path, const char *ending) {
  size_t n = strlen(path), m = strlen(ending);
  return n >= m && !strcmp(path + n - m, ending);
}

/* Labels are read with their rows, not by themselves. */
static bool detect(const char *path, const uint8_t *head, size_t n, bool folder) {
  if (folder || n < 6 || memcmp(head, "\x93NUMPY", 6)) return false;
  return !ends_with(path, "-labels.npy") && !ends_with(path, "_labels.npy");
}

static shoal_status find_labels(const char *path, char **out) {
  static const char *const endings[] = {"-labels.npy", "_labels.npy"};
  size_t stem = strlen(path) - (ends_with(path, ".npy") ? 4 : 0);
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  for (size_t i = 0; i <= COUNT_OF(endings); i++) {
    char *labels;
    int n;
    if (i < COUNT_OF(endings)) n = asprintf(&labels, "%.*s%s", (int)stem, path, endings[i]);
    else if (!strcmp(name, "X.npy")) n = asprintf(&labels, "%.*sy.npy", (int)(name - path), path);
    else break;
    if (n < 0) return status_no_memory();
    if (!access(labels, F_OK)) {
      *out = labels;
      return NULL;
    }
    free(labels);
  }
  return status_make(SHOAL_ERR_INPUT, "%s: its labels, %.*s-labels.npy, are not beside it: put them there", path,
                     (int)stem, path);
}

static void close_reader(file_reader *base) {
  npy_reader *r = (npy_reader *)base;
  if (!r) return;
  stream_close(r->rows);
  stream_close(r->labels);
  free(r->labels_path);
  free(base->path);
  free(r);
}

static shoal_status read_header_of_rows(stream *s, const char *path, npy_header *out) {
  TRY(npy_read_header(s, path, out));
  if (!out->single) return NULL;
  return status_make(SHOAL_ERR_INPUT, "%s: byte 10: in the header: expected an array of rows, found a single number",
                     path);
}

static shoal_status prepare(npy_reader *r, const format_options *options) {
  char text[SHOAL_SHAPE_TEXT];
  TRY(stream_open(r->base.path, &r->rows));
  TRY(read_header_of_rows(r->rows, r->base.path, &r->row_header));
  TRY(find_labels(r->base.path, &r->labels_path));
  TRY(stream_open(r->labels_path, &r->labels));
  TRY(read_header_of_rows(r->labels, r->labels_path, &r->label_header));
  const npy_header *x = &r->row_header, *y = &r->label_header;
  if (y->row_bytes != (uint64_t)y->size)
    return status_make(SHOAL_ERR_INPUT, "%s: expected one label a row, [n], found %s", r->labels_path,
                       shoal_shape_text(&y->shape, text));
  if (y->shape.dim[0] != x->shape.dim[0])
    return status_make(SHOAL_ERR_INPUT, "%s has %lld rows, but %s %lld labels: they do not belong together",
                       r->base.path, (long long)x->shape.dim[0], r->labels_path, (long long)y->shape.dim[0]);
  shoal_shape row = {.rank = MAX_OF(x->shape.rank - 1, 1), .dim = {1}};
  if (x->shape.rank > 1) memcpy(row.dim, x->shape.dim + 1, (size_t)row.rank * sizeof *row.dim);
  r->schema = (rows_schema){.kind = ROWS_DENSE, .dtype = x->kind == 'u' ? SHOAL_U8 : SHOAL_F32, .shape = row,
                            .scale = x->kind == 'u' ? 1.0f / 255 : 1, .classes = options->classes,
                            .real_labels = y->kind == 'f'};
  return NULL;
}

static shoal_status open_reader(const char *path, const format_options *options, file_reader **out) {
  npy_reader *r = calloc(1, sizeof *r);
  if (!r) return status_no_memory();
  r->base.format = &format_npy;
  r->base.path = strdup(path);
  shoal_status status = r->base.path ? prepare(r, options) : status_no_memory();
  if (status) close_reader(&r->base);
  else *out = &r->base;
  return status;
}

static void schema(const file_reader *base, rows_schema *out) { *out = ((const npy_reader *)base)->schema; }

static uint64_t row_offset(const npy_reader *r, int64_t row) {
  return r->row_header.data_offset + (uint64_t)row * r->row_header.row_bytes;
}

/* n bytes of a compressed file; a plain one was found to be long enough when it was opened. */
static shoal_status fill_whole(npy_reader *r, stream *s, size_t n, const uint8_t **at) {
  size_t have;
  TRY(stream_fill(s, n, at, &have));
  if (have >= n) return NULL;
  return format_bad_row(&r->base, r->next, row_offset(r, r->next), "%s ends here, but its header promises %lld rows: "
                        "it is cut short, make it again", s == r->rows ? "the file" : r->labels_path,
                        (long long)r->row_header.shape.dim[0]);
}

/* The label of row `next`; moves behind it. */
static shoal_status read_label(npy_reader *r, int32_t *label, float *target) {
  const uint8_t *at;
  const npy_header *y = &r->label_header;
  TRY(fill_whole(r, r->labels, (size_t)y->size, &at));
  double value = npy_element(y, at, 0);
  stream_advance(r->labels, (size_t)y->size);
  *target = (float)value;
  *label = 0;
  if (r->schema.real_labels) {
    if (isfinite(*target)) return NULL;
    return status_make(SHOAL_ERR_INPUT, "the label is no finite number");
  }
  double limit = r->schema.classes ? r->schema.classes : (double)(1 << 30);
  if (value < 0 || value >= limit)
    return status_make(SHOAL_ERR_INPUT, "label %.0f is outside of the classes, 0 to %.0f", value, limit - 1);
  *label = (int32_t)value;
  return NULL;
}

static shoal_status read_row(npy_reader *r, rows_block *into) {
  const npy_header *x = &r->row_header;
  const uint8_t *at;
  TRY(fill_whole(r, r->rows, (size_t)x->row_bytes, &at));
  TRY(rows_reserve(into, 1, 0));
  size_t bytes = rows_dense_bytes(&r->schema), count = (size_t)x->row_bytes / (size_t)x->size;
  char *place = (char *)into->features + (size_t)into->count * bytes;
  if (bytes == x->row_bytes && x->kind != 'i') memcpy(place, at, bytes); /* u1, f4 */
  else
    for (size_t i = 0; i < count; i++) ((float *)place)[i] = (float)npy_element(x, at, i);
  stream_advance(r->rows, (size_t)x->row_bytes);
  int32_t label;
  float target;
  shoal_status status = read_label(r, &label, &target);
  int64_t record = r->next++;
  if (status) {
    r->base.can_go_on = true;
    return status_wrap(status, "%s: record %lld at byte %llu", r->labels_path, (long long)record,
                       (unsigned long long)(r->label_header.data_offset +
                                            (uint64_t)record * (uint64_t)r->label_header.size));
  }
  into->labels[into->count] = label;
  if (into->targets) into->targets[into->count] = target;
  into->count++;
  return NULL;
}

static shoal_status read_rows(file_reader *base, int64_t most, rows_block *into, int64_t *got) {
  npy_reader *r = (npy_reader *)base;
  base->can_go_on = false;
  for (*got = 0; *got < most && r->next < r->row_header.shape.dim[0]; ++*got) TRY(read_row(r, into));
  return NULL;
}

static shoal_status go_to(npy_reader *r, int64_t row) {
  int64_t rows = r->row_header.shape.dim[0];
  if (row < 0 || row > rows)
    return status_make(SHOAL_ERR_INPUT, "%s: row %lld is to be read, but the file has %lld: it is not the file it was",
                       r->base.path, (long long)row, (long long)rows);
  TRY(stream_seek(r->rows, row_offset(r, row)));
  TRY(stream_seek(r->labels, r->label_header.data_offset + (uint64_t)row * (uint64_t)r->label_header.size));
  r->next = row;
  return NULL;
}

static shoal_status skip(file_reader *base, int64_t rows, int64_t *got) {
  npy_reader *r = (npy_reader *)base;
  *got = 0;
  int64_t n = MIN_OF(rows, r->row_header.shape.dim[0] - r->next);
  TRY(go_to(r, r->next + n));
  *got = n;
  return NULL;
}

static void tell(const file_reader *base, file_position *out) {
  const npy_reader *r = (const npy_reader *)base;
  *out = (file_position){r->next, row_offset(r, r->next)};
}

static shoal_status seek(file_reader *base, const file_position *to) { return go_to((npy_reader *)base, to->record); }

const format format_npy = {
    .name = "npy",
    .summary = "NumPy arrays: NAME.npy with NAME-labels.npy (or X.npy with y.npy)",
    .detect = detect,
    .open = open_reader,
    .schema = schema,
    .read = read_rows,
    .skip = skip,
    .tell = tell,
    .seek = seek,
    .close = close_reader,
};
