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
#define READ_FLAGS(base)                                                                                              \
  FLAG_IN(base, read_flags, split, "split", CHOICE, "NAME", "which rows of a folder that has both", "train",          \
          .choices = data_split_names),                                                                               \
      FLAG_IN(base, read_flags, format, "format", TEXT, "NAME", "of the files; 'shoal data list' names them",         \
              "detected from the content", .marks = 0),                                                               \
      FLAG_IN(base, read_flags, columns, "columns", TEXT, "TEXT",                                                     \
              "csv and tsv: which column is what, e.g. label=y,skip=id,missing=mean", .marks = 0),                    \
      FLAG_IN(base, read_flags, fields, "fields", TEXT, "NAMES",                                                      \
              "tfrecord: the features that hold label, index and value", "label,index,value", .marks = 0),            \
      FLAG_IN(base, read_flags, features, "features", INT, "N",                                                       \
              "sparse rows: size of the feature space; an index beyond it is a bad row", "taken from the data",       \
              .least = 1, .most = 2147483647),                                                                        \
      FLAG_IN(base, read_flags, classes, "classes", INT, "N", "labels are 0 to N - 1; one beyond is a bad row",       \
              "taken from the data", .least = 1, .most = 1e6),                                                        \
      FLAG_IN(base, read_flags, no_checksums, "no-checksums", BOOL, NULL, "tfrecord: do not check CRCs", .marks = 0), \
      FLAG_IN(base, read_flags, transform, "transform", TEXT, "STEPS",                                                \
              "done to each image, e.g. resize=28x28,gray, or row of numbers, e.g. standardise", .marks = 0),         \
      FLAG_IN(base, read_flags, threads, "threads", INT, "N", "threads that decode images", "one per processor",      \
              .least = 1, .most = 64),                                                                                \
      FLAG_IN(base, read_flags, on_bad_row, "on-bad-row", CHOICE, "WHAT",                                             \
              "stop, or skip it and count (more than 1 % stops)", "stop", .choices = data_bad_row_names)

/* How `data`, files or the name of a known data set, is read with these flags. Texts of *out are borrowed from f, but
 * for `files`, which the caller frees. */
SHOAL_CHECKED shoal_status data_read_options(const read_flags *f, const char *data, shoal_pipeline_options *out);

#endif
