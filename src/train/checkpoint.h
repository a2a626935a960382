/* Checkpoints: safetensors files DIR/step-000000000120.safetensors and DIR/best.safetensors.
 *
 * 1. A file with its final name is whole: it is written under a temporary name, synced, renamed, and the folder synced.
 * 2. A write that fails (disk full, kill) leaves the earlier checkpoints untouched and no file under a final name. What
 *    a kill leaves under a temporary name goes at the next write.
 * 3. Each file carries a checksum of all its bytes, which is verified before anything of it is used; a damaged checkpoint is
 *    passed over for the one before.
 * 4. Older ones are removed only after the new one is safe; best.safetensors never.
 * 5. One may hold what has changed since another of the folder, its base, which its metadata name by the step. It is whole
 *    when both are. A base is not removed as long as one is kept that needs it.
 *
 * One task writes to a folder at a time. */
#ifndef SHOAL_TRAIN_CHECKPOINT_H
#define SHOAL_TRAIN_CHECKPOINT_H

#include "data/safetensors.h"

/* Name and tensor, both borrowed. One that is read in pieces is written, and checked for when reading, but not
 * filled. */
typedef safetensors_item checkpoint_entry;

/* Writes the checkpoint of `step`, making the folder if need be; then removes all but the newest `keep` up to this step
 * (0: keeps all). metadata: an object of strings, all that is needed to resume exactly; or NULL.
 * *path_out (may be NULL) is the caller's to free. */
SHOAL_CHECKED shoal_status checkpoint_write(const char *dir, uint64_t step, const checkpoint_entry *entries, int n,
                                            const json_t *metadata, int keep, char **path_out);
/* The same in two halves, of which only the first uses the entries: all is written under the temporary name; then, on
 * any thread, it is synced and gets its final name. checkpoint_finish ends *f also when it fails. */
typedef struct {
  char *path, *temporary;
  int fd;
  uint64_t step;
} checkpoint_file;
SHOAL_CHECKED shoal_status checkpoint_begin(const char *dir, uint64_t step, const checkpoint_entry *entries, int n,
                                            const json_t *metadata, checkpoint_file *out);
SHOAL_CHECKED shoal_status checkpoint_finish(checkpoint_file *f, const char *dir, int keep, char **path_out);
/* The same for best.safetensors, which it replaces. */
SHOAL_CHECKED shoal_status checkpoint_write_best(const char *dir, const checkpoint_entry *entries, int n,
                                                 const json_t *metadata, char **path_out);
/* The same for any path: a weights file of a name of the user's choice. The folder must exist. */
SHOAL_CHECKED shoal_status checkpoint_write_path(const char *path, const checkpoint_entry *entries, int n,
                                                 const json_t *metadata);

/* The newest step's checkpoint that opens as whole; *path_out is the caller's to free, NULL when there is none (or no
 * such folder). *note (may be NULL): which ones were passed over and why, the caller's to free; NULL: none were. */
SHOAL_CHECKED shoal_status checkpoint_latest(const char *dir, char **path_out, char **note);

/* Fills the entries' tensors by name. A tensor missing, of another type or shape, or one in the file that is not asked
 * for, is an error that names it, found before any memory is written to. metadata (may be NULL): a new reference, an
 * empty object when the file has none. */
SHOAL_CHECKED shoal_status checkpoint_read(const char *path, checkpoint_entry *entries, int n, json_t **metadata);
/* The same, but the file may hold more: weights alone, out of a checkpoint with the optimizer's slots. */
SHOAL_CHECKED shoal_status checkpoint_read_some(const char *path, checkpoint_entry *entries, int n, json_t **metadata);
/* Only the metadata. */
SHOAL_CHECKED shoal_status checkpoint_metadata(const char *path, json_t **metadata);

#define CHECKPOINT_BASE "base" /* in the metadata: fact 5 */
/* The path of a checkpoint's base, the caller's to free; NULL: it needs none. */
SHOAL_CHECKED shoal_status checkpoint_base(const char *path, char **out);

/* Removes every checkpoint of a folder, best.safetensors included: for a run that starts anew where another was. */
SHOAL_CHECKED shoal_status checkpoint_clear(const char *dir);

#endif
