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
  FLAG_IN(base, read_flags, split, "split", CHOICE, "NAME", "which split of a data set that has both", "train",       \
          .choices = data_split_names),                                                                               \
      FLAG_IN(base, read_flags, format, "format", TEXT, "NAME", "file format; 'shoal data list' names them",          \
              "detected from the content", .marks = 0),                                                               \
      FLAG_IN(base, read_flags, columns, "columns", TEXT, "TEXT",                                                     \
              "csv and tsv: roles of the columns, e.g. label=y,skip=id,missing=mean", .marks = 0),                    \
      FLAG_IN(base, read_flags, fields, "fields", TEXT, "NAMES",                                                      \
              "tfrecord: the features that hold label, index and value", "label,index,value", .marks = 0),            \
      FLAG_IN(base, read_flags, features, "features", INT, "N",                                                       \
              "sparse rows: number of features; a row with a larger index is bad", "taken from the data", .least = 1, \
              .most = 2147483647),                                                                                    \
      FLAG_IN(base, read_flags, classes, "classes", INT, "N",                                                         \
              "labels are 0 to N - 1; a row with another label is bad", "taken from the data", .least = 1,            \
              .most = 1e6),                                                                                           \
      FLAG_IN(base, read_flags, no_checksums, "no-checksums", BOOL, NULL, "tfrecord: do not check CRCs", .marks = 0), \
      FLAG_IN(base, read_flags, transform, "transform", TEXT, "STEPS",                                                \
              "applied to each image, e.g. resize=28x28,gray, or row of numbers, e.g. standardise", .marks = 0),      \
      FLAG_IN(base, read_flags, threads, "threads", INT, "N", "threads that decode images", "one per processor",      \
              .least = 1, .most = 64),                                                                                \
      FLAG_IN(base, read_flags, on_bad_row, "on-bad-row", CHOICE, "WHAT",                                             \
              "stop, or skip and count it (more than 1 % bad rows stop the run)", "stop",                             \
              .choices = data_bad_row_names)

/* How `data`, files or the name of a known data set, is read with these flags. Texts of *out are borrowed from f, but
 * for `files`, which the caller frees. */
SHOAL_CHECKED shoal_status data_read_options(const read_flags *f, const char *data, shoal_pipeline_options *out);

#endif
