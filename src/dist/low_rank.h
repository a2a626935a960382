/* PowerSGD (Vogels et al. 2019): matrices of gradients travel between ranks as two thin factors.
 *
 * Of a matrix M [rows, columns] each rank computes P = M Q with the Q of the last step; the mean of P over the ranks is
 * orthogonalised; each rank computes Q = M' P, and P times the mean of Q' stands for the mean of M. Two exchanges of
 * (rows + columns) x rank numbers in place of one of rows x columns.
 *
 * 1. What the product leaves out of M is kept and added to the next step's (error feedback): it is late, not lost.
 * 2. Everything here depends on what was exchanged alone, so all ranks have the same bits in their result.
 * 3. Tensors that would not become a quarter as large travel whole, with the first exchange.
 * 4. A step allocates nothing. */
#ifndef SHOAL_DIST_LOW_RANK_H
#define SHOAL_DIST_LOW_RANK_H

#include "base/status.h"
#include "shoal/tensor.h"

#include <stdint.h>

typedef struct low_rank low_rank;

typedef struct {
  int64_t rows, columns;
} low_rank_shape;

/* Matrices with the outputs as columns, as weights of dense and convolutional layers are. */
low_rank_shape low_rank_shape_of(const shoal_shape *shape);

/* shapes: [tensors] of the vector of gradients, one after the other. rank: columns of the factors. All ranks give the
 * same. */
SHOAL_CHECKED shoal_status low_rank_create(const low_rank_shape *shapes, int tensors, int rank, uint64_t seed,
                                           low_rank **out);
void low_rank_destroy(low_rank *l);

/* Numbers that tensor i brings to the first and to the second exchange. */
int64_t low_rank_first_count(const low_rank *l, int tensor);
int64_t low_rank_second_count(const low_rank *l, int tensor); /* 0: travels whole, with the first */

/* The own gradients, scaled so that their sum over the ranks is wanted -> what is summed over the ranks first. */
void low_rank_first(low_rank *l, const float *gradients, float *first);
/* Its sum -> what is summed next. */
void low_rank_second(low_rank *l, float *first, float *second);
/* Both sums -> gradients for all. */
void low_rank_finish(low_rank *l, const float *first, const float *second, float *gradients);

/* Adds to `to`, as long as the gradients, what was left out so far and would be added to the next step's. */
void low_rank_add_left(const low_rank *l, float *to);

#endif
