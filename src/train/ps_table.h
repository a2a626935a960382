/* A worker's end of a table that lies on parameter servers: one weight a feature, of which a batch touches few.
 *
 * The session's own variable is a small table. For each batch the features it touches are numbered 0, 1, ... in their
 * order, the rows of these features are put there, and the batch is computed with these numbers for indices; so a
 * worker's memory does not depend on the number of features. A bias is the row behind the last feature. */
#ifndef SHOAL_TRAIN_PS_TABLE_H
#define SHOAL_TRAIN_PS_TABLE_H

#include "dist/ps_client.h"
#include "train/model.h"

typedef struct ps_table ps_table;

/* Rows of the whole table, the bias included; fails for models that a table cannot hold. */
SHOAL_CHECKED shoal_status ps_table_rows(const shoal_model *m, int64_t *out);
/* Borrows both; from now on the model's variables are the servers' (model_elsewhere). */
SHOAL_CHECKED shoal_status ps_table_create(shoal_model *m, ps_client *client, ps_table **out);
void ps_table_destroy(ps_table *t);

/* Brings the rows of a batch at once. keep: its gradients come next. *indices: the batch's, as numbers in the session's
 * table; they live until the next call. */
SHOAL_CHECKED shoal_status ps_table_fetch(ps_table *t, const shoal_batch *b, bool keep, shoal_tensor *indices);
/* Gradients out, as the session has made them: of each entry of the batch fetched last, [entries, 1], and, if there is
 * one, of the bias. Brings the rows of `next`; NULL: none. */
SHOAL_CHECKED shoal_status ps_table_push(ps_table *t, const shoal_tensor *gradients, const shoal_batch *next,
                                         ps_head *head, shoal_tensor *indices, ps_answer *out);
/* Whether the rows fetched last are still there, and the next gradients about them: an evaluation fetches others. */
bool ps_table_kept(const ps_table *t);
/* They no longer are: the servers have forgotten what was asked for. */
void ps_table_forget(ps_table *t);
/* Rows that the batch fetched last touches. */
int64_t ps_table_touched(const ps_table *t);
/* All rows and slots, out of a checkpoint. */
SHOAL_CHECKED shoal_status ps_table_restore(ps_table *t, const char *path);

#endif
