/* What a reader of data sets is: one file that defines a row, and its line in the table in dataset.c. */
#ifndef SHOAL_DATA_DATASET_H
#define SHOAL_DATA_DATASET_H

#include "base/status.h"
#include "base/text.h"
#include "shoal/data.h"
#include "shoal/pipeline.h"

typedef struct {
  const char *name;   /* of the format, for messages */
  const char *layout; /* what `path` looks like, for messages */
  /* Does `path` look like this format? Looks at names and first bytes only. */
  bool (*detect)(const char *path);
  /* Fills *out with memory that is released with shoal_tensor_fini. classes: how many there are, or 0 to find out. */
  shoal_status (*load)(const char *path, const char *split, int classes, shoal_dataset *out);
} dataset_reader;

extern const dataset_reader dataset_reader_idx; /* idx_folder.c */

/* The folder in which a known data set lies. *out is the caller's, to be released with text_fini. */
SHOAL_CHECKED shoal_status dataset_path(const char *name, text *out);
/* Which files hold a split ("train", "test") of a data set known by name, of a folder, or of any other files that a
 * pipeline takes. A folder has splits when it holds
 *   train-images-idx3-ubyte, t10k-images-idx3-ubyte (plain or .gz),
 *   data_batch_*, test_batch*,
 *   folders train and test (or val, validation),
 *   files train*, test* (or val*).
 * Otherwise everything is the train split, and asking for the test split is SHOAL_ERR_INPUT. */
SHOAL_CHECKED shoal_status dataset_files(const char *name_or_path, const char *split, text *out);

/* The data set that a description fake:HEIGHTxWIDTHxCHANNELS:CLASSES[:ROWS] names; its one image is held once. */
SHOAL_CHECKED shoal_status dataset_fake(const char *description, shoal_dataset **out);
/* Is it a name known, or a folder that shoal_dataset_load reads? */
bool dataset_loadable(const char *name_or_path);

/* The largest label (-1 without rows) of u8, i32 or i64 labels; INPUT error naming the row when one is negative.
 * `where` opens the message. */
SHOAL_CHECKED shoal_status dataset_label_range(const shoal_tensor *labels, const char *where, int64_t *largest);

#endif
