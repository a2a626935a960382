/* A table of rows of numbers by 64-bit id, which grows with the ids that come and forgets those that do not.
 *
 * 1. An id has a row of its own, whatever other ids there are: open addressing from the whole id to the row's number.
 * 2. It gets one in the step in which it is seen for the `admit`th time. Until then it has none, and only how often it
 *    was seen is kept. A row begins with what `begin` puts there.
 * 3. It loses it when it has not been used for `evict_after` steps (and an eighth more at most), or when the table is
 *    full: then those go that have not been used for the longest time, a 32nd of all rows at once. Rows of the step under
 *    way never go. What comes back begins anew.
 * 4. With `memory`, all of it, the table never takes more. How often ids without a row were seen is then remembered of
 *    the last ones alone, in an eighth of the memory.
 * 5. All of this hangs on the sequence of ids and steps alone. A table that was saved and restored goes on as it would
 *    have: rows have the same numbers, and what follows the same bits.
 * Used by one thread. */
#ifndef SHOAL_BASE_ID_TABLE_H
#define SHOAL_BASE_ID_TABLE_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
  int64_t width;       /* numbers of a row */
  int64_t memory;      /* bytes at most; 0: as many as it takes */
  int64_t admit;       /* 0 and 1: at once; up to 255 */
  int64_t evict_after; /* steps; 0: never */
  void (*begin)(void *context, uint64_t id, float *row);
  void *context;
} id_table_options;

typedef struct id_table id_table;

/* Exact. */
typedef struct {
  int64_t ids;      /* that have a row */
  int64_t admitted; /* ... that ever got one, each time */
  int64_t evicted;
  int64_t bytes; /* of the table */
} id_table_counts;

SHOAL_CHECKED shoal_status id_table_create(const id_table_options *options, id_table **out);
void id_table_destroy(id_table *t); /* NULL is fine */

/* A step that trains on ids [n], each once: rows [n] become the numbers of their rows; -1: it has none yet. step: from
 * 1 on, never falling. */
SHOAL_CHECKED shoal_status id_table_use(id_table *t, int64_t step, const uint64_t *ids, int64_t n, int32_t *rows);
/* Where ids are looked at long before the step that uses them: old rows go now, at that step's beginning, and not only when
 * it comes. */
SHOAL_CHECKED shoal_status id_table_advance(id_table *t, int64_t step);
/* Whether an id without a row would get one in that step. Where memory is limited this may change until then. */
bool id_table_admits(const id_table *t, uint64_t id);
/* A hash of the id; where it is in the table hangs on its upper half. */
uint64_t id_table_hash(uint64_t id);
/* The same, but nothing changes. */
void id_table_find(const id_table *t, const uint64_t *ids, int64_t n, int32_t *rows);
/* Stays where it is as long as the table is there. */
float *id_table_row(const id_table *t, int64_t row);
void id_table_count(const id_table *t, id_table_counts *out);
/* Rows that so much memory is enough for. */
int64_t id_table_capacity(const id_table *t);

/* ---- saving: what the table is made of, row by row */

typedef struct {
  int64_t rows;     /* numbers of rows are below it; some of them may be free */
  int64_t free_row; /* the one to be taken first; -1: none */
  int64_t ids, admitted, evicted, step;
} id_table_state;

/* Of one row: its id and the step it was used last; of a free row the next free one (-1: none), and step 0. */
typedef struct {
  int64_t id, used;
} id_table_place;

void id_table_state_of(const id_table *t, id_table_state *out);
id_table_place id_table_at(const id_table *t, int64_t row);
/* Whether it has been used or freed since `id_table_clean` was last called. */
bool id_table_changed(const id_table *t, int64_t row);
void id_table_clean(id_table *t);
/* Ids without a row and how often they were seen; below 0: of the older ones. Returns how many; both [that many], or
 * NULL. */
int64_t id_table_waiting(const id_table *t, int64_t *ids, int32_t *seen);

/* Of a new table, before its first use: rows in any order, each once or several times (the last counts), then the state,
 * which says whether all fits together. SHOAL_ERR_INPUT: it does not. */
SHOAL_CHECKED shoal_status id_table_put(id_table *t, int64_t row, id_table_place place, float **numbers);
SHOAL_CHECKED shoal_status id_table_put_waiting(id_table *t, int64_t id, int32_t seen);
SHOAL_CHECKED shoal_status id_table_finish(id_table *t, const id_table_state *state);

#endif
