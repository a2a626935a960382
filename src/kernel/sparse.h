/* Sparse rows: products with one column of weights, and logistic regression on them in one go.
 *
 * sparse_logistic_X does what the operators sparse_matmul, (bias_add,) sigmoid_cross_entropy, their gradients and
 * (sparse_)apply_X do, row by row, without writing down anything in between. One call makes one update out of all rows
 * or, when call->step_rows is set, one after the other out of so many rows each: what a row is scored with has seen the
 * rows before it. Facts:
 *  1. Offsets and indices are looked at before anything changes.
 *  2. A score that is no number ends the call before the update it would go into; updates before it are made.
 *  3. Sums over duplicates of an index are in the order of the entries, so the result is that of the operators. */
#ifndef SHOAL_KERNEL_SPARSE_H
#define SHOAL_KERNEL_SPARSE_H

#include "kernel/kernel.h"

/* Inputs: w and its slots [features, 1]; offsets i64 [rows + 1]; indices i32, values [entries]; labels i32 [rows]; rate
 * [] or [steps]; and, where there is one, the bias and its slots [1].
 * Outputs: w; mean loss []; share of rows right []. Attributes: those of apply_X. */
enum { SPARSE_OFFSETS = 1, SPARSE_INDICES, SPARSE_VALUES, SPARSE_LABELS, SPARSE_RATE, SPARSE_BIAS }; /* + slots */
enum { SPARSE_SLOTS_MAX = 2 };

typedef enum { SPARSE_SGD, SPARSE_ADAGRAD, SPARSE_FTRL } sparse_kind;

/* A call's operands by name. */
typedef struct {
  float *w[1 + SPARSE_SLOTS_MAX];    /* weights and slots, [features], `stride` apart */
  int64_t stride;                    /* 1, or, packed, 2 with one slot and 4 with two */
  float *bias[1 + SPARSE_SLOTS_MAX]; /* [1]; bias[0] NULL: there is none */
  const int64_t *offsets;            /* [rows + 1] */
  const int32_t *indices;            /* [entries], from offsets[0] on */
  const float *values;               /* [entries] */
  const int32_t *labels;             /* [rows] */
  const float *rates;                /* [steps], or one for all */
  bool many_rates;
  int64_t rows, entries, features;
  int64_t step_rows;    /* of one update */
  int64_t step_entries; /* of an update at most; known after sparse_check */
} sparse_job;

/* What was seen on the way. */
typedef struct {
  double loss;    /* sum over rows, but for */
  double product; /* whose logarithm is part of it */
  int64_t hits;
  int64_t bad_row; /* whose score is no number; -1: none */
} sparse_outcome;

void sparse_job_of(const kernel_call *call, int slots, sparse_job *out);
/* Fact 1. *once: no index stands twice in a row. */
SHOAL_CHECKED shoal_status sparse_check(sparse_job *j, bool *once);
/* Writes the outputs, or says which row was bad. */
SHOAL_CHECKED shoal_status sparse_finish(const kernel_call *call, const sparse_job *j, const sparse_outcome *sum);
/* Bytes for an update out of so many rows and entries, of each thread. */
size_t sparse_scratch(int64_t rows, int64_t entries);
/* Bits of the place in a table with room for so many indices twice over. */
int sparse_table_bits(int64_t entries);

/* Four sums side by side: the order in which every kernel adds up a row. */
#define SPARSE_DOT(type, sum, indices, values, w, stride, n)                                                       \
  do {                                                                                                             \
    type part_[4] = {0};                                                                                           \
    int64_t e_ = 0;                                                                                                \
    for (; e_ + 4 <= (n); e_ += 4)                                                                                 \
      for (int l_ = 0; l_ < 4; l_++) part_[l_] += (values)[e_ + l_] * (w)[(indices)[e_ + l_] * (int64_t)(stride)]; \
    for (; e_ < (n); e_++) part_[0] += (values)[e_] * (w)[(indices)[e_] * (int64_t)(stride)];                      \
    (sum) = (part_[0] + part_[1]) + (part_[2] + part_[3]);                                                         \
  } while (0)

#define SPARSE_KERNELS(isa)                                        \
  shoal_status sparse_product_##isa(const kernel_call *);          \
  shoal_status sparse_logistic_sgd_##isa(const kernel_call *);     \
  shoal_status sparse_logistic_adagrad_##isa(const kernel_call *); \
  shoal_status sparse_logistic_ftrl_##isa(const kernel_call *);

EACH_ISA(SPARSE_KERNELS)

#endif
