#include "data/convert.h"

#include "base/mem.h"
#include "base/text.h"
#include "data/example.h"
#include "data/npy.h"
#include "data/tfrecord.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NUMBER_TEXT 32 /* bytes that a number may take as text */

struct row_writer {
  convert_options options;
  char *path, *temporary;               /* owned */
  char *labels_path, *labels_temporary; /* npy */
  sink to;
  example_writer example;
  npy_writer *features, *labels;
  int64_t columns;  /* of a dense row */
  float *row;       /* [columns] */
  int32_t *indices; /* [columns], of a dense row written as a sparse one */
  float *values;    /* [columns] */
};

/* ---- shared */

static void writer_free(row_writer *w) {
  free(w->path);
  free(w->temporary);
  free(w->labels_path);
  free(w->labels_temporary);
  example_writer_fini(&w->example);
  free(w->row);
  free(w->indices);
  free(w->values);
  free(w);
}

static shoal_status check_schema(const rows_schema *s, bool dense, const char *path) {
  if (s->kind == ROWS_BYTES)
    return status_make(SHOAL_ERR_ARGUMENT, "%s: encoded images must be decoded first: add --transform resize=HxW",
                       path);
  if (s->kind == ROWS_SPARSE && dense && (s->features < 1 || s->features > CONVERT_COLUMNS_MAX))
    return status_make(SHOAL_ERR_ARGUMENT,
                       "%s: rows of %lld features are too wide for columns, at most %d: write "
                       "tfrecord or libsvm",
                       path, (long long)s->features, CONVERT_COLUMNS_MAX);
  return NULL;
}

static shoal_status writer_make(const char *path, const convert_options *o, bool dense, row_writer **out) {
  TRY(check_schema(&o->schema, dense, path));
  row_writer *w = calloc(1, sizeof *w);
  if (!w) return status_no_memory();
  w->options = *o;
  const rows_schema *s = &o->schema;
  w->columns = s->kind == ROWS_DENSE ? shoal_shape_count(&s->shape) : dense ? s->features - o->first : 0;
  size_t n = (size_t)MAX_OF(w->columns, 1);
  w->path = strdup(path);
  w->row = malloc(n * sizeof *w->row);
  w->indices = malloc(n * sizeof *w->indices);
  w->values = malloc(n * sizeof *w->values);
  if (asprintf(&w->temporary, "%s.part", path) < 0) w->temporary = NULL;
  if (!w->path || !w->temporary || !w->row || !w->indices || !w->values) {
    writer_free(w);
    return status_no_memory();
  }
  *out = w;
  return NULL;
}

static shoal_status move(const char *from, const char *to) {
  return rename(from, to) ? status_errno(errno, "%s: cannot rename to %s", from, to) : NULL;
}

/* Row i as numbers [columns]. */
static const float *dense_row(row_writer *w, const rows_block *b, int64_t i) {
  const rows_schema *s = &b->schema;
  if (s->kind == ROWS_SPARSE) {
    memset(w->row, 0, (size_t)w->columns * sizeof *w->row);
    for (int64_t e = b->offsets[i]; e < b->offsets[i + 1]; e++) {
      int64_t column = b->indices[e] - w->options.first;
      if (column >= 0 && column < w->columns) w->row[column] = b->values[e];
    }
    return w->row;
  }
  if (s->dtype == SHOAL_F32) return (const float *)b->features + i * w->columns;
  const uint8_t *pixels = (const uint8_t *)b->features + i * w->columns;
  for (int64_t k = 0; k < w->columns; k++) w->row[k] = pixels[k];
  return w->row;
}

/* Row i as pairs; a dense one gives its non-zero numbers. */
static size_t sparse_row(row_writer *w, const rows_block *b, int64_t i, const int32_t **indices, const float **values) {
  if (b->schema.kind == ROWS_SPARSE) {
    *indices = b->indices + b->offsets[i];
    *values = b->values + b->offsets[i];
    return (size_t)(b->offsets[i + 1] - b->offsets[i]);
  }
  const float *row = dense_row(w, b, i);
  size_t n = 0;
  for (int64_t k = 0; k < w->columns; k++) {
    if (row[k] == 0) continue;
    w->indices[n] = (int32_t)k + 1;
    w->values[n++] = row[k];
  }
  *indices = w->indices;
  *values = w->values;
  return n;
}

/* Classes of two are written as -1 and +1 in sparse files, as is usual there. */
static int64_t sparse_label(const rows_block *b, int64_t i) {
  return b->schema.kind == ROWS_SPARSE && b->schema.classes == 2 ? 2 * b->labels[i] - 1 : b->labels[i];
}

