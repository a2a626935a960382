/* Rows that a program has itself (shoal_row_source): all of them at once, or batch by batch from a function. Not in the
 * table of formats, since no file has it. */
#include "base/mem.h"
#include "data/format.h"

#include <string.h>

typedef struct {
  file_reader base;
  const shoal_row_source *from;
  rows_schema schema;
  bool labels_optional;
  bool any_index;
  shoal_batch batch; /* the rows under way */
  int64_t first;     /* rows before them */
  int64_t next;      /* of them, to be read */
  bool begun;        /* the function has been asked for rows since it began */
} memory_reader;

static void close_reader(file_reader *base) {
  if (!base) return;
  free(base->path);
  free(base);
}

static int64_t entries_of(const shoal_batch *b, int64_t row) {
  const int64_t *offsets = b->offsets.data;
  return offsets[row] - offsets[0];
}

static bool is(const shoal_tensor *t, shoal_dtype dtype, int64_t count) {
  return t->data && t->dtype == dtype && !t->rows && t->shape.rank == 1 && t->shape.dim[0] == count;
}

static shoal_status wrong(const char *what) { return status_make(SHOAL_ERR_ARGUMENT, "rows of the program: %s", what); }

/* What rows are like, as the first batch tells. */
static shoal_status learn(const shoal_batch *b, const format_options *o, rows_schema *out) {
  *out = (rows_schema){.kind = b->offsets.data ? ROWS_SPARSE : ROWS_DENSE,
                       .features = o->features,
                       .classes = o->classes,
                       .fields = b->offsets.data && b->fields.data,
                       .real_labels = b->targets.data != NULL,
                       .targets = b->targets.shape.rank == 2 ? b->targets.shape.dim[1] : 0,
                       .weighted = b->weights.data != NULL};
  if (out->kind == ROWS_SPARSE) return NULL;
  const shoal_tensor *f = &b->features;
  if (!f->data || (f->dtype != SHOAL_U8 && f->dtype != SHOAL_F32) || f->shape.rank < 2)
    return wrong("features must be u8 or f32 [rows, ...], or offsets, indices and values of sparse rows");
  out->dtype = f->dtype;
  out->scale = f->dtype == SHOAL_U8 ? 1 / 255.0f : 1;
  out->shape = shoal_shape_make(f->shape.rank - 1, f->shape.dim + 1);
  return NULL;
}

/* Offsets rise, and indices are known ones. */
static shoal_status check_sparse(const memory_reader *r, const shoal_batch *b) {
  if (!is(&b->offsets, SHOAL_I64, b->count + 1)) return wrong("offsets of sparse rows must be i64 [rows + 1]");
  const int64_t *offsets = b->offsets.data;
  for (int64_t i = 0; i < b->count; i++)
    if (offsets[i + 1] < offsets[i]) return wrong("offsets of sparse rows must not fall");
  const int64_t n = entries_of(b, b->count);
  if (n && (!is(&b->indices, SHOAL_I32, n) || !is(&b->values, SHOAL_F32, n)))
    return wrong("of sparse rows, indices must be i32 and values f32, one for each entry that offsets count");
  if (n && r->schema.fields && !is(&b->fields, SHOAL_I32, n))
    return wrong("fields of sparse rows must be i32, one for each entry, in all rows or in none");
  const int32_t *indices = b->indices.data;
  for (int64_t i = 0; i < n; i++)
    if (indices[i] < 0 || (r->schema.features && !r->any_index && indices[i] >= r->schema.features))
      return status_make(SHOAL_ERR_INPUT,
                         "rows of the program: entry %lld has the index %d, but there are %lld features", (long long)i,
                         indices[i], (long long)r->schema.features);
  return NULL;
}

static shoal_status check_dense(const memory_reader *r, const shoal_batch *b) {
  const shoal_tensor *f = &b->features;
  const rows_schema *s = &r->schema;
  bool same = f->data && f->dtype == s->dtype && !f->rows && f->shape.rank == s->shape.rank + 1 &&
              f->shape.dim[0] == b->count &&
              !memcmp(f->shape.dim + 1, s->shape.dim, (size_t)s->shape.rank * sizeof *s->shape.dim);
  return same ? NULL : wrong("all batches must have features of the same type and shape, a row for each label");
}

static shoal_status check_weights(const shoal_batch *b) {
  if (!is(&b->weights, SHOAL_F32, b->count))
    return wrong("weights of rows must be f32 [rows], in all batches or in none");
  const float *weights = b->weights.data;
  for (int64_t i = 0; i < b->count; i++)
    if (!(weights[i] >= 0 && weights[i] < WEIGHT_END))
      return status_make(SHOAL_ERR_INPUT, "rows of the program: row %lld has the weight %g: expected at least 0",
                         (long long)i, (double)weights[i]);
  return NULL;
}

static shoal_status check(const memory_reader *r, const shoal_batch *b) {
  if (b->count < 0) return wrong("a batch cannot have fewer than 0 rows");
  if (r->schema.real_labels) {
    shoal_tensor first = b->targets; /* of each row */
    if (first.shape.rank == 2 && first.shape.dim[1] == r->schema.targets) first.shape.rank = 1;
    if (!is(&first, SHOAL_F32, b->count)) return wrong("targets must be f32 [rows], or as many for each row");
  }
  if (r->schema.weighted) TRY(check_weights(b));
  if (!r->schema.real_labels && b->labels.data && !is(&b->labels, SHOAL_I32, b->count))
    return wrong("labels must be i32 [rows]");
  if (!r->schema.real_labels && !b->labels.data && !r->labels_optional) return wrong("labels are needed to train");
  return r->schema.kind == ROWS_SPARSE ? check_sparse(r, b) : check_dense(r, b);
}

