/* A model whose table of sparse features has no end: rows by 64-bit id (base/id_table.h).
 *
 * 1. The session's table is a small one. Before a step the rows of the batch's ids are put there, weights and the
 *    optimizer's slots, and the batch is computed with their places for indices; after it they are taken back. So layers,
 *    kernels and optimizers are those of any table, and a row's numbers lie together in memory.
 * 2. An id without a row, not admitted yet or unknown to an evaluation, has zeros for weights: it adds nothing.
 * 3. A row begins with the numbers that a table of fixed size has at that place (kernel/table.h): without a limit,
 *    training gives the same bits as such a table.
 * 4. A checkpoint has all rows, or those that changed since the last one that has all. */
#ifndef SHOAL_TRAIN_MODEL_IDS_H
#define SHOAL_TRAIN_MODEL_IDS_H

#include "base/id_table.h"
#include "train/model.h"

/* Of a compiled model, which owns it from then on: m->ids. */
SHOAL_CHECKED shoal_status model_ids_create(shoal_model *m);
void model_ids_destroy(model_ids *t); /* NULL is fine */

/* Before and after step `step`, from 1 on, that trains on the batch. */
SHOAL_CHECKED shoal_status model_ids_take(model_ids *t, const shoal_batch *b, int64_t step, shoal_tensor *indices);
void model_ids_put_back(model_ids *t);
void model_ids_count(const model_ids *t, id_table_counts *out);
/* Entries of batches looked at whose ids have no row, since it was last asked. */
int64_t model_ids_unknown(model_ids *t);

/* The next row from *row on, and its id and weights; false: there is none. Before the first, *row is 0. */
bool model_ids_next(const model_ids *t, int64_t *row, int64_t *id, const float **weights);

/* Whether a variable is of the table: then it is saved by the functions below. */
bool model_ids_has(const model_ids *t, const shoal_value *variable);
#define MODEL_IDS_ITEMS 10
/* The same of a table of growing ids here or elsewhere. */
bool model_grows_in(const shoal_model *m, const shoal_value *variable);
/* What a file of weights has of it: rows of ids, in the order of their numbers. Returns how many; valid until the table
 * changes. */
int model_ids_weights(model_ids *t, safetensors_item out[MODEL_IDS_ITEMS]);
/* What a checkpoint has of it. some: the rows that changed since the last one with all; they are copied. */
SHOAL_CHECKED shoal_status model_ids_saved(model_ids *t, bool some, safetensors_item out[MODEL_IDS_ITEMS], int *n);
/* The share of rows that changed since then, 0 to 1. */
double model_ids_changed(const model_ids *t);
/* A checkpoint with all rows is safe, or was read. */
void model_ids_clean(model_ids *t);

/* From a file of weights, or from a checkpoint; one with some rows is read after the one with all. */
SHOAL_CHECKED shoal_status model_ids_load(model_ids *t, const char *base, const char *path);

#endif
