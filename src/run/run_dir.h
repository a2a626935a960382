/* The folder of a run: where its files lie, and that no run is written over by accident, nor two write there at once. */
#ifndef SHOAL_RUN_RUN_DIR_H
#define SHOAL_RUN_RUN_DIR_H

#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>

#define RUN_MODEL "model.json" /* in the folder: the model file with the values in force */

typedef struct {
  char *path;
  char *checkpoints, *summary, *metrics, *settings, *weights, *trace, *model; /* paths inside it */
  char *holder;                                                               /* the file that says who works there */
  int lock; /* 0: not taken; otherwise a descriptor plus 1 */
} run_dir;

/* Only the paths; makes nothing. */
SHOAL_CHECKED shoal_status run_dir_init(const char *path, run_dir *out);
void run_dir_fini(run_dir *r);
/* Holds (or held) a run. */
bool run_dir_used(const run_dir *r);
/* The folder and those above it, unless they are there. */
SHOAL_CHECKED shoal_status run_dir_make(const char *folder);
/* Makes the folder and those above it, and keeps other processes from working there until run_dir_fini, or the end of this
 * process. SHOAL_ERR_ARGUMENT: one does, by process and host. Where the file system knows no locks, nobody is kept away. */
SHOAL_CHECKED shoal_status run_dir_take(run_dir *r);
bool run_dir_taken(const run_dir *r);
/* Of a folder that was taken: whether it is still the one under its name. */
SHOAL_CHECKED shoal_status run_dir_check(const run_dir *r);
/* Whether another process has. */
bool run_dir_busy(const run_dir *r);
/* The error for that, with who works there, as it says itself. */
SHOAL_CHECKED shoal_status run_dir_refuse(const run_dir *r);
/* What processes that were killed in the middle of a write have left; the folder must be taken, and nobody else write to it. */
void run_dir_remove_temporary(const run_dir *r);

/* settings.json: {"model": ..., "classes": ..., "class_names": [...], "preprocessing": {...}, "flags": {...}} and, which is
 * added here, "shoal_version". classes, their names and preprocessing: of the training data. */
SHOAL_CHECKED shoal_status run_dir_write_settings(const run_dir *r, json_t *settings);
/* The caller owns *out, an object whose "model" is a string and "flags" an object. */
SHOAL_CHECKED shoal_status run_dir_read_settings(const char *path, json_t **out);

/* Writes `value` to a temporary name beside `path`, syncs and renames it. */
SHOAL_CHECKED shoal_status json_write_atomically(const json_t *value, const char *path);

/* `target` is a run's folder or a file of weights. *weights: the file to load: of a run its final weights, or else its
 * newest checkpoint. *settings: the run's settings, with its model file, if there is one, as "model_file"; NULL for a
 * file outside a run. Both are the caller's. */
SHOAL_CHECKED shoal_status run_dir_resolve(const char *target, char **weights, json_t **settings);

#endif
