/* A checkpoint written while training goes on.
 *
 * 1. What is saved is copied between two steps, then a thread writes the copy: training stops for the copy, never for
 *    the disk. The copy's memory is kept for the next one.
 * 2. Entries that are read in pieces (tables on parameter servers) have no copy in memory: all is written to the file's
 *    temporary name between the two steps, and the thread only syncs and renames it. So the memory of a worker does not
 *    depend on the size of the table.
 * 3. One is written at a time.
 * Used by one thread. */
#ifndef SHOAL_TRAIN_SNAPSHOT_H
#define SHOAL_TRAIN_SNAPSHOT_H

#include "train/fit_state.h"

typedef struct snapshot snapshot;

SHOAL_CHECKED shoal_status snapshot_create(snapshot **out);
void snapshot_destroy(snapshot *s); /* waits */
/* Is one being written? */
bool snapshot_busy(const snapshot *s);
/* As fit_save, but returns once the copy is made; the one before must have been waited for. */
SHOAL_CHECKED shoal_status snapshot_start(snapshot *s, const fit_saved *saved, const char *dir, const char *settings,
                                          int keep);
/* Waits for the one under way, if there is one; how its writing went, and of which step it was. */
SHOAL_CHECKED shoal_status snapshot_wait(snapshot *s, int64_t *step);

#endif
