/* Tables packed with their optimizers' slots: row 0 of the table, row 0 of each slot, row 1 of the table, ... An update
 * of one row then touches one place in memory instead of one an array, and each such place is a cache miss. Rows of three
 * numbers are followed by one that nobody reads: they then lie in one cache line each, and move as one vector of four.
 *
 *  1. A table's numbers are in one of two places: in the variables' own memory, or packed. Neither moves, so plans keep
 *     their addresses; the pages of the other place are given back to the system.
 *  2. They are packed while runs go on that update them and whose kernels all can (op_variant.packs). Before any other
 *     run that touches them, and for whoever asks for the variables, they are put back.
 *  3. A variable whose address was given away for good (shoal_session_variable) is never packed again, nor are
 *     those of a session that shares its variables. */
#ifndef SHOAL_EXEC_PACKED_H
#define SHOAL_EXEC_PACKED_H

#include "exec/plan.h"

enum { PACKED_ARRAYS_MAX = 3 };

typedef struct packed_table {
  int ids[PACKED_ARRAYS_MAX]; /* variables: the table, then its slots */
  int arrays;
  int64_t rows, width; /* numbers of a row of one array */
  int64_t row;         /* numbers from a packed row to the next */
  float *block;
  bool packed; /* where the numbers are */
  bool fixed;  /* fact 3 */
} packed_table;

/* Before a run of the plan: facts 2 and 3. */
SHOAL_CHECKED shoal_status packed_prepare(plan *p);
/* The variable is in its own memory; for good, if so wanted. */
void packed_release(shoal_session *s, int id, bool for_good);
/* All variables are; nothing is packed from now on. */
void packed_never(shoal_session *s);
void packed_destroy(shoal_session *s);

#endif
