/* A server's rows by id (rule 27 of ps_protocol.h): a table that grows (base/id_table.h), beside the small table of the
 * server's vectors, whose first rows are those of other parameters.
 *
 * 1. An update copies the rows of its ids, with their slots, behind those, some at a time, and copies them back. So the
 *    update is that of any table.
 * 2. What workers ask for changes nothing; ids are counted, get rows and lose them when gradients are used, a step's ids
 *    all at once. So it does not matter who asked when, and a process alone does the same with the same batches.
 * 3. Used through sparse_rows.h. Nothing but the table itself grows once it is made. */
#ifndef SHOAL_DIST_ID_ROWS_H
#define SHOAL_DIST_ID_ROWS_H

#include "dist/ps_protocol.h"
#include "dist/ps_vectors.h"

/* Rows of a server's vectors that are for rule 1. */
#define ID_ROWS_AT_ONCE 4096

/* As it is read by PS_IDS_STATE. */
typedef struct {
  int64_t ids, admitted, evicted, step, waiting, bytes;
  int64_t base, changed; /* rule 29: the number of the base, -1: there is none; rows that have changed since */
} id_rows_state;
#define ID_ROWS_STATE ((int64_t)(sizeof(id_rows_state) / sizeof(int64_t)))

/* Records of a WRITE: with PS_IDS a row, followed by all its numbers; with PS_IDS_WAITING an id without one, `used` is how
 * often it was seen; with PS_IDS_STATE, last, one id_rows_state. */
typedef struct {
  int64_t id, used;
} id_rows_record;

typedef struct id_rows id_rows;

SHOAL_CHECKED shoal_status id_rows_create(const ps_terms *terms, const ps_vectors *v, id_rows **out);
void id_rows_destroy(id_rows *r);

void id_rows_forget(id_rows *r, int worker);
/* Rows of the last answer to that worker, which its gradient is about. */
int64_t id_rows_given(const id_rows *r, int worker);
/* The keys of a message, at `bytes`; NULL, or what is wrong with them. */
SHOAL_CHECKED const char *id_rows_ask(id_rows *r, int worker, const uint8_t *bytes, size_t length, int64_t n,
                                      bool others);
/* The ids that it has asked for and is not answered yet. */
const uint64_t *id_rows_asked(const id_rows *r, int worker, int64_t *n);
/* Into values, but for the rows with a mark; returns how many rows. */
int64_t id_rows_answer(id_rows *r, int worker, const ps_vectors *v, bool keep, const ps_marks *marks, float *values);
int64_t id_rows_repeat(id_rows *r, int worker, const ps_vectors *v, const ps_marks *marks, float *values);

/* The ids of n gradients become one list; keys [rows of its last answer] of each gradient's worker: places of its rows in it,
 * behind which the rows of other parameters have theirs. */
void id_rows_join(id_rows *r, const ps_gradient *gradients, int n, int32_t *const *keys);
/* One update by the sums [that list, width], which is step `step`, from 1 on. */
SHOAL_CHECKED shoal_status id_rows_update(id_rows *r, ps_vectors *v, const float *sums, int64_t step, double rate);

/* Rule 27: READ. *out lives until the next call. NULL, or what is wrong. */
SHOAL_CHECKED const char *id_rows_read(id_rows *r, const ps_piece *piece, net_part *out);
/* WRITE of the records behind the piece. *wrong: as above. */
SHOAL_CHECKED shoal_status id_rows_write(id_rows *r, const ps_piece *piece, const uint8_t *bytes, size_t length,
                                         const char **wrong);

#endif
