/* Which ids a batch has: each once, server by server (ps_id_server), ascending, and the batch by their places. */
#ifndef SHOAL_DIST_ID_SET_H
#define SHOAL_DIST_ID_SET_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct {
  uint64_t id;
  uint32_t number, server;
} id_set_entry;

typedef struct {
  uint64_t *ids; /* [n] */
  int64_t n;
  int64_t *first;  /* [servers + 1] of each server's */
  int32_t *places; /* [entries] of each entry in `ids` */
  /* room */
  size_t cap_ids, cap_first, cap_places, cap_table, cap_found;
  uint32_t *table;     /* [1 << bits] 1 + the number of an id, in the order they were met; 0: free */
  id_set_entry *found; /* [2 n] and room to sort them */
} id_set;

/* Of ids [entries]. Allocates only when there are more than ever before. */
SHOAL_CHECKED shoal_status id_set_make(id_set *s, const int64_t *ids, int64_t entries, int servers);
void id_set_fini(id_set *s);

#endif
