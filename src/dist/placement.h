/* Which parameter server holds which part of which variable.
 *
 * Every task works this out by itself from the same sizes, so nothing has to be sent. A variable larger than a fair
 * share is cut into slices of contiguous elements; then each piece, largest first, goes to the server that has least.
 * Inside a server its slices lie one after the other, in the order of the variables: one flat vector. */
#ifndef SHOAL_DIST_PLACEMENT_H
#define SHOAL_DIST_PLACEMENT_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct {
  int variable, server;
  int64_t first, count; /* elements of the variable */
  int64_t offset;       /* in the server's vector */
} placement_slice;

typedef struct {
  placement_slice *slices; /* by server, then by variable and first element */
  int n_slices;
  int servers;
  int64_t *elements; /* [servers] */
  int *begin;        /* [servers + 1]: server s has slices begin[s] .. begin[s + 1] */
} placement;

/* counts [n]: elements of each variable, each above 0. */
SHOAL_CHECKED shoal_status placement_make(const int64_t *counts, int n, int servers, placement *out);
/* The rows of a table, dealt out one by one: server s has the rows s, s + servers, ... `first` of its slice is s. Rows that
 * are asked for often, such as a model's other weights, mostly stand side by side: so each server has its share of them. */
SHOAL_CHECKED shoal_status placement_deal(int64_t rows, int servers, placement *out);
void placement_fini(placement *p);

#endif
