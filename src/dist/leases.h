/* Which worker computes which batch of a training.
 *
 * Batches are numbered over the whole training: epoch x batches of an epoch + place in the epoch.
 *
 * 1. A batch is in one of three places: it is free, one worker has it, or it is done; so an epoch covers each row once,
 *    whoever dies.
 * 2. Free batches go out in ascending order: those given back before new ones.
 * 3. A worker has at most `depth` batches. It does them in the order it got them.
 *
 * One thread uses it. Nothing is allocated after leases_init. */
#ifndef SHOAL_DIST_LEASES_H
#define SHOAL_DIST_LEASES_H

#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

enum { LEASE_NONE = -1 };

/* How a training is cut into batches. */
typedef struct {
  int64_t batch; /* rows of a batch; the last of an epoch may have fewer */
  int64_t rows;  /* of an epoch */
  int64_t end;   /* batches in all */
  /* Or, with `parts` above 0, an epoch has rounds of so many rows, the last may have fewer, and each of them is cut
   * into so many batches along the leaves of a tree (dist/tree.h). Those of a short round may have none. */
  int64_t round;
  int parts;
} lease_plan;

/* Where a batch lies in its epoch. */
typedef struct {
  int64_t first, rows;           /* the batch */
  int64_t round, round_rows;     /* with parts: first row of its round, and how many that has */
  int64_t first_leaf, last_leaf; /* the same: of the round, [first, last) */
  int64_t number;                /* the same: of the round, over the whole training */
  int part;                      /* the same: of the round */
} lease_span;

typedef struct {
  lease_plan plan;
  int64_t next;      /* the first that nobody has had */
  int64_t *returned; /* [workers * depth] ascending */
  int n_returned;
  int64_t *held; /* [workers, depth]: the batches of each, oldest first, then LEASE_NONE */
  int workers, depth;
} leases;

int64_t lease_plan_epoch_batches(const lease_plan *p);
int64_t lease_plan_epoch(const lease_plan *p, int64_t batch);
lease_span lease_plan_span(const lease_plan *p, int64_t batch);
/* Rows of that batch. */
int64_t lease_plan_rows(const lease_plan *p, int64_t batch);

/* first: batches below it are done. */
SHOAL_CHECKED shoal_status leases_init(leases *l, const lease_plan *plan, int64_t first, int workers, int depth);
void leases_fini(leases *l);
/* The next free batch, or LEASE_NONE; it stays free. */
int64_t leases_free(const leases *l);
/* The worker's oldest batch, or LEASE_NONE. */
int64_t leases_held(const leases *l, int worker);
/* Gives the next free batch to a worker that may have one more; LEASE_NONE: there is none, or it may not. */
int64_t leases_take(leases *l, int worker);
/* Its oldest batch is done. LEASE_NONE: it had none. */
int64_t leases_finish(leases *l, int worker);
/* Its oldest batch is free again. LEASE_NONE: it had none. */
int64_t leases_give_back(leases *l, int worker);
/* All batches are done. */
bool leases_over(const leases *l);

/* Which batches are not done, whoever has them, as a line of text; and back: then nobody has one. */
void leases_write(const leases *l, text *out);
SHOAL_CHECKED shoal_status leases_read(leases *l, const char *words);

#endif
