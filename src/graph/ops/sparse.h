/* What operators on sparse rows share: rows are cut out of their entries by offsets, which are counted from the first one,
 * so that a piece of the rows is a view. */
#ifndef SHOAL_GRAPH_OPS_SPARSE_H
#define SHOAL_GRAPH_OPS_SPARSE_H

#include "graph/ops/util.h"

/* Index i of a tensor of i32 or i64, which must lie in [0, rows). `first` is where this part starts in the batch. */
static inline shoal_status index_at(const shoal_tensor *indices, int64_t i, int64_t rows, int64_t first, int64_t *out) {
  int64_t index = index_get(indices, i);
  if (index < 0 || index >= rows)
    return status_make(SHOAL_ERR_INPUT, "index %lld at position %lld is out of range: there are %lld rows",
                       (long long)index, (long long)(first + i), (long long)rows);
  *out = index;
  return NULL;
}

static inline shoal_status check_offsets_shape(const op_shapes *s) {
  TRY(rule_rank(s, 0, 1, "offsets"));
  if (s->in_dtype[0] != SHOAL_I64)
    return status_make(SHOAL_ERR_ARGUMENT, "offsets must be i64, not %s", shoal_dtype_name(s->in_dtype[0]));
  if (s->in[0].dim[0] == 0) return status_make(SHOAL_ERR_ARGUMENT, "offsets are empty: n rows need n + 1 of them");
  return NULL;
}

static inline shoal_status check_indices_shape(const op_shapes *s, int i) {
  TRY(rule_rank(s, i, 1, "indices"));
  return rule_index(s, i, "indices");
}

static inline int64_t rows_of_offsets(const shoal_shape *offsets) {
  return offsets->dim[0] == SHOAL_UNKNOWN ? SHOAL_UNKNOWN : offsets->dim[0] - 1;
}

/* dy is [n, k]. */
static inline shoal_status check_dy_shape(const op_shapes *s, int i, int64_t k) {
  TRY(rule_rank(s, i, 2, "dy"));
  int64_t n = rows_of_offsets(&s->in[0]);
  if (dims_fit(s->in[i].dim[0], n) && dims_fit(s->in[i].dim[1], k)) return NULL;
  char a[SHOAL_SHAPE_TEXT];
  return status_make(SHOAL_ERR_ARGUMENT, "dy %s must have %lld rows and %lld columns", shoal_shape_text(&s->in[i], a),
                     (long long)n, (long long)k);
}

/* Entries [*from, *to) of row i, which must lie within [0, entries). */
static inline shoal_status entries_of(const shoal_tensor *offsets, int64_t i, int64_t entries, int64_t *from,
                                      int64_t *to) {
  const int64_t *o = offsets->data;
  /* They come from outside and may be anything: differences that wrap are refused below. */
  int64_t first = (int64_t)((uint64_t)o[i] - (uint64_t)o[0]), last = (int64_t)((uint64_t)o[i + 1] - (uint64_t)o[0]);
  if (first < 0 || first > last || last > entries)
    return status_make(SHOAL_ERR_INPUT, "row %lld has entries %lld to %lld: offsets must ascend within 0 .. %lld",
                       (long long)i, (long long)first, (long long)last, (long long)entries);
  *from = first;
  *to = last;
  return NULL;
}

#endif
