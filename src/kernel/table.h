/* Tables of rows of any width, f32: looked up, pooled by example, and updated by rows.
 *
 *  1. Offsets, indices and fields are looked at before anything changes.
 *  2. Rows of a table lie anywhere in memory, and which ones is known long before they are needed: they are fetched some
 *     entries ahead.
 *  3. Threads cut the examples, or the rows to be changed, among them, so results hang on no number of threads. */
#ifndef SHOAL_KERNEL_TABLE_H
#define SHOAL_KERNEL_TABLE_H

#include "kernel/kernel.h"

/* What a table begins with: the first `zeros` columns 0, the others even in (-limit, limit), by the seed. */
typedef struct {
  uint64_t seed;
  int64_t width, zeros;
  float limit;
} table_start;

/* Elements [first, first + n) of the table, counted row by row. */
void table_initial(const table_start *start, int64_t first, int64_t n, float *out);

/* Sparse rows as kernels see them. */
typedef struct {
  const int64_t *offsets; /* [rows + 1] */
  const int32_t *indices; /* [entries]; NULL: not of interest */
  const int32_t *fields;  /* [entries]; NULL: they have none */
  int64_t rows, entries, table_rows;
  int64_t first_field, n_fields; /* entries of fields from first_field on count; n_fields is 1 where there are none */
} table_rows;

/* Fact 1. */
SHOAL_CHECKED shoal_status table_check(const table_rows *r);
/* Bytes for counts of so many fields. */
size_t table_scratch(int64_t fields);
/* Bytes to find each index of n once. */
size_t table_unique_scratch(int64_t n);

#define TABLE_KERNELS(isa)                                     \
  shoal_status table_bag_##isa(const kernel_call *);           \
  shoal_status table_bag_grad_##isa(const kernel_call *);      \
  shoal_status table_fm_##isa(const kernel_call *);            \
  shoal_status table_fm_grad_##isa(const kernel_call *);       \
  shoal_status table_pairs_##isa(const kernel_call *);         \
  shoal_status table_pairs_grad_##isa(const kernel_call *);    \
  shoal_status table_unique_##isa(const kernel_call *);        \
  shoal_status table_apply_sgd_##isa(const kernel_call *);     \
  shoal_status table_apply_adagrad_##isa(const kernel_call *); \
  shoal_status table_apply_rowwise_##isa(const kernel_call *); \
  shoal_status table_apply_adam_##isa(const kernel_call *);    \
  shoal_status table_apply_ftrl_##isa(const kernel_call *);

EACH_ISA(TABLE_KERNELS)

/* Slots of sparse_apply_rowwise_adagrad, one behind the other: rows [begin, end) have one sum, the others one for each number. */
typedef struct {
  int64_t begin, end, width;
} rowwise_slots;

/* in[0]: the variable; attr[3], attr[4]: how many rows have their own, and whether they are the first ones or the last. */
static inline rowwise_slots rowwise_slots_of(const shoal_shape *variable, const attr_value *attr) {
  const int64_t rows = variable->dim[0], plain = attr[3].i;
  rowwise_slots s = {.begin = attr[4].i ? plain : 0, .end = attr[4].i ? rows : rows - plain, .width = 1};
  for (int i = 1; i < variable->rank; i++) s.width *= variable->dim[i];
  return s;
}
static inline bool rowwise_slots_single(const rowwise_slots *s, int64_t row) { return row >= s->begin && row < s->end; }
/* Where the first slot of a row is. */
static inline int64_t rowwise_slots_place(const rowwise_slots *s, int64_t row) {
  if (row < s->begin) return row * s->width;
  const int64_t before = s->begin * s->width;
  return row < s->end ? before + row - s->begin : before + s->end - s->begin + (row - s->end) * s->width;
}

#endif
