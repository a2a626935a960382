/* The formats "npy" and "npz": see npy.h. */
#include "base/mem.h"
#include "data/format.h"
#include "data/npy.h"
#include "data/npy_names.h"
#include "data/npz.h"
#include "data/zip.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct {
  file_reader base;
  char *labels_path;
  stream *rows, *labels;
  stream *weights; /* NULL: rows have none */
  char *weights_path;
  npy_header row_header, label_header, weight_header;
  const uint8_t *columns; /* of rows that lie column by column: the whole array, in the stream's buffer */
  rows_schema schema;
  bool one_hot; /* labels are [n, classes], 1 at the class and 0 elsewhere */
  int64_t next;
} npy_reader;

extern const format format_npy, format_npz;

static bool ends_with(const char *path, const char *ending) {
  size_t n = strlen(path), m = strlen(ending);
  return n >= m && !strcmp(path + n - m, ending);
}

/* The file's name without folder and ending. */
static void stem_of(const char *path, char out[NPY_NAME]) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  snprintf(out, NPY_NAME, "%.*s", (int)(strlen(name) - (ends_with(name, ".npy") ? 4 : 0)), name);
}

/* Labels are read with their rows, not by themselves. */
static bool detect_npy(const char *path, const uint8_t *head, size_t n, bool folder) {
  char stem[NPY_NAME];
  if (folder || n < 6 || memcmp(head, "\x93NUMPY", 6)) return false;
  stem_of(path, stem);
  return !npy_is_labels(stem);
}

static bool detect_npz(const char *path, const uint8_t *head, size_t n, bool folder) {
  return !folder && (n ? zip_detect(head, n) : npz_is_split_name(path));
}

typedef struct {
  const char *path; /* of the rows */
  char *found;      /* the labels' path */
} beside;

static bool is_beside(void *context, const char *name) {
  beside *b = context;
  const char *slash = strrchr(b->path, '/');
  free(b->found);
  if (asprintf(&b->found, "%.*s%s.npy", slash ? (int)(slash + 1 - b->path) : 0, b->path, name) < 0) b->found = NULL;
  return b->found && !access(b->found, F_OK);
}

static shoal_status find_labels(const char *path, char **out) {
  beside b = {.path = path};
  char stem[NPY_NAME], name[NPY_NAME];
  stem_of(path, stem);
  if (npy_labels_of(stem, is_beside, &b, name)) {
    *out = b.found;
    return NULL;
  }
  free(b.found);
  return status_make(SHOAL_ERR_INPUT,
                     "%s: its labels are not beside it: expected %s-labels.npy (or y for X, y_train "
                     "for X_train, labels for images): put them there",
                     path, stem);
}

