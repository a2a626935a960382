/* Decides which member of each replicated server is its primary: a thread for each server, in worker 0, that asks the
 * members how they are, makes views by ps_view.h, and tells them. Everything that is decided is on disk first, so that a
 * worker 0 that is started again goes on where its earlier life ended.
 *
 * Safe to use from one thread beside its own. */
#ifndef SHOAL_DIST_PS_ARBITER_H
#define SHOAL_DIST_PS_ARBITER_H

#include "dist/ps_protocol.h"

typedef struct {
  int servers, workers;
  const char *const *addresses; /* [members][servers]; kept by the caller */
  net_options net;
  const char *folder; /* views are kept there, a file a server: FOLDER/ps-0.view */
  double slack;       /* seconds of silence after which a member is replaced; 0: the standard */
} ps_arbiter_options;

typedef struct ps_arbiter ps_arbiter;

SHOAL_CHECKED shoal_status ps_arbiter_create(const ps_arbiter_options *options, ps_arbiter **out);
/* over: the job has ended well: members that are left are told so, and the files go. */
void ps_arbiter_destroy(ps_arbiter *a, bool over);
/* How often a backup of that server has become primary, and (clock) when the primary before was heard last. */
int ps_arbiter_failovers(ps_arbiter *a, int server, double *last_heard);

#endif
