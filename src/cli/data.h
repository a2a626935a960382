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
#define READ_FLAGS(base)                                                                                               \
  {.name = "split", .kind = FLAG_CHOICE, .offset = (base) + offsetof(read_flags, split), .value = "NAME",              \
   .help = "which rows of a folder that has both", .standard = "train", .choices = data_split_names},                  \
  {.name = "format", .kind = FLAG_TEXT, .offset = (base) + offsetof(read_flags, format), .value = "NAME",            \
   .help = "of the files; 'shoal data list' names them", .standard = "found out from the content"},                    \
      {.name = "columns", .kind = FLAG_TEXT, .offset = (base) + offsetof(read_flags, columns), .value = "TEXT",        \
       .help = "csv and tsv: which column is what, e.g. label=y,skip=id,missing=mean"},                                \
      {.name = "fields", .kind = FLAG_TEXT, .offset = (base) + offsetof(read_flags, fields), .value = "NAMES",         \
       .help = "tfrecord: the features that hold label, index and value", .standard = "label,index,value"},            \
      {.name = "features", .kind = FLAG_INT, .offset = (base) + offsetof(read_flags, features), .value = "N",          \
       .help = "sparse rows: size of the feature space; an index beyond it is a bad row",                              \
       .standard = "found from the data", .least = 1, .most = 2147483647},                                             \
      {.name = "classes", .kind = FLAG_INT, .offset = (base) + offsetof(read_flags, classes), .value = "N",            \
       .help = "labels are 0 to N - 1; one beyond is a bad row", .standard = "found from the data", .least = 1,        \
       .most = 1e6},                                                                                                   \
      {.name = "no-checksums", .kind = FLAG_BOOL, .offset = (base) + offsetof(read_flags, no_checksums),               \
       .help = "tfrecord: do not check CRCs"},                                                                         \
      {.name = "transform", .kind = FLAG_TEXT, .offset = (base) + offsetof(read_flags, transform), .value = "STEPS",   \
       .help = "done to each image, e.g. resize=28x28,gray, or row of numbers, e.g. standardise"},                     \
      {.name = "threads", .kind = FLAG_INT, .offset = (base) + offsetof(read_flags, threads), .value = "N",            \
       .help = "threads that decode images", .standard = "one a processor", .least = 1, .most = 64},                   \
  {                                                                                                                    \
    .name = "on-bad-row", .kind = FLAG_CHOICE, .offset = (base) + offsetof(read_flags, on_bad_row), .value = "WHAT",   \
    .help = "stop, or skip it and count (more than 1 % stops)", .standard = "stop", .choices = data_bad_row_names      \
  }

/* How `data`, files or the name of a known data set, is read with these flags. Texts of *out are borrowed from f, but
 * for `files`, which the caller frees. */
SHOAL_CHECKED shoal_status data_read_options(const read_flags *f, const char *data, shoal_pipeline_options *out);

#endif
