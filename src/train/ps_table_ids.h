/* Tables of growing ids on parameter servers, as worker 0 saves and restores them: the rows of server 0, then those of
 * server 1, and so on, in the format of a process alone (model_ids.h): all rows and none that is free, or those that have
 * changed since. Which server has an id hangs on their number alone, so another number of servers can go on with it. */
#ifndef SHOAL_TRAIN_PS_TABLE_IDS_H
#define SHOAL_TRAIN_PS_TABLE_IDS_H

#include "base/id_table.h"
#include "data/safetensors.h"
#include "dist/ps_client.h"
#include "train/model.h"

typedef struct ps_table_ids ps_table_ids;

/* names [n]: of the table and its slots, which live as long; rows of `width` numbers in it, of `slot_width` in them. */
SHOAL_CHECKED shoal_status ps_table_ids_create(const char *const *names, int n, int64_t width, int64_t slot_width,
                                               ps_table_ids **out);
void ps_table_ids_destroy(ps_table_ids *t);

SHOAL_CHECKED shoal_status ps_table_ids_count(ps_table_ids *t, ps_client *client, id_table_counts *out);
/* As model_elsewhere.items, changed and clean. Rows of a checkpoint with some are named by their places in the one with all, new
 * ones by those behind them, as in a process alone. */
SHOAL_CHECKED shoal_status ps_table_ids_items(ps_table_ids *t, ps_client *client, model_ids_part of,
                                              safetensors_item *out, int *n);
double ps_table_ids_changed(ps_table_ids *t, ps_client *client, int64_t step);
SHOAL_CHECKED shoal_status ps_table_ids_clean(ps_table_ids *t, ps_client *client, int64_t step);
/* To servers whose tables are new. base: NULL, or the file with all rows, if `file` has those that changed since. */
SHOAL_CHECKED shoal_status ps_table_ids_restore(ps_table_ids *t, ps_client *client, safetensors *base,
                                                safetensors *file);

#endif