/* Makes the rows after those of `batch` the ones under way. *more false: there are none. */
static shoal_status advance(memory_reader *r, bool *more) {
  r->first += r->batch.count;
  r->next = 0;
  r->batch = (shoal_batch){0};
  *more = false;
  if (r->from->next) {
    TRY(r->from->next(r->from->context, &r->batch));
  } else if (!r->begun) {
    r->batch = *r->from->rows;
  }
  r->begun = true;
  *more = r->batch.count > 0;
  return *more ? check(r, &r->batch) : NULL;
}

static shoal_status begin(memory_reader *r) {
  if (r->from->next && r->from->rewind) TRY(r->from->rewind(r->from->context));
  r->batch = (shoal_batch){0};
  r->first = r->next = 0;
  r->begun = false;
  return NULL;
}

static shoal_status start(memory_reader *r, const format_options *o) {
  TRY(begin(r));
  shoal_batch first = {0};
  if (r->from->next)
    TRY(r->from->next(r->from->context, &first));
  else if (r->from->rows)
    first = *r->from->rows;
  if (first.count <= 0) return status_make(SHOAL_ERR_INPUT, "rows of the program: there are none");
  TRY(learn(&first, o, &r->schema));
  TRY(check(r, &first));
  r->batch = first;
  r->begun = true;
  return NULL;
}

static shoal_status open_reader(const char *path, const format_options *options, file_reader **out) {
  memory_reader *r = calloc(1, sizeof *r);
  if (!r) return status_no_memory();
  *r = (memory_reader){.base = {.format = &format_memory, .path = strdup(path)},
                       .from = options->source,
                       .labels_optional = options->labels_optional,
                       .any_index = options->any_index};
  shoal_status status = r->base.path ? start(r, options) : status_no_memory();
  if (status)
    close_reader(&r->base);
  else
    *out = &r->base;
  return status;
}

static void schema(const file_reader *base, rows_schema *out) { *out = ((const memory_reader *)base)->schema; }

static shoal_status copy_sparse(const shoal_batch *b, int64_t first, int64_t n, rows_block *into) {
  const int64_t from = entries_of(b, first), entries = entries_of(b, first + n) - from;
  TRY(rows_reserve(into, n, entries));
  const int64_t at = into->offsets[into->count];
  if (entries) {
    memcpy(into->indices + at, (const int32_t *)b->indices.data + from, (size_t)entries * sizeof(int32_t));
    memcpy(into->values + at, (const float *)b->values.data + from, (size_t)entries * sizeof(float));
    if (into->fields)
      memcpy(into->fields + at, (const int32_t *)b->fields.data + from, (size_t)entries * sizeof(int32_t));
  }
  for (int64_t i = 1; i <= n; i++) into->offsets[into->count + i] = at + entries_of(b, first + i) - from;
  return NULL;
}

static shoal_status copy_dense(const shoal_batch *b, int64_t first, int64_t n, rows_block *into) {
  const size_t bytes = rows_dense_bytes(&into->schema);
  TRY(rows_reserve(into, n, 0));
  memcpy((char *)into->features + (size_t)into->count * bytes, (const char *)b->features.data + (size_t)first * bytes,
         (size_t)n * bytes);
  return NULL;
}

static shoal_status copy_rows(const shoal_batch *b, int64_t first, int64_t n, rows_block *into) {
  TRY(into->schema.kind == ROWS_SPARSE ? copy_sparse(b, first, n, into) : copy_dense(b, first, n, into));
  const int32_t *labels = b->labels.data;
  const float *targets = b->targets.data;
  for (int64_t i = 0; i < n; i++) into->labels[into->count + i] = labels ? labels[first + i] : -1;
  const int64_t each = rows_targets(&into->schema);
  if (into->targets)
    memcpy(into->targets + into->count * each, targets + first * each, (size_t)(n * each) * sizeof *targets);
  if (into->weights)
    memcpy(into->weights + into->count, (const float *)b->weights.data + first, (size_t)n * sizeof *into->weights);
  into->count += n;
  return NULL;
}

static shoal_status read_rows(file_reader *base, int64_t most, rows_block *into, int64_t *got) {
  memory_reader *r = (memory_reader *)base;
  *got = 0;
  bool more = true;
  if (r->next == r->batch.count) TRY(advance(r, &more));
  if (!more) return NULL;
  const int64_t n = MIN_OF(most, r->batch.count - r->next);
  TRY(copy_rows(&r->batch, r->next, n, into));
  r->next += n;
  *got = n;
  return NULL;
}

static shoal_status skip(file_reader *base, int64_t rows, int64_t *got) {
  memory_reader *r = (memory_reader *)base;
  *got = 0;
  while (*got < rows) {
    bool more = true;
    if (r->next == r->batch.count) TRY(advance(r, &more));
    if (!more) return NULL;
    const int64_t n = MIN_OF(rows - *got, r->batch.count - r->next);
    r->next += n;
    *got += n;
  }
  return NULL;
}

static void tell(const file_reader *base, file_position *out) {
  const memory_reader *r = (const memory_reader *)base;
  *out = (file_position){r->first + r->next, 0};
}

static shoal_status seek(file_reader *base, const file_position *to) {
  memory_reader *r = (memory_reader *)base;
  int64_t passed = 0;
  TRY(begin(r));
  TRY(skip(base, to->record, &passed));
  if (passed == to->record) return NULL;
  return status_make(SHOAL_ERR_INPUT, "rows of the program: row %lld was requested, but there are %lld",
                     (long long)to->record, (long long)passed);
}

const format format_memory = {
    .name = "memory",
    .summary = "rows of the program itself",
    .open = open_reader,
    .schema = schema,
    .read = read_rows,
    .skip = skip,
    .tell = tell,
    .seek = seek,
    .close = close_reader,
};
