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

#endif
