/* Rows with the shape of the Criteo click log, out of a seed: for tests, benchmarks and rehearsals at full size.
 *
 * Indices 1-13 are numbers in [0, 1), the rest are words, one of each of 26 fields, frequent ones first in the field's
 * range; 24 to 39 of both a row. A hidden linear model decides the labels (about 26 % positive), so what a training can
 * reach at best is known: truth.json beside the files says it for the rows of the last file. */
#ifndef SHOAL_DATA_GENERATE_CRITEO_H
#define SHOAL_DATA_GENERATE_CRITEO_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum { CRITEO_LEAST_FEATURES = 40 };

typedef enum {
  CRITEO_TFRECORD, /* tfrecords00 ...: label -1/+1, index, value */
  CRITEO_LIBSVM,   /* clicks00.libsvm ... */
  CRITEO_TSV       /* clicks00.tsv ...: the click log itself; numbers are sixteenths, words stand for indices */
} criteo_form;

typedef struct {
  const char *out; /* a folder, made if it is not there */
  int64_t rows;
  int64_t features; /* 0: CRITEO_FEATURES; else CRITEO_LEAST_FEATURES or more */
  int files;        /* 0: 23; rows are shared out as evenly as they go */
  criteo_form form;
  uint64_t seed;
} criteo_settings;

typedef struct {
  double positive_share; /* of all rows */
  double bias;           /* of the hidden model */
  /* of the last file's rows */
  int64_t test_rows;
  double test_positive_share;
  double test_log_loss;     /* of the hidden model itself, nats a row */
  double test_error;        /* share of rows on the wrong side of the hidden model */
  double constant_log_loss; /* of always saying test_positive_share */
} criteo_truth;

/* Called every few thousand rows; false stops with SHOAL_ERR_CANCELLED. */
typedef bool (*criteo_progress)(void *context, int64_t rows_done, int64_t rows);

/* "tfrecord", "libsvm", "tsv"; false: none of them. */
bool criteo_form_parse(const char *name, criteo_form *out);

/* progress and truth may be NULL. Files come under their names only when they are whole. */
SHOAL_CHECKED shoal_status generate_criteo(const criteo_settings *settings, criteo_progress progress, void *context,
                                           criteo_truth *truth);

#endif
