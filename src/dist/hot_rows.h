/* How unevenly the rows of a table are asked for: counts of a sample of requests, in little memory. */
#ifndef SHOAL_DIST_HOT_ROWS_H
#define SHOAL_DIST_HOT_ROWS_H

#include "base/status.h"

#include <stdint.h>

#define HOT_ROWS 256      /* of a server, that are called its hottest */
#define HOT_ROWS_EVERY 16 /* one of so many requests is counted */

typedef struct hot_rows hot_rows;

SHOAL_CHECKED shoal_status hot_rows_create(hot_rows **out);
void hot_rows_destroy(hot_rows *h); /* NULL is fine */
/* A row was asked for. When there is no room, rows that were not counted before are left out: hot ones have come by then. */
void hot_rows_count(hot_rows *h, uint64_t row);
/* The share of the HOT_ROWS rows that were asked for most often, of all that were counted; 0: none were. */
double hot_rows_share(const hot_rows *h);

#endif
