/** @file
 * Labelled data sets in memory. */
#ifndef SHOAL_DATA_H
#define SHOAL_DATA_H

#include "shoal/pipeline.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Rows of features and their classes, or the numbers to be predicted for them. What shoal_dataset_load made owns its memory; a caller may also fill one with
 * tensors of its own. Read-only once made, so any number of threads may use it. */
typedef struct shoal_dataset {
  shoal_tensor features;          /**< u8 or f32 [n, ...]; images are [n, height, width, channels] */
  shoal_tensor labels;            /**< u8, i32 or i64 [n], each in [0, classes); or numbers to be predicted, f32 [n] or
                                   * [n, of each row] */
  int classes;                    /**< how many there are; 0: the labels are numbers */
  float scale;                    /**< what features are to be multiplied with: 1/255 for u8 pixels, else 1 */
  const char *const *class_names; /**< NULL: classes have no names; or those of the first classes, ended by NULL,
                                   * owned */
  const char *preprocessing; /**< what was learned to make numbers of these rows (shoal_pipeline_preprocessing), owned;
                              * NULL: nothing was */
  int32_t *index; /**< NULL; or what the rows of both tensors point to, owned: the data has fewer rows than there are */
} shoal_dataset;

/** `name_or_path`: a name known (shoal_dataset_names), looked for in $SHOAL_DATA/NAME, ./data/NAME, ../data/NAME beside
 * the running binary and where data was installed; or the path of a folder with IDX files (train-images-idx3-ubyte,
 * train-labels-idx1-ubyte, t10k-..., each plain or .gz). split: "train" or "test". */
SHOAL_API SHOAL_CHECKED shoal_status shoal_dataset_load(const char *name_or_path, const char *split,
                                                        shoal_dataset **out);
/** For what shoal_dataset_load made, once no view of it is in use. NULL is fine. */
SHOAL_API void shoal_dataset_destroy(shoal_dataset *data);
/** Rows first .. first + count - 1, not copied: *out borrows from `data` and is not to be destroyed. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_dataset_view(const shoal_dataset *data, int64_t first, int64_t count,
                                                        shoal_dataset *out);
/** Rows of the data. */
SHOAL_API int64_t shoal_dataset_rows(const shoal_dataset *data);
/** The names known, ended by NULL. */
SHOAL_API const char *const *shoal_dataset_names(void);

/** The files of a split ("train" or "test") of a data set known by name, of a folder, or of any other files that a
 * pipeline takes: *out is the caller's to free, for shoal_pipeline_options. What has no splits is all train; asking for
 * the test split of it is SHOAL_ERR_INPUT. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_dataset_files(const char *name_or_path, const char *split, char **out);
/** Reads all rows of files in any format of dense rows with classes or numbers to be predicted, in their order, through a pipeline (whose epochs,
 * shuffling and position do not count). limit: bytes; *out is NULL when features and labels would take more; 0: no limit.
 * To read test rows as the training rows were read, give the class_names and the preprocessing of those. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_dataset_read(const shoal_pipeline_options *options, int64_t limit,
                                                        shoal_dataset **out);

#ifdef __cplusplus
}
#endif
#endif
