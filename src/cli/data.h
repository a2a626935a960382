/* What the data commands share: the flags that say how files are read. */
#ifndef SHOAL_CLI_DATA_H
#define SHOAL_CLI_DATA_H

#include "cli/command.h"
#include "shoal/data.h"

typedef struct {
  const char *split, *format, *columns, *fields, *transform, *on_bad_row;
  int64_t features, classes, threads;
  bool no_checksums;
} read_flags;

const char *const *data_bad_row_names(void);
const char *const *data_split_names(void);

/* The rows of a flag table that fill read_flags at `base`. */
#define READ_FLAGS(base)                                                                                            \
  {"split",                                                                                                         \
   FLAG_CHOICE,                                                                                                     \
   (base) + offsetof(read_flags, split),                                                                            \
   "NAME",                                                                                                          \
   "which rows of a folder that has both",                                                                          \
   "train",                                                                                                         \
   .choices = data_split_names},                                                                                    \
      {"format",                                                                                                    \
       FLAG_TEXT,                                                                                                   \
       (base) + offsetof(read_flags, format),                                                                       \
       "NAME",                                                                                                      \
       "of the files; 'shoal data list' names them",                                                                \
       "found out from the content",                                                                                \
       .marks = 0},                                                                                                 \
      {"columns",                                                                                                   \
       FLAG_TEXT,                                                                                                   \
       (base) + offsetof(read_flags, columns),                                                                      \
       "TEXT",                                                                                                      \
       "csv and tsv: which column is what, e.g. label=y,skip=id,missing=mean",                                      \
       .marks = 0},                                                                                                 \
      {"fields",                                                                                                    \
       FLAG_TEXT,                                                                                                   \
       (base) + offsetof(read_flags, fields),                                                                       \
       "NAMES",                                                                                                     \
       "tfrecord: the features that hold label, index and value",                                                   \
       "label,index,value",                                                                                         \
       .marks = 0},                                                                                                 \
      {"features",                                                                                                  \
       FLAG_INT,                                                                                                    \
       (base) + offsetof(read_flags, features),                                                                     \
       "N",                                                                                                         \
       "sparse rows: size of the feature space; an index beyond it is a bad row",                                   \
       "found from the data",                                                                                       \
       .least = 1,                                                                                                  \
       .most = 2147483647},                                                                                         \
      {"classes",                                                                                                   \
       FLAG_INT,                                                                                                    \
       (base) + offsetof(read_flags, classes),                                                                      \
       "N",                                                                                                         \
       "labels are 0 to N - 1; one beyond is a bad row",                                                            \
       "found from the data",                                                                                       \
       .least = 1,                                                                                                  \
       .most = 1e6},                                                                                                \
      {"no-checksums", FLAG_BOOL, (base) + offsetof(read_flags, no_checksums), NULL, "tfrecord: do not check CRCs", \
       .marks = 0},                                                                                                 \
      {"transform",                                                                                                 \
       FLAG_TEXT,                                                                                                   \
       (base) + offsetof(read_flags, transform),                                                                    \
       "STEPS",                                                                                                     \
       "done to each image, e.g. resize=28x28,gray, or row of numbers, e.g. standardise",                           \
       .marks = 0},                                                                                                 \
      {"threads",                                                                                                   \
       FLAG_INT,                                                                                                    \
       (base) + offsetof(read_flags, threads),                                                                      \
       "N",                                                                                                         \
       "threads that decode images",                                                                                \
       "one a processor",                                                                                           \
       .least = 1,                                                                                                  \
       .most = 64},                                                                                                 \
  {                                                                                                                 \
    "on-bad-row", FLAG_CHOICE, (base) + offsetof(read_flags, on_bad_row), "WHAT",                                   \
        "stop, or skip it and count (more than 1 % stops)", "stop", .choices = data_bad_row_names                   \
  }

/* How `data`, files or the name of a known data set, is read with these flags. Texts of *out are borrowed from f, but
 * for `files`, which the caller frees. */
SHOAL_CHECKED shoal_status data_read_options(const read_flags *f, const char *data, shoal_pipeline_options *out);

#endif
