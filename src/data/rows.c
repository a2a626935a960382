#include "data/rows.h"

#include "base/mem.h"

#include <string.h>

void rows_init(rows_block *b, const rows_schema *schema) { *b = (rows_block){.schema = *schema}; }

void rows_fini(rows_block *b) {
  free(b->labels);
  free(b->targets);
  free(b->weights);
  free(b->features);
  free(b->offsets);
  free(b->indices);
  free(b->values);
  free(b->fields);
  free(b->ids);
  free(b->bytes);
  *b = (rows_block){.schema = b->schema};
}

void rows_clear(rows_block *b) {
  b->count = 0;
  if (b->offsets) b->offsets[0] = 0;
}

int64_t rows_drop_beyond(rows_block *b, int64_t features) {
  int64_t kept = 0, all = b->offsets[b->count];
  for (int64_t i = 0, at = 0; i < b->count; i++) {
    for (int64_t end = b->offsets[i + 1]; at < end; at++) {
      if (b->indices[at] >= features) continue;
      b->indices[kept] = b->indices[at];
      if (b->fields) b->fields[kept] = b->fields[at];
      b->values[kept++] = b->values[at];
    }
    b->offsets[i + 1] = kept;
  }
  return all - kept;
}

size_t rows_dense_bytes(const rows_schema *schema) {
  return (size_t)shoal_shape_count(&schema->shape) * shoal_dtype_size(schema->dtype);
}

/* *array, of which the first `used` bytes count, becomes one of n elements of `size` bytes, aligned for the kernels. */
static shoal_status widen(void *array, size_t used, size_t n, size_t size) {
  void *old, *wider;
  if (size && n > SIZE_MAX / size) return status_no_memory();
  TRY(mem_aligned(n * size, &wider));
  memcpy(&old, array, sizeof old); /* pointers to whatever type */
  if (used) memcpy(wider, old, used);
  free(old);
  memcpy(array, &wider, sizeof wider);
  return NULL;
}

/* Twice what there was, or what is needed. */
static size_t next_capacity(size_t capacity, size_t need) {
  size_t doubled = capacity > SIZE_MAX / 2 ? SIZE_MAX : capacity * 2;
  return MAX_OF(doubled, need);
}

static shoal_status reserve_rows(rows_block *b, size_t rows) {
  size_t count = (size_t)b->count;
  if (rows > SIZE_MAX / 2 - count) return status_no_memory();
  if (count + rows <= b->row_capacity) return NULL;
  size_t capacity = next_capacity(b->row_capacity, count + rows);
  TRY(widen(&b->labels, count * sizeof *b->labels, capacity, sizeof *b->labels));
  const size_t targets = (size_t)rows_targets(&b->schema) * sizeof *b->targets;
  if (b->schema.real_labels) TRY(widen(&b->targets, count * targets, capacity, targets));
  if (b->schema.weighted) TRY(widen(&b->weights, count * sizeof *b->weights, capacity, sizeof *b->weights));
  if (b->schema.kind == ROWS_DENSE) {
    size_t row = rows_dense_bytes(&b->schema);
    TRY(widen(&b->features, count * row, capacity, row));
  } else {
    size_t used = b->offsets ? (count + 1) * sizeof *b->offsets : 0;
    TRY(widen(&b->offsets, used, capacity + 1, sizeof *b->offsets));
  }
  b->row_capacity = capacity;
  return NULL;
}

/* reserve_rows has made offsets. */
static shoal_status reserve_entries(rows_block *b, size_t entries) {
  size_t used = (size_t)b->offsets[b->count];
  if (entries > SIZE_MAX / 2 - used) return status_no_memory();
  if (used + entries <= b->entry_capacity) return NULL;
  size_t capacity = next_capacity(b->entry_capacity, used + entries);
  if (b->schema.kind == ROWS_BYTES) {
    TRY(widen(&b->bytes, used, capacity, 1));
  } else {
    TRY(widen(&b->indices, used * sizeof *b->indices, capacity, sizeof *b->indices));
    TRY(widen(&b->values, used * sizeof *b->values, capacity, sizeof *b->values));
    if (b->schema.fields) TRY(widen(&b->fields, used * sizeof *b->fields, capacity, sizeof *b->fields));
    if (b->schema.ids) TRY(widen(&b->ids, used * sizeof *b->ids, capacity, sizeof *b->ids));
  }
  b->entry_capacity = capacity;
  return NULL;
}

shoal_status rows_reserve(rows_block *b, int64_t rows, int64_t entries) {
  if (rows < 0 || entries < 0)
    return status_make(SHOAL_ERR_INTERNAL, "%lld rows and %lld entries are more than memory can address",
                       (long long)rows, (long long)entries);
  TRY(reserve_rows(b, (size_t)rows));
  /* Offsets are there even before the first row, for offsets[0]. */
  if (b->schema.kind != ROWS_DENSE && !b->offsets) TRY(reserve_rows(b, 1));
  return b->schema.kind == ROWS_DENSE ? NULL : reserve_entries(b, (size_t)entries);
}

shoal_status rows_append(rows_block *to, const rows_block *from, int64_t i) {
  rows_kind kind = to->schema.kind;
  if (kind != from->schema.kind || (to->schema.fields && !from->schema.fields) || to->schema.ids != from->schema.ids ||
      i < 0 || i >= from->count ||
      (kind == ROWS_DENSE &&
       (to->schema.dtype != from->schema.dtype || !shoal_shape_equal(&to->schema.shape, &from->schema.shape))) ||
      (to->targets && from->targets && rows_targets(&to->schema) != rows_targets(&from->schema)))
    return status_make(SHOAL_ERR_INTERNAL, "row %lld of %lld does not fit the block it is appended to", (long long)i,
                       (long long)from->count);
  int64_t entries = kind == ROWS_DENSE ? 0 : from->offsets[i + 1] - from->offsets[i];
  TRY(rows_reserve(to, 1, entries));
  int64_t at = to->count;
  to->labels[at] = from->labels[i];
  const int64_t n = rows_targets(&to->schema);
  if (to->targets && from->targets)
    memcpy(to->targets + at * n, from->targets + i * n, (size_t)n * sizeof *to->targets);
  else if (to->targets)
    to->targets[at] = (float)from->labels[i];
  if (to->weights) to->weights[at] = from->weights ? from->weights[i] : 1;
  if (kind == ROWS_DENSE) {
    size_t row = rows_dense_bytes(&to->schema);
    memcpy((char *)to->features + (size_t)at * row, (const char *)from->features + (size_t)i * row, row);
  } else {
    const size_t entry_count = (size_t)entries;
    int64_t start = to->offsets[at], source = from->offsets[i];
    if (kind == ROWS_BYTES) {
      if (entry_count) memcpy(to->bytes + start, from->bytes + source, entry_count);
    } else if (entry_count) {
      memcpy(to->indices + start, from->indices + source, entry_count * sizeof *to->indices);
      memcpy(to->values + start, from->values + source, entry_count * sizeof *to->values);
      if (to->fields) memcpy(to->fields + start, from->fields + source, entry_count * sizeof *to->fields);
      if (to->ids) memcpy(to->ids + start, from->ids + source, entry_count * sizeof *to->ids);
    }
    to->offsets[at + 1] = start + entries;
  }
  to->count++;
  return NULL;
}