static void close_reader(file_reader *base) {
  npy_reader *r = (npy_reader *)base;
  if (!r) return;
  stream_close(r->rows);
  stream_close(r->labels);
  stream_close(r->weights);
  free(r->weights_path);
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

/* Rows and labels as streams, whose headers are read; labels may stay NULL. */
static shoal_status open_files(npy_reader *r, bool labels_optional) {
  TRY(stream_open(r->base.path, &r->rows));
  TRY(read_header_of_rows(r->rows, r->base.path, &r->row_header));
  shoal_status status = find_labels(r->base.path, &r->labels_path);
  if (status && labels_optional && shoal_status_code(status) == SHOAL_ERR_INPUT) {
    shoal_status_free(status);
    return NULL;
  }
  TRY(status);
  TRY(stream_open(r->labels_path, &r->labels));
  return read_header_of_rows(r->labels, r->labels_path, &r->label_header);
}

static shoal_status open_archive(npy_reader *r) {
  npz_pair p;
  TRY(npz_find_pair(r->base.path, &p));
  r->labels_path = p.labels;
  p.labels = NULL;
  shoal_status status = stream_open_part(p.file, p.rows, &p.rows_part, &r->rows);
  if (!status) status = stream_open_part(p.file, r->labels_path, &p.labels_part, &r->labels);
  if (!status) status = read_header_of_rows(r->rows, p.rows, &r->row_header);
  if (!status) status = read_header_of_rows(r->labels, r->labels_path, &r->label_header);
  if (!status && p.weights) {
    r->weights_path = p.weights;
    p.weights = NULL;
    status = stream_open_part(p.file, r->weights_path, &p.weights_part, &r->weights);
    if (!status) status = read_header_of_rows(r->weights, r->weights_path, &r->weight_header);
  }
  npz_pair_fini(&p);
  return status;
}

/* Rows that lie column by column are taken from the whole array. */
static shoal_status hold_columns(npy_reader *r) {
  const npy_header *x = &r->row_header;
  size_t all = (size_t)x->row_bytes * (size_t)x->shape.dim[0], have;
  TRY(stream_fill(r->rows, all, &r->columns, &have));
  if (have >= all) return NULL;
  return status_make(SHOAL_ERR_INPUT,
                     "%s: byte %llu: the file ends here, but its header declares %lld rows: it is cut "
                     "short, create it again",
                     r->base.path, (unsigned long long)(x->data_offset + have), (long long)x->shape.dim[0]);
}

static shoal_status prepare(npy_reader *r, const format_options *options) {
  char text[SHOAL_SHAPE_TEXT];
  TRY(r->base.format == &format_npz ? open_archive(r) : open_files(r, options->labels_optional));
  const npy_header *x = &r->row_header, *y = &r->label_header;
  const bool labelled = r->labels != NULL;
  const bool several = labelled && y->row_bytes != (uint64_t)y->size;
  r->one_hot = several && !options->real_labels;
  if (several && !r->one_hot && y->by_columns)
    return status_make(SHOAL_ERR_INPUT,
                       "%s: several numbers to be predicted for each row are expected in C order: save "
                       "numpy.ascontiguousarray of them",
                       r->labels_path);
  if (r->one_hot && (y->shape.rank != 2 || y->by_columns))
    return status_make(SHOAL_ERR_INPUT,
                       "%s: expected one label per row, [n], or 0 and 1 for each class, [n, classes] "
                       "in C order, found %s",
                       r->labels_path, shoal_shape_text(&y->shape, text));
  if (labelled && y->shape.dim[0] != x->shape.dim[0])
    return status_make(SHOAL_ERR_INPUT, "%s has %lld rows, but %s %lld labels: they do not belong together",
                       r->base.path, (long long)x->shape.dim[0], r->labels_path, (long long)y->shape.dim[0]);
  const npy_header *w = &r->weight_header;
  if (r->weights && (w->row_bytes != (uint64_t)w->size || w->shape.dim[0] != x->shape.dim[0]))
    return status_make(SHOAL_ERR_INPUT, "%s: expected a number for each of the %lld rows, found %s", r->weights_path,
                       (long long)x->shape.dim[0], shoal_shape_text(&w->shape, text));
  shoal_shape row = {.rank = MAX_OF(x->shape.rank - 1, 1), .dim = {1}};
  if (x->shape.rank > 1) memcpy(row.dim, x->shape.dim + 1, (size_t)row.rank * sizeof *row.dim);
  bool pixels = x->kind == 'u' && x->size == 1;
  int classes = options->classes ? options->classes : r->one_hot ? (int)y->shape.dim[1] : 0;
  r->schema = (rows_schema){.kind = ROWS_DENSE,
                            .dtype = pixels ? SHOAL_U8 : SHOAL_F32,
                            .shape = row,
                            .scale = pixels ? 1.0f / 255 : 1,
                            .classes = classes,
                            .real_labels = labelled && (y->kind == 'f' || options->real_labels) && !r->one_hot,
                            .targets = several && !r->one_hot ? (int64_t)(y->row_bytes / (uint64_t)y->size) : 0,
                            .weighted = r->weights != NULL};
  return x->by_columns ? hold_columns(r) : NULL;
}

static shoal_status open_with(const format *f, const char *path, const format_options *options, file_reader **out) {
  npy_reader *r = calloc(1, sizeof *r);
  if (!r) return status_no_memory();
  r->base.format = f;
  r->base.path = strdup(path);
  shoal_status status = r->base.path ? prepare(r, options) : status_no_memory();
  if (status)
    close_reader(&r->base);
  else
    *out = &r->base;
  return status;
}

static shoal_status open_npy(const char *path, const format_options *options, file_reader **out) {
  return open_with(&format_npy, path, options, out);
}

static shoal_status open_npz(const char *path, const format_options *options, file_reader **out) {
  return open_with(&format_npz, path, options, out);
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
  return format_bad_row(&r->base, r->next, row_offset(r, r->next),
                        "%s ends here, but its header declares %lld rows: "
                        "it is cut short, create it again",
                        s == r->rows ? "the file" : r->labels_path, (long long)r->row_header.shape.dim[0]);
}

/* The place of the one 1 among zeros; -1: they are something else. */
static int64_t hot_class(const npy_header *y, const uint8_t *at) {
  int64_t hot = -1;
  for (int64_t i = 0; i < y->shape.dim[1]; i++) {
    double value = npy_element(y, at, (size_t)i);
    if (value == 0) continue;
    if (value != 1 || hot >= 0) return -1;
    hot = i;
  }
  return hot;
}

/* The numbers to be predicted for row `next`, as they stand at `at`. */
static shoal_status read_targets(const npy_reader *r, const uint8_t *at, float *out) {
  for (int64_t i = 0; i < rows_targets(&r->schema); i++) {
    out[i] = (float)npy_element(&r->label_header, at, (size_t)i);
    if (!isfinite(out[i])) return status_make(SHOAL_ERR_INPUT, "the label is not a finite number");
  }
  return NULL;
}

/* The label of row `next`, -1 without labels, or its targets; moves behind it. */
static shoal_status read_label(npy_reader *r, int32_t *label, float *targets) {
  const uint8_t *at;
  const npy_header *y = &r->label_header;
  *label = -1;
  if (targets) *targets = NAN;
  if (!r->labels) return NULL;
  TRY(fill_whole(r, r->labels, (size_t)y->row_bytes, &at));
  *label = 0;
  if (r->schema.real_labels) {
    shoal_status status = read_targets(r, at, targets);
    stream_advance(r->labels, (size_t)y->row_bytes);
    return status;
  }
  double value = r->one_hot ? (double)hot_class(y, at) : npy_element(y, at, 0);
  stream_advance(r->labels, (size_t)y->row_bytes);
  if (r->one_hot && value < 0)
    return status_make(SHOAL_ERR_INPUT, "expected one 1 and else 0 among its %lld numbers, one for each class",
                       (long long)y->shape.dim[1]);
  double limit = r->schema.classes ? r->schema.classes : (double)(1 << 30);
  if (value < 0 || value >= limit)
    return status_make(SHOAL_ERR_INPUT, "label %.0f is outside of the classes, 0 to %.0f", value, limit - 1);
  *label = (int32_t)value;
  return NULL;
}

/* What row `next` counts; moves behind it. */
static shoal_status read_weight(npy_reader *r, float *out) {
  const uint8_t *at;
  const size_t bytes = (size_t)r->weight_header.row_bytes;
  TRY(fill_whole(r, r->weights, bytes, &at));
  *out = (float)npy_element(&r->weight_header, at, 0);
  stream_advance(r->weights, bytes);
  if (*out >= 0 && *out < WEIGHT_END) return NULL;
  return status_make(SHOAL_ERR_INPUT, "its weight in %s is %g: expected at least 0", r->weights_path, (double)*out);
}

/* Row `next` of an array that lies column by column: [rows, a, b, c] has element (i, j, k, l) at
 * i + rows * (j + a * (k + b * l)). */
static void gather(const npy_reader *r, void *place) {
  const npy_header *x = &r->row_header;
  int64_t index[SHOAL_MAX_RANK] = {r->next};
  size_t count = (size_t)x->row_bytes / (size_t)x->size;
  for (size_t i = 0; i < count; i++) {
    int64_t at = 0;
    for (int a = x->shape.rank; a-- > 0;) at = at * x->shape.dim[a] + index[a];
    double value = npy_element(x, r->columns, (size_t)at);
    if (r->schema.dtype == SHOAL_U8)
      ((uint8_t *)place)[i] = (uint8_t)value;
    else
      ((float *)place)[i] = (float)value;
    for (int a = x->shape.rank - 1; a > 0 && ++index[a] == x->shape.dim[a]; a--) index[a] = 0;
  }
}

static shoal_status read_numbers(npy_reader *r, void *place) {
  const npy_header *x = &r->row_header;
  if (x->by_columns) {
    gather(r, place);
    return NULL;
  }
  const uint8_t *at;
  TRY(fill_whole(r, r->rows, (size_t)x->row_bytes, &at));
  size_t bytes = rows_dense_bytes(&r->schema), count = (size_t)x->row_bytes / (size_t)x->size;
  bool as_is = !x->big_endian && (r->schema.dtype == SHOAL_U8 || (x->kind == 'f' && x->size == 4));
  if (as_is)
    memcpy(place, at, bytes);
  else
    for (size_t i = 0; i < count; i++) ((float *)place)[i] = (float)npy_element(x, at, i);
  stream_advance(r->rows, (size_t)x->row_bytes);
  return NULL;
}

/* NumPy writes NaN for what is missing; a model would spread it over all its weights. */
static const float *first_not_finite(const npy_reader *r, const void *place) {
  if (r->row_header.kind != 'f') return NULL;
  const float *x = place, *end = x + shoal_shape_count(&r->schema.shape);
  while (x < end && isfinite(*x)) x++;
  return x < end ? x : NULL;
}

static shoal_status read_row(npy_reader *r, rows_block *into) {
  TRY(rows_reserve(into, 1, 0));
  char *place = (char *)into->features + (size_t)into->count * rows_dense_bytes(&r->schema);
  TRY(read_numbers(r, place));
  const float *wrong = first_not_finite(r, place);
  int32_t label;
  float *targets = into->targets ? into->targets + into->count * rows_targets(&into->schema) : NULL;
  shoal_status status = read_label(r, &label, targets), weighed = NULL;
  if (r->weights) weighed = read_weight(r, &into->weights[into->count]);
  if (status)
    shoal_status_free(weighed);
  else
    status = weighed;
  int64_t record = r->next++;
  if (wrong && !status) {
    r->base.can_go_on = true;
    return format_bad_row(&r->base, record, row_offset(r, record),
                          "number %lld of the row is %g, expected a finite "
                          "one: replace it, for example with numpy.nan_to_num",
                          (long long)(wrong - (const float *)place), (double)*wrong);
  }
  if (status) {
    r->base.can_go_on = true;
    return status_wrap(
        status, "%s: record %lld at byte %llu", r->labels_path, (long long)record,
        (unsigned long long)(r->label_header.data_offset + (uint64_t)record * r->label_header.row_bytes));
  }
  into->labels[into->count] = label;
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
    return status_make(SHOAL_ERR_INPUT, "%s: row %lld was requested, but the file has %lld rows: it has changed",
                       r->base.path, (long long)row, (long long)rows);
  if (!r->columns) TRY(stream_seek(r->rows, row_offset(r, row)));
  if (r->labels) TRY(stream_seek(r->labels, r->label_header.data_offset + (uint64_t)row * r->label_header.row_bytes));
  const npy_header *w = &r->weight_header;
  if (r->weights) TRY(stream_seek(r->weights, w->data_offset + (uint64_t)row * w->row_bytes));
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

#define NPY_FORMAT(format_name, what, which)                                                                \
  {                                                                                                         \
    .name = format_name, .summary = what, .detect = detect_##which, .open = open_##which, .schema = schema, \
    .read = read_rows, .skip = skip, .tell = tell, .seek = seek, .close = close_reader                      \
  }

const format format_npy = NPY_FORMAT("npy", "NumPy arrays: NAME.npy with NAME-labels.npy, X.npy with y.npy ...", npy);
const format format_npz = NPY_FORMAT("npz", "NumPy archives with X and y, x_train and y_train or data and labels", npz);