/* Returns how many bytes it took: the shortest text that reads back as the same float, or nearly so. */
static size_t put_int(char *at, int64_t value) {
  char digits[24];
  size_t n = 0, k = 0;
  uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
  if (value < 0) at[n++] = '-';
  do digits[k++] = (char)('0' + rest % 10);
  while (rest /= 10);
  while (k) at[n++] = digits[--k];
  return n;
}

static size_t put_number(char *at, float value) {
  if (fabsf(value) < 1e9f && value == (float)(int32_t)value) return put_int(at, (int32_t)value);
  int n = snprintf(at, NUMBER_TEXT, "%.6g", (double)value);
  if (strtof(at, NULL) != value) n = snprintf(at, NUMBER_TEXT, "%.9g", (double)value);
  return (size_t)n;
}

/* ---- files written through a sink */

static shoal_status sink_writer_open(const char *path, const convert_options *o, bool dense, row_writer **out) {
  row_writer *w;
  TRY(writer_make(path, o, dense, &w));
  shoal_status status = sink_open(w->temporary, &w->to);
  if (status)
    writer_free(w);
  else
    *out = w;
  return status;
}

static shoal_status sink_writer_close(row_writer *w) {
  shoal_status status = sink_close(&w->to);
  if (!status) status = move(w->temporary, w->path);
  if (status) unlink(w->temporary);
  writer_free(w);
  return status;
}

static void sink_writer_abandon(row_writer *w) {
  if (!w) return;
  sink_drop(&w->to);
  unlink(w->temporary);
  writer_free(w);
}

/* ---- tfrecord */

static shoal_status open_tfrecord(const char *path, const convert_options *o, row_writer **out) {
  return sink_writer_open(path, o, false, out);
}

static shoal_status write_tfrecord(row_writer *w, const rows_block *b) {
  for (int64_t i = 0; i < b->count; i++) {
    const int32_t *indices;
    const float *values;
    size_t n = sparse_row(w, b, i, &indices, &values), bytes;
    int64_t label = sparse_label(b, i);
    const uint8_t *record;
    example_clear(&w->example);
    example_add_indices(&w->example, "index", indices, n);
    if (b->targets)
      example_add_floats(&w->example, "label", &b->targets[i], 1);
    else
      example_add_ints(&w->example, "label", &label, 1);
    example_add_floats(&w->example, "value", values, n);
    TRY(example_finish(&w->example, &record, &bytes));
    TRY(tfrecord_append(&w->to, record, bytes));
  }
  return NULL;
}

/* ---- libsvm */

static shoal_status open_libsvm(const char *path, const convert_options *o, row_writer **out) {
  return sink_writer_open(path, o, false, out);
}

static shoal_status write_libsvm(row_writer *w, const rows_block *b) {
  for (int64_t i = 0; i < b->count; i++) {
    const int32_t *indices;
    const float *values;
    size_t n = sparse_row(w, b, i, &indices, &values), k = 0;
    uint8_t *room;
    TRY(sink_reserve(&w->to, (n + 1) * 2 * NUMBER_TEXT, &room));
    char *at = (char *)room;
    int64_t label = sparse_label(b, i);
    if (!b->targets && label > 0 && b->schema.classes == 2) at[k++] = '+';
    k += b->targets ? put_number(at + k, b->targets[i]) : put_int(at + k, label);
    for (size_t e = 0; e < n; e++) {
      at[k++] = ' ';
      k += put_int(at + k, indices[e]);
      at[k++] = ':';
      k += put_number(at + k, values[e]);
    }
    at[k++] = '\n';
    sink_commit(&w->to, k);
  }
  return NULL;
}

/* ---- csv */

static shoal_status csv_header(row_writer *w) {
  TRY(sink_write(&w->to, w->options.schema.real_labels ? "target" : "label", w->options.schema.real_labels ? 6 : 5));
  for (int64_t k = 0; k < w->columns; k++) {
    char name[NUMBER_TEXT];
    int n = snprintf(name, sizeof name, ",x%lld", (long long)k);
    TRY(sink_write(&w->to, name, (size_t)n));
  }
  return sink_write(&w->to, "\n", 1);
}

static shoal_status open_csv(const char *path, const convert_options *o, row_writer **out) {
  row_writer *w;
  TRY(sink_writer_open(path, o, true, &w));
  shoal_status status = csv_header(w);
  if (status)
    sink_writer_abandon(w);
  else
    *out = w;
  return status;
}

