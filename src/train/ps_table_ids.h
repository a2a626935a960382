/* Tables of growing ids on parameter servers, as worker 0 saves and restores them: the rows of server 0, then those of
 * server 1, and so on, in the format of a process alone (model_ids.h), always all rows and none that is free. Which server
 * has an id hangs on their number alone, so another number of servers can go on with it. */
#ifndef SHOAL_TRAIN_PS_TABLE_IDS_H
#define SHOAL_TRAIN_PS_TABLE_IDS_H

#include "base/id_table.h"
#include "data/safetensors.h"
#include "dist/ps_client.h"

typedef struct ps_table_ids ps_table_ids;

/* names [n]: of the table and its slots, which live as long; rows of `width` numbers in it, of `slot_width` in them. */
SHOAL_CHECKED shoal_status ps_table_ids_create(const char *const *names, int n, int64_t width, int64_t slot_width,
                                               ps_table_ids **out);
void ps_table_ids_destroy(ps_table_ids *t);

SHOAL_CHECKED shoal_status ps_table_ids_count(ps_table_ids *t, ps_client *client, id_table_counts *out);
/* As model_elsewhere.items. */
SHOAL_CHECKED shoal_status ps_table_ids_items(ps_table_ids *t, ps_client *client, bool weights, safetensors_item *out,
                                              int *n);
/* To servers whose tables are new. */
SHOAL_CHECKED shoal_status ps_table_ids_restore(ps_table_ids *t, ps_client *client, safetensors *file);

#endif
