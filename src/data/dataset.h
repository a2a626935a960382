/* What a reader of data sets is: one file that defines a row, and its line in the table in dataset.c. */
#ifndef SHOAL_DATA_DATASET_H
#define SHOAL_DATA_DATASET_H

#include "base/status.h"
#include "shoal/data.h"

typedef struct {
  const char *name;   /* of the format, for messages */
  const char *layout; /* what `path` looks like, for messages */
  /* Does `path` look like this format? Looks at names and first bytes only. */
  bool (*detect)(const char *path);
  /* Fills *out with memory that is released with shoal_tensor_fini. classes: how many there are, or 0 to find out. */
  shoal_status (*load)(const char *path, const char *split, int classes, shoal_dataset *out);
} dataset_reader;

extern const dataset_reader dataset_reader_idx; /* idx_folder.c */

/* The largest label (-1 without rows) of u8, i32 or i64 labels; INPUT error naming the row when one is negative.
 * `where` opens the message. */
SHOAL_CHECKED shoal_status dataset_label_range(const shoal_tensor *labels, const char *where, int64_t *largest);

#endif