static shoal_status write_csv(row_writer *w, const rows_block *b) {
  for (int64_t i = 0; i < b->count; i++) {
    const float *row = dense_row(w, b, i);
    uint8_t *room;
    TRY(sink_reserve(&w->to, (size_t)(w->columns + 1) * NUMBER_TEXT, &room));
    char *at = (char *)room;
    size_t k = b->targets ? put_number(at, b->targets[i]) : put_int(at, b->labels[i]);
    for (int64_t c = 0; c < w->columns; c++) {
      at[k++] = ',';
      k += put_number(at + k, row[c]);
    }
    at[k++] = '\n';
    sink_commit(&w->to, k);
  }
  return NULL;
}

/* ---- npy: rows in NAME.npy, labels in NAME-labels.npy */

static void abandon_npy(row_writer *w) {
  if (!w) return;
  npy_writer_abandon(w->features);
  npy_writer_abandon(w->labels);
  writer_free(w);
}

/* NAME-labels.npy for NAME.npy, and the temporary names. */
static shoal_status name_npy(row_writer *w) {
  size_t n = strlen(w->path);
  if (n > 4 && !strcmp(w->path + n - 4, ".npy")) n -= 4;
  if (asprintf(&w->labels_path, "%.*s-labels.npy", (int)n, w->path) < 0) w->labels_path = NULL;
  if (!w->labels_path || asprintf(&w->labels_temporary, "%s.part", w->labels_path) < 0) return status_no_memory();
  return NULL;
}

static shoal_status open_npy(const char *path, const convert_options *o, row_writer **out) {
  row_writer *w;
  TRY(writer_make(path, o, true, &w));
  const rows_schema *s = &o->schema;
  bool dense = s->kind == ROWS_DENSE;
  shoal_shape row = dense ? s->shape : SHOAL_SHAPE(w->columns);
  shoal_status status = name_npy(w);
  if (!status) status = npy_writer_open(w->temporary, dense ? s->dtype : SHOAL_F32, &row, &w->features);
  if (!status)
    status = npy_writer_open(w->labels_temporary, s->real_labels ? SHOAL_F32 : SHOAL_I32, &SHOAL_SCALAR, &w->labels);
  if (status)
    abandon_npy(w);
  else
    *out = w;
  return status;
}

static shoal_status write_npy(row_writer *w, const rows_block *b) {
  TRY(npy_write(w->labels, b->targets ? (const void *)b->targets : b->labels, b->count));
  if (b->schema.kind == ROWS_DENSE) return npy_write(w->features, b->features, b->count);
  for (int64_t i = 0; i < b->count; i++) TRY(npy_write(w->features, dense_row(w, b, i), 1));
  return NULL;
}

static shoal_status close_npy(row_writer *w) {
  shoal_status status = npy_writer_close(w->features);
  if (status)
    npy_writer_abandon(w->labels);
  else
    status = npy_writer_close(w->labels);
  if (!status) status = move(w->labels_temporary, w->labels_path);
  if (!status) status = move(w->temporary, w->path);
  if (status) {
    unlink(w->temporary);
    unlink(w->labels_temporary);
  }
  writer_free(w);
  return status;
}

/* ---- the table */

static const row_writer_kind kinds[] = {
    {"tfrecord", ".tfrecord .tfrecords", false, open_tfrecord, write_tfrecord, sink_writer_close, sink_writer_abandon},
    {"libsvm", ".libsvm .svm .svmlight", false, open_libsvm, write_libsvm, sink_writer_close, sink_writer_abandon},
    {"csv", ".csv", true, open_csv, write_csv, sink_writer_close, sink_writer_abandon},
    {"npy", ".npy", true, open_npy, write_npy, close_npy, abandon_npy},
};

const row_writer_kind *convert_at(size_t i) { return i < COUNT_OF(kinds) ? &kinds[i] : NULL; }

static bool ends_with(const char *path, const char *endings) {
  size_t length = strlen(path);
  for (const char *e = endings; *e; e += strcspn(e, " "), e += strspn(e, " ")) {
    size_t n = strcspn(e, " ");
    if (length > n && !strncmp(path + length - n, e, n)) return true;
  }
  return false;
}

shoal_status convert_find(const char *name, const char *path, const row_writer_kind **out) {
  text known = {0};
  for (size_t i = 0; i < COUNT_OF(kinds); i++) {
    if (name ? !strcmp(kinds[i].name, name) : ends_with(path, kinds[i].endings)) {
      *out = &kinds[i];
      text_fini(&known);
      return NULL;
    }
    text_add(&known, "%s%s (%s)", i ? ", " : "", kinds[i].name, kinds[i].endings);
  }
  shoal_status status =
      name ? status_make(SHOAL_ERR_ARGUMENT, "format '%s' cannot be written; expected one of %s", name, known.data)
           : status_make(SHOAL_ERR_ARGUMENT, "%s: unknown file extension; expected one of %s, or --to FORMAT", path,
                         known.data ? known.data : "");
  text_fini(&known);
  return status;
}
