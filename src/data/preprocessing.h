/* What is learned once from the training rows and then done to all rows alike: to those that are tested or predicted, by
 * every worker, after a resume. It travels as a text, one JSON object:
 *   {"columns": [...], "features": {"step": "standardise", "shift": [...], "scale": [...]}} */
#ifndef SHOAL_DATA_PREPROCESSING_H
#define SHOAL_DATA_PREPROCESSING_H

#include "base/text.h"
#include "data/csv_fit.h"
#include "shoal/data.h"

/* Number i of a row becomes (x - shift[i]) * scale[i]. */
typedef struct {
  char *step; /* of the transform that asked for it, owned; NULL: there is none */
  int64_t count;
  double *shift, *scale; /* [count] */
} feature_scaling;

enum { FEATURE_SCALING_MAX = 1 << 16 };

typedef struct preprocessing {
  csv_fit table; /* no columns: the format has none, or all of them are plain numbers */
  feature_scaling features;
} preprocessing;

/* words NULL: nothing was learned. INPUT error when they are no such object. */
SHOAL_CHECKED shoal_status preprocessing_parse(const char *words, preprocessing *out);
/* *out is the caller's; NULL when nothing was learned. */
SHOAL_CHECKED shoal_status preprocessing_write(const preprocessing *p, char **out);
void preprocessing_fini(preprocessing *p);
void feature_scaling_fini(feature_scaling *s);

/* The columns that are more than plain numbers. learned: as shoal_pipeline_preprocessing gives it. *out [*count] is one
 * block that the caller frees. */
SHOAL_CHECKED shoal_status preprocessing_columns(const char *learned, shoal_data_column **out, int *count);
/* Of columns that are more than plain numbers, a line each, with `indent` before it: "Sex: 2 categories (female,
 * male)". At most `most` of them. learned: as shoal_pipeline_preprocessing gives it. */
SHOAL_CHECKED shoal_status preprocessing_describe(const char *learned, const char *indent, int most, text *out);

#endif
