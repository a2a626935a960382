/* A worker's end of tables that lie on parameter servers: a row for each feature, of which a batch touches few.
 *
 * All tables of a model have a row for each feature; on the servers they stand side by side, as columns of one. The
 * session's own variables are small tables. For each batch the features it touches are numbered 0, 1, ... in their
 * order, the rows of these features are put there, and the batch is computed with these numbers for indices; so a
 * worker's memory does not depend on the number of features. All other weights of the model, one after the other, fill
 * rows behind the last feature, which every batch touches.
 *
 * Features may be growing ids (rule 27 of dist/ps_protocol.h): then the servers have rows of the ids that came, and the
 * other weights' rows are their first ones. */
#ifndef SHOAL_TRAIN_PS_TABLE_H
#define SHOAL_TRAIN_PS_TABLE_H

#include "dist/ps_client.h"
#include "train/model.h"

typedef struct ps_table ps_table;

/* What a model's tables are like on the servers. */
typedef struct {
  int64_t width;                     /* of a row: of all tables together */
  int64_t rows;                      /* in all */
  int64_t other_rows;                /* of them, the last ones: of other weights; of growing ids the first ones */
  ps_columns columns[PS_TABLES_MAX]; /* of each, in the order of the weights */
  int tables;
  bool row_slots; /* as in ps_terms */
} ps_table_shape;

/* Of features' rows, not of other weights: those are needed in each step. */
typedef struct {
  int64_t rows;      /* 0: none are kept */
  int64_t staleness; /* steps that a row may be old; 0: PS_CACHE_STALENESS */
} ps_table_cache;

enum { PS_CACHE_ROWS_MAX = 1 << 24, PS_CACHE_STALENESS = 1 };

/* Whether it is the first weight of the model. */
bool ps_table_first(const shoal_model *m);
/* Fails for models that a table cannot hold. */
SHOAL_CHECKED shoal_status ps_table_find(const shoal_model *m, int servers, ps_table_shape *out);
/* Borrows both; from now on the model's variables are the servers' (model_elsewhere). cache: NULL, or rows that are kept
 * here (row_cache.h). */
SHOAL_CHECKED shoal_status ps_table_create(shoal_model *m, ps_client *client, const ps_table_cache *cache,
                                           ps_table **out);
void ps_table_destroy(ps_table *t);

/* Brings the rows of a batch at once. keep: its gradients come next. *indices: the batch's, as numbers in the session's
 * table; they live until the next call. */
SHOAL_CHECKED shoal_status ps_table_fetch(ps_table *t, const shoal_batch *b, bool keep, shoal_tensor *indices);
/* Numbers of a gradient that is about the batch fetched last; and at most, of any. */
int64_t ps_table_numbers(const ps_table *t);
int64_t ps_table_most(const ps_table *t);
/* out [ps_table_numbers]: what the gradients have come to, as the session has made them, of all weights in their order: of
 * the table one row for each entry of the batch fetched last from entry `first` on. */
void ps_table_sum(const ps_table *t, const shoal_tensor *gradients, int64_t first, float *out);
/* Gradients out, which ps_table_sum has made; of a round, one vector for each node of head's leaves. NULL when
 * head->examples is 0. Brings the rows of `next`; NULL: none. */
SHOAL_CHECKED shoal_status ps_table_push(ps_table *t, const float *const *gradients, const shoal_batch *next,
                                         ps_head *head, shoal_tensor *indices, ps_answer *out);
/* Whether the rows fetched last are still there, and the next gradients about them: an evaluation fetches others. */
bool ps_table_kept(const ps_table *t);
/* They no longer are: the servers have forgotten what was asked for. */
void ps_table_forget(ps_table *t);
/* The same: they are others. */
void ps_table_use(ps_table *t, ps_client *client);
/* All that the servers hold of it goes to those of `to`. */
SHOAL_CHECKED shoal_status ps_table_copy(ps_table *t, ps_client *to);
/* Rows that the batch fetched last touches. */
int64_t ps_table_touched(const ps_table *t);
/* At a training's beginning: the weights that are not the table's, as they began. */
SHOAL_CHECKED shoal_status ps_table_upload(ps_table *t);
/* All rows and slots, out of a checkpoint. */
SHOAL_CHECKED shoal_status ps_table_restore(ps_table *t, const char *path);

#endif
